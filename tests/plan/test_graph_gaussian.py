"""Plans of the private method of the sample split: noise, certificate, refusals, and the runs that follow them."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tacit import HorizontalClassifier, HorizontalRegressor, VerticalClassifier
from tacit.data.datasets import load_a9a
from tacit.errors import InputError
from tacit.mechanisms.base import PrivatePlan
from tacit.mechanisms.gaussian import node as node_module
from tacit.mechanisms.gaussian.node import centre_from
from tacit.plan import Plan
from tacit.privacy.accountant import gdp_mu
from tacit.privacy.releases import Allowed
from tacit.privacy.request import SEEDED, Privacy
from tacit.privacy.verify import verify
from tacit.problem.losses import Softmax
from tacit.run.drive import LoopState
from tacit.run.graph import GraphRun
from tacit.run.result import Result
from tacit.topologies import make_graph
from tacit.types import Arrays, Shard, Vector
from tests.conftest import real_data
from tests.plans import sample_plan

ROWS = (300, 200, 250, 400, 350)


def plan_for(
    rows: tuple[int, ...] = ROWS, columns: int = 4, graph: str = "ring", *, secure: bool = False, **changes: object
) -> Plan:
    given = {"loss": "logistic", "penalty": "l2", "alpha": 1e-4, "fit_intercept": True, "published": False}
    given |= {"rho": "auto", "max_rounds": 1000, "tol": 1e-4, "method": "gaussian"}
    given |= {key: changes.pop(key) for key in list(changes) if key in given}
    return sample_plan(
        **given,  # type: ignore[arg-type]
        privacy=Privacy(**changes),  # type: ignore[arg-type]
        graph=make_graph("star" if secure else graph, len(rows)),
        rows=rows,
        columns=columns,
        secure_aggregation=secure,
    )


def private(plan: Plan) -> PrivatePlan:
    assert plan.private is not None
    return plan.private


def some_data(rows: tuple[int, ...] = ROWS, columns: int = 4, seed: int = 0) -> tuple[list[Vector], list[Vector]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(rows), columns)) + 1.0
    y = np.where((X - 1) @ np.linspace(2, -1, columns) + 0.5 * rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    cuts = np.cumsum(rows)[:-1]
    return np.split(X, cuts), np.split(y, cuts)


def make_run(plan: Plan, seed: int = 0) -> GraphRun:
    tables, labels = some_data(plan.samples.rows, plan.samples.columns, seed)
    return GraphRun(plan, [Shard(name, X) for name, X in zip(plan.graph.names, tables, strict=True)], labels)


# --- noise and certificate -----------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0, 8.0])
def test_the_epsilon_asked_for_is_spent_and_no_more(epsilon: float, unit: str, secure: bool) -> None:
    certificate = plan_for(epsilon=epsilon, unit=unit, secure=secure).certificate()
    assert certificate.unit == unit
    assert 0.99 * epsilon <= certificate.epsilon(1e-5) <= epsilon
    assert verify(certificate.to_json()).agrees
    assert len(certificate.claims) == len(ROWS) + (unit == "person")


def test_the_second_accountant_may_be_asked_for() -> None:
    assert 0.99 <= plan_for(epsilon=1.0, accountant="pld").certificate().epsilon(1e-5) <= 1.0


def test_a_person_pays_for_all_rows_at_once() -> None:
    """Noise of their own: mu grows with the root of the nodes. One noise under masks: with their number."""
    for secure, factor in ((False, math.sqrt(5)), (True, 5.0)):
        one = {claim.unit: claim for claim in plan_for(epsilon=1.0, unit="person", secure=secure).certificate().claims}
        assert gdp_mu(one["person"].epsilon(1e-5), 1e-5) == pytest.approx(
            factor * gdp_mu(one["record"].epsilon(1e-5), 1e-5), rel=1e-3
        )


def test_each_node_may_have_an_epsilon_of_its_own() -> None:
    plan = plan_for(epsilon=1.0, epsilon_by_party={"node 2": 4.0, "node 5": 0.25})
    found = {claim.party: claim.epsilon(1e-5) for claim in plan.certificate().claims}
    for name, asked in {"node 1": 1.0, "node 2": 4.0, "node 3": 1.0, "node 4": 1.0, "node 5": 0.25}.items():
        assert 0.99 * asked <= found[name] <= asked
    assert plan.certificate().epsilon(1e-5) <= 4.0
    noise = private(plan).noise
    assert noise["node 2: gradient"] < noise["node 1: gradient"] < noise["node 5: gradient"]
    assert verify(plan.certificate().to_json()).agrees
    assert make_run(plan).go().model.coef.shape == (4,)


def test_the_rule() -> None:
    """Where few rounds are allowed T = 25, q = T nu, nu = 2 sqrt(n)/(N mu2): a model's noise has deviation sqrt(n/T).

    Else gradients, whose noise is 2 sqrt(T)/mu2, from 60 times to 150 times.
    """
    sizes = {"rows": (3000,) * 10, "columns": 50, "epsilon": 1.0}
    plan = private(plan_for(**sizes, graph="complete", max_rounds=59))  # type: ignore[arg-type]
    settings, mu = plan.settings, gdp_mu(1.0, 1e-5)
    assert settings.rounds == 25
    gradients = private(plan_for(**sizes, graph="complete"))  # type: ignore[arg-type]
    assert gradients.settings.noise == settings.noise
    assert gradients.settings.rounds == min(150, max(60, math.ceil(1 / (5 * settings.noise))))
    own = 2 * math.sqrt(gradients.settings.rounds) / (mu * math.sqrt(0.95))
    assert gradients.noise["node 1: gradient"] == pytest.approx(own, rel=1e-4)
    assert settings.noise == pytest.approx(2 * math.sqrt(10) / (30000 * mu * math.sqrt(0.95)))
    assert settings.pull == pytest.approx(25 * settings.noise)
    assert plan.noise["node 1: model"] == pytest.approx(math.sqrt(10 / 25), rel=1e-3)
    assert plan.noise["node 1: centre"] == pytest.approx(2 / (mu * math.sqrt(0.05)), rel=1e-5)
    masked = private(plan_for(rows=(3000,) * 10, columns=50, epsilon=1.0, secure=True))
    assert masked.settings.noise == pytest.approx(settings.noise / math.sqrt(10))
    total = 2 * math.sqrt(masked.settings.rounds) / (mu * math.sqrt(0.95))
    assert masked.noise["node 1: gradient"] == pytest.approx(total / 3, rel=1e-4)  # nine keep to themselves


def test_the_centre_is_left_out_where_it_would_be_noise() -> None:
    few = private(plan_for(rows=(20, 20, 20), columns=30, epsilon=0.5))
    assert not few.settings.centred
    assert [release.name for release in few.releases["node 1"]] == ["gradient"]
    assert private(plan_for(rows=(5000, 5000, 5000), columns=30, epsilon=0.5)).settings.centred


def test_honest_nodes_share_the_noise() -> None:
    noise = {honest: private(plan_for(epsilon=1.0, secure=True, honest=honest)).noise for honest in (1, 2, 4)}
    for name, sd in noise[1].items():
        assert noise[4][name] == pytest.approx(sd / 2, rel=1e-6)
        assert noise[2][name] == pytest.approx(sd / math.sqrt(2), rel=1e-6)
    alone = plan_for(epsilon=1.0, secure=True, honest=2).certificate()
    assert "any 3 other nodes together" in alone.adversary
    assert any("at least 2 of 5" in line for line in alone.assumptions)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"fit_intercept": False}, "fit_intercept"),
        ({"penalty": "l1"}, "penalty"),
        ({"rho": 0.5}, "rho"),
        ({"published": True}, "published"),
        ({"mechanism": "gram"}, "mechanism"),
        ({"refit": True}, "refit"),
        ({"label_epsilon": 1.0}, "label_epsilon"),
        ({"neighbours": "zero-out"}, "zero-out"),
        ({"loss": "hinge"}, "kink"),
        ({"loss": "sigmoid"}, "convex"),
        ({"loss": "squared_hinge"}, "without bound"),
        ({"loss": "poisson"}, "needs label_norm"),
        ({"loss": "gamma"}, "poisson for counts and amounts"),
        ({"epsilon_by_party": {"nobody": 1.0}}, "nobody"),
        ({"honest": 2}, "honest"),
        ({"honest": 5, "secure": True}, "from 1 to 4"),
        ({"epsilon_by_party": {"node 1": 1.0}, "secure": True}, "epsilon_by_party"),
        ({"rows": (30, 30), "secure": True}, "need 3"),
        ({"rows": (10**8,) * 3, "secure": True, "epsilon": 50.0}, "too many for sums"),
        ({"rows": (10**9,) * 3, "secure": True}, "rounding could move"),
        ({"epsilon": None, "label_epsilon": 1.0}, "epsilon=None"),
    ],
)
def test_what_no_theorem_covers_is_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        plan_for(**change)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_columns_split_between_parties_have_one_epsilon() -> None:
    with pytest.raises(InputError, match="epsilon_by_party"):
        VerticalClassifier(privacy=Privacy(epsilon_by_party={"party 2": 1.0})).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize("asked", [{"epsilon_by_party": {"node 1": 1.0}}, {"honest": 2}])
def test_the_papers_methods_share_neither_epsilons_nor_noise(asked: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(asked))):
        plan_for(method="primal", **asked)  # type: ignore[arg-type]


def test_masks_are_refused_where_they_would_hide_nothing() -> None:
    common = {"loss": "logistic", "penalty": "l2", "alpha": 0.0, "fit_intercept": True, "published": False}
    common |= {"rho": "auto", "max_rounds": 9, "tol": 1e-4, "rows": ROWS, "columns": 2, "secure_aggregation": True}
    two = common | {"rows": (30, 30)}
    with pytest.raises(InputError, match="masks need 3 at least"):
        sample_plan(**two, method="gaussian", privacy=Privacy(), graph=make_graph("ring", 2))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="privacy"):
        sample_plan(**common, method="gaussian", privacy=None, graph=make_graph("star", 5))  # type: ignore[arg-type]


def test_words() -> None:
    said = str(plan_for(epsilon=1.0, noise_seed=1).certificate())
    assert SEEDED in said
    assert "all other nodes together" in said
    assert SEEDED not in str(plan_for(epsilon=1.0).certificate())
    weak, strong = (private(plan_for(rows=(rows,) * 3, epsilon=0.5)).outlook for rows in (30, 100000))
    assert "this is large noise: raise epsilon" in weak[0]
    assert "large noise" not in strong[0]
    assert weak[1].endswith("has 30 of its own")
    for said in (weak, strong):
        assert said[2].startswith("not measured: whether the joint model beats a node's own")


# --- the noise that is really added --------------------------------------------------------------------


def spent_mu(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> float:
    """Mu of node 1 from its certificate's sensitivities and from the noise found in a run."""
    given: dict[str, list[Vector]] = {}
    true = node_module.GaussianNode.__init__

    def watched(self: node_module.GaussianNode, *parts: object) -> None:
        true(self, *parts)  # type: ignore[arg-type]
        if self.place.name == "node 1":
            add = self.release.add

            def listen(name: str, value: Vector) -> Vector:
                noisy = add(name, value)
                given.setdefault(name, []).append(noisy - value)
                return noisy

            self.release.add = listen  # type: ignore[method-assign]

    monkeypatch.setattr(node_module.GaussianNode, "__init__", watched)
    make_run(plan).go()
    events = next(claim.events for claim in plan.certificate().claims if claim.party == "node 1")
    square = 0.0
    for event, (_, noises) in zip(events, given.items(), strict=True):
        assert len(noises) == event.count  # type: ignore[attr-defined]
        sd = float(np.sqrt(np.mean(np.concatenate(noises) ** 2)))
        square += event.count * (event.sensitivity / sd) ** 2  # type: ignore[attr-defined]
    return math.sqrt(square)


@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_of_a_run_is_that_of_its_certificate(secure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_for(rows=(400,) * 4, columns=30, epsilon=1.0, secure=secure, honest=1 if secure else None)
    asked = gdp_mu(1.0, 1e-5)
    assert spent_mu(plan, monkeypatch) == pytest.approx(asked, rel=0.1)
    known = private(plan)
    halved = {
        name: tuple(replace(one, sd=one.sd / 2) for one in planned if isinstance(one, Allowed))
        for name, planned in known.releases.items()
    }
    wrong = replace(plan, private=replace(known, releases=halved))
    assert spent_mu(wrong, monkeypatch) > 1.7 * asked


# --- runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "secure"), [("ring", False), ("random", False), ("star", True)])
def test_a_run_that_goes_on_later_is_the_same(graph: str, secure: bool) -> None:
    plan = plan_for(epsilon=2.0, graph=graph, secure=secure, max_rounds=8)
    kept: dict[int, tuple[dict[str, Arrays], LoopState]] = {}

    def keep(run: GraphRun) -> None:
        kept[run.state.rounds] = copy.deepcopy((run.snapshot(), run.state))

    whole = make_run(plan).go(checkpoint=keep)
    assert len(whole.trace) == private(plan).rounds
    for rounds in (1, 2, 5, 6, 7):
        later = make_run(plan)
        later.restore(*copy.deepcopy(kept[rounds]))
        np.testing.assert_array_equal(later.go().model.coef, whole.model.coef)


def released_in(run: GraphRun) -> dict[str, dict[str, list[Vector]]]:
    """Everything that a run will release, by node and name; filled while it goes."""
    found: dict[str, dict[str, list[Vector]]] = {}
    for node in run.nodes:
        own = found.setdefault(node.name, {})

        def listen(name: str, value: Vector, own: dict = own, add: object = node.releaser.add) -> Vector:  # type: ignore
            own.setdefault(name, []).append(add(name, value))  # type: ignore[operator]
            return own[name][-1]

        node.releaser.add = listen  # type: ignore[union-attr, method-assign, assignment]
    return found


@pytest.mark.parametrize(("secure", "rounds"), [(False, 8), (True, 8), (False, 60)])
def test_the_model_is_a_function_of_released_values_alone(secure: bool, rounds: int) -> None:
    """Whoever knows the releases and public numbers computes it: nothing else entered any round."""
    plan = plan_for(epsilon=2.0, graph="grid", secure=secure, max_rounds=rounds, penalty="none", row_norm=4.0)
    run, settings = make_run(plan), private(plan).settings
    assert settings.rounds == rounds
    found = released_in(run)
    result = run.go()
    total = [np.sum([own["centre"][0] for own in found.values()], axis=0)]
    centre = centre_from(total[0], settings)
    z, shifts, models = np.zeros(5), dict.fromkeys(found, np.zeros(5)), []
    for t in range(rounds):
        if settings.form == "gradient":
            step = min(1 / (settings.noise * rounds), 5 / centre.curvature)
            slope = np.sum([own["gradient"][t] for own in found.values()], axis=0) / settings.total
            if t > 0:
                sure = max(0.0, 1 - 5 * rounds * t * (step * settings.noise) ** 2 / (z @ z))
                along = max(0.0, min(3 * sure, 5 / (centre.curvature * step) - 1))
                slope = slope + along * (slope @ z) / (z @ z) * z
            z = z - step * slope
        else:
            z = np.mean([own["model"][t] + shifts[name] for name, own in found.items()], axis=0)
            shifts = {name: shifts[name] + own["model"][t] - z for name, own in found.items()}
        models.append(z)
    mean = np.mean(models[rounds // 2 :], axis=0)
    np.testing.assert_allclose(result.model.coef, mean[:-1] / (4 * centre.spread), rtol=1e-9, atol=1e-12)
    expected = 0.3 * mean[-1] - mean[:-1] @ centre.mean / centre.spread
    assert result.model.intercept == pytest.approx(expected, rel=1e-9)


def test_all_nodes_have_the_same_model() -> None:
    for graph in ("ring", "star", "complete", "random", "grid"):
        result = make_run(plan_for(epsilon=2.0, graph=graph)).go()
        for node in result.model.parts:
            np.testing.assert_array_equal(node.coef, result.model.parts[0].coef)


def test_one_node_alone_may_publish_its_model() -> None:
    result = make_run(plan_for(rows=(2000,), epsilon=4.0, row_norm=4.0)).go()
    assert len(result.trace) == 1
    assert accuracy(result, (2000,)) > 0.8


def accuracy(result: Result, rows: tuple[int, ...]) -> float:
    tables, labels = some_data(rows, 4, seed=0)
    return float(
        np.mean(np.sign(np.vstack(tables) @ result.model.coef + result.model.intercept) == np.concatenate(labels))
    )


@pytest.mark.parametrize("secure", [False, True])
def test_a_private_model_is_nearly_as_good_as_the_rows_allow(secure: bool) -> None:
    rows = (4000,) * 5
    plan = plan_for(rows=rows, epsilon=1.0, row_norm=4.0, noise_seed=3, secure=secure)
    result = make_run(plan).go()
    tables, labels = some_data(rows)
    best = np.mean(np.sign((np.vstack(tables) - 1) @ np.linspace(2, -1, 4)) == np.concatenate(labels))
    assert accuracy(result, rows) > best - 0.01
    assert result.certificate.private


@lru_cache
def _blobs() -> tuple[Vector, Vector]:
    tables, labels = some_data((6000,))
    return tables[0], labels[0]


@pytest.mark.parametrize("secure", [False, True])
def test_the_classifier(secure: bool) -> None:
    X, y = _blobs()
    model = HorizontalClassifier(
        parties=4,
        graph="star" if secure else "random",
        privacy=Privacy(epsilon=2.0, row_norm=4.0, noise_seed=1),
        secure_aggregation=secure,
        random_state=0,
    ).fit(X, y)
    assert model.score(X, y) > 0.85
    assert np.all(np.abs(model.predict_proba(X).sum(axis=1) - 1) < 1e-12)
    assert model.certificate_.epsilon(1e-5) <= 2.0
    assert model.get_params()["secure_aggregation"] is secure


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_the_regressor(loss: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 3)) + 2
    y = 10 + X @ [5.0, -3.0, 1.0] + rng.normal(size=8000)
    y[:40] += 1e6  # a few labels beyond all bounds move a private model little
    model = HorizontalRegressor(
        loss=loss,
        parties=3,
        graph="ring",
        privacy=Privacy(epsilon=4.0, row_norm=6.0, label_norm=20.0, noise_seed=2),
        random_state=0,
    ).fit(X, y)
    left = model.predict(X[40:]) - y[40:]
    assert np.mean(left**2) < 0.25 * np.var(y[40:])


def test_a9a_is_learnt_by_ten_nodes_at_epsilon_1() -> None:
    data = real_data(load_a9a)
    model = HorizontalClassifier(
        parties=10, alpha=0.0, privacy=Privacy(epsilon=1.0, row_norm=math.sqrt(14), noise_seed=0), random_state=0
    ).fit(data.X_train, data.y_train)
    scores = model.decision_function(data.X_test)
    assert np.logaddexp(0, -data.y_test * scores).mean() < 0.336
    assert model.score(data.X_test, data.y_test) > 0.845


# --- several classes and counts ------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(("loss", "scores"), [(Softmax(5), 5), ("poisson", 1)])
def test_classes_and_counts_are_planned(loss: object, scores: int, secure: bool) -> None:
    plan = plan_for(loss=loss, secure=secure, epsilon=2.0, label_norm=10.0)
    certificate, settings = plan.certificate(), private(plan).settings
    assert 0.99 * 2.0 <= certificate.epsilon(1e-5) <= 2.0
    assert verify(certificate.to_json()).agrees
    assert f"of {5 * scores} numbers" in certificate.per_party["node 1"]
    assert settings.outputs == scores
    binary = private(plan_for(secure=secure, epsilon=2.0)).settings
    assert settings.noise == pytest.approx(binary.noise)  # in units of the slope: sqrt 2 for classes


def test_classes_are_learnt() -> None:
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    X, y = np.tile(X[order], (4, 1)), np.tile(y[order], 4)
    for secure in (False, True):
        privacy = Privacy(epsilon=4.0, row_norm=2.0, noise_seed=1)
        model = HorizontalClassifier(parties=3, privacy=privacy, secure_aggregation=secure).fit(X, y)
        assert model.coef_.shape == (3, 4)
        np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(model.intercept_.sum(), 0, atol=1e-9)
        assert model.score(X, y) > 0.85


@pytest.mark.parametrize("max_rounds", [25, 1000])
def test_mean_counts_are_learnt(max_rounds: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 2))
    truth = np.exp(1.0 + X @ [0.8, -0.5])
    y = rng.poisson(truth).astype(np.float64)
    privacy = Privacy(epsilon=8.0, row_norm=1.5, label_norm=15.0, noise_seed=1)
    secure = max_rounds == 1000  # gradients
    model = HorizontalRegressor(
        "poisson", parties=3, alpha=1e-6, privacy=privacy, secure_aggregation=secure, max_rounds=max_rounds
    ).fit(X, y)
    assert np.abs(np.log(model.predict(X) / truth)).mean() < 0.1
    assert abs(model.predict(X).mean() / y.mean() - 1) < 0.1

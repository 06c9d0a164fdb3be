"""Plans with noisy shares: their noise, their certificate, what they refuse, and the runs that follow them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.data.datasets import load_a9a
from tacit.errors import InputError, RunError
from tacit.mechanisms.shares import SharesParty
from tacit.mechanisms.shares import plan as planner
from tacit.mechanisms.shares.sides import sensitivity
from tacit.plan import FeatureSplit, Plan
from tacit.privacy import accountant
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianRelease
from tacit.privacy.request import SEEDED, Privacy
from tacit.problem.registry import get_loss, get_regularizer
from tacit.run.result import Result
from tacit.run.star import Run
from tacit.solvers.base import Problem
from tacit.types import Shard
from tests.conftest import real_data
from tests.plans import feature_plan

NAMES = ("bank", "phone", "shop")


def plan_for(rows: int = 400, names: tuple[str, ...] = NAMES, **changes: object) -> Plan:
    problem = {"loss": "logistic", "penalty": "l2", "alpha": 1e-3, "fit_intercept": True, "max_rounds": 50}
    problem |= {key: changes.pop(key) for key in list(changes) if key in problem}
    return feature_plan(
        **problem,  # type: ignore[arg-type]
        method="auto",
        rho="auto",
        tol=1e-6,
        privacy=Privacy(**{"mechanism": "shares", **changes}),  # type: ignore[arg-type]
        party_names=names,
        rows=rows,
        input_bytes=1,
        columns=(4,) * len(names),
    )


def some_data(rows: int = 400, seed: int = 0) -> tuple[list[Shard], np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12))
    y = np.where(X @ rng.normal(size=12) + rng.normal(size=rows) > 0.5, 1.0, -1.0)
    return [Shard(name, X[:, 4 * i : 4 * i + 4]) for i, name in enumerate(NAMES)], y


# --- noise and certificate ---------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_certificate_spends_what_was_asked_and_nearly_all_of_it(unit, neighbours, epsilon) -> None:
    plan = plan_for(unit=unit, neighbours=neighbours, epsilon=epsilon)
    certificate = plan.certificate()
    assert 0.99 * epsilon <= certificate.epsilon(1e-5) <= epsilon
    assert Certificate.from_json(certificate.to_json()).epsilon(1e-5) == pytest.approx(certificate.epsilon(1e-5))


@pytest.mark.parametrize("rows", [1, 1000, 10**6])
@pytest.mark.parametrize("rounds", [1, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_noise_is_tight_for_any_number_of_rounds(rows: int, rounds: int, epsilon: float) -> None:
    privacy, layout = Privacy(epsilon=epsilon, mechanism="shares"), FeatureSplit(NAMES, rows, (4, 4, 4), "bank")
    sd = planner._noise(privacy, layout, 1.0, rounds)
    event = planner._event(privacy, layout, 1.0, sd, rounds, "bank")
    assert 0.99 * epsilon <= accountant.epsilon([event], 1e-5) <= epsilon
    assert event.sensitivity >= sensitivity("replace-one", 1.0)


def test_half_the_noise_would_be_noticed() -> None:
    plan = plan_for(epsilon=1.0)
    event = plan.certificate().claims[0].events[0]
    assert isinstance(event, GaussianRelease)
    assert accountant.epsilon([replace(event, noise=event.noise / 2)], 1e-5) > 2.0


def test_the_certificate_counts_exactly_what_may_be_released() -> None:
    private = plan_for(epsilon=1.0, unit="person", label_epsilon=0.3).private
    assert private is not None
    claim = private.certificate.main_claims[0]
    gaussian = {event.party: event for event in claim.events if isinstance(event, GaussianRelease)}
    for name in NAMES:
        (allowed,) = private.releases[name]
        assert (gaussian[name].noise, gaussian[name].count) == (allowed.sd, allowed.times)
    assert private.releases["coordinator"][0].epsilon == claim.events[-1].epsilon == 0.3


@pytest.mark.parametrize(
    ("epsilon", "most", "rounds"), [(0.5, 50, 1), (8.0, 50, 3), (8.0, 2, 2), (1e9, 50, 30), (1e9, 9, 9)]
)
def test_rounds_are_fixed_from_public_numbers(epsilon: float, most: int, rounds: int) -> None:
    private = plan_for(epsilon=epsilon, max_rounds=most).private
    assert private is not None
    assert private.rounds == private.releases["bank"][0].times == rounds


def test_a_person_costs_more_noise_than_a_record_and_a_label_beside_it_more_still() -> None:
    noise = [
        next(iter(plan_for(epsilon=1.0, **asked).private.noise.values()))
        for asked in ({}, {"unit": "person"}, {"unit": "person", "label_epsilon": 0.5})
    ]
    assert noise[1] == pytest.approx(math.sqrt(3) * noise[0], rel=1e-3)
    assert noise[2] > 1.1 * noise[1]
    half = next(iter(plan_for(epsilon=1.0, neighbours="zero-out").private.noise.values()))
    assert half == pytest.approx(noise[0] / 2, rel=1e-3)


def test_the_second_accountant_agrees() -> None:
    gdp, pld = (next(iter(plan_for(epsilon=1.0, accountant=name).private.noise.values())) for name in ("gdp", "pld"))
    assert gdp <= pld <= 1.01 * gdp


def test_noise_follows_the_size_of_a_share() -> None:
    small, large = (
        next(iter(plan_for(epsilon=1.0, **asked).private.noise.values()))
        for asked in ({"coef_norm": 0.5}, {"coef_norm": 2.0, "row_norm": 3.0})
    )
    assert large == pytest.approx(12 * small, rel=1e-5)


def test_the_certificate_says_what_it_does_not_cover() -> None:
    text = str(plan_for(epsilon=1.0).certificate())
    for said in ("gives each label away", "give its coefficients away", "must stay with it", "docs/proofs/shares.md"):
        assert said in text
    assert SEEDED not in text
    assert SEEDED in str(plan_for(epsilon=1.0, noise_seed=1).certificate())
    assert "gives each label away" not in str(plan_for(epsilon=1.0, label_epsilon=1.0).certificate())
    assert "local differential privacy in disguise" in plan_for(epsilon=1.0).private.outlook[0]


@pytest.mark.parametrize(
    ("asked", "way_out"),
    [
        ({"penalty": "l1"}, 'give penalty="l2"'),
        ({"penalty": None}, 'give penalty="l2"'),
        ({"loss": "sigmoid"}, "not convex"),
        ({"refit": True}, "leave it out"),
        ({"protect": "everyone"}, "give label_epsilon"),
        ({"loss": "squared", "label_epsilon": 1.0}, "leave label_epsilon out"),
        ({"row_norm": {"bank": 1.0, "phone": 2.0, "shop": 1.0}}, "give one number"),
        ({"names": ("bank",)}, "leave privacy out"),
    ],
)
def test_what_has_no_proof_is_refused_in_one_line(asked: dict, way_out: str) -> None:
    with pytest.raises(InputError, match=way_out) as caught:
        plan_for(**asked)
    assert "\n" not in str(caught.value)


def test_equal_norms_by_party_and_everyone_with_labels_are_fine() -> None:
    norms = dict.fromkeys(NAMES, 2.0)
    private = plan_for(row_norm=norms, protect="everyone", label_epsilon=1.0).private
    assert private is not None
    assert private.settings.bound == 2.0


# --- runs --------------------------------------------------------------------------------------------


def finish(plan: Plan, seed: int = 0) -> Result:
    shards, labels = some_data(seed=seed)
    return Run(plan, shards, labels).go()


def test_a_run_makes_the_planned_releases_with_the_planned_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    values, released = [], []
    step = SharesParty.step

    def watched(self: SharesParty, round_: int, inbox: dict) -> dict:
        add = self.release.add
        self.release.add = lambda name, value: (values.append(value), add(name, value))[1]  # type: ignore[method-assign]
        answer = step(self, round_, inbox)
        self.release.add = add  # type: ignore[method-assign]
        released.append(answer["share"])
        return answer

    monkeypatch.setattr(SharesParty, "step", watched)
    plan = plan_for(epsilon=8.0)
    result = finish(plan)
    assert plan.private is not None
    assert len(released) == 3 * plan.private.rounds == 3 * len(result.trace) == 9
    noise = np.concatenate([r - v for r, v in zip(released, values, strict=True)])
    sd = plan.private.releases["bank"][0].sd
    assert np.std(noise) == pytest.approx(sd, rel=0.05)
    assert all(np.abs(v).max() <= 1.0 + 1e-9 for v in values)
    assert [p.clip.norm for p in result.model.parts] == [1.0] * 3


def test_one_release_more_than_planned_is_refused() -> None:
    plan = plan_for(epsilon=1.0)
    assert plan.private is not None
    longer = replace(plan, private=replace(plan.private, rounds=plan.private.rounds + 1))
    with pytest.raises(RunError, match="not once more"):
        finish(longer)


@pytest.mark.parametrize("seed", [None, 7])
def test_a_run_that_was_killed_repeats_its_noise_and_ends_on_the_same_model(seed: int | None) -> None:
    plan, (shards, labels) = plan_for(epsilon=8.0, noise_seed=seed), some_data()
    kept, heard = [], []

    def keep(run: Run) -> None:
        if run.state.rounds == 1:
            copies = {who: {k: v.copy() for k, v in arrays.items()} for who, arrays in run.snapshot().items()}
            kept.append((copies, replace(run.state, trace=type(run.state.trace)(run.state.trace))))

    def listen(run: Run) -> None:
        exchange = run.engine.exchange

        def heard_exchange(message):
            answers = exchange(message)
            heard[-1].extend(answer.arrays["share"] for answer in answers if "share" in answer.arrays)
            return answers

        heard.append([])
        run.engine.exchange = heard_exchange  # type: ignore[method-assign]

    first = Run(plan, shards, labels)
    listen(first)
    whole = first.go(checkpoint=keep)
    again = Run(plan, shards, labels)
    again.restore(*kept[0])
    listen(again)
    resumed = again.go()
    assert len(heard[0]) == 9
    for a, b in zip(heard[0][3:], heard[1], strict=True):
        np.testing.assert_array_equal(a, b)
    for p, r in zip(whole.model.parts, resumed.model.parts, strict=True):
        np.testing.assert_array_equal(p.coef, r.coef)
    assert whole.model.intercept == resumed.model.intercept


def test_two_runs_without_a_seed_have_different_noise() -> None:
    a, b = (finish(plan_for(epsilon=1.0)) for _ in range(2))
    assert not np.allclose(a.model.parts[0].coef, b.model.parts[0].coef)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "squared", "huber", "absolute", "poisson"])
def test_every_convex_loss_runs(loss: str, fit_intercept: bool) -> None:
    shards, labels = some_data()
    y = {"poisson": labels + 1.0}.get(loss, labels)
    result = Run(plan_for(loss=loss, epsilon=4.0, noise_seed=0, fit_intercept=fit_intercept), shards, y).go()
    assert all(np.all(np.isfinite(party.coef)) for party in result.model.parts)
    assert all(math.isnan(row.objective) for row in result.trace)
    assert math.isfinite(result.model.intercept)
    assert fit_intercept or result.model.intercept == 0.0


def test_with_hardly_any_noise_it_is_sharing_itself() -> None:
    """A large ball and a large epsilon: the loss itself, many rounds, and the model of the ordinary algorithm."""
    shards, labels = some_data(rows=300)
    asked = {"epsilon": 1e8, "coef_norm": 5.0, "row_norm": 5.0, "noise_seed": 0, "alpha": 1e-2}
    plan = plan_for(rows=300, **asked)
    assert plan.private is not None
    assert not plan.private.settings.quadratic
    assert plan.private.rounds == 30
    result = Run(plan, shards, labels).go()
    ordinary = feature_plan(
        loss="logistic",
        penalty="l2",
        alpha=1e-2,
        fit_intercept=True,
        method="memory",
        rho="auto",
        max_rounds=100,
        tol=1e-9,
        privacy=None,
        party_names=NAMES,
        rows=300,
        input_bytes=1,
    )
    exact = Run(ordinary, shards, labels).go()
    joint, reference = (np.concatenate([p.coef for p in r.model.parts]) for r in (result, exact))
    assert np.linalg.norm(joint - reference) <= 0.02 * np.linalg.norm(reference)
    assert all(math.isnan(row.objective) for row in result.trace)  # no release covers it, whatever epsilon is


def log_loss(result: Result, shards: list[Shard], labels: np.ndarray) -> float:
    scores = sum(p.score(s.features) for p, s in zip(result.model.parts, shards, strict=True)) + result.model.intercept
    return float(get_loss("logistic").total(scores, labels)) / labels.size


def test_the_joint_model_beats_a_constant_and_every_party_alone_where_rows_are_many() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60_000, 6)) / np.sqrt(6)
    y = np.where(2 * X @ np.array([1.0, -1, 1, 1, -1, 1]) + rng.logistic(size=60_000) > 0.7, 1.0, -1.0)
    train, test = slice(0, 40_000), slice(40_000, None)
    names = ("left", "right")
    blocks = [X[:, :3], X[:, 3:]]
    plan = plan_for(rows=40_000, names=names, epsilon=4.0, noise_seed=1, alpha=1e-4)
    result = Run(plan, [Shard(n, b[train]) for n, b in zip(names, blocks, strict=True)], y[train]).go()
    found = log_loss(result, [Shard(n, b[test]) for n, b in zip(names, blocks, strict=True)], y[test])
    share = float(np.mean(y[train] > 0))
    constant = -np.mean(np.where(y[test] > 0, np.log(share), np.log(1 - share)))
    alone = [_alone(block[train], y[train], block[test], y[test]) for block in blocks]
    together = _alone(X[train], y[train], X[test], y[test])
    assert together < found < min(alone) < constant


def test_on_a9a_it_beats_the_label_holder_alone_at_moderate_epsilon() -> None:
    data = real_data(load_a9a)
    y, truth = (np.where(labels > 0, 1.0, -1.0) for labels in (data.y_train, data.y_test))
    names, cuts = ("left", "right"), (slice(0, 66), slice(66, None))
    plan = plan_for(rows=y.size, names=names, epsilon=4.0, noise_seed=0, alpha=1e-4)
    result = Run(plan, [Shard(n, data.X_train[:, c]) for n, c in zip(names, cuts, strict=True)], y).go()
    found = log_loss(result, [Shard(n, data.X_test[:, c]) for n, c in zip(names, cuts, strict=True)], truth)
    assert 0.3239 < found < 0.3494  # joint without noise, and the label holder alone


def _alone(train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss as score

    model = LogisticRegression(C=100.0).fit(train, labels)
    return float(score(truth, model.predict_proba(test)))


def test_a_start_from_data_is_refused() -> None:
    plan, (shards, labels) = plan_for(epsilon=1.0), some_data()
    run = Run(plan, shards, labels)
    for side in (run.parties[0].side.start_at, run.coordinator.side.start_at):
        with pytest.raises(RunError, match="starts from zero"):
            side(np.zeros(4)) if side.__self__ is run.parties[0].side else side({}, 0.0)


def test_too_many_columns_for_the_rounding_bound_are_refused() -> None:
    class Wide:
        n, d = 10**9, 10**7

    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-3, True, 2, 10**9, 1e-6)
    plan = plan_for(epsilon=1.0)
    assert plan.private is not None
    with pytest.raises(RunError, match="rounding is not bounded"):
        SharesParty(problem, Wide(), plan.private.settings, None)  # type: ignore[arg-type]

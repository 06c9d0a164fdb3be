"""Noise that is split between the parties under masks: numbers, words, refusals, and runs. Proof: shares.md, 5."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

from tacit import VerticalClassifier
from tacit.blocks.dense import Block
from tacit.data.datasets import load_a9a
from tacit.errors import InputError
from tacit.mechanisms.shares import SharesCoordinator, SharesParty, SharesSettings
from tacit.mechanisms.shares.sides import sensitivity
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.certificate import up
from tacit.privacy.events import GaussianRelease
from tacit.privacy.randomness import grid_step
from tacit.privacy.request import Privacy
from tacit.privacy.verify import verify
from tacit.problem.registry import get_loss, get_regularizer
from tacit.run.star import Run
from tacit.solvers.base import Problem
from tacit.types import Shard
from tests.conftest import real_data
from tests.plans import feature_plan

NAMES = ("bank", "phone", "shop", "post")


def plan_for(names: tuple[str, ...] = NAMES, secure: bool = True, **changes: object) -> Plan:
    return feature_plan(
        loss="logistic",
        penalty="l2",
        alpha=1e-3,
        fit_intercept=True,
        method="auto",
        rho="auto",
        max_rounds=changes.pop("max_rounds", 50),  # type: ignore[arg-type]
        tol=1e-6,
        privacy=Privacy(**{"mechanism": "shares", "honest": 3, **changes}),  # type: ignore[arg-type]
        party_names=names,
        rows=400,
        input_bytes=1,
        columns=(3,) * len(names),
        secure_aggregation=secure,
    )


def some_data(rows: int = 400) -> tuple[list[Shard], np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 12))
    y = np.where(X @ rng.normal(size=12) + rng.normal(size=rows) > 0.5, 1.0, -1.0)
    return [Shard(name, X[:, 3 * i : 3 * i + 3]) for i, name in enumerate(NAMES)], y


# --- numbers and words -------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("honest", [2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0])
def test_all_noise_counts_and_each_party_adds_its_part(epsilon: float, honest: int, neighbours: str) -> None:
    plan = plan_for(epsilon=epsilon, honest=honest, neighbours=neighbours)
    assert plan.private is not None
    certificate = plan.certificate()
    assert 0.99 * epsilon <= certificate.epsilon(1e-5) <= epsilon
    assert len(certificate.main_claims) == len(NAMES)
    for claim in certificate.main_claims:
        (event,), (allowed,) = claim.events, plan.private.releases[claim.party]
        assert isinstance(event, GaussianRelease)
        assert event.noise <= allowed.sd * math.sqrt(honest)
        assert event.noise == pytest.approx(allowed.sd * math.sqrt(honest), rel=1e-12)
        assert event.count == allowed.times == plan.private.rounds == 2
        assert event.sensitivity >= sensitivity(neighbours, 0.5) + grid_step(allowed.sd) * math.sqrt(400)
    checked = verify(certificate.to_json())
    assert checked.agrees
    assert checked.claimed == certificate.epsilon(1e-5)


@pytest.mark.parametrize("honest", [2, 3])
def test_without_the_assumption_epsilon_is_that_of_a_party_alone(honest: int) -> None:
    plan = plan_for(epsilon=2.0, honest=honest)
    assert plan.private is not None
    certificate, sd = plan.certificate(), plan.private.releases["bank"][0].sd
    event = certificate.main_claims[0].events[0]
    assert isinstance(event, GaussianRelease)
    own = replace(event, noise=sd)
    assert own.mu == pytest.approx(math.sqrt(honest) * event.mu, rel=1e-12)
    alone = accountant.epsilon([own], 1e-5)
    assert alone > 1.4 * certificate.epsilon(1e-5)
    (said,) = (line for line in certificate.does_not_cover if "pool what they know" in line)
    assert said.startswith(f"{5 - honest} or more other parties")
    assert f"epsilon {up(alone)} at delta 1e-05" in said


def test_the_noise_falls_with_the_root_of_the_honest_parties() -> None:
    sd = {honest: plan_for(honest=honest, epsilon=1.0).private.releases["bank"][0].sd for honest in (2, 3)}  # type: ignore[union-attr]
    assert sd[2] / sd[3] == pytest.approx(math.sqrt(1.5), rel=1e-4)
    whole = plan_for(honest=1, epsilon=1.0, max_rounds=1).private.releases["bank"][0].sd  # type: ignore[union-attr]
    part = plan_for(honest=3, epsilon=1.0, max_rounds=1).private.releases["bank"][0].sd  # type: ignore[union-attr]
    assert whole / part == pytest.approx(math.sqrt(3), rel=1e-4)


def test_the_certificate_names_the_adversary_and_the_assumption() -> None:
    two = plan_for(honest=2, epsilon=1.0).certificate()
    assert two.adversary.startswith("the coordinator together with at most 1 other party")
    against = {claim.party: claim.adversary for claim in two.main_claims}
    assert against["bank"].startswith("any 2 other parties together")  # who holds the labels is the coordinator
    assert against["phone"].startswith("the coordinator together with at most 1 other party")
    assert "all other parties" not in " ".join(against.values())
    assert any("honest=2" in line for line in two.assumptions)
    assert any("rests on the masks" in line for line in two.assumptions)
    assert two.main_claims[0].theorem.endswith("theorem 5)")
    three = plan_for(honest=3, epsilon=1.0).certificate()
    assert three.adversary.startswith("the coordinator, or any one other party")


@pytest.mark.parametrize("honest", [None, 1])
def test_with_one_honest_party_nothing_is_split(honest: int | None) -> None:
    plan = plan_for(honest=honest, epsilon=2.0)
    assert plan.private is not None
    assert plan.private.certificate == plan_for(honest=None, epsilon=2.0, secure=False).private.certificate  # type: ignore[union-attr]
    assert not plan.private.settings.steps
    assert "all other parties together" in plan.certificate().adversary


@pytest.mark.parametrize(
    ("asked", "way_out"),
    [
        ({"secure": False}, "give secure_aggregation=True, or leave honest out"),
        ({"secure": False, "honest": 1}, "give secure_aggregation=True"),
        ({"honest": 4}, "give at most 3"),
        ({"honest": 5}, "give at most 3"),
        ({"honest": 2, "names": NAMES[:2]}, "give at most 1"),
        ({"unit": "person"}, "leave honest out"),
        ({"coef_norm": 1e-12}, "leave honest out"),
        ({"coef_norm": 1e16}, "leave honest out"),
        ({"epsilon": 1e18}, "leave honest out"),
    ],
)
def test_what_cannot_be_split_is_refused_in_one_line(asked: dict, way_out: str) -> None:
    with pytest.raises(InputError, match=way_out) as caught:
        plan_for(**asked)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mechanism", ["auto", "gram", "published", "published-inverse"])
def test_other_mechanisms_do_not_split(mechanism: str) -> None:
    with pytest.raises(InputError, match="leave honest out"):
        plan_for(mechanism=mechanism, honest=2)


@pytest.mark.parametrize("honest", [0, -1, 2.0, True, "2"])
def test_honest_is_a_number_of_parties(honest: object) -> None:
    with pytest.raises(InputError, match="whole number from 1"):
        Privacy(mechanism="shares", honest=honest)  # type: ignore[arg-type]


# --- a step depends on the rows and the broadcast alone ----------------------------------------------


class Listener:
    """A release that keeps what it is given and adds noise of its own."""

    def __init__(self, seed: int) -> None:
        self.values: list[np.ndarray] = []
        self.rng = np.random.default_rng(seed)

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        self.values.append(value)
        return value + self.rng.normal(size=value.size)


def answers(rows: np.ndarray, seed: int, steps: bool, bound: float = 0.5) -> list[np.ndarray]:
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-3, True, 3, len(rows), 1e-6)
    release = Listener(seed)
    party = SharesParty(problem, Block(rows), SharesSettings(1.0, bound, steps=steps), release)  # type: ignore[arg-type]
    rng = np.random.default_rng(99)
    for round_ in range(3):
        party.step(round_, {"q": rng.normal(size=len(rows)), "control": np.array([0.25])})
    return release.values


def test_the_noise_of_the_past_enters_no_step() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 3))
    for first, second in zip(answers(rows, 1, steps=True), answers(rows, 2, steps=True), strict=True):
        np.testing.assert_array_equal(first, second)
    first, second = answers(rows, 1, steps=False)[1], answers(rows, 2, steps=False)[1]
    assert np.linalg.norm(first - second) > 0.1  # which is why shares that depend on their past cannot be split


@pytest.mark.parametrize("seed", range(20))
def test_one_row_moves_every_step_by_at_most_the_sensitivity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 3 * rng.normal(size=(30, 2)) + 3
    other = rows.copy()
    other[0] *= -1
    moved = [
        float(np.linalg.norm(a - b))
        for a, b in zip(answers(rows, 1, steps=True), answers(other, 2, steps=True), strict=True)
    ]
    assert max(moved) <= sensitivity("replace-one", 0.5)
    assert max(moved) > 0.1


@pytest.mark.parametrize("steps", [True, False])
def test_the_coordinator_adds_steps_up_and_replaces_shares(steps: bool) -> None:
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-3, True, 3, 4, 1e-6)
    side = SharesCoordinator(problem, np.array([1.0, -1.0, 1.0, -1.0]), SharesSettings(1.0, 0.5, steps=steps))
    first, second = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.5, -1.0, 0.0])
    for total in (first, second):
        side.broadcast()
        side.combine({"share": total})
    scores = side.copies * side.a - side.base_intercept
    np.testing.assert_allclose(scores, first + second if steps else second)


# --- runs --------------------------------------------------------------------------------------------


def test_the_coordinator_gets_the_sum_with_all_parties_noise_unrounded(monkeypatch: pytest.MonkeyPatch) -> None:
    values, sums = [], []
    step, combine = SharesParty.step, SharesCoordinator.combine

    def watched(self: SharesParty, round_: int, inbox: dict) -> dict:
        add = self.release.add
        self.release.add = lambda name, value: (values.append(value), add(name, value))[1]  # type: ignore[method-assign]
        answer = step(self, round_, inbox)
        self.release.add = add  # type: ignore[method-assign]
        return answer

    def heard(self: SharesCoordinator, total: dict) -> object:
        sums.append(total["share"])
        return combine(self, total)

    monkeypatch.setattr(SharesParty, "step", watched)
    monkeypatch.setattr(SharesCoordinator, "combine", heard)
    plan, (shards, labels) = plan_for(epsilon=2.0), some_data()
    assert plan.private is not None
    result = Run(plan, shards, labels).go()
    assert len(result.trace) == len(sums) == 2
    sd = plan.private.releases["bank"][0].sd
    noise = np.concatenate([total - sum(values[4 * i : 4 * i + 4]) for i, total in enumerate(sums)])
    assert np.std(noise) == pytest.approx(2 * sd, rel=0.1)
    in_steps = np.concatenate(sums) / grid_step(sd)
    np.testing.assert_array_equal(in_steps, np.rint(in_steps))
    assert max(np.abs(v).max() for v in values) <= 0.5 + 1e-9


def test_a_run_that_was_killed_ends_on_the_same_model() -> None:
    plan, (shards, labels) = plan_for(epsilon=8.0), some_data()
    kept = []

    def keep(run: Run) -> None:
        if run.state.rounds == 1:
            copies = {who: {k: v.copy() for k, v in arrays.items()} for who, arrays in run.snapshot().items()}
            kept.append((copies, replace(run.state, trace=type(run.state.trace)(run.state.trace))))

    whole = Run(plan, shards, labels).go(checkpoint=keep)
    again = Run(plan, shards, labels)
    again.restore(*kept[0])
    resumed = again.go()
    for p, r in zip(whole.model.parts, resumed.model.parts, strict=True):
        np.testing.assert_array_equal(p.coef, r.coef)
    assert whole.model.intercept == resumed.model.intercept


def fitted_loss(data: tuple[np.ndarray, ...], parties: int, seed: int, **asked: object) -> float:
    X, y, X_test, y_test = data
    privacy = Privacy(mechanism="shares", noise_seed=seed, **asked)  # type: ignore[arg-type]
    model = VerticalClassifier(parties=parties, alpha=1e-4, secure_aggregation=True, privacy=privacy).fit(X, y)
    assert model.certificate_.epsilon(1e-5) <= asked["epsilon"]  # type: ignore[operator]
    return float(log_loss(y_test, model.predict_proba(X_test)[:, 1]))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_eight_parties_gain_by_splitting(epsilon: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30_000, 16)) / 2
    y = X @ rng.normal(size=16) + rng.logistic(size=len(X)) > 0.5
    data = (X[:15_000], y[:15_000], X[15_000:], y[15_000:])
    losses = {honest: fitted_loss(data, 8, 0, epsilon=epsilon, honest=honest) for honest in (None, 2, 7)}
    assert losses[7] < losses[2] - 1e-3
    assert losses[7] < losses[None] - 5e-3


def test_on_a9a_four_parties_gain_by_splitting() -> None:
    data = real_data(load_a9a)
    sets = (data.X_train, data.y_train, data.X_test, data.y_test)
    apart, split = (np.mean([fitted_loss(sets, 4, s, epsilon=2.0, honest=h) for s in range(2)]) for h in (None, 3))
    assert split < 0.345 < apart

"""Sensitivities of the private method of the sample split by replay: same transcript, neighbouring rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import softmax

from tacit.blocks.dense import Block
from tacit.errors import InputError
from tacit.mechanisms.gaussian import node as centre_module
from tacit.mechanisms.gaussian.node import (
    CENTRE,
    GRADIENT,
    MODEL,
    CentredRows,
    ExactNode,
    GaussianNode,
    GradientNode,
    UnitRows,
)
from tacit.mechanisms.gaussian.settings import GaussianSettings, gradient_sensitivity, model_sensitivity, solve_rounding
from tacit.plan import Plan
from tacit.privacy.request import Privacy
from tacit.problem.losses import Huber, Softmax
from tacit.problem.losses.families import BoundedPoisson
from tacit.problem.losses.half import Half
from tacit.solvers.consensus import NodeData
from tacit.solvers.consensus.local import LocalProblem, Solved
from tacit.topologies import make_graph
from tacit.types import Vector
from tests.plans import sample_plan


class Watch:
    """A release without noise that keeps what it was given."""

    owner = "node 1"

    def __init__(self) -> None:
        self.given: dict[str, Vector] = {}

    def add(self, name: str, value: Vector) -> Vector:
        self.given[name] = np.array(value)
        return self.given[name]

    def respond(self, name: str, symbols: Vector) -> np.ndarray:
        raise AssertionError("not planned")

    def uniform(self, size: int) -> Vector:
        raise AssertionError("not planned")


@lru_cache
def plan_for(
    rows: tuple[int, ...],
    columns: int,
    *,
    secure: bool,
    loss: object = "logistic",
    gradients: bool = False,
    **asked: object,
) -> Plan:
    """Without masks: exact solves, as where few rounds are allowed, or gradients."""
    asked = ({"label_norm": 2.0} if loss == "poisson" else {}) | asked
    return sample_plan(
        loss=loss,  # type: ignore[arg-type]
        penalty="l2",
        alpha=1e-3,
        fit_intercept=True,
        method="gaussian",
        published=False,
        rho="auto",
        max_rounds=1000 if secure or gradients else 25,
        tol=1e-4,
        privacy=Privacy(**asked),  # type: ignore[arg-type]
        graph=make_graph("star" if secure else "ring", len(rows)),
        rows=rows,
        columns=columns,
        secure_aggregation=secure,
    )


def sides(plan: Plan, X: Vector, y: Vector) -> tuple[GaussianNode, Watch]:
    assert plan.private is not None
    watch = Watch()
    place = plan.place("node 1")
    side = plan.private.solver.node(plan.problem, place, NodeData(Block(X), y), plan.private.settings, watch)
    assert isinstance(side, GaussianNode)
    return side, watch


def released(plan: Plan, X: Vector, y: Vector, state: dict[str, Vector]) -> Vector:
    """What a node would release in this state, without noise."""
    side, watch = sides(plan, X, y)
    side.restore(state)
    side._release()
    (value,) = watch.given.values()
    return value


def transcript(
    rng: np.random.Generator, columns: int, *, first: bool, far: float, outputs: int = 1
) -> dict[str, Vector]:
    """Any state that released values may have led to."""
    mean = rng.normal(size=columns)
    mean *= rng.uniform() / np.linalg.norm(mean)
    spread = math.sqrt(rng.uniform(0.3, 1.0))
    z, shift = (far * rng.normal(size=(columns + 1) * outputs) for _ in range(2))
    zero = np.zeros((columns + 1) * outputs)
    numbers = np.array([0.0 if first else 1.0, spread, 0.5])
    return {"z": z, "mean_z": zero, "own": zero, "shift": shift, "mean": mean, "numbers": numbers} | {
        "tree.begun": np.zeros(1)
    }


def neighbours(rng: np.random.Generator, rows: int, columns: int, task: str) -> tuple[Vector, Vector, Vector, Vector]:
    """Rows and labels that differ in the first row and label."""
    X = rng.normal(size=(rows, columns)) * rng.choice([0.01, 0.3, 3.0], size=(rows, 1))
    y = LABELS[task](rng, rows)
    X2, y2 = X.copy(), y.copy()
    kind = rng.integers(3)
    X2[0] = -X[0] if kind == 0 else X[0] if kind == 1 else rng.normal(size=columns)
    if rng.integers(2) or kind == 1:
        y2[0] = -y[0] if task in ("classification", "regression") else LABELS[task](rng, 1)[0]
    return X, y, X2, y2


SEVERAL = Softmax(4)
LABELS: dict[str, Callable[[np.random.Generator, int], Vector]] = {
    "classification": lambda rng, rows: rng.choice([-1.0, 1.0], rows),
    "classes": lambda rng, rows: rng.integers(4, size=rows).astype(np.float64),
    "counts": lambda rng, rows: rng.choice([0.0, 1.0, 2.0, 50.0], rows),
    "regression": lambda rng, rows: 5 * rng.normal(size=rows),
}
LOSSES: dict[object, str] = {
    "logistic": "classification",
    "squared": "regression",
    "absolute": "regression",
    SEVERAL: "classes",
    "poisson": "counts",
}


def ratios(secure: bool, what: str, pairs: int, seed: int) -> Vector:
    """Distance over its bound, for many pairs and transcripts."""
    rng, found = np.random.default_rng(seed), []
    for k in range(pairs):
        rows, columns = int(rng.choice([1, 3, 12])), int(rng.choice([1, 2, 5]))
        plain = what == GRADIENT and not secure  # it is for classes alone
        loss = ("logistic", SEVERAL)[k % 2] if plain else list(LOSSES)[k % len(LOSSES)]
        total, epsilon = (rows, 40, 500), float(rng.choice([0.3, 1.0, 8.0]))
        plan = plan_for(total, columns, secure=secure, loss=loss, gradients=plain, epsilon=epsilon)
        assert plan.private is not None
        settings = plan.private.settings
        X, y, X2, y2 = neighbours(rng, rows, columns, LOSSES[loss])
        far = float(rng.choice([0.0, 0.1, 1.0, 30.0]))
        state = transcript(rng, columns, first=what == CENTRE, far=far, outputs=settings.outputs)
        apart = np.linalg.norm(released(plan, X, y, state) - released(plan, X2, y2, state))
        most = max(total)
        bound = {
            CENTRE: 2.0,
            MODEL: model_sensitivity(settings, most) if what == MODEL else 0.0,
            GRADIENT: gradient_sensitivity(settings, most),
        }[what]
        found.append(apart / bound)
    return np.array(found)


@pytest.mark.parametrize(
    ("secure", "what", "pairs"),
    [(False, CENTRE, 400), (True, CENTRE, 400), (False, MODEL, 800), (True, GRADIENT, 800), (False, GRADIENT, 400)],
)
def test_no_neighbour_moves_a_release_further_than_its_bound(secure: bool, what: str, pairs: int) -> None:
    found = ratios(secure, what, pairs, seed=pairs)
    assert found.size == pairs
    assert found.max() <= 1 + 1e-12
    assert found.max() > 0.9  # the bounds are not loose


def test_bounds_are_reached() -> None:
    X = np.array([[1.0, 0.0, 0.0]])
    for secure, what in ((False, MODEL), (True, GRADIENT), (False, GRADIENT)):
        plan = plan_for((1, 4000, 4000), 3, secure=secure, gradients=what == GRADIENT, epsilon=1.0)
        assert plan.private is not None
        settings = plan.private.settings
        state = transcript(np.random.default_rng(0), 3, first=False, far=0.0)
        bound = model_sensitivity(settings, 4000) if what == MODEL else gradient_sensitivity(settings, 4000)
        apart = released(plan, X, np.array([1.0]), state) - released(plan, X, np.array([-1.0]), state)
        assert 0.95 < np.linalg.norm(apart) / bound <= 1


def test_rows_that_are_not_weighted_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        CentredRows, "norms", property(lambda self: np.ones(self.n), lambda self, value: None), raising=False
    )
    assert ratios(True, GRADIENT, 60, seed=1).max() > 1.2
    assert ratios(False, GRADIENT, 60, seed=1).max() > 1.2
    assert ratios(False, MODEL, 60, seed=1).max() > 1.2


def test_a_diagonal_that_is_not_scaled_down_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = centre_module.own_sums

    def wrong(rows: UnitRows, *, with_gram: bool) -> Vector:
        sums = true(rows, with_gram=with_gram)
        sums[rows.d :] *= 2.0
        return sums

    monkeypatch.setattr("tacit.mechanisms.gaussian.node.own_sums", wrong)
    assert ratios(True, CENTRE, 300, seed=2).max() > 1.02


def test_rows_that_are_not_scaled_down_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Long(UnitRows):
        def __init__(self, block: Block, norm: float) -> None:
            super().__init__(block, 1e9)
            self.norm = 1.0

    monkeypatch.setattr("tacit.mechanisms.gaussian.node.UnitRows", Long)
    assert ratios(False, CENTRE, 60, seed=3).max() > 1.2


@pytest.mark.parametrize("broken", ["nan", "raises", "stays"])
def test_a_solve_whose_newton_steps_fail_still_ends_at_its_minimiser(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which way was taken must not show: both end within the public tolerance of the minimiser."""
    plan = plan_for((30, 40, 50), 3, secure=False, epsilon=1.0)
    assert plan.private is not None
    rng = np.random.default_rng(0)
    X, y, *_ = neighbours(rng, 30, 3, "classification")
    side, _ = sides(plan, X, y)
    assert isinstance(side, ExactNode)
    side.restore(transcript(rng, 3, first=False, far=1.0))
    centre = rng.standard_normal(4)
    usual = side._solve(centre)

    def solve(self: LocalProblem, linear: Vector, pull: float, start: Vector, *rest: object, **more: object) -> Solved:
        if broken == "raises":
            raise np.linalg.LinAlgError("singular")
        return Solved(start * np.nan if broken == "nan" else start, 0.0, 1)

    monkeypatch.setattr(LocalProblem, "solve", solve)
    settings = plan.private.settings
    other = side._solve(centre)
    assert np.linalg.norm(other - usual) <= 2 * settings.tolerance / settings.pull
    gradient = side._problem().gradient(other) + settings.pull * (other - centre)
    assert np.linalg.norm(gradient) <= 2 * settings.tolerance


@pytest.mark.parametrize("threshold", [1e-300, 1e-12, 1e12, 1e300])
def test_thresholds_beyond_all_reason_are_refused_from_public_numbers(threshold: float) -> None:
    with pytest.raises(InputError, match="does not fit threshold"):
        plan_for((30, 40, 50), 3, secure=False, epsilon=1.0, loss=Huber(threshold))


def test_a_small_threshold_makes_the_tolerance_grow_or_the_plan_be_refused() -> None:
    with pytest.raises(InputError, match="rounding could move a sum"):
        plan_for((30, 40, 50), 3, secure=False, epsilon=1.0, loss=Huber(1e-8))
    usual = plan_for((30, 40, 50), 3, secure=False, epsilon=1.0, loss=Huber(1.0)).private
    small = plan_for((30, 40, 50), 3, secure=False, epsilon=1.0, loss=Huber(1e-5)).private
    assert usual is not None
    assert small is not None
    assert small.settings.tolerance >= usual.settings.tolerance
    assert small.settings.tolerance >= 4 * solve_rounding(small.settings, 50)


def test_the_tolerance_of_a_solve_is_paid_for() -> None:
    """Two solves may end on opposite sides of their minimisers, tau / q away from each."""
    plan = plan_for((1, 40, 50), 3, secure=False, epsilon=1.0)
    assert plan.private is not None
    settings = plan.private.settings
    loose = replace(settings, tolerance=10 * settings.scale)
    more = model_sensitivity(loose, 50) - model_sensitivity(settings, 50)
    assert more == pytest.approx(2 * (loose.tolerance - settings.tolerance) / settings.pull)
    assert model_sensitivity(settings, 50) > (2 * settings.scale + 2 * settings.tolerance) / settings.pull


def test_a_transcript_beyond_all_bounds_does_not_carry_a_node_away() -> None:
    for secure in (False, True):
        plan = plan_for((5, 40, 50), 3, secure=secure, epsilon=1.0)
        assert plan.private is not None
        rng = np.random.default_rng(0)
        X, y, *_ = neighbours(rng, 5, 3, "classification")
        side, _ = sides(plan, X, y)
        side.restore(transcript(rng, 3, first=False, far=1e12))
        settings = plan.private.settings
        side._release()
        if not secure:
            assert np.linalg.norm(side.own) <= (settings.reach + 5 * settings.scale / settings.pull) * (1 + 1e-9)
        else:
            side._take(np.full(4, 1e12))
            assert np.linalg.norm(side.z) <= settings.reach * (1 + 1e-12)


@pytest.mark.parametrize("what", [MODEL, GRADIENT])
def test_what_was_computed_in_other_rounds_does_not_matter(what: str) -> None:
    """A node that played rounds before releases what a fresh one releases: no own state but released values."""
    plan = plan_for((30, 40, 50), 3, secure=False, gradients=what == GRADIENT, epsilon=1.0)
    rng = np.random.default_rng(0)
    X, y, *_ = neighbours(rng, 30, 3, "classification")
    side, watch = sides(plan, X, y)
    for _ in range(3):
        side.restore(transcript(rng, 3, first=False, far=1.0))
        side._release()
    state = transcript(rng, 3, first=False, far=1.0)
    side.restore(state)
    side._release()
    np.testing.assert_array_equal(watch.given[what], released(plan, X, y, state))


def test_the_step_is_longer_along_the_model_where_it_is_more_than_noise() -> None:
    """Four times as long along a model that stands out, never beyond the longest stable step; elsewhere as it was."""
    plan = plan_for((300, 400, 500), 3, secure=False, gradients=True, epsilon=1.0)
    assert plan.private is not None
    rng, settings = np.random.default_rng(0), plan.private.settings
    X, y, *_ = neighbours(rng, 300, 3, "classification")
    side, _ = sides(plan, X, y)
    state = transcript(rng, 3, first=False, far=1.0)
    total = settings.total * rng.normal(size=4)

    def moved(size: float, done: int, curvature: float) -> tuple[float, Vector]:
        """Steps along the model and across it, over what a plain step would be."""
        z = size * np.array([1.0, 0.0, 0.0, 0.0])
        numbers = np.array([float(done), 1.0, curvature])
        side.restore(state | {"z": z, "numbers": numbers})
        side.settings = replace(settings, ridge=0.0)
        side._update(total)
        step = min(1 / (settings.noise * settings.rounds), 5 / curvature)
        ratio = (z - side.z) / (step * total / settings.total)
        return float(ratio[0]), ratio[1:]

    step = 1 / (settings.noise * settings.rounds)
    for size, done, curvature, expected in (
        (30.0, 2, 0.01, 1 + 3 * (1 - 4 / settings.rounds / 900)),
        (1e-3, 2, 0.01, 1.0),  # less than the noise in it
        (0.0, 1, 0.01, 1.0),
        (30.0, 2, 4 / step, 5 / 4),  # four steps would be too far
        (30.0, 2, 50 / step, 1.0),
    ):
        along, across = moved(size, done, curvature)
        assert along == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(across, 1.0, rtol=1e-9)


# --- the pieces ----------------------------------------------------------------------------------------


def test_centred_rows_multiply_like_their_matrix() -> None:
    rng = np.random.default_rng(0)
    X = 2 * rng.normal(size=(50, 4))
    mean, spread = rng.normal(size=4) / 4, 0.7
    x = X / 3 / np.maximum(1, np.linalg.norm(X / 3, axis=1, keepdims=True))
    matrix = np.column_stack([(x - mean) / spread, np.full(50, 0.3)])
    rows = CentredRows(UnitRows(Block(X), 3.0), mean, spread)
    w, r = rng.normal(size=5), rng.normal(size=50)
    np.testing.assert_allclose(rows.predict(w), matrix @ w, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(rows.correlate(r), matrix.T @ r, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(rows.gram(r**2), (matrix.T * r**2) @ matrix, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(rows.norms, np.linalg.norm(matrix, axis=1), rtol=1e-9)
    exact = np.column_stack([rows.predict(axis) for axis in np.eye(5)])
    assert np.all(rows.norms >= np.linalg.norm(exact, axis=1))


def test_the_centre_without_noise_is_that_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [1, 1, 1, 1, 3] + 1
    X /= np.linalg.norm(X, axis=1).max()
    plan = plan_for((400, 1, 1), 5, secure=True, epsilon=1.0)
    assert plan.private is not None
    settings: GaussianSettings = replace(plan.private.settings, total=400.0, centre_noise=0.0)
    sums = centre_module.own_sums(UnitRows(Block(X), 1.0), with_gram=True)
    centre = centre_module.centre_from(sums, settings)
    np.testing.assert_allclose(centre.mean, X.mean(axis=0), rtol=1e-9)
    spread = max(0.3, float(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1))))
    assert centre.spread**2 == pytest.approx(spread)
    assert centre.curvature == pytest.approx(np.linalg.eigvalsh(np.cov(X.T, ddof=0))[-1] / spread)


def test_the_half_loss_is_calibrated_and_bends_more_than_any_other() -> None:
    half, score = Half(), np.linspace(-8, 8, 33)
    up, down = np.ones(33), -np.ones(33)
    odds = 1 / (1 + np.exp(-score))
    slope = odds * half.grad(score, up) + (1 - odds) * half.grad(score, down)
    np.testing.assert_allclose(slope, 0, atol=1e-12)  # the log odds are the minimiser
    assert np.abs(half.grad(score, up)).max() <= 1
    # curvature of the mean loss there is eta (1 - eta) v; every loss of slope 1 has v <= 1 / max(eta, 1 - eta)
    bend = odds * half.hess(score, up) + (1 - odds) * half.hess(score, down)
    away = score != 0  # at 0 the second derivative jumps
    best = odds * (1 - odds) / np.maximum(odds, 1 - odds)
    np.testing.assert_allclose(bend[away], best[away], rtol=1e-12)


def test_node_kinds() -> None:
    """Gradients for two classes and under masks; exact solves for few rounds, for wide rows and for numbers."""
    few, plain, masked, wide, own = (
        plan_for((9, 9, 9), columns, secure=secure, gradients=gradients, epsilon=1.0, **more).private
        for columns, secure, gradients, more in (
            (2, False, False, {}),
            (2, False, True, {}),
            (2, True, False, {}),
            (1001, False, True, {}),
            (2, False, True, {"loss": Huber(2.0), "label_norm": 4.0}),
        )
    )
    for one, node in ((few, ExactNode), (plain, GradientNode), (masked, GradientNode), (wide, ExactNode)):
        assert one is not None
        assert one.solver.node is node
        assert isinstance(one.settings.loss, Half)
        assert one.settings.masked is one.masked is (one is masked)
        assert one.settings.with_gram is (node is GradientNode)
    assert own is not None
    assert own.solver.node is ExactNode
    assert own.settings.loss.threshold == own.settings.slope == 0.5


# --- several classes and counts ------------------------------------------------------------------------


def constant_state(columns: int, constants: list[float]) -> dict[str, Vector]:
    """A common model that is the same for every row, at the smallest spread."""
    state = transcript(np.random.default_rng(0), columns, first=False, far=0.0, outputs=len(constants))
    z = np.append(np.zeros(columns * len(constants)), constants)
    return state | {"z": z, "mean": np.zeros(columns), "numbers": np.array([1.0, math.sqrt(0.3), 0.5])}


@pytest.mark.parametrize(
    ("loss", "constants", "label"), [(SEVERAL, [300.0, 0.0, 0.0, 0.0], 1.0), ("poisson", [300.0], 0.0)]
)
def test_the_bounds_of_classes_and_counts_are_reached(loss: object, constants: list[float], label: float) -> None:
    """A model that is sure of the wrong class, or of too large a mean, for a row and its mirror image."""
    plan = plan_for((1, 4000, 4000), 3, secure=True, loss=loss, epsilon=1.0)
    assert plan.private is not None
    state, X, y = constant_state(3, constants), np.array([[1.0, 0.0, 0.0]]), np.array([label])
    apart = float(np.linalg.norm(released(plan, X, y, state) - released(plan, -X, y, state)))
    assert 0.97 < apart / gradient_sensitivity(plan.private.settings, 4000) <= 1


def test_the_gradient_of_classes_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(3)
    plan = plan_for((40, 4000, 4000), 3, secure=True, loss=SEVERAL, epsilon=1.0)
    X, y = rng.normal(size=(40, 3)), rng.integers(4, size=40).astype(np.float64)
    state = transcript(rng, 3, first=False, far=1.0, outputs=4)
    x = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    u = np.column_stack([(x - state["mean"]) / state["numbers"][1], np.full(40, 0.3)])
    p = softmax(u @ state["z"].reshape(4, 4), axis=1) - np.eye(4)[y.astype(int)]
    wanted = (u / np.linalg.norm(u, axis=1, keepdims=True)).T @ p / math.sqrt(2)
    np.testing.assert_allclose(released(plan, X, y, state).reshape(4, 4), wanted, rtol=1e-9, atol=1e-12)


def test_the_gradient_of_counts_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(4)
    plan = plan_for((40, 4000, 4000), 3, secure=True, loss="poisson", epsilon=1.0, label_norm=5.0)
    X, y = rng.normal(size=(40, 3)), rng.poisson(4.0, size=40).astype(np.float64)
    assert y.max() > 5  # such a count is one of 5
    state = transcript(rng, 3, first=False, far=1.0)
    x = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    u = np.column_stack([(x - state["mean"]) / state["numbers"][1], np.full(40, 0.3)])
    slope = np.minimum(np.exp(u @ state["z"]), 1.0) - np.minimum(y / 5, 1.0)
    wanted = (u / np.linalg.norm(u, axis=1, keepdims=True)).T @ slope
    np.testing.assert_allclose(released(plan, X, y, state), wanted, rtol=1e-9, atol=1e-12)


def test_a_slope_of_classes_that_is_taken_for_1_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_for((1, 4000, 4000), 3, secure=True, loss=SEVERAL, epsilon=1.0)
    assert plan.private is not None
    bound = gradient_sensitivity(plan.private.settings, 4000)
    wrong = replace(plan, private=replace(plan.private, settings=replace(plan.private.settings, slope=1.0)))
    state, X, y = constant_state(3, [300.0, 0.0, 0.0, 0.0]), np.array([[1.0, 0.0, 0.0]]), np.ones(1)
    assert np.linalg.norm(released(wrong, X, y, state) - released(wrong, -X, y, state)) > 1.3 * bound


@pytest.mark.parametrize("labels", [[0.0], [1.0], [0.0, 1.0, 1.0], [0.1, 0.9, 0.3]])
def test_the_bounded_poisson_loss_fits_the_mean_of_labels_within_the_bound(labels: list[float]) -> None:
    loss, y = BoundedPoisson(), np.array(labels)
    scores = np.linspace(-8, 8, 2001)
    slope = np.array([loss.grad(np.full(y.size, z), y).mean() for z in scores])
    assert np.all(np.diff(slope) >= 0)
    mean = y.mean()
    np.testing.assert_allclose(slope, np.minimum(np.exp(scores), 1.0) - mean, atol=1e-12)
    assert np.abs(loss.grad(scores[:, None], y)).max() <= loss.lipschitz == 1.0
    assert loss.hess(scores[:, None], y).max() <= loss.curvature == 1.0

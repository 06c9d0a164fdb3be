"""Noisy shares: the bound that their noise is made for, replayed on neighbouring data; the solve behind it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tacit.blocks.dense import Block, RowClip
from tacit.errors import RunError
from tacit.mechanisms.shares import SharesParty, SharesSettings
from tacit.mechanisms.shares import sides as solver_module
from tacit.mechanisms.shares.sides import (
    SOLVE_SLACK,
    BallRidge,
    exact_sensitivity,
    sensitivity,
    share_rounding,
    slope_rounding,
)
from tacit.problem.registry import get_loss, get_regularizer
from tacit.solvers.base import Problem

KINDS = ("replace-one", "zero-out")


class Script:
    """Stands in for the noise: keeps what would be released, and releases what the script says instead."""

    def __init__(self, answers: np.ndarray) -> None:
        self.answers, self.values = list(answers), []

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        assert name == "share"
        self.values.append(np.array(value))
        return self.answers[len(self.values) - 1]


def replay(
    rows: np.ndarray, inboxes: np.ndarray, answers: np.ndarray, *, bound: float, rho: float, alpha: float, norm: float
) -> np.ndarray:
    """What a party would release, without its noise, for one transcript."""
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), alpha, True, 2, len(rows), 1e-6)
    release = Script(answers)
    party = SharesParty(problem, Block(rows), SharesSettings(norm, bound), release)
    for round_, q in enumerate(inboxes, 1):
        party.step(round_, {"q": q, "control": np.array([rho])})
    return np.array(release.values)


def largest_ratio(rows: np.ndarray, row: np.ndarray, kind: str, rng: np.random.Generator, **numbers: float) -> float:
    """Largest distance over the rounds in units of the planned sensitivity, for one pair and one random transcript."""
    n, b = len(rows), numbers["bound"]
    sizes = b * np.array([0.5, 1.0, 30.0])[rng.integers(3, size=(2, 1))]
    # aligned targets push x as far as it goes; random ones turn it
    sign = rng.choice([-1.0, 1.0], size=(2, n)) if rng.random() < 0.5 else np.ones((2, n))
    inboxes, answers = sizes * sign * rng.random((2, 1)), sizes[::-1] * rng.normal(size=(2, n)) * rng.integers(2)
    other = rows.copy()
    other[rng.integers(n) if kind == "replace-one" else 0] = row if kind == "replace-one" else 0.0
    both = [replay(data, inboxes, answers, **numbers) for data in (rows, other)]
    distances = np.linalg.norm(both[0] - both[1], axis=1)
    return float(distances.max() / sensitivity(kind, b))


def adversarial_rows(kind: int, n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and a replacement: sign-flipped, zero, exactly at the clip, far beyond it, duplicated, nearly parallel."""
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if kind == 0:
        rows[:] = rows[0]
        return rows, -rows[0]
    if kind == 1:
        return rows * 100.0, -100.0 * rows[0]
    if kind == 2:
        rows[1:] *= 1e-3
        return rows, -rows[0]
    if kind == 3:
        rows[1:] = rows[0] + 1e-3 * rows[1:]
        return rows, rng.normal(size=d)
    if kind == 4:
        rows[::2] = 0.0
        return rows, 3.0 * rng.normal(size=d)
    return rows * rng.random((n, 1)), np.zeros(d)


@settings(max_examples=700, deadline=None, derandomize=True)
@given(
    kind=st.integers(0, 5),
    n=st.integers(1, 12),
    d=st.integers(1, 16),
    neighbours=st.sampled_from(KINDS),
    bound=st.sampled_from([1e-3, 1.0, 50.0]),
    norm=st.sampled_from([0.1, 1.0, 7.0]),
    alpha=st.sampled_from([0.0, 1e-4, 1.0]),
    rho=st.sampled_from([1e-2, 0.1, 10.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_neighbour_moves_a_share_farther_than_planned(kind, n, d, neighbours, bound, norm, alpha, rho, seed) -> None:
    """Three transcripts each: 2100 pairs, two rounds in each."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        rows, row = adversarial_rows(kind, n, d, rng)
        ratio = largest_ratio(rows, row, neighbours, rng, bound=bound, norm=norm, alpha=alpha, rho=rho)
        assert ratio <= 1.0


@pytest.mark.parametrize("neighbours", KINDS)
def test_the_bound_is_nearly_reached(neighbours: str) -> None:
    """Many equal rows hold x at the edge of the ball; the changed row shows it, turned round or not at all."""
    found = 0.0
    for n, d in ((2, 1), (20, 500), (400, 3), (5000, 2)):
        rows = np.zeros((n, d))
        rows[:, 0] = 1.0
        changed = rows.copy()
        changed[0] *= -1.0 if neighbours == "replace-one" else 0.0
        numbers = {"bound": 1.0, "rho": 0.1, "alpha": 0.0, "norm": 1.0}
        inboxes, answers = np.full((2, n), -5.0), np.zeros((2, n))
        both = [replay(data, inboxes, answers, **numbers) for data in (rows, changed)]
        found = max(found, float(np.linalg.norm(both[0] - both[1], axis=1).max()) / sensitivity(neighbours, 1.0))
    assert 0.999 < found <= 1.0


def test_a_directed_search_stays_below_the_bound() -> None:
    """Climb from random pairs towards larger distances; the analytic worst case is not passed."""
    rng = np.random.default_rng(5)
    best = 0.0
    for neighbours in KINDS:
        for n, d in ((3, 2), (6, 3), (4, 9)):
            point = rng.normal(size=(n + 2, max(n, d)))

            def ratio(at: np.ndarray, n: int = n, d: int = d, neighbours: str = neighbours) -> float:
                rows, row, q = at[:n, :d], at[n, :d], at[n + 1, :n]
                other = rows.copy()
                other[0] = row if neighbours == "replace-one" else 0.0
                both = [
                    replay(data, q[None], np.zeros((1, n)), bound=1.0, rho=0.1, alpha=0.0, norm=1.0)
                    for data in (rows, other)
                ]
                return float(np.linalg.norm(both[0] - both[1])) / sensitivity(neighbours, 1.0)

            value, step = ratio(point), 1.0
            for _ in range(400):
                tried = point + step * rng.normal(size=point.shape) * (rng.random(point.shape) < 0.4)
                new = ratio(tried)
                step = min(step * 1.5, 3.0) if new > value else max(step * 0.93, 0.02)
                if new > value:
                    point, value = tried, new
            assert value <= 1.0
            best = max(best, value)
    assert best > 0.9


# --- what would break it -----------------------------------------------------------------------------


def test_an_unclipped_target_would_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros((50, 1))
    rows[:] = 0.3
    rows[0] = 1.0
    q = np.zeros((1, 50))
    q[0, 0] = -1e4
    numbers = {"bound": 1.0, "rho": 0.1, "alpha": 0.0, "norm": 1.0}
    zeroed = rows.copy()
    zeroed[0] = 0.0
    distance = [np.linalg.norm(np.subtract(*(replay(r, q, np.zeros((1, 50)), **numbers) for r in (rows, zeroed))))]
    monkeypatch.setattr(np, "clip", lambda values, low, high: values)
    distance += [np.linalg.norm(np.subtract(*(replay(r, q, np.zeros((1, 50)), **numbers) for r in (rows, zeroed))))]
    assert distance[0] <= sensitivity("zero-out", 1.0) < distance[1]


def test_an_unclipped_row_would_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.ones((50, 1))
    other = rows.copy()
    other[0] = -3.0
    numbers = {"bound": 1.0, "rho": 0.1, "alpha": 0.0, "norm": 1.0}
    q = np.full((1, 50), -1.0)
    both = [replay(r, q, np.zeros((1, 50)), **numbers) for r in (rows, other)]
    assert np.linalg.norm(both[0] - both[1]) <= sensitivity("replace-one", 1.0)
    apply = RowClip.apply

    def unclipped(self: RowClip, features: Block):
        found = apply(self, features)
        found.shrink = np.ones(features.n)
        return found

    monkeypatch.setattr(RowClip, "apply", unclipped)
    both = [replay(r, q, np.zeros((1, 50)), **numbers) for r in (rows, other)]
    assert np.linalg.norm(both[0] - both[1]) > sensitivity("replace-one", 1.0)


class OwnState(Script):
    """A party whose next step starts from its own exact share."""

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        super().add(name, value)
        return value


def test_own_unreleased_state_would_break_the_bound() -> None:
    """Without the released share as an anchor, one row drags x to opposite ends of the ball, round by round."""
    n, rounds = 400, 60
    rows = np.full((n, 1), 0.1)
    rows[0] = 1.0
    other = rows.copy()
    other[0] = -1.0
    q = np.zeros((rounds, n))
    q[:, 0] = -1.0
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 0.0, True, 2, n, 1e-6)

    def farthest(make: type[Script]) -> float:
        released = []
        for data in (rows, other):
            release = make(np.zeros((rounds, n)))
            party = SharesParty(problem, Block(data), SharesSettings(1.0, 1.0), release)
            for t in range(rounds):
                party.step(t + 1, {"q": q[t], "control": np.array([0.1])})
            released.append(np.array(release.values))
        return float(np.linalg.norm(released[0] - released[1], axis=1).max())

    assert farthest(Script) <= sensitivity("replace-one", 1.0)
    assert farthest(OwnState) > 1.5 * sensitivity("replace-one", 1.0)


def test_what_a_party_kept_to_itself_does_not_enter_a_release() -> None:
    rng = np.random.default_rng(0)
    rows, q = rng.normal(size=(30, 4)), rng.normal(size=(1, 30))
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-3, True, 2, 30, 1e-6)
    values = []
    for spoil in (False, True):
        release = Script(np.zeros((2, 30)))
        party = SharesParty(problem, Block(rows), SharesSettings(1.0, 1.0), release)
        party.step(1, {"q": q[0], "control": np.array([0.1])})
        if spoil:
            party.coef, party.trained = np.full(4, 9.0), np.full(4, -9.0)
        party.step(2, {"q": q[0], "control": np.array([0.1])})
        values.append(release.values[1])
    np.testing.assert_array_equal(*values)


# --- the solve ---------------------------------------------------------------------------------------


def oracle(D: np.ndarray, v: np.ndarray, ridge: float, radius: float) -> np.ndarray:
    """Solved in units of the radius, so that the solver's tolerances mean the same for all of them."""
    x = cp.Variable(D.shape[1])
    goal = cp.Minimize(ridge / 2 * cp.sum_squares(x) + cp.sum_squares(D @ x - v / radius) / 2)
    cp.Problem(goal, [cp.norm2(x) <= 1.0]).solve(solver=cp.CLARABEL)
    return radius * np.asarray(x.value) / max(1.0, np.linalg.norm(x.value))


@pytest.mark.parametrize(("n", "d"), [(30, 4), (30, 30), (8, 40), (1, 5), (25, 1)])
@pytest.mark.parametrize("radius", [1e-2, 0.5, 100.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda a: a.astype(np.float32)])
def test_the_solve_agrees_with_an_outside_solver(n: int, d: int, radius: float, form) -> None:
    rng = np.random.default_rng(n + d)
    raw = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    raw[:, -1] = raw[:, 0]  # of lower rank
    features = form(raw)
    dense = features.toarray() if sparse.issparse(features) else features.astype(np.float64)
    norm = 0.8
    clipped = dense * np.minimum(1.0, norm / np.maximum(np.linalg.norm(dense, axis=1), 1e-300))[:, None] / norm
    v = rng.normal(size=n)
    ball = BallRidge(RowClip(norm).apply(Block(features)))
    solution = ball.solve(v, 1e-2, radius)
    exact = oracle(clipped, v, 1e-2, radius)
    assert np.linalg.norm(solution.x) <= radius * (1 + 1e-14)
    np.testing.assert_allclose(solution.share, clipped @ solution.x, atol=1e-11 * max(radius, 1))
    assert solution.distance <= SOLVE_SLACK * radius
    ours, theirs = (_objective(clipped, v, x) for x in (solution.x, exact))
    assert ours <= theirs * (1 + 1e-12)
    assert theirs <= ours * (1 + 1e-6)
    # the outside solver stops at a gap of its own, which bounds how far its share may be from the exact one
    apart = np.linalg.norm(solution.share - clipped @ exact)
    assert apart <= solution.distance + np.sqrt(2 * (max(theirs - ours, 0.0) + 1e-14 * theirs))


def _objective(D: np.ndarray, v: np.ndarray, x: np.ndarray) -> float:
    return float(1e-2 / 2 * x @ x + np.sum((D @ x - v) ** 2) / 2)


def test_the_certificate_covers_a_wrong_answer() -> None:
    """With a wrong multiplier the stated distance grows, and stays above the true one."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 5))
    v = 0.2 * np.sign(rows[:, 0])  # both as a target and beyond the ball
    ball = BallRidge(RowClip(1.0).apply(Block(rows)))
    right = ball.solve(v, 0.1, 0.2)
    c = ball.correlate(v)
    shift = ball._best_multiplier(right.x, v, c, 0.1, 0.2)
    for wrong in (0.5, 0.99, 1.01, 3.0):
        x = ball._inverse(c, 0.1 + wrong * shift)
        bad, _ = ball._judge(x * (0.2 / np.linalg.norm(x)), v, c, 0.1, wrong * shift, 0.2)
        assert np.linalg.norm(bad.share - right.share) <= bad.distance
        assert bad.distance > SOLVE_SLACK * 0.2


@pytest.mark.parametrize("columns", [5, 60])
@pytest.mark.parametrize("wrong", [0.0, 0.5, 0.99, 1.01, 3.0, "raises", "no eigenvectors"])
def test_what_is_not_certified_at_first_is_found_by_other_means(
    wrong: float | str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is refused, and what is released is as near to the exact share as the proof counts on."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, columns))
    v = 0.2 * np.sign(rows[:, 0])
    ball = BallRidge(RowClip(1.0).apply(Block(rows)))
    right = ball.solve(v, 0.1, 0.2)
    if wrong == "no eigenvectors":
        ball.values, ball.vectors = np.ones_like(ball.values), np.eye(len(ball.vectors))
    elif wrong == "raises":
        monkeypatch.setattr(solver_module.scipy.optimize, "brentq", lambda *_, **__: 1 / 0)
    else:
        multiplier = BallRidge._multiplier
        monkeypatch.setattr(BallRidge, "_multiplier", lambda *args: wrong * multiplier(*args))
    found = ball.solve(v, 0.1, 0.2)
    assert found.distance <= SOLVE_SLACK * 0.2
    assert np.linalg.norm(found.share - right.share) <= found.distance + right.distance


def test_slacks_are_far_above_rounding() -> None:
    """At 100 million rows of 1000 columns the planned slack still covers the proven rounding."""
    rows, columns = 10**8, 1000
    assert share_rounding(rows, columns) <= 1e-6
    assert slope_rounding(rows, columns, 100.0) / np.sqrt(1e-6 * rows) <= SOLVE_SLACK
    assert exact_sensitivity("replace-one", 3.0) == 6.0
    assert exact_sensitivity("zero-out", 3.0) == 3.0
    assert solver_module.MOST_STEPS > 100


@pytest.mark.parametrize("broken", [np.full(9, np.nan), np.full(9, np.inf), np.zeros(8)])
def test_a_broadcast_outside_the_theorem_is_refused(broken: np.ndarray) -> None:
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-3, True, 2, 9, 1e-6)
    party = SharesParty(problem, Block(np.ones((9, 2))), SharesSettings(1.0, 1.0), Script(np.zeros((1, 9))))
    with pytest.raises(RunError, match="finite number for each row"):
        party.step(1, {"q": broken, "control": np.array([0.1])})
    with pytest.raises(RunError, match="finite number for each row"):
        party.step(1, {"q": np.zeros(9), "control": np.array([np.nan])})


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_no_row_is_too_long_for_more_columns_than_rows(size: float, as_sparse: bool) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(6, 20))
    zeros = rows.copy()
    rows[2], zeros[2] = size * rows[2], 0.0
    both = [BallRidge(RowClip(1.0).apply(sparse.csr_array(one) if as_sparse else one)) for one in (rows, zeros)]
    shares = [solver.solve(np.ones(6), 1.0, 1.0).share for solver in both]
    np.testing.assert_allclose(*shares, atol=1e-12)

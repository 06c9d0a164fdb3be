"""The column-space attack: it wins on the published noise at any level, and can only guess on full-rank noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.audit.attacks import check_lemma1, column_space_attack, towards_residual
from tacit.blocks.dense import Block
from tacit.errors import InputError
from tacit.mechanisms.published import NOISY, PublishedParty, PublishedSettings
from tacit.privacy.releases import Allowed, Releaser
from tacit.problem.registry import get_loss, get_regularizer
from tacit.solvers.base import Problem
from tacit.types import Message

ROWS, COLUMNS, RUNS = 40, 6, 100


def unit_rows(rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    features = rng.normal(size=(rows, columns))
    return features / (np.linalg.norm(features, axis=1, keepdims=True) * (1 + 1e-9))


def neighbour_of(features: np.ndarray, unit: str, rng: np.random.Generator) -> np.ndarray:
    """One column shortened entry by entry, or one row replaced; no row becomes longer than 1."""
    other = features.copy()
    if unit == "row":
        other[3] = unit_rows(rng, 1, features.shape[1])[0]
    else:
        other[:, 2] *= rng.uniform(0.8, 1.0, size=len(other))
    return other


def releases(features: np.ndarray, sigma: float, inverse: bool, seed: int, rounds: int = 2) -> np.ndarray:
    """What a party of the mechanism itself sends, answering broadcasts that somebody drew."""
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-3, False, 2, len(features), 1e-4)
    releaser = Releaser((Allowed(NOISY, sigma, rounds),), "bank", seed)
    party = PublishedParty(problem, Block(features), PublishedSettings(1.0, 1.0, 1.0, inverse), releaser)
    rng = np.random.default_rng(seed)
    sent = []
    for round_ in range(1, rounds + 1):
        inbox = {name: rng.normal(size=len(features)) for name in ("residual", "dual")}
        releaser.begin(Message("coordinator", round_, inbox))
        sent.append(party.step(round_, inbox)["share"])
    return np.array(sent)


@pytest.mark.parametrize("unit", ["column", "row"])
@pytest.mark.parametrize("inverse", [False, True], ids=["published", "published-inverse"])
@pytest.mark.parametrize("sigma", [0.01, 1.0, 100.0, 1e4])
def test_the_attack_wins_at_any_noise_level(sigma: float, inverse: bool, unit: str) -> None:
    rng = np.random.default_rng(7)
    won = certain = 0
    for run in range(RUNS):
        versions = [unit_rows(rng)]
        versions.append(neighbour_of(versions[0], unit, rng))
        truth = int(rng.integers(2))
        verdict = column_space_attack(releases(versions[truth], sigma, inverse, run), *versions)
        won += verdict.chosen == truth
        certain += verdict.certain
    assert won >= 0.99 * RUNS
    assert certain >= 0.99 * RUNS


def test_one_release_is_enough() -> None:
    rng = np.random.default_rng(8)
    features = unit_rows(rng)
    other = neighbour_of(features, "column", rng)
    (sent,) = releases(features, 100.0, True, seed=0, rounds=1)
    verdict = column_space_attack(sent, other, features)
    assert verdict.chosen == 1
    assert verdict.certain
    assert verdict.residuals[1] < 1e-13 < 1e-4 < verdict.residuals[0]


@pytest.mark.parametrize("sigma", [1.0, 100.0])
def test_the_attack_can_only_guess_where_noise_has_full_rank(sigma: float) -> None:
    rng = np.random.default_rng(9)
    runs = 600
    won = 0
    for run in range(runs):
        versions = [unit_rows(rng)]
        versions.append(neighbour_of(versions[0], "column", rng))
        truth = int(rng.integers(2))
        exact = versions[truth] @ (0.1 * rng.normal(size=COLUMNS))
        (noisy,) = [Releaser((Allowed("share", sigma),), "bank", run).add("share", exact)]
        verdict = column_space_attack(noisy, *versions)
        won += verdict.chosen == truth
        assert not verdict.certain
    assert abs(won / runs - 0.5) < 4 * 0.5 / math.sqrt(runs)


def test_as_many_columns_as_rows_leave_nothing_to_tell() -> None:
    rng = np.random.default_rng(10)
    features = unit_rows(rng, 12, 12)
    verdict = column_space_attack(releases(features, 1.0, False, 0), features, neighbour_of(features, "row", rng))
    assert not verdict.certain


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="released has 5 rows and the data have 40"):
        column_space_attack(np.ones(5), np.ones((40, 2)), np.ones((40, 2)))


# --- Lemma 1 ---------------------------------------------------------------------------------------------


def counterexample(columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Section 3 of docs/proofs/published.md: D, D' and z; every row of both has norm 1."""
    features = np.zeros((columns + 1, columns))
    features[0, 0] = 1.0
    features[1:3, 0] = math.sqrt(0.75)
    features[1:3, 1] = 0.5
    features[np.arange(3, columns + 1), np.arange(2, columns)] = 1.0
    other = features.copy()
    other[2, 1] = -0.5
    z = np.zeros(columns + 1)
    z[1:3] = 1.0, -1.0
    return features, other, z


@pytest.mark.parametrize("columns", [6, 20, 200])
def test_lemma1_is_false_where_all_its_assumptions_hold(columns: int) -> None:
    features, other, z = counterexample(columns)
    for version in (features, other):
        assert np.allclose(np.linalg.norm(version, axis=1), 1.0, rtol=1e-15)
        assert np.linalg.matrix_rank(version) == columns
    assert np.linalg.norm(features - other, 2) <= 1.0
    assert np.count_nonzero((features != other).any(axis=0)) == 1
    rho, weight, zero = 100.0, 1e-9, np.zeros(columns + 1)
    found = check_lemma1(features, other, others=zero, z=z, dual=zero, rho=rho, weight=weight, blocks=1)
    assert found.moved == pytest.approx(math.sqrt(2), rel=1e-8)
    assert found.claimed == pytest.approx(6 / columns * (1 + 1 / rho), rel=1e-6)
    assert found.ratio > 1.3


@pytest.mark.parametrize(
    ("rows", "columns", "rho", "low", "high"),
    [(200, 40, 10.0, 2.0, 3.5), (1000, 100, 1.0, 2.5, 5.0), (3000, 300, 10.0, 11.0, 17.0)],
)
def test_a_column_moved_towards_the_residual_breaks_lemma1(
    rows: int, columns: int, rho: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(0)
    features, z, dual = unit_rows(rng, rows, columns), rng.normal(size=rows), 0.3 * rng.normal(size=rows)
    direction = rng.normal(size=columns)
    others, weight = unit_rows(rng, rows, columns) @ (direction / np.linalg.norm(direction)), 1e-4 * rows
    moved = towards_residual(features, z - others - dual / rho, weight / rho)
    assert np.linalg.norm(moved - features, 2) == pytest.approx(1.0)
    assert np.count_nonzero((moved != features).any(axis=0)) == 1
    found = check_lemma1(features, moved, others=others, z=z, dual=dual, rho=rho, weight=weight, blocks=2)
    assert low < found.ratio < high


def test_a_larger_b1_makes_the_claim_larger() -> None:
    features, other, z = counterexample(10)
    zero = np.zeros(11)
    small, large = (
        check_lemma1(features, other, others=zero, z=z, dual=zero, rho=1.0, weight=1e-9, blocks=2, bound=b)
        for b in (0.0, 50.0)
    )
    assert small.moved == large.moved
    assert large.claimed == pytest.approx(3 / 10 * (1e-9 + 3 * 50.0))
    assert large.ratio < small.ratio

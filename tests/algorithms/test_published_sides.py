"""The sides of the published mechanism, against the paper's equations solved by other means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from tacit.blocks.dense import Block
from tacit.mechanisms.published import PublishedCoordinator, PublishedParty, PublishedSettings
from tacit.problem.registry import get_loss, get_regularizer
from tacit.solvers.base import Problem

ROWS, COLUMNS, ALPHA = 30, 4, 0.01


class Fixed:
    """Adds noise that the test chose."""

    owner = "party"

    def __init__(self, noise: np.ndarray) -> None:
        self.noise = noise

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        return value + self.noise[: len(value)]


class Gaussian(Fixed):
    """Adds standard Gaussian noise."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def add(self, name: str, value: np.ndarray) -> np.ndarray:
        return value + self.rng.normal(size=len(value))


def problem(parties: int = 2, fit_intercept: bool = False) -> Problem:
    return Problem(get_loss("logistic"), get_regularizer("l2"), ALPHA, fit_intercept, parties, ROWS, 1e-4)


def rows(seed: int) -> np.ndarray:
    features = np.random.default_rng(seed).normal(size=(ROWS, COLUMNS))
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@pytest.mark.parametrize("radius", [0.3, 100.0])
def test_the_x_update_is_the_argmin_over_the_ball(radius: float) -> None:
    rng, features, rho = np.random.default_rng(0), rows(1), 0.7
    party = PublishedParty(
        problem(), Block(features), PublishedSettings(rho, radius, 2.0, False), Fixed(rng.normal(size=COLUMNS))
    )
    for round_ in (1, 2):
        inbox = {"residual": rng.normal(size=ROWS), "dual": rng.normal(size=ROWS)}
        others = inbox["residual"] - features @ party.coef  # the cached noisy share is taken off

        def objective(x: np.ndarray, others: np.ndarray = others, y: np.ndarray = inbox["dual"]) -> float:
            share = features @ x
            return float(ALPHA * ROWS * (x @ x) / 2 + y @ share + rho / 2 * np.sum((others + share) ** 2))

        sent = party.step(round_, inbox)
        inside = {"type": "ineq", "fun": lambda x: radius**2 - x @ x}
        best = optimize.minimize(objective, np.zeros(COLUMNS), constraints=[inside], options={"ftol": 1e-14})
        assert np.linalg.norm(party.exact) <= radius
        assert np.allclose(party.exact, best.x, atol=1e-5)
        assert objective(party.exact) <= best.fun + 1e-9
        assert np.allclose(sent["share"], features @ (party.exact + party.release.noise))
    assert (np.linalg.norm(party.exact) > radius * (1 - 1e-9)) == (radius < 1)


@pytest.mark.parametrize("inverse", [False, True])
def test_the_noise_has_the_covariance_that_the_paper_writes(inverse: bool) -> None:
    features = rows(2)
    party = PublishedParty(problem(), Block(features), PublishedSettings(1.0, 1.0, 2.0, inverse), Gaussian(0))
    inbox = {"residual": np.ones(ROWS), "dual": np.zeros(ROWS)}
    draws = []
    for _ in range(8000):
        party.coef = np.zeros(COLUMNS)
        party.step(1, inbox)
        draws.append(party.coef - party.exact)
    wanted = np.linalg.inv(features.T @ features) if inverse else np.eye(COLUMNS)
    assert np.allclose(np.cov(np.array(draws).T), wanted, atol=0.08 * wanted.max())


def test_dependent_columns_get_noise_in_the_column_space_alone() -> None:
    features = np.column_stack([rows(3)[:, :2], rows(3)[:, :2].sum(axis=1)])
    party = PublishedParty(problem(), Block(features), PublishedSettings(1.0, 1.0, 9.0, True), Gaussian(1))
    inbox = {"residual": np.ones(ROWS), "dual": np.zeros(ROWS)}
    noise = []
    for _ in range(4000):
        party.coef = np.zeros(3)
        noise.append(party.step(1, inbox)["share"] - features @ party.exact)
    basis = np.linalg.qr(features[:, :2])[0]
    assert np.allclose(np.cov(np.array(noise).T), basis @ basis.T, atol=0.1)


def test_rows_are_scaled_down_and_never_up() -> None:
    features = rows(4) * np.linspace(0.5, 2.0, ROWS)[:, None]
    party = PublishedParty(problem(), Block(features), PublishedSettings(1.0, 1.0, 1.0, False), Gaussian(2))
    lengths = np.linalg.norm([party.rows.predict(one) for one in np.eye(COLUMNS)], axis=0)
    assert np.allclose(lengths, np.minimum(np.linspace(0.5, 2.0, ROWS), 1.0), rtol=1e-9)


def z_update(label: float, dual: float, share: float, rho: float) -> float:
    """The paper's z-update of one row, by a general solver."""
    found = optimize.minimize_scalar(
        lambda z: np.logaddexp(0, -label * z) - dual * z + rho / 2 * (share - z) ** 2, tol=1e-12
    )
    return float(found.x)


def test_the_coordinator_follows_the_papers_equations() -> None:
    rng, rho = np.random.default_rng(5), 0.6
    labels = np.where(rng.random(ROWS) < 0.5, -1.0, 1.0)
    side = PublishedCoordinator(problem(), labels, PublishedSettings(rho, 1.0, 1.0, False))
    y = np.zeros(ROWS)
    for _ in range(3):
        side.broadcast()
        share = rng.normal(size=ROWS)
        side.combine({"share": share})
        z = np.array([z_update(label, dual, at, rho) for label, dual, at in zip(labels, y, share, strict=True)])
        y = y + rho * (share - z)
        sent = side.broadcast()
        assert np.allclose(sent["residual"], share - z, atol=1e-6)
        assert np.allclose(sent["dual"], y, atol=1e-6)
        assert np.allclose(y, -labels / (1 + np.exp(labels * z)), atol=1e-6)  # the loss derivative: labels are its sign


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_without_noise_the_iteration_finds_the_optimum(fit_intercept: bool) -> None:
    rng = np.random.default_rng(6)
    labels = np.where(rng.random(ROWS) < 0.7, 1.0, -1.0)
    asked, settings = problem(fit_intercept=fit_intercept), PublishedSettings(0.8, 1e6, 2.0, False)
    side = PublishedCoordinator(asked, labels, settings)
    parties = [PublishedParty(asked, Block(rows(seed)), settings, Fixed(np.zeros(COLUMNS))) for seed in (7, 8)]
    for round_ in range(1500):
        inbox = side.broadcast()
        progress = side.combine({"share": sum(party.step(round_, inbox)["share"] for party in parties)})
        assert not progress.note
    D = np.column_stack([rows(7), rows(8), np.full(ROWS, float(fit_intercept))])

    def objective(x: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0, -labels * (D @ x))) + ALPHA / 2 * x[:-1] @ x[:-1])

    best = optimize.minimize(objective, np.zeros(2 * COLUMNS + 1), method="BFGS", options={"gtol": 1e-8})
    found = np.concatenate([*(party.coef for party in parties), [side.intercept]])
    assert objective(found) == pytest.approx(best.fun, rel=1e-8)


def test_parties_that_correct_the_same_residual_diverge_and_are_stopped() -> None:
    labels = np.where(np.arange(ROWS) % 3 > 0, 1.0, -1.0)
    asked, settings = (
        replace(problem(parties=8), alpha=1e-6, loss=get_loss("squared")),
        PublishedSettings(0.05, 1e12, 2.0, False),
    )
    side = PublishedCoordinator(asked, labels, settings)
    parties = [PublishedParty(asked, Block(rows(9)), settings, Fixed(np.zeros(COLUMNS))) for _ in range(8)]
    note = ""
    for round_ in range(200):
        inbox = side.broadcast()
        note = side.combine({"share": sum(party.step(round_, inbox)["share"] for party in parties)}).note
        if note:
            break
    assert note.startswith("the published mechanism diverges at rho=0.00167: every party corrects")


def test_noise_alone_is_not_called_divergence() -> None:
    rng = np.random.default_rng(10)
    labels = np.where(rng.random(ROWS) < 0.5, -1.0, 1.0)
    side = PublishedCoordinator(problem(), labels, PublishedSettings(0.5, 1.0, 1.0, False))
    for _ in range(19):
        side.broadcast()
        assert side.combine({"share": 1e6 * rng.normal(size=ROWS)}).note == ""

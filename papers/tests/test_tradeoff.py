"""The choice of alpha: the fit, the balance, and what choosing costs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.events import GaussianRelease, PureRelease
from tacit_papers.design.sweep import SweepSettings, measure_losses
from tacit_papers.design.tradeoff import LossCurve, PrivacyUtility, choose_alpha, draw, fit_loss_curve
from tacit_papers.design.tuning_cost import run_epsilon, tuning_cost

PAPER = LossCurve(0.2, 25.0, 0.3)  # c4 and c5 of the paper for DVP
ALPHAS = [0.01, 0.03, 0.1, 0.2, 0.5, 1.0]


@pytest.mark.parametrize("curve", [PAPER, LossCurve(20.0, 20.0, 0.4), LossCurve(0.05, 0.5, 0.0)])
def test_exact_points_give_their_curve_back(curve):
    found = fit_loss_curve(ALPHAS, [curve(alpha) for alpha in ALPHAS])
    assert found.height == pytest.approx(curve.height, rel=1e-4)
    assert found.rate == pytest.approx(curve.rate, rel=1e-4)
    assert found.floor == pytest.approx(curve.floor, rel=1e-4, abs=1e-5)
    assert found.residual < 1e-6


def test_fit_is_the_best_one():
    rng = np.random.default_rng(0)
    losses = [PAPER(alpha) + 0.01 * rng.normal() for alpha in ALPHAS]
    found = fit_loss_curve(ALPHAS, losses)

    def error(height, rate, floor):
        return sum((LossCurve(height, rate, floor)(a) - y) ** 2 for a, y in zip(ALPHAS, losses, strict=True))

    best = error(found.height, found.rate, found.floor)
    assert best == pytest.approx(len(ALPHAS) * found.residual**2)
    for _ in range(200):
        near = np.array([found.height, found.rate, found.floor]) * np.exp(0.05 * rng.normal(size=3))
        assert error(*near) >= best - 1e-12


@pytest.mark.parametrize(
    ("alphas", "losses", "message"),
    [
        ([0.1, 0.1, 0.2], [1, 1, 1], "at least 3"),
        ([0.1, 0.2], [1, 1, 1], "one loss for each"),
        ([0.0, 0.1, 0.2], [1, 1, 1], "alpha=0.0"),
        ([0.1, 0.2, 0.3], [1, math.nan, 1], "loss=nan"),
        ([0.1, 0.2, 0.3], [1.0, 2.0, 3.0], "do not fall"),
    ],
)
def test_points_that_cannot_be_fitted_are_refused(alphas, losses, message):
    with pytest.raises(InputError, match=message):
        fit_loss_curve(alphas, losses)


def test_the_papers_numbers_have_their_minimum_inside():
    found = choose_alpha(PAPER, PrivacyUtility(), most_alpha=1.0, most_loss=0.49)
    assert found.where == "inside"
    grid = np.geomspace(found.least_alpha, 1.0, 200_001)
    values = 0.2 * np.exp(-25 * grid) + 0.3 - 0.02 * np.log(6 / (9 * grid + grid**2))
    assert found.alpha == pytest.approx(grid[values.argmin()], rel=1e-4)
    assert found.objective == pytest.approx(values.min(), abs=1e-9)


def test_bounds_hold_the_choice():
    tight = choose_alpha(PAPER, PrivacyUtility(), most_alpha=0.1, most_loss=0.4)
    assert (tight.alpha, tight.where) == (0.1, "alpha bound")
    accurate = choose_alpha(PAPER, PrivacyUtility(), most_alpha=1.0, most_loss=0.301)
    assert accurate.where == "loss bound"
    assert PAPER(accurate.alpha) == pytest.approx(0.301)


def test_a_lax_loss_bound_makes_tiny_alphas_best():
    """Equation (28) rewards alpha near 0 without bound: just below c3 = c4 + c6 the minimum inside is not the best."""
    found = choose_alpha(PAPER, PrivacyUtility(), most_alpha=1.0, most_loss=0.5 * (1 - 1e-6))
    assert found.where == "loss bound"
    assert found.alpha < 1e-5
    assert found.minima == pytest.approx((0.14223,), abs=1e-5)
    with pytest.raises(InputError, match="falls without bound"):
        choose_alpha(PAPER, PrivacyUtility(), most_alpha=1.0, most_loss=0.5)


def test_bounds_that_leave_nothing_are_refused():
    with pytest.raises(InputError, match="no alpha up to"):
        choose_alpha(PAPER, PrivacyUtility(), most_alpha=0.01, most_loss=0.31)


def test_utility_falls_and_its_slope_is_right():
    utility = PrivacyUtility()
    for alpha in (0.01, 0.3, 2.0):
        step = 1e-6 * alpha
        assert utility.slope(alpha) == pytest.approx(
            (utility(alpha + step) - utility(alpha - step)) / (2 * step), rel=1e-6
        )
        assert utility.slope(alpha) < 0


# --- what choosing costs -----------------------------------------------------------------------------


def test_runs_that_were_tried_compose_with_the_one_that_is_kept():
    cost = tuning_cost([0.1, 0.5], 0.2, rounds=4, delta=1e-5, largest=0.7, loss_mu=0.3)
    models = [PureRelease(0.7, 4), PureRelease(0.1, 4), PureRelease(0.5, 4)]
    assert cost.run == pytest.approx(run_epsilon(0.2, 4, 1e-5))
    assert cost.models == pytest.approx(accountant.epsilon(models, 1e-5))
    assert cost.together == pytest.approx(accountant.epsilon([*models, GaussianRelease(0.3, 1.0, 2)], 1e-5))
    assert cost.pure == pytest.approx(4 * 1.3)
    assert cost.run < cost.models < cost.together


def test_exact_losses_of_private_rows_have_no_epsilon():
    assert math.isinf(tuning_cost([0.1], 0.2, 3, 1e-5, largest=0.2).together)
    public = tuning_cost([0.1], 0.2, 3, 1e-5, tuned_on="public")
    assert public.together == public.run == public.models
    assert public.tried == 0


def test_unknown_rows_are_refused():
    with pytest.raises(InputError, match="tuned_on"):
        tuning_cost([0.1], 0.2, 3, 1e-5, tuned_on="elsewhere")


# --- runs --------------------------------------------------------------------------------------------


def rows(count=3000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 3))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    return X, np.where(rng.random(count) < 1 / (1 + np.exp(-X @ [5.0, -3.0, 1.0])), "yes", "no")


@pytest.mark.parametrize("method", ["dual", "primal"])
def test_losses_of_runs_fall_with_alpha(method):
    settings = SweepSettings(method=method, parties=3, graph="ring", noise_seed=1)
    found = measure_losses(*rows(), [0.01, 0.2, 2.0], settings, repeats=3)
    mean = np.reshape(found.losses, (3, 3)).mean(axis=1)
    assert mean[0] > 1.05 * max(mean[1:])  # from 0.2 on there is hardly any noise left
    alone = tuning_cost(found.alphas[:-1], found.alphas[-1], 3, 1e-5, largest=found.alphas[-1]).models
    # the runs know the direction of their noise, alphas alone do not; the noise that hides digits comes on top
    assert 0.9 * alone <= found.epsilon <= alone * 1.01


def test_noisy_losses_are_accounted_for_and_exact_in_the_limit():
    X, y = rows(600)
    plain = SweepSettings(parties=2, graph="ring", noise_seed=3, loss_bound=2.0)
    noisy = SweepSettings(parties=2, graph="ring", noise_seed=3, loss_bound=2.0, loss_mu=0.5)
    exact, found = (measure_losses(X, y, [0.5, 1.0], settings) for settings in (plain, noisy))
    difference = np.subtract(exact.losses, found.losses)
    assert 0 < np.abs(difference).max() < 6 * 2.0 / 600 / 0.5
    assert len(found.events) == len(exact.events) + 2
    assert found.epsilon > exact.epsilon
    with pytest.raises(InputError, match="loss_bound"):
        measure_losses(X, y, [0.5], SweepSettings(loss_mu=1.0))


def test_picture(tmp_path):
    pytest.importorskip("matplotlib")
    design = choose_alpha(PAPER, PrivacyUtility(), 1.0, 0.45)
    path = draw(design, ALPHAS, [PAPER(alpha) for alpha in ALPHAS], tmp_path / "tradeoff.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="cannot write"):
        draw(design, ALPHAS, [0.4] * 6, tmp_path / "no" / "tradeoff.png")

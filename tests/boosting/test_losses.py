"""The contract of losses that trees are grown on, over all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance

from tacit.errors import InputError
from tacit.solvers.boosting.losses import LOSSES, TreeLoss, leaf_quantiles, make_loss
from tests.boosting.test_runs import LOSSES as MADE
from tests.boosting.test_runs import labels_for

RNG = np.random.default_rng(0)


def margins(loss: TreeLoss, rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    score = np.random.default_rng(1).normal(size=rows)
    shape = rows if loss.outputs == 1 else (rows, loss.outputs)
    return np.random.default_rng(2).normal(size=shape), labels_for(loss, 2 * score)


def test_every_loss_by_name_is_here() -> None:
    assert sorted(loss.name for loss in MADE) == sorted(LOSSES)


@pytest.mark.parametrize("loss", MADE, ids=lambda loss: loss.name)
def test_slopes_are_derivatives(loss: TreeLoss) -> None:
    z, y = margins(loss)
    slope, curvature = loss.slopes(z, y)
    step = 1e-6
    for output in range(loss.outputs):
        move = np.zeros_like(z)
        move[..., output] = step
        move = move if loss.outputs > 1 else np.full_like(z, step)
        found = (loss.value(z + move, y) - loss.value(z - move, y)) / (2 * step)
        np.testing.assert_allclose(slope if loss.outputs == 1 else slope[:, output], found, atol=1e-5)
    assert (curvature > 0).all()
    assert slope.shape == curvature.shape == z.shape


@pytest.mark.parametrize(
    "loss", [one for one in MADE if one.name not in ("randomized", "quantile")], ids=lambda o: o.name
)
def test_curvatures_bound_second_derivatives(loss: TreeLoss) -> None:
    """Exactly those of one number; of several classes at least those of any direction."""
    z, y = margins(loss)
    _, curvature = loss.slopes(z, y)
    step = 1e-5
    if loss.outputs == 1:
        found = (loss.slopes(z + step, y)[0] - loss.slopes(z - step, y)[0]) / (2 * step)
        np.testing.assert_allclose(curvature, found, atol=1e-5)
        return
    direction = np.random.default_rng(3).normal(size=z.shape)
    bent = (loss.slopes(z + step * direction, y)[0] - loss.slopes(z - step * direction, y)[0]) / (2 * step)
    assert ((direction * bent).sum(axis=1) <= (curvature * direction**2).sum(axis=1) + 1e-8).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", MADE, ids=lambda loss: loss.name)
def test_the_constant_is_the_best_one(loss: TreeLoss, weighted: bool) -> None:
    _, y = margins(loss, 101)
    weights = np.random.default_rng(4).uniform(0.1, 2, size=101) if weighted else None
    constant = loss.constant(y, weights)

    def mean(b: np.ndarray) -> float:
        return loss.mean(np.zeros((101, loss.outputs)).squeeze() + b, y, weights)

    best = minimize(
        mean, constant + 0.1, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-9, "fatol": 1e-12}
    )
    assert mean(constant) <= best.fun + 1e-9


def test_values_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    z, y = rng.normal(size=200), rng.gamma(2.0, size=200)
    np.testing.assert_allclose(2 * make_loss("gamma").value(z, y).mean(), mean_gamma_deviance(y, np.exp(z)))
    np.testing.assert_allclose(2 * make_loss("poisson").value(z, y).mean(), mean_poisson_deviance(y, np.exp(z)))
    found = make_loss("quantile", quantile=0.8).value(z, y).mean()
    np.testing.assert_allclose(found, mean_pinball_loss(y, z, alpha=0.8))
    classes, scores = rng.integers(0, 3, 200).astype(float), rng.normal(size=(200, 3))
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(make_loss("softmax", classes=3).value(scores, classes).mean(), log_loss(classes, p))


def test_labels_that_were_never_flipped_have_the_logistic_loss() -> None:
    z, y = margins(make_loss("logistic"))
    np.testing.assert_allclose(make_loss("randomized").value(z, y), make_loss("logistic").value(z, y), rtol=1e-6)


def test_the_randomized_loss_has_a_lower_bound() -> None:
    """Unlike the unbiased one, which falls for ever along a right answer."""
    loss = make_loss("randomized", flip=0.2)
    assert np.isfinite(loss.value(np.array([-1e6, 1e6]), np.array([1.0, 1.0]))).all()
    assert (loss.value(np.array([-1e6, 1e6]), np.array([1.0, 1.0])) >= 0).all()


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles_of_all_leaves_at_once(level: float) -> None:
    rng = np.random.default_rng(6)
    residual, leaf = rng.normal(size=500), rng.integers(0, 7, 500)
    leaf[leaf == 4] = 5  # a leaf without rows
    found = leaf_quantiles(residual, leaf, 7, level)
    for one in range(7):
        own = residual[leaf == one]
        expected = np.quantile(own, level, method="inverted_cdf") if own.size else 0.0
        assert found[one] == expected


def test_weights_of_quantiles_are_repetitions() -> None:
    rng = np.random.default_rng(7)
    residual, leaf, weights = rng.normal(size=60), rng.integers(0, 3, 60), rng.integers(1, 5, 60)
    repeated = leaf_quantiles(np.repeat(residual, weights), np.repeat(leaf, weights), 3, 0.37)
    np.testing.assert_array_equal(leaf_quantiles(residual, leaf, 3, 0.37, weights.astype(float)), repeated)


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("logistic", [0.0, 1.0], r"needs labels -1 and \+1"),
        ("poisson", [-1.0, 2.0], "at least 0"),
        ("poisson", [0.0, 0.0], "all are 0"),
        ("gamma", [0.0, 2.0], "above 0"),
        ("softmax", [0.0, 2.0], "labels 0 to 1"),
        ("softmax", [0.5, 1.0], "labels 0 to 1"),
    ],
)
def test_labels_outside_are_refused(name: str, labels: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_loss(name).check_labels(np.array(labels))


def test_unknown_names_and_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="loss='hinge' is unknown for trees"):
        make_loss("hinge")
    with pytest.raises(InputError, match="quantile=1"):
        make_loss("quantile", quantile=1.0)
    with pytest.raises(InputError, match=r"flip=0\.5"):
        make_loss("randomized", flip=0.5)

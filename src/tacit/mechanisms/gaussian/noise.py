"""What the noise of all gradients does to the common model: about its covariance, from released values alone.

| symbol | meaning |
|---|---|
| H | curvature of the mean loss at the model, from the noisy Gram matrix |
| A | I + k z z'/||z||^2, by which a gradient is multiplied |
| e | the error that noise makes in z |

A round makes e - step A (H e + noise) of an error e, shrunk by the ridge, and the model is the mean over the second
half of the rounds. In the eigenvectors of A^1/2 H A^1/2 every direction goes its own way. Nobody's guarantee depends
on it: it is drawn as the band of a curve, and tests/algorithms/test_gaussian_noise.py compares it with the spread of
runs.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from tacit.blocks.dense import CLEAR, eigen, without_noise
from tacit.mechanisms.gaussian.settings import CONSTANT, GaussianSettings
from tacit.types import Vector

LEAST = 2.0  # eigenvalue, in deviations of the noise of a typical column: less would make bands far too wide
FAINT = 1e-3  # of a typical column: what is left of one that noise alone may have made
POINTS, MASS = np.polynomial.hermite_e.hermegauss(15)


def model_noise(
    gram: Vector, model: Vector, settings: GaussianSettings, step: float, ridge: float, more: float
) -> Vector:
    """About the covariance of the model, without its constant.

    Parameters
    ----------
    gram : array
        Noisy covariance of the rows in the coordinates of the method, see `centred_gram`.
    model : array
        z, with its constant.
    settings : GaussianSettings
    step, ridge, more : float
        Size of a step, weight of the squared coordinates, and k.
    """
    along = model / max(float(np.linalg.norm(model)), 1e-300)
    root = np.eye(model.size) + (math.sqrt(1 + more) - 1) * np.outer(along, along)
    pull, turn = eigen(root @ (_curvature(gram, model) * gram) @ root)
    kept = (1 - step * pull) / (1 + step * ridge)
    moved = step / (1 + step * ridge) * _averaged(kept, settings.rounds)
    sent = settings.noise**2 * settings.rounds  # variance of the noise in an entry of one mean gradient
    noise = sent * (turn.T @ root @ root @ turn) * (moved.T @ moved)
    back = root @ turn
    return np.asarray(back @ noise @ back.T)[:-1, :-1]


def centred_gram(gram: Vector, mean: Vector, spread: float, sd: float) -> Vector:
    """The covariance of the rows u from the noisy mean of x x', with the square of the constant beside it."""
    whole = np.zeros((len(mean) + 1,) * 2)
    whole[:-1, :-1] = _likely(gram - np.outer(mean, mean), sd) / spread**2
    whole[-1, -1] = CONSTANT**2
    return whole


def _likely(gram: Vector, sd: float) -> Vector:
    """A noisy Gram matrix as it likely was; a column that is hardly ever filled stays so, and its band wide."""
    own = np.diag(gram)
    typical = max(float(np.maximum(own, 0.0).mean()), 1e-12)
    own = np.where(own > sd / math.sqrt(2), own, FAINT * typical)  # half a deviation of its noise
    sure = np.where(np.abs(gram) > CLEAR * sd, gram, 0.0) / np.sqrt(np.outer(own, own))
    np.fill_diagonal(sure, 1.0)
    return np.sqrt(np.outer(own, own)) * without_noise(sure, 0.0, LEAST * sd / typical)


def _averaged(kept: Vector, rounds: int) -> Vector:
    """What is left of a unit of noise of each round in the mean over the second half, where `kept` of it stays."""
    first = rounds // 2
    powers = kept[None, :] ** np.arange(rounds)[:, None]
    sums = np.vstack([np.zeros(kept.size), np.cumsum(powers, axis=0)])  # over the next rounds, as many as that
    begun = np.arange(1, rounds + 1)  # the noise of a round is in the model of that round and of later ones
    return np.asarray((sums[rounds - begun + 1] - sums[np.maximum(first - begun + 1, 0)]) / (rounds - first))


def _curvature(gram: Vector, model: Vector) -> float:
    """Mean curvature of the calibrated loss over the length of a row, for scores spread like a normal law."""
    own = model[:-1]
    spread = math.sqrt(max(float(own @ gram[:-1, :-1] @ own), 0.0))
    p = expit(CONSTANT * float(model[-1]) + spread * POINTS)
    length = math.sqrt(float(np.trace(gram)))
    return float((MASS / MASS.sum()) @ np.minimum(p, 1 - p)) / max(length, CONSTANT)

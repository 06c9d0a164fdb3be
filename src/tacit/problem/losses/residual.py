"""Losses of residuals u = z - y: squared, absolute, of a quantile, and Huber's: squared near 0, absolute far off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.problem.losses.base import SLACK, Loss, indicate, is_number
from tacit.types import Vector


class Squared(Loss):
    """Squared loss, 1/2 (z - y)^2: linear regression."""

    name = "squared"
    task = "regression"
    curvature = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """1/2 (z - y)^2; infinite where the square leaves float64 (|z - y| above 1e154)."""
        with np.errstate(over="ignore"):
            return np.asarray(0.5 * np.square(z - y))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Residual z - y."""
        return np.asarray(z - y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """1 everywhere."""
        return np.ones(np.broadcast(z, y).shape)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """(v + step y) / (1 + step)."""
        return np.asarray((v + step * y) / (1.0 + step))

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """t^2 / 2 + t y, finite everywhere."""
        with np.errstate(over="ignore"):
            return np.asarray(t * (0.5 * t + y))

    def recover(self, r: Vector) -> tuple[Vector, Vector]:
        """The derivative is the prediction up to the label, which does not move."""
        return np.array(r, dtype=np.float64), np.ones(np.shape(r))


class Absolute(Loss):
    """Absolute loss, |z - y|: median regression."""

    name = "absolute"
    task = "regression"
    smooth = False
    lipschitz = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """|z - y|."""
        return np.abs(z - y)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Sign of z - y; 0 at the kink."""
        return np.sign(z - y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """0 everywhere."""
        return np.zeros(np.broadcast(z, y).shape)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Point moved from v towards y by at most step: the label clipped into [v - step, v + step]."""
        return np.clip(y, v - step, v + step)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Product t y for |t| <= 1."""
        return indicate(np.abs(t) <= 1.0 + SLACK, t * y)


class Quantile(Loss):
    """Quantile loss, level (y - z) below the label and (1 - level) (z - y) above it: quantile regression.

    Parameters
    ----------
    quantile : float
        Share of the labels that is to lie below the prediction, between 0 and 1.
    """

    name = "quantile"
    task = "regression"
    smooth = False
    parameters = ("quantile",)

    def __init__(self, quantile: float = 0.5) -> None:
        if not is_number(quantile) or not 0.0 < quantile < 1.0:
            raise InputError(f"quantile={quantile!r} is not allowed: it must lie between 0 and 1, both left out")
        self.quantile = float(quantile)
        self.lipschitz = max(self.quantile, 1.0 - self.quantile)

    def slope_range(self, y: Vector) -> tuple[Any, Any]:
        """-level below the label, 1 - level above it."""
        return -self.quantile, 1.0 - self.quantile

    def value(self, z: Vector, y: Vector) -> Vector:
        """Level times what is missing, or 1 - level times what is too much."""
        residual = z - y
        return np.maximum(-self.quantile * residual, (1.0 - self.quantile) * residual)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-level below the label, 1 - level above it; 0 at the kink."""
        low, high = self.slope_range(y)
        return np.where(z > y, high, np.where(z < y, low, 0.0))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """0 everywhere."""
        return np.zeros(np.broadcast(z, y).shape)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """The label clipped into [v - (1 - level) step, v + level step]."""
        low, high = self.slope_range(y)
        return np.clip(y, v - high * step, v - low * step)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Product t y for -level <= t <= 1 - level."""
        low, high = self.slope_range(y)
        return indicate((t >= low - SLACK) & (t <= high + SLACK), t * y)


class Huber(Loss):
    """Huber loss: quadratic near the label, linear far from it.

    Parameters
    ----------
    threshold : float
        Residual from which the loss grows linearly; 1.35 keeps 95 % of the efficiency of least squares
        under Gaussian noise of unit variance.
    """

    name = "huber"
    task = "regression"
    curvature = 1.0
    parameters = ("threshold",)

    def __init__(self, threshold: float = 1.35) -> None:
        if not (threshold > 0 and math.isfinite(threshold)):
            raise InputError(
                f'threshold={threshold:g} is not allowed: it must be positive and finite; "squared" has none'
            )
        self.threshold = float(threshold)
        self.lipschitz = self.threshold

    def value(self, z: Vector, y: Vector) -> Vector:
        """1/2 u^2 within the threshold, linear beyond."""
        size = np.abs(z - y)
        inner = np.minimum(size, self.threshold)
        return np.asarray(inner * (size - 0.5 * inner))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Residual clipped into [-threshold, threshold]."""
        return np.clip(z - y, -self.threshold, self.threshold)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """1 within the threshold, 0 beyond."""
        return (np.abs(z - y) < self.threshold).astype(np.float64)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Prox of the squared loss where that stays within the threshold, else v moved by step threshold."""
        residual = v - y
        near = np.abs(residual) <= self.threshold * (1.0 + step)
        far = v - self.threshold * step * np.sign(residual)
        return np.where(near, (v + step * y) / (1.0 + step), far)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """t^2 / 2 + t y for |t| <= threshold."""
        inside = np.abs(t) <= self.threshold * (1.0 + SLACK)
        with np.errstate(over="ignore"):
            return indicate(inside, t * (0.5 * t + y))

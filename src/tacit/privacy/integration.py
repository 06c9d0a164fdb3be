"""Epsilon by numerical integration of the densities, to check the closed form where delta is very small."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tacit.privacy import curves
from tacit.types import Vector


def integrated_epsilon(mu: float, losses: curves.Losses, delta: float) -> float:
    """Epsilon by integrating the densities: delta(eps) = sum_j p_j int_0^inf phi(c + t) (1 - e^(-mu t)) dt.

    Here c = (eps - l_j)/mu - mu/2; 0.01 % is added to delta for the accuracy of the integral.
    """
    values, masses = losses.values, losses.masses
    start = float(values.max()) + mu * mu / 2 + mu
    if mu == 0:
        return curves.smallest(lambda x: float(masses @ -np.expm1(np.minimum(x - values, 0.0))) <= delta, start)
    return curves.smallest(lambda x: _integral(x - values, masses, mu) * 1.0001 <= delta, start, 1e-7)


def _integral(shifted: Vector, masses: Vector, mu: float) -> float:
    """The mixture of the integrals above, by Gauss-Legendre on pieces that halve towards 0."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    c = shifted / mu - mu / 2
    begin = np.maximum(0.0, -c - 40.0)  # before that phi is below 1e-347
    edges = np.concatenate([[0.0], 0.5 ** np.arange(14.0, 0.0, -1.0), np.arange(1.0, 81.0)])
    total = 0.0
    for left, right in pairwise(edges):
        t = begin[:, None] + (right - left) / 2 * nodes + (right + left) / 2
        with np.errstate(over="ignore", under="ignore"):
            inner = np.exp(-((c[:, None] + t) ** 2) / 2) * -np.expm1(-mu * t)
        total += float(masses @ (inner @ weights)) * (right - left) / 2
    return total / math.sqrt(2 * math.pi)

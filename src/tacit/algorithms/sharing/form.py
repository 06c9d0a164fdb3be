"""Which form of sharing ADMM is run, and where its penalty starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.constant import label_spread
from tacit.problem.losses.base import Loss
from tacit.types import Vector

WINDOW = 15


@dataclass(frozen=True)
class Form:
    """Which of the two forms is run."""

    copies: int  # into how many parts the residual is divided
    window: int  # results kept for acceleration; 1: none
    published: bool = False


def averaged_form(problem: Problem) -> Form:
    """The averaged form, accelerated where the fixed point is smooth enough for it."""
    helps = problem.loss.convex and (problem.loss.smooth or problem.regularizer.strong_convexity > 0)
    room = 2 * problem.max_window // 3  # three vectors per result here, two per step where max_window was counted
    return Form(copies=problem.parties, window=max(1, min(WINDOW, room)) if helps else 1)


def published_form(problem: Problem) -> Form:
    """The paper's form: every party corrects the whole residual, nothing is accelerated."""
    return Form(copies=1, window=1, published=True)


def default_rho(loss: Loss, labels: Vector, copies: int) -> float:
    """Start for rho from the curvature of the loss, or from slope over spread of the labels where it has none."""
    spread = label_spread(labels)
    if loss.concavity > 0:
        return 2.0 * copies * loss.concavity  # the z-update must have one minimiser
    if math.isfinite(loss.curvature):
        return 0.4 * loss.curvature
    if math.isfinite(loss.lipschitz):
        return 0.4 * loss.lipschitz / (1.0 if loss.task == "classification" else spread)
    return 0.4 * max(float(np.mean(labels)), 1e-3)

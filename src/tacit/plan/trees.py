"""Boosted trees of a job: their loss and settings, and facts about a loss of either kind of model by its name."""

from __future__ import annotations

from dataclasses import asdict

from tacit.job import Job
from tacit.problem.losses import Loss
from tacit.problem.registry import LOSSES, get_loss
from tacit.solvers.boosting import TreeLoss, TreeSettings
from tacit.solvers.boosting.losses import make_loss


def loss_of(job: Job) -> Loss | TreeLoss:
    """The loss that a job names."""
    if job.trees is None:
        return get_loss(job.model.loss)
    return make_loss(job.model.loss, quantile=0.5 if job.model.quantile is None else job.model.quantile)


def named_loss(name: str) -> Loss | TreeLoss:
    """A loss of either kind of model by its name, with its usual parameters: for what it is, not for its values."""
    return get_loss(name) if name in LOSSES else make_loss(name)


def tree_settings(job: Job) -> TreeSettings | None:
    """How the trees of a job are grown; None for a linear model."""
    if job.trees is None:
        return None
    return TreeSettings(loss=loss_of(job), tol=job.tol, **asdict(job.trees))  # type: ignore[arg-type]

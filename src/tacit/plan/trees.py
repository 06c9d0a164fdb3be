"""Boosted trees in a plan: which loss parties see, how trees are grown, and what is refused."""

from __future__ import annotations

from typing import cast

from tacit.errors import InputError
from tacit.plan.request import TrainingRequest
from tacit.privacy.request import SPARING, Privacy
from tacit.problem.losses import Loss
from tacit.problem.losses.modified import flip_of
from tacit.problem.registry import get_loss
from tacit.solvers.boosting import TREES, TreeSettings
from tacit.solvers.boosting.losses import TreeLoss
from tacit.solvers.boosting.settings import for_labels


def loss_beside_trees(loss: TreeLoss, privacy: Privacy) -> Loss:
    """The loss that parties see: that of linear models where their rows are protected, as their parts are linear.

    Raises
    ------
    InputError
        Where there is none.
    """
    if privacy.epsilon is None:
        assert privacy.label_epsilon is not None
        return cast("Loss", loss.of_randomized(flip_of(privacy.label_epsilon)))
    if not loss.linear_name:
        raise InputError(
            f"privacy does not fit loss={loss.name!r} of trees: protected parties fit logistic, squared or absolute "
            "errors; choose one of these, or leave privacy out"
        )
    return get_loss(loss.linear_name)


def asked_trees(request: TrainingRequest, rows: int) -> TreeSettings:
    """How trees are grown: by all parties, on randomized labels where these alone are protected."""
    trees = cast("TreeSettings", request.trees)
    labels_alone = request.privacy is not None and request.privacy.epsilon is None
    return for_labels(trees, request.privacy.label_epsilon, rows) if labels_alone and request.privacy else trees


def check_trees(request: TrainingRequest) -> str:
    """The method of trees, where nothing else was asked that they cannot do."""
    if request.method not in ("auto", TREES.name):
        raise InputError(f"method={request.method!r} does not fit trees: leave method out")
    if request.memory is not None:
        raise InputError("memory is not available with boosted trees: leave it out, or train a linear model")
    if request.privacy is not None and request.privacy.mechanism not in SPARING:
        raise InputError(
            f"mechanism={request.privacy.mechanism!r} does not fit boosted trees, whose label holder grows trees on "
            "its own rows beside mechanism 'gram' of the others: leave mechanism out"
        )
    if request.secure_aggregation:
        raise InputError(
            "secure_aggregation=True does not fit boosted trees, whose label holder reads every party's answer by "
            "itself: leave it out, or train a linear model"
        )
    return TREES.name

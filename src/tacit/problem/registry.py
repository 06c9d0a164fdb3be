"""Losses and regularizers by name: a new one is a subclass of `Loss` or `Regularizer`, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from tacit.errors import InputError
from tacit.problem.losses.base import Loss
from tacit.problem.losses.families import Gamma, NegativeBinomial, Poisson, Tweedie
from tacit.problem.losses.hinge import Hinge, SquaredHinge
from tacit.problem.losses.logistic import Logistic
from tacit.problem.losses.residual import Absolute, Huber, Quantile, Squared
from tacit.problem.losses.sigmoid import Sigmoid
from tacit.problem.regularizers import L1, L2, Ball, Box, ElasticNet, GroupLasso, NonNegative, NoPenalty, Regularizer

LOSSES: dict[str, type[Loss]] = {
    "absolute": Absolute,
    "gamma": Gamma,
    "hinge": Hinge,
    "huber": Huber,
    "logistic": Logistic,
    "negative_binomial": NegativeBinomial,
    "poisson": Poisson,
    "quantile": Quantile,
    "sigmoid": Sigmoid,
    "squared": Squared,
    "squared_hinge": SquaredHinge,
    "tweedie": Tweedie,
}

REGULARIZERS: dict[str, type[Regularizer]] = {
    "ball": Ball,
    "box": Box,
    "elastic_net": ElasticNet,
    "group_lasso": GroupLasso,
    "l1": L1,
    "l2": L2,
    "none": NoPenalty,
    "nonnegative": NonNegative,
}

T = TypeVar("T")


def get_loss(loss: str | Loss) -> Loss:
    """Loss of that name with its default parameters; a loss is returned as it is.

    Raises
    ------
    InputError
        Where the name is unknown.
    """
    return loss if isinstance(loss, Loss) else find("loss", loss, LOSSES)()


def make_loss(loss: str | Loss, **given: object) -> Loss:
    """Loss of that name with these parameters; those that are None are left at their defaults.

    Raises
    ------
    InputError
        Where the name is unknown, or a parameter is not one of this loss.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    made = get_loss(loss)
    for name in wanted:
        if name not in made.parameters or isinstance(loss, Loss):
            owners = [known for known, one in LOSSES.items() if name in one.parameters]
            raise InputError(f"{name} is for loss={owners[0]!r}, not for loss={made.name!r}: leave it out")
    return made if not wanted else type(made)(**wanted)


def get_regularizer(regularizer: str | Regularizer) -> Regularizer:
    """Regularizer of that name with its default parameters; a regularizer is returned as it is.

    Raises
    ------
    InputError
        Where the name is unknown.
    """
    if isinstance(regularizer, Regularizer):
        return regularizer
    return find("penalty", regularizer, REGULARIZERS)()


def find(kind: str, name: object, known: Mapping[str, type[T]]) -> type[T]:
    """Class registered under a name.

    Parameters
    ----------
    kind : str
        What the name is of, as the user knows it: "loss", "regularizer".
    name : object
        What the user wrote.
    known : mapping of str to class

    Returns
    -------
    type

    Raises
    ------
    InputError
        Where the name is not registered; the message suggests the nearest and lists all.
    """
    if isinstance(name, str) and name in known:
        return known[name]
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5) if isinstance(name, str) else []
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"{kind}={name!r} is unknown: {hint}choose one of {', '.join(sorted(known))}")

"""Regularizers by name. A new one is one file with a subclass of `Regularizer` and one line below."""

from tacit.problem.registry import find
from tacit.problem.regularizers.base import Form, Regularizer
from tacit.problem.regularizers.constraints import Ball, Box, NonNegative
from tacit.problem.regularizers.norms import L1, L2, ElasticNet, NoPenalty

REGULARIZERS: dict[str, type[Regularizer]] = {
    "ball": Ball,
    "box": Box,
    "elastic_net": ElasticNet,
    "l1": L1,
    "l2": L2,
    "none": NoPenalty,
    "nonnegative": NonNegative,
}


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


__all__ = [
    "L1",
    "L2",
    "REGULARIZERS",
    "Ball",
    "Box",
    "ElasticNet",
    "Form",
    "NoPenalty",
    "NonNegative",
    "Regularizer",
    "get_regularizer",
]

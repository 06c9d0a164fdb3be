"""What the labels of a job mean to the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.labels import encode_binary
from tacit.errors import InputError
from tacit.problem.losses import Loss
from tacit.text import show
from tacit.types import Vector


@dataclass(frozen=True)
class Labels:
    """What the labels mean: their classes where there are two, the negative one first.

    Where the rows are split, those of all nodes follow each other; `epsilons` say at which each was randomized before.
    """

    values: Vector
    classes: tuple[Any, ...] = ()
    epsilons: Vector | None = None


def encode_labels(
    values: Any, loss: Loss, party: str, positive: str | float | bool | None = None, *, dropped: int = 0
) -> Labels:
    """Labels as the loss wants them: -1 and +1 (for `positive`, where it is chosen), or numbers.

    `dropped` rows more are in the file and were not matched, which is said where one class alone is left.
    """
    if loss.task == "classification":
        encoded, classes = encode_binary(values, party=party, positive=positive, dropped=dropped)
        plain = (value if isinstance(value, str | int | float) else str(value) for value in classes.tolist())
        return Labels(encoded, tuple(plain))
    if positive is not None:
        raise InputError(f"positive = {show(positive)} is for two classes, not for loss {show(loss.name)}: remove it")
    try:
        return Labels(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"party {show(party)}: the labels are not numbers ({show(values[0])}, ...), which loss {show(loss.name)} "
            "needs: encode them, or choose a loss for two classes, such as logistic"
        ) from error

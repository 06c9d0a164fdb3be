"""One party's part of a model, and how it scores a row: linear, or clipped as in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.blocks.rows import RowClip
from tacit.mechanisms.gram.settings import BEND_AT
from tacit.types import Matrix, Shard, Vector


@dataclass(frozen=True)
class PartyModel:
    """One party's part of the model.

    Its score of a row is s = row . coef - offset, and then s + bend * (s clipped to -4 .. 4). Where `clip` is given,
    the row is clipped first; `constant` is what is then left of the offset beside the centre of the clip.
    """

    name: str
    columns: tuple[str, ...]
    coef: Vector
    offset: float
    clip: RowClip | None = None
    bend: float = 0.0

    def score(self, features: Matrix) -> Vector:
        """One number for each row."""
        if self.clip is None:
            score = np.asarray(features @ self.coef, dtype=np.float64) - self.offset
        else:
            score = self.clip.apply(features).predict(self.coef) + self.constant
        return score + self.bend * np.clip(score, -BEND_AT, BEND_AT) if self.bend else score

    @property
    def constant(self) -> float:
        """What the party adds to the score of every row, whatever is in it."""
        centre = None if self.clip is None else self.clip.centre
        return (0.0 if centre is None else float(centre @ self.coef)) - self.offset

    @property
    def is_linear(self) -> bool:
        """Whether a score is linear in the row, however long it is."""
        return self.clip is None and self.bend == 0.0

    @property
    def linear_coef(self) -> Vector:
        """Coefficients for rows whose score is neither clipped nor bent off."""
        return self.coef * (1.0 + self.bend)

    @property
    def linear_offset(self) -> float:
        """What is taken off such a row's score."""
        return self.offset * (1.0 + self.bend)


def joint_scores(parts: Sequence[PartyModel], constant: float, shards: Sequence[Shard]) -> Vector:
    """Score of each row: the sum of the parties' scores and the constant."""
    total = np.full(shards[0].features.shape[0], constant)
    for part, shard in zip(parts, shards, strict=True):
        total += part.score(shard.features)
    return total

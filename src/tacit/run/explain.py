"""A prediction as a sum: a constant, one number from each party, and within a party one from each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from tacit.blocks import make_block
from tacit.columns.raw import RawTable
from tacit.columns.words import Cell
from tacit.errors import InputError
from tacit.run.predict import SavedModel
from tacit.run.result import PartyModel, TreePart
from tacit.types import SCORE_CLIP, Matrix, Shard, Vector


@dataclass(frozen=True, eq=False)
class Share:
    """One party's part of a row's score.

    Attributes
    ----------
    party : str
    score : float
        What the party adds.
    columns : tuple of str
        The model's columns, encoded ones where the party's were encoded.
    values : array
        The row's values in these columns.
    adds : array
        What each column adds; with `rest` these sum to `score`.
    rest : float
        What belongs to no column: a constant of the party, which takes its average row off where columns are centred;
        of trees their mean over the rows they were grown on.
    """

    party: str
    score: float
    columns: tuple[str, ...]
    values: Vector
    adds: Vector
    rest: float

    def by_column(self, cells: Sequence[Cell] | None) -> list[dict[str, Any]]:
        """What each of the party's own columns adds, the largest first, as plain values.

        Parameters
        ----------
        cells : sequence of Cell or None
            The row in the party's file; None where its columns are the model's.
        """
        parts: list[dict[str, Any]] = [
            {"column": name, "value": float(value), "adds": float(adds)}
            for name, value, adds in zip(self.columns, self.values, self.adds, strict=True)
        ]
        if cells is None:
            cells = [Cell(part["column"], part["value"], "", 1) for part in parts]
        found: list[dict[str, Any]] = []
        start = 0
        for cell in cells:
            own = parts[start : start + cell.width]
            start += cell.width
            adds = math.fsum(part["adds"] for part in own)
            found.append({"column": cell.column, "value": cell.value, "note": cell.note, "adds": adds, "parts": own})
            found[-1]["words"] = cell.words
        return sorted(found, key=lambda one: -abs(one["adds"]))


def with_offset(share: Share, offset: float) -> Share:
    """A share with the offset of its row, which belongs to no column of the model."""
    return replace(share, score=share.score + offset, rest=share.rest + offset)


def explain(model: SavedModel, shards: Sequence[Shard], row: int) -> list[Share]:
    """What each party adds to the score of one row, which counts from 0.

    Raises
    ------
    InputError
        For a model of more than two classes.
    """
    if np.ndim(model.constant):
        raise InputError("a score of more than two classes has a number for each: explanations are of one number alone")
    return [
        _tree_share(part, shard.features[[row]])
        if isinstance(part, TreePart)
        else _share(part, shard.features[[row]], shard.columns)
        for part, shard in zip(model.parties, shards, strict=True)
    ]


def _tree_share(part: TreePart, features: RawTable) -> Share:
    """What trees add, by column (TreeSHAP); what belongs to none is their mean over the rows they were grown on."""
    shares = part.contributions(features)[0]
    values = np.asarray(features.values[0], dtype=np.float64)
    return Share(part.name, float(part.score(features)[0]), part.columns, values, shares[:-1], float(shares[-1]))


def _share(part: PartyModel, features: Matrix, columns: tuple[str, ...]) -> Share:
    values = np.asarray(features.todense() if sparse.issparse(features) else features, dtype=np.float64).ravel()
    score = float(part.score(features)[0])
    if part.clip is None:
        adds, rest = values * part.coef, part.constant
    else:
        rows = part.clip.apply(
            make_block(features)
        )  # a long row is scaled down, and so is what each of its columns adds
        centre = np.zeros(len(values)) if part.clip.centre is None else part.clip.centre
        shrunk = values * rows.shrink[0] if rows.kept[0] else np.zeros(len(values))
        adds, rest = rows.factor[0] * (shrunk - centre) * part.coef, part.constant
    straight = float(adds.sum() + rest)
    if part.bend:  # the same factor for all columns
        bent = 1 + part.bend if abs(straight) <= SCORE_CLIP else 1 + part.bend * SCORE_CLIP / abs(straight)
        adds, rest = adds * bent, rest * bent
    return Share(part.name, score, columns, values, adds, rest)

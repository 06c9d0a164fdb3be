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


def explain(model: SavedModel, shards: Sequence[Shard], row: int, output: int = 0) -> list[Share]:
    """What each party adds to the score of one row, which counts from 0.

    Of more than two classes a score has a number for each, and `output` says which of them is taken apart.
    """
    return [
        _tree_share(part, shard.features[[row]], output)
        if isinstance(part, TreePart)
        else _share(part if part.outputs == 1 else part.of_class(output), shard.features[[row]], shard.columns)
        for part, shard in zip(model.parties, shards, strict=True)
    ]


def _tree_share(part: TreePart, features: RawTable, output: int) -> Share:
    """What trees add, by column (TreeSHAP); what belongs to none is their mean over the rows they were grown on."""
    shares = part.contributions(features).reshape(part.model.outputs, -1)[output]
    score = float(part.score(features).ravel()[output])
    values = np.asarray(features.values[0], dtype=np.float64)
    return Share(part.name, score, part.columns, values, shares[:-1], float(shares[-1]))


def _share(part: PartyModel, features: Matrix, columns: tuple[str, ...]) -> Share:
    values = _dense(features)
    adds, rest = contributions(part, features, values)
    return Share(part.name, float(part.score(features)[0]), columns, values[0], adds[0], float(rest[0]))


def _dense(features: Matrix) -> Vector:
    return np.asarray(features.todense() if sparse.issparse(features) else features, dtype=np.float64)


def contributions(part: PartyModel, features: Matrix, values: Vector | None = None) -> tuple[Vector, Vector]:
    """What each encoded column adds to each row, and what belongs to none; together they are the part's score."""
    values = _dense(features) if values is None else values
    rest = np.full(len(values), part.constant)
    if part.clip is None:
        adds = values * part.coef
    else:  # a long row is scaled down, and so is what each of its columns adds
        rows = part.clip.apply(make_block(features))
        centre = np.zeros(values.shape[1]) if part.clip.centre is None else part.clip.centre
        shrunk = np.where(rows.kept[:, None], values * rows.shrink[:, None], 0.0)
        adds = rows.factor[:, None] * (shrunk - centre) * part.coef
    if part.bend:  # the same factor for all columns
        size = np.maximum(np.abs(adds.sum(axis=1) + rest), SCORE_CLIP)
        bent = 1 + part.bend * SCORE_CLIP / size
        adds, rest = adds * bent[:, None], rest * bent
    return adds, rest


# --- all rows at once ----------------------------------------------------------------------------------


BASELINE = "baseline"


class Explanation(dict[str, dict[str, Vector]]):
    """What each column adds to the score of each row: by party, and by column of its table.

    The sums of a row, with `baseline` under "", are its score. Of several classes every array has a column for each.
    """

    @property
    def by_party(self) -> dict[str, Vector]:
        """What each party adds to each row; the baseline is not among it."""
        return {party: np.asarray(sum(own.values())) for party, own in self.items() if party}

    def to_frame(self) -> Any:
        """One row per row, one column per (party, column), as a pandas DataFrame (pandas must be installed)."""
        import pandas as pd

        cells = {(party, column): adds for party, own in self.items() for column, adds in own.items()}
        if any(np.ndim(adds) > 1 for adds in cells.values()):
            raise InputError("of several classes each column adds one number for each: take the arrays themselves")
        return pd.DataFrame(cells)


def explain_rows(
    parts: Sequence[Any], shards: Sequence[Shard], encoders: Sequence[Any], constant: Any, names: Sequence[str]
) -> Explanation:
    """Take the scores of all rows apart.

    Parameters
    ----------
    parts : sequence of PartyModel or TreePart
    shards : sequence of Shard
        The rows of each part, encoded.
    encoders : sequence of Encoder or None
        How a linear part's columns were encoded; None where they were used as they are.
    constant : float or array
        Added to the parts' scores.
    names : sequence of str
        Whose part each one is.
    """
    found, base = Explanation(), np.zeros(np.shape(constant)) + constant
    for name, part, shard, encoder in zip(names, parts, shards, encoders, strict=True):
        if isinstance(part, TreePart):
            own = part.contributions(shard.features)
            found[name] = {column: own[..., place] for place, column in enumerate(part.columns)}
            base = base + own[..., -1]
            continue
        adds, rest = contributions(part, shard.features)
        slices = [(column, [place]) for place, column in enumerate(part.columns)]
        if encoder is not None:
            slices = [(one.name, place) for one, place in zip(encoder.columns, encoder.slices, strict=True)]
        found[name] = {column: adds[:, place].sum(axis=1) for column, place in slices}
        base = base + rest
    found[""] = {BASELINE: np.asarray(base)}
    return found

"""One party's own scores: computed for every row of its file when its service starts, looked up by id afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.data.load import PartySpec, load_prediction_data
from tacit.errors import InputError
from tacit.privacy.aggregation import SHARE
from tacit.run.folder import RunFolder
from tacit.run.predict import load_part, part_offsets
from tacit.run.result import TreePart, text_file
from tacit.text import show
from tacit.types import Vector

ABSENT = 0.0
"""What a party with a linear part adds for an id that it does not know, and what stands for it where it is away.

With an intercept a party's columns are centred, so its average row adds 0: no number from its rows is needed. Trees add
what they add to the average row that they were grown on, which their owner alone knows.
"""


@dataclass(frozen=True, eq=False)
class OwnScores:
    """Scores of a party's rows by id.

    Attributes
    ----------
    party : str
    scores : Vector
        One for each row, and behind the last what an unknown id gets, by the same lookup: `ABSENT`, or the average of
        the party's trees. Of more than two classes each is a row with a number for each class.
    places : mapping of str to int
        Where the score of an id stands.
    part : bytes
        What the party's part of the model is saved as, for a fingerprint.
    said : tuple of str
        Remarks on the file.
    """

    party: str
    scores: Vector
    places: Mapping[str, int]
    part: bytes = b""
    said: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        """Numbers of a score: 1, or of more than two classes how many there are."""
        return int(np.prod(self.scores.shape[1:], dtype=np.int64))

    def of(self, ids: Sequence[str]) -> tuple[Vector, int]:
        """The score of each id, and how many ids are unknown (for the party itself alone)."""
        last = len(self.scores) - 1
        rows = np.fromiter((self.places.get(one, last) for one in ids), dtype=np.int64, count=len(ids))
        return self.scores[rows], int(np.count_nonzero(rows == last))


def part_file(model: str, party: str | None) -> Path:
    """The file of a party's part: itself, or that of a named party in the directory of a run."""
    path = Path(model)
    if not path.is_dir():
        return path
    if party is None:
        raise InputError(f"{show(model)} is the directory of a run: say whose part this is with --party NAME")
    return RunFolder(path).part(party)


def read_own_scores(file: Path, data: str | Path, *, hold: bool = False) -> OwnScores:
    """Score all rows of a party's file with its part of the model; of more than two classes a number for each.

    Scores beyond what masks can carry are refused, or with `hold` held to it where a refusal would be seen by others.
    """
    part, id_, encoder = load_part(file)
    saved, absent = file.read_bytes(), np.full(() if part.outputs == 1 else part.outputs, ABSENT)
    if isinstance(part, TreePart):
        saved, absent = saved + text_file(file).read_bytes(), part.average
    if id_ is None:
        raise InputError(f"the model of party {show(part.name)} has no id column: train with id = ... to ask by id")
    columns = part.columns if encoder is None else encoder.sources
    rows = load_prediction_data([PartySpec(part.name, id=id_, features=columns)], [data], [encoder])
    if rows.ids is None:  # not with an id column
        raise InputError(f"party {show(part.name)}: {show(str(data))} has no ids")
    with np.errstate(over="ignore", invalid="ignore"):
        scores = part.score(rows.shards[0].features) + part_offsets(part, rows.tables[0], rows.rows[0])
    if hold:
        scores = np.clip(np.where(np.isnan(scores), 0.0, scores), -SHARE.bound, SHARE.bound)
    if not bool(np.all(np.abs(scores) <= SHARE.bound)):  # refused now, since a refusal later would tell about a row
        raise InputError(f"party {show(part.name)}: some scores are beyond {SHARE.bound:.3g}: fix its rows")
    places = {str(one): place for place, one in enumerate(rows.ids.tolist())}
    return OwnScores(part.name, np.concatenate([scores, [absent]]), places, saved, rows.said)

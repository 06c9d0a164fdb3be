"""What a run leaves behind: the model, by party and as a whole, and how the run went.

A party's trees in the folder of a run: model/PARTY.json says which columns, model/PARTY.txt has LightGBM's text. Both
may come from elsewhere, and are read without trust: the text by `TreeModel.read`, which checks every number before
LightGBM sees it.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.blocks import make_block
from tacit.blocks.dense import RowClip
from tacit.columns.encoder import Encoder
from tacit.columns.raw import RawEncoder, RawTable
from tacit.errors import InputError
from tacit.files import damaged, write_text
from tacit.job.trees import TREES
from tacit.mechanisms.gram.fit import HeldOutRelease
from tacit.plan import Plan
from tacit.privacy.certificate import Certificate
from tacit.solvers.base import Problem
from tacit.solvers.boosting.model import LONGEST, TreeModel
from tacit.solvers.boosting.sides import MODEL, BoostingHistory
from tacit.text import one_line
from tacit.types import SCORE_CLIP, Matrix, Shard, Trace, TraceRow, Vector
from tacit.version import __version__

ALL_PARTIES = "all parties"  # whose model it is where the rows are split

# --- One party's part of a model, and how it scores a row: linear, or clipped as in training


@dataclass(frozen=True)
class PartyModel:
    """One party's part of the model.

    Its score of a row is s = row . coef - offset, and then s + bend * (s clipped to -4 .. 4). Of more than two classes
    `coef` has a row for each, and `offset` a number, as have the scores of a row. Where `clip` is given,
    the row is clipped first; `constant` is what is then left of the offset beside the centre of the clip. `noise` is
    about the covariance that the noise of a private run gave `coef`, where that is known; of a part that was read from
    a file, within the encoded columns of each column. `row_columns` names the columns of the party's file with the
    offset and the exposure of a row, where the model was trained with them.
    """

    name: str
    columns: tuple[str, ...]
    coef: Vector
    offset: Any
    clip: RowClip | None = None
    bend: float = 0.0
    noise: Vector | None = None
    row_columns: Mapping[str, str] = field(default_factory=dict)

    def score(self, features: Matrix) -> Vector:
        """One number for each row, or one for each row and class."""
        if self.clip is None:
            score = np.asarray(features @ self.coef.T, dtype=np.float64) - self.offset
        else:
            score = self.clip.apply(make_block(features)).predict(self.coef.T) + self.constant
        return _bent(score, self.bend)

    @property
    def constant(self) -> Any:
        """What the party adds to the score of every row, whatever is in it."""
        centre = None if self.clip is None else self.clip.centre
        return (0.0 if centre is None else self.coef @ centre) - self.offset

    @property
    def outputs(self) -> int:
        """Scores of a row."""
        return 1 if self.coef.ndim == 1 else len(self.coef)

    def of_class(self, number: int) -> PartyModel:
        """What it adds to the score of one of several classes."""
        return replace(self, coef=self.coef[number], offset=float(self.offset[number]))

    @property
    def is_linear(self) -> bool:
        """Whether a score is linear in the row, however long it is."""
        return self.clip is None and self.bend == 0.0

    @property
    def linear_coef(self) -> Vector:
        """Coefficients for rows whose score is neither clipped nor bent off."""
        return self.coef * (1.0 + self.bend)

    @property
    def linear_offset(self) -> Any:
        """What is taken off such a row's score."""
        return self.offset * (1.0 + self.bend)


def _bent(score: Vector, bend: float) -> Vector:
    return score + bend * np.clip(score, -SCORE_CLIP, SCORE_CLIP) if bend else score


# --- One party's part of a model of trees


@dataclass(frozen=True)
class TreePart:
    """One party's trees: their score of a row is what they add to it, one number or one for each class.

    Beside private parts the label holder's trees have a constant and are bent off, as its linear part is: the score is
    s = trees - offset, and then s + bend * (s clipped to -4 .. 4).
    """

    name: str
    columns: tuple[str, ...]
    model: TreeModel
    offset: float = 0.0
    bend: float = 0.0

    def score(self, features: RawTable) -> Vector:
        """What the trees add to each row."""
        return _bent(self.model.score(self._values(features)) - self.offset, self.bend)

    @property
    def average(self) -> Any:
        """The score of the average row: what the trees add in the mean to the rows that they were grown on."""
        return _bent(self.model.average - self.offset, self.bend)

    def contributions(self, features: RawTable) -> Vector:
        """What each column adds to each row (TreeSHAP), and last what every row has in common.

        Where scores are bent off, what is missing beyond the clip is part of the last number.
        """
        adds = self.model.contributions(self._values(features))
        adds[..., -1] -= self.offset
        if self.bend:
            straight = adds.sum(axis=-1)
            adds *= 1 + self.bend
            adds[..., -1] += _bent(straight, self.bend) - (1 + self.bend) * straight
        return adds

    def _values(self, features: RawTable) -> npt.NDArray[Any]:
        if not isinstance(features, RawTable) or features.d != self.model.features:
            raise InputError(f"party {self.name!r}: its trees need its {self.model.features} columns as they are")
        return features.values

    @property
    def outputs(self) -> int:
        """Scores of a row."""
        return self.model.outputs

    @property
    def is_linear(self) -> bool:
        """No."""
        return False

    @property
    def linear_coef(self) -> Vector:
        """None: trees have no coefficients."""
        return np.zeros(0)

    @property
    def linear_offset(self) -> float:
        """What is taken off the score of a row that is not bent off."""
        return self.offset * (1.0 + self.bend)

    @property
    def text(self) -> str:
        """The trees as LightGBM's text."""
        return self.model.text


def make_part(name: str, columns: tuple[str, ...], made: dict[str, Any]) -> Any:
    """A party's part of the model from what a side made: trees, or coefficients."""
    return TreePart(name, columns, **made) if MODEL in made else PartyModel(name, columns, **made)


def joint_scores(parts: Sequence[Any], constant: Any, shards: Sequence[Shard]) -> Vector:
    """Score of each row: the sum of the parties' scores and the constant, one number or one for each class."""
    total = np.full((shards[0].features.shape[0], *np.shape(constant)), constant, dtype=np.float64)
    for part, shard in zip(parts, shards, strict=True):
        total += part.score(shard.features)
    return total


# --- The model of a run: a sum over the parties' columns, or the mean of the nodes' models


@dataclass(frozen=True)
class Model:
    """The model of a run, of either split.

    Attributes
    ----------
    parts : tuple of PartyModel, or of TreePart
        Each party's part, in the order of the plan. Where rows are split, a part is a node's model of whole rows.
    constant : float
        What is added to the scores; of several classes an array, one number for each.
    mean : PartyModel or None
        Where rows are split: the mean of the nodes' models, with which rows are scored. None where columns are split:
        there the parts' scores are added up.
    predictions_for : str or None
        The only party that may see predictions of a private run; None where anyone may.
    """

    parts: tuple[PartyModel, ...]
    constant: float
    mean: PartyModel | None = None
    predictions_for: str | None = None

    @property
    def terms(self) -> tuple[PartyModel, ...]:
        """What is added up in a score, one for each table of a row."""
        return self.parts if self.mean is None else (self.mean,)

    def scores(self, shards: Sequence[Shard]) -> Vector:
        """Score of each row, from one table for each of the `terms`."""
        return joint_scores(self.terms, self.constant, shards)

    @property
    def coef(self) -> Vector:
        """Coefficients of the joint linear model, for rows that are not clipped."""
        return np.concatenate([term.linear_coef for term in self.terms], axis=-1)

    @property
    def intercept(self) -> Any:
        """Intercept of the joint linear model."""
        return self.constant - sum(term.linear_offset for term in self.terms)


@dataclass(frozen=True)
class Result:
    """A finished run.

    Attributes
    ----------
    plan : Plan
    model : Model
    trace : Trace
        Where rows are split it holds what who watches the whole simulation may compute. In a deployment no node knows
        it, and no decision of a node depends on it: `objective` is that of the mean model, `primal` the largest
        distance of a node from the mean, relative to its norm, `dual` the largest residual at a node. That of a private
        run holds what `tacit.run.drive` allows: of these `primal` alone, which then compares released models.
    certificate : Certificate
        With the software that ran it.
    converged : bool
    note : str
        Why the method gave up; empty otherwise.
    seconds : float
    traffic : dict of str to int
        Bytes over the whole run, and rounds.
    outlook : tuple of str
        In a private run: whether the collaboration is worth it.
    boosting : BoostingHistory or None
        Of a run of trees: losses and steps by round.
    tried : HeldOutRelease or None
        What was released of rows held out, where the plan has that.
    """

    plan: Plan
    model: Model
    trace: Trace
    certificate: Certificate
    converged: bool
    note: str
    seconds: float
    traffic: dict[str, int]
    outlook: tuple[str, ...] = ()
    boosting: BoostingHistory | None = None
    tried: HeldOutRelease | None = None


def traffic(trace: Sequence[TraceRow]) -> dict[str, int]:
    """Bytes of payload over the whole run."""
    return {
        "bytes_down": sum(row.bytes_down for row in trace),
        "bytes_up": sum(row.bytes_up for row in trace),
        "rounds": len(trace),
    }


# --- What a linear model was trained on


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """What a linear model was trained on: enough to say how sure its coefficients are.

    Attributes
    ----------
    problem : Problem
    groups : sequence of sequences of Shard
        Rows that follow each other; each group has the shards of all parties, or of one node.
    labels : array
        As the loss wants them, of all groups one after the other.
    names : tuple of str
        Whose columns each shard's are; of all parties together where the rows are split.
    private : bool
    encoders : mapping of str to Encoder
        By these names; empty where columns were used as they are.
    weights : array or None
        Of the rows.
    """

    problem: Problem
    groups: Sequence[Sequence[Shard]]
    labels: Vector
    names: tuple[str, ...]
    private: bool
    encoders: Mapping[str, Encoder]
    weights: Vector | None = None

    @classmethod
    def of_parties(
        cls, plan: Plan, shards: Sequence[Shard], labels: Vector, encoders: Mapping[str, Encoder]
    ) -> TrainedOn:
        """Of parties with different columns of the same rows; rows of a private run are not kept."""
        names, private = tuple(shard.name for shard in shards), plan.private is not None
        groups = [] if private else [shards]
        return cls(plan.problem, groups, labels, names, private, encoders, plan.problem.row_weights)

    @classmethod
    def of_nodes(
        cls,
        plan: Plan,
        shards: Sequence[Shard],
        labels: Vector,
        encoder: Encoder | None,
        weights: Sequence[Vector] | None = None,
    ) -> TrainedOn:
        """Of nodes with different rows; rows of a private run are not kept."""
        private = plan.private is not None
        groups = [] if private else [[shard] for shard in shards]
        encoders = {} if encoder is None else {ALL_PARTIES: encoder}
        own = None if weights is None else np.concatenate(list(weights))
        return cls(plan.problem, groups, labels, (ALL_PARTIES,), private, encoders, own)

    @property
    def total(self) -> float:
        """Rows, each as often as it counts."""
        return float(len(self.labels) if self.weights is None else self.weights.sum())


# --- The software that computed a run


PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "dp-accounting", "cryptography")


def with_versions(planned: Certificate, *more: str) -> Certificate:
    """What was planned and was run, with the software that ran it; `more` are further packages that it used."""
    if planned.versions:
        return planned
    return replace(planned, versions=versions() | {name: _version(name) for name in more})


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute runs."""
    return dict(_versions())


@cache
def _versions() -> MappingProxyType[str, str]:
    known = {"tacit": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        known[name] = _version(name)
    return MappingProxyType(known)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


# --- A party's trees in the folder of a run


@dataclass(frozen=True)
class SavedTrees:
    """One party's part of a model of trees: its id column, and how its columns are read."""

    part: TreePart
    id: str | None
    encoder: RawEncoder

    def record(self) -> dict[str, Any]:
        """What model/PARTY.json holds, beside its format."""
        return {
            "kind": TREES,
            "party": self.part.name,
            "id": self.id,
            "trees": len(self.part.model.trees),
            **({"outputs": self.part.model.outputs} if self.part.model.outputs > 1 else {}),
            "offset": self.part.offset,
            "bend": self.part.bend,
            "schema": self.encoder.record(),
        }

    def write_text(self, file: Path) -> None:
        """Write the trees beside that file."""
        write_text(text_file(file), self.part.text)


def text_file(file: Path) -> Path:
    """Where the trees are that belong to a file of a part."""
    return file.with_name(f"{file.name.removesuffix('.json')}.txt")


def read_trees(file: Path, record: dict[str, Any], name: str) -> tuple[TreePart, RawEncoder]:
    """The trees of a party and how its columns are read, from its record and the text beside it.

    Raises
    ------
    InputError
        Where a file is missing or damaged, or the two do not fit each other; the message names the file.
    """
    try:
        encoder = RawEncoder.from_record(record.get("schema"))
    except InputError as error:
        raise damaged(file, str(error)) from error
    path = text_file(file)
    try:
        if path.stat().st_size > LONGEST:
            raise damaged(path, f"it is longer than {LONGEST:,} characters")
        model = TreeModel.read(path.read_text(encoding="ascii"), len(encoder.columns))
    except FileNotFoundError as error:
        raise damaged(path, "it is missing, and holds the trees of this party") from error
    except (OSError, ValueError, InputError) as error:
        raise damaged(path, one_line(error)) from error
    if model.outputs != record.get("outputs", 1) or len(model.trees) != record.get("trees"):
        raise damaged(path, f"it has not the trees that {file.name} speaks of")
    return TreePart(name, encoder.names, model), encoder

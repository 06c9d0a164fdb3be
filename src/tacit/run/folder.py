"""The folder of a run: the only writer and the only reader of its files.

| file | holds |
|---|---|
| job.toml | the job as run |
| plan.json | the plan, and the versions of the packages |
| search.json | the alphas that were tried, their losses and the one taken, where there was a search |
| data.json | a fingerprint of the data; whoever knows all but one value could find that one, so it goes with the end |
| checkpoint.npz | the state of every side after some round, for its owner alone; gone once the run is finished |
| trace.jsonl | one line per round, added as it ends; infinities and NaN are "infinity", "-infinity" and "nan" |
| model/PARTY.json | a party's columns, their encoding, coefficients and what noise does to them; or those of a node |
| model/PARTY.txt | the party's trees as LightGBM's text, where the model is of trees |
| model/joint.json | what belongs to no single party: loss, classes, constant, who may see predictions; or the mean |
| certificate.json, certificate.txt | what may be said about the privacy of the run |
| evaluation.json | how good the model is; in a private run for the label holder alone, unless it was released (below) |
| report.html | the page of `tacit report`, with the same figures |
| result.json | how the run went; written last but for the page, so a directory with it holds a finished run |
| about.json | in the part of a run between sites that one organisation has: whose, who led, who took part |

evaluation.json has the same keys wherever it was written: `rows` (how many were trained on, held out, evaluated),
`models` (for each its `kind`, "joint", "alone" or "pooled", its `party`, and `measures`: a value by the name of a
measure; `errors`: standard errors by the same names, where the figures have noise; of models other than the joint one
`joint_against_it`: both mean losses, their `difference` and its standard `error`), and `notes`, sentences for people.
`released` is there and true where the figures follow from a planned release, which the certificate covers. At a party
without labels, between organisations, the file has what the label holder told: `told_by` says who, `reveals` of what
the figures are functions, and `models` is empty where it told nothing. A node of a sample split has its own line in
`nodes`. `report/verdict.py` reads all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tacit.blocks.dense import RowClip
from tacit.columns.constants import Encoding
from tacit.columns.encoder import Encoder, to_record
from tacit.columns.raw import RawEncoder
from tacit.columns.spec import TERMS
from tacit.data.align import RowMatching
from tacit.data.cluster import ClusterGoneError
from tacit.data.holdout import HeldOut
from tacit.data.labels import Labels, probability_threshold
from tacit.errors import InputError
from tacit.files import (
    TEMPORARY,
    damaged,
    lock_held,
    plain_number,
    read_json,
    show_path,
    try_lock,
    write_json,
    write_text,
)
from tacit.job import Job, read_job
from tacit.job.trees import TREES
from tacit.plan import Plan
from tacit.privacy.certificate import Certificate
from tacit.problem.losses import Loss, Modified, Softmax
from tacit.problem.losses.base import RowLoss
from tacit.run.checkpoint import (
    data_difference,
    fingerprint,
    first_difference,
    growing_trace,
    job_values,
    other_lightgbm,
    read_checkpoint,
    read_trace,
    section,
    write_checkpoint,
    write_trace,
)
from tacit.run.drive import LoopState, Session
from tacit.run.result import Model, PartyModel, Result, SavedTrees, TreePart, versions
from tacit.solvers.boosting import TreeLoss
from tacit.solvers.boosting.losses import LogisticTrees, RandomizedTrees
from tacit.solvers.boosting.model import lightgbm_version
from tacit.solvers.boosting.sides import BoostingHistory
from tacit.text import one_line, show
from tacit.types import Arrays, Shard, Trace, TraceRow, Vector

FORMAT = 1
MODEL, JOINT, SAMPLES = "model", "joint", "samples"
JOB, PLAN, CHECKPOINT, TRACE, RESULT = "job.toml", "plan.json", "checkpoint.npz", "trace.jsonl", "result.json"
LOCK, PRINT, SEARCH, ABOUT = "run.lock", "data.json", "search.json", "about.json"
FOLDS = "folds.json"  # of a search between sites that has not ended
SEARCHED = {"alpha", "alphas", "folds", "rule", "seconds", "traffic"}  # what search.json holds at least
CERTIFICATE, CERTIFICATE_TEXT = "certificate.json", "certificate.txt"
EVALUATION, REPORT = "evaluation.json", "report.html"
OF_A_RUN = (RESULT, REPORT, EVALUATION, CERTIFICATE, CERTIFICATE_TEXT, TRACE, CHECKPOINT, PRINT, SEARCH, PLAN, JOB)
WIDEST = 128  # encoded columns of a column up to which a part holds how its noise goes together
TRIES = 5  # to take the lock: who watches a run may hold it for an instant

# --- What the files hold: one record each, whoever writes it


@dataclass(frozen=True)
class PreparedRun:
    """Everything that must be the same when a run goes on: the job, plan and encoded data; and rows held out."""

    job: Job
    plan: Plan
    shards: Sequence[Shard]
    labels: Labels
    held: HeldOut | None = None
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    matching: RowMatching | None = None
    raw: Mapping[str, RawEncoder] = field(default_factory=dict)  # of trees, by party

    def record(self) -> dict[str, Any]:
        """What plan.json holds."""
        return plan_record(self.plan, trees=bool(self.raw))


def plan_record(plan: Plan, *, trees: bool = False) -> dict[str, Any]:
    """What plan.json holds; `trees` adds the version of what grows them."""
    used = versions() | ({"lightgbm": lightgbm_version()} if trees else {})
    return {"format": FORMAT, "plan": {**plan.record(), "seed": plan.problem.seed}, "versions": used}


@dataclass(frozen=True)
class SavedPart:
    """One party's part of a model: its id column, and how its columns were encoded, where they were."""

    part: PartyModel
    id: str | None = None
    encoder: Encoder | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # with the offset and the exposure of its rows

    def record(self) -> dict[str, Any]:
        """What model/PARTY.json holds, beside its format."""
        return {
            "party": self.part.name,
            "id": self.id,
            "columns": list(self.part.columns),
            "coef": self.part.coef.tolist(),
            "offset": _plain(self.part.offset),
            "bend": self.part.bend,
            "clip": _clip_record(self.part.clip),
            "schema": None if self.encoder is None else to_record(self.encoder),
            **_noise_record(self.part.noise, self.encoder),
            **offset_record(self.columns),
        }


def offset_record(columns: Mapping[str, str]) -> dict[str, Any]:
    """Which columns of new rows are added to scores, for a model's file; nothing where none is."""
    known = {role: columns[role] for role in ("offset", "exposure") if role in columns}
    return {"row_columns": known} if known else {}


def serving_loss(loss: Any) -> Any:
    """The loss of true labels, which a model serves that was trained on randomized ones."""
    if isinstance(loss, RandomizedTrees):
        return LogisticTrees()
    if isinstance(loss, Softmax):
        return Softmax(loss.outputs)
    return loss.inner if isinstance(loss, Modified | RowLoss) else loss


@dataclass(frozen=True)
class SavedJoint:
    """What belongs to no single party.

    Attributes
    ----------
    loss : Loss
    classes : sequence
        The two labels, the positive one last, or all of more than two; empty where the labels are numbers.
    parties : sequence of str
    model : Model
        Its constant, and who may see predictions; or the mean, where rows are split.
    encoder : Encoder or None
        How whole rows are encoded, where rows are split.
    ids : sequence of str or None
        The id columns by which new rows may be named, where rows are split; None where a node knows its own alone.
    """

    loss: Loss
    classes: Sequence[Any]
    parties: Sequence[str]
    model: Model
    encoder: Encoder | None = None
    ids: Sequence[str] | None = None
    costs: Mapping[str, float] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def _tree_parties(self) -> list[str]:
        """Who has trees beside linear parts of the others."""
        return [part.name for part in self.model.parts if isinstance(part, TreePart)]

    def record(self) -> dict[str, Any]:
        """What model/joint.json holds."""
        loss = serving_loss(self.loss)
        return {
            "format": FORMAT,
            **({"kind": TREES} if isinstance(loss, TreeLoss) else {}),
            **({TREES: self._tree_parties} if self._tree_parties and not isinstance(loss, TreeLoss) else {}),
            "loss": loss.name,
            "task": loss.task,
            "classes": list(self.classes),
            "parties": list(self.parties),
            **({} if self.costs is None else {"threshold": probability_threshold(self.costs)}),
            **(self._sum() if self.model.mean is None else self._whole(self.model.mean)),
        }

    def _sum(self) -> dict[str, Any]:
        """What is added to the parties' scores, and who may see predictions."""
        return {"constant": _plain(self.model.constant), "predictions_for": self.model.predictions_for}

    def _whole(self, mean: PartyModel) -> dict[str, Any]:
        """The model that all nodes share."""
        return {
            "split": SAMPLES,
            "columns": list(mean.columns),
            "coef": mean.coef.tolist(),
            "constant": _plain(self.model.constant),
            "clip": _clip_record(mean.clip),
            "schema": None if self.encoder is None else to_record(self.encoder),
            **({} if self.ids is None else {"ids": list(self.ids)}),
            **_noise_record(mean.noise, self.encoder),
            **offset_record(self.columns),
        }


def _plain(constant: Any) -> Any:
    """A number as it is written; of several classes one for each."""
    return np.asarray(constant, dtype=np.float64).tolist()


def _clip_record(clip: RowClip | None) -> dict[str, Any] | None:
    """How rows are clipped, as plain values."""
    if clip is None:
        return None
    if clip.centre is None:
        return {"norm": clip.norm, "centre": None, "radius": None}
    return {"norm": clip.norm, "centre": clip.centre.tolist(), "radius": clip.radius}


def _noise_record(noise: Vector | None, encoder: Encoder | None) -> dict[str, Any]:
    """For each column the lower triangle of the covariance of its coefficients; nothing where noise is not known."""
    if noise is None or encoder is None:
        return {}
    blocks = [noise[part, part] for part in encoder.slices]
    return {"noise": [None if len(own) > WIDEST else _plain_triangle(own) for own in blocks]}


def _plain_triangle(block: Vector) -> list[float]:
    return [float(f"{value:.6g}") for value in block[np.tril_indices(len(block))].tolist()]


@dataclass(frozen=True)
class SavedResult:
    """How a run went; what this process does not know is None, and is not written."""

    rounds: int
    converged: bool | None = None
    note: str | None = None
    seconds: float | None = None
    objective: float | None = None
    gap: float | None = None
    traffic: Mapping[str, int] | None = None
    outlook: Sequence[str] | None = None
    boosting: Mapping[str, Any] | None = None  # of trees: losses and steps by round

    def record(self) -> dict[str, Any]:
        """What result.json holds."""
        values = {
            "format": FORMAT,
            "converged": self.converged,
            "note": self.note,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "objective": None if self.objective is None else plain_number(self.objective),
            "gap": None if self.gap is None else plain_number(self.gap),
            "traffic": None if self.traffic is None else dict(self.traffic),
            "outlook": None if self.outlook is None else list(self.outlook),
            "boosting": None if self.boosting is None else dict(self.boosting),
        }
        return {key: value for key, value in values.items() if value is not None}


def saved_result(result: Result, prepared: PreparedRun) -> SavedResult:
    """How a run in this process went."""
    gaps = [row.gap for row in result.trace if math.isfinite(row.gap)]
    return SavedResult(
        rounds=len(result.trace),
        converged=result.converged,
        note=result.note,
        seconds=result.seconds,
        objective=model_objective(result, prepared),
        gap=gaps[-1] if gaps else math.inf,
        traffic=result.traffic,
        outlook=result.outlook,
        boosting=None if result.boosting is None else history_record(result.boosting),
    )


def history_record(history: BoostingHistory) -> dict[str, Any]:
    """Losses and steps by round as plain values; a test among them as its own record."""
    values = {one.name: getattr(history, one.name) for one in fields(history)}
    return {name: value.record() if hasattr(value, "record") else value for name, value in values.items()}


def model_objective(result: Result, prepared: PreparedRun) -> float:
    """Objective of the model itself: a method may end on coefficients of an earlier round than the last."""
    if result.plan.private is not None:
        return math.nan  # it is a function of every row, and nobody may know it
    if result.boosting is not None:
        return result.boosting.fitted[-1]
    model, problem, labels = result.model, result.plan.problem, prepared.labels.values
    if model.mean is not None:
        return result.trace[-1].objective
    pairs = zip(model.parts, prepared.shards, strict=True)
    penalty = sum(problem.regularizer.for_groups(shard.groups).value(part.coef) for part, shard in pairs)
    return problem.loss.total(model.scores(prepared.shards), labels) / len(labels) + problem.alpha * penalty


# --- The folder: what is being trained, checkpoints to go on from, and the result


class RunFolder:
    """The folder of one run, or of the part of it that one organisation has."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    # --- whether there is a run ------------------------------------------------------------------------

    @contextmanager
    def locked(self, *, resume: bool, overwrite: bool = False) -> Iterator[None]:
        """Hold the folder, which is made where needed, for one training process; nobody else may train into it.

        With `overwrite` a run may be there; it stays until `clear`.

        Raises
        ------
        InputError
            Where the folder does not fit `resume`, cannot be written, or another process trains into it.
        """
        self._check_state(resume, overwrite)
        with self.held():
            self._check_state(resume, overwrite)
            yield

    def clear(self) -> None:
        """Delete the files of a run, and nothing else."""
        for file in (*(self.path / MODEL).glob("*.json"), *(self.path / MODEL).glob("*.txt")):
            file.unlink()
        with suppress(OSError):  # it is not there, or holds files of somebody else
            (self.path / MODEL).rmdir()
        for name in OF_A_RUN:
            (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, which is made where needed, for one process; what a killed one left half-written goes."""
        where = show_path(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / LOCK, "ab")  # noqa: SIM115
        except (OSError, ValueError) as error:
            raise InputError(f"cannot write into {where} ({one_line(error)}): choose another --out") from error
        with lock:
            if not try_lock(lock, tries=TRIES):
                raise InputError(f"another process is training into {where}: wait for it, or choose another --out")
            for name in os.listdir(self.path):  # now nobody else is writing
                if name.startswith(TEMPORARY):
                    (self.path / name).unlink(missing_ok=True)
            yield

    @property
    def begun(self) -> bool:
        """Whether a run was ever begun here."""
        return any((self.path / name).exists() for name in (LOCK, PLAN, RESULT))

    @property
    def planned(self) -> bool:
        """Whether the plan is made: the data were read."""
        return (self.path / PLAN).exists()

    @property
    def was_private(self) -> bool:
        """Whether the plan of the run that is here asks for privacy; not where there is no plan that can be read."""
        try:
            return self.planned and bool(self.read_plan()["plan"].get("privacy"))
        except (InputError, KeyError, AttributeError):
            return False

    @property
    def training(self) -> bool:
        """Whether a process holds the folder, as one that trains does."""
        return lock_held(self.path / LOCK)

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / RESULT).is_file()

    @property
    def is_part(self) -> bool:
        """Whether it is one organisation's part of a run between sites, which ended here."""
        return (self.path / ABOUT).is_file()

    @property
    def trace(self) -> Path:
        """Where the rounds are."""
        return self.path / TRACE

    @property
    def checkpoint(self) -> Path:
        """Where the run's state is saved."""
        return self.path / CHECKPOINT

    @property
    def joint(self) -> Path:
        """The file of what belongs to no single party."""
        return self.path / MODEL / f"{JOINT}.json"

    def part(self, party: str) -> Path:
        """The file of a party's part of the model."""
        return self.path / MODEL / f"{party}.json"

    def _check_state(self, resume: bool, overwrite: bool = False) -> None:
        where = show_path(self.path)
        names = self._names()
        begun = bool(names & {PLAN, RESULT, CHECKPOINT})
        if resume and not begun and LOCK not in names:
            raise InputError(f"there is no run in {where}: leave out --resume")
        if overwrite and self.is_part:
            raise InputError(f"{where} is a part of a run between organisations, which cannot be overwritten")
        if not resume and begun and not overwrite:
            raise InputError(
                f"{where} already holds a run: continue it with --resume, replace it with --overwrite, or choose "
                "another --out"
            )
        if not begun and names - ({LOCK, JOB} if LOCK in names else set()):
            raise InputError(f"{where} holds other files and no run: choose another --out")

    def _names(self) -> set[str]:
        """Names in the directory, without what a killed process left half-written."""
        try:
            return {name for name in os.listdir(self.path) if not name.startswith(TEMPORARY)}
        except FileNotFoundError:
            return set()
        except NotADirectoryError as error:
            raise InputError(f"{show_path(self.path)} is not a directory: choose another --out") from error
        except (OSError, ValueError) as error:
            raise InputError(f"cannot open {show_path(self.path)} ({one_line(error)}): choose another --out") from error

    # --- beginning and going on ------------------------------------------------------------------------

    def begin(self, prepared: PreparedRun) -> None:
        """Write down what is going to be trained, or check that it is what this folder began with."""
        for spec in prepared.job.parties:
            if spec.name.casefold() == JOINT:
                raise InputError(f"a party cannot be named {show(spec.name)}, which names a file of the run: rename it")
        if (self.path / PLAN).exists() or (self.path / CHECKPOINT).exists():
            self._check_same(prepared)
            return
        self.write_job(prepared.job.to_toml(self.path))
        write_json(self.path / PLAN, prepared.record())
        write_json(self.path / PRINT, fingerprint(prepared.shards, prepared.labels), secret=True)

    def _check_same(self, prepared: PreparedRun) -> None:
        """Refuse to go on with another job, other data or another plan."""
        saved = self.read_plan()
        if saved.get("format") != FORMAT:
            raise damaged(self.path / PLAN, f"its format is {show(saved.get('format'))}, not {FORMAT}")
        self.check_job(prepared.job)
        wanted = prepared.record()
        found = first_difference(section(saved, "plan"), wanted["plan"])
        now = fingerprint(prepared.shards, prepared.labels)
        grown = other_lightgbm(section(saved, "versions"), wanted["versions"])
        self._refuse(found or grown or data_difference(read_json(self.path / PRINT), now))

    def check_job(self, job: Job) -> None:
        """Refuse to go on with another job than the run began with."""
        self._refuse(first_difference(job_values(self.read_job()), job_values(job)))

    def _refuse(self, difference: str) -> None:
        if difference:
            raise InputError(
                f"cannot continue the run in {show_path(self.path)}: {difference}; undo that, or choose another --out"
            )

    def write_search(self, record: dict[str, Any]) -> None:
        """Keep the search of a run that has begun, so that going on does not make it again."""
        write_json(self.path / SEARCH, {"format": FORMAT, **record})
        (self.path / FOLDS).unlink(missing_ok=True)

    def read_search(self, job: Job) -> dict[str, Any] | None:
        """The search of a run that has begun with this job; None where it has made none."""
        path = self.path / SEARCH
        if not path.exists():
            return None
        record = read_json(path)
        tried = record.get("alphas")
        if record.get("format") != FORMAT or not record.keys() >= SEARCHED or not isinstance(tried, list):
            raise damaged(path, "it is no record of a search")
        if not isinstance(record["alpha"], float) or record["alpha"] not in tried:
            raise damaged(path, "it names no alpha that was tried")
        self.check_job(job)
        if job.chooses_terms and record.get("terms") not in TERMS:
            raise damaged(path, "it does not say whether lines or curves were taken")
        return record

    def read_fold(self, number: int) -> dict[str, Any] | None:
        """What a fold of a search between sites found; None where it was not done."""
        found = self._folds().get(str(number))
        return None if found is None else {**found, "losses": [float(loss) for loss in found["losses"]]}

    def write_fold(self, number: int, record: dict[str, Any]) -> None:
        """Keep what a fold of a search between sites found, until the search has ended."""
        plain = {**record, "losses": [plain_number(loss) for loss in record["losses"]]}
        write_json(self.path / FOLDS, {**self._folds(), str(number): plain})

    def _folds(self) -> dict[str, Any]:
        return read_json(self.path / FOLDS) if (self.path / FOLDS).exists() else {}

    def read_searched_alpha(self) -> float | None:
        """The alpha that the search of a run between sites took; None where it has not ended."""
        path = self.path / SEARCH
        return float(read_json(path)["alpha"]) if path.exists() else None

    def abandon(self) -> None:
        """Forget a run that failed before anything was saved, so that a fixed job can be trained here."""
        if not self.checkpoint.exists():
            for name in (SEARCH, PLAN, JOB, PRINT, TRACE):
                (self.path / name).unlink(missing_ok=True)

    def write_job(self, text: str) -> None:
        """Keep the job as it was handed over."""
        write_text(self.path / JOB, text)

    def read_job(self) -> Job:
        """The job as run."""
        try:
            return read_job(self.path / JOB, apart=True)
        except InputError as error:
            raise damaged(self.path / JOB, str(error)) from error

    def read_plan(self) -> dict[str, Any]:
        """What plan.json holds: the plan, and the versions of the packages."""
        return read_json(self.path / PLAN)

    def keep(self, session: Session[object]) -> None:
        """Save everything needed to go on."""
        write_checkpoint(self.checkpoint, session)

    def read_checkpoint(self) -> tuple[dict[str, Arrays], LoopState] | None:
        """The last state that was saved; None where there is none."""
        return read_checkpoint(self.checkpoint) if self.checkpoint.exists() else None

    def restore(self, session: Session[object]) -> bool:
        """Bring a session to the last checkpoint; False where there is none."""
        try:
            saved = self.read_checkpoint()
            if saved is not None:
                session.restore(*saved)
        except ClusterGoneError:  # which says nothing about the file
            raise
        except Exception as error:  # zip, numpy and the sides of the solver raise all sorts on a damaged file
            raise damaged(self.checkpoint, f"it is damaged ({one_line(error)})") from error
        return saved is not None

    # --- the end ---------------------------------------------------------------------------------------

    def growing_trace(self, before: Sequence[TraceRow]) -> AbstractContextManager[Callable[[TraceRow], None]]:
        """Begin the trace with the rounds `before`, and yield what adds a round to it."""
        return growing_trace(self.trace, before)

    def write_trace(self, trace: Sequence[TraceRow]) -> None:
        """Write one line of JSON per round."""
        write_trace(self.trace, trace)

    def read_trace(self) -> Trace:
        """The rounds that are there."""
        return read_trace(self.trace)

    def write_plan(self, record: dict[str, Any]) -> None:
        """Write the plan with the versions of the packages, as `PreparedRun.record` makes them."""
        write_json(self.path / PLAN, record)

    def finish(self, result: Result, prepared: PreparedRun) -> None:
        """Write the model, the trace, the certificate and, last, the result."""
        self._write_model(result, prepared)
        self.write_trace(result.trace)
        self.write_certificate(result.certificate)
        self.write_result(saved_result(result, prepared))
        self.forget()

    def _write_model(self, result: Result, prepared: PreparedRun) -> None:
        """Write every party's part, and what belongs to none."""
        model, ids = result.model, {spec.name: spec.id for spec in prepared.job.parties}
        encoders = {name: encoding.encoder for name, encoding in prepared.encodings.items()}
        names = [part.name for part in model.parts]
        for part in model.parts:
            if isinstance(part, TreePart):
                self.write_part(SavedTrees(part, ids[part.name], prepared.raw[part.name]))
                continue
            own = prepared.labels.columns if part.name == prepared.job.holder and model.mean is None else {}
            id_ = ids[part.name] if model.mean is None else None
            self.write_part(SavedPart(part, id_, encoders.get(part.name), own))
        named = list(dict.fromkeys(name for name in ids.values() if name is not None))  # each once
        loss, classes = result.plan.problem.loss, prepared.labels.classes
        costs, columns = prepared.job.model.costs, prepared.labels.columns
        self.write_joint(SavedJoint(loss, classes, names, model, encoders.get(names[0]), named, costs, columns))

    def write_part(self, saved: SavedPart | SavedTrees) -> None:
        """Write one party's part of the model."""
        (self.path / MODEL).mkdir(exist_ok=True)
        file = self.part(saved.part.name)
        if isinstance(saved, SavedTrees):
            saved.write_text(file)
        write_json(file, {"format": FORMAT, **saved.record()})

    def write_joint(self, saved: SavedJoint) -> None:
        """Write what belongs to no single party."""
        write_json(self.joint, saved.record())

    def read_joint(self) -> dict[str, Any]:
        """What model/joint.json holds."""
        return read_json(self.joint)

    def write_certificate(self, certificate: Certificate) -> None:
        """Write what may be said about the privacy of the run, for programs and for people."""
        write_text(self.path / CERTIFICATE, certificate.to_json() + "\n")
        write_text(self.path / CERTIFICATE_TEXT, str(certificate) + "\n")

    def read_certificate(self) -> Certificate:
        """What may be said about the privacy of the run."""
        try:
            return Certificate.from_json((self.path / CERTIFICATE).read_bytes())
        except (OSError, InputError) as error:
            raise damaged(self.path / CERTIFICATE, str(error)) from error

    def write_result(self, saved: SavedResult) -> None:
        """Write how the run went: from now on it counts as finished."""
        write_json(self.path / RESULT, saved.record())

    def read_result(self) -> dict[str, Any]:
        """How a finished run went."""
        return read_json(self.path / RESULT)

    def write_evaluation(self, record: dict[str, Any]) -> None:
        """Write how good the model is; for the owner alone where that tells what no certificate covers."""
        write_json(self.path / EVALUATION, record, secret=bool(record["private"]))

    def read_evaluation(self) -> dict[str, Any] | None:
        """How good the model is; None where that was not looked at."""
        path = self.path / EVALUATION
        return read_json(path) if path.exists() else None

    def write_about(self, own: str, lead: str, parties: Sequence[str], **more: Any) -> None:
        """Keep whose part of a run between sites this is, who led it and took part, and what its owner alone may know.

        Who led and took part may ask for predictions by the model.
        """
        write_json(self.path / ABOUT, {"party": own, "lead": lead, "parties": list(parties), **more}, secret=True)

    def read_about(self) -> dict[str, Any] | None:
        """Who led a run between sites and who took part; None where it is none, or has not ended here."""
        return read_json(self.path / ABOUT) if self.is_part else None

    def forget(self) -> None:
        """Delete the state of a run that is finished: it holds what only an unfinished one needs."""
        for name in (CHECKPOINT, PRINT):
            (self.path / name).unlink(missing_ok=True)

"""The files of a saved model: one for each party, and one for what belongs to no single party.

The directory of a run: what is being trained, checkpoints to go on from, and the result.

| file | holds |
|---|---|
| job.toml | the job as run |
| plan.json | the plan, and the versions of the packages |
| search.json | the alphas that were tried, their losses and the one taken, where the job has [search] |
| data.json | a fingerprint of the data; whoever knows all but one value could find that one, so it goes with the end |
| checkpoint.npz | the state of every side after some round, for its owner alone; gone once the run is finished |
| trace.jsonl | one line per round, added as it ends; infinities and NaN are "infinity", "-infinity" and "nan" |
| model/PARTY.json | one party's columns, how they were encoded, and coefficients; a node's where the rows are split |
| model/joint.json | what belongs to no single party: loss, classes, constant, who may see predictions; or the mean |
| certificate.json, certificate.txt | what may be said about the privacy of the run |
| evaluation.json | how good the model is; in a private run for the label holder alone |
| report.html | the page of `tacit report`, with the same figures |
| result.json | how the run went; written last but for the page, so a directory with it holds a finished run |
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.blocks.rows import RowClip
from tacit.columns.constants import Encoding
from tacit.columns.encoder import Encoder, to_record
from tacit.data.align import RowMatching
from tacit.data.cluster import ClusterGoneError, ClusterRows
from tacit.data.holdout import HeldOut
from tacit.data.labels import Labels
from tacit.data.rows_on_disk import RowsOnDisk
from tacit.errors import InputError
from tacit.files import TEMPORARY, damaged, plain_number, read_json, show_path, write_json, write_text
from tacit.job import Job, read_job
from tacit.job.sections import ENCODE_KEYS, GRAPH_KEYS, OPTION_KEYS, PRIVACY_KEYS, SEARCH_KEYS
from tacit.job.sections import SECTION as OPTIONS
from tacit.plan import Plan
from tacit.problem.losses import Loss, Modified
from tacit.run.checkpoint import read_checkpoint
from tacit.run.drive import versions
from tacit.run.graph import GraphResult, GraphRun
from tacit.run.model import PartyModel, joint_scores
from tacit.run.star import Run, RunResult
from tacit.run.trace_file import growing_trace, write_trace
from tacit.text import one_line, show
from tacit.types import Shard, TraceRow, Vector

# --- The files of a saved model: one for each party, and one for what belongs to no single party


FORMAT = 1
MODEL, JOINT, SAMPLES = "model", "joint", "samples"
ABOUT = "about.json"  # in the part of a run that one organisation has


def write_model(
    run: Path,
    result: RunResult | GraphResult,
    ids: Mapping[str, str | None],
    classes: Sequence[Any],
    encoders: Mapping[str, Encoder] | None = None,
) -> None:
    """Write the model of a run into its directory; `encoders` say how each party's columns were encoded."""
    folder = run / MODEL
    folder.mkdir(exist_ok=True)
    on_graph = isinstance(result, GraphResult)
    parties = result.nodes if isinstance(result, GraphResult) else result.parties
    schemas = {name: to_record(encoder) for name, encoder in (encoders or {}).items()}
    for party in parties:
        record = party_record(party, None if on_graph else ids[party.name])
        write_json(folder / f"{party.name}.json", {**record, "schema": schemas.get(party.name)})
    loss: Loss = result.plan.problem.loss
    loss = loss.inner if isinstance(loss, Modified) else loss  # a model of randomized labels serves the true ones
    joint = {
        "format": FORMAT,
        "loss": loss.name,
        "task": loss.task,
        "classes": list(classes),
        "parties": [party.name for party in parties],
        **(_consensus(result) if isinstance(result, GraphResult) else _sum(result)),
        **({"schema": schemas.get(parties[0].name), "ids": _named(ids)} if on_graph else {}),
    }
    write_json(folder / f"{JOINT}.json", joint)


def _named(ids: Mapping[str, str | None]) -> list[str]:
    """The id columns that the parties of a job name, each once."""
    return list(dict.fromkeys(name for name in ids.values() if name is not None))


def party_record(party: PartyModel, id_: str | None) -> dict[str, Any]:
    """One party's part as plain values."""
    return {
        "format": FORMAT,
        "party": party.name,
        "id": id_,
        "columns": list(party.columns),
        "coef": party.coef.tolist(),
        "offset": party.offset,
        "bend": party.bend,
        "clip": clip_record(party.clip),
    }


def clip_record(clip: RowClip | None) -> dict[str, Any] | None:
    """A clip as plain values."""
    if clip is None:
        return None
    if clip.centre is None:
        return {"norm": clip.norm, "centre": None, "radius": None}
    return {"norm": clip.norm, "centre": clip.centre.tolist(), "radius": clip.radius}


def _sum(result: RunResult) -> dict[str, Any]:
    """What is added to the parties' scores, and who may see predictions."""
    private = result.plan.private
    return {
        "constant": float(result.constant),
        "predictions_for": None if private is None else private.predictions_for,
    }


def _consensus(result: GraphResult) -> dict[str, Any]:
    """The model that all nodes share: the mean of theirs."""
    return whole_record(result.nodes[0].columns, result.coef, result.intercept, result.clip)


def whole_record(columns: Sequence[str], coef: Vector, constant: float, clip: RowClip | None) -> dict[str, Any]:
    """A model of whole rows as plain values."""
    return {
        "split": SAMPLES,
        "columns": list(columns),
        "coef": coef.tolist(),
        "constant": float(constant),
        "clip": clip_record(clip),
    }


# --- The directory of a run: what is being trained, checkpoints to go on from, and the result


JOB, PLAN, CHECKPOINT, TRACE, RESULT = "job.toml", "plan.json", "checkpoint.npz", "trace.jsonl", "result.json"
LOCK, PRINT, SEARCH = "run.lock", "data.json", "search.json"
SEARCHED = {"alpha", "alphas", "folds", "rule", "seconds", "traffic"}  # what search.json holds at least
CERTIFICATE, CERTIFICATE_TEXT = "certificate.json", "certificate.txt"
EVALUATION, REPORT = "evaluation.json", "report.html"
TRIES, PAUSE = 5, 0.05  # to take the lock: who watches a run may hold it for an instant


@dataclass(frozen=True)
class Begun:
    """Everything that must be the same when a run goes on: the job, plan and encoded data; rows held out."""

    job: Job
    plan: Plan
    shards: Sequence[Shard]
    labels: Labels
    held: HeldOut | None = None
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    matching: RowMatching | None = None

    def record(self) -> dict[str, Any]:
        """As plain values, for plan.json."""
        return {
            "format": FORMAT,
            "plan": {**self.plan.record(), "seed": self.plan.problem.seed},
            "versions": versions(),
        }


def fingerprint(shards: Sequence[Shard], labels: Labels) -> dict[str, Any]:
    """Shape and sha256 of every party's columns and of the labels: two data sets differ where these differ."""
    parties = {
        shard.name: {
            "shape": list(shard.features.shape),
            "columns": _sha256([np.frombuffer(json.dumps(shard.columns).encode(), np.uint8)]),
            "sha256": _digest(shard.features),
        }
        for shard in shards
    }
    known = [labels.values] if labels.epsilons is None else [labels.values, labels.epsilons]
    return {"parties": parties, "labels": _sha256(known), "classes": list(labels.classes)}


class RunDirectory:
    """A directory that holds one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    # --- whether there is a run ------------------------------------------------------------------------

    @contextmanager
    def locked(self, *, resume: bool) -> Iterator[None]:
        """Hold the directory, which is made where needed, for one training process; nobody else may train into it.

        Raises
        ------
        InputError
            Where the directory does not fit `resume`, cannot be written, or another process trains into it.
        """
        self._check_state(resume)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / LOCK, "ab")  # noqa: SIM115
        except OSError as error:
            raise InputError(
                f"cannot write into {show_path(self.path)} ({one_line(error)}): choose another --out"
            ) from error
        with lock:
            take(lock, self.path)
            self._check_state(resume)
            yield

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / RESULT).is_file()

    @property
    def checkpoint(self) -> Path:
        """Where the run's state is saved."""
        return self.path / CHECKPOINT

    def read_result(self) -> dict[str, Any]:
        """How a finished run went."""
        return read_json(self.path / RESULT)

    def _check_state(self, resume: bool) -> None:
        where = show_path(self.path)
        names = self._names()
        begun = bool(names & {PLAN, RESULT, CHECKPOINT})
        if resume and not begun and LOCK not in names:
            raise InputError(f"there is no run in {where}: leave out --resume")
        if not resume and begun:
            raise InputError(f"{where} already holds a run: go on with --resume, choose another --out, or remove it")
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

    def begin(self, begun: Begun) -> None:
        """Write down what is going to be trained, or check that it is what this directory began with."""
        for spec in begun.job.parties:
            if spec.name.casefold() == JOINT:
                raise InputError(f"a party cannot be named {show(spec.name)}, which names a file of the run: rename it")
        if (self.path / PLAN).exists() or (self.path / CHECKPOINT).exists():
            self._check_same(begun)
            return
        write_text(self.path / JOB, begun.job.to_toml(self.path))
        write_json(self.path / PLAN, begun.record())
        write_json(self.path / PRINT, fingerprint(begun.shards, begun.labels), secret=True)

    def _check_same(self, begun: Begun) -> None:
        """Refuse to go on with another job, other data or another plan."""
        saved = read_json(self.path / PLAN)
        if saved.get("format") != FORMAT:
            raise damaged(self.path / PLAN, f"its format is {show(saved.get('format'))}, not {FORMAT}")
        self.check_job(begun.job)
        wanted = begun.record()
        found = _first_difference(_section(saved, "plan"), wanted["plan"])
        self._refuse(found or _data_difference(read_json(self.path / PRINT), fingerprint(begun.shards, begun.labels)))

    def check_job(self, job: Job) -> None:
        """Refuse to go on with another job than the run began with."""
        try:
            saved = read_job(self.path / JOB)
        except InputError as error:
            raise damaged(self.path / JOB, str(error)) from error
        self._refuse(_first_difference(_job_values(saved), _job_values(job)))

    def _refuse(self, difference: str) -> None:
        if difference:
            raise InputError(
                f"cannot go on with the run in {show_path(self.path)}: {difference}; undo that, or choose another --out"
            )

    def write_search(self, record: dict[str, Any]) -> None:
        """Keep the search of a run that has begun, so that going on does not make it again."""
        write_json(self.path / SEARCH, {"format": FORMAT, **record})

    def read_search(self) -> dict[str, Any] | None:
        """The search of a run that has begun; None where it has made none."""
        path = self.path / SEARCH
        if not path.exists():
            return None
        record = read_json(path)
        tried = record.get("alphas")
        if record.get("format") != FORMAT or not record.keys() >= SEARCHED or not isinstance(tried, list):
            raise damaged(path, "it is no record of a search")
        if not isinstance(record["alpha"], float) or record["alpha"] not in tried:
            raise damaged(path, "it names no alpha that was tried")
        return record

    def abandon(self) -> None:
        """Forget a run that failed before anything was saved, so that a fixed job can be trained here."""
        if not self.checkpoint.exists():
            for name in (SEARCH, PLAN, JOB, PRINT, TRACE):
                (self.path / name).unlink(missing_ok=True)

    def restore(self, run: Run | GraphRun) -> bool:
        """Bring `run` to the last checkpoint; False where there is none."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return False
        try:
            states, state = read_checkpoint(path)
            run.restore(states, state)
        except ClusterGoneError:  # which says nothing about the file
            raise
        except Exception as error:  # zip, numpy and the sides of the algorithm raise all sorts on a damaged file
            raise damaged(path, f"it is damaged ({one_line(error)})") from error
        return True

    # --- the end ---------------------------------------------------------------------------------------

    def growing_trace(self, before: Sequence[TraceRow]) -> AbstractContextManager[Callable[[TraceRow], None]]:
        """Begin the trace with the rounds `before`, and yield what adds a round to it."""
        return growing_trace(self.path / TRACE, before)

    def write_trace(self, trace: Sequence[TraceRow]) -> None:
        """Write one line of JSON per round."""
        write_trace(self.path / TRACE, trace)

    def finish(self, result: RunResult | GraphResult, begun: Begun) -> None:
        """Write the model, the trace, the certificate and, last, the result."""
        ids = {spec.name: spec.id for spec in begun.job.parties}
        encoders = {name: encoding.encoder for name, encoding in begun.encodings.items()}
        write_model(self.path, result, ids, begun.labels.classes, encoders)
        self.write_trace(result.trace)
        write_text(self.path / CERTIFICATE, result.certificate.to_json() + "\n")
        write_text(self.path / CERTIFICATE_TEXT, str(result.certificate) + "\n")
        write_json(self.path / RESULT, result_record(result, begun))
        self.forget()

    def write_evaluation(self, record: dict[str, Any]) -> None:
        """Write how good the model is; for the owner alone where that tells what no certificate covers."""
        write_json(self.path / EVALUATION, record, secret=bool(record["private"]))

    def forget(self) -> None:
        """Delete the state of a run that is finished: it holds what only an unfinished one needs."""
        for name in (CHECKPOINT, PRINT):
            (self.path / name).unlink(missing_ok=True)


def take(lock: IO[bytes], folder: Path) -> None:
    """Lock a folder by its open lock file; the lock ends with the process that holds it, however that ends."""
    if sys.platform == "win32":
        return
    import fcntl

    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if left:
                time.sleep(PAUSE)
                continue
            raise InputError(
                f"another process is training into {show_path(folder)}: wait for it, or choose another --out"
            ) from error
    for name in os.listdir(folder):  # now nobody else is writing
        if name.startswith(TEMPORARY):
            (folder / name).unlink(missing_ok=True)


def result_record(result: RunResult | GraphResult, begun: Begun) -> dict[str, Any]:
    """How a run went, as plain values."""
    gaps = [row.gap for row in result.trace if math.isfinite(row.gap)]
    return {
        "format": FORMAT,
        "converged": result.converged,
        "note": result.note,
        "rounds": len(result.trace),
        "seconds": result.seconds,
        "objective": plain_number(model_objective(result, begun)),
        "gap": plain_number(gaps[-1] if gaps else math.inf),
        "traffic": result.traffic,
        "outlook": list(result.outlook),
    }


def model_objective(result: RunResult | GraphResult, begun: Begun) -> float:
    """Objective of the model itself: a method may end on coefficients of an earlier round than the last."""
    if isinstance(result, GraphResult):
        return result.trace[-1].objective  # that of the consensus model; NaN in a private run
    problem, labels = result.plan.problem, begun.labels.values
    if result.plan.private is not None:
        return math.nan  # it is a function of every row, and nobody may know it
    scores = joint_scores(result.parties, float(result.constant), begun.shards)
    penalty = sum(problem.regularizer.value(party.coef) for party in result.parties)
    return problem.loss.total(scores, labels) / len(labels) + problem.alpha * penalty


# --- comparing ---------------------------------------------------------------------------------------


def _job_values(job: Job) -> dict[str, Any]:
    """Every value of a job that shapes the result; paths may change, for the data's own fingerprint is compared."""
    values: dict[str, Any] = {f"model.{key}": value for key, value in asdict(job.model).items()}
    keys = ("split", "engine", "rounds", "tol", "seed", "secure_aggregation", "memory", "holdout")
    values |= {f"job.{key}": getattr(job, key) for key in keys}
    values |= {f"graph.{key}": job.graph and getattr(job.graph, key) for key in GRAPH_KEYS}
    values |= {f"encode.{key}": getattr(job.encode, key) for key in ENCODE_KEYS}
    values |= {f"search.{key}": job.search and getattr(job.search, key) for key in SEARCH_KEYS}
    values |= {f"privacy.{key}": job.privacy and getattr(job.privacy, key) for key in PRIVACY_KEYS}
    values |= {f"{OPTIONS}.{key}": job.options and getattr(job.options, key) for key in OPTION_KEYS}
    values["the number of parties"] = len(job.parties)
    for number, spec in enumerate(job.parties, start=1):
        of_party = ("name", "id", "label", "positive", "features", "columns")
        values |= {f"party {number}.{key}": getattr(spec, key) for key in of_party}
    return values


def _first_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    for key, value in new.items():
        if old.get(key) != value:
            return f"{key} is {show(value)}, it began with {show(old.get(key))}"
    return ""


def _data_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    parties = _section(old, "parties")
    for name, print_ in new["parties"].items():
        if parties.get(name) != print_:
            return f"the data of party {show(name)} are not those it began with"
    same_classes = json.dumps(old.get("classes")) == json.dumps(new["classes"])  # as text: true is not 1
    same = old.get("labels") == new["labels"] and same_classes
    return "" if same else "the labels are not those it began with"


def _section(record: dict[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _digest(matrix: Any) -> str:
    return matrix.sha256 if isinstance(matrix, (RowsOnDisk, ClusterRows)) else _sha256(_arrays_of(matrix))


def _arrays_of(matrix: Any) -> list[npt.NDArray[Any]]:
    if sparse.issparse(matrix):
        return [matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)]
    return [matrix]


def _sha256(arrays: Sequence[npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

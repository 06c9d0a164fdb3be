"""Predictions as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, softmax

from tacit.blocks.dense import RowClip
from tacit.columns.encoder import Encoder, from_record
from tacit.columns.table import Table
from tacit.data.labels import read_row_values
from tacit.data.load import PartySpec, PredictionData, Source, load_prediction_data
from tacit.data.read import PLAIN, FileStyle
from tacit.errors import InputError
from tacit.files import damaged, read_json, show_path, write_atomically
from tacit.job.trees import LINEAR_MODEL, TREE_LOSSES, TREES
from tacit.plan.terms import named_loss
from tacit.problem.registry import LOSSES
from tacit.run.folder import CERTIFICATE, FORMAT, JOB, MODEL, PLAN, RESULT, SAMPLES, RunFolder
from tacit.run.result import PartyModel, TreePart, joint_scores, read_trees
from tacit.text import show
from tacit.types import Shard, Vector

# --- Predictions as CSV


_CHUNK = 4096
SEVERAL = "softmax"  # the loss of more than two classes


def write_csv(path: Path, predictions: Predictions, *, secret: bool = False) -> None:
    """Write predictions to a file, whole or not at all."""
    write_atomically(path, lambda file: [file.write(text.encode()) for text in csv_text(predictions)], secret=secret)


def csv_text(predictions: Predictions) -> Iterator[str]:
    """The predictions as CSV, in pieces."""
    n, columns = len(predictions), predictions.columns
    for start in range(0, n, _CHUNK):
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if start == 0:
            writer.writerow(columns)
        parts = [column[start : start + _CHUNK] for column in columns.values()]
        writer.writerows([_cell(value) for value in row] for row in zip(*parts, strict=True))
        yield buffer.getvalue()


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


# --- Joint prediction from a saved run: every party scores its own columns, and only the scores are added up


ROWS = "new rows"  # who holds the one file of a model of whole rows, in messages


@dataclass(frozen=True)
class SavedModel:
    """A model as read from a run directory.

    Attributes
    ----------
    loss, task : str
        The loss and what it is for: "classification", "regression" or "counts".
    classes : tuple
        The two labels, the positive one last, or all of more than two; empty where the labels are numbers.
    constant : float, or array
        Added to the sum of the parties' scores; of more than two classes one number for each.
    parties : tuple of PartyModel, or of TreePart
        In the order of the job; a single one, with the consensus model, where the rows were split.
    ids : tuple of str or None
        Each party's id column.
    predictions_for : str or None
        The only party that may see predictions of a private run; None where anyone may.
    not_covered : tuple of str
        What the certificate of a private run says about predictions that it does not cover.
    encoders : tuple of Encoder or None
        How each party's columns become the model's; None where they are the same. Of trees a RawEncoder each.
    names : tuple of str
        All parties of the job, those too whose part was not read.
    row_ids : tuple of str
        Where the rows were split: the id columns of the parties, any of which may name new rows.
    kind : str
        "linear" or "trees".
    tree_parties : tuple of str
        Of a linear model: who has trees beside the others' linear parts.
    threshold : float
        The probability from which a row counts as positive, by the costs that the job states.
    styles : tuple of FileStyle
        How the parties' CSV files were written in training, by the run's job; empty where there is no job.
    """

    loss: str
    task: str
    classes: tuple[Any, ...]
    constant: Any
    parties: tuple[PartyModel, ...]
    ids: tuple[str | None, ...]
    predictions_for: str | None = None
    not_covered: tuple[str, ...] = ()
    encoders: tuple[Encoder | None, ...] = ()  # typed as those of linear models, which most readers want
    names: tuple[str, ...] = ()
    row_ids: tuple[str, ...] = ()
    kind: str = LINEAR_MODEL
    tree_parties: tuple[str, ...] = ()
    threshold: float = 0.5
    styles: tuple[FileStyle, ...] = ()

    @property
    def is_trees(self) -> bool:
        """Whether the score is a sum of trees, of every party."""
        return self.kind == TREES

    @property
    def outputs(self) -> int:
        """Numbers of a score: 1, or of more than two classes how many there are."""
        return int(np.size(self.constant))

    @property
    def has_coefficients(self) -> bool:
        """Whether every part is linear, and none of trees."""
        return not any(isinstance(part, TreePart) for part in self.parties)

    @property
    def has_trees_elsewhere(self) -> bool:
        """Whether parties whose part was not read have trees, so that nobody here knows what an average row adds."""
        read = {part.name for part in self.parties}
        return any(name not in read for name in (self.names if self.is_trees else self.tree_parties))

    @property
    def specs(self) -> tuple[PartySpec, ...]:
        """What each party's file of new rows must hold."""
        encoders = self.encoders or (None,) * len(self.parties)
        styles = self.styles or (PLAIN,) * len(self.parties)
        return tuple(
            PartySpec(
                party.name,
                id=id_,
                features=party.columns if encoder is None else encoder.sources,
                delimiter=style.delimiter,
                numbers=style.numbers,
            )
            for party, id_, encoder, style in zip(self.parties, self.ids, encoders, styles, strict=True)
        )

    def score(self, shards: Sequence[Shard]) -> Vector:
        """Score of each row: the sum of the parties' scores and the constant."""
        return joint_scores(self.parties, self.constant, shards)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of some rows: an array of them for numpy and scikit-learn, with more beside it.

    Attributes
    ----------
    ids : array or None
        Which rows these are; None where rows were taken by position.
    score : array
        The sum of the parties' scores. Of more than two classes it has a column for each, as `probability`.
    prediction : list
        The label, number or count.
    probability : array or None
        That of the positive class; None where the loss has none.
    classes : tuple
        More than two classes; empty otherwise.
    id_column : str
        How the column of the ids is named.
    """

    ids: npt.NDArray[Any] | None
    score: Vector
    prediction: list[Any]
    probability: Vector | None
    classes: tuple[Any, ...] = ()
    id_column: str = "id"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.prediction, dtype=dtype)

    def __len__(self) -> int:
        return len(self.prediction)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.prediction)

    def __getitem__(self, row: Any) -> Any:
        return self.prediction[row] if isinstance(row, int) else np.asarray(self)[row]

    @property
    def columns(self) -> dict[str, Sequence[Any]]:
        """Each column of the CSV file under its title, the ids (or numbers of rows, from 1) first."""
        taken = ("score", "prediction", "probability")
        key = self.id_column if self.id_column not in taken else "id"
        found: dict[str, Sequence[Any]] = (
            {"row": range(1, len(self) + 1)} if self.ids is None else {key: self.ids.tolist()}
        )
        if not self.classes:
            found |= {"score": self.score.tolist(), "prediction": self.prediction}
            return found if self.probability is None else {**found, "probability": self.probability.tolist()}
        found["prediction"] = self.prediction
        for title, values in (("score", self.score), ("probability", self.probability)):
            if values is not None:
                pairs = zip(self.classes, values.T.tolist(), strict=True)
                found |= {f"{title} {name}": own for name, own in pairs}
        return found

    def to_frame(self) -> Any:
        """A pandas DataFrame of score, prediction and probability, by id or by row (pandas must be installed)."""
        import pandas as pd

        frame = pd.DataFrame(self.columns)
        return frame.set_index(frame.columns[0])


def load_rows(model: SavedModel, paths: Sequence[Source]) -> PredictionData:
    """Read rows to predict from files or data frames: one for each party, or one where the rows were split."""
    return load_prediction_data(model.specs, paths, model.encoders, model.row_ids)


def predict(model: SavedModel, data: PredictionData) -> Predictions:
    """Predict new rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        score = model.score(data.shards) + row_offsets(model, data)
    return predictions_of(model, data.ids, score, data.id_column)


def row_offsets(model: SavedModel, data: PredictionData) -> Any:
    """What is added to the score of each new row, where the model was trained with offsets; 0 where it was not."""
    if not any(getattr(part, "row_columns", {}) for part in model.parties):
        return 0.0
    places = zip(model.parties, data.tables, data.rows, strict=True)
    return sum(part_offsets(part, table, rows) for part, table, rows in places)


def part_offsets(part: Any, table: Table, rows: Any) -> Any:
    """The same of one party's rows; a column that its file lacks counts as offset 0 and exposure 1."""
    wanted = {role: name for role, name in getattr(part, "row_columns", {}).items() if name in table.columns}
    found = read_row_values(table, wanted).take(rows).offset
    return 0.0 if found is None else found


def offset_remarks(model: SavedModel, data: PredictionData) -> list[str]:
    """Which columns of offsets the files of new rows lack, one line for each."""
    return [
        f"party {show(part.name)} has no column {show(name)}: scores are of {role} {'0' if role == 'offset' else '1'}"
        for part, table in zip(model.parties, data.tables, strict=False)
        for role, name in getattr(part, "row_columns", {}).items()
        if name not in table.columns
    ]


def predictions_of(
    model: SavedModel, ids: npt.NDArray[Any] | None, score: Vector, id_column: str | None = None
) -> Predictions:
    """Predictions from the scores of all parties together; `id_column` names the ids."""
    return replace(_predictions(model, ids, score), id_column=id_column or "id")


def _predictions(model: SavedModel, ids: npt.NDArray[Any] | None, score: Vector) -> Predictions:
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.exp(score) if model.task == "counts" else score
    if not np.isfinite(score).all():
        row = int(np.argwhere(~np.isfinite(score))[0][0])
        raise InputError(f"the score of row {row + 1} is not finite: its values are too large for the model")
    if model.task != "classification":
        return Predictions(ids, score, values.tolist(), None)
    if score.ndim > 1:
        labels = [model.classes[code] for code in score.argmax(axis=1).tolist()]
        return Predictions(ids, score, labels, np.asarray(softmax(score, axis=1)), model.classes)
    negative, positive = model.classes
    threshold = logit(model.threshold)
    labels = [positive if above else negative for above in (score > threshold).tolist()]
    return Predictions(ids, score, labels, expit(score) if named_loss(model.loss).log_odds else None)


# --- reading -----------------------------------------------------------------------------------------


def load_model(path: str | Path, own: Collection[str] | None = None) -> SavedModel:
    """Read the model of a finished run; with `own`, the parts of these parties alone, where columns are split.

    Raises
    ------
    InputError
        Where there is no finished run, or one of its files is missing or damaged; the message names the file.
    """
    run = Path(path)
    _check_finished(run)
    file = RunFolder(run).joint
    record = _read(file)
    loss, task = _text(file, record, "loss"), _text(file, record, "task")
    trees = _is_trees(file, record)
    if loss not in (TREE_LOSSES if trees else (*LOSSES, SEVERAL)) or named_loss(loss).task != task:
        raise damaged(file, f"loss {show(loss)} for {show(task)} is unknown")
    names = _texts(file, record, "parties")
    whole = _is_whole(file, record)
    if own is None and not whole and RunFolder(run).is_part:
        raise InputError(
            f"{show_path(run)} is one organisation's part of a joint run: use tacit predict {run.name} --kit KIT"
        )
    read = [name for name in names if own is None or name in own]
    pairs = [_consensus(file, record)] if whole else [_party(run / MODEL, name, file) for name in read]
    classes = _classes(file, record, task)
    wide = len(classes) if loss == SEVERAL else 1
    constant = _constant(file, record.get("constant"), wide)
    if any(part.outputs != wide for part, _, _ in pairs):
        raise damaged(file, "some parts of the model are for another number of classes")
    grown = sum(isinstance(part, TreePart) for part, _, _ in pairs)
    if grown != len(pairs) if trees else grown > 1:  # beside private parts the label holder alone may have trees
        raise damaged(file, "some parts of the model are trees, and some are not")
    return SavedModel(
        loss=loss,
        task=task,
        classes=classes,
        constant=constant,
        parties=tuple(party for party, _, _ in pairs),
        ids=tuple(id_ for _, id_, _ in pairs),
        predictions_for=_predictions_for(file, record, names),
        not_covered=_not_covered(run / CERTIFICATE),
        encoders=tuple(encoder for _, _, encoder in pairs),
        names=names,
        row_ids=_texts(file, record, "ids") if whole and record.get("ids") else (),
        kind=TREES if trees else LINEAR_MODEL,
        tree_parties=_texts(file, record, TREES) if record.get(TREES) else (),
        threshold=_threshold(file, record),
        styles=_styles(run, [part.name for part, _, _ in pairs]),
    )


def _threshold(file: Path, record: dict[str, Any]) -> float:
    threshold = _number(file, record.get("threshold", 0.5), "threshold")
    if not 0 < threshold < 1:
        raise damaged(file, f"its threshold is {threshold}, not between 0 and 1")
    return threshold


def _row_columns(file: Path, record: dict[str, Any]) -> dict[str, str]:
    columns = record.get("row_columns", {})
    if not isinstance(columns, dict) or not set(columns) <= {"offset", "exposure"}:
        raise damaged(file, f"its row_columns are {show(columns)}")
    return {role: _text(file, columns, role) for role in columns}


def _styles(run: Path, names: Sequence[str]) -> tuple[FileStyle, ...]:
    """How the files of these parties were written, by the job; of whole rows as the first party's."""
    if not (run / JOB).exists():  # one may hand on a model alone
        return ()
    job = RunFolder(run).read_job()
    known = {spec.name: spec.style for spec in job.parties}
    return tuple(known.get(name, job.parties[0].style) for name in names)


def _is_trees(file: Path, record: dict[str, Any]) -> bool:
    """Whether it is a model of trees; that of a linear one does not say its kind."""
    if record.get("kind") not in (None, TREES):
        raise damaged(file, f"its kind is {show(record['kind'])}, which this version does not know")
    return record.get("kind") == TREES


def load_part(file: Path) -> Part:
    """Read one party's part of a model by itself: the part, its id column, and how its columns are encoded."""
    return _party(file.parent, _text(file, _read(file), "party"), file)


def _is_whole(file: Path, record: dict[str, Any]) -> bool:
    """Whether it is one model of whole rows; that of split columns has no coefficients in common."""
    split = record.get("split")
    if split is not None and split != SAMPLES:
        raise damaged(file, f"split is {show(split)}, not {show(SAMPLES)}")
    if split is None and "coef" in record:  # the parties' models are not to be added up
        raise damaged(file, "it holds coefficients of whole rows and does not say split")
    return split == SAMPLES


Part = tuple[Any, str | None, Any]  # PartyModel and Encoder or None; of trees TreePart and RawEncoder


def _consensus(file: Path, record: dict[str, Any]) -> Part:
    """The model of whole rows: one file is enough to predict."""
    columns, coef = _coefficients(file, record)
    encoder = _encoder(file, record, columns)
    clip, noise = _clip(file, record.get("clip"), len(columns)), _noise(file, record.get("noise"), encoder)
    none = 0.0 if coef.ndim == 1 else np.zeros(len(coef))
    more = _row_columns(file, record)
    return PartyModel(ROWS, columns, coef, none, clip, noise=noise, row_columns=more), None, encoder


def _encoder(file: Path, record: dict[str, Any], columns: tuple[str, ...]) -> Encoder | None:
    """How the columns were encoded; a run of an earlier version does not say, as its columns were numbers."""
    if record.get("schema") is None:
        return None
    try:
        encoder = from_record(record["schema"])
    except ValueError as error:
        raise damaged(file, str(error)) from error
    if encoder.names != columns:
        raise damaged(file, "its schema does not fit its columns")
    return encoder


def _predictions_for(file: Path, record: dict[str, Any], names: Sequence[str]) -> str | None:
    value = record.get("predictions_for")
    if value is not None and value not in names:
        raise damaged(file, f"predictions_for is {show(value)}, which is no party")
    return value


def _not_covered(file: Path) -> tuple[str, ...]:
    """What a certificate that claims something says against predictions."""
    if not file.exists():  # one may hand on a model alone
        return ()
    record = read_json(file)
    lines = record.get("does_not_cover")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise damaged(file, f"does_not_cover is {show(lines)}, no list of sentences")
    return tuple(line for line in lines if line.startswith("predictions:")) if record.get("private") is True else ()


def _check_finished(run: Path) -> None:
    where = show_path(run)
    try:
        finished, begun = (run / RESULT).exists(), (run / PLAN).exists()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot open {where}: check the path of the run") from error
    if not finished and RunFolder(run).is_part:
        raise InputError(f"{where} is one organisation's part of a joint run: the site that led it predicts")
    if not finished and begun:
        raise InputError(f"the run in {where} is not finished: finish it with tacit train JOB --out {where} --resume")
    if not finished:
        raise InputError(f"there is no run in {where}: give the directory that tacit train wrote")
    _read(run / RESULT)


def _party(folder: Path, name: str, joint: Path) -> Part:
    if Path(name).name != name or "\0" in name:
        raise damaged(joint, f"{show(name)} is no name of a party")
    file = folder / f"{name}.json"
    record = _read(file)
    if record.get("party") != name:
        raise damaged(file, f"it is the part of {show(record.get('party'))}, not of {show(name)}")
    id_ = None if record.get("id", 0) is None else _text(file, record, "id")
    bend = _number(file, record.get("bend", 0.0), "bend")
    if _is_trees(file, record):
        trees, schema = read_trees(file, record, name)
        offset = _number(file, record.get("offset"), "offset")
        return replace(trees, offset=offset, bend=bend), id_, schema
    columns, values = _coefficients(file, record)
    offset = _constant(file, record.get("offset"), 1 if values.ndim == 1 else len(values), "offset")
    clip, encoder = _clip(file, record.get("clip"), len(columns)), _encoder(file, record, columns)
    noise = _noise(file, record.get("noise"), encoder)
    return PartyModel(name, columns, values, offset, clip, bend, noise, _row_columns(file, record)), id_, encoder


def _coefficients(file: Path, record: dict[str, Any]) -> tuple[tuple[str, ...], Vector]:
    columns, coef = _texts(file, record, "columns"), record.get("coef")
    several = isinstance(coef, list) and bool(coef) and isinstance(coef[0], list)
    rows: list[Any] = coef if several else [coef]  # type: ignore[assignment]
    for row in rows:
        if not isinstance(row, list) or len(row) != len(columns):
            found = len(row) if isinstance(row, list) else "no"
            raise damaged(file, f"it has {found} coefficients for {len(columns)} columns")
    values = np.array([[_number(file, value, "coef") for value in row] for row in rows], dtype=np.float64)
    return columns, values if several else values[0]


def _clip(file: Path, record: Any, columns: int) -> RowClip | None:
    if record is None:
        return None
    if not isinstance(record, dict):
        raise damaged(file, f"its clip is {show(record)}")
    norm, centre = _number(file, record.get("norm"), "norm"), record.get("centre")
    around = not (centre is None and record.get("radius") is None)  # a clip without a centre has no radius either
    radius = _number(file, record.get("radius"), "radius") if around else norm
    if min(norm, radius) <= 0:
        raise damaged(file, f"its clip has norm {norm} and radius {radius}: both must be above 0")
    if not around:
        return RowClip(norm)
    if not isinstance(centre, list) or len(centre) != columns:
        raise damaged(file, f"its clip has centre {show(centre)}, not one number for each of {columns} columns")
    return RowClip(norm, np.array([_number(file, value, "centre") for value in centre]), radius)


def _noise(file: Path, record: Any, encoder: Encoder | None) -> Vector | None:
    """The covariance that noise gave the coefficients, within each column; NaN where a column has too many."""
    if record is None or encoder is None:
        return None
    if not isinstance(record, list) or len(record) != len(encoder.columns):
        raise damaged(file, f"its noise is not that of {len(encoder.columns)} columns")
    whole = np.zeros((len(encoder.names),) * 2)
    for part, values in zip(encoder.slices, record, strict=True):
        whole[part, part] = math.nan if values is None else _triangle(file, values, part.stop - part.start)
    return whole


def _triangle(file: Path, values: Any, size: int) -> Vector:
    """A symmetric matrix from its lower triangle."""
    if not isinstance(values, list) or len(values) != size * (size + 1) // 2:
        raise damaged(file, f"its noise does not fit a column that is encoded as {size}")
    block = np.zeros((size, size))
    block[np.tril_indices(size)] = [_number(file, value, "noise") for value in values]
    return np.asarray(block + np.tril(block, -1).T)


def _read(file: Path) -> dict[str, Any]:
    record = read_json(file)
    if record.get("format") != FORMAT or isinstance(record["format"], bool):
        raise damaged(file, f"its format is {show(record.get('format'))}, this version reads {FORMAT}")
    return record


def _classes(file: Path, record: dict[str, Any], task: str) -> tuple[Any, ...]:
    values = record.get("classes")
    several = record.get("loss") == SEVERAL
    if not isinstance(values, list) or any(isinstance(v, list | dict) or v is None for v in values):
        raise damaged(file, f"its classes are {show(values)}")
    fits = len(values) > 2 if several else len(values) == (2 if task == "classification" else 0)
    if not fits or any(values[k] in values[:k] for k in range(len(values))):
        raise damaged(file, f"its classes are {show(values)}")
    return tuple(values)


def _constant(file: Path, value: Any, wide: int, key: str = "constant") -> Any:
    """What is added to the scores: a number, or one for each of several classes."""
    if wide == 1:
        return _number(file, value, key)
    if not isinstance(value, list) or len(value) != wide:
        raise damaged(file, f"its {key} is {show(value)}, not one number for each of {wide} classes")
    return np.array([_number(file, one, key) for one in value], dtype=np.float64)


def _text(file: Path, record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value:
        raise damaged(file, f"{key} is {show(value)}, not text")
    return value


def _texts(file: Path, record: dict[str, Any], key: str) -> tuple[str, ...]:
    values = record.get(key)
    if not isinstance(values, list) or not values or not all(isinstance(v, str) and v for v in values):
        raise damaged(file, f"{key} is no list of names")
    if len(set(values)) < len(values):
        raise damaged(file, f"{key} has a name twice")
    return tuple(values)


def _number(file: Path, value: Any, key: str) -> float:
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise damaged(file, f"{key} holds {show(value)}, not a finite number")
    return number

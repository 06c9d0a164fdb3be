"""A finished run, read from its folder: its model, certificate, trace and evaluation, and predictions of new rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.columns.encoder import Encoder
from tacit.data.load import PredictionData, Source, load_labelled
from tacit.errors import InputError
from tacit.files import damaged, read_json
from tacit.job import Job
from tacit.mechanisms import MECHANISMS
from tacit.mechanisms.base import Mechanism
from tacit.plan.terms import loss_of
from tacit.privacy.certificate import Certificate
from tacit.run.curves import Points, model_curves
from tacit.run.folder import PLAN, RunFolder, serving_loss
from tacit.run.hand_over import export, form_of
from tacit.run.inference import PRIVATE, Summary, summarize
from tacit.run.measures import evaluation_lines, figures
from tacit.run.predict import Predictions, SavedModel, load_model, load_rows, offset_remarks, predict
from tacit.run.prepare import prepare
from tacit.run.result import ALL_PARTIES, TrainedOn
from tacit.text import listing, nearest, plural, show
from tacit.types import Trace

APART = (
    "standard errors need products of columns of different parties over all rows, which nobody has between "
    "organisations: train in one process, or see docs/explanation/inference.md"
)
NOT_SERVED = (
    "this run's certificate covers what was sent, not the model, so that nothing is evaluated with it: train with a "
    "mechanism whose model is covered"
)


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on some rows with labels.

    Attributes
    ----------
    loss : str
        The loss of the model.
    rows : int
    figures : dict
        measures, intervals (95 %, low and high), deciles, roc and calibration, as evaluation.json has them.
    remarks : tuple of str
        What whoever evaluates should know.
    """

    loss: str
    rows: int
    figures: dict[str, Any]
    remarks: tuple[str, ...] = ()

    @property
    def measures(self) -> dict[str, float]:
        """Each measure by name; "auc", "log_loss" and so on."""
        return dict(self.figures["measures"])

    @property
    def intervals(self) -> dict[str, list[float]]:
        """The 95 % interval of each measure that has one."""
        return dict(self.figures["intervals"])

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"loss": self.loss, "rows": self.rows, **self.figures}

    def __str__(self) -> str:
        return "\n".join(evaluation_lines(self.rows, self.figures))


@dataclass(frozen=True)
class SavedRun:
    """A finished run.

    Attributes
    ----------
    path : Path
        Its folder.
    job : Job
        The job as it was run.
    plan : dict
        What was planned, as in plan.json.
    result : dict
        How the run went, as in result.json: rounds, objective, traffic, whether it converged.
    trace : Trace
        One row per round.
    certificate : Certificate
        What may be said about the privacy of the run.
    model : SavedModel
        The parties' parts of the model, and what belongs to none of them.
    evaluation : dict or None
        How good the model is, as in evaluation.json; None where it was not measured.
    versions : dict of str to str
        Of the software that ran it.
    """

    path: Path
    job: Job
    plan: dict[str, Any]
    result: dict[str, Any]
    trace: Trace
    certificate: Certificate
    model: SavedModel
    evaluation: dict[str, Any] | None
    versions: dict[str, str]

    @property
    def on_graph(self) -> bool:
        """Whether the rows are split."""
        return self.job.rows_are_split

    @property
    def coef(self) -> dict[str, dict[str, Any]]:
        """Coefficients by party and encoded column; of "all parties" where they hold different rows.

        Of more than two classes a column has a list of them, one for each class.

        They are those of rows whose score is neither clipped nor bent off, as in the estimators.

        Raises
        ------
        InputError
            For a model of trees, which has none.
        """
        self._refuse_trees()
        names = [ALL_PARTIES] if self.on_graph else [party.name for party in self.model.parties]
        parts = zip(names, self.model.parties, strict=True)
        return {name: dict(zip(part.columns, part.linear_coef.T.tolist(), strict=True)) for name, part in parts}

    @property
    def intercept(self) -> Any:
        """The intercept that goes with `coef`; of more than two classes an array."""
        self._refuse_trees()
        found = self.model.constant - sum(party.linear_offset for party in self.model.parties)
        return found if np.ndim(found) else float(found)

    def _refuse_trees(self) -> None:
        if not self.model.has_coefficients:
            raise InputError("a model of trees has no coefficients: use predict, model.parties[...].text or the report")

    def predict(self, rows: Mapping[str, Source] | Sequence[Source] | Source) -> Predictions:
        """Predict new rows, as `tacit predict` does; what it would remark is a warning.

        Parameters
        ----------
        rows : path or DataFrame of each party
            By the parties' names, or in their order; a single one where the parties held different rows. Rows are
            matched by the id columns that the job names, else by position.

        Returns
        -------
        Predictions
            `ids` (None where rows have none), `score`, `prediction` and, where the loss has one, the `probability` of
            the positive label.

        Raises
        ------
        InputError
            For files or columns that cannot be used; the message names the party.
        """
        data = load_rows(self.model, in_order(rows, [party.name for party in self.model.parties]))
        for remark in prediction_remarks(self.model, data):
            warnings.warn(remark, stacklevel=2)
        return predict(self.model, data)

    def export(self, path: str | Path, *, party: str | None = None) -> Path:
        """Write the model in a form that needs no Tacit, as `tacit export` does.

        Parameters
        ----------
        path : path
            A file whose name ends in .py (plain Python), .onnx or .skops.
        party : str, optional
            Write the part of this party alone.

        Raises
        ------
        InputError
            For another ending, an unknown party, and for a model that the form cannot hold.
        """
        export(self.model, Path(path), form_of(path), None if party is None else [party])
        return Path(path)

    def evaluate(self, rows: Mapping[str, Source] | Sequence[Source] | Source) -> Evaluation:
        """Evaluate the model on new rows with labels, as `tacit evaluate` does; what it would remark is a warning.

        Parameters
        ----------
        rows : path or DataFrame of each party
            As in `predict`; the label holder's has its label column, or the one table where rows are split.

        Returns
        -------
        Evaluation
            Measures with intervals.

        Raises
        ------
        InputError
            For files, columns or labels that cannot be used, and for a run whose model must not be evaluated.
        """
        found = self.evaluated(rows)
        for remark in found.remarks:
            warnings.warn(remark, stacklevel=2)
        return found

    def evaluated(self, rows: Mapping[str, Source] | Sequence[Source] | Source) -> Evaluation:
        """As `evaluate`, with remarks in what is returned instead of warnings."""
        if not self.model_is_covered:
            raise InputError(NOT_SERVED)
        model, loss = self.model, serving_loss(self._loss())
        labels = {spec.name: spec.label for spec in self.job.parties}
        specs = [replace(spec, label=labels.get(spec.name)) for spec in model.specs]
        whole = tuple(dict.fromkeys(name for name in labels.values() if name)) if self.on_graph else ()
        paths = in_order(rows, [party.name for party in model.parties])
        new = load_labelled(specs, paths, model.encoders, model.classes, loss, model.row_ids, whole)
        remarks = prediction_remarks(model, new.data)
        if self.certificate.private:
            reader = "whoever holds these rows" if self.on_graph else self.job.holder
            remarks.append(f"these figures are for {reader} alone: no certificate covers them")
        score = predict(model, new.data).score
        return Evaluation(loss.name, len(new.labels), figures(score, new.labels, loss), tuple(remarks))

    def summary(self) -> Summary:
        """Coefficients with standard errors, p-values and 95 % intervals, by party and column; and tests of parties.

        The files of the job are read again: they must be those that the model was trained on.

        Raises
        ------
        InputError
            As `tacit.run.inference.summarize`; for a run between organisations, where nobody has all columns; and where
            the files have changed.
        """
        self._refuse_trees()
        if self.job.engine == "flare" or RunFolder(self.path).is_part:
            raise InputError(APART)
        if self.certificate.private:
            raise InputError(PRIVATE)
        prepared = prepare(self._settled_job())
        names = list(self.coef) if self.on_graph else [shard.name for shard in prepared.shards]
        parts, shards = self.model.parties, prepared.shards[: len(self.model.parties)]
        if [shard.columns for shard in shards] != [part.columns for part in parts]:
            raise InputError("the files of the job have other columns than those that the model was trained on")
        plan = replace(prepared.plan, problem=replace(prepared.plan.problem, alpha=float(self.plan["alpha"])))
        encoders = {name: own for name, own in zip(names, self.model.encoders, strict=True) if isinstance(own, Encoder)}
        labels = prepared.labels.values
        if self.on_graph:
            trained = TrainedOn.of_nodes(plan, prepared.shards, labels, encoders.get(ALL_PARTIES))
        else:
            trained = TrainedOn.of_parties(plan, prepared.shards, labels, encoders)
        return summarize(trained, [part.linear_coef for part in parts], self.intercept)

    def _loss(self) -> Any:
        """The loss with the numbers that were planned, such as a dispersion that training estimated."""
        model, planned = self.job.model, self.plan.get("loss_settings", {})
        settled = {name: planned[name] for name in model.loss_settings if name in planned}
        return loss_of(replace(self.job, model=replace(model, **settled)))

    def _settled_job(self) -> Job:
        """The job, with the terms that its search took."""
        if not self.job.chooses_terms:
            return self.job
        known = RunFolder(self.path).read_search(self.job)
        return self.job if known is None else self.job.with_terms(known["terms"])

    def curves(self) -> dict[str, dict[str, Points]]:
        """What each column adds to the score, by party and column of its file; of "all parties" where rows are split.

        Returns
        -------
        dict of str to dict of str to (array, array, array, array)
            Cells (numbers, dates or categories), value, and the band that noise makes, low and high, which is NaN where
            there is none. A blank is NaN, NaT or "missing". Empty where columns were not encoded.
        """
        return {name: {one.column: one.points for one in own} for name, own in model_curves(self.model).items()}

    @property
    def rows(self) -> int:
        """Rows that were trained on."""
        known = self.plan["rows"]
        return sum(known) if isinstance(known, list) else int(known)

    @property
    def model_is_covered(self) -> bool:
        """Whether numbers made from the model tell nothing that the certificate does not cover."""
        if not self.certificate.private:
            return True
        mechanism = self.mechanism
        return not self.job.model.published and (mechanism is None or mechanism.covers_model)

    @property
    def mechanism(self) -> Mechanism[Any] | None:
        """What added the noise; None where nothing did."""
        privacy = self.plan["privacy"]
        return None if not privacy else MECHANISMS.get(privacy.get("mechanism") or privacy.get("method"))

    def distances(self) -> list[float]:
        """Where the rows are split: how far each node's model is from the mean, relative to it."""
        joint = np.append(self.model.parties[0].coef.ravel(), self.model.constant)
        found = []
        for name in self.job.names:
            file = RunFolder(self.path).part(name)
            record = read_json(file)
            try:
                own = np.append(np.ravel(record["coef"]), -np.ravel(record["offset"])).astype(np.float64)
                found.append(float(np.linalg.norm(own - joint) / max(float(np.linalg.norm(joint)), 1e-300)))
            except (KeyError, TypeError, ValueError) as error:
                raise damaged(file, "it holds no model of a node") from error
        return found


def read_run(path: str | Path) -> SavedRun:
    """Read a finished run from its folder.

    Parameters
    ----------
    path : path
        The folder that `tacit train` or `run_job` wrote.

    Returns
    -------
    SavedRun
        Its model, certificate, trace and evaluation; `predict` predicts new rows.

    Raises
    ------
    InputError
        Where there is no finished run, or one of its files is missing or damaged; the message names the file.
    """
    folder = RunFolder(path)
    model, job, certificate = load_model(folder.path), folder.read_job(), folder.read_certificate()
    plan, known = read_plan(folder)
    trace = folder.read_trace()
    if not trace:
        raise damaged(folder.trace, "it holds no round")
    return SavedRun(
        path=folder.path,
        job=job,
        plan=plan,
        result=folder.read_result(),
        trace=trace,
        certificate=certificate,
        model=model,
        evaluation=folder.read_evaluation(),
        versions=known,
    )


def read_plan(folder: RunFolder) -> tuple[dict[str, Any], dict[str, str]]:
    """The plan, and the versions of the packages."""
    record = folder.read_plan()
    plan, versions = record.get("plan"), record.get("versions")
    if not isinstance(plan, dict) or not isinstance(versions, dict):
        raise damaged(folder.path / PLAN, "it holds no plan with the versions of the packages")
    return plan, {name: str(version) for name, version in versions.items()}


# --- new rows ------------------------------------------------------------------------------------------


def prediction_remarks(model: SavedModel, data: PredictionData) -> list[str]:
    """What whoever predicts should know: of columns and blanks, of rows left out, and of what no certificate covers."""
    remarks = [*data.said, *offset_remarks(model, data)]
    dropped = {name: count for name, count in data.counts.dropped.items() if count}
    if dropped:
        listed = ", ".join(f"{name} {plural(count, 'row')}" for name, count in dropped.items())
        remarks.append(f"rows without a match at another party were left out: {listed}")
    if model.predictions_for is not None:
        remarks.append(
            f"these predictions must stay with {model.predictions_for}: they use its exact fit, which the certificate "
            "does not protect from others"
        )
    return [*remarks, *(f"the certificate does not cover {line}" for line in model.not_covered)]


def in_order(rows: Mapping[str, Source] | Sequence[Source] | Source, names: Sequence[str]) -> list[Source]:
    """The parties' files or frames in the order of the model."""
    if not isinstance(rows, Mapping):
        return list(rows) if isinstance(rows, list | tuple) else [rows]
    for name in rows:
        if name not in names:
            raise InputError(f"there is no party {show(name)}{nearest(name, names)}: the parties are {listing(names)}")
    missing = [name for name in names if name not in rows]
    if missing:
        raise InputError(f"no rows of party {listing(missing)}: add them")
    return [rows[name] for name in names]

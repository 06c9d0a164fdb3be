"""What a fitted model can do beside predicting, in whichever way it came: explain rows, save itself, write its page.

| class | is |
|---|---|
| FittedModel | an estimator after `fit`: a mixin of all of them |
| LoadedModel | a run that was read from its folder, by `tacit.load` |

An estimator saves itself as the folder of a run, which `tacit.load`, `tacit predict`, `tacit report` and `tacit verify`
read; its job says what was fitted, and names no files.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tacit.columns.raw import RawEncoder
from tacit.data.load import PartySpec
from tacit.errors import InputError
from tacit.estimators.encoding import PartyCoefficients
from tacit.files import show_path
from tacit.job import Job, ModelSection
from tacit.job.sections import GraphSpec
from tacit.job.trees import TreesSection
from tacit.plan.terms import named_loss
from tacit.privacy.certificate import Certificate
from tacit.privacy.request import Privacy
from tacit.problem.registry import LOSSES, REGULARIZERS
from tacit.problem.regularizers import ElasticNet
from tacit.report.run import write_report
from tacit.run.explain import Explanation, explain_rows
from tacit.run.folder import FORMAT, RunFolder, SavedJoint, SavedPart, SavedResult, history_record, serving_loss
from tacit.run.predict import Predictions, SavedModel, load_rows, row_offsets
from tacit.run.result import ALL_PARTIES, Model, Result, SavedTrees, TreePart, versions
from tacit.run.saved import SavedRun, in_order, read_run
from tacit.text import html_card, plural
from tacit.types import Shard, Trace, Vector

LABEL = "label"  # how labels are named that came without a name


@dataclass(frozen=True)
class FittedRun:
    """What an estimator keeps of its run, so that it can be saved: plain values, and the model."""

    plan: dict[str, Any]
    result: SavedResult
    model: Model
    loss: Any
    label: str


def fitted_run(result: Result, labels: Any) -> FittedRun:
    """What to keep of a run; `labels` are those that the user handed over, which may have a name."""
    name = getattr(labels, "name", None)
    saved = SavedResult(
        rounds=len(result.trace),
        converged=result.converged,
        note=result.note,
        seconds=result.seconds,
        objective=math.nan,  # of the trace's last round, which need not be the model's
        gap=next((row.gap for row in reversed(result.trace) if math.isfinite(row.gap)), math.inf),
        traffic=result.traffic,
        outlook=result.outlook,
        boosting=None if result.boosting is None else history_record(result.boosting),
    )
    return FittedRun(
        plan={**result.plan.record(), "seed": result.plan.problem.seed},
        result=saved,
        model=result.model,
        loss=result.plan.problem.loss,
        label=name if isinstance(name, str) and name else LABEL,
    )


class FittedModel(BaseEstimator):
    """What estimators do after `fit`, beside predicting."""

    _run: FittedRun
    certificate_: Certificate
    trace_: Trace
    encoders_: Any

    def _new_shards(self, X: Any) -> list[Shard]:
        """New rows, encoded as those of the fit."""
        raise NotImplementedError

    def explain(self, X: Any) -> Explanation:
        """What each column of each party adds to the score of each row.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        Explanation
            A dict of party to dict of column to array, `.to_frame()` makes a table. The sums of a row, with `baseline`
            under "", are its score. Where rows are split, the party is "all parties".
        """
        check_is_fitted(self, "n_rounds_")
        model = self._run.model
        encoders = [self.encoders_.get(part.name) for part in model.terms]
        names = [part.name for part in model.terms]
        if model.mean is not None:
            names, encoders = [ALL_PARTIES], [next(iter(self.encoders_.values()), None)]
        return explain_rows(model.terms, self._new_shards(X), encoders, model.constant, names)

    def export(self, path: str | Path, *, party: str | None = None) -> Path:
        """Write the fitted model in a form that needs no Tacit: plain Python, ONNX or skops.

        Parameters
        ----------
        path : path
            A file whose name ends in .py, .onnx or .skops.
        party : str, optional
            Write the part of this party alone.

        Raises
        ------
        InputError
            As `save`; for another ending, an unknown party, and for a model that the form cannot hold.
        """
        with TemporaryDirectory() as place:
            return LoadedModel.read(self.save(Path(place) / "model")).export(path, party=party)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Save the fitted model as the folder of a run, for `tacit.load` and the command line.

        Parameters
        ----------
        path : path
            A folder that is new or empty.
        overwrite : bool
            Whether a run that is there may be replaced.

        Returns
        -------
        Path
            The folder. Keep it as you keep the model: coefficients are in it, training rows are not.

        Raises
        ------
        InputError
            For losses and penalties that have no name in jobs, and for folders that cannot be used.
        """
        check_is_fitted(self, "n_rounds_")
        job, folder = self._job(), RunFolder(path)
        with folder.locked(resume=False, overwrite=overwrite):
            folder.write_job(job.to_toml())
            folder.write_plan({"format": FORMAT, "plan": self._run.plan, "versions": versions()})
            self._write_model(folder)
            folder.write_trace(self.trace_)
            folder.write_certificate(self.certificate_)
            folder.write_result(self._run.result)
        return folder.path

    def _write_model(self, folder: RunFolder) -> None:
        run, encoders = self._run, dict(self.encoders_)
        for part in run.model.parts:
            encoder = encoders.get(part.name)
            if isinstance(part, TreePart):
                folder.write_part(SavedTrees(part, None, self._tree_encoder(part.name)))
            else:
                folder.write_part(SavedPart(part, None, encoder))
        names = [part.name for part in run.model.parts]
        classes = np.asarray(getattr(self, "classes_", ())).tolist()
        first = next(iter(encoders.values()), None) if run.model.mean is not None else None
        folder.write_joint(SavedJoint(run.loss, classes, names, run.model, first, [], getattr(self, "costs", None)))

    def _tree_encoder(self, party: str) -> RawEncoder:
        """How the columns of a party with trees are read."""
        encoder = self.encoders_[party]
        assert isinstance(encoder, RawEncoder)
        return encoder

    def _job(self) -> Job:
        """What was fitted, as the job that would train it."""
        given, run = self.get_params(deep=False), self._run
        names, on_graph = [part.name for part in run.model.parts], run.model.mean is not None
        graph = getattr(self, "graph_", None)
        edges = None if graph is None else tuple((graph.names[a], graph.names[b]) for a, b in graph.edges)
        privacy = given.get("privacy")
        return Job(
            name=type(self).__name__,
            parties=tuple(
                PartySpec(name, label=run.label if on_graph or not place else None) for place, name in enumerate(names)
            ),
            model=self._model_section(given),
            trees=self._trees_section(given),
            split="samples" if on_graph else "features",
            rounds=given["max_rounds"],
            tol=given["tol"],
            privacy=privacy if isinstance(privacy, Privacy) else None,
            options=given.get("options"),
            secure_aggregation=given.get("secure_aggregation", False),
            graph=None if edges is None else GraphSpec(edges=edges),
        )

    def _model_section(self, given: Mapping[str, Any]) -> ModelSection:
        return ModelSection(
            loss=_name_of("loss", self._run.loss, LOSSES),
            penalty="none" if given["penalty"] is None else _name_of("penalty", given["penalty"], REGULARIZERS),
            alpha=self._run.plan["alpha"],
            fit_intercept=given["fit_intercept"],
            method=given["method"],
            rho=given["rho"],
            published=given.get("published", False),
            terms=getattr(self, "terms_", given["terms"]),
            l1_ratio=given["penalty"].l1 if isinstance(given["penalty"], ElasticNet) else None,
            class_weight=_by_text(given.get("class_weight")),
            costs=given.get("costs"),
            **_settings(serving_loss(self._run.loss)),
        )

    def _trees_section(self, given: Mapping[str, Any]) -> TreesSection | None:
        """How trees were grown; None for a linear model."""
        return None

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a page about the fitted model: how it was trained, what each party adds, and its certificate.

        The page says nothing about new rows: a job with `holdout` measures how good the model is
        (`pip install "tacit[plot]"` for the pictures).

        Returns
        -------
        Path
            Where it is. After a private fit only its owner can read it.
        """
        with tempfile.TemporaryDirectory() as folder:
            return write_report(self.save(Path(folder, type(self).__name__)), Path(path), saved=False)

    def _html_repr(self) -> str:
        diagram = str(super()._html_repr())
        if not hasattr(self, "n_rounds_"):
            return diagram
        return diagram + html_card(type(self).__name__, self._facts(), head=_headline(self.certificate_))

    def _facts(self) -> list[tuple[str, str | Sequence[str]]]:
        parts = self._run.model.parts
        ended = "" if self._run.result.converged else ", not converged"
        return [
            ("parties", ", ".join(f"{part.name} ({plural(len(part.columns), 'column')})" for part in parts)),
            ("rounds", f"{len(self.trace_)}{ended}"),
        ]


def _name_of(key: str, value: Any, known: Mapping[str, Any]) -> str:
    """The name under which jobs know a loss or a penalty."""
    name = value if isinstance(value, str) else getattr(getattr(value, "inner", value), "name", None)
    if name not in known:
        raise InputError(
            f"a model with a {key} of your own cannot be saved, as no file could name it: pickle it instead"
        )
    return str(name)


def _settings(loss: Any) -> dict[str, Any]:
    """The numbers of a loss that jobs can say."""
    known = loss.settings
    return {name: known[name] for name in ModelSection().loss_settings if name in known}


def _by_text(weights: Any) -> Any:
    """Weights of classes as a job has them: by their names as text."""
    return {str(name): float(own) for name, own in weights.items()} if isinstance(weights, Mapping) else weights


def _headline(certificate: Certificate) -> str:
    return str(certificate).splitlines()[1]


# --- A run that was read from its folder


class LoadedModel(SavedRun):
    """A finished run as a fitted model: what `SavedRun` holds, and the names that estimators have.

    Rows are given as paths or data frames (arrays where columns were used as they are), one for each party: by name, or
    in their order; a single one where the parties held different rows. They are matched by the id columns that the job
    names, else by position, and results are in the order of `predict(rows).ids`.
    """

    @property
    def classes_(self) -> Any:
        """The labels of a classifier; of two, the second is the positive one."""
        return np.array(self.model.classes)

    @property
    def certificate_(self) -> Certificate:
        """What may be said about the privacy of the run."""
        return self.certificate

    @property
    def trace_(self) -> Trace:
        """One row per round."""
        return self.trace

    @property
    def n_rounds_(self) -> int:
        """Rounds of the run."""
        return len(self.trace)

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule held."""
        return bool(self.result.get("converged"))

    @property
    def coef_by_party_(self) -> PartyCoefficients:
        """Each party's coefficients, as of an estimator: a list, also by name, with `.columns` and `.to_frame()`."""
        coef = self.coef
        return PartyCoefficients(
            [np.array(list(own.values())) for own in coef.values()], list(coef), [tuple(own) for own in coef.values()]
        )

    @property
    def intercept_(self) -> Any:
        """The intercept that goes with `coef_by_party_`; of more than two classes one for each."""
        return self.intercept

    def predict(self, rows: Any) -> Predictions:
        """Predict new rows, as `tacit predict` does; what it would remark is a warning.

        Returns
        -------
        Predictions
            An array of labels, numbers or counts for numpy and scikit-learn; with `ids` (None where rows have none),
            `score`, `prediction`, the `probability` of the positive label where the loss has one, and `to_frame()`.

        Raises
        ------
        InputError
            For files or columns that cannot be used; the message names the party.
        """
        return super().predict(_framed(self.model, rows))

    def decision_function(self, rows: Any) -> Vector:
        """The score of each row."""
        return self.predict(rows).score

    @available_if(lambda self: bool(self.model.classes) and named_loss(self.model.loss).log_odds)
    def predict_proba(self, rows: Any) -> Vector:
        """The probability of each class, in the order of `classes_`."""
        found = np.asarray(self.predict(rows).probability)
        return found if found.ndim > 1 else np.column_stack([1 - found, found])

    def explain(self, rows: Any) -> Explanation:
        """What each column of each party adds to the score of each row, in the order of `predict(rows)`.

        Returns
        -------
        Explanation
            A dict of party to dict of column to array, `.to_frame()` makes a table. The sums of a row, with `baseline`
            under "", are its score.
        """
        model, names = self.model, [part.name for part in self.model.parties]
        data = load_rows(model, in_order(_framed(model, rows), names))
        encoders = model.encoders or (None,) * len(names)
        whose = [ALL_PARTIES] if self.on_graph else names
        constant = model.constant + row_offsets(model, data)
        return explain_rows(model.parties, data.shards, encoders, constant, whose)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page of the run, as `tacit report` does; by default into its folder."""
        return write_report(self.path, None if path is None else Path(path))

    def __repr__(self) -> str:
        return f"LoadedModel({show_path(self.path)!r}: {self.job.name}, parties {', '.join(self.job.names)})"

    def _repr_html_(self) -> str:
        label = next((spec.label for spec in self.job.parties if spec.label is not None), "")
        facts: list[tuple[str, str | Sequence[str]]] = [
            ("folder", show_path(self.path)),
            ("predicts", str(label)),
            ("parties", ", ".join(self.job.names)),
            ("rows trained on", f"{self.rows:,}"),
            ("rounds", str(self.n_rounds_)),
        ]
        return html_card(self.job.name, facts, head=_headline(self.certificate))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """As `load`."""
        run = read_run(path)
        return cls(**{one.name: getattr(run, one.name) for one in fields(run)})


def load(path: str | Path) -> LoadedModel:
    """Read a finished run from its folder, as a fitted model.

    Parameters
    ----------
    path : path
        The folder that `tacit train`, `run_job` or the `save` of an estimator wrote.

    Returns
    -------
    LoadedModel
        Predicts, explains and reports like an estimator; with its certificate, trace and evaluation.

    Raises
    ------
    InputError
        Where there is no finished run, or one of its files is missing or damaged; the message names the file.
    """
    return LoadedModel.read(path)


def _framed(model: SavedModel, rows: Any) -> Any:
    """Arrays under the names of the columns that they stand for; anything else as it is."""
    names = {part.name: spec.features or () for part, spec in zip(model.parties, model.specs, strict=True)}
    if isinstance(rows, Mapping):
        return {name: _frame(table, names.get(name, ())) for name, table in rows.items()}
    if isinstance(rows, list | tuple):
        wanted = [*names.values(), *[()] * len(rows)]
        return [_frame(table, wanted[place]) for place, table in enumerate(rows)]
    return _frame(rows, next(iter(names.values())))


def _frame(table: Any, names: Sequence[str]) -> Any:
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.shape[1] != len(names):
        return table
    import pyarrow as pa

    return pa.table([np.ascontiguousarray(column) for column in table.T], names=list(names))

"""The job file: its sections and keys, read and written.

[job]      name, split, engine, rounds, tol, seed, secure_aggregation, memory, holdout, holdout_after, evaluation,
           share_evaluation
[model]    kind, loss, quantile, classes, power, dispersion, class_weight, costs, penalty, l1_ratio, alpha,
           fit_intercept, method, rho, published, terms
[trees]    learning_rate, max_leaf_nodes, ...: with kind = "trees"
[search]   alphas, folds, rule: chooses alpha by cross-validation, where model.alpha is not given
[graph]    kind or edges, with split = "samples"
[encode]   scale, rare, most, pairs, codebook: how columns become numbers
[privacy]  epsilon, delta, unit, label_epsilon, row_norm, accountant, protect, mechanism, predictions, neighbours,
           coef_norm, refit, label_norm, epsilon_by_party, honest, noise_seed; without the section nothing is protected,
           and the certificate says so
[privacy.options]  alphas, rounds, loss_weight, noise, last_round, objective_noise, first_sd, decay, label_epsilons,
           randomized: numbers of the papers' methods of a sample split
[[party]]  name, data, id, label, positive, weight, offset, exposure, features, columns, width, delimiter, numbers,
           holdout_column, holdout_data
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tacit.columns.spec import AUTO, LINEAR, SPLINE, EncodeRules
from tacit.data.holdout import Holdout, Moment
from tacit.data.labels import check_costs
from tacit.data.load import PartySpec
from tacit.errors import InputError
from tacit.files import MOST_BYTES, assignment, quote_path, read_toml
from tacit.job.codebook import read_codebook, stated_codebook, with_codebook
from tacit.job.sections import (
    ENCODE_KEYS,
    GRAPH_KEYS,
    PRIVACY_OPTIONS,
    SEARCH_KEYS,
    SECTION_KEYS,
    SECTIONS,
    GraphSpec,
    ModelSection,
    SearchSpec,
    check_columns,
    check_count,
    check_nodes,
    check_parties,
    check_party,
    columns_record,
    make_columns,
    make_options,
    make_privacy,
    make_spec,
    protected_parties,
    read_search,
    values_of_options,
    values_of_privacy,
)
from tacit.job.trees import (
    LINEAR_MODEL,
    MODEL_KEYS,
    TREE_DEFAULTS,
    TREES,
    TREES_KEYS,
    TreesSection,
    check_tree_parties,
    check_tree_privacy,
    refuse_for_trees,
    refuse_trees_keys,
)
from tacit.job.values import parse_keys
from tacit.privacy.request import PaperOptions, Privacy
from tacit.problem.registry import LOSSES, make_loss
from tacit.text import listing, nearest, one_line, show
from tacit.topologies import Graph

# --- The job file: its sections and keys, read and written


ENGINES = ("in-process", "flare")


@dataclass(frozen=True)
class SplitRules:
    """What a job may hold, by how its data are split.

    Attributes
    ----------
    check_parties : callable
        Refuses parties that do not fit each other.
    needed, unused : mapping of str to str
        Sections that the job must have, and that it must not have; each with what to do about it.
    defaults : mapping
        Of [job], where they are not those of `Job`: those of the estimators of this split.
    publishes : bool
        Whether `model.published` may ask for the exact form of a paper.
    has_trees : bool
        Whether boosted trees can be trained.
    """

    check_parties: Callable[[Sequence[PartySpec]], None]
    needed: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    publishes: bool = False
    has_trees: bool = False

    def refuse_trees(self, split: str) -> None:
        """Refuse boosted trees where the split does not have them."""
        if not self.has_trees:
            raise InputError(
                f'trees need parties with different columns of the same rows, and split = "{split}" has different '
                'rows: write kind = "linear", or split = "features"'
            )

    def refuse_unused(self, document: Mapping[str, Any], split: str) -> None:
        """Refuse sections that the split does not use."""
        for section, fix in self.unused.items():
            if _has_section(document, section):
                raise InputError(f'[{section}] is not used with split = "{split}": {fix}')

    def refuse_missing(self, document: Mapping[str, Any], split: str) -> None:
        """Refuse a job without the sections that the split needs."""
        for section, fix in self.needed.items():
            if not _has_section(document, section):
                raise InputError(f'split = "{split}" needs [{section}]: {fix}')


SPLITS = {
    "features": SplitRules(
        check_parties,
        unused=dict.fromkeys(("graph", PRIVACY_OPTIONS), 'remove it, or write split = "samples"'),
        has_trees=True,
    ),
    "samples": SplitRules(
        check_nodes,
        needed={"graph": 'add it, with kind = "ring" or edges = [["a", "b"], ...]'},
        unused={"search": "remove it, and give model.alpha"},
        defaults={"rounds": 1000, "tol": 1e-12},
        publishes=True,
    ),
}


def _has_section(document: Mapping[str, Any], section: str) -> bool:
    """Whether a parsed file has a section, which may be inside another."""
    outer, _, inner = section.partition(".")
    return outer in document and (not inner or (isinstance(document[outer], dict) and inner in document[outer]))


@dataclass(frozen=True)
class Job:
    """A job file.

    Attributes
    ----------
    name : str
        The job's name; the stem of the file's name where the file gives none.
    parties : tuple of PartySpec
        The parties, at least one; exactly one has the label, or each where the rows are split.
    model : ModelSection
        What is trained.
    split : str
        "features": the parties hold different columns of the same rows. "samples": they hold different rows with the
        same columns, and each is a node of the graph.
    engine : str
        Where it runs.
    rounds : int
        The largest number of rounds; by default 1000 where the rows are split.
    tol : float
        Tolerance of the stopping rule; by default 1e-12 where the rows are split.
    seed : int or None
        Seed of starts, never of private noise.
    privacy : Privacy or None
        What the whole run must guarantee; None where the file has no section [privacy].
    options : PaperOptions or None
        Numbers of the papers' methods, where the rows are split and the file has a section [privacy.options].
    secure_aggregation : bool or "auto"
        Whether the parties' numbers travel under masks, so that only their sum can be read; "auto", where rows are
        split: where the mechanism and the number of parties allow it.
    memory : str or None
        How much the process may take, such as "2GB": rows of Parquet and LIBSVM files are then left on disk. None
        reads all rows into memory.
    holdout : float
        Part of the rows that is not trained on, so that the model can be evaluated on them; chosen by id, whatever the
        order of rows. 0 trains on all.
    evaluation : {"exact", "private"} or None
        How figures on rows held out are made, where the rows of others are protected: exactly, for the label holder
        alone, or with noise as a planned release. None is exact in one process, and private between organisations.
    share_evaluation : bool
        Between organisations: whether the label holder tells the others the main figures of the joint model, and of
        itself alone.
    holdout_after : str, float or None
        A date such as "2024-01-01", or a number: rows whose `holdout_column` (of the label holder, or of each node) is
        it or later are not trained on.
    graph : GraphSpec or None
        Who talks to whom, where the rows are split.
    encode : EncodeRules
        How columns become numbers.
    search : SearchSpec or None
        How alpha is chosen; None where the model has it.
    trees : TreesSection or None
        How trees are grown; None where the model is linear.
    folder : Path
        Folder that the relative paths of the parties start from; not part of the file.
    file : str
        Name of the file it was read from, for messages; empty where there is none.
    """

    name: str
    parties: tuple[PartySpec, ...]
    model: ModelSection = field(default_factory=ModelSection)
    split: str = "features"
    engine: str = "in-process"
    rounds: int = 200
    tol: float = 1e-4
    seed: int | None = None
    privacy: Privacy | None = None
    options: PaperOptions | None = None
    secure_aggregation: bool | str = False
    memory: str | None = None
    holdout: float = 0.0
    evaluation: str | None = None
    share_evaluation: bool = True
    holdout_after: Moment | None = None
    graph: GraphSpec | None = None
    encode: EncodeRules = field(default_factory=EncodeRules)
    search: SearchSpec | None = None
    trees: TreesSection | None = None
    folder: Path = Path(".")
    file: str = field(default="", compare=False)

    @property
    def holder(self) -> str:
        """The party that holds the labels, where the columns are split."""
        return next(party.name for party in self.parties if party.label is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """The parties' names."""
        return tuple(party.name for party in self.parties)

    @property
    def protected(self) -> frozenset[str]:
        """The parties whose rows are to be protected: no constant of their encoding may come from their rows."""
        return protected_parties(self.privacy, self.parties, rows_are_split=self.rows_are_split)

    @property
    def evaluates_privately(self) -> bool:
        """Whether figures on rows held out are a planned release, with noise."""
        if not self.holdout or not self.protected or self.rows_are_split:
            return False
        return self.evaluation == "private" or (self.evaluation is None and self.engine == "flare")

    def without_holdout(self) -> Job:
        """The job that trains on all rows."""
        return replace(self, holdout=0.0, evaluation=None, share_evaluation=True)

    @property
    def holdout_rule(self) -> Holdout:
        """Which rows of its files are held out."""
        return Holdout(self.holdout, self.seed or 0, self.holdout_after)

    @property
    def holds_out_files(self) -> bool:
        """Whether the model is evaluated on files of their own."""
        return self.parties[0].holdout_data is not None

    @property
    def holdout_words(self) -> str:
        """How rows are held out, as the job says it; empty where none are."""
        if self.holdout_after is not None:
            return f"holdout_after = {show(self.holdout_after)}"
        if self.holds_out_files:
            return "holdout_data"
        return f"holdout = {self.holdout:g}" if self.holdout else ""

    def grows_trees(self, party: str) -> bool:
        """Whether a party's part of the model is of trees, which take its columns as they are."""
        return self.trees is not None and party not in self.protected

    @property
    def has_curves(self) -> bool:
        """Whether numbers are curves, all of them or those of some columns."""
        own = (spec.term for party in self.parties for spec in party.columns)
        return self.encode.terms != LINEAR or SPLINE in own

    @property
    def chooses_terms(self) -> bool:
        """Whether a search is to choose between lines and curves."""
        return self.encode.terms == AUTO and self.privacy is None

    @property
    def searched(self) -> SearchSpec | None:
        """What is searched: as [search] says; with an alpha that is given the terms alone, where they are chosen."""
        if self.search is None and self.chooses_terms:
            return SearchSpec((self.model.alpha,), None)
        return self.search

    def with_terms(self, terms: str) -> Job:
        """The job as it is once "auto" is settled: with lines or with curves."""
        return replace(self, encode=replace(self.encode, terms=terms))

    @property
    def is_weighted(self) -> bool:
        """Whether rows count differently: by a column, or by their class."""
        return self.model.class_weight is not None or any(party.weight is not None for party in self.parties)

    @property
    def has_row_values(self) -> bool:
        """Whether rows have more than a label: an offset, an exposure or a weight."""
        return self.is_weighted or any(party.row_columns for party in self.parties)

    @property
    def rows_are_split(self) -> bool:
        """Whether the parties hold different rows with the same columns, and not columns of the same rows."""
        return self.split == "samples"

    @contextmanager
    def named_refusals(self) -> Iterator[None]:
        """Inside, refusals name the job's file."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.file}: {error}" if self.file else str(error)) from error

    def make_graph(self) -> Graph:
        """The graph between the parties, where the rows are split."""
        assert self.graph is not None
        return self.graph.graph(self.names, self.seed or 0)

    def to_toml(self, folder: str | os.PathLike[str] | None = None) -> str:
        """Return the job as TOML, with the defaults spelled out.

        Parameters
        ----------
        folder : path, optional
            The folder the text will be saved in, when it is not the job's own: relative paths of
            data are rewritten so that they still lead to the files.

        Returns
        -------
        str
            A text that `read_job` reads back as the same job.
        """
        lines: list[str | None] = ["[job]"]
        unsaid = {"share_evaluation"} if self.share_evaluation else set()
        lines += [assignment(key, getattr(self, key)) for key in SECTION_KEYS["job"] if key not in unsaid]
        lines += ["", "[model]"]
        lines += [assignment(key, getattr(self.model, key)) for key in self._model_keys]
        if self.trees is not None:
            lines += ["", "[trees]", *(assignment(key, getattr(self.trees, key)) for key in TREES_KEYS)]
        if self.search is not None:
            lines += ["", "[search]", *(assignment(key, getattr(self.search, key)) for key in SEARCH_KEYS)]
        if self.graph is not None:
            lines += ["", "[graph]", *(assignment(key, getattr(self.graph, key)) for key in GRAPH_KEYS)]
        rules = {key: getattr(self.encode, key) for key in (ENCODE_KEYS if self.trees is None else ("pairs",))}
        rules |= {"codebook": columns_record(self.encode.codebook)}  # as a table: a job that travels is one text
        lines += ["", "[encode]", *(assignment(key, value) for key, value in rules.items())]
        if self.privacy is not None:
            lines += ["", "[privacy]"]
            lines += [assignment(key, value) for key, value in values_of_privacy(self.privacy).items()]
        if self.options is not None:
            lines += ["", f"[{PRIVACY_OPTIONS}]"]
            lines += [assignment(key, value) for key, value in values_of_options(self.options).items()]
        for party in self.parties:
            own = [spec for spec in party.columns if not spec.optional]
            values = {key: getattr(party, key) for key in SECTION_KEYS["party"]} | {"columns": columns_record(own)}
            for key in ("delimiter", "numbers"):
                if values[key] == getattr(PartySpec, key):
                    del values[key]
            if not party.data:
                del values["data"]
            elif folder is not None:
                values["data"] = self._moved(party.data, Path(folder))
                if party.holdout_data:
                    values["holdout_data"] = self._moved(party.holdout_data, Path(folder))
            lines += ["", "[[party]]"]
            lines += [assignment(key, value) for key, value in values.items()]
        return "\n".join(line for line in lines if line is not None) + "\n"

    @property
    def _model_keys(self) -> list[str]:
        """The keys of [model] that say something in this job."""
        if self.trees is not None:
            return [key for key in SECTION_KEYS["model"] if key in MODEL_KEYS]
        unsaid = {"kind", *(() if self.search is None else ("alpha",))}
        return [key for key in SECTION_KEYS["model"] if key not in unsaid]

    def _moved(self, data: str, folder: Path) -> str:
        """Return a path of data as seen from another folder."""
        if os.path.isabs(data):
            return data
        return Path(os.path.relpath(self.folder / data, folder)).as_posix()


def read_job(path: str | os.PathLike[str], *, apart: bool = False) -> Job:
    """Read a job file; the data files are not opened.

    Parameters
    ----------
    path : path
        A TOML file.
    apart : bool
        Whether parties may be without `data`, as in the job of a model that was fitted in Python.

    Returns
    -------
    Job
        The job, with defaults filled in.

    Raises
    ------
    InputError
        For a file that cannot be read, an unknown section or key, or a value that is not allowed.
    """
    path = Path(path)
    try:
        return _job(_document(path), path, apart=apart)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error


def parse_job(text: str, name: str) -> Job:
    """The job of a text that came from elsewhere; `name` stands for the file in messages. No file is read for it."""
    document = read_toml(text, name)
    try:
        return _job(document, Path(f"{name}.toml"), alone=True)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def section_of(key: str) -> str | None:
    """The section of a job file that a key stands in; None for an unknown one."""
    return next((section for section, keys in SECTION_KEYS.items() if key in keys), None)


# --- reading ------------------------------------------------------------------------------------


def _document(path: Path) -> dict[str, Any]:
    """Parse the TOML file."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 4).decode("utf-8-sig")  # 4: one byte too many, after a mark of 3
    except FileNotFoundError as error:
        raise InputError(f"there is no job file {quote_path(path)}: check the path") from error
    except IsADirectoryError as error:
        raise InputError("cannot open the job file: it is a folder, give the .toml file in it") from error
    except OSError as error:
        raise InputError(f"cannot open the job file {quote_path(path)}: {error.strerror or one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the file is not UTF-8 text ({one_line(error)}): save it as UTF-8") from error
    return read_toml(text, "the file")


def _job(document: Mapping[str, Any], path: Path, *, alone: bool = False, apart: bool = False) -> Job:
    """Build the job from the parsed file; `alone` where it must not name another one, `apart` as in `read_job`."""
    for name in document:
        if name not in SECTIONS:
            allowed = listing(SECTIONS)
            raise InputError(f"unknown section {show(name)}{nearest(name, SECTIONS)}: allowed are {allowed}")
    top = _section(document.get("job", {}), "job")
    split = top.get("split", Job.split)
    if split not in SPLITS:
        raise InputError(f'job.split = {show(split)} is not allowed: it must be "features" or "samples"')
    rules = SPLITS[split]
    given = _section(document.get("model", {}), "model")
    trees = _trees(document, given, top)
    top = {**rules.defaults, **(TREE_DEFAULTS if trees is not None else {}), **top}
    model, private = ModelSection(**given), "privacy" in document
    if model.published and not rules.publishes:
        raise InputError(f'model.published is not used with split = "{split}": remove it')
    rules.refuse_unused(document, split)
    _check_auto(model, top, private=private)
    search_section = _section(document["search"], "search") if "search" in document else None
    search = read_search(search_section, given, private=private)
    check_engine(top.get("engine", ENGINES[0]))
    apart = apart or top.get("engine") == "flare"  # then each party knows where its own data are, and nobody else
    parties = _parties(document.get("party", []), rules.check_parties, apart)
    rules.refuse_missing(document, split)
    privacy, options = _privacy(document, [party.name for party in parties])
    curved = trees is not None and privacy is not None and privacy.epsilon is not None  # beside the holder's trees
    encode = _encode(document, SPLINE if curved else model.terms, None if alone else path.parent)
    job = Job(
        **{"name": path.stem, **top},
        model=model,
        privacy=privacy,
        options=options,
        search=search,
        trees=trees,
        parties=tuple(with_codebook(party, encode.codebook) for party in parties) if encode.codebook else parties,
        encode=encode,
        graph=_graph(document, [party.name for party in parties], top.get("seed") or 0),
        folder=path.parent,
        file=path.name,
    )
    check_holdout(job)
    check_memory(job)
    check_trees(job)
    check_rows(job)
    _check_evaluation(job)
    return job


def _check_evaluation(job: Job) -> None:
    """Refuse ways of evaluating that do not go with the rest of the job."""
    if not job.holdout and (job.evaluation is not None or not job.share_evaluation):
        key = "share_evaluation" if job.evaluation is None else "evaluation"
        raise InputError(f"job.{key} is about rows that are held out: add holdout = 0.2, or remove it")
    if job.evaluation == "private" and (job.rows_are_split or not job.protected):
        raise InputError(
            'job.evaluation = "private" is for columns split between parties, of which some are protected by '
            "[privacy] epsilon: leave it out"
        )
    if job.evaluation == "exact" and job.engine == "flare" and job.protected and not job.rows_are_split:
        raise InputError(
            'job.evaluation = "exact" would send exact scores of protected rows from one organisation to another: '
            'write "private", or leave it out'
        )


def check_holdout(job: Job) -> None:
    """Refuse more than one way to hold rows out, half of one, and one that a proof does not allow.

    Raises
    ------
    InputError
        In one line, with what to change.
    """
    dated = [party.name for party in job.parties if party.holdout_column is not None]
    filed = [party.name for party in job.parties if party.holdout_data is not None]
    ways = {"holdout": bool(job.holdout), "holdout_after": job.holdout_after is not None, "holdout_data": bool(filed)}
    chosen = [name for name, used in ways.items() if used]
    if len(chosen) > 1:
        raise InputError(f"{listing(chosen)} are two ways to hold rows out: keep one of them")
    if dated and job.holdout_after is None:
        raise InputError(f'party {show(dated[0])} has a holdout_column: add holdout_after = "2024-01-01" under [job]')
    if job.holdout_after is not None:
        _check_holdout_after(job)
    missing = [party.name for party in job.parties if filed and party.holdout_data is None]
    if missing:
        raise InputError(f"party {show(missing[0])} has no holdout_data: give a file for each party, or for none")


def _check_holdout_after(job: Job) -> None:
    """Rows are held out by a column of whoever has labels; never where their number must not depend on rows."""
    for party in job.parties:
        if party.label is not None and party.holdout_column is None:
            raise InputError(f"party {show(party.name)} has the label and no holdout_column: name its column of dates")
        if party.label is None and party.holdout_column is not None:
            raise InputError(
                f"party {show(party.name)} has a holdout_column and no label: name one of the label holder"
            )
    if job.privacy is not None:
        raise InputError(
            "holdout_after does not go with [privacy]: the number of rows trained on would depend on the rows, and "
            "nothing would be proven; use holdout = 0.2, or holdout_data"
        )


def _trees(document: Mapping[str, Any], model: Mapping[str, Any], top: Mapping[str, Any]) -> TreesSection | None:
    """How trees are grown; None for a linear model."""
    if model.get("kind", LINEAR_MODEL) != TREES:
        if "trees" in document or "classes" in model:
            refuse_trees_keys(document, model)
        return None
    encode = document.get("encode", {})
    split = top.get("split", Job.split)
    SPLITS[split].refuse_trees(split)
    refuse_for_trees(document, model, encode if isinstance(encode, dict) else {})
    return TreesSection(**_section(document.get("trees", {}), "trees"))


def check_trees(job: Job) -> None:
    """Refuse what does not go with trees, where the job has them; what a caller added to its file, too.

    Raises
    ------
    InputError
        As `check_tree_privacy` and `check_tree_parties`.
    """
    if job.trees is not None:
        SPLITS[job.split].refuse_trees(job.split)
        check_tree_privacy(job.privacy)
        check_tree_parties(job.parties, job.protected)


def check_rows(job: Job) -> None:
    """Refuse numbers of the loss and values of rows that do not fit each other, before any file is read.

    Raises
    ------
    InputError
        With one line that names the key and the way out.
    """
    model = job.model
    if (model.classes or 2) > 2:
        _check_one_score(job)
    if job.trees is None and model.loss in LOSSES:
        loss = make_loss(model.loss, **model.loss_settings)
        check_costs(model.costs, loss, model.class_weight)
        if model.class_weight is not None and loss.task != "classification":
            raise InputError(f"model.class_weight is for two classes, not for loss {show(model.loss)}: remove it")
        if any(party.exposure for party in job.parties) and loss.task != "counts":
            raise InputError(f"exposure is for losses with log link, not for loss {show(model.loss)}: use offset")
        if job.engine == "flare" and loss.leaves_open:
            raise InputError('model.dispersion is estimated in one process alone: give a number with engine = "flare"')
        if job.search is not None and loss.leaves_open:
            raise InputError("[search] needs a dispersion that does not change: give model.dispersion, or alpha")
    if model.l1_ratio is not None and model.penalty != "elastic_net":
        raise InputError(f'model.l1_ratio is for penalty = "elastic_net", not for {show(model.penalty)}: remove it')
    if job.is_weighted and job.rows_are_split and job.engine == "flare":
        raise InputError(
            'weights and class weights of split = "samples" need the sums of all parties, which engine = "flare" does '
            "not exchange: remove them"
        )


def _check_one_score(job: Job) -> None:
    """Refuse what more than two classes do not have."""
    given = [key for key in ("costs", "class_weight") if getattr(job.model, key) is not None]
    given += sorted({key for party in job.parties for key in party.row_columns})
    if given:
        raise InputError(f"{given[0]} does not go with model.classes = {job.model.classes}, more than two: remove it")


def _encode(document: Mapping[str, Any], terms: str, folder: Path | None) -> EncodeRules:
    """Read how columns become numbers; a code book is in this folder, or in the job itself where there is none."""
    given = _section(document.get("encode", {}), "encode")
    if "codebook" not in given:
        return EncodeRules(**given, terms=terms)
    book = given.pop("codebook")
    if isinstance(book, str) and folder is None:
        raise InputError(f"encode.codebook = {show(book)} names a file of whoever wrote the job: write a table instead")
    entries = read_codebook(folder / book) if isinstance(book, str) and folder is not None else stated_codebook(book)
    return EncodeRules(**given, terms=terms, codebook=entries)


def _check_auto(model: ModelSection, top: Mapping[str, Any], *, private: bool) -> None:
    """Refuse terms = "auto" where there is no search that could choose."""
    if model.terms != AUTO or private:
        return
    for key, value in (("split", "samples"), ("engine", "flare")):
        if top.get(key) == value:
            raise InputError(
                f'model.terms = "auto" chooses curves by a search, which {key} = "{value}" does not have: write '
                '"spline" for curves, or "linear"'
            )


def check_engine(engine: str) -> None:
    """Refuse an engine that is not there."""
    if engine not in ENGINES:
        raise InputError(f"engine {show(engine)} is unknown{nearest(engine, ENGINES)}: choose {', '.join(ENGINES)}")


def _graph(document: Mapping[str, Any], names: Sequence[str], seed: int) -> GraphSpec | None:
    """Read who talks to whom; None where the columns are split."""
    if "graph" not in document:
        return None
    return make_spec(_section(document["graph"], "graph"), names, seed)


def _privacy(document: Mapping[str, Any], names: Sequence[str]) -> tuple[Privacy | None, PaperOptions | None]:
    """Read what the run must guarantee, and the numbers of its method; None for what is not there."""
    if "privacy" not in document:
        return None, None
    given = document["privacy"]
    if not isinstance(given, dict) or "options" not in given:
        return make_privacy(_section(given, "privacy"), names), None
    keys = {key: value for key, value in given.items() if key != "options"}
    options = make_options(_section(given["options"], PRIVACY_OPTIONS), names)
    return make_privacy(_section(keys, "privacy"), names), options


def _section(values: Any, section: str, number: int | None = None) -> dict[str, Any]:
    """Check the keys and the values of one section; `number` counts the parties from 1."""
    place = section if number is None else f"{section} {number}"
    if not isinstance(values, dict):
        raise InputError(f"{place} = {show(values)} is not allowed: it must be a section, [{section}]")
    return parse_keys(values, SECTION_KEYS[section], place)


def _parties(values: Any, check: Callable[[Sequence[PartySpec]], None], apart: bool) -> tuple[PartySpec, ...]:
    """Read the parties and check them against each other."""
    if isinstance(values, dict):
        raise InputError("[party] has single brackets: write [[party]] above each party")
    if not isinstance(values, list) or not values:
        raise InputError("there is no party: add a [[party]] section for each, with name and data")
    check_count(len(values))
    parties = tuple(_party(value, number, apart) for number, value in enumerate(values, start=1))
    check(parties)
    return parties


def _party(values: Any, number: int, apart: bool) -> PartySpec:
    """Read one party."""
    parsed = _section(values, "party", number)
    for key in ("name",) if apart else ("name", "data"):
        if key not in parsed:
            raise InputError(f"party {number} has no {key}: add {key} = ...")
    if "columns" in parsed:
        parsed["columns"] = make_columns(parsed["columns"], f"party {number}.columns")
    spec = PartySpec(**parsed)
    check_party(spec, number)
    check_columns(spec)
    return spec


# --- What a job may say beside `memory`: rows that stay on disk are numbers, and all are trained on


def check_memory(job: Job) -> None:
    """Refuse what does not go with `memory`, where the job has it.

    Raises
    ------
    InputError
        As `check_all_rows`.
    """
    if job.memory is not None:
        check_all_rows(job, "memory")


def check_as_they_are(job: Job, key: str) -> None:
    """Refuse what does not go with numbers that are used as they are; `key` names who wants that.

    Raises
    ------
    InputError
        As `check_all_rows`, and for any scale but "none".
    """
    check_all_rows(job, key)
    if job.encode.scale != "none":
        raise InputError(
            f'{key} uses numbers as they are, and jobs scale them by default: write scale = "none" under [encode] '
            f"(scale them in the files where their sizes differ much), or leave {key} out"
        )


def check_all_rows(job: Job, key: str) -> None:
    """Refuse what does not go with rows that are elsewhere, and all trained on; `key` names who wants that.

    Raises
    ------
    InputError
        For a sample split, trees, [search], holdout, and statements about columns.
    """
    if job.trees is not None:
        raise InputError(f"{key} does not go with trees, which are grown on rows in memory: leave {key} out")
    if job.rows_are_split:
        raise InputError(f'{key} is not used with split = "samples": leave {key} out')
    if job.holdout_words:
        raise InputError(f"{key} does not go with {job.holdout_words}: leave one of them out")
    if job.model.terms != LINEAR:
        raise InputError(f"{key} does not go with terms = {show(job.model.terms)}: leave one of them out")
    if job.has_row_values:
        raise InputError(f"{key} does not go with weights, offsets or exposure: leave {key} out, or remove them")
    if job.encode.codebook:
        raise InputError(f"{key} takes columns as the files have them: remove encode.codebook, or leave {key} out")
    if job.search is not None:
        raise InputError(f"{key} does not go with [search]: give model.alpha instead, or leave {key} out")
    for party in job.parties:
        if party.columns:
            raise InputError(
                f"party {show(party.name)}: {key} takes columns as the files have them, and columns says otherwise of "
                f"{show(party.columns[0].name)}: remove it, or leave {key} out"
            )

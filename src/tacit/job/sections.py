"""The sections of a job, their keys and what they become: parties, [encode], [graph], [privacy], [search], [model]."""

from __future__ import annotations

import datetime
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.columns.encoder import MOST_BUCKETS
from tacit.columns.spec import AUTO, DATE, KINDS, LINEAR, SCALES, TERMS, ColumnSpec
from tacit.columns.table import MOST_COLUMNS
from tacit.data.labels import WRONG_ANSWERS
from tacit.data.load import PartySpec
from tacit.data.read import DELIMITERS, NUMBERS
from tacit.errors import InputError
from tacit.job.trees import CLASSES, LINEAR_MODEL, MODEL_KINDS, QUANTILE, TREES_KEYS
from tacit.job.values import (
    AMOUNT,
    EDGES,
    LISTS_BY_NAME,
    NAMES,
    NUMBER,
    PART,
    POSITIVE,
    POSITIVE_BY_NAME,
    POSITIVE_OR_AUTO,
    POSITIVE_OR_NONE,
    POSITIVES_BY_NAME,
    TEXT,
    TRUTH,
    TRUTH_OR_AUTO,
    Kind,
    number_between,
    one_of,
    parse_keys,
    whole_number,
)
from tacit.privacy.events import NEIGHBOURS
from tacit.privacy.request import (
    ACCOUNTANTS,
    ASKED_UNITS,
    LAST_ROUNDS,
    NOISES,
    PREDICTIONS,
    PROTECT,
    PaperOptions,
    Privacy,
)
from tacit.problem.alphas import CURVE_ALPHAS, MOST_ALPHAS, RULES, alpha_grid, has_alpha
from tacit.problem.registry import get_regularizer
from tacit.problem.regularizers import ElasticNet, Regularizer
from tacit.text import listing, nearest, show
from tacit.topologies import Graph, make_graph
from tacit.topologies.layout import GRAPHS

if TYPE_CHECKING:
    from tacit.data.load import PartySpec


# --- What the parties of a job must be, each by itself and beside the others


MOST_PARTIES = 500  # a graph of all pairs of them is still made in seconds
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def check_count(count: int) -> None:
    """Refuse more parties than a run can have."""
    if count > MOST_PARTIES:
        raise InputError(f"there are {count} parties, more than {MOST_PARTIES}: leave some out")


def check_party(spec: PartySpec, number: int) -> None:
    """Check one party by itself; `number` counts from 1."""
    _check_name(spec.name, number)
    if spec.holdout_column is not None and spec.holdout_column in (spec.id, spec.label):
        raise InputError(f"party {show(spec.name)}: holdout_column is its id or label: name a column of dates")
    seen: dict[str, str] = {}
    for role, column in spec.apart.items():
        if column in seen:
            raise InputError(
                f"party {show(spec.name)}: {show(column)} is both {seen[column]} and {role}: they must differ"
            )
        seen[column] = role
        if role != "holdout_column" and column in (spec.features or ()):
            raise InputError(
                f"party {show(spec.name)}: the {role} {show(column)} is among its features: remove it there"
            )


def check_parties(parties: Sequence[PartySpec]) -> None:
    """Check the parties of a feature split against each other."""
    _check_unique(parties)
    _check_label(parties)
    for party in parties:
        if party.label is None and party.row_columns:
            role, column = next(iter(party.row_columns.items()))
            raise InputError(
                f"party {show(party.name)} has {role} = {show(column)} and no label: the party with the label says it"
            )


def check_nodes(parties: Sequence[PartySpec]) -> None:
    """Check the parties of a sample split against each other: each holds rows with their labels."""
    _check_unique(parties)
    for party in parties:
        if party.label is None:
            raise InputError(
                f'party {show(party.name)} has no label: with split = "samples" each party has the labels of its own '
                "rows, so give label = its column"
            )
        if set(party.row_columns) != set(parties[0].row_columns):
            role = sorted(set(party.row_columns) ^ set(parties[0].row_columns))[0]
            raise InputError(f"some parties have {role} = a column and some have not: give it for each party, or none")


def _check_name(name: str, number: int) -> None:
    """Refuse a name that some file system would refuse, as each party gets a file of its name."""
    plain = re.fullmatch(r"\w([\w. -]*[\w-])?", name) and not _RESERVED.fullmatch(name)
    if not plain or len(name.encode("utf-8")) > 100:
        raise InputError(
            f"party {number}.name = {show(name)} is not allowed: it names a file, so use at most 100 "
            "letters, digits, spaces or . _ - and begin and end with a letter or digit"
        )


def _check_unique(parties: Sequence[PartySpec]) -> None:
    """Refuse two parties of one name, also where only a file system would take them for one."""
    seen: dict[str, str] = {}
    for party in parties:
        key = unicodedata.normalize("NFKC", party.name).casefold()
        if key in seen:
            raise InputError(f"two parties are named {show(seen[key])} and {show(party.name)}: give each its own name")
        seen[key] = party.name


def _check_label(parties: Sequence[PartySpec]) -> None:
    """Refuse all but one party with labels."""
    holders = [party.name for party in parties if party.label is not None]
    if not holders:
        names = listing(party.name for party in parties)
        raise InputError(f"no party has the label (parties: {names}): give one of them label = its column")
    if len(holders) > 1:
        raise InputError(f"parties {listing(holders)} both have a label: exactly one party may")


# --- What a job says about columns: the section [encode], and columns and positive of a party


EPOCH = datetime.date(1970, 1, 1)
MOST_PAIRS = 64


def _value(value: Any) -> str:
    """Parse one category: text, a whole number, or true and false as a file would write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int) or not str(value).strip():
        raise ValueError
    return unicodedata.normalize("NFC", str(value).strip())  # as cells of a file are read


def _values(value: Any) -> tuple[str, ...]:
    """Parse a list of different categories; their order does not matter."""
    if not isinstance(value, list) or not value:
        raise ValueError
    values = tuple(sorted(_value(item) for item in value))
    if len(set(values)) < len(values):
        raise ValueError
    return values


def _limit(value: Any) -> float:
    """Parse an end of a range: a finite number, or a date as days since 1970-01-01."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return float((value - EPOCH).days)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError from error
    if not math.isfinite(number):
        raise ValueError
    return number


def _moment(value: Any) -> str | float:
    """Parse a date, with or without quotes, or a finite number."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    return datetime.date.fromisoformat(value).isoformat() if isinstance(value, str) else _limit(value)


def _positive(value: Any) -> str | int | float | bool:
    """Parse a label: text, a finite number, or true and false."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError


def _table(value: Any) -> dict[str, Any]:
    """Parse a table; what is in it is checked by `make_columns`."""
    if not isinstance(value, dict):
        raise ValueError
    return value


def _path_or_table(value: Any) -> str | dict[str, Any]:
    """Parse a path, or a table that is checked by `make_columns`."""
    return value if isinstance(value, str) and value else _table(value)


ENCODE_KEYS: dict[str, Kind] = {
    "scale": one_of(SCALES),
    "rare": whole_number(1, 10**9),
    "most": whole_number(1, 10**6),
    "pairs": whole_number(0, MOST_PAIRS),
    "codebook": Kind("the path of a CSV file in quotes, or a table of columns", _path_or_table),
}
COLUMN_KEYS: dict[str, Kind] = {
    "kind": one_of(KINDS),
    "low": Kind("a number, or a date such as 2026-01-31 without quotes", _limit),
    "high": Kind("a number, or a date such as 2026-01-31 without quotes", _limit),
    "values": Kind('a list of categories, such as ["Basel", "Bern"], none twice', _values),
    "buckets": whole_number(1, MOST_BUCKETS),
    "missing": TRUTH,
    "term": one_of(TERMS),
    "log": TRUTH,
    "whole": TRUTH,
    "repeats": TRUTH,
}
COLUMNS = Kind("a table of columns, such as { age = { low = 18, high = 90 } }", _table)
MOMENT = Kind('a date such as "2024-01-31", or a number', _moment)
POSITIVE_LABEL = Kind("a label: text, a number, true or false", _positive)


def make_columns(values: Mapping[str, Any], place: str) -> tuple[ColumnSpec, ...]:
    """What a table says about columns, sorted by name; `place` is the table's name in refusals.

    Raises
    ------
    InputError
        For an unknown key, a value that is not allowed, or values that do not fit each other.
    """
    return tuple(make_column(name, values[name], f"{place}.{name}") for name in sorted(values))


def make_column(name: str, values: Any, place: str) -> ColumnSpec:
    """What a table says about one column; raises as `make_columns`."""
    if not isinstance(values, dict):
        raise InputError(f"{place} = {show(values)} is not allowed: write a table, such as {{ low = 18, high = 90 }}")
    parsed = parse_keys(values, COLUMN_KEYS, place)
    if any(isinstance(values.get(key), datetime.date) for key in ("low", "high")):
        parsed.setdefault("kind", DATE)
    return ColumnSpec(name, **parsed)


def columns_record(columns: Sequence[ColumnSpec]) -> dict[str, dict[str, Any]] | None:
    """What is said about columns, for writing; None where nothing is."""
    found = {
        spec.name: {key: getattr(spec, key) for key in COLUMN_KEYS if getattr(spec, key) is not None}
        for spec in columns
    }
    return found or None


def check_columns(spec: PartySpec) -> None:
    """Refuse what cannot be said of a party's id and label, and `positive` without a label."""
    for role, column in spec.apart.items():
        if role != "holdout_column" and any(known.name == column for known in spec.columns):
            raise InputError(
                f"party {show(spec.name)}: the {role} {show(column)} is among its columns: remove it there"
            )
    if spec.positive is not None and spec.label is None:
        raise InputError(f"party {show(spec.name)} has positive = {show(spec.positive)} and no label: remove it")


def protected_parties(privacy: Privacy | None, parties: Sequence[PartySpec], *, rows_are_split: bool) -> frozenset[str]:
    """The parties whose rows are to be protected, so that no constant of an encoding may be taken from them."""
    if privacy is None or privacy.epsilon is None:  # labels alone: no constant depends on a label
        return frozenset()
    if not rows_are_split and privacy.spares_holder:
        return frozenset(party.name for party in parties if party.label is None)
    return frozenset(party.name for party in parties)


# --- The section [graph] of a job with split = "samples": who talks to whom


GRAPH_KEYS: dict[str, Kind] = {"kind": one_of(sorted(GRAPHS)), "edges": EDGES}


@dataclass(frozen=True)
class GraphSpec:
    """The section [graph]: the name of a graph, or pairs of parties.

    Attributes
    ----------
    kind : str or None
        The name of a graph; "random" is drawn by the job's seed.
    edges : tuple of pairs of str, or None
        Who talks to whom, by name; every party must be reached.
    """

    kind: str | None = None
    edges: tuple[tuple[str, str], ...] | None = None

    def graph(self, names: Sequence[str], seed: int) -> Graph:
        """The graph between these parties; `seed` is for kind = "random"."""
        if self.edges is not None:
            return make_graph(list(self.edges), names, seed)
        return make_graph(self.kind, names, seed)


def make_spec(values: Mapping[str, Any], names: Sequence[str], seed: int) -> GraphSpec:
    """The section's values, which were checked one by one, checked against the parties.

    Raises
    ------
    InputError
        For neither or both of kind and edges, an unknown party, or a graph that does not hold together.
    """
    if len(values) != 1:
        found = "has both kind and edges" if values else "is empty"
        raise InputError(f'[graph] {found}: give kind = "ring", or edges = [["a", "b"], ...]')
    spec = GraphSpec(**values)
    for end in (end for edge in spec.edges or () for end in edge):
        if end not in names:
            raise InputError(
                f"graph.edges names {show(end)}{nearest(end, names)}, which is no party: "
                f"the parties are {listing(names)}"
            )
    try:
        spec.graph(names, seed)
    except InputError as error:
        raise InputError(f"graph.{next(iter(values))}: {error}") from error
    return spec


# --- The section [privacy.options]: every field of `PaperOptions`, under the same name


PRIVACY_OPTIONS = "privacy.options"
OPTION_KEYS: dict[str, Kind] = {
    "alphas": POSITIVES_BY_NAME,
    "rounds": whole_number(1, 10**9, "a whole number from 1 to a billion"),
    "loss_weight": POSITIVE,
    "noise": one_of(NOISES),
    "last_round": one_of(LAST_ROUNDS),
    "objective_noise": NUMBER,
    "first_sd": POSITIVE,
    "decay": POSITIVE,
    "label_epsilons": LISTS_BY_NAME,
    "randomized": TRUTH,
}


def make_options(values: Mapping[str, Any], parties: Sequence[str]) -> PaperOptions:
    """The options in the values of the section, which were checked one by one.

    Raises
    ------
    InputError
        Where `alphas` or `label_epsilons` names somebody who is no party, or a value is out of range.
    """
    for key in ("alphas", "label_epsilons"):
        given = values.get(key)
        for name in given if isinstance(given, Mapping) else ():
            if name not in parties:
                raise InputError(
                    f"{PRIVACY_OPTIONS}.{key} names {show(name)}{nearest(name, parties)}, "
                    f"which is no party: the parties are {listing(parties)}"
                )
    try:
        return PaperOptions(**values)
    except InputError as error:
        raise InputError(f"[{PRIVACY_OPTIONS}]: {error}") from error


def values_of_options(options: PaperOptions) -> dict[str, Any]:
    """The section's values, for writing: what is None is left out."""
    return {key: _written(getattr(options, key)) for key in OPTION_KEYS}


def _written(value: Any) -> Any:
    """The value with tuples for lists, which is what TOML is written from."""
    if isinstance(value, Mapping):
        return {name: _written(own) for name, own in value.items()}
    return tuple(float(one) for one in value) if isinstance(value, Sequence) and not isinstance(value, str) else value


# --- The section [privacy]: every field of `Privacy`, under the same name


NONE = "none"  # TOML has no word for it: epsilon = "none" protects the labels alone
PRIVACY_KEYS: dict[str, Kind] = {
    "epsilon": POSITIVE_OR_NONE,
    "delta": POSITIVE,
    "unit": one_of(ASKED_UNITS),
    "label_epsilon": POSITIVE_OR_NONE,
    "row_norm": POSITIVE_BY_NAME,
    "accountant": one_of(ACCOUNTANTS),
    "protect": one_of(PROTECT),
    "mechanism": TEXT,  # which of them there are is known to the plan
    "predictions": one_of(PREDICTIONS),
    "neighbours": one_of(NEIGHBOURS),
    "coef_norm": POSITIVE,
    "refit": TRUTH,
    "label_norm": POSITIVE,
    "epsilon_by_party": POSITIVE_BY_NAME,
    "honest": whole_number(1, 10**6),
    "noise_seed": whole_number(0, 2**63 - 1),
}


def make_privacy(values: Mapping[str, Any], parties: Sequence[str]) -> Privacy:
    """The request in the values of the section, which were checked one by one.

    Raises
    ------
    InputError
        Where they do not fit each other, or `row_norm` or `epsilon_by_party` names somebody who is no party.
    """
    for key in ("row_norm", "epsilon_by_party"):
        given = values.get(key)
        for name in given if isinstance(given, Mapping) else ():
            if name not in parties:
                raise InputError(
                    f"privacy.{key} names {show(name)}{nearest(name, parties)}, "
                    f"which is no party: the parties are {listing(parties)}"
                )
    if values.get("epsilon", 0) is None and values.get("label_epsilon") is None:
        raise InputError(
            'privacy.epsilon = "none" asks for nothing: give it a number, give label_epsilon one, or remove [privacy]'
        )
    try:
        return Privacy(**values)
    except InputError as error:
        raise InputError(f"[privacy]: {error}") from error


def values_of_privacy(privacy: Privacy) -> dict[str, Any]:
    """The section's values, for writing: what is None in `Privacy` is left out, or "none" where that says more."""
    values = {key: getattr(privacy, key) for key in PRIVACY_KEYS}
    return {**values, "epsilon": NONE if privacy.epsilon is None else privacy.epsilon}


# --- The section [search]: choose alpha by cross-validation instead of giving it


FOLDS, FEWER_FOLDS, MANY_ROWS = 5, 3, 20_000  # with curves, where the job does not say how many
ALPHAS = f"a whole number from 2 to {MOST_ALPHAS}, or a list of numbers above 0"


@dataclass(frozen=True)
class SearchSpec:
    """The section [search]: arguments of the estimators that choose alpha.

    Attributes
    ----------
    alphas : int or tuple of float
        How many alphas are tried, in even ratios from 1 down; or which. With terms = "spline" or "auto" the default is
        11 from 1 to 1e-5.
    folds : int or None
        Into so many parts the rows are dealt: each part is once the one that is not trained on. None: 5, or 3 from
        20,000 rows on.
    rule : str
        "best": the alpha of the least loss. "one-standard-error": the largest whose loss is within one
        standard error of it.
    """

    alphas: int | tuple[float, ...] = 10
    folds: int | None = 5
    rule: str = RULES[0]

    @property
    def tried(self) -> int:
        """How many alphas are tried."""
        return self.alphas if isinstance(self.alphas, int) else len(self.alphas)

    def folds_of(self, rows: int) -> int:
        """How many folds so many rows are dealt into."""
        return self.folds or (FOLDS if rows < MANY_ROWS else FEWER_FOLDS)


def _alphas(value: Any) -> int | tuple[float, ...]:
    """Parse how many alphas, or a list of them."""
    try:
        grid = alpha_grid(value, total=1.0)
    except InputError as error:
        raise ValueError from error
    return value if isinstance(value, int) else grid


SEARCH_KEYS: dict[str, Kind] = {
    "alphas": Kind(ALPHAS, _alphas),
    "folds": whole_number(2, 1000),
    "rule": one_of(RULES),
}


def read_search(values: Mapping[str, Any] | None, model: Mapping[str, Any], *, private: bool) -> SearchSpec | None:
    """How alpha is chosen; None where it is given.

    Parameters
    ----------
    values : mapping or None
        Of the section [search], checked one by one; None where the job has none.
    model : mapping
        Of the section [model], the same.
    private : bool
        Whether the job has a section [privacy].

    Raises
    ------
    InputError
        For a section that does not fit the rest of the file.
    """
    terms = model.get("terms", LINEAR)
    if values is None:
        if terms != AUTO or private or "alpha" in model or not has_alpha(get_regularizer(model.get("penalty", "l2"))):
            return None
        return SearchSpec(CURVE_ALPHAS, None)
    if private:
        raise InputError(
            "[search] does not fit [privacy]: every fit it tries is a release of its own, and so is the choice; remove "
            "one of them (with [privacy], give a model.alpha that these rows did not choose)"
        )
    if "alpha" in model:
        raise InputError("[search] chooses alpha, and model.alpha gives one: remove one of them")
    usual = {} if terms == LINEAR else {"alphas": CURVE_ALPHAS, "folds": None}
    return SearchSpec(**{**usual, **values})


# --- The section [model], and the keys of every section


@dataclass(frozen=True)
class ModelSection:
    """The section [model]: the arguments of the estimators, under the same names.

    Attributes
    ----------
    kind : {"linear", "trees"}
        What the score of a row is: a weighted sum of its encoded columns, or a sum of boosted trees, which each party
        grows on its own columns.
    quantile : float or None
        With loss = "quantile": which quantile is predicted; None is the median.
    classes : int or None
        How many different labels there are, where these are more than two, which all parties must know: with loss =
        "logistic", or with kind = "trees" and loss = "softmax".
    terms : {"linear", "spline", "auto"}
        What a number adds to the score: a line, or a smooth curve; "auto" takes curves where a search finds them
        better by more than chance, or, with privacy, where every protected number has a range. A column may say another
        `term`.
    power : float or None
        With loss = "tweedie": the variance grows as mean^power; None is 1.5.
    dispersion : float or None
        With loss = "negative_binomial"; None estimates it.
    class_weight : "balanced", mapping or None
        Weight of each of two classes.
    costs : mapping or None
        What each kind of wrong answer costs, which moves the threshold of predictions.
    l1_ratio : float or None
        With penalty = "elastic_net": the share of the absolute value; None is 0.5.
    """

    @property
    def loss_settings(self) -> dict[str, float | None]:
        """The numbers of the loss, None for those that are left open."""
        return {"quantile": self.quantile, "power": self.power, "dispersion": self.dispersion}

    @property
    def regularizer(self) -> str | Regularizer:
        """The penalty by its name, or with its number where one is given."""
        return self.penalty if self.l1_ratio is None else ElasticNet(self.l1_ratio)

    loss: str = "logistic"
    penalty: str = "l2"
    alpha: float = 1e-4
    fit_intercept: bool = True
    method: str = "auto"
    rho: float | str = "auto"
    published: bool = False
    terms: str = LINEAR
    kind: str = LINEAR_MODEL
    quantile: float | None = None
    classes: int | None = None
    power: float | None = None
    dispersion: float | None = None
    class_weight: str | Mapping[str, float] | None = None
    costs: Mapping[str, float] | None = None
    l1_ratio: float | None = None


def _class_weight(value: Any) -> str | dict[str, float]:
    """Parse "balanced", or a table with a weight for each class."""
    if value == "balanced":
        return "balanced"
    if not isinstance(value, dict) or not value:
        raise ValueError
    return {str(name): float(POSITIVE.parse(weight)) for name, weight in value.items()}


def _costs(value: Any) -> dict[str, float]:
    """Parse what each kind of wrong answer costs."""
    if not isinstance(value, dict) or set(value) != set(WRONG_ANSWERS):
        raise ValueError
    return {name: float(POSITIVE.parse(value[name])) for name in WRONG_ANSWERS}


POSITIVE_OR_ESTIMATE = Kind(
    'a number above 0, or "estimate"', lambda value: None if value == "estimate" else POSITIVE.parse(value)
)
CLASS_WEIGHT = Kind('"balanced", or a table with a number above 0 for each class, such as { yes = 5 }', _class_weight)
COSTS = Kind("a table of two numbers above 0, such as { false_positive = 1, false_negative = 5 }", _costs)

EVALUATIONS = ("exact", "private")  # how figures on held-out rows are made
SECTION_KEYS: dict[str, dict[str, Kind]] = {
    "job": {
        "name": TEXT,
        "split": TEXT,
        "engine": TEXT,
        "rounds": whole_number(1, 10**9, "a whole number from 1 to a billion"),
        "tol": NUMBER,
        "seed": whole_number(0, 2**32 - 1),  # what numpy takes as a seed
        "secure_aggregation": TRUTH_OR_AUTO,
        "memory": AMOUNT,
        "holdout": PART,
        "evaluation": one_of(EVALUATIONS),
        "share_evaluation": TRUTH,
        "holdout_after": MOMENT,
    },
    "model": {
        "kind": one_of(MODEL_KINDS),
        "loss": TEXT,
        "quantile": QUANTILE,
        "power": number_between(1, 2, above=True, below=True),
        "dispersion": POSITIVE_OR_ESTIMATE,
        "classes": CLASSES,
        "class_weight": CLASS_WEIGHT,
        "costs": COSTS,
        "penalty": TEXT,
        "l1_ratio": number_between(0, 1),
        "alpha": NUMBER,
        "fit_intercept": TRUTH,
        "method": TEXT,
        "rho": POSITIVE_OR_AUTO,
        "published": TRUTH,
        "terms": one_of((*TERMS, AUTO)),
    },
    "trees": TREES_KEYS,
    "search": SEARCH_KEYS,
    "graph": GRAPH_KEYS,
    "encode": ENCODE_KEYS,
    "privacy": PRIVACY_KEYS,
    PRIVACY_OPTIONS: OPTION_KEYS,
    "party": {
        "name": TEXT,
        "data": TEXT,
        "id": TEXT,
        "label": TEXT,
        "positive": POSITIVE_LABEL,
        "weight": TEXT,
        "offset": TEXT,
        "exposure": TEXT,
        "features": NAMES,
        "columns": COLUMNS,
        "width": whole_number(1, MOST_COLUMNS),
        "delimiter": one_of(tuple(DELIMITERS)),
        "numbers": one_of(tuple(NUMBERS)),
        "holdout_column": TEXT,
        "holdout_data": TEXT,
    },
}
SECTIONS = tuple(name for name in SECTION_KEYS if name != PRIVACY_OPTIONS)  # a section of its own inside another

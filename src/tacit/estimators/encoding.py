"""From the tables that users hand over to what parties train on: the columns encoded as those of a job.

| X | `terms="linear"`, no ranges, no categories | else |
|---|---|---|
| arrays, frames of numbers without blanks | as they are: nothing is scaled or copied | encoded |
| frames with text, categories, dates or blanks | encoded, and every dense table beside them | encoded |
| sparse matrices | as they are | refused |
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, cast

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tacit.blocks import check_matrix
from tacit.columns.constants import Encoding, Part, make_encoding
from tacit.columns.curves import curve_values
from tacit.columns.encoder import Encoder
from tacit.columns.spec import CATEGORY, DATE, IN_PYTHON, LINEAR, NUMBER, TERMS, ColumnSpec, EncodeRules, resolve_specs
from tacit.columns.table import DAY, ArrowTable, kind_of_type, text_cells
from tacit.data.read import frame_table
from tacit.errors import InputError
from tacit.plan.terms import curve_columns, curve_noise, with_row_norms
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.run.inference import Summary, summarize
from tacit.run.result import TrainedOn
from tacit.text import html_card, listing, nearest, show
from tacit.topologies import FeatureSplit, SampleSplit
from tacit.types import Matrix, Shard, Vector

# --- Frames and arrays as tables of named columns


def is_frame(table: Any) -> bool:
    """Whether a table names its columns."""
    return hasattr(table, "columns")


def refuse_twins(names: Sequence[str], what: str) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{what} of the name {twice[0]!r}: rename one")


def as_table(table: Any, names: Sequence[str], party: str) -> ArrowTable:
    """A frame or a dense array as a table under these names of columns.

    Raises
    ------
    InputError
        For a frame without rows or columns, and columns that Arrow cannot hold.
    """
    if 0 in table.shape:
        what = "rows, 0 sample(s): give at least 2" if not table.shape[0] else "columns, 0 feature(s): give at least 1"
        raise InputError(f"{party} has no {what}")
    refuse_twins(names, f"{party} has two columns")
    if not is_frame(table):
        table = pa.table([np.ascontiguousarray(table[:, j]) for j in range(table.shape[1])], names=list(names))
    elif not isinstance(table, pa.Table) and hasattr(table, "iloc"):
        table = table.set_axis(list(names), axis=1)  # names that are no texts
    found = cast("ArrowTable", frame_table(table, party))
    return replace(found, columns=tuple(names), data=found.data.rename_columns(list(names)))


def joined(tables: Sequence[ArrowTable]) -> Any:
    """The columns of several tables side by side, as an Arrow table.

    Raises
    ------
    InputError
        Where two tables have a column of the same name.
    """
    names = [name for table in tables for name in table.columns]
    refuse_twins(names, "two parties have a column")
    return pa.table([column for table in tables for column in table.data.columns], names=names)


def dense(table: Any, party: str, columns: tuple[str, ...]) -> Any:
    """A frame as it is; an array checked, which has no blanks.

    Raises
    ------
    InputError
        For a sparse matrix, and for an array that holds anything but finite numbers.
    """
    if sparse.issparse(table):
        raise InputError(f"{party} is sparse: give a dense array or a frame, as other tables are encoded")
    return table if is_frame(table) else check_matrix(table, party, columns)


def is_plain(table: Any, names: Sequence[str], party: str = "X") -> bool:
    """Whether a table holds nothing but numbers, without blanks; what is no frame does by its own rules."""
    if not is_frame(table):
        return True
    data = as_table(table, names, party).data
    return all(_is_plain(data.column(j)) for j in range(data.num_columns))


def _is_plain(column: Any) -> bool:
    if kind_of_type(column.type) != NUMBER or column.null_count:  # categories have a type of their own
        return False
    return not pa.types.is_floating(column.type) or not np.isnan(column.to_numpy()).any()


# --- What users say about columns: ranges and categories; for trees also which hold categories, and directions


REPEATS = "repeats"


@dataclass(frozen=True)
class ColumnWishes:
    """What an estimator was told about columns.

    Attributes
    ----------
    terms : {"linear", "spline"}
    ranges : mapping of column to (low, high) or (low, high, "repeats"), or None
    categories : mapping of column to list, or None
    always : bool
        Whether every table is to be encoded, so that lines can be compared with curves.
    """

    terms: str = LINEAR
    ranges: Any = None
    categories: Any = None
    always: bool = False

    def __post_init__(self) -> None:
        if self.terms not in TERMS:
            raise InputError(f"terms={self.terms!r} is unknown: choose one of {', '.join(TERMS)}")
        for key, example in (("ranges", "{'age': (18, 90)}"), ("categories", "{'town': ['Basel', 'Bern']}")):
            if not isinstance(getattr(self, key) or {}, Mapping):
                raise InputError(f"{key}={show(getattr(self, key))} is not allowed: give them by column, as {example}")

    def asks(self, tables: Sequence[Any], names: Sequence[Sequence[str]], parties: Sequence[str] = ("X",)) -> bool:
        """Whether these tables are to be encoded: whose columns have these names, and whose they are."""
        given = {"ranges": self.ranges, "categories": self.categories, "terms='spline'": self.terms != LINEAR}
        named = [what for what, own in given.items() if own]
        if named or self.always:
            if any(sparse.issparse(table) for table in tables):
                what = named[-1] if named else "curves"
                raise InputError(f"X is sparse, which is used as it is: give a dense array or a frame for {what}")
            return True
        return not all(map(is_plain, tables, names, parties))

    def specs(self, names: Sequence[str]) -> tuple[ColumnSpec, ...]:
        """What was said, as a job would; `names` are the columns of all parties.

        Raises
        ------
        InputError
            For a range or a list that cannot be, and for a name that no column has.
        """
        ranges = {_name(key, names, "ranges"): value for key, value in (self.ranges or {}).items()}
        lists = {_name(key, names, "categories"): value for key, value in (self.categories or {}).items()}
        both = [name for name in ranges if name in lists]
        if both:
            raise InputError(f"column {both[0]!r} is in both ranges and categories: keep one")
        numbers = [_range_spec(name, value) for name, value in ranges.items()]
        return (*numbers, *(_list_spec(name, value) for name, value in lists.items()))


def column_of(key: Any, names: Sequence[str]) -> str | None:
    """The column of a key of ranges or categories: its name, perhaps with wildcards; None where there is no such one.

    Columns of arrays may be counted, from 0.
    """
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        key = str(key) if str(key) in names else f"x{key}"
    if not isinstance(key, str) or not any(key == name or fnmatchcase(name, key) for name in names):
        return None
    return key


def _name(key: Any, names: Sequence[str], what: str) -> str:
    found = column_of(key, names)
    if found is None and not isinstance(key, str | int | np.integer):
        raise InputError(f"{what} has the key {show(key)}: keys are names of columns, or numbers where X is an array")
    if found is None:
        hint = nearest(str(key), list(names))
        raise InputError(f"{what} names {show(key)}{hint}, which is no column: the columns are {listing(names)}")
    return found


def _range_spec(name: str, value: Any) -> ColumnSpec:
    if not isinstance(value, list | tuple | np.ndarray) or len(value) not in (2, 3):
        raise InputError(f"ranges[{name!r}]={show(value)} is not allowed: give two numbers or dates, as (low, high)")
    if len(value) == 3 and value[2] != REPEATS:
        raise InputError(
            f"ranges[{name!r}] has {show(value[2])} after its ends: give (low, high), or (low, high, {REPEATS!r}) "
            "where exact values come again and again"
        )
    low, high = (_end(name, end) for end in value[:2])
    dates = any(isinstance(end, datetime.date | np.datetime64) for end in value[:2])
    return ColumnSpec(name, DATE if dates else None, low, high, repeats=len(value) == 3 or None, optional=True)


def _end(name: str, end: Any) -> float:
    """One end of a range; a date as days since 1970-01-01."""
    if isinstance(end, datetime.date | np.datetime64):
        if getattr(end, "tzinfo", None) is not None:
            end = cast("datetime.datetime", end).astimezone(datetime.UTC).replace(tzinfo=None)
        return float(np.datetime64(end, "us").astype(np.int64)) / DAY
    number = isinstance(end, int | float | np.integer | np.floating) and not isinstance(end, bool)
    if not number or not math.isfinite(end):
        raise InputError(f"ranges[{name!r}] has the end {show(end)}: give finite numbers or dates, as (low, high)")
    return float(end)


def _list_spec(name: str, value: Any) -> ColumnSpec:
    """A list of categories, each as cells are read."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"categories[{name!r}]={show(value)} is not allowed: give a list of categories")
    items = list(value)
    try:
        column = pa.array(items)
    except pa.ArrowException:  # of several types
        column = pa.array([str(item) for item in items])
    texts = text_cells(ArrowTable("", (name,), len(items), pa.table([column], names=[name])), name)
    if not items or (texts.codes < 0).any():
        raise InputError(f"categories[{name!r}] is empty or has an empty entry: list the categories")
    twice = [texts.values[code] for code, count in Counter(texts.codes.tolist()).items() if count > 1]
    if twice:
        raise InputError(f"categories[{name!r}] has {show(twice[0])} twice: name each category once")
    return ColumnSpec(name, values=tuple(sorted(texts.values)), optional=True)


def categorical_columns(asked: Any, joint: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """The columns that hold categories, by name, number, or a boolean for each; `joint` has party and name of each."""
    asked = [] if asked is None else list(asked)
    if asked and all(isinstance(one, bool | np.bool_) for one in asked):
        if len(asked) != len(joint):
            raise InputError(
                f"categorical_features has {len(asked)} entries: give one for each of {len(joint)} columns"
            )
        asked = [place for place, one in enumerate(asked) if one]
    return {pair for one in asked for pair in _columns_named("categorical_features", one, joint)}


def monotone_columns(asked: Any, joint: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The direction of each column, -1, 0 or 1; empty where none was asked."""
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        if len(asked) != len(joint):
            raise InputError(f"monotonic_cst has {len(asked)} entries: give one for each of {len(joint)} columns")
        asked = dict(enumerate(asked))
    found = dict.fromkeys(joint, 0)
    for key, value in asked.items():
        if value not in (-1, 0, 1):
            raise InputError(f"monotonic_cst has {show(value)}: give -1, 0 or 1 for a column")
        found |= dict.fromkeys(_columns_named("monotonic_cst", key, joint), int(value))
    return found


def _columns_named(what: str, key: Any, joint: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The columns of this name, or the column of this number."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < len(joint):
        return [joint[int(key)]]
    found = [pair for pair in joint if pair[1] == key]
    if not found:
        raise InputError(
            f"{what} names {show(key)}, which is no column: the columns are {listing(n for _, n in joint)}"
        )
    return found


# --- The encodings of all parties


@dataclass(frozen=True)
class Setting:
    """What else the encoding depends on: all of it public.

    Attributes
    ----------
    rows_are_split : bool
        Whether parties hold different rows with the same columns.
    loss : Loss
    privacy : Privacy or None
    secure : bool or "auto"
        Whether messages travel under masks.
    """

    rows_are_split: bool
    loss: Loss
    privacy: Privacy | None
    secure: bool | str

    @property
    def split(self) -> str:
        """The name of the split."""
        return SampleSplit.split if self.rows_are_split else FeatureSplit.split

    def protected(self, parties: Sequence[str]) -> frozenset[str]:
        """The parties whose rows are protected, so that no constant may be taken from them."""
        return protected_parties(self.privacy, parties, rows_are_split=self.rows_are_split)

    def rules(self, terms: str, parties: Sequence[str]) -> EncodeRules:
        """How columns become numbers."""
        noise = curve_noise(self.privacy, self.loss, self.split, parties, secure=self.secure)
        sharing = 1 if self.rows_are_split else len(parties)
        return EncodeRules(terms=terms, noise=noise, parties=sharing, advice=IN_PYTHON)


def protected_parties(privacy: Privacy | None, parties: Sequence[str], *, rows_are_split: bool) -> frozenset[str]:
    """The parties whose rows are protected; the first one has the labels."""
    if privacy is None or privacy.epsilon is None:
        return frozenset()
    without_holder = not rows_are_split and privacy.spares_holder
    return frozenset(parties[1:] if without_holder else parties)


def row_norms(privacy: Privacy | None, parties: Sequence[str], *, rows_are_split: bool) -> dict[str, float]:
    """The largest norm of a row of each party whose rows are protected: longer ones are clipped."""
    held = protected_parties(privacy, parties, rows_are_split=rows_are_split)
    return {} if privacy is None else {name: privacy.norm_of(name) for name in parties if name in held}


@dataclass(frozen=True)
class Encodings:
    """How the columns of all parties are encoded; a party whose rows are sparse has no entry.

    Attributes
    ----------
    by_party : mapping of str to Encoding
    means : mapping of str to array
        The mean encoded row of each party whose rows nobody protects.
    """

    by_party: Mapping[str, Encoding] = field(default_factory=dict)
    means: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def encoders(self) -> dict[str, Encoder]:
        """The encoders alone, which new rows are encoded by."""
        return {name: encoding.encoder for name, encoding in self.by_party.items()}

    @property
    def have_bends(self) -> bool:
        """Whether a number may add anything but a line."""
        return any(encoder.has_bends for encoder in self.encoders.values())

    def privacy(self, asked: Privacy | None, parties: Sequence[str]) -> Privacy | None:
        """The request with the norm of rows that follows from curves, where it names none."""
        return with_row_norms(asked, parties, curve_columns(self.by_party, parties))


def encode_columns(
    tables: Sequence[ArrowTable | Shard],
    wishes: ColumnWishes,
    setting: Setting,
    weights: Vector | None = None,
) -> tuple[Encodings, list[Shard]]:
    """Encode parties that hold different columns of the same rows.

    Parameters
    ----------
    tables : sequence of ArrowTable or Shard
        Each party's; a shard is sparse and stays as it is.
    wishes : ColumnWishes
    setting : Setting
    weights : array, optional
        What each row counts for: no constant is taken from one of weight 0.
    """
    parties = [table.name if isinstance(table, Shard) else table.party for table in tables]
    specs = wishes.specs([name for table in tables for name in table.columns])
    rules, protected = setting.rules(wishes.terms, parties), setting.protected(parties)
    rows = None if weights is None else np.flatnonzero(weights)
    found, shards, means = {}, [], {}
    for table in tables:
        if isinstance(table, Shard):
            shards.append(table)
            continue
        name = table.party
        part = Part(table, rows, None if weights is None else weights[rows])
        found[name] = _encoding([part], specs, rules, protected=name in protected)
        encoder = found[name].encoder
        shards.append(Shard(name, encoder.matrix(table), encoder.names, encoder.curves, encoder.widths))
        if name not in protected:
            means[name] = _mean_row([shards[-1].features], [weights])
    return Encodings(found, means), shards


def encode_rows(parts: Sequence[Part], wishes: ColumnWishes, setting: Setting) -> tuple[Encodings, list[Matrix]]:
    """Encode parties that hold different rows with the same columns: all by the same constants."""
    parties = [part.table.party for part in parts]
    specs = wishes.specs(parts[0].table.columns)
    protected = bool(setting.protected(parties))
    encoding = _encoding(parts, specs, setting.rules(wishes.terms, parties), protected=protected)
    matrices = [encoding.encoder.matrix(part.table, part.rows) for part in parts]
    mean = None if protected else _mean_row(matrices, [part.weights for part in parts])
    means = {} if mean is None else dict.fromkeys(parties, mean)
    return Encodings(dict.fromkeys(parties, encoding), means), matrices


def encoded_again(table: ArrowTable | Shard, encoders: Mapping[str, Encoder]) -> Shard:
    """New rows of a party by the encoder of its fit; a shard is sparse, and was used as it was."""
    if isinstance(table, Shard):
        if table.name in encoders:
            raise InputError(f"{table.name} is sparse, and was not when the model was fitted: give an array or a frame")
        return table
    if table.party not in encoders:
        raise InputError(f"{table.party} was sparse when the model was fitted: give it as a sparse matrix")
    encoder = encoders[table.party]
    return Shard(table.party, encoder.predicting(table)[0], encoder.names)


def _encoding(parts: Sequence[Part], specs: Sequence[ColumnSpec], rules: EncodeRules, *, protected: bool) -> Encoding:
    """The encoding of these parts, whose types say what a job would have to."""
    table = parts[0].table
    known = {spec.name: spec for spec in resolve_specs(specs, table.columns, table.party)}
    typed = [_typed(parts, known.get(name, ColumnSpec(name)), protected=protected) for name in table.columns]
    return make_encoding(parts, table.columns, typed, rules, protected=protected)


def _typed(parts: Sequence[Part], spec: ColumnSpec, *, protected: bool) -> ColumnSpec:
    """What is known of a column, with the kind that its type says: a frame's types are its owner's word."""
    types = [part.table.data.schema.field(spec.name).type for part in parts]
    if any(kind_of_type(kind) == DATE for kind in types):
        if spec.low is not None and spec.kind is None:
            raise InputError(
                f"party {show(parts[0].table.party)}: column {show(spec.name)} holds dates: give its range as dates, "
                f"as in ranges={{{spec.name!r}: (date(2000, 1, 1), date(2030, 1, 1))}}"
            )
        # Days without a range are so many that they drown other columns, and nothing may be taken from the rows.
        return spec if spec.given_kind is not None or protected else replace(spec, kind=DATE)
    if spec.given_kind is None and any(pa.types.is_dictionary(kind) for kind in types):
        return replace(spec, kind=CATEGORY)
    return spec


def _mean_row(matrices: Sequence[Matrix], weights: Sequence[Vector | None]) -> Vector:
    """The mean encoded row of some parties; each row counts for 1 where there are no weights."""
    pairs = zip(matrices, weights, strict=True)
    known = [(matrix, np.ones(matrix.shape[0]) if own is None else own) for matrix, own in pairs]
    return np.asarray(sum(own @ matrix for matrix, own in known) / sum(own.sum() for _, own in known))


# --- From coefficients back to columns


class EncodedTables:
    """What estimators tell of how their tables were encoded; a fit sets both attributes."""

    _encodings: Encodings
    _norms: dict[str, float]
    _trained_on: TrainedOn | None

    def __getstate__(self) -> Any:
        """What is pickled: all but the rows, which `summary` alone looks at."""
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_trained_on"}

    def summary(self) -> Summary:
        """Coefficients with standard errors, p-values and 95 % intervals, by party and column; and tests of parties.

        The rows of the fit are looked at again, in this process; a model that was pickled has lost them. What the
        intervals cover is in `covers`: with a penalty not the coefficients without one.

        Raises
        ------
        InputError
            With privacy, for a penalty or loss with kinks, for columns that depend on each other without a penalty.
        """
        check_is_fitted(self)
        trained = getattr(self, "_trained_on", None)
        if trained is None:
            raise InputError("the rows of the fit are not kept in a file: fit again, and then ask for summary()")
        if np.size(getattr(self, "intercept_", 0.0)) > 1:
            raise InputError("summary() is for two classes and for numbers: more than two have none yet")
        return summarize(trained, *self._fitted())

    def _fitted(self) -> tuple[Sequence[Vector], float]:
        """The coefficients by party, or of all, and the intercept."""
        raise NotImplementedError

    @property
    def encoders_(self) -> dict[str, Encoder]:
        """How the columns of each party were encoded; empty where they were used as they are."""
        return dict(self._encodings.encoders)

    @property
    def row_norms_(self) -> dict[str, float]:
        """With privacy, by protected party: the largest norm of a row."""
        return dict(self._norms)


class PartyCoefficients(list[Vector]):
    """Each party's coefficients: a list in the order of the parties, and a mapping by their names.

    Attributes
    ----------
    names : tuple of str
        The parties.
    columns : tuple of tuple of str
        For each party the columns that its coefficients belong to; encoded ones where columns were encoded.
    classes : tuple
        Where there are more than two: which row of the coefficients belongs to which class.
    """

    def __init__(
        self,
        coefs: Iterable[Vector] = (),
        names: Sequence[str] = (),
        columns: Sequence[Sequence[str]] = (),
        classes: Sequence[Any] = (),
    ) -> None:
        super().__init__(coefs)
        self.names, self.columns, self.classes = tuple(names), tuple(tuple(own) for own in columns), tuple(classes)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise KeyError(f"{key!r} is no party: the parties are {', '.join(map(repr, self.names))}")
        return super().__getitem__(self.names.index(key))

    def keys(self) -> tuple[str, ...]:
        """The parties."""
        return self.names

    def items(self) -> list[tuple[str, Vector]]:
        """Each party with its coefficients."""
        return list(zip(self.names, self, strict=True))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """By party and column, as plain numbers."""
        parts = zip(self.names, self.columns, self, strict=True)
        return {name: dict(zip(columns, coef.tolist(), strict=True)) for name, columns, coef in parts}

    def _repr_html_(self) -> str:
        parts = self.to_dict().items()
        lines = [(name, [f"{column}: {value:.6g}" for column, value in own.items()]) for name, own in parts]
        return html_card("Coefficients by party", lines)

    def to_frame(self) -> Any:
        """One row per coefficient, with its party and column, as a pandas DataFrame (pandas must be installed).

        Of more than two classes there is one row for each class, too.
        """
        import pandas as pd

        several = len(self.classes) > 2
        rows = [
            (name, column, *((kind,) if several else ()), value)
            for name, own, coef in zip(self.names, self.columns, self, strict=True)
            for kind, line in zip(self.classes if several else ("",), np.atleast_2d(coef), strict=True)
            for column, value in zip(own, line, strict=True)
        ]
        return pd.DataFrame(rows, columns=["party", "column", *(["class"] if several else []), "coef"])


def check_has_curves(encoders: Mapping[str, Encoder]) -> None:
    """Refuse to draw a model that is linear in columns as they are."""
    if not encoders:
        raise InputError("the columns were used as they are, so there are no curves: fit with terms='spline'")


def column_curves(encoder: Encoder, coef: Vector, mean: Vector | None) -> dict[str, tuple[Any, Vector]]:
    """The curve of each column of one party.

    Parameters
    ----------
    encoder : Encoder
    coef : array
        The coefficients of `encoder.names`; of several classes a row for each, and a curve is then a column for each.
    mean : array or None
        The mean encoded row: curves are against the average row. None, for protected rows, takes the mean of each curve
        over its grid instead.
    """
    found = {}
    for column, place in zip(encoder.columns, encoder.slices, strict=True):
        centre = None if mean is None else mean[place]
        drawn = [curve_values(column, own, centre=centre) for own in np.atleast_2d(coef)[:, place]]
        curves = np.column_stack([values - values.mean() if mean is None else values for _, values in drawn])
        found[column.name] = (drawn[0][0], curves if coef.ndim > 1 else curves[:, 0])
    return found

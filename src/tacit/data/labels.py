"""Labels as a loss wants them: two classes as -1 and +1, or numbers; and how a file says that they were randomized.

The epsilon of each row's label stands in a column of its own, beside the label: it travels with the rows wherever the
file is copied, sorted or cut, which a second file would not.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.table import Table
from tacit.errors import InputError
from tacit.problem.losses import Logistic, Loss
from tacit.problem.losses.base import ROW, bare_labels, is_number, with_rows
from tacit.text import listing, plural, show
from tacit.types import Vector

MOST_SUGGESTED = 50  # classes: labels with more values are numbers, or ids by mistake


@dataclass(frozen=True)
class Labels:
    """What the labels mean: their classes where there are two, the negative one first.

    Where the rows are split, those of all nodes follow each other; `epsilons` say at which each was randomized before.
    Where rows have an offset or a weight, `values` has them too (see `tacit.problem.losses.base`), and `columns` says
    which columns they were read from.
    """

    values: Vector
    classes: tuple[Any, ...] = ()
    epsilons: Vector | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def with_rows(self, rows: RowValues) -> Labels:
        """The labels with what else each row has."""
        if not rows.columns:
            return self
        return replace(self, values=with_rows(self.values, rows.offset, rows.weight), columns=rows.columns)

    def weighted(self, class_weight: Any) -> Labels:
        """The labels with the weights of their classes, all weights at mean 1; as they are where there are none."""
        values: Any = self.values
        if class_weight is None and "weight" not in self.columns:
            return self
        values = values.copy() if values.dtype == ROW else with_rows(values)
        if class_weight is not None:
            kinds = np.asarray(self.classes)[(bare_labels(values) > 0).astype(int)]
            values["weight"] *= class_weights(kinds, class_weight, values["weight"])
        values["weight"] /= values["weight"].mean()
        return replace(self, values=values)


@dataclass(frozen=True, eq=False)
class RowValues:
    """What rows have beside a label: offsets, exposure (whose logarithm is in the offset) and weights.

    `columns` says of which of these which column they were read from.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    offset: Vector | None = None
    weight: Vector | None = None

    def take(self, rows: Any) -> RowValues:
        """Those of some rows."""
        offset, weight = (None if one is None else one[rows] for one in (self.offset, self.weight))
        return RowValues(self.columns, offset, weight)

    @classmethod
    def together(cls, parts: Sequence[RowValues]) -> RowValues:
        """Those of several parties' rows, one after the other."""
        if not parts or not parts[0].columns:
            return cls()
        joined = [
            None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
            for name in ("offset", "weight")
        ]
        return cls(parts[0].columns, *joined)


def read_row_values(table: Table, columns: Mapping[str, str]) -> RowValues:
    """What the rows of a file have beside a label.

    Parameters
    ----------
    table : Table
    columns : mapping of str to str
        Of "weight", "offset" and "exposure" those that are wanted, with the name of the column.

    Raises
    ------
    InputError
        For a blank, and for weights and exposures that are not above 0; rows count from 1.
    """
    if not columns:
        return RowValues()
    table.require(list(columns.values()))
    values = {role: np.asarray(table.features([name])[:, 0], dtype=np.float64) for role, name in columns.items()}
    for role, own in values.items():
        bad = np.flatnonzero(~np.isfinite(own) if role == "offset" else ~(np.isfinite(own) & (own > 0)))
        if bad.size:
            must = "a number" if role == "offset" else "a number above 0"
            raise InputError(
                f"party {show(table.party)}: the {role} {show(columns[role])} is {own[bad[0]]:g} in row {bad[0] + 1}: "
                f"it must be {must}; fix it, or leave the row out"
            )
    offsets = [values["offset"]] if "offset" in values else []
    offsets += [np.log(values["exposure"])] if "exposure" in values else []
    return RowValues(dict(columns), sum(offsets[1:], offsets[0]) if offsets else None, values.get("weight"))


def encode_labels(
    values: Any, loss: Loss, party: str, positive: str | float | bool | None = None, *, dropped: int = 0
) -> Labels:
    """Labels as the loss wants them: -1 and +1 (for `positive`, where it is chosen), or numbers.

    `dropped` rows more are in the file and were not matched, which is said where one class alone is left.
    """
    if loss.outputs > 1:
        return _encode_several(values, loss.outputs, party, positive)
    if loss.task == "classification":
        _check_said(values, loss, party)
        if not isinstance(loss, Loss):  # of trees, which have a loss of their own for several classes
            _suggest_softmax(values, party)
        encoded, classes = encode_binary(values, party=party, positive=positive, dropped=dropped)
        plain = (value if isinstance(value, str | int | float) else str(value) for value in classes.tolist())
        return Labels(encoded, tuple(plain))
    if positive is not None:
        raise InputError(f"positive = {show(positive)} is for two classes, not for loss {show(loss.name)}: remove it")
    try:
        return Labels(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"party {show(party)}: the labels are not numbers ({show(values[0])}, ...), which loss {show(loss.name)} "
            "needs: encode them, or choose a loss for two classes, such as logistic"
        ) from error


def encode_known(values: Any, classes: Sequence[Any], loss: Loss, party: str) -> Vector:
    """Labels of new rows as a trained model wants them: by the classes that it knows, or numbers.

    Raises
    ------
    InputError
        For a label that is none of the classes, no number, or outside what the loss is defined for.
    """
    if not classes:
        labels = encode_labels(values, loss, party).values
        loss.check_labels(labels)
        return labels
    known, codes = np.unique(np.array([str(value).strip() for value in values.tolist()]), return_inverse=True)
    first = dict(zip(known[codes].tolist(), values.tolist(), strict=True))
    places = [next((k for k, one in enumerate(classes) if _is_class(first[text], one)), -1) for text in known.tolist()]
    if -1 in places:
        other = first[known[places.index(-1)]]
        raise InputError(
            f"{_prefix(party)}the label {show(other)} is none of those that the model was trained on, "
            f"{listing(classes)}: remove these rows, or write it as there"
        )
    found = np.asarray(places, dtype=np.float64)[codes]
    return found if len(classes) > 2 else 2 * found - 1


def _suggest_softmax(values: Any, party: str) -> None:
    """Refuse more than two classes with the loss that is for them; other problems are refused elsewhere."""
    found = check_labels(values, party=party)
    classes = list(dict.fromkeys(found.tolist()))
    if 2 < len(classes) <= MOST_SUGGESTED and not _is_continuous(found):
        raise InputError(
            f"{_prefix(party)}the labels have {len(classes)} classes, {listing(classes, 3)}: write "
            f'loss = "softmax" and classes = {len(classes)} under [model], or join them into two'
        )


def _check_said(values: Any, loss: Loss, party: str) -> None:
    """Refuse more than two classes of a job that does not say how many, where its loss could take them."""
    if not isinstance(loss, Logistic):
        return
    try:
        classes = np.unique(check_labels(values, party=party))
    except TypeError:
        return  # which is refused with its reason later
    if 2 < len(classes) < len(values) and not _is_continuous(classes):
        raise InputError(
            f"{_prefix(party)}the labels have {len(classes)} classes, {listing(classes.tolist(), 3)}: write classes = "
            f"{len(classes)} under [model], or join them into two"
        )


def _encode_several(values: Any, count: int, party: str, positive: Any) -> Labels:
    """Labels of more than two classes as 0, 1, ... in sorted order; as many of them as a job says."""
    if positive is not None:
        raise InputError(f"positive = {show(positive)} is for two classes, not for {count}: remove it")
    try:
        classes, codes = np.unique(check_labels(values, party=party), return_inverse=True)
    except TypeError as error:
        raise InputError(f"{_prefix(party)}the labels mix numbers and text: use one of them") from error
    if len(classes) != count:
        raise InputError(
            f"{_prefix(party)}the labels have {len(classes)} classes, {listing(classes.tolist(), 5)}, and the job says "
            f"classes = {count}: fix one of them"
        )
    check_repeated(classes, len(values), party)
    plain = (value if isinstance(value, str | int | float) else str(value) for value in classes.tolist())
    return Labels(codes.astype(np.float64), tuple(plain))


def class_weights(labels: npt.NDArray[Any], asked: Any, weights: Vector | None = None) -> Vector:
    """The weight of each row's class.

    Parameters
    ----------
    labels : array
    asked : "balanced" or mapping
        "balanced": rows / (classes * rows of the class), so that every class weighs the same. A mapping gives the
        weight of each class; a class that it leaves out has weight 1.
    weights : array, optional
        Other weights of the rows, by which "balanced" counts them.

    Raises
    ------
    InputError
        For anything else, a class that no row has, or a weight that is not above 0.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    if isinstance(asked, str) and asked == "balanced":
        counts = np.bincount(codes, weights)
        return np.asarray((counts.sum() / (classes.size * counts))[codes], dtype=np.float64)
    if not isinstance(asked, Mapping):
        raise InputError(f'class_weight={show(asked)} is not allowed: give "balanced", or a weight for each class')
    by_class = np.ones(classes.size)
    for name, weight in asked.items():
        found = [k for k, value in enumerate(classes.tolist()) if value == name or str(value) == str(name)]
        if not found:
            raise InputError(
                f"class_weight names {show(name)}, which is no class: they are {listing(classes.tolist())}"
            )
        if isinstance(weight, bool) or not isinstance(weight, numbers.Real) or not 0 < float(weight) < np.inf:
            raise InputError(f"class_weight of {show(name)} is {show(weight)}: it must be a number above 0")
        by_class[found[0]] = float(weight)
    return np.asarray(by_class[codes])


def encode_classes(y: npt.ArrayLike, *, party: str = "") -> tuple[Vector, npt.NDArray[Any]]:
    """Encode labels of two classes or more: two as `encode_binary`, more as 0, 1, ... in sorted order.

    Returns
    -------
    codes : float64 array
    classes : array of the classes, sorted
    """
    values = check_labels(y, party=party)
    try:
        classes, codes = np.unique(values, return_inverse=True)
    except TypeError:
        classes = np.zeros(0)
    if len(classes) <= 2 or _is_continuous(classes):
        return encode_binary(values, party=party)  # which refuses what is neither
    check_repeated(classes, values.size, party)
    return codes.astype(np.float64), classes


def check_repeated(classes: npt.NDArray[Any], rows: int, party: str = "") -> None:
    """Refuse labels of which no two are the same: they are ids or measurements."""
    if len(classes) == rows:
        raise InputError(
            f"{_prefix(party)}all {rows} labels are different, {listing(classes.tolist(), 3)}: give labels of few "
            "classes, or use a regression where they are numbers"
        )


def encode_binary(
    y: npt.ArrayLike, *, party: str = "", positive: str | float | bool | None = None, dropped: int = 0
) -> tuple[Vector, npt.NDArray[Any]]:
    """Encode labels of two classes.

    Parameters
    ----------
    y : array-like
        One label per row: numbers, text or booleans.
    party : str
        Name of the party that holds the labels, for messages; "" leaves it out.
    positive : text, number or bool, optional
        The class that becomes +1; by default the last in sorted order.
    dropped : int
        How many more labels the party has, of rows that others lack; for messages.

    Returns
    -------
    pm1 : float64 array
        -1 for the first class, +1 for the second.
    classes : array of two values
        The classes: sorted, or the positive one last where it was chosen.

    Raises
    ------
    InputError
        For blank or infinite labels, one class only, or more than two; or `positive` is none of them.
    """
    signs, classes = _encode_sorted(y, party, dropped)
    if positive is None:
        return signs, classes
    matches = [_is_class(value, positive) for value in classes.tolist()]
    if not any(matches):
        raise InputError(
            f"{_prefix(party)}positive = {show(positive)} is none of the labels: "
            f"choose one of {listing(classes.tolist())}"
        )
    return (signs, classes) if matches[1] else (-signs, classes[::-1])


def _is_class(value: Any, positive: str | float | bool) -> bool:
    """Tell whether a label is the one that is meant, in its own type or as text; true is not 1."""
    if isinstance(value, bool) or isinstance(positive, bool):
        return str(value).lower() == str(positive).lower()
    return bool(value == positive) or str(value).strip() == str(positive).strip()


def _encode_sorted(y: npt.ArrayLike, party: str, dropped: int) -> tuple[Vector, npt.NDArray[Any]]:
    """-1 for the first class in sorted order, and +1 for the last."""
    prefix = _prefix(party)
    values = check_labels(y, party=party)
    if values.dtype.kind in "biuf":  # two numbers need no sorting
        low, high = values.min(), values.max()
        positive = values == high
        if low != high and np.all(positive | (values == low)):
            return np.where(positive, 1.0, -1.0), np.array([low, high])
    try:
        classes, codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise InputError(
            f"{prefix}the labels mix numbers and text, which have no common order: use one of them"
        ) from error
    matched = f" of the {plural(values.size, 'matched row')} ({dropped} more have no match)" if dropped else ""
    _check_two(classes, prefix, matched)
    if all(isinstance(value, str) for value in classes) and classes[0].strip() == classes[1].strip():
        raise InputError(
            f"{prefix}the labels {listing(classes.tolist())} differ by blanks alone: write both in one way, or fix one"
        )
    return np.where(codes == 1, 1.0, -1.0), classes


def check_labels(y: npt.ArrayLike, *, party: str = "") -> npt.NDArray[Any]:
    """Return labels of any kind as an array with a usable label in every row.

    Parameters
    ----------
    y : array-like
        One label per row: numbers, text or booleans.
    party : str
        Name of the party that holds the labels, for messages; "" leaves it out.

    Returns
    -------
    array
        The labels, unchanged.

    Raises
    ------
    InputError
        For blank, NaN or infinite labels, with the first row (counted from 1), or for no labels.
    """
    prefix = _prefix(party)
    values = np.asarray(y)
    if values.ndim != 1:
        raise InputError(f"{prefix}the labels have shape {values.shape}: give one label for each row")
    if values.size == 0:
        raise InputError(f"{prefix}there are no labels: give one label for each row")
    rows = np.flatnonzero(_blanks(values))
    if rows.size:
        raise InputError(
            f"{prefix}{plural(rows.size, 'label')} blank, NaN or infinite, the first in row {rows[0] + 1}: "
            "fill them in, or remove these rows"
        )
    return values


def file_labels(y: npt.ArrayLike, *, party: str) -> npt.NDArray[Any]:
    """Labels of a file, checked as `check_labels` does, texts without the blanks around them: "paid " is "paid"."""
    values = check_labels(y, party=party)
    if values.dtype.kind == "U":
        return np.char.strip(values)
    if values.dtype.kind == "O":
        found = np.empty_like(values)
        found[:] = [value.strip() if isinstance(value, str) else value for value in values]
        return found
    return values


def _prefix(party: str) -> str:
    """Return how a message about a party begins."""
    return f"party {show(party)}: " if party else ""


def _blanks(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Mark the labels that are blank, NaN or infinite."""
    if values.dtype.kind in "fc":
        return np.asarray(~np.isfinite(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind in "OUS":
        return np.array([_is_blank(value) for value in values], dtype=np.bool_)
    return np.zeros(values.shape, dtype=np.bool_)


def _is_blank(value: Any) -> bool:
    """Tell whether one object is blank: None, NaN, pandas' NA and NaT, or text of spaces only."""
    if isinstance(value, (str, bytes)):
        return not value.strip()
    if isinstance(value, float):
        return not np.isfinite(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _check_two(classes: npt.NDArray[Any], prefix: str, matched: str) -> None:
    """Refuse any number of classes but two; `matched` says of which rows one class is."""
    if classes.size == 1:
        raise InputError(
            f"{prefix}the labels{matched} have one class only, {show(classes[0])}: two classes are needed to train"
        )
    if classes.size > 2:
        kind = "Unknown label type: continuous. " if _is_continuous(classes) else ""
        raise InputError(
            f"{prefix}{kind}Only binary classification is supported. The labels have {classes.size} classes, "
            f"{listing(classes.tolist(), 3)}: keep two, or join them into two"
        )


def _is_continuous(classes: npt.NDArray[Any]) -> bool:
    """Tell whether the values are measurements rather than class numbers."""
    return classes.dtype.kind == "f" and bool(np.any(classes != np.floor(classes)))


# --- From a probability to a decision: the threshold that follows from what the two kinds of wrong answer cost
#
# Where p is the probability of the positive class, calling a row positive costs (1 - p) false_positive on average, and
# calling it negative p false_negative: the first is less from p = false_positive / (false_positive + false_negative)
# on. It is the best threshold where probabilities are calibrated; those of a model with class weights are not.


WRONG_ANSWERS = ("false_positive", "false_negative")
EXAMPLE = "{false_positive: 1, false_negative: 5}"


def check_costs(costs: Any, loss: Loss, class_weight: Any = None) -> None:
    """Refuse costs that are not two numbers above 0, or that do not fit the loss or class weights.

    Raises
    ------
    InputError
    """
    if costs is None:
        return
    if loss.outputs > 1:
        raise InputError(f"costs is for two classes, and there are {loss.outputs}: leave it out")
    if not isinstance(costs, Mapping) or set(costs) != set(WRONG_ANSWERS):
        raise InputError(f"costs={costs!r} is not allowed: give both costs, such as {EXAMPLE}")
    for name in WRONG_ANSWERS:
        if not is_number(costs[name]) or not costs[name] > 0:
            raise InputError(f"costs: {name}={costs[name]!r} is not allowed: it must be a number above 0")
    if not loss.log_odds:
        raise InputError(f"costs does not fit loss={loss.name!r}, which gives no probabilities: use loss='logistic'")
    if class_weight is not None:
        raise InputError(
            "costs and class_weight together would count the costs twice: class_weight changes the probabilities that "
            "the threshold is for; leave one of them out"
        )


def probability_threshold(costs: Mapping[str, float] | None) -> float:
    """The probability from which a row counts as positive: 0.5 without costs."""
    if costs is None:
        return 0.5
    return float(costs["false_positive"]) / (float(costs["false_positive"]) + float(costs["false_negative"]))


def score_threshold(costs: Mapping[str, float] | None) -> float:
    """The same as a score, the logarithm of the odds: 0 without costs."""
    return 0.0 if costs is None else math.log(costs["false_positive"]) - math.log(costs["false_negative"])


# --- Files whose labels were randomized by their contributors: how a file says so, and with which epsilon


SUFFIX = "_randomized_epsilon"


def epsilon_column(label: str) -> str:
    """Name of the column with the epsilon at which each value of the column `label` was randomized."""
    return label + SUFFIX


def epsilon_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Those columns that say that another one was randomized."""
    return tuple(name for name in columns if name.endswith(SUFFIX))


def label_epsilons(table: Table, label: str) -> Vector | None:
    """The epsilon of each row's label, or None where the labels are as they are.

    Raises
    ------
    InputError
        Where the file says that another column was randomized, or holds an epsilon that is no number above 0.
    """
    found, own = epsilon_columns(table.columns), epsilon_column(label)
    others = [name for name in found if name != own]
    if others:
        raise InputError(
            f"party {show(table.party)}: column {show(others[0])} says that {show(others[0].removesuffix(SUFFIX))} was "
            f"randomized, but the label is {show(label)}: name that one as label, or remove both columns"
        )
    if not found:
        return None
    values = table.features([own])[:, 0]
    bad = np.flatnonzero(~(values > 0))
    if bad.size:
        raise InputError(
            f"party {show(table.party)}: {show(own)} is {values[bad[0]]:g} in row {bad[0] + 1}: "
            "it must be a number above 0, as tacit randomize wrote it"
        )
    return np.asarray(values)


def refuse_randomized(table: Table) -> None:
    """Refuse a file with randomized labels where the true ones are expected."""
    found = epsilon_columns(table.columns)
    if found:
        raise InputError(
            f"party {show(table.party)}: column {listing(found)} says that its labels were randomized beforehand, "
            'which split = "features" cannot use: give the file of tacit randomize to a job with split = "samples"'
        )

"""What a job says about columns, by names that may hold wildcards, settled where the names of the columns are known.

| | matches |
|---|---|
| `BILL_AMT*` | any text after BILL_AMT, also none |
| `Q?` | one character after Q |
| `Q[1-4]`, `Q[!5]` | one character of these, or none of these |

Capital letters count. A name that a column has is no wildcard. What a party says itself comes before what is optional
(the entries of a code book); then an exact name before a wildcard, and a longer wildcard before a shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tacit.columns.spec import CATEGORY, ColumnSpec
from tacit.errors import InputError
from tacit.text import listing, nearest, show

SIGNS = frozenset("*?[")


def is_wildcard(name: str) -> bool:
    """Whether a name may stand for several columns."""
    return not SIGNS.isdisjoint(name)


def resolve_specs(specs: Sequence[ColumnSpec], names: Sequence[str], party: str) -> tuple[ColumnSpec, ...]:
    """What a party says of each of its columns, by exact names alone and in their order.

    A name that is neither a column nor a wildcard is kept, unless it is optional: `known_specs` refuses it.

    Parameters
    ----------
    specs : sequence of ColumnSpec
        As the job has them.
    names : sequence of str
        The party's feature columns.
    party : str
        Its name, for messages.

    Raises
    ------
    InputError
        For a wildcard that matches no column, and for two that match the same column and are equally long.
    """
    layers = _layers(specs, names)
    own = layers[0]
    for spec in own.wildcards:
        if not any(fnmatchcase(name, spec.name) for name in names):
            raise InputError(
                f"party {show(party)}: columns names {show(spec.name)}{nearest(spec.name, list(names))}, which matches "
                f"none of its features: they are {listing(names)}"
            )
    found = (_only(best, name, party) for name in names if (best := _best(layers, name)))
    return (*own.strays, *found)


def text_names(specs: Sequence[ColumnSpec], names: Sequence[str]) -> tuple[str, ...]:
    """Which of a file's columns are categories, to be read as text; nothing is refused yet."""
    layers = _layers(specs, names)
    return tuple(name for name in names if (best := _best(layers, name)) and best[0].given_kind == CATEGORY)


@dataclass(frozen=True)
class _Layer:
    """Statements of the same weight: by the names of columns, by wildcards, and by names that no column has."""

    exact: dict[str, ColumnSpec]
    wildcards: tuple[ColumnSpec, ...]
    strays: tuple[ColumnSpec, ...]


def _layers(specs: Sequence[ColumnSpec], names: Sequence[str]) -> tuple[_Layer, _Layer]:
    """What the party says itself, and what is optional."""
    known = frozenset(names)
    own, optional = ([spec for spec in specs if spec.optional is which] for which in (False, True))
    return _layer(own, known), _layer(optional, known)


def _layer(specs: Sequence[ColumnSpec], known: frozenset[str]) -> _Layer:
    others = [spec for spec in specs if spec.name not in known]
    return _Layer(
        {spec.name: spec for spec in specs if spec.name in known},
        tuple(spec for spec in others if is_wildcard(spec.name)),
        tuple(spec for spec in others if not is_wildcard(spec.name)),
    )


def _best(layers: Sequence[_Layer], name: str) -> list[ColumnSpec]:
    """The statements about a column that no other comes before: none, one, or several that are equally good."""
    for layer in layers:
        if name in layer.exact:
            return [layer.exact[name]]
        found = [spec for spec in layer.wildcards if fnmatchcase(name, spec.name)]
        longest = max((len(spec.name) for spec in found), default=0)
        if found:
            return [spec for spec in found if len(spec.name) == longest]
    return []


def _only(found: Sequence[ColumnSpec], name: str, party: str) -> ColumnSpec:
    """The one statement about a column, under its name."""
    if len(found) > 1:
        raise InputError(
            f"party {show(party)}: column {show(name)} matches both {show(found[0].name)} and {show(found[1].name)}: "
            "make one of them longer, or give the column by its own name"
        )
    return replace(found[0], name=name)

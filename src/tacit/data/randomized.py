"""Files whose labels were randomized by their contributors: how a file says so, and with which epsilon.

The epsilon of each row's label stands in a column of its own, beside the label: it travels with the rows wherever the
file is copied, sorted or cut, which a second file would not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.data.table import Table
from tacit.data.wording import listing, show
from tacit.errors import InputError
from tacit.types import Vector

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

"""Tables of several parties as one X for scikit-learn: whoever cuts its rows cuts those of every party."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.errors import InputError


class PartyTables:
    """One table per party with the same rows, for `cross_val_score`, `GridSearchCV` and `train_test_split`.

    scikit-learn takes a list of two tables for two rows. This has as many rows as the tables have, and gives rows of
    all of them at once; the estimators for columns that are split take it as they take the list or mapping in it.

    Parameters
    ----------
    tables : mapping of party to table, or list of tables
        Arrays, sparse matrices or frames, row i of each about the same sample; the first party holds the labels.

    Attributes
    ----------
    tables : dict or list
    shape : (int, int)
        Rows, and columns of all parties.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.preprocessing import scale
    >>> from tacit import PartyTables, VerticalClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tables = PartyTables({"clinic": scale(X[:, :10]), "laboratory": scale(X[:, 10:])})
    >>> bool(cross_val_score(VerticalClassifier(alpha=1e-3), tables, y).mean() > 0.96)
    True
    """

    def __init__(self, tables: Mapping[str, Any] | Sequence[Any]) -> None:
        held = tables.tables if isinstance(tables, PartyTables) else tables
        if not isinstance(held, Mapping | list | tuple) or not held:
            raise InputError("PartyTables needs a mapping of party to table, or a list of tables, one for each party")
        self.tables: Any = dict(held) if isinstance(held, Mapping) else list(held)
        for name, table in self._items():
            if len(getattr(table, "shape", ())) != 2:
                raise InputError(f"the table of {name} has no rows and columns: give an array or a frame")
        counts = {name: table.shape[0] for name, table in self._items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise InputError(f"the parties have different numbers of rows ({listed}): row i must be the same sample")

    def _items(self) -> list[tuple[str, Any]]:
        if isinstance(self.tables, dict):
            return list(self.tables.items())
        return [(f"party {number}", table) for number, table in enumerate(self.tables, start=1)]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns of all parties."""
        tables = [table for _, table in self._items()]
        return int(tables[0].shape[0]), sum(int(table.shape[1]) for table in tables)

    @property
    def ndim(self) -> int:
        """Two: rows and columns."""
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> PartyTables:
        """Rows of every table: by their numbers, a mask or a slice; as X[rows] or X[rows, ...]."""
        rows = np.arange(len(self))[key[0] if isinstance(key, tuple) else key]
        if rows.ndim != 1:
            raise InputError(f"PartyTables gives rows: index it by numbers, a mask or a slice, not by {key!r}")
        if isinstance(self.tables, dict):
            return PartyTables({name: _rows_of(table, rows) for name, table in self.tables.items()})
        return PartyTables([_rows_of(table, rows) for table in self.tables])

    def __repr__(self) -> str:
        held = ", ".join(f"{name}: {table.shape[1]} columns" for name, table in self._items())
        return f"PartyTables({len(self)} rows, {held})"


def _rows_of(table: Any, rows: Any) -> Any:
    """Some rows of one table."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table.take(rows) if isinstance(table, pa.Table) else table[rows]


def own_tables(X: Any) -> Any:
    """The list or mapping in `PartyTables`; anything else as it is."""
    return X.tables if isinstance(X, PartyTables) else X

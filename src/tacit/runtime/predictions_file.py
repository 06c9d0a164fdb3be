"""Predictions as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit.runtime.files import write_atomically
from tacit.runtime.predict import Predictions

_CHUNK = 4096


def write_csv(path: Path, predictions: Predictions, *, secret: bool = False) -> None:
    """Write predictions to a file, whole or not at all."""
    write_atomically(path, lambda file: [file.write(text.encode()) for text in csv_text(predictions)], secret=secret)


def csv_text(predictions: Predictions) -> Iterator[str]:
    """The predictions as CSV, in pieces."""
    key = "row" if predictions.ids is None else "id"
    n = len(predictions.score)
    keys = range(1, n + 1) if predictions.ids is None else predictions.ids.tolist()
    columns: list[Sequence[Any]] = [keys, predictions.score.tolist(), predictions.prediction]
    header = [key, "score", "prediction"]
    if predictions.probability is not None:
        columns.append(predictions.probability.tolist())
        header.append("probability")
    for start in range(0, n, _CHUNK):
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        if start == 0:
            writer.writerow(header)
        parts = [column[start : start + _CHUNK] for column in columns]
        writer.writerows([_cell(value) for value in row] for row in zip(*parts, strict=True))
        yield buffer.getvalue()


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value

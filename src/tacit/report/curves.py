"""The curves of a run as files: one picture for each column, and all values in one CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.columns.spec import MISSING
from tacit.errors import InputError
from tacit.files import show_path, write_text
from tacit.report import pictures
from tacit.report.curve_pictures import draw_curve, size_of
from tacit.run.curves import Curve
from tacit.text import one_line

CSV = "curves.csv"
HEADER = ("party", "column", "x", "value", "low", "high")
LONGEST = 60  # characters of a column in the name of its picture

Curves = Mapping[str, Sequence[Curve]]


def write_curves(curves: Curves, folder: Path, *, secret: bool = False) -> list[Path]:
    """Write a picture for each column and curves.csv; `secret` files are for their owner alone.

    Raises
    ------
    InputError
        Where matplotlib is missing, or the folder cannot be written.
    """
    pictures.check_matplotlib()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {show_path(folder)} ({one_line(error)}): choose another --out") from error
    written = [folder / CSV]
    write_text(written[0], csv_text(curves), secret=secret)
    for party, own in curves.items():
        for number, curve in enumerate(own, start=1):
            written.append(folder / _file(party, number, curve.column))
            write_text(written[-1], picture(curve), secret=secret)
    return written


def picture(curve: Curve) -> str:
    """One column as SVG, with its name above."""
    draw = draw_curve(curve)

    def titled(figure: Any) -> None:
        draw(figure)
        figure.axes[0].set_title(f"{curve.party}: {curve.column}", parse_math=False)

    return pictures.alone(titled, size_of(curve))


def _file(party: str, number: int, column: str) -> str:
    """A name that any disk takes, and no two columns share."""
    plain = re.sub(r"[^\w.-]+", "-", f"{party}-{number:02d}-{column[:LONGEST]}")
    return f"{plain}.svg"


def csv_text(curves: Curves) -> str:
    """All values: party, column, cell, value, and the band, which is empty where there is none."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    for own in curves.values():
        for curve in own:
            writer.writerows(_lines(curve))
    return buffer.getvalue()


def _lines(curve: Curve) -> Iterator[list[Any]]:
    band = curve.has_band
    cells = [MISSING if none else cell for cell, none in zip(curve.x.tolist(), curve.blank.tolist(), strict=True)]
    for cell, value, low, high in zip(
        cells, curve.value.tolist(), curve.low.tolist(), curve.high.tolist(), strict=True
    ):
        yield [curve.party, curve.column, cell, value, low if band else "", high if band else ""]

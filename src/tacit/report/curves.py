"""The curves of a run: as files (a picture for each column, all values in one CSV), and as a section of its page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.columns.encoder import Encoder
from tacit.columns.spec import MISSING
from tacit.errors import InputError
from tacit.files import show_path, write_text
from tacit.job import Job
from tacit.privacy.certificate import Certificate
from tacit.report import pictures
from tacit.report.curve_pictures import draw_curve, largest, size_of
from tacit.report.pictures import SERIES, figure
from tacit.run.curves import Curve, model_curves
from tacit.run.result import PartyModel
from tacit.run.saved import SavedRun
from tacit.text import one_line, plural

# --- as files


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


# --- what is said beside curves: which ones, against what they are, and what bands hold


MOST, MOST_BARS = 12, 12  # columns that a page draws, and categories of one of them
NO_ROWS = "No bands are drawn: how far a curve would move with other rows is not computed."
BAND = (
    "A band is about noise alone. At each point it is made to hold the mean of all curves that other noise would give "
    "on the same rows, in 95 % of runs; measured on five data sets, it did so in 89 to 99 %. How far other rows would "
    "move the curve is not in it."
)
EXACT = "{}: no band, as no noise was added to its part of the model. It is its exact fit, which no certificate covers."
UNKNOWN = "{}: no band, as it is not known how far the noise of this mechanism moves a curve."
NOT_COVERED = "No curves are drawn: the certificate covers what was sent, and not the model."


def band_lines(curves: Curves, job: Job | None, certificate: Certificate) -> list[str]:
    """One line about the bands, and one about each party that has none; a member of a joint run has no job."""
    if not certificate.private:
        return [NO_ROWS]
    shown = {name: any(curve.has_band for curve in own) for name, own in curves.items()}
    lines = [BAND] if any(shown.values()) else []
    return lines + [_without(name, job).format(name) for name, banded in shown.items() if not banded]


def _without(name: str, job: Job | None) -> str:
    """Why a party's curves have no band."""
    if job is None:
        return UNKNOWN
    exact = name in job.names and name not in job.protected
    holders_own = job.privacy is not None and job.privacy.predictions == "label-holder" and name == job.holder
    return EXACT if exact or holders_own else UNKNOWN


# --- a section of the page -----------------------------------------------------------------------------


def run_curves(run: SavedRun) -> Curves:
    """What the page of a run draws unless it is told: all columns where some number is a curve, none elsewhere."""
    if run.model.is_trees:
        return {}
    known = [encoder for encoder in run.model.encoders if isinstance(encoder, Encoder)]
    return model_curves(run.model) if any(encoder.has_curves for encoder in known) else {}


def curve_section(run: SavedRun, curves: Curves) -> dict[str, Any] | None:
    """Pictures by party of what matters most, the rest as a list; None where there is nothing to draw."""
    if not curves:
        return None
    if not run.model_is_covered:
        return {"groups": [], "lines": [NOT_COVERED], "centred": False}
    weights = _weights(run, curves)
    drawn = set(sorted(weights, key=lambda key: -weights[key])[:MOST])
    groups = [_group(name, own, weights, drawn, number) for number, (name, own) in enumerate(curves.items())]
    clips = [part.clip for part in run.model.parties if isinstance(part, PartyModel)]
    centred = any(clip is not None and clip.centre is not None for clip in clips)
    return {"groups": groups, "lines": band_lines(curves, run.job, run.certificate), "centred": centred}


Key = tuple[str, str]


def _weights(run: SavedRun, curves: Curves) -> dict[Key, float]:
    """How much each column matters: the deviation of its shares over rows where it was measured, else of its values."""
    known = (run.evaluation or {}).get("columns", {})
    return {
        (name, curve.column): float(known.get(name, {}).get(curve.column, curve.spread))
        for name, own in curves.items()
        for curve in own
    }


def _group(
    name: str, own: Sequence[Curve], weights: Mapping[Key, float], drawn: set[Key], number: int
) -> dict[str, Any]:
    """The curves of one party, those that matter most first."""
    order = sorted(own, key=lambda curve: -weights[name, curve.column])
    shown = [curve for curve in order if (name, curve.column) in drawn]
    figures = [_figure(curve, f"curve-{number}-{place}", number) for place, curve in enumerate(shown)]
    rest = [(curve.column, _range(curve)) for curve in order if (name, curve.column) not in drawn]
    return {"party": name, "figures": figures, "rest": rest}


def _figure(curve: Curve, name: str, number: int) -> dict[str, str]:
    few, left = largest(curve, MOST_BARS)
    caption = f"Adds {_range(curve)}."
    if left:
        caption = f"{caption[:-1]}; {plural(left, 'category')} with less not drawn."
    colour = (number + 1) % len(SERIES)  # the first is that of the joint model
    return figure(draw_curve(few, colour), name, curve.column, caption, size_of(few))


def _range(curve: Curve) -> str:
    """The least and the most that a column adds."""
    return f"{_signed(float(np.min(curve.value)))} to {_signed(float(np.max(curve.value)))}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")

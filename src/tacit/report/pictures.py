"""Draw pictures with matplotlib, as files and as parts of a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tacit.errors import InputError

NO_MATPLOTLIB = 'pictures need matplotlib, which is not installed: pip install "tacit[plot]"'
_DPI = 150


def check_matplotlib() -> None:
    """Refuse before any work is done where no picture could be drawn.

    Raises
    ------
    InputError
        Where matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise InputError(NO_MATPLOTLIB)


def render(draw: Callable[[Any], None], size: tuple[float, float]) -> dict[str, bytes]:
    """Draw once, as "svg" and "png"; the same drawing gives the same bytes."""
    check_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "tacit", "font.size": 9, "axes.titlesize": 10}):
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        pictures = {}
        for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            handle = io.BytesIO()
            figure.savefig(handle, format=kind, metadata=metadata)
            pictures[kind] = handle.getvalue()
    return pictures


def as_data(svg: bytes) -> str:
    """An SVG as an address that a page can hold in itself."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def write(pictures: dict[str, bytes], stem: Path) -> None:
    """Write each kind beside the others: stem.svg, stem.png."""
    for kind, content in pictures.items():
        stem.with_name(f"{stem.name}.{kind}").write_bytes(content)

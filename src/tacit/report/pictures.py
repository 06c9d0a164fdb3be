"""Pictures with matplotlib, as files and as parts of a page; and the page templates, which escape what is put in."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tacit.errors import InputError

# --- Fill the page templates; what is put in is always escaped


HOME = "tacit.report"


def fill(template: str, /, home: str = HOME, **values: Any) -> str:
    """The page of a template as text: of this package, or of another that builds on its shell.

    A line never ends between 95 and %.
    """
    return str(_environment(home).get_template(template).render(**values)).replace(" % interval", "&nbsp;% interval")


@cache
def _environment(home: str) -> Any:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys([home, HOME])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# --- Draw pictures with matplotlib, as files and as parts of a page


NO_MATPLOTLIB = 'pictures need matplotlib, which is not installed: pip install "tacit[plot]"'
_DPI = 150

# Colours that stand for those of the page, so that a picture inside it is light or dark with it.
INK, SOFT, LINE, PAPER = "#010101", "#020202", "#030303", "#0a0a0a"
SERIES = ("#040404", "#050505", "#060606", "#070707", "#080808", "#090909")
_OF_PAGE = {INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)", PAPER: "var(--paper)"} | {
    colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, start=1)
}
_ALONE = dict(
    zip(
        (INK, SOFT, LINE, PAPER, *SERIES),
        ("#1c1c1e", "#5c5f66", "#d9dce1", "#ffffff", "#1f5f99", "#c2571a", "#2e7d32", "#8e3b8e", "#8a6100", "#3a7f86"),
        strict=True,
    )
)  # those of a light page
_STYLE = {
    "svg.hashsalt": "tacit",
    "svg.fonttype": "none",  # text stays text: it can be found, read aloud and has the page's font
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def has_matplotlib() -> bool:
    """Whether pictures can be drawn."""
    return find_spec("matplotlib") is not None


def check_matplotlib() -> None:
    """Refuse before any work is done where no picture could be drawn.

    Raises
    ------
    InputError
        Where matplotlib is not installed.
    """
    if not has_matplotlib():
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


def inline(draw: Callable[[Any], None], size: tuple[float, float], name: str, words: str) -> str:
    """Draw, as SVG to be put into a page, whose colours it takes.

    Parameters
    ----------
    draw : function of a figure
        Uses the colours above.
    size : pair of float
        Inches.
    name : str
        Unlike that of any other picture of the page.
    words : str
        What is to be seen, for who does not see it.
    """
    return _fit_in(_svg(draw, size), name, words)


Figure = dict[str, str]


def figure(
    draw: Callable[[Any], None], name: str, title: str, caption: str, size: tuple[float, float] = (3.7, 2.9)
) -> Figure:
    """A picture of a page with its title and caption."""
    from markupsafe import Markup

    svg = inline(draw, size, name, f"{title}. {caption}")
    return {"title": title, "caption": caption, "svg": Markup(svg)}


def alone(draw: Callable[[Any], None], size: tuple[float, float]) -> str:
    """Draw what `inline` draws as an SVG file of its own, on white."""
    svg = _svg(draw, size, transparent=False)
    for colour, own in _ALONE.items():
        svg = svg.replace(colour, own)
    return svg


def _svg(draw: Callable[[Any], None], size: tuple[float, float], *, transparent: bool = True) -> str:
    """The picture in colours that stand for those of a page."""
    check_matplotlib()
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        handle = io.StringIO()
        figure.savefig(handle, format="svg", transparent=transparent, metadata={"Date": None, "Creator": None})
    return handle.getvalue()


def _fit_in(svg: str, name: str, words: str) -> str:
    """The element alone, as wide as its place, with names and colours that fit the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    opening = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words, quote=True)}">'
    svg = re.sub(r"^<svg[^>]*>", lambda _: opening, svg, count=1)
    for colour, variable in _OF_PAGE.items():
        svg = svg.replace(colour, variable)
    return svg


def as_data(svg: bytes) -> str:
    """An SVG as an address that a page can hold in itself."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def write(pictures: dict[str, bytes], stem: Path) -> None:
    """Write each kind beside the others: stem.svg, stem.png."""
    for kind, content in pictures.items():
        stem.with_name(f"{stem.name}.{kind}").write_bytes(content)

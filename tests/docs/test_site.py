"""The site builds without a warning, loads nothing from elsewhere, and shows formulas as they were meant."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, GALLERY, GENERATED, PAGES

for package in ("sphinx", "myst_parser", "furo", "latex2mathml", "sphinx_gallery"):
    pytest.importorskip(package, reason=f"needs {package}: pip install -e '.[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-Dplot_gallery=0",  # tests/docs/test_gallery.py runs the scripts
        "-d",
        folder / "doctrees",
        DOCS,
        folder / "html",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_built(site: Path) -> None:
    wanted = {page.relative_to(DOCS).with_suffix(".html") for page in {*PAGES, *GENERATED} if page.is_relative_to(DOCS)}
    assert not [page for page in wanted if not (site / page).is_file()]


def test_every_script_of_the_gallery_has_a_page(site: Path) -> None:
    assert len(GALLERY) == 8
    assert not [script.name for script in GALLERY if not (site / "examples" / f"{script.stem}.html").is_file()]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*(?:src|href)=["'](?:https?:)?//""")
    styles = re.compile(r"""url\(["']?(?:https?:)?//|@import""")
    assert not [path for path in site.rglob("*.html") if loads.search(path.read_text())]
    assert not [path for path in site.rglob("*.css") if styles.search(path.read_text())]


def test_formulas_and_tables_are_shown_as_they_were_meant(site: Path) -> None:
    shown = {path.stem: unescape(re.sub(r"<[^>]+>", "", path.read_text())) for path in (site / "proofs").glob("*.html")}
    assert not [name for name, text in shown.items() if "\\|" in text or "|---|" in text]
    assert not [name for name, text in shown.items() if "$" in text or "\\le" in text or "\\text" in text]
    graph = (site / "proofs" / "graph.html").read_text()
    assert re.search(r"<mfrac>.*p.*</mfrac>", graph, flags=re.S)
    assert graph.count("<math") > 400
    assert "\u2264" in shown["graph"]
    assert "argmin over" in shown["shares"]


def test_no_star_or_underscore_of_a_formula_became_emphasis(site: Path) -> None:
    found = []
    for path in (site / "proofs").glob("*.html"):
        glued = re.findall(r"[\w')]<em>.*?</em>|<em>[^<]*</em>[\w+{]", path.read_text(), flags=re.S)
        found += [f"{path.stem}: {text}" for text in glued]
    assert not found  # write \\* or \\_ there


def test_the_reference_describes_the_estimators(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text()
    for anchor in ("tacit.VerticalClassifier", "tacit.VerticalClassifier.fit", "tacit.Privacy", "tacit.alone"):
        assert f'id="{anchor}"' in text

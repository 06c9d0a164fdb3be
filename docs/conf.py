"""How Sphinx builds the site: `make docs`. Pages are plain Markdown; everything the site loads is in it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ["COLUMNS"] = "100"  # the width of what commands print

from reference_pages import write_pages  # noqa: E402 - it lies beside this file

import tacit  # noqa: E402 - after the path

project = "Tacit"
author = copyright = "The Tacit developers"
release = version = tacit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "typeset", "sphinx_gallery.gen_gallery"]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
myst_heading_anchors = 3
napoleon_google_docstring = False
smartquotes = False  # x' is not x’, and "none" goes into job files as it is
autodoc_typehints = "none"  # the docstrings say the types
autodoc_member_order = "bysource"
suppress_warnings = ["myst.header"]  # a page may go from # to ### where that reads better

sphinx_gallery_conf = {  # every script of gallery/ runs while the site is built, and is the source of its page
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # its table would load a script from elsewhere
    "capture_repr": (),
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}
exclude_patterns = ["gallery", "examples/*.ipynb"]

html_theme = "furo"
html_title = f"Tacit {tacit.__version__}"
html_static_path = ["_static"]
html_css_files = ["tacit.css"]
html_copy_source = False
html_show_sphinx = False


def plain(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: bars and stars mean themselves, and `code` is code; reST would differ."""
    for number, line in enumerate(lines):
        parts = re.split(r"(`+[^`]+`+)", line)
        code = [
            f"``{part.strip('`')}``" if part.startswith("`") else re.sub(r"([|*])", r"\\\1", part) for part in parts
        ]
        lines[number] = "".join(code)


def setup(app: Any) -> None:
    """Read docstrings as plain text, before napoleon reads their sections."""
    app.connect("autodoc-process-docstring", plain, priority=100)


write_pages(HERE / "reference")  # before Sphinx looks which pages there are

"""Every relative link in README.md, CONTRIBUTING.md and docs/ leads to a file, and to a heading where it names one."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, GENERATED, PAGES, ROOT, load_script, name_of

LINK = re.compile(r"\]\(([^)\s]+)\)")


def links_of(page: Path) -> list[str]:
    """Targets of the links of a page, but those in code and those to other sites."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return [link for link in LINK.findall(re.sub(r"`[^`\n]+`", "", text)) if not re.match(r"https?:", link)]


def anchors_of(page: Path) -> set[str]:
    """Headings of a page as GitHub and the site name them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target in GENERATED or target == DOCS / "examples" / "index.rst":
            continue  # built with the site; that they are built is tested there
        if not target.is_file() or (anchor and anchor not in anchors_of(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A head\n[a](#a-head) [b](#b-head) [c](c.md) [d](page.md) [e](https://e.org)\n```\n[f](f.md)\n```\n"
    )
    assert broken(page) == ["#b-head", "c.md"]


def test_every_page_is_linked_from_another() -> None:
    reached = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links_of(page)}
    assert {page for page in PAGES if page.name != "README.md"} <= reached


def test_the_picture_shows_the_numbers_of_the_readme() -> None:
    script = load_script(ROOT / "docs" / "images" / "draw.py")
    picture = ET.parse(script.PICTURE)
    described = picture.find(".//{http://purl.org/dc/elements/1.1/}description")
    assert described is not None
    assert described.text is not None
    assert json.loads(described.text) == script.read_table()
    assert script.PICTURE.stat().st_size < 200_000


def test_the_picture_of_peers_shows_the_cells_of_its_page() -> None:
    script = load_script(ROOT / "docs" / "images" / "draw_peers.py")
    described = ET.parse(script.PICTURE).find(".//{http://purl.org/dc/elements/1.1/}description")
    assert described is not None
    assert described.text is not None
    assert json.loads(described.text) == script.read_table()
    assert script.PICTURE.stat().st_size < 200_000

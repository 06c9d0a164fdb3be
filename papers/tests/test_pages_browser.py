"""Pages of papers in a real browser: claims fit the window, pictures stay large enough to read, and follow the dark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toy
from page_browser import BROWSER, browse
from tacit_papers.pages import Rerun, write_pages

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a browser")

PROBE = """
<script>
addEventListener("load", () => {
  const wide = document.documentElement.clientWidth, out = [];
  for (const one of document.querySelectorAll("main *:not(img)")) {
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > wide + 1 || box.left < -1)) out.push(one.tagName + one.textContent.slice(0, 30));
  }
  const image = document.querySelector("figure img");
  const found = {
    out, image: image.getBoundingClientRect().width, filter: getComputedStyle(image).filter,
    head: getComputedStyle(document.querySelector(".claims thead")).display,
    label: getComputedStyle(document.querySelector(".claims td[data-label]"), "::before").content,
  };
  parent.postMessage("PROBE|" + JSON.stringify(found), "*");
});
</script>
"""


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (400, "dark"), (1280, "dark")])
def test_page_of_a_paper_can_be_read(tmp_path: Path, width: int, scheme: str) -> None:
    results = {"double/1": {"value": 2}, "double/2": {"value": 4}}
    page, _ = write_pages([Rerun(toy.PAPER, toy.EXPECTED, results, toy.judge(results, toy.EXPECTED))], tmp_path, False)
    found = json.loads(browse(page, width, scheme, tmp_path, PROBE))
    assert found["out"] == []
    assert found["image"] >= 600
    assert (found["filter"] == "none") == (scheme == "light")
    # Narrow, each claim is a card whose cells say what they are.
    assert (found["head"] == "none") == (width == 400)
    assert ("Published" in found["label"]) == (width == 400)

"""The page in a real browser: it fits and can be read, narrow and wide, light and dark, and it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.people import People
from tests.cli.test_samples import Nodes

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"needs a browser: one of {', '.join(BROWSERS)}")

# Added to a copy of the page, for the test alone: says what sticks out of the window, and the smallest text.
PROBE = """
<script>
addEventListener("load", () => {
  const wide = document.documentElement.clientWidth, out = [];
  for (const one of document.querySelectorAll("main *")) {
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > wide + 1 || box.left < -1)) out.push(one.tagName + one.textContent.slice(0, 30));
  }
  const seen = name => [...document.querySelectorAll(name)].filter(text => text.textContent.trim());
  const sizes = seen("svg text, main td, main p, main li, figcaption").map(text => {
    const svg = text.ownerSVGElement, size = parseFloat(getComputedStyle(text).fontSize);
    return svg ? size * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : size;
  });
  const boxes = seen("svg text").map(text => text.getBoundingClientRect());
  const hits = boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
    a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 4 && b.top < a.bottom - 4)).length;
  const style = getComputedStyle(document.body), least = Math.min(...sizes).toFixed(1);
  const found = [wide, out.length, out[0] || "", least, hits, style.backgroundColor, style.color];
  parent.postMessage("PROBE|" + found.join("|"), "*");
});
</script>
"""

FRAME = """
<!doctype html><title>none</title><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<script>addEventListener("message", event => {{ document.title = event.data; }});</script>
<iframe src="{}" width="{}" height="2000"></iframe>
"""


def browse(page: Path, width: int, scheme: str, folder: Path, probe: str = PROBE) -> list[str]:
    """What the probe says of the page at this width; in a frame, as a browser's window has a least width."""
    text = page.read_text().replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    probed = folder / "probed.html"
    probed.write_text(text.replace("</body>", f"{probe}</body>"))
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(probed.as_uri(), width))
    words = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", "--window-size=1400,2000",
        "--virtual-time-budget=5000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r"<title>PROBE\|(.*?)</title>", done.stdout)
    assert found, done.stderr[-2000:]
    return found.group(1).split("|")


@pytest.fixture(params=["columns", "rows", "private", "curves"])
def page(request: Any, files: Any, tacit: Any, tmp_path: Path) -> Path:
    source = files
    if request.param == "rows":
        source = Nodes(tmp_path)
    elif request.param == "curves":
        source = People(tmp_path, more="[privacy]\nepsilon = 2\nprotect = 'everyone'")
    elif request.param == "private":
        files.privacy = "epsilon = 3"
    setattr(source, "top" if isinstance(source, People) else "job", "holdout = 0.25")
    assert tacit("train", source.write(), "--out", tmp_path / "run", "--quiet").code == 0
    assert tacit("report", tmp_path / "run").code == 0
    return tmp_path / "run" / "report.html"


def test_page_fits_and_can_be_read_at_both_widths(page: Path, tmp_path: Path) -> None:
    colours = set()
    for width, scheme in ((1280, "light"), (400, "dark")):
        wide, count, first, least, hits, paper, ink = browse(page, width, scheme, tmp_path)
        assert int(wide) == width
        assert (count, first) == ("0", "")
        assert float(least) >= 11
        assert hits == "0", "texts of a picture lie on each other"
        colours.add((paper, ink))
    assert len(colours) == 2


def test_page_prints(page: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.pdf"
    words = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        f"--print-to-pdf={out}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(words, capture_output=True, timeout=120, check=True)
    assert out.read_bytes().startswith(b"%PDF")
    assert 1 <= out.read_bytes().count(b"/Type /Page\n") <= 8

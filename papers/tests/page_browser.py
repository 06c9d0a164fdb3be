"""A page in a real browser, at a width and in a colour scheme."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)

FRAME = """
<!doctype html><title>none</title><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<script>addEventListener("message", event => {{ document.title = event.data; }});</script>
<iframe src="{}" width="{}" height="2000"></iframe>
"""


def browse(page: Path, width: int, scheme: str, folder: Path, probe: str) -> str:
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
    return found.group(1)

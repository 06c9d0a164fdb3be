"""Draw the top of a run's page, by a headless Chromium: `python docs/images/draw_report.py` writes report.png.

The run is that of `tacit demo`'s job with rows held out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tacit.cli.main import main

HERE = Path(__file__).parent
SIZE = (1000, 1240)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def draw() -> None:
    """Train the job of the demo with a holdout, write its page, and take a picture of it."""
    browser = next(path for name in BROWSERS if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main(["demo"])
        job = Path("demo-run/job.toml")
        job.write_text(job.read_text().replace("[job]\n", "[job]\nholdout = 0.3\n"))
        main(["train", str(job), "--out", "run", "--report", "--quiet"])
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-sync"]
        words += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}/profile"]
        words += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={HERE / 'report.png'}"]
        subprocess.run([*words, Path("run/report.html").resolve().as_uri()], check=True, capture_output=True)
    shrink(HERE / "report.png")


def shrink(path: Path) -> None:
    """Write a picture with 160 colours, which a page of text needs at most."""
    from PIL import Image

    Image.open(path).convert("RGB").quantize(160).save(path, optimize=True)


if __name__ == "__main__":
    draw()

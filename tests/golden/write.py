"""`python -m tests.golden.write [NAMES]`: write the records anew, all of them or those named (a beginning will do)."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.golden.play import CONFIGURATIONS, RECORDS, differences, play, write


def main(names: Sequence[str]) -> int:
    """Write, and say for each how long it took and how much has changed."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["TACIT_HOME"] = home
        for name in CONFIGURATIONS:
            if not names or name.startswith(tuple(names)):
                print(f"{name:<45} {_write(name)}", flush=True)
    if not names:
        for path in sorted(RECORDS.glob("*.json")):
            if path.stem not in CONFIGURATIONS:
                path.unlink()
                print(f"{path.stem:<45} removed")
    return 0


def _write(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        found = play(name, Path(folder).resolve())
        seconds = time.time() - began
    known = (RECORDS / f"{name}.json").exists()
    changed = len(differences(name, found)) if known else "all new"
    write(name, found)
    size = (RECORDS / f"{name}.json").stat().st_size
    return f"{seconds:6.2f} s {size / 1000:7.1f} kB  changed: {changed}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

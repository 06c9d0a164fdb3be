"""Draw untuned Tacit beside tuned private peers, from the table in private-peers.md.

`python docs/images/draw_peers.py` writes private-peers.svg. `python docs/images/draw_peers.py FILE` first puts the
cells of FILE, which `python -m bench --only private-peers --json FILE` wrote, into the page.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "private-peers.md"
PICTURE = Path(__file__).with_name("private-peers.svg")
TABLE = re.compile(r"^\| set \| epsilon \|.*\n\|[-|]+\|\n(?:\|.*\n)+", flags=re.M)


def read_table() -> list[dict[str, Any]]:
    """Mean losses by method, and both verdicts, of each cell as the page states them."""
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, f"{PAGE} has no table of cells"
    head, _, *rows = found.group().splitlines()
    names = _cells(head)[2:-2]
    cells = []
    for row in rows:
        one, epsilon, *losses, verdict, given = _cells(row)
        means = {name: [float(text.split()[0])] for name, text in zip(names, losses, strict=True) if text != "-"}
        cells.append({"set": one, "epsilon": float(epsilon), "verdict": verdict, "given": given, "losses": means})
    return cells


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").split("|")]


def write_table(results: Path) -> None:
    """Put the cells of a file of results into the page."""
    from bench.private_peers import markdown

    rows = json.loads(results.read_text())["private-peers"]["rows"]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(markdown([row for row in rows if "losses" in row]) + "\n", text), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from bench.private_peers import draw_cells

    if len(sys.argv) > 1:
        write_table(Path(sys.argv[1]))
    draw_cells(read_table(), PICTURE)

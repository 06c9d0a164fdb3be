"""Draw what privacy costs, from the table of the page of benchmarks: `python docs/images/draw.py` makes privacy.svg."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_name("privacy.svg")
COLOURS = ("#1b5e9b", "#c2541b", "#2e7d32", "#7b3f9d", "#7a7a7a")


def read_table() -> dict[str, dict[str, float]]:
    """Log loss by what is protected and by epsilon, and the two lines without noise, as that page states them."""
    text = (ROOT / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    head, rows = re.findall(r"^\| protected \| epsilon (.*) \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, flags=re.M)[0]
    epsilons = [cell.strip() for cell in head.split("|")]
    table = {}
    for row in rows.splitlines():
        who, *losses = (cell.strip() for cell in row.strip("|").split("|"))
        table[who] = dict(zip(epsilons, map(float, losses), strict=True))
    alone, both = re.findall(r"label holder\s+alone has ([\d.]+), both together without noise ([\d.]+)", text)[0]
    return {**table, "without noise": {"alone": float(alone), "both": float(both)}}


def draw() -> None:
    """Draw the picture; the numbers it shows go into its description, so that a test can compare them."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "tacit", "font.size": 10})
    from matplotlib import pyplot as plt

    table = read_table()
    plain = table.pop("without noise")
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for colour, (who, losses) in zip(COLOURS, table.items(), strict=True):
        axes.plot([float(e) for e in losses], list(losses.values()), "o-", color=colour, label=who.replace("`", ""))
    for loss, words, below in (
        (plain["alone"], "label holder alone", 3),
        (plain["both"], "both together, no noise", -12),
    ):
        axes.axhline(loss, color="#555", linewidth=0.9, linestyle="--")
        axes.annotate(words, (8, loss), xytext=(0, below), textcoords="offset points", ha="right", color="#444")
    axes.set_ylim(bottom=plain["both"] - 0.004)  # room for the words
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.set(xlabel="epsilon of the whole run", ylabel="log loss on test rows (lower is better)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="protected", frameon=False, fontsize=8, title_fontsize=9)
    numbers = json.dumps({**table, "without noise": plain})
    figure.savefig(PICTURE, metadata={"Date": None, "Description": numbers, "Title": "What privacy costs on a9a"})


if __name__ == "__main__":
    draw()

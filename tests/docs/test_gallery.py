"""Every script of the gallery runs, with few rows, and draws every picture that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import GALLERY

plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib: pip install -e '.[plot]'")
FEWER = {
    r"^ROWS = .*$": "ROWS = 300",
    r'"--quick"': '"--quick", "--runs", "60", "--pairs", "20"',
    r"range\(5\)": "range(1)",
}
WHOLE = {"three_hospitals"}  # its data are small already


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_script_runs_and_draws(script: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import matplotlib

    matplotlib.use("agg")
    drawn: list[int] = []

    def show() -> None:
        found = [plt.figure(number) for number in plt.get_fignums()]
        drawn.append(sum(ax.has_data() for figure in found for ax in figure.axes))
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    text = script.read_text(encoding="utf-8")
    for pattern, fewer in FEWER.items():
        if script.stem not in WHOLE or "ROWS" not in pattern:
            text = re.sub(pattern, fewer, text, flags=re.M)
    exec(compile(text, str(script), "exec"), {"__name__": "__main__"})
    assert len(drawn) == text.count("plt.show()") > 0
    assert all(drawn)
    assert capsys.readouterr().out

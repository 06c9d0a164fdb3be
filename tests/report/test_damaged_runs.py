"""A run with a damaged plan or result is refused in one line by its page, and may still be watched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import InputError
from tacit.report.run import write_report
from tacit.run.watching import FINISHED, Watcher
from tests.fuzz.runs import trained


def spoiled(folder: Path, name: str, **changes: Any) -> Path:
    shutil.copytree(trained("private").run, folder / "run")
    path = folder / "run" / name
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))
    return folder / "run"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("plan.json", {"plan": None}),
        ("plan.json", {"plan": 3}),
        ("plan.json", {"versions": True}),
        ("plan.json", {"versions": ["numpy"]}),
        ("result.json", {"traffic": {"bytes_down": 1e308, "bytes_up": 1e308}}),
        ("result.json", {"seconds": "long"}),
    ],
)
def test_the_page_of_a_damaged_run_is_refused(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot use "):
        write_report(spoiled(tmp_path, name, **changes))


@pytest.mark.parametrize("plan", [None, 3, {"privacy": 5}, {"privacy": {"rounds": "x"}}, {"max_rounds": 10**400}])
def test_a_damaged_plan_does_not_keep_anybody_from_watching(plan: Any, tmp_path: Path) -> None:
    seen = Watcher(spoiled(tmp_path, "plan.json", plan=plan)).look()
    assert seen.state == FINISHED
    assert 0 <= seen.most_rounds <= 30
    assert len(seen.trace) > 0

"""A model of whole rows whose joint file lost the word split is not taken for parts to be added up."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import InputError
from tacit.run.predict import load_model
from tests.fuzz.runs import trained


@pytest.mark.parametrize("split", [None, "features", "sample", 1])
def test_the_nodes_of_a_graph_are_never_added_up(split: Any, tmp_path: Path) -> None:
    shutil.copytree(trained("samples").run, tmp_path / "run")
    path = tmp_path / "run" / "model" / "joint.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "split": split}))
    with pytest.raises(InputError, match="split"):
        load_model(tmp_path / "run")

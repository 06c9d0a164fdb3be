"""The short form of the bench runs; what does not depend on the machine is held to its targets."""

from __future__ import annotations

import json
import math

import pytest

from bench.__main__ import main
from bench.data import a9a, dense_blocks
from bench.parts import PARTS
from bench.row import Row
from bench.streamed import QUICK_MEMORY
from tacit.job.values import bytes_of

CHEAP = (
    "paper_prototype",
    "dense",
    "path",
    "baselines",
    "private",
    "private_rounds",
    "families",
    "graph",
    "graph-private",
    "graph-sets",
    "service",
    "many",
)


@pytest.mark.parametrize("part", CHEAP)
def test_quick_part_returns_finite_positive_numbers(part):
    rows = PARTS[part].run(quick=True)
    values = [row.value for row in rows if row.value is not None]
    assert len(values) >= 3
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert all(row.met is None for row in rows)


def test_rounds_meet_their_targets_on_a9a():
    if not a9a().is_real:
        pytest.skip(f"a9a is not at hand: {a9a().missing}")
    rows = PARTS["rounds"].run(quick=True)
    assert len(rows) == 4
    assert [row.name for row in rows if not row.met] == []


def test_rows_on_disk_stay_below_the_memory_that_was_stated():
    rows = PARTS["streamed"].run(quick=True)
    peaks = [row for row in rows if row.name.startswith("peak memory")]
    assert [row.name.split(", ")[1] for row in peaks] == ["float32", "float32", "float64"]
    assert all(row.value < bytes_of(QUICK_MEMORY) / 1e9 for row in peaks)
    assert all(math.isfinite(row.value) and row.value > 0 and row.met is None for row in rows)


def test_a_cluster_finds_what_numpy_finds():
    rows = PARTS["dask"].run(quick=True)
    errors = [row for row in rows if row.name.endswith("relative error")]
    assert [row.met for row in errors] == [True, True, True]
    assert all(math.isfinite(row.value) and row.value > 0 for row in rows if row not in errors)


def test_alignment_finds_the_plain_intersection():
    times, library, ratio, wrong = PARTS["align"].run(quick=True)
    assert (wrong.value, wrong.met) == (0.0, True)
    assert all(math.isfinite(row.value) and row.value > 0 and row.met is None for row in (times, library, ratio))


def test_a_large_alignment_is_the_plain_intersection():
    rows = PARTS["align_size"].run(quick=True)
    wrong = [row for row in rows if "otherwise" in row.name]
    assert [(row.value, row.met) for row in wrong] == 2 * [(0.0, True)]  # also after the process was killed
    assert all(math.isfinite(row.value) and row.value > 0 for row in rows if row not in wrong)


def test_main_prints_tables_and_writes_json(tmp_path, capsys):
    path = tmp_path / "bench.json"
    assert main(["--only", "baselines", "--quick", "--json", str(path)]) == 0
    written = json.loads(path.read_text())
    assert list(written) == ["baselines"]
    shown = capsys.readouterr().out
    assert "summary" in shown
    assert written["baselines"]["rows"][-1]["name"] in shown


def test_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "rounds" in capsys.readouterr().err


def test_row_judges_by_its_limit():
    assert Row("a", "2", 2.0, 2.0).met
    assert not Row("a", "3", 3.0, 2.0).met
    assert Row("a", "3", 3.0).met is None
    assert Row("a", "never", math.inf, 1.0).record()["value"] is None


def test_generated_labels_are_both_kinds():
    blocks, labels = dense_blocks(1000)
    assert [block.shape for block in blocks] == [(1000, 50), (1000, 50)]
    assert set(labels) == {-1.0, 1.0}

"""Versions of arrays on disk: what is read is what was put, and what did not change is written once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.federation import journal as module
from tacit.federation.journal import VersionedArrays

ROWS, COLUMNS = 20_000, 8
COLUMN = 8 * ROWS  # bytes


def state(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "steps": np.asfortranarray(rng.normal(size=(ROWS, COLUMNS))),
        "metric": rng.normal(size=ROWS),
        "small": rng.integers(0, 9, size=(3, 2)),
        "words": rng.integers(0, 2**63, size=ROWS, dtype=np.uint64),
        "wide": rng.normal(size=(100, 200)),
        "none": np.zeros((0, 4)),
        "columns": np.asfortranarray(rng.normal(size=(3, 4))),
        "number": np.array(rng.normal()),
        "sure": rng.random(5) < 0.5,
        "every second": np.arange(9.0)[::2],
    }


def replace_column(arrays: dict[str, np.ndarray], number: int) -> None:
    arrays["steps"][:, number % COLUMNS] = np.random.default_rng(number).normal(size=ROWS)


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape)
        assert array.flags.fnc == other[name].flags.fnc  # the same sums, to the last bit, need the same order
        assert array.tobytes() == other[name].tobytes()


@pytest.mark.parametrize("held", [0, module.MOST_HELD])
@pytest.mark.parametrize("anew", [False, True], ids=["one process", "started anew each time"])
def test_every_kept_version_is_read_as_it_was_put(
    tmp_path: Path, anew: bool, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", held)
    versions, arrays, before = VersionedArrays(tmp_path, 2), state(), {}
    for number in range(25):
        replace_column(arrays, number)
        versions.put(number, arrays, {"number": number})
        now = {name: array.copy(order="K") for name, array in arrays.items()}
        versions = VersionedArrays(tmp_path, 2) if anew else versions
        for kept, known in ((number, now), *([(number - 1, before)] if before else [])):
            found, about = versions.get(kept)
            assert_same(found, known)
            assert about == {"number": kept}
        assert versions.numbers() == ([number - 1, number] if number else [0])
        before = now


def test_only_what_changed_is_written_and_what_nobody_needs_is_deleted(tmp_path: Path) -> None:
    versions, arrays = VersionedArrays(tmp_path, 2), state()
    for number in range(40):
        replace_column(arrays, number)
        versions.put(number, arrays, {})
        size = (tmp_path / f"step-{number:09d}.npz").stat().st_size
        assert size > COLUMNS * COLUMN if number == 0 else size < 2 * COLUMN
    files = list(tmp_path.iterdir())
    assert len(files) <= COLUMNS + 3  # a file for each column, those kept, and the first with what never changes
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    versions.forget()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [-0.0, np.nextafter(0.0, 1.0)], ids=["sign", "smallest"])
def test_the_smallest_change_is_a_change(tmp_path: Path, change: float) -> None:
    versions, arrays = VersionedArrays(tmp_path, 1), {"metric": np.zeros(ROWS)}
    versions.put(0, arrays, {})
    arrays["metric"][ROWS // 2] = change
    versions.put(1, arrays, {})
    assert VersionedArrays(tmp_path, 1).get(1)[0]["metric"].tobytes() == arrays["metric"].tobytes()


def test_columns_that_are_the_same_and_not_a_number_come_back(tmp_path: Path) -> None:
    steps = np.asfortranarray(np.zeros((ROWS, 4)))
    steps[7, 2] = np.nan
    VersionedArrays(tmp_path, 1).put(3, {"steps": steps}, {})
    found = VersionedArrays(tmp_path, 1).get(3)[0]["steps"]
    assert found.tobytes() == steps.tobytes()
    assert found.flags.f_contiguous
    assert (tmp_path / "step-000000003.npz").stat().st_size < 3 * COLUMN


def test_a_write_that_fails_leaves_the_versions_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions, arrays = VersionedArrays(tmp_path, 1), state()
    versions.put(0, arrays, {})
    first = {name: array.copy(order="K") for name, array in arrays.items()}
    replace_column(arrays, 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(np, "savez", full)
        with pytest.raises(RunError, match="No space left"):
            versions.put(1, arrays, {})
    assert_same(VersionedArrays(tmp_path, 1).get(0)[0], first)
    versions.put(1, arrays, {})  # what was not written the first time is written now
    assert_same(VersionedArrays(tmp_path, 1).get(1)[0], arrays)


def test_damage_and_old_numbers_are_refused(tmp_path: Path) -> None:
    versions, arrays = VersionedArrays(tmp_path, 1), state()
    for number in range(3):
        replace_column(arrays, number)
        versions.put(number, arrays, {})
    with pytest.raises(RunError, match="version 2 comes after 2"):
        versions.put(2, arrays, {})
    (tmp_path / "step-000000000.npz").unlink()  # it has the parts that never changed
    with pytest.raises(RunError, match="cannot read"):
        VersionedArrays(tmp_path, 1).get(2)
    (tmp_path / "step-000000002.npz").write_bytes(b"no archive")
    with pytest.raises(RunError, match="step-000000002"):
        VersionedArrays(tmp_path, 1)

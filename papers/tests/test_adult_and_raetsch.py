"""Adult and Rätsch's benchmarks: what is loaded, and what is drawn from definitions."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from tacit.data import datasets
from tacit.errors import InputError
from tacit_papers import public_sets

LINE = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, {}\n"
TRAIN = (LINE.format("United-States, <=50K") + LINE.format("?, >50K") + "\n").encode()
TEST = ("|1x3 Cross validator\n" + LINE.format("Cuba, >50K.").replace("39,", "50,")).encode()


def put(folder: Path, file: object, content: bytes) -> object:
    (folder / file.name).write_bytes(gzip.compress(content))  # type: ignore[attr-defined]
    return dataclasses.replace(file, sha256=hashlib.sha256(content).hexdigest())  # type: ignore[call-overload]


def test_adult_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    files = tuple(put(tmp_path, file, text) for file, text in zip(public_sets.ADULT, (TRAIN, TEST), strict=True))
    monkeypatch.setattr(public_sets, "ADULT", files)
    rows = public_sets.load_adult()
    assert rows.n_train == 2
    assert rows.y.tolist() == [-1, 1, 1]
    assert rows.complete().tolist() == [True, False, True]
    assert rows.numbers[2].tolist() == [50, 77516, 13, 2174, 0, 40]
    assert rows.codes[0].tolist() == [5, 0, 2, 8, 3, 0, 1, 0]
    assert rows.codes[2, 7] == public_sets.CATEGORIES["native-country"].split(", ").index("Cuba")


def test_adult(real_data: Path) -> None:
    rows = public_sets.load_adult()
    assert (len(rows.y), rows.n_train, int(rows.complete().sum())) == (48842, 32561, 45222)
    assert int((rows.y[:32561] > 0).sum()) == 7841
    unary = rows.unary()
    assert unary.shape == (48842, 105)
    assert (unary[rows.complete()][:, :99].sum(axis=1) == 8).all()
    assert (unary.min(), unary.max()) == (0.0, 1.0)
    # a9a was made from the same rows in the same order
    assert np.array_equal(datasets.load_a9a().y_train, rows.y[:32561])


@pytest.mark.parametrize("name", public_sets.NAMES)
def test_raetsch(name: str, real_data: Path) -> None:
    data = public_sets.load_raetsch(name)
    assert set(np.unique(data.y)) == {-1, 1}
    for train, test in zip(data.train, data.test, strict=True):
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(data.y)))


@pytest.mark.parametrize("name", public_sets.GENERATED)
def test_generated_rows_are_those_of_the_benchmark(name: str, real_data: Path) -> None:
    """Means and deviations of both classes agree within five standard errors of two samples."""
    data = public_sets.load_raetsch(name)
    X, y = public_sets.generate(name, len(data.y), seed=1)
    assert abs(np.mean(y > 0) - np.mean(data.y > 0)) < 5 * np.sqrt(0.5 / len(y))
    for side in (-1, 1):
        ours, theirs = X[y == side], data.X[data.y == side]
        error = np.sqrt(2 / len(theirs)) * theirs.std(axis=0)
        assert (abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * error).all()
        assert (abs(ours.std(axis=0) - theirs.std(axis=0)) < 5 * error).all()
    assert abs(np.corrcoef(X.T) - np.corrcoef(data.X.T)).max() < 0.1


def test_generated_rows_repeat() -> None:
    first, again = public_sets.generate("waveform", 50, 3), public_sets.generate("waveform", 50, 3)
    assert np.array_equal(first[0], again[0])
    assert not np.array_equal(first[0], public_sets.generate("waveform", 50, 4)[0])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="no benchmark 'iris': choose one of banana"):
        public_sets.load_raetsch("iris")
    with pytest.raises(InputError, match="'banana' has no definition"):
        public_sets.generate("banana", 10, 0)


def test_every_set_has_a_sum() -> None:
    assert set(public_sets.SUMS) == {"a9a", "gisette", "mnist49", "basehock", "adult", "raetsch"}
    assert all(len(part) == 64 for sums in public_sets.SUMS.values() for part in sums.split())

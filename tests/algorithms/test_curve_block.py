"""Curves kept by their cells agree with the rows that the encoder writes out: products, private rows, whole fits."""

from __future__ import annotations

import inspect
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tacit import HorizontalClassifier, Privacy, VerticalClassifierCV
from tacit.blocks import dense, make_block
from tacit.blocks.curves import CurveBlock, TableBlock
from tacit.blocks.dense import Block, RowClip
from tacit.columns import compact, encoder
from tacit.columns.compact import CurveMatrix, WaveCells
from tacit.columns.curves import FourierColumn, fit_spline
from tacit.columns.encoder import BucketColumn, CategoryColumn, Column, Encoder, NumberColumn
from tacit.columns.table import ArrowTable
from tacit.run.apart import join_columns, stack_rows
from tacit.run.checkpoint import fingerprint
from tacit.run.star import Run
from tacit.solvers.alone import fit_alone, out_of_fold
from tacit.training import run_job
from tacit.types import Shard, Vector
from tests.plans import feature_plan

KINDS = ("spline", "whole", "number", "category", "bucket")
WAVES = ("fourier", "log fourier", "flat fourier", "exact fourier")
PARTS = 3e-10  # what the parts of a spline are kept to


def cells(kind: str, rng: np.random.Generator, rows: int) -> list[Any]:
    """Raw cells, blanks among them."""
    if kind in ("category", "bucket"):
        return [None if rng.random() < 0.1 else str(value) for value in rng.choice(["a", "b", "c", "new"], rows)]
    values = np.exp(rng.normal(size=rows)) if "log" in kind else rng.normal(size=rows) * 10.0 ** rng.integers(-3, 4)
    values[rng.random(rows) < 0.3] = values[0]
    values = np.round(values) if kind == "whole" else values
    blank = rng.random(rows) < rng.choice([0.0, 0.2, 1.0], p=[0.5, 0.45, 0.05])
    return [None if lost else float(value) for lost, value in zip(blank, values, strict=True)]


def column(kind: str, name: str, raw: list[Any], rng: np.random.Generator) -> Column:
    """Constants for such cells."""
    missing = bool(rng.random() < 0.5)
    if kind == "category":
        return CategoryColumn(name, ("a", "b"), missing, height=0.7)
    if kind == "bucket":
        return BucketColumn(name, 3, missing)
    values = np.array([value for value in raw if value is not None])
    moments = (float(values.mean()), float(values.std()) or 1.0) if values.size else (0.0, 1.0)
    if kind in ("spline", "whole"):
        return fit_spline(name, values, moments, 0.3, missing=missing)
    if kind == "number":
        return NumberColumn(name, 0.0, moments[1], moments[0], missing=missing)
    pairs = 0 if kind == "flat fourier" else int(rng.integers(1, 9))
    return FourierColumn(name, 0.0, 5.0, pairs, log="log" in kind, missing=missing, exact=5 if "exact" in kind else 0)


def made(kinds: list[str], rows: int, seed: int) -> tuple[CurveMatrix, Vector]:
    """Rows by their cells, and written out by the encoder."""
    rng = np.random.default_rng(seed)
    raw = {f"c{j}": cells(kind, rng, rows) for j, kind in enumerate(kinds)}
    types = [pa.string() if kind in ("category", "bucket") else pa.float64() for kind in kinds]
    data = pa.table({name: pa.array(raw[name], own) for name, own in zip(raw, types, strict=True)})
    own = Encoder(tuple(column(kind, name, raw[name], rng) for kind, name in zip(kinds, raw, strict=True)))
    table = ArrowTable(party="bank", columns=tuple(raw), n_rows=rows, data=data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "COMPACT_FROM", 10**9)
        plain = own.matrix(table)
        patch.setattr(encoder, "COMPACT_FROM", 0)
        kept = own.matrix(table)
    if not isinstance(kept, CurveMatrix):  # no column of these is a curve
        kept = CurveMatrix(tuple(k for c in own.columns for k in encoder._compact(c, table, np.arange(rows), None)))
    return kept, plain.toarray() if sparse.issparse(plain) else plain


TABLED = st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)
ANY = st.lists(st.sampled_from(KINDS + WAVES), min_size=1, max_size=5)
ROWS = st.sampled_from([1, 2, 3, 17, 40])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, so that there are several."""
    monkeypatch.setattr(compact, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr("tacit.blocks.dense.ROWS_AT_ONCE", 16)


def near(found: Any, wanted: Any, part: float = 1e-10, scale: float | None = None) -> None:
    """Equal but for a part of the scale: that of the numbers, or of those that they are differences of."""
    scale = float(np.abs(wanted).max(initial=0.0)) if scale is None else scale
    np.testing.assert_allclose(found, wanted, rtol=0, atol=part * scale + 1e-300)


@given(ANY, ROWS, st.integers(0, 10**6))
@settings(deadline=None, max_examples=150)
def test_rows_are_those_that_the_encoder_writes_out(kinds: list[str], rows: int, seed: int) -> None:
    kept, plain = made(kinds, rows, seed)
    assert kept.shape == plain.shape
    near(kept.toarray(), plain, PARTS)
    picked = np.random.default_rng(seed).integers(0, rows, 5)
    near(np.asarray(kept[picked]), plain[picked], PARTS)
    near(np.asarray(kept[slice(0, None, 2)]), plain[::2], PARTS)
    near(np.asarray(kept[[rows - 1]]), plain[[rows - 1]], PARTS)
    for start, end in pairwise(kept.starts):
        near(np.asarray(kept[:, start:end]), plain[:, start:end], PARTS)


@given(ANY, ROWS, st.booleans(), st.integers(0, 10**6))
@settings(deadline=None, max_examples=200)
def test_every_product_is_that_of_the_rows(kinds: list[str], rows: int, centred: bool, seed: int) -> None:
    kept, _ = made(kinds, rows, seed)
    block, oracle, rng = make_block(kept), Block(kept.toarray()), np.random.default_rng(seed)
    assert isinstance(block, TableBlock if set(kinds) <= {*KINDS, "flat fourier"} else CurveBlock)
    weights = rng.random(rows) * (rng.random(rows) < 0.9) + 1e-3
    if centred:
        near(block.set_centre(weights), oracle.set_centre(weights))
    x, r, columns = rng.normal(size=oracle.d), rng.normal(size=rows), rng.normal(size=(rows, 3))
    scale = float(np.abs(oracle.matrix).sum())
    some = rng.integers(0, rows, 4)
    for found, wanted in (
        (block.predict(x), oracle.predict(x)),
        (block.predict(np.column_stack([x, -x])), oracle.predict(np.column_stack([x, -x]))),
        (block.correlate(r), oracle.correlate(r)),
        (block.correlate(columns), oracle.correlate(columns)),
        (block.correlate_columns(weights, columns), oracle.correlate_columns(weights, columns)),
        (block.take(some).predict(x), oracle.take(some).predict(x)),
        (block.without_centre().predict(x), oracle.without_centre().predict(x)),
        (r @ kept, r @ oracle.matrix),
    ):
        near(found, wanted, 1e-12, scale)
    assert block.mean_square() == pytest.approx(oracle.mean_square(), rel=1e-10)
    near(block.row_squares(), oracle.row_squares())
    near(block.outer(), oracle.outer(), scale=scale**2)


@pytest.mark.parametrize("rows", [1, 511, 1300])
def test_a_wave_has_the_same_bits_in_scores_sums_and_written_rows(rows: int) -> None:
    rng = np.random.default_rng(rows)
    waves = WaveCells(rng.random(rows), FourierColumn("x", 0.0, 1.0, 5, missing=True))
    waves.places[rng.random(rows) < 0.1] = np.nan
    every, written = slice(0, rows), np.empty((waves.width, rows)).T
    waves.write(every, written)
    for k, unit in enumerate(np.eye(waves.width)):
        scores = np.zeros(rows)
        waves.add_scores(every, unit, scores)
        assert np.array_equal(scores, written[:, k])
    for i in {0, rows // 2, rows - 1}:
        sums = np.zeros(waves.width)
        waves.add_sums(every, np.eye(1, rows, i)[0], sums)
        assert np.array_equal(sums, written[i])


def test_waves_are_cosines_and_sines_to_the_last_digits() -> None:
    column, long = FourierColumn("x", 0.0, 1.0, 9), np.longdouble
    places = np.append(np.random.default_rng(0).random(5000), [0.0, 0.25, 0.5, 0.75, 1.0, np.nextafter(0.25, 0.0)])
    written = np.empty((18, places.size)).T
    WaveCells(places, column).write(slice(0, places.size), written)
    angles = 4 * np.arctan(long(1)) * np.arange(1, 10) * places[:, None].astype(long)
    wanted = np.hstack([column.heights * np.cos(angles), column.heights * np.sin(angles)])
    assert float(np.abs(written - wanted).max()) < 9 * 2.0**-52


def test_private_sums_of_curves_are_sums_of_as_many_rows_as_the_proof_says() -> None:
    assert [inspect.getsource(module).count("ROWS_AT_ONCE = 8192") for module in (compact, dense)] == [1, 1]


@given(ANY, ROWS, st.booleans(), st.booleans(), st.integers(0, 10**6))
@settings(deadline=None, max_examples=200)
def test_gram_matrices_and_sweeps(kinds: list[str], rows: int, centred: bool, project: bool, seed: int) -> None:
    kept, _ = made(kinds, rows, seed)
    block, oracle, rng = make_block(kept), Block(kept.toarray()), np.random.default_rng(seed)
    weights, r, columns = rng.random(rows) + 1e-3, rng.normal(size=rows), rng.normal(size=(rows, 3))
    if centred:
        block.set_centre(weights)
        oracle.set_centre(weights)
    square, scale = float(np.square(oracle.matrix).sum()), float(np.abs(oracle.matrix).sum())
    near(block.gram(weights, project=project), oracle.gram(weights, project=project), scale=square)
    near(block.gram(), oracle.gram(), scale=square)
    found, wanted = (one.sweep(r, weights, columns, gram=True, project=project) for one in (block, oracle))
    near(found.gradient, wanted.gradient, scale=scale)
    near(found.cross, wanted.cross, scale=scale)
    near(found.gram, wanted.gram, scale=square)
    if project:
        near(found.pull, wanted.pull, scale=scale)
    assert not block.sweep(None, weights, columns, gram=False).gradient.any()


@given(ANY, ROWS, st.booleans(), st.integers(0, 10**6))
@settings(deadline=None, max_examples=150)
def test_private_rows(kinds: list[str], rows: int, centred: bool, seed: int) -> None:
    kept, _ = made(kinds, rows, seed)
    plain, rng = kept.toarray(), np.random.default_rng(seed)
    centre = 0.1 * rng.normal(size=plain.shape[1]) if centred else None
    clip = RowClip(1.0, centre, 0.8 if centred else np.inf)
    one, other = clip.apply(make_block(kept)), clip.apply(Block(plain))
    weights, r, x = rng.random(rows), rng.normal(size=rows), rng.normal(size=plain.shape[1])
    for found, wanted in (
        (one.predict(x), other.predict(x)),
        (one.correlate(r), other.correlate(r)),
        (one.gram(weights), other.gram(weights)),
        (one.squares(), other.squares()),
        (np.asarray(one.matrix()), other.matrix()),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * rows)
    if not centred:
        matrix = one.matrix()
        assert isinstance(matrix, CurveMatrix)  # what is scaled down is not written out either
        assert np.linalg.norm(matrix.toarray(), axis=1).max() <= 1 + 1e-12
        again = make_block(matrix)
        np.testing.assert_allclose(again.gram(weights), other.gram(weights), rtol=0, atol=1e-9 * rows)
        np.testing.assert_allclose(again.correlate(r), other.correlate(r), rtol=0, atol=1e-9 * rows)


def test_a_public_curve_has_norm_one_for_every_cell() -> None:
    kept, _ = made(["fourier", "log fourier"], 40, 3)
    norms = make_block(kept).row_squares()
    np.testing.assert_allclose(norms, 2.0, rtol=1e-14)


def test_cells_take_less_than_they_did_in_the_file() -> None:
    kept, plain = made(["spline"] * 4, 40, 0)
    slots = sum(array.nbytes for one in kept.cells for array in one.arrays[:2])
    assert slots < 8 * 4 * 40 < plain.nbytes


def test_columns_side_by_side_and_rows_below_each_other() -> None:
    (one, plain), (two, other) = made(["spline", "number"], 30, 1), made(["fourier", "category"], 30, 2)
    joined = join_columns([Shard("a", one, ("x",)), Shard("b", two, ("y",))]).features
    assert isinstance(joined, CurveMatrix)
    near(joined.toarray(), np.hstack([plain, other]), PARTS)
    mixed = join_columns([Shard("a", one, ("x",)), Shard("b", other, ("y",))]).features
    near(mixed, np.hstack([plain, other]), PARTS)
    stacked = stack_rows([Shard("a", one[slice(0, 11)]), Shard("b", one[slice(11, None)])]).features
    assert isinstance(stacked, CurveMatrix)
    near(stacked.toarray(), one.toarray())


def test_fingerprints_tell_rows_apart() -> None:
    one, _ = made(["spline", "fourier", "category"], 30, 1)
    two = one[np.arange(30)[::-1]]
    scaled = CurveMatrix(one.cells, np.full(30, 0.5))
    prints = [fingerprint([Shard("a", m)], _labels())["parties"]["a"]["sha256"] for m in (one, one, two, scaled)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def _labels() -> Any:
    from tacit.data.labels import Labels

    return Labels(np.ones(30), (0, 1))


# --- Whole fits ---------------------------------------------------------------------------------------


def problem(seed: int = 0, rows: int = 600) -> tuple[list[tuple[CurveMatrix, Vector]], Vector]:
    sides = [made(kinds, rows, seed + k) for k, kinds in enumerate((["spline", "whole", "category"], ["spline"] * 2))]
    rng = np.random.default_rng(seed)
    score = sum(np.sin(5 * plain[:, 0]) + plain[:, -1] for _, plain in sides)
    return sides, np.where(score + rng.logistic(size=rows) > 0, 1.0, -1.0)


def fitted(matrices: list[Any], labels: Vector, **more: Any) -> Any:
    plan = feature_plan(
        **{
            "loss": "logistic", "penalty": "l2", "alpha": 1e-3, "fit_intercept": True, "method": "auto", "rho": "auto",
            "max_rounds": 200, "tol": 1e-12, "privacy": None, "party_names": ("bank", "shop"), "rows": len(labels),
            "input_bytes": 0, "columns": tuple(matrix.shape[1] for matrix in matrices), **more,
        }
    )  # fmt: skip
    shards = [Shard(name, matrix) for name, matrix in zip(("bank", "shop"), matrices, strict=True)]
    return Run(plan, shards, labels).go(), shards


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers", "sgd"])
def test_a_fit_is_that_of_the_sparse_rows(method: str) -> None:
    sides, labels = problem()
    few = {"max_rounds": 12} if method in ("averaged", "sgd") else {}
    kept, shards = fitted([one for one, _ in sides], labels, method=method, **few)
    plain, _ = fitted([sparse.csr_array(one.toarray()) for one, _ in sides], labels, method=method, **few)
    np.testing.assert_allclose(kept.model.coef, plain.model.coef, rtol=0, atol=1e-9 * np.abs(plain.model.coef).max())
    assert kept.trace[-1].objective == pytest.approx(plain.trace[-1].objective, rel=1e-9)
    scores = sum(part.score(one) for part, (_, one) in zip(kept.model.parts, sides, strict=True)) + kept.model.constant
    np.testing.assert_allclose(kept.model.scores(shards), scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("protect", ["others", "everyone"])
@pytest.mark.parametrize("predictions", ["anyone", "label-holder"])
def test_a_private_fit_is_that_of_the_rows(protect: str, predictions: str) -> None:
    if (protect, predictions) == ("others", "anyone"):
        predictions = "label-holder"
    own, other = made(["spline", "whole"], 600, 1), made(["fourier", "log fourier", "category"], 600, 2)
    labels = problem()[1]
    privacy = Privacy(epsilon=2.0, protect=protect, row_norm=2.0, predictions=predictions, noise_seed=1)
    plain = sparse.csr_array(own[0].toarray())
    # noise follows from what is answered: an own fit that is not private must be the same to the last bit
    first = own[0] if protect == "everyone" else plain
    fits = [
        fitted(matrices, labels, privacy=privacy, max_rounds=10, tol=1e-6)[0]
        for matrices in ([first, other[0]], [plain, other[0].toarray()])
    ]
    shards = [Shard("bank", own[0]), Shard("shop", other[0])]
    scores = [fit.model.scores(shards) for fit in fits]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-4)


def test_an_own_fit_of_a_label_holder_whose_rows_nobody_protects() -> None:
    own, other = made(["spline", "whole"], 600, 1), made(["fourier"], 600, 2)
    labels = problem()[1]
    problem_, methods = _own_problem(labels, own[1].shape[1])
    fits, folds = [], []
    for block in (make_block(own[0]), Block(own[0].toarray())):
        fits.append(fit_alone(problem_, block, labels, methods))
        folds.append(out_of_fold(problem_, block, labels, methods, 5, whole=fits[-1]))
    np.testing.assert_allclose(fits[0].coef, fits[1].coef, rtol=0, atol=1e-6 * np.abs(fits[1].coef).max())
    np.testing.assert_allclose(folds[0], folds[1], rtol=0, atol=1e-4)
    privacy = Privacy(epsilon=8.0, protect="others", row_norm=1.0, noise_seed=1)
    private, shards = fitted([own[0], other[0]], labels, privacy=privacy, max_rounds=10, tol=1e-6)
    alone = fits[0].predict(make_block(own[0]))
    loss = [float(np.mean(np.logaddexp(0, -labels * scores))) for scores in (private.model.scores(shards), alone)]
    assert loss[0] < loss[1] + 0.05


def _own_problem(labels: Vector, columns: int) -> Any:
    plan = feature_plan(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, method="memory", rho="auto", max_rounds=100,
        tol=1e-9, privacy=None, party_names=("bank",), rows=len(labels), input_bytes=0, columns=(columns,),
    )  # fmt: skip
    return plan.problem, (plan.solver,)


def test_a_job_is_the_same_however_rows_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holdout, search, evaluation, prediction: what a job does with rows works on curves that are not written out."""
    rng = np.random.default_rng(5)
    raw = {name: np.round(rng.normal(size=400), 2) for name in ("x", "z")}
    labels = (np.sin(2 * raw["x"]) + raw["z"] ** 2 + rng.logistic(size=400) > 1).astype(int)
    for name, own, more in (("bank", "x", {"y": labels}), ("shop", "z", {})):
        table = {"id": np.arange(400), own: raw[own], **more}
        lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    (tmp_path / "job.toml").write_text(
        '[job]\nname = "pair"\nholdout = 0.2\nseed = 1\n[model]\nterms = "spline"\n[search]\nalphas = [1e-3, 1e-4]\n'
        '[[party]]\nname = "bank"\ndata = "bank.csv"\nid = "id"\nlabel = "y"\n'
        '[[party]]\nname = "shop"\ndata = "shop.csv"\nid = "id"\n'
    )
    found = []
    for number, least in enumerate((0, 10**9)):
        monkeypatch.setattr(encoder, "COMPACT_FROM", least)
        run = run_job(tmp_path / "job.toml", tmp_path / f"run{number}")
        new = {name: tmp_path / f"{name}.csv" for name in ("bank", "shop")}
        record = json.loads((tmp_path / f"run{number}" / "evaluation.json").read_text())
        found.append((run.predict(new).score, record))
    (one, told), (two, said) = found
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)
    assert told["columns"]["bank"]["x"] == pytest.approx(said["columns"]["bank"]["x"], rel=1e-4)
    losses = [[line["measures"]["log_loss"] for line in record["models"]] for record in (told, said)]
    assert len(losses[0]) == 4  # joint, each party alone, pooled
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


ESTIMATORS = {
    "rows": lambda: HorizontalClassifier(parties=3, terms="spline", max_rounds=30),
    "path": lambda: VerticalClassifierCV(alphas=[1e-2, 1e-3], terms="spline"),
}


def frame() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["x", "z"])
    return X, np.where(np.sin(2 * X["x"]) + X["z"] ** 2 + rng.logistic(size=300) > 1, 1, 0)


@pytest.mark.parametrize("case", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:not converged")
def test_an_estimator_is_the_same_however_rows_are_kept(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = frame()
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr(encoder, "COMPACT_FROM", least)
        found.append(ESTIMATORS[case]().fit(X, y).decision_function(X))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-4)


def test_private_rows_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise follows from what is answered, to the last bit: what can be compared is how good the models are."""
    X, y = frame()
    privacy, losses = Privacy(epsilon=100.0, noise_seed=1), []
    for least in (0, 10**9):
        monkeypatch.setattr(encoder, "COMPACT_FROM", least)
        model = HorizontalClassifier(parties=3, terms="spline", ranges=dict.fromkeys("xz", (-4, 4)), privacy=privacy)
        losses.append(float(np.mean(np.logaddexp(0, (1 - 2 * y) * model.fit(X, y).decision_function(X)))))
    assert losses[0] == pytest.approx(losses[1], abs=0.02)
    assert max(losses) < 0.62

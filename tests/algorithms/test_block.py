"""A block agrees with the plain matrix it stands for, however it is stored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tacit.blocks.dense import Block, CurvatureSolver, without_noise


def make(kind: str, seed: int = 0, shape: tuple[int, int] = (70, 9)) -> tuple[object, np.ndarray]:
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=shape) * (rng.random(shape) < 0.4) + (np.arange(shape[1]) == 2)
    stored = {
        "dense": plain,
        "fortran": np.asfortranarray(plain),
        "float32": plain.astype(np.float32),
        "csr": sparse.csr_array(plain),
        "csc": sparse.csc_array(plain),
        "unsorted": _unsorted(plain),
    }[kind]
    return stored, plain


def _unsorted(plain: np.ndarray) -> sparse.csr_array:
    """CSR with a duplicate entry and indices out of order."""
    coo = sparse.coo_array(plain)
    order = np.random.default_rng(1).permutation(coo.nnz)
    row, col, data = coo.row[order], coo.col[order], coo.data[order]
    row, col = np.append(row, row[0]), np.append(col, col[0])
    data = np.append(data, 0.25 * data[0])
    data[0] *= 0.75
    indptr = np.zeros(plain.shape[0] + 1, dtype=int)
    np.add.at(indptr, row + 1, 1)
    by_row = np.argsort(row, kind="stable")
    return sparse.csr_array((data[by_row], col[by_row], np.cumsum(indptr)), shape=plain.shape)


KINDS = ["dense", "fortran", "float32", "csr", "csc", "unsorted"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [False, True])
def test_products_and_grams(kind: str, centred: bool) -> None:
    stored, plain = make(kind)
    rng = np.random.default_rng(2)
    weights = rng.random(70) * (rng.random(70) < 0.9)
    block = Block(stored)
    if centred:
        block.set_centre(weights)
        plain = plain - weights @ plain / weights.sum()
    x, r, columns = rng.normal(size=9), rng.normal(size=70), rng.normal(size=(70, 3))
    close = {"rtol": 1e-5, "atol": 1e-5} if kind == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(block.predict(x), plain @ x, **close)
    np.testing.assert_allclose(block.correlate(r), plain.T @ r, **close)
    np.testing.assert_allclose(block.gram(weights), (plain.T * weights) @ plain, **close)
    np.testing.assert_allclose(block.gram(), plain.T @ plain, **close)
    np.testing.assert_allclose(block.outer(), plain @ plain.T, **close)
    np.testing.assert_allclose(block.correlate_columns(weights, columns), (plain.T * weights) @ columns, **close)
    rows = np.array([3, 3, 60])
    np.testing.assert_allclose(block.take(rows).predict(x), (plain @ x)[rows], **close)
    projected = plain - weights @ plain / weights.sum()
    np.testing.assert_allclose(block.gram(weights, project=True), (projected.T * weights) @ projected, **close)


def test_a_constant_column_is_exactly_zero_after_centring() -> None:
    X = np.column_stack([np.full(1000, 1e6 / 3), np.arange(1000.0)])
    for stored in (X, sparse.csr_array(X)):
        block = Block(stored)
        block.set_centre(None)
        gram = block.gram()
        assert gram[0, 0] == gram[0, 1] == gram[1, 0] == 0.0
        assert gram[1, 1] == pytest.approx(np.var(X[:, 1]) * 1000, rel=1e-9)


def test_the_caller_s_matrix_is_left_alone() -> None:
    stored, _ = make("unsorted")
    before = stored.indices.copy()
    Block(stored).gram()
    np.testing.assert_array_equal(stored.indices, before)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), wide=st.booleans(), project=st.booleans(), ridge=st.floats(1e-3, 1e3))
def test_curvature_solver_solves_and_multiplies(seed: int, wide: bool, project: bool, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=(12, 30) if wide else (30, 12))
    weights = rng.random(len(plain)) + 1e-3
    block = Block(plain)
    solver = CurvatureSolver(block, weights, ridge, project=project, outer=block.outer() if wide else None)
    mean = weights @ plain / weights.sum() if project else 0.0
    gram = ((plain - mean).T * weights) @ (plain - mean)
    B = rng.normal(size=(plain.shape[1], 2))
    np.testing.assert_allclose(solver.times(B), gram @ B, atol=1e-9)
    np.testing.assert_allclose(solver.times(B[:, 0]), gram @ B[:, 0], atol=1e-9)
    expected = np.linalg.solve(gram + ridge * np.eye(len(gram)), B)
    np.testing.assert_allclose(solver.solve(B), expected, rtol=1e-6, atol=1e-8)
    steps = rng.normal(size=(len(plain), 3))
    shift = weights @ steps / weights.sum() if project else 0.0
    crossed = ((plain - mean).T * weights) @ (steps - shift)
    np.testing.assert_allclose(solver.cross_columns(steps), crossed, atol=1e-9)
    np.testing.assert_allclose(solver.cross(steps[:, 1]), crossed[:, 1], atol=1e-9)


def test_a_gram_matrix_without_its_noise_is_nearer_to_the_truth_and_keeps_its_trace() -> None:
    rng = np.random.default_rng(0)
    truth = np.diag(np.r_[np.full(5, 20.0), np.full(35, 1.0)])
    truth[0, 1] = truth[1, 0] = 15.0
    noise = rng.normal(size=truth.shape)
    noisy = truth + (noise + noise.T) / np.sqrt(2)
    likely = without_noise(noisy, 1.0)
    assert np.linalg.eigvalsh(likely)[0] > -1e-9
    assert np.linalg.norm(likely - truth) < 0.5 * np.linalg.norm(noisy - truth)
    assert abs(np.trace(likely) - np.trace(noisy)) < 1e-9 * np.trace(noisy)
    assert not without_noise(-truth, 1.0).any()

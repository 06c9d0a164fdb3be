"""The tuned private peers: without noise they reach the optimum, and their noise is what their theorems ask."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from bench import central_peers as peers
from bench import private_peers
from bench.curve_peers import DELTA
from bench.curve_sets import QUICK
from bench.private_peers import GIVEN, LEVEL, LOST, TACIT, WON, Scored, counted, draw_cells, judged, markdown
from tacit.privacy import accountant
from tacit.privacy.events import GaussianRelease

NO_NOISE = 1e8  # epsilon


def made(task="classification", rows=2000, columns=4, seed=0):
    """Rows of norm 1 with a constant; labels of a linear model with noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, columns)), np.full(rows, 0.7)])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ np.linspace(-2, 3, columns + 1)
    if task == "classification":
        y = np.where(rng.random(rows) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    else:
        y = np.clip(0.2 * scores + 0.1 * rng.normal(size=rows), -1, 1)
    return peers.Table(X, y, X, y, task)


def optimum(one):
    """Coefficients of least mean log loss, by scipy."""
    found = minimize(lambda x: float(np.logaddexp(0, -one.y * (one.X @ x)).mean()), np.zeros(one.X.shape[1]), tol=1e-12)
    return found.x


# --- without noise ---------------------------------------------------------------------------------------


def test_newton_without_noise_reaches_the_optimum():
    one = made()
    coef = peers.newton_coef(one, NO_NOISE, 60, 1e-2, 0.5, seed=0)
    np.testing.assert_allclose(coef, optimum(one), atol=2e-3)


def test_gradients_without_noise_come_near_the_optimum():
    one = made()
    least = float(one.losses(optimum(one)[:, None])[0])
    found = peers.gradients(one, [NO_NOISE], seed=0)[NO_NOISE]
    assert least - 1e-9 <= min(found.values()) <= least + 1e-4


def test_adassp_without_noise_is_least_squares():
    one = made("regression")
    wanted = np.linalg.lstsq(one.X, one.y)[0]
    np.testing.assert_allclose(peers.adassp_coef(one, NO_NOISE, 1.0, seed=0), wanted, atol=1e-3)


def test_gradients_of_residuals_without_noise_come_near_least_squares():
    one = made("regression")
    least = float(one.losses(np.linalg.lstsq(one.X, one.y)[0][:, None])[0])
    assert min(peers.gradients(one, [NO_NOISE], seed=0)[NO_NOISE].values()) <= least * 1.01


# --- the noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_every_account_is_what_was_asked(epsilon):
    n, steps, ridge = 500, 7, 0.02
    first, second = peers.newton_sds(epsilon, n, steps, ridge, 0.8)
    inverse = 1 / (4 * n * ridge**2 + ridge)
    least, gram, product = peers.adassp_sds(epsilon)
    for events in (
        [GaussianRelease(2.0, peers.gradient_sd(epsilon, steps), steps)],
        [GaussianRelease(2 / n, first, steps), GaussianRelease(inverse, second, steps)],
        [GaussianRelease(1.0, least), GaussianRelease(math.sqrt(2), gram), GaussianRelease(2.0, product)],
    ):
        assert accountant.epsilon(events, DELTA) == pytest.approx(epsilon, rel=1e-6)


def test_a_replaced_row_moves_an_inverse_hessian_by_what_the_noise_is_for_and_some_nearly_so():
    rng, n, ridge = np.random.default_rng(0), 40, 0.05
    most, bound = 0.0, 1 / (4 * n * ridge**2 + ridge)
    for empty in (False, True):
        for _ in range(50):
            others = np.zeros((n - 1, 3)) if empty else rng.normal(size=(n - 1, 3))
            rows = [x / np.linalg.norm(x) for x in rng.normal(size=(2, 3))]
            hessians = [(0.25 * others.T @ others + 0.25 * np.outer(x, x)) / n + ridge * np.eye(3) for x in rows]
            most = max(most, float(np.linalg.norm(np.linalg.inv(hessians[0]) - np.linalg.inv(hessians[1]), 2)))
            assert most <= bound * (1 + 1e-12)
    assert most > 0.99 * bound


def test_the_noise_that_is_added_has_the_deviations_that_are_stated():
    empty = peers.Table(np.zeros((10, 400)), np.ones(10), np.zeros((1, 400)), np.ones(1), "classification")
    first, second = peers.newton_sds(1.0, 10, 1, 0.5, 0.5)
    moved = peers.newton_coef(empty, 1.0, 1, 0.5, 0.5, seed=0)
    gradient = first * np.random.default_rng(0).standard_normal(400)
    left = moved + gradient / 0.5  # the Hessian of empty rows is the ridge
    assert left.std() == pytest.approx(second * float(np.linalg.norm(gradient)), rel=0.12)


def test_the_noise_of_adassp_has_the_deviations_that_are_stated():
    empty = peers.Table(np.zeros((10, 300)), np.ones(10), np.zeros((1, 300)), np.ones(1), "regression")
    _, gram, product = peers.adassp_sds(1.0)
    penalty = (
        1e4 * gram * math.sqrt(300 * math.log(2 * 300**2 / peers.FAILS))
    )  # so large that the Gram matrix is nothing
    coef = peers.adassp_coef(empty, 1.0, 1e4, seed=0)
    assert (penalty * coef).std() == pytest.approx(product, rel=0.15)


def test_noise_on_a_sum_of_gradients_reaches_the_model(monkeypatch):
    monkeypatch.setattr(peers, "STEPS", (1,))
    seen = {}
    empty = peers.Table(np.zeros((10, 3000)), np.ones(10), np.eye(1, 3000), np.ones(1), "classification")
    monkeypatch.setattr(peers.Table, "losses", lambda self, coefs: seen.setdefault("coefs", coefs)[0] * 0 + 1.0)
    peers.gradients(empty, [1.0], seed=0)
    assert seen["coefs"][:, 0].std() == pytest.approx(peers.RATES[0] / 10 * peers.gradient_sd(1.0, 1), rel=0.05)


# --- tables and verdicts -------------------------------------------------------------------------------


def test_rows_of_peers_are_no_longer_than_their_account():
    one = QUICK["mixed"]
    cut = one.cut(0)
    for pairs in (peers.LINES, *peers.PAIRS):
        norms = np.linalg.norm(peers.table(one, cut, pairs).X, axis=1)
        assert norms.max() <= 1 + 1e-12
        assert norms.max() > 0.9


def test_level_is_within_one_standard_error_run_by_run():
    rival = [0.5, 0.6, 0.7]
    assert judged([0.4, 0.5, 0.6], rival) == WON
    assert judged([0.51, 0.61, 0.71], rival) == LOST
    assert judged([0.52, 0.59, 0.70], rival) == LEVEL
    assert judged([0.5], [0.4]) == LOST


def cells():
    verdicts = ((WON, WON), (LEVEL, LOST), (WON, LEVEL), (LOST, LOST))
    losses = {TACIT: (0.5, 0.51), "DP-EBM": (0.55, 0.56), f"noisy gradients{GIVEN}": (0.5, 0.52)}
    return [
        Scored(f"s{i}", "", 0.5, set=f"s{i // 2}", epsilon=float(1 + i % 2), verdict=a, given=b, losses=losses)
        for i, (a, b) in enumerate(verdicts)
    ]


def test_cells_are_counted_won_level_and_lost():
    plain, given = counted(cells(), judged=True)
    assert plain.measured == "at least level in 3 of 4 cells (75%): won 2, level 1, LOST 1"
    assert plain.met is False
    assert given.measured == "at least level in 2 of 4 cells (50%): won 1, level 1, LOST 2"
    assert given.met is None


def test_the_page_and_the_picture_have_every_cell(tmp_path):
    records = [cell.record() for cell in cells()]
    lines = markdown(records).splitlines()
    assert len(lines) == 2 + len(records)
    assert lines[3] == f"| s0 | 2 | 0.5050 ± 0.0050 | 0.5550 ± 0.0050 | 0.5100 ± 0.0100 | {LEVEL} | {LOST} |"
    draw_cells(records, tmp_path / "peers.svg")
    text = (tmp_path / "peers.svg").read_text()
    assert all(f'"set": "{cell.set}"' in text.replace("&quot;", '"') for cell in cells())


def test_a_cell_takes_the_setting_with_the_least_mean_and_keeps_what_was_measured(monkeypatch, tmp_path):
    calls = []

    def measure(one, cut, epsilons, seed):
        calls.append(seed)
        return {epsilon: {"slow": 0.7, "fast": 0.6 + 0.2 * seed} for epsilon in epsilons}

    monkeypatch.setattr(private_peers, "PEERS", (private_peers.Peer("toy", ("classification",), measure),))
    monkeypatch.setattr(private_peers, "_own", lambda one, cuts, key, epsilon, runs: (0.5,) * runs)
    for _ in range(2):
        private_peers.choose([], [], 2, [1.0], tmp_path / "kept.jsonl")
        rows = list(private_peers._set_rows(QUICK["waves"], quick=False))
        cell = next(row for row in rows if isinstance(row, Scored))
        assert cell.settings == {"toy": "slow"}
        assert (cell.losses["toy"], cell.verdict) == ((0.7, 0.7), WON)
    assert calls == [0, 1]
    private_peers.choose([], [], None, [], None)

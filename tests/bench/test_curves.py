"""The comparison of lines and curves: what is public, what counts as won, and what DP-EBM is given."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from bench import curves
from bench.curve_peers import DELTA, own_epsilon
from bench.curve_sets import QUICK, SETS, Cut, missing
from bench.curves import Measured, Told, _against
from bench.outlook import NOT_WORTH, WORTH
from tacit.errors import InputError

ALL = {**SETS, "adult-small": QUICK["adult-small"]}


def delta_of(mu: float, epsilon: float) -> float:
    """Of Gaussian noise, in closed form."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("name", ALL)
def test_every_column_is_public_and_held_once(name):
    one = ALL[name]
    if missing(one):
        pytest.skip(missing(one))
    cut = one.cut(0)
    assert not set(one.ranges) & set(one.lists)
    assert set(cut.train) == set(cut.test) == {*one.ranges, *one.lists}
    assert all(low < high for low, high in one.ranges.values())
    assert all(len(set(words)) == len(words) for words in one.lists.values())
    parties = cut.parties(cut.train)
    assert sorted(column for frame in parties.values() for column in frame) == sorted(cut.train)
    assert len(cut.train) == len(cut.y)
    assert len(cut.test) == len(cut.y_test)
    for column, words in one.lists.items():
        assert set(cut.train[column].dropna()) <= set(words)


@pytest.mark.parametrize("name", ["waves", "friedman", "mixed", "linear"])
def test_runs_of_a_generated_set_are_other_rows_and_can_be_repeated(name):
    first, again, other = (SETS[name].cut(seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.y, again.y)
    assert first.train.equals(again.train)
    assert not np.array_equal(first.y, other.y)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_dp_ebm_spends_epsilon_on_one_row_replaced(epsilon):
    """Its noise at the epsilon that it is given, read as an accountant of Gaussian noise reads it."""
    privacy = pytest.importorskip("interpret.utils._privacy")
    own = own_epsilon(epsilon)
    queries = 7  # of each kind; the noise grows with their number, so that it does not matter
    binning, trees = (
        math.sqrt(queries) / privacy.calc_gdp_noise_multi(queries, share * own, DELTA / 2) for share in (0.1, 0.9)
    )
    spent = math.hypot(math.sqrt(2) * binning, 2 * trees)  # two counts by 1 each; one sum by 2
    assert delta_of(spent, epsilon) == pytest.approx(DELTA, rel=1e-4)
    assert own < epsilon


def test_won_is_more_than_chance():
    """Run by run: rows that are harder for both do not hide who is better."""
    rival, noise = Measured(np.array([0.5, 0.9, 0.1])), np.array([0.01, -0.01, 0.0])
    for change, word in ((-0.02, "won"), (0.02, "lost"), (0.004, "level")):
        assert _against(Measured(rival.losses + noise + change), {"it": rival}).endswith(f"of it ({word})")
    alone = Measured(np.array([0.5]))
    assert _against(Measured(np.array([0.4, 0.45])), {"it": alone}) == "0.850 of it (won)"


def test_most_runs_must_have_said_it():
    said, silent = Told(NOT_WORTH, False), Told(WORTH, False)
    assert Measured(np.ones(3), (said, said, silent)).warned
    assert Measured(np.ones(3), (Told(WORTH, True),) * 3).warned
    assert not Measured(np.ones(2), (said, silent)).warned


def test_unknown_sets_and_cells_are_refused(monkeypatch):
    monkeypatch.setattr(curves, "_chosen", curves.Chosen())
    with pytest.raises(InputError, match="there is no set 'adlt': choose from adult, adult-even"):
        curves.choose(["adlt"], [], None)
    with pytest.raises(InputError, match="there is no cell 'B': choose from peers, none, A, C, nodes, star"):
        curves.choose([], ["B"], None)


def test_every_cell_of_a_set_is_printed(monkeypatch):
    whole = QUICK["mixed"].cut(0)
    small = Cut(whole.train[:600], whole.y[:600], whole.test[:600], whole.y_test[:600])
    monkeypatch.setattr(curves, "QUICK", {"mixed": replace(QUICK["mixed"], cut=lambda _: small)})
    rows = curves.run(quick=True)
    names = [row.name for row in rows]
    for cell in curves.CELLS.values():
        found = [name for name in names if cell.name in name]
        assert any(name.endswith("linear") for name in found), cell
        assert any(name.endswith("spline") for name in found), cell
    values = [row.value for row in rows if row.value is not None]
    assert len(values) > 15
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert all(row.met is None for row in rows)

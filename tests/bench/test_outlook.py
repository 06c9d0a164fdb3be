"""The bench counts what runs say; it must understand the sentences that they print."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bench.outlook import NOT_WORTH, SILENT, UNKNOWN, WORTH, counted, told_by
from tacit import Privacy, VerticalClassifier
from tacit.mechanisms.base import CURVES_OR_LINES
from tacit.mechanisms.gram.fit import Gain


@pytest.mark.parametrize(("change", "verdict"), [(-0.1, WORTH), (0.1, NOT_WORTH), (0.01, UNKNOWN)])
def test_every_verdict_is_understood(change, verdict):
    gain = Gain(0.5, change, 0.02)
    assert gain.verdict == verdict
    assert told_by((gain.sentence("party 1"), "something else")).verdict == verdict


def test_sizes_that_speak_against_a_run_are_seen():
    X = np.random.default_rng(0).normal(size=(60, 8))
    y = X[:, 0] > 0
    few = VerticalClassifier(privacy=Privacy(epsilon=0.1, noise_seed=0)).fit(X, y)
    assert told_by(few.outlook_).sizes_against
    assert not told_by(("noise level 0.001 (up to 0.05 it is fine)",)).sizes_against


def test_counts_are_shown():
    said = counted([told_by((Gain(0.5, -0.1, 0.01).sentence("a"),)), told_by(())])
    assert said == f"{WORTH} 1, {SILENT} 1; sizes against it 0 (of 2 runs)"


def test_a_level_of_noise_that_is_doubtful_where_everyone_is_protected_is_seen():
    rng = np.random.default_rng(0)
    X = {"a": pd.DataFrame({"x": rng.uniform(size=3000)}), "b": pd.DataFrame({"z": rng.uniform(size=3000)})}
    y, ranges = X["a"]["x"] > rng.uniform(size=3000), {"x": (0, 1), "z": (0, 1)}
    asked = {"epsilon": 1.0, "noise_seed": 0}
    everyone = Privacy(protect="everyone", predictions="label-holder", **asked)
    told = [
        VerticalClassifier(privacy=privacy, terms=terms, ranges=ranges).fit(X, y).outlook_
        for privacy, terms in ((everyone, "spline"), (Privacy(**asked), "spline"))
    ]
    assert [told_by(one).doubtful for one in told] == [True, False]
    assert all(CURVES_OR_LINES in one for one in told)
    assert not any("trees of these" in line for line in told[0])
    assert any("trees of these" in line for line in told[1])
    lines = VerticalClassifier(privacy=Privacy(row_norm=1.0, **asked), ranges=ranges).fit(X, y).outlook_
    assert CURVES_OR_LINES not in lines
    assert not any("trees of these" in line for line in lines)

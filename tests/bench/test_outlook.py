"""The bench counts what runs say; it must understand the sentences that they print."""

from __future__ import annotations

import numpy as np
import pytest

from bench.outlook import NOT_WORTH, SILENT, UNKNOWN, WORTH, counted, told_by
from tacit import Privacy, VerticalClassifier
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

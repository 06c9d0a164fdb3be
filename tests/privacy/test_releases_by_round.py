"""Noise in the rounds of a graph: the same for the same messages, another for others, also rounds later."""

from __future__ import annotations

import numpy as np

from tacit.privacy.releases import Allowed, Releaser
from tacit.types import Message, Vector


def played(first: float, *, pause: bool = False) -> Vector:
    """Noise of round 3, in which nothing is heard, after a neighbour said `first` in round 1."""
    releaser = Releaser([Allowed("model", 1.0, 3)], "node", seed=1)
    releaser.begin_round(2, {"other": Message("other", 1, {"z": np.array([first])})})
    if pause:
        state = releaser.state()
        releaser = Releaser([Allowed("model", 1.0, 3)], "node", seed=1)
        releaser.restore(state)
    releaser.begin_round(3, {"other": Message("other", 2, {})})
    return releaser.add("model", np.zeros(5))


def test_noise_belongs_to_all_that_was_heard() -> None:
    assert not np.any(played(0.5) == played(0.25))


def test_a_pause_changes_nothing() -> None:
    np.testing.assert_array_equal(played(0.5), played(0.5, pause=True))


def test_rounds_have_their_own_noise() -> None:
    releaser, found = Releaser([Allowed("model", 1.0, 2)], "node", seed=1), []
    for round_ in (1, 2):
        releaser.begin_round(round_, {})
        found.append(releaser.add("model", np.zeros(5)))
    assert not np.any(found[0] == found[1])

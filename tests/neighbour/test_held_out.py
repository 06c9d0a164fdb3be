"""Rows that are held out and evaluated by a planned release: neither they nor the others show."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, NeighbourFindings, Scope, Way, neighbour_test
from tacit.cli.main import main
from tacit.data.holdout import held_rows
from tacit.mechanisms.gram import sides
from tests.neighbour.worlds import ROWS, held_world

PLACES = (0, ROWS - 1, ROWS // 2)  # the records that a turn changes
HELD = held_rows(ROWS, 0.3, 1)[list(PLACES)]
TRAINED_TURN, HELD_TURN = (int(np.flatnonzero(held == HELD)[0]) for held in (False, True))


def played(where: str, turn: int, *, restarts: bool = False, seed: int | None = 1, most: int = 3) -> NeighbourFindings:
    scope = Scope((Way(where, restarts),), most=most, parties=2, turn=turn)
    return neighbour_test(held_world("dense", seed), main, scope)


@pytest.mark.parametrize("where", [IN_PROCESS, BETWEEN])
@pytest.mark.parametrize("turn", [TRAINED_TURN, HELD_TURN], ids=["trained", "held out"])
def test_neither_a_row_trained_on_nor_one_held_out_shows(where: str, turn: int) -> None:
    found = played(where, turn)
    assert found.comparisons > 100
    assert found.passed, "\n".join(map(str, found.differences[:10]))
    assert 0.02 < found.ratio <= 1 + 1e-9


def test_nor_when_everybody_dies_after_every_step() -> None:
    found = played(BETWEEN, HELD_TURN, restarts=True, most=1)
    assert found.passed, "\n".join(map(str, found.differences[:10]))


def test_nor_where_both_match_ids_and_make_the_key_together() -> None:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    found = played(BETWEEN, 0, seed=None, most=1)
    assert found.passed, "\n".join(map(str, found.differences[:10]))


def test_exact_scores_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sides.held_answer

    def exact(scores: np.ndarray, *rest: object) -> dict[str, np.ndarray]:
        answer = plain(scores, *rest)
        return answer | {"difference": answer["difference"] + [0.0, float(scores.sum())]}

    monkeypatch.setattr(sides, "held_answer", exact)
    assert not played(BETWEEN, HELD_TURN).passed

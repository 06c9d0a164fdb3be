"""A coordinator that tells different parties different things gets noise: masks cancel among those who saw the same.

The attacker is the coordinator of a feature split, or the middle of a star, with software of its own. It sends one
party what it wants answered and the others what makes their answers zero, and would read that one party in the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.run.masking import point_of, unmask
from tacit.run.star import Run, Star
from tacit.solvers.consensus.base import DOWN, UP
from tacit.types import Message, Vector
from tests.runtime.masked_runs import copied, problem
from tests.runtime.test_graph_masks import make_run


def asked() -> tuple[Run, Message, Message]:
    """A run under masks whose keys are agreed on, an honest broadcast, and one that makes every answer zero."""
    run = Run(*problem("averaged"))
    run.agree()
    message = run.coordinator.broadcast(1)
    silent = {name: np.zeros_like(a) if a.size > 100 else a for name, a in message.arrays.items()}
    return run, message, Message(message.sender, message.round, silent, message.kind)


def read(answers: list[Message], parties: tuple[str, ...]) -> Vector | None:
    """What the attacker reads of the answers: their sum, or nothing where the masks do not cancel."""
    try:
        return unmask(answers, parties)["share"]
    except RunError as refusal:
        if "did not cancel" in str(refusal):
            return None
        raise


def test_an_honest_broadcast_still_gives_the_sum() -> None:
    run, message, _ = asked()
    total = read([party.answer(message) for party in run.parties], run.coordinator.party_names)
    plain = Run(*problem("averaged", secure=False))
    bare = sum(party.answer(plain.coordinator.broadcast(1)).arrays["share"] for party in plain.parties)
    assert total is not None
    np.testing.assert_allclose(total, bare, rtol=0, atol=1e-12 * np.abs(bare).max())


def test_one_party_cannot_be_read_by_asking_the_others_for_nothing() -> None:
    """The attack: everybody but one is asked something whose answer is zero, so that the sum is the one's share."""
    run, message, silent = asked()
    plain = Run(*problem("averaged", secure=False))
    victim = plain.parties[0].answer(message).arrays["share"]
    assert not any(party.answer(silent).arrays["share"].any() for party in plain.parties[1:])
    answers = [party.answer(message if number == 0 else silent) for number, party in enumerate(run.parties)]
    total = read(answers, run.coordinator.party_names)
    assert total is None or not np.allclose(total, victim)


def test_what_was_told_earlier_counts_too() -> None:
    """The attack in two rounds: the answer to the same broadcast depends on what was broadcast before."""
    run, message, silent = asked()
    for number, party in enumerate(run.parties):
        party.answer(message if number == 0 else silent)
    second = Message(message.sender, 2, message.arrays, message.kind)
    assert read([party.answer(second) for party in run.parties], run.coordinator.party_names) is None


def test_an_answer_that_is_sent_again_after_a_restart_still_adds_up() -> None:
    """One party was restarted with its state after the round, one with that before it: both bind to the same."""
    run, message, _ = asked()
    before = {k: v.copy() for k, v in run.parties[0].state().items()}
    made = [dict(party.work(message)) for party in run.parties]
    after = {k: v.copy() for k, v in run.parties[1].state().items()}
    run.parties[0].restore(before)
    run.parties[1].restore(after)
    run.parties[2].restore({k: v.copy() for k, v in run.parties[2].state().items()})
    Star.agree(run)
    run.parties[0].work(message)
    answers = [party.send(message, arrays) for party, arrays in zip(run.parties, made, strict=True)]
    total = read(answers, run.coordinator.party_names)
    assert total is not None
    bare = np.sum([arrays["share"] for arrays in made], axis=0)
    np.testing.assert_allclose(total, bare, rtol=0, atol=1e-12 * np.abs(bare).max())
    with pytest.raises(RunError, match="never used twice"):
        run.parties[0].send(message, made[0])


def test_a_run_that_goes_on_from_a_checkpoint_ends_like_one_that_never_stopped() -> None:
    whole = Run(*problem("averaged")).go()
    first = Run(*problem("averaged"))
    kept: list[tuple[Any, Any]] = []
    first.go(checkpoint=lambda run: kept.append(copied(run)))
    second = Run(*problem("averaged"))
    second.restore(*kept[2])
    again = second.go()
    for one, other in zip(whole.model.parts, again.model.parts, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-8)


def test_masks_of_two_runs_never_cancel() -> None:
    """Answers of one run cannot be mixed into another, even if the keys were the same."""
    from tacit.privacy.aggregation import MaskingParty

    def meet(runs: tuple[str, str]) -> list[MaskingParty]:
        parties = [MaskingParty(name, run) for name, run in zip("ab", runs, strict=True)]
        for one, other in (parties, parties[::-1]):
            one.agree({other.name: other.public_bytes})
        return parties

    point, zeros = point_of("share"), np.zeros(5)
    same, apart = meet(("run 1", "run 1")), meet(("run 1", "run 2"))
    both = [
        {p.name: Message(p.name, 1, {"share": p.mask(1, "share", zeros, point)}) for p in ps} for ps in (same, apart)
    ]
    assert read(list(both[0].values()), ("a", "b")) is not None
    assert read(list(both[1].values()), ("a", "b")) is None


def test_the_middle_of_a_star_cannot_ask_one_node_something_else() -> None:
    """The attack: another sum is sent back to one node, whose next gradient then stands out in the total."""
    run = make_run()
    run.engine.exchange(1)
    run.engine.exchange(2)
    middle, leaves = run.nodes[0], run.nodes[1:]
    inboxes = {leaf.name: dict(run.engine.inboxes[leaf.name]) for leaf in leaves}
    honest = inboxes[leaves[0].name][middle.name]
    lie = {name: a + 1000.0 if name == DOWN else a for name, a in honest.arrays.items()}
    inboxes[leaves[0].name][middle.name] = Message(middle.name, honest.round, lie, honest.kind)
    sent = {leaf.name: leaf.answer(3, inboxes[leaf.name])[middle.name] for leaf in leaves}
    assert all(UP in message.arrays for message in sent.values())
    middle.answer(3, run.engine.inboxes[middle.name])
    with pytest.raises(RunError, match="did not cancel"):
        middle.answer(4, sent)

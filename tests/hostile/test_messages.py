"""Messages of odd form, each refused by its form: names that files or fingerprints mix up, vectors that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.federation.node_handler import NodeHandler
from tacit.federation.party_handler import PartyHandler
from tacit.federation.protocol import Answer, Numbers, Packet, Play, Put, Reason, Refused, Step, decode_request, encode
from tacit.privacy.releases import Releaser, arrays_digest
from tests.federation import test_sites_graph as graph
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

NAMES = ("labels\0", "a b", "x/y", "", "..", "q.npy", "_q", "1q", "\u00e9", "q\n", "q" * 101)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_an_array_that_something_could_mix_up_is_refused(name: str) -> None:
    """In a zip file a name ends at its first NUL: labels\\0 was read as labels, after the check of labels."""
    message = Answer(message=Packet(1, "step", {name: Numbers.of(np.zeros(3))}))
    with pytest.raises(RunError, match="cannot be read"):
        decode_request(encode(message))


@pytest.mark.parametrize("name", ["q float64 (4,) ", "q\0", "q\n"])
def test_a_name_that_could_make_two_messages_alike_has_no_fingerprint(name: str) -> None:
    """With a blank in a name, the name could hold the numbers of another message: masks bound to both would cancel."""
    with pytest.raises(RunError, match="a name of an array"):
        arrays_digest({name: np.arange(4.0)})


def test_a_protected_party_keeps_of_a_message_what_it_has_checked(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    text = star.job_text(files, "flare", **star.CASES["private"])
    loop = Loopback(files, tmp_path / "sites")
    lead = loop.sites["party0"]
    honest = lead.ask

    def more(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Answer) and request.message.kind == "step":
            arrays = {**request.message.arrays, "other": Numbers.of(np.ones((4, 1)))}
            request = Answer(message=Packet(request.message.round, "step", arrays))
        replies = honest(names, request)
        for name in names:
            handler = loop.sites[name].handler
            if isinstance(request, Answer) and isinstance(handler, PartyHandler):
                assert not [key for key in handler.party.state() if "other" in key]
        return replies

    lead.ask = more
    assert loop.run(text) > 0


Form = Callable[[Any], Any]
FORMS: dict[str, Form] = {
    "a row": lambda array: array[None, :],
    "a column": lambda array: array[:, None],
    "longer": lambda array: np.append(array, 0.0),
    "shorter": lambda array: array[:-1],
    "empty": lambda array: array[:0],
    "one number": lambda array: array[0],
    "whole numbers": lambda array: np.abs(array).astype(np.uint64),
}
METHODS = {
    "gaussian": graph.CASES["gaussian"],
    **{
        method: {"extra": f'{graph.PRIVATE}\n[model]\nmethod = "{method}"', "top": "rounds = 3"}
        for method in ("dual", "primal")
    },
    "pdml": {
        "extra": f'{graph.PRIVATE}\nlabel_epsilon = 2\n[model]\nmethod = "pdml"',
        "top": "rounds = 3",
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", METHODS)
def test_a_node_refuses_a_vector_of_another_form_before_it_uses_a_row(
    tmp_path: Path, method: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a matrix in its place, whether a solve ended told of one row: 30 of 30 guesses were right at epsilon 1."""
    files = graph.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    text = graph.job_text(files, "flare", **METHODS[method])
    sender = loop.sites["node1"]
    honest, changed = sender.ask, []

    def odd(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Put) and request.message.arrays and names == ["node0"] and not changed:
            changed.append(request.message.round)
            arrays = {
                name: Numbers.of(np.asarray(FORMS[form](n.array()))) for name, n in request.message.arrays.items()
            }
            request = Put(message=Packet(request.message.round, request.message.kind, arrays))
        return honest(names, request)

    sender.ask = odd
    used: list[str] = []
    watch(monkeypatch, loop, changed, used)
    with pytest.raises(RunError, match="party 'node0': it stopped"):
        loop.run(text)
    assert changed
    assert used == []
    node0 = loop.sites["node0"]
    assert node0.handle(Play(round=changed[0] + 1), "node0") == Refused(reason=Reason.TURN)  # nothing is left of it
    assert (tmp_path / "sites/node0/run-00000001/problem.txt").read_text().startswith("a neighbour sent no ")


def watch(monkeypatch: pytest.MonkeyPatch, loop: Loopback, changed: list[int], used: list[str]) -> None:
    """Take down every release that node0 makes in the round in which it reads the odd message."""
    plain = Releaser.add

    def add(self: Any, name: str, value: Any) -> Any:
        handler = loop.sites["node0"].handler
        if self.owner == "node0" and changed and isinstance(handler, NodeHandler) and handler.journal.at >= changed[0]:
            used.append(name)
        return plain(self, name, value)

    monkeypatch.setattr(Releaser, "add", add)

"""One deliberate leak at a time, put into the code as it runs: the neighbour test names its place each time."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, NeighbourFindings, Scope, Way, neighbour_test
from tacit.blocks.dense import RowClip
from tacit.cli import summary as summary_module
from tacit.cli.main import main
from tacit.columns import constants
from tacit.errors import InputError
from tacit.federation import node_handler, party_handler
from tacit.federation.node_handler import NodeHandler
from tacit.federation.own_data import OwnRows
from tacit.federation.party_handler import PartyHandler
from tacit.federation.protocol import Reason, RefusalError
from tacit.mechanisms.gram import fit
from tacit.mechanisms.gram.sides import GramParty
from tacit.privacy.releases import Releaser
from tacit.run import drive
from tacit.run import folder as store
from tacit.run.party import Party
from tests.neighbour.worlds import feature_world, sample_world

Patch = pytest.MonkeyPatch


def wrap(patch: Patch, where: Any, name: str, after: Callable[..., Any]) -> None:
    """Let `after(self, result)` decide what a method returns."""
    plain = getattr(where, name)

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return after(self, plain(self, *args, **kwargs))

    patch.setattr(where, name, wrapped)


def nonzeros(matrix: Any) -> int:
    return int(matrix.nnz if hasattr(matrix, "nnz") else np.count_nonzero(matrix))


def features(
    kind: str = "sparse", where: str = BETWEEN, *, restarts: bool = False, turn: int = 0, most: int = 2
) -> NeighbourFindings:
    world = feature_world("gram", kind)
    return neighbour_test(world, main, Scope((Way(where, restarts),), most=most, parties=1, turn=turn))


def nodes(case: str = "primal", where: str = BETWEEN, turn: int = 1, most: int = 2) -> NeighbourFindings:
    world = sample_world(case, "dense")
    return neighbour_test(world, main, Scope((Way(where, False),), most=most, parties=1, turn=turn))


def dense(features: Any) -> Any:
    return features.toarray() if hasattr(features, "toarray") else features


def places(found: NeighbourFindings) -> set[tuple[str, str, str]]:
    return {(one.difference.channel, one.difference.step, one.difference.path) for one in found.differences}


def test_without_a_leak_nothing_is_found() -> None:
    found = features()
    assert found.passed, "\n".join(map(str, found.differences))
    assert found.comparisons > 500


def test_a_byte_count_in_a_reply(monkeypatch: Patch) -> None:
    wrap(
        monkeypatch,
        PartyHandler,
        "begin",
        lambda self, reply: msgspec.structs.replace(reply, rows=8 * nonzeros(self.own.shard.features)),
    )
    found = features()
    assert ("reply shop -> bank", "Begin", "rows") in places(found)
    assert {one.difference.origin for one in found.differences if one.difference.path == "rows"} == {"SIZE"}


def test_a_residual_in_a_reply(monkeypatch: Patch) -> None:
    def telling(self: Any, reply: Any) -> Any:
        return msgspec.structs.replace(reply, residual=float(np.abs(self.node.side.model).sum()))

    wrap(monkeypatch, NodeHandler, "play", telling)
    monkeypatch.setattr(drive, "check_private", lambda row: row)  # the lead would refuse to write it down
    found = nodes()
    assert any(place[1:] == ("Play", "residual") and place[0].startswith("reply") for place in places(found))


def test_a_time_in_a_reply(monkeypatch: Patch) -> None:
    def telling(self: Any, reply: Any) -> Any:
        return msgspec.structs.replace(reply, sent=time.perf_counter_ns() % 10**9)

    wrap(monkeypatch, NodeHandler, "play", telling)
    assert any(place[1:] == ("Play", "sent") for place in places(nodes()))


def test_the_size_of_a_message(monkeypatch: Patch) -> None:
    def telling(self: Any, arrays: Any) -> Any:
        return {**arrays, "padding": np.zeros(nonzeros(self.block.matrix))}

    wrap(monkeypatch, GramParty, "step", telling)
    found = features()
    assert any(path == "bytes" for _, _, path in places(found))
    assert any(channel == "message of shop" and path.endswith(".type") for channel, _, path in places(found))


def test_a_number_beside_a_release(monkeypatch: Patch) -> None:
    def telling(self: Any, arrays: Any) -> Any:
        return {**arrays, "bare": np.array([float(np.abs(self.block.matrix).sum())])}

    wrap(monkeypatch, GramParty, "step", telling)
    assert ("message of shop", "step 1", "arrays.bare") in places(features("dense", IN_PROCESS))


def test_a_line_in_a_log(monkeypatch: Patch) -> None:
    def telling(self: Any, answer: Any) -> Any:
        logging.getLogger("tacit.run.party").debug("answered with %d entries", nonzeros(self.block.matrix))
        return answer

    wrap(monkeypatch, Party, "work", telling)
    for where in (IN_PROCESS, BETWEEN):
        assert {channel for channel, _, _ in places(features(where=where))} == {"log"}


def test_a_line_that_is_printed(monkeypatch: Patch) -> None:
    plain = summary_module.summary

    def telling(trained: Any, *args: Any, **kwargs: Any) -> list[str]:
        entries = [nonzeros(shard.features) for shard in trained.prepared.shards]
        return [*plain(trained, *args, **kwargs), f"entries {entries}"]

    monkeypatch.setattr(summary_module, "summary", telling)
    assert {(channel, step) for channel, step, _ in places(features(where=IN_PROCESS))} == {("printed", "train")}


def test_an_exit_code(monkeypatch: Patch) -> None:
    def refusing(self: Any, answer: Any) -> Any:
        if self.name == "shop" and nonzeros(self.block.matrix[:1]) == 0:
            raise InputError("a row is all zero")
        return answer

    wrap(monkeypatch, Party, "work", refusing)
    found = features(where=IN_PROCESS)
    assert ("exit code", "train", "") in places(found)
    assert any(channel == "printed as errors" for channel, _, _ in places(found))


def test_whether_a_site_refuses(monkeypatch: Patch) -> None:
    def refusing(self: Any, reply: Any) -> Any:
        if self.task.name == "shop" and nonzeros(self.own.shard.features[:1]) == 0:
            raise RefusalError(Reason.STOPPED, "a row is all zero")
        return reply

    wrap(monkeypatch, PartyHandler, "answer", refusing)
    found = features()
    assert ("reply shop -> bank", "Answer", ".type") in places(found)
    assert any(channel == "outcome" for channel, _, _ in places(found))


def test_a_field_of_a_certificate(monkeypatch: Patch) -> None:
    plain = party_handler.write_certificate

    def telling(folder: Any, certificate: Any, name: str, *args: Any, **kwargs: Any) -> None:
        plain(folder, certificate, name, *args, **kwargs)
        text = (folder / "certificate.json").read_text()
        (folder / "certificate.json").write_text(text.replace('"format"', '"entries": 1, "format"', 1))

    monkeypatch.setattr(party_handler, "write_certificate", telling)
    assert features().passed  # the same number for everybody tells nothing

    def per_row(self: Any, *_: Any) -> None:
        path = self.task.folder / "certificate.txt"
        path.write_text(f"{path.read_text()}entries: {nonzeros(self.own.shard.features)}\n")

    wrap(monkeypatch, PartyHandler, "keep_part", per_row)
    found = places(features())
    assert {channel for channel, _, _ in found} == {"file run-00000001/certificate.txt of shop"}


def test_a_file_of_a_run(monkeypatch: Patch) -> None:
    plain = store.saved_result

    def telling(result: Any, prepared: Any) -> store.SavedResult:
        entries = sum(nonzeros(shard.features) for shard in prepared.shards)
        return dataclasses.replace(plain(result, prepared), rounds=entries)

    monkeypatch.setattr(store, "saved_result", telling)
    assert ("file result.json of the run", "", "rounds") in places(features(where=IN_PROCESS))


def test_what_only_a_restart_tells(monkeypatch: Patch) -> None:
    def telling(self: Any, reply: Any) -> Any:
        entries = nonzeros(self.own.shard.features) if self.journal.at > 0 else 0
        return msgspec.structs.replace(reply, rows=entries)

    wrap(monkeypatch, PartyHandler, "begin", telling)
    assert features().passed
    found = features(restarts=True)
    assert ("reply shop -> bank", "Begin", "rows") in places(found)


def test_noise_that_is_drawn_anew_after_a_restart(monkeypatch: Patch) -> None:
    plain = Releaser.restore

    def forgetting(self: Any, state: Any) -> None:
        key = self._key
        plain(self, state)
        self._key = key

    monkeypatch.setattr(Releaser, "restore", forgetting)
    monkeypatch.setattr(node_handler.Journal, "find", lambda *_: None)
    world = feature_world("shares", "dense")
    found = neighbour_test(world, main, Scope((Way(IN_PROCESS, True),), most=1, parties=1))
    assert any(channel.endswith("sent again") for channel, _, _ in places(found))


def test_how_often_something_is_released(monkeypatch: Patch) -> None:
    plain = GramParty.step

    def more(self: Any, round_: int, inbox: Any) -> Any:
        answer = plain(self, round_, inbox)
        if self.release.owner == "shop" and nonzeros(self.block.matrix[:1]) == 0:
            self.release.uniform(3)
        return answer

    monkeypatch.setattr(GramParty, "step", more)
    assert any(channel == "releases" for channel, _, _ in places(features()))


def test_rows_that_are_not_clipped_use_more_than_is_claimed(monkeypatch: Patch) -> None:
    def forgetting(norm: float, centre: Any = None, radius: float = math.inf) -> RowClip:
        return RowClip(1e3 * norm if centre is None else norm, centre, radius)

    monkeypatch.setattr(fit, "RowClip", forgetting)
    found = features("dense", IN_PROCESS, most=4)
    assert 1 < found.ratio < math.inf
    assert not found.passed


def test_one_value_of_the_last_record(monkeypatch: Patch) -> None:
    def telling(self: Any, reply: Any) -> Any:
        value = np.asarray(dense(self.own.shard.features))[-1, 0]
        return msgspec.structs.replace(reply, rows=int(1000 * min(abs(value), 10.0)))

    wrap(monkeypatch, PartyHandler, "begin", telling)
    assert any(not features(turn=turn).passed for turn in range(3))


def test_the_name_of_an_empty_folder(monkeypatch: Patch) -> None:
    def telling(self: Any, reply: Any) -> Any:
        (self.task.folder / f"entries-{nonzeros(self.own.shard.features)}").mkdir(exist_ok=True)
        return reply

    wrap(monkeypatch, PartyHandler, "begin", telling)
    assert any(channel.startswith("folder ") for channel, _, _ in places(features()))


# --- curves ---------------------------------------------------------------------------------------------


def test_ends_of_a_curve_from_protected_rows(monkeypatch: Patch) -> None:
    """A range that grows with the rows: every encoded row moves with one of them."""
    plain, check = constants.public_encoder, constants._check_protected
    seen: list[Any] = []

    def seeing(part: Any, *args: Any) -> None:
        seen[:] = [part]
        check(part, *args)

    def telling(*args: Any) -> Any:
        made = plain(*args)
        high = max(float(np.nanmax(part.numbers("a", days=False))) for part in seen)
        own = [dataclasses.replace(c, high=max(c.high, high)) if c.name == "a" else c for c in made.columns]
        return dataclasses.replace(made, columns=tuple(own))

    monkeypatch.setattr(constants, "_check_protected", seeing)
    monkeypatch.setattr(constants, "public_encoder", telling)
    found = features("curves", IN_PROCESS, most=12)
    assert not found.passed
    assert any(path.endswith("high") for _, _, path in places(found))


def test_pairs_from_protected_rows(monkeypatch: Patch) -> None:
    """Finer curves where more cells differ: the number of columns tells it."""
    plain = constants._pairs
    differ: list[int] = []
    check = constants._check_protected

    def seeing(part: Any, *args: Any) -> None:
        differ[:] = [len(np.unique(part.numbers("a", days=False)))]
        check(part, *args)

    monkeypatch.setattr(constants, "_check_protected", seeing)
    monkeypatch.setattr(constants, "_pairs", lambda *args: plain(*args) + (differ[0] % 2 if differ else 0))
    found = features("curves", BETWEEN, most=12)
    assert ("reply shop -> bank", "Shape", "columns") in places(found)


def test_a_number_of_columns_that_is_no_size(monkeypatch: Patch) -> None:
    """The new field of the reply, misused."""
    wrap(
        monkeypatch,
        OwnRows,
        "sizes",
        lambda self, sizes: (*sizes[:2], sizes[2] + nonzeros(self.shard.features)),
    )
    assert ("reply shop -> bank", "Shape", "curve_columns") in places(features("curves"))

"""All traffic of a joint job, and all that its server passes on, holds nothing of anybody's data in clear."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgpack
import numpy as np
import pytest

from tacit.federation.identity import Card
from tacit.federation.kit import Kit
from tacit.federation.loopback import Loopback
from tacit.federation.members import introduce
from tacit.federation.project import Federation, init
from tacit.federation.protocol import Answered, End, Step
from tests.federation.live import SOURCE, Process, environment, free_port
from tests.federation.traffic import Proxy, found_in, of_number, of_row, of_text, relayed

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")

NAMES = ("bank", "shop", "phone")
PEOPLE, WINDOW = 60, 16
REGIONS = ("region-northwest-qx", "region-southeast-qx", "region-midlands-qx")
LABELS = ("settled-in-full-qx", "fell-into-arrears-qx")
HOOK = Path(__file__).parent / "relay_hook"
JOB = """
[job]
name = "captured"
engine = "flare"
rounds = 4
[[party]]
name = "bank"
id = "customer"
label = "outcome"
[[party]]
name = "shop"
id = "customer"
[[party]]
name = "phone"
id = "customer"
"""


@dataclass
class Secrets:
    """What nobody else may see: as it could be written, by whose it is; and the scores of each party."""

    data: dict[str, set[bytes]]
    scores: set[bytes]

    @property
    def all(self) -> set[bytes]:
        return set().union(*self.data.values(), self.scores)


def write_files(folder: Path) -> tuple[dict[str, Path], dict[str, set[bytes]]]:
    """Files of distinctive values, and those values as they could be written."""
    rng = np.random.default_rng(3)
    files, secrets = {}, {}
    for name in NAMES:
        ids = [f"customer-{number:03d}-zxq" for number in rng.permutation(PEOPLE + 10)[:PEOPLE]]
        spent, amounts = rng.normal(size=PEOPLE), rng.integers(10**8, 10**9, size=PEOPLE)
        regions = rng.choice(REGIONS if name == "phone" else ("town-of-oldbury-qx", "town-of-hythe-qx"), size=PEOPLE)
        labels = np.where(spent + rng.normal(size=PEOPLE) > 0, *LABELS)
        head = f"customer,{name}spent,{name}amount,{name}region" + (",outcome" if name == "bank" else "")
        lines = [head]
        for row in zip(ids, spent, amounts, regions, labels, strict=True):
            lines.append(f"{row[0]},{float(row[1])!r},{row[2]},{row[3]}" + (f",{row[4]}" if name == "bank" else ""))
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join(lines) + "\n")
        texts = {*ids, *regions, *(labels if name == "bank" else ())}
        secrets[name] = set().union(
            *(of_text(str(text)) for text in texts),
            *(of_number(value) for value in (*spent.tolist(), *amounts.tolist())),
            *windows(spent),
            *windows(amounts.astype(float)),
        )
    return files, secrets


def windows(values: np.ndarray) -> Iterator[set[bytes]]:
    for start in range(0, len(values) - WINDOW + 1, WINDOW // 2):
        yield of_row(values[start : start + WINDOW].tolist())


def what_sites_hold(loop: Loopback, secrets: dict[str, set[bytes]]) -> set[bytes]:
    """Run the job; add what the sites made of their files to what nobody may see; the scores that they send."""
    held = {}

    def keep(_: str, __: str, request: Step) -> None:
        if isinstance(request, End):  # after it, sites drop what they hold
            held.update({name: site.handler.own for name, site in loop.sites.items()})  # type: ignore[union-attr]

    loop.disturb = keep
    loop.run(JOB)
    for name in NAMES:
        own = held[name]
        features = np.asarray(own.shard.features)
        for column in features.T:
            if len(set(column.tolist())) > 5:
                secrets[name] |= set().union(*(of_number(value) for value in column.tolist()))
            secrets[name] |= set().union(*windows(column))
        if own.labels is not None:
            secrets[name] |= set().union(*windows(own.labels.values), *windows((own.labels.values + 1) / 2))
    answers = [one.answered.message.arrays for one in loop.carried if isinstance(one.answered, Answered)]
    shares = [arrays["share"].array() for arrays in answers if "share" in arrays]
    return set().union(*(of_number(value) for share in shares for value in share.tolist() if value))


def handed_over(loop: Loopback) -> bytes:
    """What sites hand to the carrier, before it is sealed."""
    return b"".join(one.request + one.reply for one in loop.carried)


@dataclass
class Captured:
    """A run that was watched."""

    secrets: Secrets
    traffic: bytes
    relay: Path
    place: Path
    run: str
    handed_over: bytes
    homes: dict[str, Kit]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """The same job between sites of this process, and over FLARE with a proxy before the server."""
    place = tmp_path_factory.mktemp("traffic")
    files, data = write_files(place)
    loop = Loopback(files, place / "sites")
    secrets = Secrets(data, what_sites_hold(loop, data))
    proxy = Proxy(free_port())
    server, *parties = init(Federation("credit", "bank", "localhost", NAMES, proxy.port), place / "kits")
    introduce(parties)
    replace(server, port=proxy.target).write()
    server = replace(server, port=proxy.target)
    relay = place / "relayed"
    watched = {"PYTHONPATH": os.pathsep.join([str(HOOK), SOURCE]), "TACIT_TEST_RELAY": str(relay)}
    processes = [Process.start(server, variables=watched)]
    try:
        for kit in parties:
            kit.keep(accept="always")
            processes.append(Process.start(kit, "--data", str(files[kit.name])))
        for process in processes:
            assert process.wait_for("ready:"), process.text()
        admin = server.admin / "startup" / "fed_admin.json"  # jobs are handed in through the proxy, too
        settings = json.loads(admin.read_text())
        settings["admin"]["port"] = proxy.port
        admin.write_text(json.dumps(settings))
        (place / "job.toml").write_text(JOB)
        command = [sys.executable, "-m", "tacit.cli.main", "train", str(place / "job.toml"), "--kit", str(server.path)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        for process in reversed(processes):
            process.stop()
        proxy.close()
    run = done.stdout.split("run ", 1)[1].split(":")[0]
    return Captured(
        secrets, proxy.capture(), relay, place, run, handed_over(loop), {kit.name: kit for kit in (server, *parties)}
    )


def test_the_search_finds_what_is_there() -> None:
    number, text, row = 0.1234567890123, "customer-007-zxq", [0.5, -1.25, 3.0, 9.5, 2.0, 1.0, -4.0, 8.0]
    for wanted in (of_number(number), of_number(918273645.0), of_text(text), of_row(row)):
        for one in wanted:
            assert found_in(os.urandom(100 + len(one) % 8) + one + os.urandom(50), {one}) == {one}
        assert not found_in(os.urandom(100_000), wanted)


def test_what_sites_hand_over_holds_the_scores_of_the_method_and_no_value_label_or_id(captured: Captured) -> None:
    found = found_in(captured.handed_over, captured.secrets.all)
    assert len(found & captured.secrets.scores) > 100
    for name in NAMES:
        assert not found & captured.secrets.data[name]


def test_the_traffic_holds_nothing_in_clear(captured: Captured) -> None:
    assert len(captured.traffic) > len(captured.handed_over)
    assert captured.traffic.count(b"\x16\x03\x01") >= 1 + len(NAMES)  # a TLS handshake of each
    assert found_in(captured.traffic, captured.secrets.all | of_text("captured") | of_text(captured.run)) == set()


def test_the_server_passes_on_what_it_cannot_read(captured: Captured) -> None:
    between = [
        (headers, payload)
        for headers, payload in relayed(captured.relay)
        if payload and all(headers[end].split(".")[0] in NAMES for end in ("origin", "destination"))
    ]
    carried = sum(len(payload) for _, payload in between)
    assert carried > len(captured.handed_over) / 2  # what sites ask themselves is not carried
    assert found_in(captured.relay.read_bytes(), captured.secrets.all) == set()


def test_between_sites_the_server_sees_cards_numbers_and_sealed_bytes_and_nothing_else(captured: Captured) -> None:
    """Every message is taken apart with what the server has; what is sealed looks like random bytes."""
    kinds, sealed = set(), []
    for headers, payload in relayed(captured.relay):
        ends = [headers[end].split(".")[0] for end in ("origin", "destination")]
        if not payload or not set(ends) <= set(NAMES):
            continue
        content = msgpack.unpackb(payload[10:], strict_map_key=False)
        told = content.get("kwargs", content.get("result"))
        kinds.add((content.get("method_name", "reply"), tuple(sorted(told))))
        sealed += [told["content"]] if "content" in told else []
        for value in told.values():
            assert isinstance(value, bytes | int) or value in NAMES or is_cards(value), told
    assert kinds == {
        ("hello", ("cards", "name")),
        ("reply", ("cards", "process", "proof", "start")),
        ("take", ("content", "floor", "number", "process", "salt", "sender", "start")),
        ("reply", ("content", "salt")),
    }
    everything = b"".join(sealed)
    assert len(everything) > len(captured.handed_over) / 2
    counts = np.bincount(np.frombuffer(everything, dtype=np.uint8), minlength=256)
    expected = len(everything) / 256
    assert ((counts - expected) ** 2 / expected).sum() < 400  # chi-square, 255 degrees: beyond it once in 10^8
    assert len(zlib.compress(everything, 9)) >= len(everything)


def is_cards(value: object) -> bool:
    return isinstance(value, list) and all(Card.read(one).name in NAMES for one in value)


def test_what_the_server_itself_is_told_is_rounds_seconds_and_how_it_ended(captured: Captured) -> None:
    """All calls and answers between sites and the server, which takes them apart; and what it keeps on its disk."""
    said: dict[str, set[str]] = {}
    for headers, payload in relayed(captured.relay):
        ends = {headers[end].split(".")[0] for end in ("origin", "destination")}
        if "server" not in ends or not payload or not payload[10:]:
            continue
        with contextlib.suppress(ValueError, TypeError, msgpack.UnpackException):
            content = msgpack.unpackb(payload[10:], strict_map_key=False)
            if isinstance(content, dict) and "method_name" in content:
                said.setdefault(content["method_name"], set()).update(content["kwargs"])
            elif isinstance(content, dict) and isinstance(content.get("result"), dict):
                said.setdefault("result", set()).add(json.dumps(content["result"], sort_keys=True))
    assert said["lead"] == {"job", "run"}
    assert said["result"] == {'{"done": {"rounds": 4}}'}
    assert set(said) <= {"lead", "result", "progress"}
    assert said.get("progress", set()) <= {"run", "round_", "seconds", "waiting"}
    folder = captured.homes["server"].jobs / captured.run
    assert {path.name for path in folder.iterdir()} <= {"job.toml", "outcome.json", "progress.json", "version.json"}
    assert set(json.loads((folder / "outcome.json").read_text())) == {"rounds", "at"}


def test_no_kit_holds_the_data_of_another(captured: Captured) -> None:
    for name in ("server", *NAMES):
        files = [path for path in captured.homes[name].home.rglob("*") if path.is_file()]
        files += [path for path in (captured.place / "kits" / name).rglob("*") if path.is_file()]
        assert any(captured.run in str(path) for path in files)
        others = set().union(*(data for owner, data in captured.secrets.data.items() if owner != name))
        shared = set() if name == "server" else captured.secrets.data[name]  # ids that both have
        everything = bytes(64).join(path.read_bytes() for path in files)  # no secret goes on in the next file
        assert found_in(everything, others - shared) == set(), files

"""Whoever makes the kits tries to bring more than names and TLS keys; texts from outside try to steer a terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs tacit[flare]")

from tacit.cli import join
from tacit.cli.main import main
from tacit.errors import InputError
from tacit.federation.kit import Kit
from tacit.federation.own_site import own_cluster
from tacit.federation.progress import write_outcome
from tacit.federation.questions import PENDING
from tacit.files import write_json
from tests.federation.live import environment
from tests.hostile.parties import made

EVIL = {
    "a Dask address": ("site.toml", 'data = "people.csv"\ndask = "tcp://192.0.2.1:8786"\ndask_insecure = true\n'),
    "consent": ("site.toml", 'accept = "always"\n'),
    "a seed of the noise": ("site.toml", "allow_noise_seed = true\n"),
    "a ledger": ("ledger.json", "{}"),
    "a begun ledger": ("ledger.json.lock", "begun\n"),
    "releases": ("releases.jsonl", "{}\n"),
    "a run": ("jobs/credit-0123456789ab/accepted.json", '{"digest": "x"}'),
    "keys": ("identity/own.json", "{}"),
    "confirmed members": ("identity/members.json", "{}"),
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kit of the shop, as it was handed over."""
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    shutil.copytree(made() / "shop", tmp_path / "shop")
    return tmp_path / "shop"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Kit]:
    kits: list[Kit] = []
    monkeypatch.setattr(join, "supervise", lambda kit: kits.append(kit) or 0)
    return kits


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("tacit: error: ")
    assert err.count("\n") == 1
    return err


# --- what a kit may bring ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", EVIL)
def test_a_kit_that_brings_what_is_the_partys_own_is_refused_by_name(
    what: str, shop: Path, tmp_path: Path, started: list[Kit], capsys: pytest.CaptureFixture[str]
) -> None:
    name, content = EVIL[what]
    (shop / name).parent.mkdir(parents=True, exist_ok=True)
    (shop / name).write_text(content)
    (tmp_path / "people.csv").write_text("customer,x\na,1\n")
    for verb in (["join", str(shop), "--data", str(tmp_path / "people.csv")], ["status", str(shop)]):
        assert main(verb) == 2
        said = refused(capsys)
        assert f'holds "{name.partition("/")[0]}"' in said
        assert f"mv {shop / name.partition('/')[0]} {tmp_path}/home/credit-" in said  # how to keep one's own
    assert started == []


@pytest.mark.parametrize(
    "name",
    [
        "flare/local/resources.json",
        "flare/local/custom/evil.py",
        "flare/startup/fed_client.json",
        "flare/startup/sitecustomize.py",
        "sitecustomize.py",
        "tacit.py",
        "flare/startup/extra.key",
        ".hidden",
    ],
)
def test_a_kit_that_brings_anything_else_is_refused_by_name(name: str, shop: Path) -> None:
    (shop / name).parent.mkdir(parents=True, exist_ok=True)
    (shop / name).write_text("{}")
    with pytest.raises(InputError, match="does not belong into a kit: delete it"):
        Kit.open(shop)
    (shop / name).unlink()


def test_a_kit_that_brings_links_is_refused(shop: Path, tmp_path: Path) -> None:
    (shop / "README.html").unlink()
    (shop / "README.html").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match=r'holds "README.html"'):
        Kit.open(shop)
    (shop / "README.html").unlink()
    shutil.move(shop / "flare", tmp_path / "elsewhere")
    (shop / "flare").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r'holds "flare"'):
        Kit.open(shop)


def test_a_dask_address_of_a_kit_maker_is_never_connected_to(shop: Path, tmp_path: Path) -> None:
    """On the code before, `own_site` of such a kit connected to the address and ran what it sent."""
    (shop / "site.toml").write_text(EVIL["a Dask address"][1])
    with pytest.raises(InputError):
        Kit.open(shop)
    (shop / "site.toml").unlink()
    assert own_cluster(Kit.open(shop).settings()) is None


def test_names_of_a_kit_lead_nowhere_else(shop: Path) -> None:
    file = shop / "tacit.toml"
    whole = file.read_text()
    for name in ("../..", "a/b", "credit-00000000/../..", "", "\\u001b[2J"):
        file.write_text(whole.replace('federation = "credit"', f'federation = "{name}"'))
        with pytest.raises(InputError, match=r"use at most 40 letters|has a control character"):
            Kit.open(shop)


def test_the_kit_of_another_authority_has_another_home(shop: Path, tmp_path: Path) -> None:
    """One who knows the names only cannot reach the settings, keys and runs of the true federation."""
    from tacit.federation.project import Federation, init

    false = init(Federation("credit", "bank", "localhost", ("shop",)), tmp_path / "false")[1]
    assert (false.name, false.federation) == ("shop", "credit")
    assert false.home != Kit.open(shop).home


# --- who can read keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_keys_that_others_can_read_are_refused_with_the_command_that_fixes_it(
    mode: int, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "flare" / "startup" / "client.key").chmod(mode)
    assert main(["join", str(shop), "--data", "x.csv"]) == 2
    said = refused(capsys)
    assert "client.key" in said
    fix = said.strip().partition("machine: ")[2]
    assert fix == f"chmod -R go-rwx {shop}"
    subprocess.run(fix.split(), check=True)
    Kit.open(shop)


def test_the_key_that_hands_jobs_in_is_looked_at_too(tmp_path: Path) -> None:
    shutil.copytree(made() / "server", tmp_path / "server")
    (tmp_path / "server" / "admin" / "startup" / "client.key").chmod(0o644)
    with pytest.raises(InputError, match=r"admin.startup.client\.key"):
        Kit.open(tmp_path / "server")


# --- what is active ------------------------------------------------------------------------------------


def test_every_active_setting_is_printed_at_the_start_with_its_place(shop: Path) -> None:
    kit = Kit.open(shop)
    assert 'accept = "ask"  (default)' in join.active(kit)
    kit.keep(data="/data/a.csv", accept="always", allow_noise_seed=True, dask="tls://x:1", budget={"epsilon": 3.0})
    said = join.active(kit)
    for words in ('data = "/data/a.csv"', 'accept = "always"', "allow_noise_seed = true", 'dask = "tls://x:1"'):
        assert f"{words}  ({kit.site})" in said
    assert any(line.startswith("budget = ") and "epsilon" in line for line in said)
    assert said[-1].startswith("own fingerprint ")


# --- terminals -----------------------------------------------------------------------------------------

CLEAR = "\x1b[2J\x1b[H\x1b]0;owned\x07\u202eaccepted\u202c\r\x9b31m"


@pytest.mark.parametrize("verb", [["accept", "--show"], ["accept", "--yes"], ["accept", "--refuse"]])
def test_texts_of_a_job_cannot_steer_the_terminal(verb: list[str], shop: Path, capsys) -> None:
    folder = Kit.open(shop).make_home() / "jobs" / "credit-0123456789ab"
    folder.mkdir(parents=True)
    write_json(folder / PENDING, {"digest": "d", "party": "shop", "lines": [f"job {CLEAR}", f"features {CLEAR}"]})
    assert main([verb[0], str(shop), *verb[1:]]) == 0
    assert steers(capsys.readouterr().out) == []


def test_the_question_in_the_terminal_of_join_cannot_steer_it(shop: Path, monkeypatch, capsys) -> None:
    kit = Kit.open(shop)
    folder = kit.make_home() / "jobs" / "credit-0123456789ab"
    folder.mkdir(parents=True)
    write_json(folder / PENDING, {"digest": "d", "party": "shop", "lines": [f"job {CLEAR}"]})
    monkeypatch.setattr(join, "LOOK_EVERY", 0.01)
    asked: list[Callable[[], None]] = []

    class Pretended:
        def __init__(self, kit: Kit, say: Callable[[str], None]) -> None:
            self.say = say

        def run(self) -> None:
            time.sleep(0.5)
            asked.append(self.run)

    monkeypatch.setattr("tacit.federation.processes.Supervisor", Pretended)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    thread = threading.Thread(target=join.supervise, args=(kit,))
    thread.start()
    thread.join(20)
    said = capsys.readouterr().out
    assert asked
    assert "a job asks whether shop takes part:" in said
    assert steers(said) == []


def test_refusals_and_problems_from_outside_cannot_steer_a_terminal(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit = Kit.open(shop)
    (kit.make_home() / "jobs" / "credit-0123456789ab").mkdir(parents=True)
    (kit.jobs / "credit-0123456789ab" / "problem.txt").write_text(CLEAR)
    shutil.copytree(made() / "server", tmp_path / "server")
    server = Kit.open(tmp_path / "server")
    (server.make_home() / "jobs" / "credit-0123456789ab").mkdir(parents=True)
    write_outcome(server.jobs / "credit-0123456789ab", {"refused": CLEAR})
    for path in (shop, server.path):
        assert main(["status", str(path)]) == 0
        said = capsys.readouterr().out
        assert "\\u001b[2J" in said
        assert steers(said) == []
    command = [sys.executable, "-m", "tacit.cli.main", f"no{CLEAR}verb"]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=60)
    assert steers(done.stderr.decode()) == []


def steers(text: str) -> list[str]:
    """Characters that a terminal would not print."""
    return [character for character in text if not character.isprintable() and character != "\n"]


def test_nothing_is_written_into_a_kit(shop: Path, tmp_path: Path, started: list[Kit]) -> None:
    before = {path: path.stat().st_mtime_ns for path in shop.rglob("*")}
    (tmp_path / "people.csv").write_text("customer,x\na,1\n")
    assert main(["join", str(shop), "--data", str(tmp_path / "people.csv"), "--id", "customer"]) == 0
    assert main(["status", str(shop)]) == 0
    assert main(["federation", "members", str(shop)]) == 0
    assert {path: path.stat().st_mtime_ns for path in shop.rglob("*")} == before
    assert os.listdir(tmp_path / "home")

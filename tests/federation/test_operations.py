"""Operating a site: copies that were put back, versions, clean disks, and the files of services."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import together
from tacit.cli.main import main
from tacit.errors import InputError
from tacit.federation import members as members_module
from tacit.federation import site as site_module
from tacit.federation.budget import BudgetBook, Limit
from tacit.federation.identity import OwnKeys, count_start, start_statement, starts_of
from tacit.federation.kit import Kit
from tacit.federation.members import Members, introduce
from tacit.federation.protocol import Open, Reason, RefusalError, Refused
from tacit.federation.status import clean, status_of
from tacit.privacy.accountant import gdp_mu
from tacit.privacy.events import UNITS, GaussianRelease
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import job_text, write_files

DEPLOY = Path(__file__).parents[2] / "deploy"
JOB = dict.fromkeys(UNITS, (GaussianRelease(gdp_mu(1, 1e-6), 1.0),))


# --- a copy that was put back ---------------------------------------------------------------------------


def test_a_home_that_was_put_back_is_noticed_by_who_met_a_later_process(kit: Callable[[str], Kit]) -> None:
    shop, bank = kit("shop"), Members(kit("bank"))
    bank.note_start("shop", b"first", count_start(shop))
    copy = shop.home.with_name("copy")
    shutil.copytree(shop.home, copy)
    bank.note_start("shop", b"second", count_start(shop))
    bank.note_start("shop", b"second", 2)  # the same process again
    shutil.rmtree(shop.home)
    shutil.move(copy, shop.home)
    with pytest.raises(RefusalError, match="tacit federation restored KIT --starts 2") as caught:
        bank.note_start("shop", b"third", count_start(shop))
    assert caught.value.reason == Reason.RESTORED
    bank.note_start("phone", b"third", 2)  # everybody counts for himself


def test_processes_that_run_at_once_may_come_in_any_order(
    kit: Callable[[str], Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Members(kit("bank"))
    for start in (6, 5, 6, 8, 7, 5):
        bank.note_start("shop", b"%d" % start, start)
    assert bank.starts_seen("shop") == 8
    monkeypatch.setattr(members_module, "MOST_STARTS", 4)
    bank.note_start("shop", b"9", 9)  # now 5 is forgotten
    with pytest.raises(RefusalError):
        bank.note_start("shop", b"5", 5)


def test_going_on_after_a_restore_gives_no_budget_back(
    kit: Callable[[str], Kit], capsys: pytest.CaptureFixture[str]
) -> None:
    shop, bank = kit("shop"), kit("bank")
    introduce([shop, bank])
    shop.jobs.mkdir(parents=True)
    book = BudgetBook(shop.ledger, {"record": Limit(3)}, "shop", runs=shop.jobs)
    book.reserve("run-00000001", JOB)
    Members(bank).note_start("shop", b"first", 7)
    assert main(["federation", "members", str(bank.path)]) == 0
    assert "7 starts seen" in capsys.readouterr().out
    assert main(["federation", "restored", str(shop.path), "--starts", "7"]) == 0
    assert "budget     closed" in capsys.readouterr().out
    assert starts_of(shop) == 7
    Members(bank).note_start("shop", b"new", count_start(shop))
    with pytest.raises(InputError, match="ledger"):
        BudgetBook(shop.ledger, {"record": Limit(3)}, "shop", runs=shop.jobs).reserve("run-00000002", JOB)
    assert main(["federation", "restored", str(shop.path), "--starts", "-1"]) == 2


def test_a_number_is_signed_with_its_process_and_run(kit: Callable[[str], Kit]) -> None:
    keys = OwnKeys.of(kit("shop"))
    proof = keys.signing.sign(start_statement("run-00000001", b"process", 4))
    assert keys.card.has_signed(start_statement("run-00000001", b"process", 4), proof)
    for other in (("run-00000002", b"process", 4), ("run-00000001", b"other", 4), ("run-00000001", b"process", 5)):
        assert not keys.card.has_signed(start_statement(*other), proof)


def test_new_keys_that_people_compare_may_number_anew(kit: Callable[[str], Kit]) -> None:
    shop, bank = kit("shop"), kit("bank")
    introduce([shop, bank])
    members = Members(bank)
    members.note_start("shop", b"first", 1)
    members.revoke("shop")
    members.note_start("shop", b"other", 1)


# --- versions -------------------------------------------------------------------------------------------


def test_a_run_that_one_version_began_is_refused_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare"))
    monkeypatch.setattr(site_module, "__version__", "9.9")
    loop.restart()
    opening = Open(run="run-00000001", job=job_text(files, "flare"), version="9.9")
    assert loop.sites["party1"].handle(opening, "party0") == Refused(reason=Reason.BEGUN_WITH)
    assert loop.sites["party1"].handle(Open(run="run-00000002", job=opening.job, version="9.9"), "party0")
    with pytest.raises(RefusalError, match=r"begun with tacit 0\.1\.0, and this is tacit 9\.9"):
        site_module.check_owner(
            {"lead": "a", "job": "b", "version": "tacit 0.1.0"}, {"lead": "a", "job": "b", "version": "tacit 9.9"}
        )


def test_going_on_names_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together.keep_version(tmp_path)
    together.keep_version(tmp_path)
    began = json.loads((tmp_path / "version.json").read_text())["tacit"]
    monkeypatch.setattr(together, "__version__", "9.9")
    with pytest.raises(InputError, match=rf"begun with tacit {re.escape(began)}, and this is 9\.9"):
        together.keep_version(tmp_path)


# --- disks ----------------------------------------------------------------------------------------------


def test_cleaning_keeps_what_the_budget_needs_and_ends_the_run(
    kit: Callable[[str], Kit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = kit("shop")
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare"))
    ended, stopped = shop.jobs / "run-00000001", shop.jobs / "run-00000002"
    shutil.copytree(tmp_path / "sites/party1/run-00000001", ended)
    shutil.copytree(tmp_path / "sites/party1/run-00000001", stopped)
    for name in ("model", "about.json", "over.json"):  # as one that has not ended
        shutil.rmtree(stopped / name) if (stopped / name).is_dir() else (stopped / name).unlink()
    book = BudgetBook(shop.ledger, {"record": Limit(3)}, "shop", runs=shop.jobs)
    for folder in (ended, stopped):
        (folder / "alignment.npz").write_bytes(b"x" * 5000)
        book.reserve(folder.name, JOB)
        os.utime(folder, (1e9, 1e9))
    assert clean(shop, 1e5) == []
    assert main(["federation", "clean", str(shop.path)]) == 0
    assert "would go   5 kB of run run-00000001" in capsys.readouterr().out
    assert (ended / "alignment.npz").exists()
    assert main(["federation", "clean", str(shop.path), "--yes"]) == 0
    assert not (ended / "alignment.npz").exists()
    assert (ended / "model").exists()
    os.utime(ended, (1e9, 1e9))
    assert main(["federation", "clean", str(shop.path), "--results", "--yes"]) == 0
    left = {path.name for path in ended.iterdir()}
    assert left >= {"spent.json", "over.json", "owner.json", "certificate.json"}
    assert "model" not in left
    assert (stopped / "alignment.npz").exists()
    assert book.jobs() == ("run-00000001", "run-00000002")
    assert "run run-00000001: ended" in "\n".join(status_of(shop).lines())
    assert main(["federation", "clean", str(shop.path), "--days", "nan"]) == 2


def test_a_health_check_has_an_exit_code(kit: Callable[[str], Kit]) -> None:
    assert main(["status", str(kit("shop").path), "--check"]) == 1


# --- the files of services ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["serve", "join"])
def test_units_start_commands_that_exist(verb: str) -> None:
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / f"tacit-{verb}@.service")
    service = unit["Service"]
    assert service["ExecStart"] == f"/opt/tacit/bin/tacit {verb} /etc/tacit/kits/%i"
    assert service["Environment"] == "TACIT_HOME=/var/lib/tacit"
    assert service["StateDirectoryMode"] == "0700"  # as a home must be


def test_the_image_and_its_services_hold_nothing_of_an_organisation() -> None:
    yaml = pytest.importorskip("yaml")
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    assert {word for words in copied for word in words} == {"pyproject.toml", "README.md", "LICENSE", "src"}
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001"]
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"server", "bank", "shop"}
    for name, one in services.items():
        assert one["cap_drop"] == ["ALL"]
        assert one["command"][:2] == ["serve" if name == "server" else "join", f"/kits/{name}"]
        assert f"./kits/{name}:/kits/{name}:ro" in one["volumes"]
        assert ("ports" in one) == (name == "server")
        assert one["healthcheck"]["test"][1:] == ["tacit", "status", f"/kits/{name}", "--check"]

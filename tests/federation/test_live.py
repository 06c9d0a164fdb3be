"""A federation on loopback: jobs that are refused, strangers who are turned away, and processes that die."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tacit.federation.flare_settings import start_arguments, write_settings
from tacit.federation.kit import COORDINATOR, Kit
from tacit.federation.processes import TOKEN
from tacit.federation.project import Federation, add, init, renew
from tacit.federation.status import status_of
from tests.federation.live import Live, Process, ask, copy_kit, environment, free_port, knock, own_keys, write_job

pytestmark = pytest.mark.slow
REFUSED = "FINISHED:FAILED_TO_RUN"


def test_starts_soon_and_on_loopback_alone(live: Live) -> None:
    assert live.seconds < 120  # on a busy machine
    for kit in live.kits.values():
        connections = psutil.Process(site_pid(kit)).net_connections()
        listening = {connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN}
        assert (kit.port in {address.port for address in listening}) == (kit.role == "server")
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_jobs_with_code_or_foreign_classes_are_refused_and_the_next_one_runs(live: Live, tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    evil = f"open({str(mark)!r}, 'w').close()"
    statistics = "nvflare.app_common.executors.statistics.statistics_executor.StatisticsExecutor"
    jobs = [
        write_job(tmp_path, "code", files={"custom/evil.py": evil}, party="evil.Evil"),
        write_job(tmp_path, "popen", party="subprocess.Popen", arguments={"args": ["touch", str(mark)]}),
        write_job(tmp_path, "builtin", party=statistics, arguments={"generator_id": "x"}),
        write_job(tmp_path, "good"),
    ]
    code, popen, builtin, good, sites = live.admin(*(["submit", job] for job in jobs), ["sites"])
    assert code == {
        "status": REFUSED,
        "detail": [_said("it brings 'custom'; a job is data and brings no code or other files")],
    }
    assert popen["detail"] == [_said("it names the class 'subprocess.Popen', which is not allowed here")]
    assert builtin["detail"] == [_said(f"it names the class {statistics!r}, which is not allowed here")]
    assert good["status"] == "FINISHED:COMPLETED"
    assert set(good["detail"]) >= {"bank: OK", "server: OK", "shop: OK"}
    assert set(sites) >= {"bank", "shop"}
    assert not mark.exists()
    log = live.processes["server"].log()
    assert "'subprocess.Popen', which is not allowed here" in log
    assert "with kit" in log  # the processes of a job know the site's kit


def _said(reason: str) -> str:
    return f"server: this site refuses the job: {reason}"


def test_a_site_refuses_what_a_turned_server_lets_through(tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    with turned_server(tmp_path) as (server, shop):
        evil = {"custom/evil.py": f"open({str(mark)!r}, 'w').close()"}
        code, popen, logs, shell, stop, sites = ask(
            server.admin,
            COORDINATOR,
            ["submit", write_job(tmp_path, "code", files=evil, party="evil.Evil")],
            [
                "submit",
                write_job(tmp_path, "popen", party="subprocess.Popen", arguments={"args": ["touch", str(mark)]}),
            ],
            ["order", "configure_site_log client shop DEBUG"],
            ["order", "ls shop"],
            ["order", "shutdown client shop"],
            ["sites"],
        )
        assert code["detail"][0] == popen["detail"][0] == "server: OK"
        assert code["detail"][1].startswith("shop: NVFLARE_ERROR: this site refuses the job: it brings 'custom'")
        assert "shop: NVFLARE_ERROR: this site refuses the job: it names the class" in popen["detail"][1]
        assert {code["status"], popen["status"]} == {REFUSED}
        for order in (logs, shell, stop):
            assert "invalid_request" in json.dumps(order), order
        assert sites == ["shop"]
        assert not mark.exists()
        assert "which is not allowed here" in shop.log()


@contextlib.contextmanager
def turned_server(place: Path) -> Iterator[tuple[Kit, Process]]:
    """A server that lets everything through, and one party of our making."""
    server, kit = init(Federation("credit", "bank", "localhost", ("shop",), free_port()), place / "turned")
    write_settings(server)
    resources = json.loads((server.flare / "local" / "resources.json").read_text())
    del resources["app_validator"]
    (server.flare / "local" / "resources.json").write_text(json.dumps({**resources, "class_allow_list": ["*"]}))
    rights = {"format_version": "1.0", "permissions": {"lead": "any"}}
    (server.flare / "local" / "authorization.json").write_text(json.dumps(rights))
    (place / "people.csv").write_text("customer,x\na,1\n")
    command = [sys.executable, "-m", *start_arguments(server)]
    with open(place / "turned.log", "wb") as log:
        process = subprocess.Popen(command, env=environment(), cwd=server.flare, stdout=log, stderr=log)
    shop = Process.start(kit, "--data", str(place / "people.csv"))
    try:
        assert shop.wait_for("ready:"), shop.text()
        yield server, shop
    finally:
        shop.stop()
        process.kill()
        process.wait(60)


def test_the_coordinator_steers_jobs_and_not_the_server(live: Live) -> None:
    orders = ("shutdown server", "ls server", "cat server audit.log", "sys_info server", "remove_client shop")
    for order, outcome in zip(orders, live.admin(*(["order", order] for order in orders)), strict=True):
        assert "not authorized" in json.dumps(outcome), (order, outcome)


# --- strangers ----------------------------------------------------------------------------------------


def test_strangers_are_turned_away(live: Live, tmp_path: Path) -> None:
    shop = live.kits["shop"]
    assert knock(shop, own_keys(shop))  # who has a certificate of the federation is answered
    others = init(Federation("credit", "bank", "localhost", ("shop",), shop.port), tmp_path / "other")
    for keys in (None, (expired(live, tmp_path), own_keys(shop)[1]), own_keys(others[1])):
        before = len(live.processes["server"].log())
        assert refused(shop, keys)
        assert soon(lambda start=before: "Handshake failed" in live.processes["server"].log()[start:])
    assert knock(shop, own_keys(shop))


def refused(kit: Kit, keys: tuple[Path, Path] | None) -> bool:
    try:
        return knock(kit, keys) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def soon(condition, seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return bool(condition())


def expired(live: Live, place: Path) -> Path:
    """The shop's certificate, signed by the federation's own authority, of last week."""
    root = json.loads((live.kits["server"].path.parent / "authority" / "root.json").read_text())
    key = serialization.load_pem_private_key(root["root_pri_key"].encode(), None)
    old = x509.load_pem_x509_certificate(own_keys(live.kits["shop"])[0].read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(
        old.issuer,
        old.subject,
        old.public_key(),
        x509.random_serial_number(),
        now - datetime.timedelta(days=8),
        now - datetime.timedelta(days=1),
    )
    for extension in old.extensions:
        made = made.add_extension(extension.value, extension.critical)
    (place / "expired.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return place / "expired.crt"


def test_a_party_is_no_admin(live: Live, tmp_path: Path) -> None:
    place = tmp_path / "admin"
    shutil.copytree(live.kits["server"].admin, place)  # as it was written at the start
    for file in own_keys(live.kits["shop"]):
        shutil.copy(file, place / "startup" / file.name)
    with pytest.raises(RuntimeError, match="client_registration"):
        ask(place, COORDINATOR, ["sites"])  # it is not who it says
    assert "failed to verify client identity: CNMismatch" in live.processes["server"].log()
    settings = json.loads((place / "startup" / "fed_admin.json").read_text())
    settings["admin"]["username"] = "shop"
    (place / "startup" / "fed_admin.json").write_text(json.dumps(settings))
    outcomes = ask(place, "shop", ["submit", write_job(tmp_path, "job")], ["sites"])
    assert all("not authorized" in outcome["error"] for outcome in outcomes), outcomes


def test_a_party_is_no_other_party_and_another_federation_cannot_join(live: Live, tmp_path: Path) -> None:
    shop = live.kits["shop"]
    imposter = copy_kit(shop, tmp_path / "imposter")
    file = imposter.path / "tacit.toml"
    file.write_text(file.read_text().replace('name = "shop"', 'name = "phone"'))
    foreign = init(Federation("credit", "bank", "localhost", ("phone",), shop.port), tmp_path / "other")[1]
    data = str(live.place / "people.csv")
    processes = [Process.start(kit, "--data", data) for kit in (Kit.open(imposter.path), foreign)]
    try:
        claimed = "authenticated as 'shop' but claimed endpoint 'phone'"
        assert soon(lambda: claimed in live.processes["server"].log(), 120)
        assert soon(lambda: "CERTIFICATE_VERIFY_FAILED" in processes[1].log(), 120)
        time.sleep(2)
        assert not any("ready:" in process.text() for process in processes)
        assert "phone" not in live.admin(["sites"])[0]
    finally:
        assert [process.stop() for process in processes] == [0, 0]


# --- processes ----------------------------------------------------------------------------------------


def site_pid(kit: Kit) -> int:
    return int(json.loads((kit.logs / "pid.json").read_text())["site"])


def test_a_kit_runs_once(live: Live) -> None:
    second = Process.start(live.kits["shop"])
    assert second.popen.wait(120) == 2
    assert "runs already" in second.text().strip().splitlines()[-1]


def test_a_second_server_does_not_take_the_port_and_says_so(live: Live, tmp_path: Path) -> None:
    port = live.kits["server"].port
    other = Process.start(init(Federation("debit", "bank", "localhost", ("shop",), port), tmp_path / "debit")[0])
    assert other.popen.wait(120) == 2
    assert f"cannot listen on port {port}: Address already in use" in other.text()
    assert "ready:" not in other.text()


def test_a_site_that_died_comes_back(live: Live) -> None:
    process, before = live.processes["shop"], site_pid(live.kits["shop"])
    os.kill(before, signal.SIGKILL)
    assert soon(lambda: process.text().count("ready:") == 2, 120), process.text()
    assert "shop died (exit code -9): starting it again in 1 s" in process.text()
    assert site_pid(live.kits["shop"]) != before
    assert set(live.admin(["sites"])[0]) >= {"bank", "shop"}


def test_a_killed_supervisor_leaves_nothing_and_neither_does_a_stop(live: Live) -> None:
    process, before = live.processes["shop"], site_pid(live.kits["shop"])
    process.popen.kill()
    process.popen.wait(60)
    assert soon(lambda: not psutil.pid_exists(before), 30)  # nothing goes on unseen
    assert "not running: tacit join" in status_of(live.kits["shop"]).lines()[0]
    again = live.processes["shop"] = Process.start(live.kits["shop"])  # the data of the last time
    assert again.wait_for("ready:"), again.text()
    token = json.loads((live.kits["shop"].logs / "pid.json").read_text())["token"]
    assert marked(token) == [site_pid(live.kits["shop"])]
    assert again.stop() == 0
    assert marked(token) == []
    assert again.text().endswith("stopped: nothing of shop runs any more\n")
    live.processes["shop"] = Process.start(live.kits["shop"])
    assert live.processes["shop"].wait_for("ready:")


def test_renewed_and_added_kits_join_a_server_that_runs(live: Live) -> None:
    place, shop = live.kits["server"].path.parent, live.kits["shop"]
    (fresh,) = renew(place, ["shop"])
    live.processes["shop"].stop()
    for file in own_keys(fresh):
        shutil.copy(file, shop.startup / file.name)
    live.processes["shop"] = Process.start(shop)
    live.processes["late"] = Process.start(add(place, "late"), "--data", str(live.place / "people.csv"))
    assert live.processes["shop"].wait_for("ready:"), live.processes["shop"].text()
    assert live.processes["late"].wait_for("ready:"), live.processes["late"].text()
    assert set(live.admin(["sites"])[0]) == {"bank", "late", "shop"}


def marked(token: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(TOKEN) == token:
                found.append(process.pid)
    return found

"""Kits: what they hold, what is refused, and what their pages say."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from tacit.errors import InputError, RunError
from tacit.federation import project
from tacit.federation.flare_settings import write_settings
from tacit.federation.kit import Kit
from tacit.federation.project import Federation, add, init, renew


def test_a_kit_for_each(made: Path) -> None:
    kits = [Kit.open(made / name) for name in ("server", "bank", "shop", "phone")]
    assert [kit.role for kit in kits] == ["server", "party", "party", "party"]
    assert [kit.organisation for kit in kits] == ["bank", "bank", "shop", "phone"]
    assert len({kit.authority.fingerprint for kit in kits}) == 1
    assert len({kit.certificate.fingerprint for kit in kits}) == 4
    assert all(358 < kit.certificate.days <= 360 and kit.authority.days > 3640 for kit in kits)
    assert kits[2].parties == ("bank", "shop", "phone")


def test_only_the_server_can_submit_and_only_the_authority_can_sign(made: Path) -> None:
    assert (made / "server" / "admin" / "startup" / "client.key").is_file()
    for name in ("bank", "shop", "phone"):
        assert not (made / name / "admin").exists()
    root = json.loads((made / "authority" / "root.json").read_text())
    assert set(root) == {"root_cert", "root_pri_key"}  # and nobody's own key
    secret = root["root_pri_key"].strip().splitlines()[3]
    holders = [path for path in made.rglob("*") if path.is_file() and secret in path.read_text(errors="ignore")]
    assert holders == [made / "authority" / "root.json"]


def test_keys_are_readable_by_the_owner_alone(made: Path) -> None:
    secrets = [*made.rglob("*.key"), made / "authority" / "root.json"]
    assert len(secrets) == 6
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert all(stat.S_IMODE((made / name).stat().st_mode) == 0o700 for name in ("server", "shop", "authority"))


def test_no_kit_holds_anything_to_execute(made: Path) -> None:
    kinds = {path.suffix for path in made.rglob("*") if path.is_file()}
    assert kinds == {".toml", ".json", ".html", ".crt", ".key", ".pem"}
    assert not list(made.glob("[a-z]*/flare/**/*.json"))  # JSON is the authority's alone


@pytest.mark.parametrize("name", ["server", "shop"])
def test_page(made: Path, name: str) -> None:
    kit, page = Kit.open(made / name), (made / name / "README.html").read_text()
    assert kit.authority.fingerprint in page
    assert str(kit.certificate.until.date()) in page
    assert f"tacit {'serve server' if name == 'server' else 'join shop --data'}" in page
    assert "8002" in page
    assert "pip install 'FOLDER[flare]'" in page
    assert "pip install 'tacit[" not in page  # by that name the public index has an unrelated package
    assert not re.search(r"https?://|<script|src=", page)  # it needs no network


def test_settings_come_from_the_package_not_from_the_kit(kit) -> None:
    shop = kit("shop")
    local, startup = shop.flare / "local", shop.flare / "startup"
    (local / "custom").mkdir(parents=True)
    startup.mkdir()
    (local / "custom" / "evil.py").write_text("raise SystemExit")
    (local / "evil__resources.json").write_text('{"components": [{"id": "x", "path": "subprocess.Popen"}]}')
    (startup / "evil__p_resources.json").write_text("{}")
    for name in ("resources.json", "authorization.json", "log_config.json"):
        (local / name).write_text("{}")
    (startup / "fed_client.json").write_text('{"components": [{"id": "x", "path": "subprocess.Popen"}]}')
    write_settings(shop)
    assert sorted(path.name for path in local.iterdir()) == [
        "authorization.json",
        "comm_config.json",
        "log_config.json",
        "resources.json",
    ]
    assert sorted(path.name for path in startup.iterdir()) == [
        "client.crt",
        "client.key",
        "fed_client.json",
        "rootCA.pem",
    ]
    assert stat.S_IMODE((startup / "client.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in shop.path.rglob("*") if path.is_file()) == [
        "README.html",
        "client.crt",
        "client.key",
        "rootCA.pem",
        "tacit.toml",
    ]  # nothing was written into the kit
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["class_allow_list"] == [
        "tacit.federation.flare.",
        "tacit.federation.flare_roll_call.",
        "nvflare.collab.runtime.controller.CollabController",
        "nvflare.collab.runtime.executor.CollabExecutor",
    ]
    assert "components" not in json.loads((startup / "fed_client.json").read_text())


def test_own_settings(kit) -> None:
    shop = kit("shop")
    assert shop.settings() == {}
    shop.keep(data=Path('/data/a "b".csv'), id="customer")
    shop.keep(budget={"epsilon": 2.0}, id=None)
    assert shop.settings() == {"data": '/data/a "b".csv', "budget": {"epsilon": 2.0}}
    assert stat.S_IMODE(shop.site.stat().st_mode) == 0o600


def test_what_is_own_is_outside_the_kit_and_private(kit) -> None:
    shop = kit("shop")
    short = shop.authority.fingerprint.replace(":", "").lower()[:8]
    assert shop.home == Path(os.environ["TACIT_HOME"]).resolve() / f"credit-{short}" / "shop"
    for own in (shop.flare, shop.jobs, shop.ledger, shop.site, shop.logs, shop.identity):
        assert own.is_relative_to(shop.home)
    assert stat.S_IMODE(shop.home.stat().st_mode) == 0o700
    shop.home.chmod(0o755)
    with pytest.raises(InputError, match=r"can be read or written by others.*chmod -R go-rwx"):
        shop.make_home()


def test_kit_of_the_environment(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACIT_KIT", raising=False)
    with pytest.raises(InputError, match="start the site with tacit join"):
        Kit.from_environment()
    monkeypatch.setenv("TACIT_KIT", str(made / "shop"))
    assert Kit.from_environment().name == "shop"


def test_no_kit(made: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'is no kit.*holds the kits "bank", "phone", "server"'):
        Kit.open(made)
    with pytest.raises(InputError, match="give the directory of a kit"):
        Kit.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "shop"', 'name = "../bank"', "use at most 40 letters"),
        ('role = "party"', 'role = "king"', "is neither"),
        ("port = 8002", 'port = "x"', "damaged at port"),
        ('host = "localhost"', 'host = "a b"', "give a host name"),
        ('federation = "credit"', "", "does not say federation"),
        ('name = "shop"', "name =", "cannot read"),
    ],
)
def test_damaged_kit(kit, old: str, new: str, message: str) -> None:
    file = kit("shop").path / "tacit.toml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        Kit.open(file.parent)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a b"}, 'federation "a b"'),
        ({"server": ""}, 'server organisation ""'),
        ({"host": "bad_host"}, 'host "bad_host"'),
        ({"host": "::1"}, 'host "::1"'),
        ({"port": 0}, "port 0"),
        ({"port": True}, "port True"),
        ({"parties": ()}, "at least one"),
        ({"parties": ("a", "A")}, "name each once"),
        ({"parties": ("a-b", "a_b")}, "name each once"),
        ({"parties": ("server",)}, "taken by the federation"),
        ({"parties": ("x" * 41,)}, "at most 40 letters"),
        ({"parties": ("ä",)}, "letters a to z"),
    ],
)
def test_bad_federation(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Federation(**{"name": "credit", "server": "bank", "host": "localhost", "parties": ("bank",), **change})


def test_never_overwrites(made: Path, tmp_path: Path) -> None:
    federation = Federation("credit", "bank", "localhost", ("bank",))
    with pytest.raises(InputError, match="never overwritten"):
        init(federation, made)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="never overwritten"):
        init(federation, tmp_path / "empty")


def test_nothing_is_left_where_provisioning_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "_project", lambda federation: {"api_version": 3, "name": "credit"})
    with pytest.raises(RunError, match="FLARE's provisioning failed: "):
        init(Federation("credit", "bank", "localhost", ("bank",)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_without_flare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'tacit\[flare\]'"):
        init(Federation("credit", "bank", "localhost", ("bank",)), tmp_path / "out")


def test_add_and_renew(tmp_path: Path) -> None:
    place = tmp_path / "credit"
    server, shop = init(Federation("credit", "bank", "10.0.0.1", ("shop",)), place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and "authority" not in path.parts}
    late = add(place, "late-comer")
    assert late.authority == shop.authority
    assert late.parties == ("shop", "late-comer")
    assert all(path.read_bytes() == content for path, content in before.items())
    with pytest.raises(InputError, match="in the federation already"):
        add(place, "shop")
    (fresh,) = renew(place, ["shop"])
    assert fresh.path.parent.parent == place
    assert fresh.authority == shop.authority
    assert fresh.certificate.fingerprint != shop.certificate.fingerprint
    assert fresh.certificate.until >= shop.certificate.until
    with pytest.raises(InputError, match="never overwritten"):
        renew(place)
    with pytest.raises(InputError, match='"nobody" is not in the federation'):
        renew(place, ["nobody"])
    with pytest.raises(InputError, match="has no authority"):
        add(server.path, "x")


def test_federation_file(tmp_path: Path) -> None:
    file = tmp_path / "credit.toml"
    federation = Federation("credit", "bank", "tacit.bank.example", ("bank", "shop"), 9000)
    federation.write(file)
    assert Federation.read(file) == federation
    for text, message in [
        ("nme = 1", '"nme" is not known'),
        ('name = "a"\nserver = "b"', 'write host = "..."'),
        ('name = "a"\nserver = "b"\nhost = "c"\nparties = "d"', "write parties"),
        ("name =", "cannot read"),
    ]:
        file.write_text(text)
        with pytest.raises(InputError, match=re.escape(message)):
            Federation.read(file)

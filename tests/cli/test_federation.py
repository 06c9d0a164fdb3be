"""`tacit federation`, `tacit serve` and `tacit join`, up to where processes start."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs tacit[flare]")

from tacit.cli import join
from tacit.cli.main import main
from tacit.federation.kit import Kit


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    (place / "credit.toml").write_text(
        'name = "credit"\nserver = "bank"\nhost = "localhost"\nparties = ["bank", "shop"]\n'
    )
    assert main(["federation", "init", str(place / "credit.toml"), "--out", str(place / "credit")]) == 0
    return place / "credit"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Kit]:
    """The kits that would have been started."""
    kits: list[Kit] = []
    monkeypatch.setattr(join, "supervise", lambda kit: kits.append(kit) or 0)
    monkeypatch.setattr("tacit.cli.serve.supervise", lambda kit: kits.append(kit) or 0)
    return kits


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("tacit: error: ")
    assert err.count("\n") == 1
    return err


def test_init_says_what_to_do_with_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "credit")
    options = ["--name", "credit", "--server", "bank", "--host", "localhost", "--party", "bank", "--party", "shop"]
    assert main(["federation", "init", *options, "--out", out]) == 0
    said = capsys.readouterr().out
    assert f"kit        {out}/server (you keep it)" in said
    assert f"kit        {out}/bank (you keep it)" in said
    assert f"kit        {out}/shop: hand it to shop" in said
    assert f"authority  {out}/authority (you keep it, secret" in said
    assert f"compare    {Kit.open(out + '/shop').authority.fingerprint}" in said
    assert f"tacit serve {out}/server" in said
    assert Kit.open(out + "/shop").port == 8002
    assert main(["federation", "add", out, "phone"]) == 0
    assert f"kit        {out}/phone: hand it to phone" in capsys.readouterr().out
    assert main(["federation", "renew", out, "--only", "phone"]) == 0
    assert "/phone: valid until " in capsys.readouterr().out
    assert main(["federation", "init", *options, "--out", out]) == 2
    assert "never overwritten" in one_line(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to do"),
        (["init", "--name", "x", "--out", "y"], "--server is missing"),
        (["init", "--out", "y", "none.toml"], "cannot read"),
        (["init", "--out", "y", "f.toml", "--name", "x"], "--name and a file together"),
        (["init", "--name", "a b", "--server", "s", "--host", "h", "--party", "p", "--out", "y"], 'federation "a b"'),
        (["add", "nowhere", "x"], "has no authority"),
        (["renew", "nowhere"], "has no authority"),
    ],
)
def test_refusals(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["federation", *arguments]) == 2
    assert message in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


def test_join_checks_and_remembers_the_data(made: Path, tmp_path: Path, started: list[Kit]) -> None:
    file = tmp_path / "people.csv"
    file.write_text("customer,x\n007,1\n008,2\n")
    assert main(["join", str(made / "shop"), "--data", str(file), "--id", "customer"]) == 0
    assert Kit.open(made / "shop").settings() == {"data": str(file), "id": "customer"}
    assert main(["join", str(made / "shop")]) == 0  # as the last time
    assert [kit.name for kit in started] == ["shop", "shop"]


def test_join_of_a_parquet_file_reads_its_columns(made: Path, tmp_path: Path, started: list[Kit], capsys) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    file = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(pa.table({"customer": [1], "x": [2.0]}), file)
    assert main(["join", str(made / "bank"), "--data", str(file), "--id", "customer"]) == 0
    assert main(["join", str(made / "bank"), "--data", str(file), "--id", "custmer"]) == 2
    assert 'has no column "custmer"' in one_line(capsys)
    file.write_bytes(b"no parquet")
    assert main(["join", str(made / "bank")]) == 2
    assert "cannot read" in one_line(capsys)
    assert len(started) == 1


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (None, [], "there is no file"),
        ("", [], "is empty"),
        ("a;b\n1;2\n", [], "separated by semicolons"),
        ("a,b\n1,2\n", ["--id", "customer"], 'has no column "customer"'),
    ],
)
def test_join_refuses_bad_data(
    made: Path, tmp_path: Path, started: list[Kit], capsys, content: str | None, arguments: list[str], message: str
) -> None:
    file = tmp_path / "people.csv"
    if content is not None:
        file.write_text(content)
    before = Kit.open(made / "shop").settings()
    assert main(["join", str(made / "shop"), "--data", str(file), *arguments]) == 2
    assert message in one_line(capsys)
    assert Kit.open(made / "shop").settings() == before
    assert not started


def test_each_kit_with_its_own_verb(made: Path, tmp_path: Path, started: list[Kit], capsys) -> None:
    assert main(["join", str(made / "server"), "--data", "x.csv"]) == 2
    assert "tacit serve" in one_line(capsys)
    assert main(["serve", str(made / "shop")]) == 2
    assert "tacit join" in one_line(capsys)
    assert main(["serve", str(tmp_path)]) == 2
    assert "is no kit" in one_line(capsys)
    (tmp_path / "fresh").mkdir()
    assert main(["serve", str(made / "server")]) == 0
    assert [kit.name for kit in started] == ["server"]
    assert main(["serve", str(made / "server"), "--data", "labels.csv"]) == 2  # a server has no data


def test_join_without_data(made: Path, started: list[Kit], capsys) -> None:
    kit = Kit.open(made / "bank")
    kit.site.unlink(missing_ok=True)
    assert main(["join", str(kit.path)]) == 2
    assert "give --data FILE" in one_line(capsys)
    assert not started

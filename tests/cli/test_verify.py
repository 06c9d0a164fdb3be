"""`tacit verify`: exit codes and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.certificate import not_private
from tests.privacy.conftest import make_certificate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    path.write_text(make_certificate().to_json())
    return path


def test_an_honest_certificate_agrees(tacit: Any, path: Path) -> None:
    for where in (path, path.parent):
        answer = tacit("verify", where)
        assert answer.code == 0, answer
        assert "The certificate agrees: epsilon 1" in answer.out
        assert "second accountant: privacy loss distributions (dp_accounting)" in answer.out
        assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_an_edited_certificate_does_not(tacit: Any, path: Path) -> None:
    record = json.loads(path.read_text())
    record["claims"][0]["events"].pop()
    path.write_text(json.dumps(record))
    answer = tacit("verify", path)
    assert answer.code == 1
    assert answer.err == ""
    assert "- record of shop: states epsilon 1, more than the 0.94" in answer.out
    assert answer.out.endswith("The certificate does NOT agree with its own releases.\n")


def test_no_privacy_is_said(tacit: Any, path: Path) -> None:
    path.write_text(not_private(("bank", "shop"), 5).to_json())
    answer = tacit("verify", path)
    assert answer.code == 0
    assert answer.out == "The certificate agrees: it claims no privacy, and epsilon is infinite.\n"


def test_the_certificate_of_a_run(tacit: Any, files: Any, tmp_path: Path) -> None:
    assert tacit("train", files.write(), "--out", tmp_path / "run", "--quiet").code == 0
    assert tacit("verify", tmp_path / "run").code == 0


def test_a_party_named_like_markup_is_shown_as_it_is(tacit: Any, path: Path) -> None:
    path.write_text(path.read_text().replace('"party": "shop"', '"party": "[red]"'))
    assert "record of [red]" in tacit("verify", path).out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 7}', "\x00"])
def test_what_cannot_be_read_is_refused(refused: Any, path: Path, text: str) -> None:
    path.write_text(text)
    assert f"cannot read the certificate {path}: " in refused("verify", path)


def test_a_missing_file_is_refused(refused: Any, tmp_path: Path) -> None:
    for where in (tmp_path / "none.json", tmp_path, "a\0b"):
        assert "give a certificate.json, or the directory of a run" in refused("verify", where)


# --- signatures -------------------------------------------------------------------------------------------


def signed(tacit: Any, path: Path, party: str = "shop") -> tuple[Path, str]:
    """A signature of a certificate with a key of its own, and that key."""
    answer = tacit("sign", path, "--key", path.parent / f"{party}.pem", "--party", party)
    assert answer.code == 0, answer
    return path.with_suffix(f".{party}.sig"), answer.out.split()[-1]


def test_a_signature_holds_for_its_certificate_and_its_key(tacit: Any, path: Path) -> None:
    signature, key = signed(tacit, path)
    answer = tacit("verify", path, "--signature", signature, "--signed-by", key)
    assert answer.code == 0
    assert answer.out.endswith("\nSigned by shop.\n")
    unknown = tacit("verify", path, "--signature", signature)
    assert unknown.code == 0
    assert f"Signed with the key {key}, by somebody called shop: ask shop" in unknown.out
    assert (path.parent / "shop.pem").stat().st_mode & 0o077 == 0


def test_a_changed_byte_another_key_and_another_name_are_noticed(tacit: Any, path: Path) -> None:
    signature, key = signed(tacit, path)
    text = path.read_text()
    path.write_text(text + "\n")
    answer = tacit("verify", path, "--signature", signature, "--signed-by", key)
    assert answer.code == 1
    assert "does NOT hold: it was made for a different certificate" in answer.out
    path.write_text(text)
    _, other = signed(tacit, path, "bank")
    assert tacit("verify", path, "--signature", signature, "--signed-by", other).code == 1
    record = json.loads(signature.read_text())
    for change in ({"party": "bank"}, {"public_key": other}):
        signature.write_text(json.dumps({**record, **change}))
        answer = tacit("verify", path, "--signature", signature)
        assert answer.code == 1
        assert "does NOT hold: it was not made with the key that it names" in answer.out


def test_a_false_certificate_is_not_signed(refused: Any, path: Path) -> None:
    record = json.loads(path.read_text())
    record["claims"][0]["events"].pop()
    path.write_text(json.dumps(record))
    message = refused("sign", path, "--key", path.parent / "key.pem", "--party", "shop")
    assert "not signed" in message
    assert not list(path.parent.glob("*.sig"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--key", "key.pem"), "say who signs: --party NAME"),
        (("--kit", "nowhere", "--party", "shop"), "leave --party out"),
        (("--key", "key.pem", "--party", "../shop"), "party"),
    ],
)
def test_what_cannot_sign_is_refused(refused: Any, path: Path, words: tuple[str, ...], why: str) -> None:
    assert why in refused("sign", path, *words)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": 1}'])
def test_what_is_no_signature_is_refused(refused: Any, path: Path, text: str) -> None:
    (path.parent / "x.sig").write_text(text)
    assert "cannot read the signature" in refused("verify", path, "--signature", path.parent / "x.sig")


def test_whose_signature_needs_a_signature(refused: Any, path: Path) -> None:
    assert "name it with --signature FILE" in refused("verify", path, "--signed-by", "x")

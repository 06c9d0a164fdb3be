"""Somebody tries to speak as another party, or to read, change, replay, reorder or reflect what parties send.

The attackers: a member with its own certificate and changed software, a server that was turned, whoever made the kits
and so everybody's TLS keys. None of them has the keys that a party made on its own machine.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs tacit[flare]")

from tacit.cli.main import main
from tacit.errors import InputError
from tacit.federation.channel import (
    MOST_OPEN,
    Channel,
    PeerConnection,
    Sealed,
    SealedRequest,
    SealError,
    UnconfirmedError,
)
from tacit.federation.identity import Card, OwnKeys, as_fingerprint, read_chain
from tacit.federation.kit import Kit
from tacit.federation.members import CONFIRMED, REVOKED, UNCONFIRMED, Members
from tacit.privacy.verify import sign
from tests.hostile.parties import RUN, Receiver, channel, copied_kits, make_kits
from tests.privacy.conftest import make_certificate


@pytest.fixture
def kits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Kit]:
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    return make_kits(tmp_path)


def talk(kits: dict[str, Kit]) -> tuple[Channel, Channel, PeerConnection, Receiver]:
    """Processes of bank and shop, bank's way to shop, and what shop was asked."""
    bank, shop = channel(kits["bank"]), channel(kits["shop"])
    return bank, shop, bank.line("shop", shop.process), Receiver()


# --- what is right passes ------------------------------------------------------------------------------


def test_what_is_sealed_arrives_with_the_name_of_who_sealed_it(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    for number in range(1, 200):
        content = os.urandom(number)
        request = line.seal(content)
        assert line.open(request, shop.answer(request, asked)) == b"answer to " + content
        line.done(request)
        assert asked.asked[-1] == ("bank", content)
    assert len(asked.asked) == 199


def test_a_request_that_comes_again_is_done_once_and_answered_with_the_same_bytes(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    request = line.seal(b"question")
    assert shop.answer(request, asked) == shop.answer(request, asked)
    assert asked.asked == [("bank", b"question")]


# --- reading -------------------------------------------------------------------------------------------


def test_nothing_that_travels_holds_what_was_sealed_and_the_same_content_never_travels_twice_alike(
    kits: dict[str, Kit],
) -> None:
    _, shop, line, asked = talk(kits)
    secret = b"customer-007 owes 918273645"
    seen = [line.seal(secret) for _ in range(20)]
    carried = [part for one in seen for part in (*one.sealed, one.process, *shop.answer(one, asked))]
    assert not any(secret[start : start + 8] in part for part in carried for start in range(len(secret) - 8))
    assert len({one.sealed.content for one in seen}) == len({one.sealed.salt for one in seen}) == 20


def test_a_server_with_every_kit_and_every_public_key_opens_nothing(kits: dict[str, Kit], tmp_path: Path) -> None:
    _, shop, line, asked = talk(kits)
    request = line.seal(b"a secret")
    reply = shop.answer(request, asked)
    files = [path.read_bytes() for kit in kits.values() for path in kit.path.rglob("*") if path.is_file()]
    assert len(files) > 20
    for kit in kits.values():  # no private half of what seals is in any kit
        if kit.role == "party":
            own = json.loads((kit.identity / "own.json").read_text())
            for half in (own["signing"], own["sealing"]):
                assert not any(half.encode() in one or bytes.fromhex(half) in one for one in files)
    turned = stranger(kits["bank"])  # the names and the cards of both, and keys of its own
    for other in (turned.line("shop", request.process), turned.line("shop", shop.process)):
        with pytest.raises(SealError, match="was not sealed"):
            other.open(request, reply)
    with pytest.raises(SealError, match="was not sealed"):
        turned.answer(replace_sender(request, "shop"), Receiver())


# --- speaking as another -------------------------------------------------------------------------------


def stranger(kit: Kit, **changes: object) -> Channel:
    """A process that says to be a party, and knows all cards, with lasting keys that it made itself."""
    made = OwnKeys._made(replace(kit, **changes), 1)
    return Channel(made, Members(kit).card, RUN, 10**6)


def replace_sender(request: SealedRequest, sender: str) -> SealedRequest:
    return request._replace(sender=sender)


def test_a_member_cannot_send_as_another_member(kits: dict[str, Kit]) -> None:
    shop, phone, asked = channel(kits["shop"]), channel(kits["phone"]), Receiver()
    forged = phone.line("shop", shop.process).seal(b"open this job")
    for attempt in (
        replace_sender(forged, "bank"),  # what FLARE's collab.caller would have believed
        stranger(kits["bank"]).line("shop", shop.process).seal(b"open"),
        replace_sender(stranger(kits["phone"]).line("shop", shop.process).seal(b"open"), "bank"),
    ):
        with pytest.raises(SealError, match="was not sealed by who it says"):
            shop.answer(attempt, asked)
    assert asked.asked == []
    shop.answer(forged, asked)
    assert asked.asked == [("phone", b"open this job")]  # under its own name alone


def test_nobody_answers_for_another_member(kits: dict[str, Kit]) -> None:
    bank, _, line, asked = talk(kits)
    request = line.seal(b"question")
    phone = channel(kits["phone"])
    with pytest.raises(SealError):
        phone.answer(request, asked)
    to_phone = bank.line("phone", phone.process)
    asked_phone = to_phone.seal(b"question")
    with pytest.raises(SealError):
        line.open(request, phone.answer(asked_phone, asked))


@pytest.mark.parametrize("name", ["server", "bank2", "shop", "", "../bank"])
def test_nothing_is_handled_for_a_sender_that_nobody_confirmed(kits: dict[str, Kit], name: str) -> None:
    _, shop, line, asked = talk(kits)
    with pytest.raises(UnconfirmedError):
        shop.answer(replace_sender(line.seal(b"open"), name), asked)
    assert asked.asked == []


def test_keys_that_are_none_are_refused(kits: dict[str, Kit]) -> None:
    bank, shop, line, asked = talk(kits)
    request = line.seal(b"question")
    for process in (b"", bytes(32), b"\1" + bytes(31), os.urandom(31), os.urandom(33)):
        with pytest.raises(SealError):
            shop.answer(request._replace(process=process), asked)
        with pytest.raises(SealError):
            bank.line("shop", process)
    assert asked.asked == []


# --- changing ------------------------------------------------------------------------------------------


def test_every_changed_bit_is_noticed(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    request = line.seal(b"question")
    salt, content = request.sealed
    changed = [Sealed(flip(salt, bit), content) for bit in range(8 * len(salt))]
    changed += [Sealed(salt, flip(content, bit)) for bit in range(8 * len(content))]
    changed += [Sealed(salt, content[:-1]), Sealed(salt, content + b"\0"), Sealed(salt, b""), Sealed(b"", content)]
    for sealed in changed:
        with pytest.raises(SealError):
            shop.answer(request._replace(sealed=sealed), asked)
    for field, value in (("number", 2), ("floor", 2), ("start", request.start + 1)):
        with pytest.raises(SealError):
            shop.answer(request._replace(**{field: value}), asked)
    assert asked.asked == []
    reply = shop.answer(request, asked)
    for bit in range(8 * len(reply.content)):
        with pytest.raises(SealError):
            line.open(request, Sealed(reply.salt, flip(reply.content, bit)))


def flip(content: bytes, bit: int) -> bytes:
    return bytes(byte ^ (1 << bit % 8) if at == bit // 8 else byte for at, byte in enumerate(content))


# --- replaying, reordering, reflecting -------------------------------------------------------------------


def test_what_was_recorded_is_worth_nothing_to_another_process(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    request = line.seal(b"answer round 3")
    reply = shop.answer(request, asked)
    again = channel(kits["shop"])  # the site was started again
    with pytest.raises(SealError, match="was not sealed"):
        again.answer(request, asked)
    restarted = channel(kits["bank"]).line("shop", shop.process)  # the lead was started again
    asked_again = restarted.seal(b"answer round 3")
    with pytest.raises(SealError, match="was not sealed"):
        restarted.open(asked_again, reply)
    assert len(asked.asked) == 1


def test_nothing_of_one_run_is_taken_in_another(kits: dict[str, Kit]) -> None:
    shop, asked = channel(kits["shop"]), Receiver()
    other = channel(kits["bank"], "another-0123456789").line("shop", shop.process)
    with pytest.raises(SealError):
        shop.answer(other.seal(b"answer round 3"), asked)


def test_a_message_that_was_held_back_is_not_done_later(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    held = line.seal(b"answer round 3")
    line.done(held)  # nobody waits for it any more
    later = line.seal(b"answer round 4")
    shop.answer(later, asked)
    line.done(later)
    with pytest.raises(SealError, match="of which nobody awaits the answer"):
        shop.answer(held, asked)
    last = line.seal(b"answer round 5")
    shop.answer(last, asked)
    with pytest.raises(SealError, match="of which nobody awaits the answer"):
        shop.answer(later, asked)
    assert [content for _, content in asked.asked] == [b"answer round 4", b"answer round 5"]


def test_a_message_of_an_earlier_process_that_was_held_back_is_not_done_later(kits: dict[str, Kit]) -> None:
    shop, asked = channel(kits["shop"]), Receiver()
    early, late = (channel(kits["bank"]).line("shop", shop.process) for _ in range(2))
    held = early.seal(b"end the run")
    shop.answer(late.seal(b"open"), asked)
    with pytest.raises(SealError, match="an earlier process"):
        shop.answer(held, asked)
    assert asked.asked == [("bank", b"open")]


def test_a_reply_belongs_to_its_request_alone(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    first, second = line.seal(b"same"), line.seal(b"same")
    one, two = shop.answer(first, asked), shop.answer(second, asked)
    for request, reply in ((first, two), (second, one)):
        with pytest.raises(SealError):
            line.open(request, reply)
    assert line.open(first, one) == line.open(second, two)


def test_a_message_comes_back_to_nobody(kits: dict[str, Kit]) -> None:
    bank, shop, line, asked = talk(kits)
    request = line.seal(b"question")
    with pytest.raises(SealError):
        line.open(request, request.sealed)  # as its own answer
    with pytest.raises(SealError):
        bank.answer(request, asked)  # to who sent it
    with pytest.raises(SealError):
        bank.answer(request._replace(sender="shop", process=shop.process), asked)
    reply = shop.answer(request, asked)
    with pytest.raises(SealError):
        bank.answer(request._replace(sender="shop", process=shop.process, start=shop.start, sealed=reply), asked)
    assert asked.asked == [("bank", b"question")]


def test_one_member_cannot_fill_the_memory_of_another(kits: dict[str, Kit]) -> None:
    _, shop, line, asked = talk(kits)
    for _ in range(MOST_OPEN):
        shop.answer(line.seal(b"x"), asked)
    with pytest.raises(SealError, match="nobody awaits"):
        shop.answer(line.seal(b"x"), asked)


# --- cards ---------------------------------------------------------------------------------------------


def test_a_server_that_swaps_cards_at_first_contact_is_found_out(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    kits = copied_kits(tmp_path)
    shop, true = kits["shop"], OwnKeys.of(kits["bank"])
    swapped = OwnKeys._made(kits["bank"], 1)
    assert not Members(shop).meet("bank", swapped.cards())  # kept, and waits
    with pytest.raises(UnconfirmedError):
        channel(shop).line("bank", os.urandom(32))
    assert main(["federation", "members", str(shop.path)]) == 0
    said = capsys.readouterr().out
    assert f"not confirmed  bank: {swapped.card.fingerprint}" in said
    assert true.card.fingerprint not in said  # what the bank reads out by telephone is another
    assert main(["federation", "members", str(shop.path), "--confirm", f"bank={true.card.fingerprint}"]) == 2
    assert "somebody may stand between you" in capsys.readouterr().err
    assert Members(shop).card("bank") is None


def test_a_fingerprint_that_was_confirmed_before_lets_no_swapped_card_in(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    kits = copied_kits(tmp_path)
    true, members = OwnKeys.of(kits["bank"]), Members(kits["shop"])
    members.confirm("bank", true.card.fingerprint)
    with pytest.raises(InputError, match="another key than the confirmed one"):
        members.meet("bank", OwnKeys._made(kits["bank"], 1).cards())
    assert members.card("bank") is None
    assert members.meet("bank", true.cards())
    assert members.card("bank") == true.card


def test_a_card_that_differs_from_the_confirmed_one_is_refused_and_changes_nothing(kits: dict[str, Kit]) -> None:
    members, known = Members(kits["shop"]), OwnKeys.of(kits["bank"]).card
    for other in (OwnKeys._made(kits["bank"], 1), OwnKeys._made(kits["bank"], 2)):
        with pytest.raises(InputError, match="another key than the confirmed one"):
            members.meet("bank", other.cards())
        assert members.card("bank") == known
    with pytest.raises(InputError, match="somebody else"):
        members.meet("bank", OwnKeys.of(kits["phone"]).cards())
    with pytest.raises(InputError, match="somebody else"):
        members.meet("shop", OwnKeys.of(kits["shop"]).cards())
    foreign = OwnKeys._made(replace(kits["bank"], federation="debit"), 1)
    with pytest.raises(InputError, match="somebody else"):
        members.meet("bank", foreign.cards())


def test_a_card_that_was_changed_is_no_card(kits: dict[str, Kit]) -> None:
    card = OwnKeys.of(kits["bank"]).card.record()
    other = OwnKeys.of(kits["phone"]).card.record()
    wrong = [{**card, key: other[key]} for key in ("name", "signing", "sealing", "signature")]
    wrong += [{**card, "generation": 2}, {**card, "authority": "x"}, {**card, "more": 1}, {**card, "signing": "zz"}, {}]
    wrong += [{**card, "signing": card["signing"].upper()}] if card["signing"] != card["signing"].upper() else []
    for record in (*wrong, None, [], "card", {**card, "name": 7}):
        with pytest.raises(InputError):
            Card.read(record)
    for records in ([], "x", [card, card], [card] * 51, None):
        with pytest.raises(InputError):
            read_chain(records)


def test_rotated_keys_are_taken_where_the_confirmed_key_vouches_and_the_old_ones_never_come_back(
    kits: dict[str, Kit], capsys: pytest.CaptureFixture[str]
) -> None:
    members, first = Members(kits["shop"]), OwnKeys.of(kits["bank"])
    for _ in range(2):  # one of them while shop was away
        assert main(["federation", "rotate", str(kits["bank"].path)]) == 0
    third = OwnKeys.of(kits["bank"])
    assert [card.generation for card in third.chain] == [1, 2, 3]
    assert members.meet("bank", third.cards())
    assert members.card("bank") == third.card
    assert "rotated to generation 3" in members.get("bank").note
    with pytest.raises(InputError, match="another key"):
        members.meet("bank", first.cards())
    assert "the old key vouches for it" in capsys.readouterr().out
    forged = OwnKeys._made(kits["bank"], 4, replace(OwnKeys._made(kits["bank"], 3), chain=third.chain))
    with pytest.raises(InputError, match="do not follow each other"):
        members.meet("bank", forged.cards())
    held = json.loads((kits["bank"].identity / "own.json").read_text())
    assert first.signing.private_bytes_raw().hex() not in json.dumps(held)  # the old private keys are gone


def test_a_stolen_key_is_revoked_for_good_and_cannot_vouch(
    kits: dict[str, Kit], capsys: pytest.CaptureFixture[str]
) -> None:
    members, stolen = Members(kits["shop"]), OwnKeys.of(kits["bank"])
    thief = Channel(stolen, Members(kits["bank"]).card, RUN, 10**6)
    shop, asked = channel(kits["shop"]), Receiver()
    line = thief.line("shop", shop.process)
    shop.answer(line.seal(b"while it is trusted"), asked)
    assert main(["federation", "members", str(kits["shop"].path), "--revoke", "bank"]) == 0
    assert f"revoked        bank: {stolen.card.fingerprint}" in capsys.readouterr().out
    assert members.state("bank") == REVOKED
    with pytest.raises(UnconfirmedError):
        shop.answer(line.seal(b"in a run that goes on"), asked)
    vouched = OwnKeys._made(kits["bank"], 2, stolen)
    for identity in (stolen, vouched):
        with pytest.raises(InputError, match="was revoked"):
            members.meet("bank", identity.cards())
    with pytest.raises(InputError, match="stays so"):
        members.confirm("bank", stolen.card.fingerprint)
    assert main(["federation", "rotate", str(kits["bank"].path), "--stolen"]) == 0
    fresh = OwnKeys.of(kits["bank"])
    assert (len(fresh.chain), fresh.card.generation, fresh.card.before) == (1, 2, b"")
    assert not members.meet("bank", fresh.cards())
    assert members.state("bank") == UNCONFIRMED
    members.confirm("bank", fresh.card.fingerprint)
    assert members.state("bank") == CONFIRMED
    with pytest.raises(SealError):  # the way that was open before stays shut
        shop.answer(line.seal(b"after the new key was confirmed"), asked)
    assert [content for _, content in asked.asked] == [b"while it is trusted"]


def test_confirming_needs_the_fingerprint_or_somebody_at_a_terminal(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    kits = copied_kits(tmp_path)
    shop, bank = str(kits["shop"].path), OwnKeys.of(kits["bank"])
    assert main(["federation", "members", shop, "--confirm", "bank"]) == 2
    assert "no key of 'bank' came yet" in capsys.readouterr().err
    Members(kits["shop"]).meet("bank", bank.cards())
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["federation", "members", shop, "--confirm", "bank"]) == 2
    assert "or --yes if you compared it" in capsys.readouterr().err
    assert main(["federation", "members", shop, "--confirm", "bank=1234"]) == 2
    assert "is no fingerprint" in capsys.readouterr().err
    assert main(["federation", "members", shop, "--confirm", "bank", "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"confirmed      bank: {bank.card.fingerprint}" in said
    assert f"you            shop: {OwnKeys.of(kits['shop']).card.fingerprint} (generation 1; 0 starts)" in said
    assert as_fingerprint(bank.card.fingerprint.upper().replace(" ", ":")) == bank.card.fingerprint


def test_the_masks_of_a_run_are_shown_where_it_has_some(kits: dict[str, Kit], capsys) -> None:
    shop = kits["shop"]
    (shop.jobs / RUN).mkdir(parents=True)
    (shop.jobs / RUN / "masks.json").write_text('{"fingerprints": ["12:34\\u001b[2J", "56:78"], "unchecked": []}')
    assert main(["federation", "members", str(shop.path), "--run", RUN]) == 0
    assert f"masks          run {RUN}: 12:34\\u001b[2J; then 56:78 (every key" in capsys.readouterr().out
    assert main(["federation", "members", str(shop.path), "--run", "../../etc"]) == 2


# --- files ---------------------------------------------------------------------------------------------


def test_own_keys_are_private_and_refused_where_others_can_read_them(kits: dict[str, Kit]) -> None:
    shop = kits["shop"]
    files = [path for path in shop.identity.iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(shop.identity.stat().st_mode) == 0o700
    for name, use in (("own.json", OwnKeys.of), ("members.json", lambda kit: Members(kit).names())):
        for mode in (0o640, 0o604, 0o620):
            (shop.identity / name).chmod(mode)
            with pytest.raises(InputError, match=rf"{name}.*can be read or written by others.*chmod"):
                use(shop)
        (shop.identity / name).chmod(0o600)
        use(shop)


def test_keys_of_another_party_and_damaged_ones_are_refused(kits: dict[str, Kit]) -> None:
    own, other = kits["shop"].identity / "own.json", kits["bank"].identity / "own.json"
    content = own.read_text()
    own.write_text(other.read_text())
    with pytest.raises(InputError, match="of another party"):
        OwnKeys.of(kits["shop"])
    record = json.loads(content)
    for change in ({"signing": "00" * 32}, {"sealing": "zz"}, {"cards": []}):
        own.write_text(json.dumps({**record, **change}))
        with pytest.raises(InputError):
            OwnKeys.of(kits["shop"])


def test_the_own_fingerprint_is_not_taken_for_that_of_another(kits: dict[str, Kit], capsys) -> None:
    own = OwnKeys.of(kits["shop"]).card.fingerprint
    assert main(["federation", "members", str(kits["shop"].path), "--confirm", f"insurer={own}"]) == 2
    assert "your own name or your own fingerprint" in capsys.readouterr().err


def impostor(kit: Kit, victim: Kit) -> Channel:
    """A member that shows the true public card of another, and has private keys of its own."""
    false = replace(OwnKeys._made(victim, 1), chain=(OwnKeys.of(victim).card,))
    return Channel(false, Members(kit).card, RUN, 10**6)


def test_who_shows_the_card_of_another_cannot_ask_in_its_name(kits: dict[str, Kit]) -> None:
    shop, asked = channel(kits["shop"]), Receiver()
    forged = impostor(kits["phone"], kits["bank"]).line("shop", shop.process).seal(b"open")
    with pytest.raises(SealError, match="not sealed by who it says"):
        shop.answer(forged, asked)
    assert asked.asked == []


def test_who_shows_the_card_of_another_cannot_answer_in_its_name(kits: dict[str, Kit]) -> None:
    bank, asked = channel(kits["bank"]), Receiver()
    false = impostor(kits["phone"], kits["shop"])
    false.card_of = lambda name: OwnKeys.of(kits[name]).card
    line = bank.line("shop", false.process)
    request = line.seal(b"secret")
    with pytest.raises(SealError):
        line.open(request, false.answer(request, asked))
    assert asked.asked == []  # it could not even read what was asked


# --- signed certificates --------------------------------------------------------------------------------


def test_a_signed_certificate_is_checked_against_the_keys_that_were_confirmed(
    kits: dict[str, Kit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bank signs; shop knows bank's key. A member that signs in bank's name is noticed, and so is a revoked key."""
    certificate = tmp_path / "certificate.json"
    certificate.write_text(make_certificate().to_json())
    assert main(["sign", str(certificate), "--kit", str(kits["bank"].path)]) == 0
    signature = certificate.with_suffix(".bank.sig")
    check = ["verify", str(certificate), "--signature", str(signature), "--kit", str(kits["shop"].path)]
    assert main(check) == 0
    assert "Signed by bank." in capsys.readouterr().out

    forged = sign(OwnKeys.of(kits["shop"]).signing, "bank", certificate.read_bytes())
    signature.write_text(json.dumps(forged.record()))
    assert main(check) == 1
    assert "its key is not the one that your organisation confirmed" in capsys.readouterr().out

    assert main(["sign", str(certificate), "--kit", str(kits["bank"].path)]) == 0
    Members(kits["shop"]).revoke("bank")
    assert main(check) == 1
    assert "has confirmed no key of whoever it names" in capsys.readouterr().out

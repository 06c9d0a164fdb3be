"""A lead that passes keys of its own on in the name of others, to read every party alone: keys of masks are signed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.errors import RunError
from tacit.federation.consent import Consent, KitAuthorizer
from tacit.federation.identity import OwnKeys
from tacit.federation.kit import Kit
from tacit.federation.members import MaskSigner, Members
from tacit.federation.parts import read_masks
from tacit.federation.protocol import Agree, Answer, Match, Numbers, Packet, Step
from tacit.federation.score_handler import PredictionRequest
from tacit.federation.site import AllowAll, read_text
from tacit.privacy.aggregation import MaskingParty
from tacit.run.masking import KEY_WORDS, Masks
from tacit.run.prepare import plan_job, plan_nodes
from tacit.types import Words
from tests.federation import test_sites_aligned as aligned
from tests.federation import test_sites_graph as graph
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.hostile.parties import NAMES, copied_kits, make_kits

RUN, PREDICT = "run-00000001", "predict-0001"
REFUSED = "its key is not the confirmed one, or nobody confirmed it"
Forge = Callable[[Words], Words]


@pytest.fixture
def kits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Kit]:
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    return make_kits(tmp_path)


def signers(kits: dict[str, Kit]) -> dict[str, MaskSigner]:
    return {name: MaskSigner(kits[name]) for name in NAMES}


def make_star(tmp_path: Path, kits: dict[str, Kit], run: str = "sites") -> tuple[Loopback, str]:
    files = dict(zip(NAMES, star.write_files(tmp_path).values(), strict=True))
    text = star.job_text(files, "flare", top="secure_aggregation = true\nrounds = 2")
    return Loopback(files, tmp_path / run, signers=signers(kits)), text


def make_graph(tmp_path: Path, kits: dict[str, Kit]) -> tuple[Loopback, str]:
    files = dict(zip(NAMES, graph.write_files(tmp_path).values(), strict=False))
    return Loopback(files, tmp_path / "sites", signers=signers(kits)), graph.job_text(
        files, "flare", **graph.CASES["masked star"]
    )


def make_prediction(tmp_path: Path, kits: dict[str, Kit]) -> tuple[Loopback, str]:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    files = aligned.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites", signers=signers(kits))
    loop.run(aligned.job_text(files, "flare"), RUN)
    return loop, PredictionRequest(RUN, tuple(files)).to_toml()


MAKERS = {"columns": make_star, "rows": make_graph, "predictions": make_prediction}


def pass_on(loop: Loopback, forge: Forge, victim: str = "shop") -> None:
    """Let the lead pass something else on to the victim as the key of phone, which is the last one."""
    lead = loop.sites["bank"]
    honest = lead.ask

    def forged(keys: Numbers) -> Numbers:
        rows = keys.array()
        return Numbers.of(np.stack([*rows[:-1], forge(rows[-1])]))

    def ask(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Agree):
            false: Step = Agree(keys=forged(request.keys))
        elif isinstance(request, Answer) and request.message.kind == "agree":
            message = request.message
            false = Answer(message=Packet(message.round, message.kind, {"keys": forged(message.arrays["keys"])}))
        else:
            return honest(names, request)
        replies = honest([name for name in names if name != victim], request)
        return {**replies, **honest([victim], false)}

    lead.ask = ask


def own_key(run: str = "any") -> Words:
    return np.frombuffer(MaskingParty("phone", run).public_bytes, dtype="<u8").astype(np.uint64)


def changed_key(row: Words) -> Words:
    """A key of the lead's, with what phone signed."""
    return np.concatenate([own_key(), row[KEY_WORDS:]])


def without_proof(row: Words) -> Words:
    return np.concatenate([own_key(), np.zeros_like(row[KEY_WORDS:])])


def own_card(place: Path) -> Forge:
    """A key and a card that the lead made in the name of phone, properly signed by itself."""
    kit = Kit.open(place / "credit" / "bank")

    def forge(row: Words) -> Words:
        signer = MaskSigner(kit)
        signer.identity = OwnKeys._made(replace(kit, name="phone"), 1)
        return np.concatenate([own_key(), signer.prove(b"any")])

    return forge


@pytest.mark.parametrize("what", MAKERS)
def test_with_keys_that_were_confirmed_every_key_of_masks_is_checked(
    tmp_path: Path, kits: dict[str, Kit], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loop, text = MAKERS[what](tmp_path, kits)
    run = PREDICT if what == "predictions" else RUN
    assert loop.run(text, run) >= 1
    for name in ("shop", "phone"):
        prints, unchecked = read_masks(tmp_path / "sites" / name / run)
        assert len(prints) == 1
        assert unchecked == []
    kits["shop"].jobs.mkdir(parents=True)
    (kits["shop"].jobs / run).symlink_to(tmp_path / "sites" / "shop" / run)
    assert main(["federation", "members", str(kits["shop"].path), "--run", run]) == 0
    assert "every key was signed by its confirmed owner" in capsys.readouterr().out


@pytest.mark.parametrize("forgery", ["changed key", "no proof", "own card"])
@pytest.mark.parametrize("what", MAKERS)
def test_a_key_that_its_owner_did_not_sign_is_refused(
    tmp_path: Path, kits: dict[str, Kit], what: str, forgery: str
) -> None:
    loop, text = MAKERS[what](tmp_path, kits)
    forges = {"changed key": changed_key, "no proof": without_proof, "own card": own_card(tmp_path)}
    pass_on(loop, forges[forgery])
    before = len(loop.carried)
    with pytest.raises(RunError, match=f"party 'shop': {REFUSED}"):
        loop.run(text, PREDICT if what == "predictions" else RUN)
    masked = [one for one in loop.carried[before:] if b"share" in one.reply]
    assert not masked  # nothing was sent under masks of false keys


def test_a_key_that_was_signed_for_another_run_is_refused(tmp_path: Path, kits: dict[str, Kit]) -> None:
    loop, text = make_star(tmp_path, kits)
    kept: list[Words] = []

    def keep(row: Words) -> Words:
        kept.append(row)
        return row

    pass_on(loop, keep)
    loop.run(text)
    assert len(kept) == 1
    again, text = make_star(tmp_path, kits, "again")
    pass_on(again, lambda row: kept[0])
    with pytest.raises(RunError, match=f"party 'shop': {REFUSED}"):
        again.run(text, "run-00000002")


def test_parties_that_have_not_confirmed_each_other_are_told_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    kits = copied_kits(tmp_path)
    card = OwnKeys.of(kits["bank"]).card
    Members(kits["shop"]).confirm("bank", card.fingerprint)
    loop, text = make_star(tmp_path, kits)
    loop.run(text)
    assert read_masks(tmp_path / "sites" / "shop" / RUN)[1] == ["phone"]
    assert read_masks(tmp_path / "sites" / "phone" / RUN)[1] == ["bank", "shop"]
    kits["shop"].jobs.mkdir(parents=True)
    (kits["shop"].jobs / RUN).symlink_to(tmp_path / "sites" / "shop" / RUN)
    assert main(["federation", "members", str(kits["shop"].path), "--run", RUN]) == 0
    said = capsys.readouterr().out
    assert "nobody here confirmed phone: compare all of these with them, or confirm their keys" in said
    assert OwnKeys.of(kits["phone"]).card.fingerprint in said  # its card came with its key, and can be confirmed now


def test_a_rotated_key_vouches_as_the_one_before(tmp_path: Path, kits: dict[str, Kit]) -> None:
    OwnKeys.of(kits["phone"]).rotate(kits["phone"])
    loop, text = make_star(tmp_path, kits)
    loop.run(text)
    assert read_masks(tmp_path / "sites" / "shop" / RUN)[1] == []
    assert Members(kits["shop"]).card("phone") == OwnKeys.of(kits["phone"]).card


def test_a_revoked_key_vouches_for_nothing(tmp_path: Path, kits: dict[str, Kit]) -> None:
    Members(kits["shop"]).revoke("phone")
    loop, text = make_star(tmp_path, kits)
    with pytest.raises(RunError, match=f"party 'shop': {REFUSED}"):
        loop.run(text)


class Shown(AllowAll):
    """A gate that keeps what is shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def allow_scores(self, run: str, party: str, lines: Sequence[str], bound: object) -> None:
        self.lines += lines


@pytest.mark.parametrize("confirmed", [False, True])
def test_people_are_told_before_they_agree_whose_keys_cannot_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    kits = make_kits(tmp_path) if confirmed else copied_kits(tmp_path)
    caution = "nobody here has confirmed the keys of"
    files, gate = aligned.write_files(tmp_path), Shown()
    loop = Loopback(files, tmp_path / "sites", {"shop": gate}, signers(kits))
    loop.run(aligned.job_text(files, "flare"), RUN)
    loop.run(PredictionRequest(RUN, tuple(files)).to_toml(), PREDICT)
    assert (f"{caution} phone" in " ".join(gate.lines)) is not confirmed
    job = read_text(star.job_text(dict.fromkeys(NAMES, tmp_path), "flare", top="secure_aggregation = true"))
    site, told = KitAuthorizer(kits["shop"]), []
    monkeypatch.setattr(Consent, "obtain", lambda self, digest, lines, standings: told.extend(lines))
    monkeypatch.setattr(site.book, "reserve", lambda run, events: True)
    site.allow(RUN, job, plan_job(job, 100, (2, 2, 2), 4_800), "shop", {})
    assert (f"{caution} bank, phone" in " ".join(told)) is not confirmed
    leading = KitAuthorizer(kits["bank"])
    monkeypatch.setattr(leading.book, "reserve", lambda run, events: True)
    told.clear()
    leading.allow(RUN, job, plan_job(job, 100, (2, 2, 2), 4_800), "bank", {})
    assert told
    assert caution not in " ".join(told)  # it would be warned of itself


@pytest.mark.parametrize("middle", ["bank", "shop"])
def test_the_warning_of_keys_names_who_could_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, middle: str) -> None:
    """What a node hides is known to its neighbours in the tree of the sums, whoever leads and passes keys on."""
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))
    kits, told = copied_kits(tmp_path), list[str]()
    text = graph.job_text(dict.fromkeys(NAMES, tmp_path), "flare", **graph.CASES["masked star"])
    edges = [[middle, name] for name in NAMES if name != middle]
    job = read_text(text.replace('kind = "star"', f"edges = {edges}").replace("noise_seed = 3", ""))
    plan = plan_nodes(job, (100, 100, 100), 3, {})
    monkeypatch.setattr(Consent, "obtain", lambda self, digest, lines, standings: told.extend(lines))
    said = {}
    for name in NAMES:
        kits[name].make_home()
        gate = KitAuthorizer(kits[name])
        monkeypatch.setattr(gate.book, "reserve", lambda run, events: True)
        told.clear()
        gate.allow(RUN, job, plan, name, {})
        said[name] = " ".join(" ".join(told).split())
    caution = "nobody here has confirmed the keys of"
    around = {"bank": {}, "shop": {"shop": "phone", "phone": "shop"}}[middle]  # by node: whom the lead needs besides
    for name, text in said.items():
        reader = f"bank together with {around[name]}" if name in around else "bank"
        others = [other for other in NAMES if other != name]
        wanted = f"{caution} {', '.join(others)}: {reader} could then read your part alone"
        assert (wanted if name != "bank" else "") in text
        assert (caution in text) is (name != "bank")


def test_what_a_party_signs_does_not_depend_on_its_ids(tmp_path: Path, kits: dict[str, Kit]) -> None:
    """Else whoever gets the signature could try any number of ids for one row, as anybody can check a signature."""
    signer = MaskSigner(kits["shop"])
    for rows in ("ids of some rows", "ids of other rows"):
        masks = Masks("shop", NAMES, "a run", signer=signer, rows=rows)
        key, proof = masks.key[:KEY_WORDS], masks.key[KEY_WORDS:]
        public = Masks("phone", NAMES, "a run", signer=signer)._statement("shop", key.astype("<u8").tobytes())
        assert MaskSigner(kits["phone"]).check("shop", public, proof)


def test_different_rows_end_in_noise_and_not_in_a_refusal_of_keys(tmp_path: Path, kits: dict[str, Kit]) -> None:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    files = aligned.write_files(tmp_path)
    text = aligned.job_text(files, "flare").replace("[job]", "[job]\nsecure_aggregation = true\nrounds = 2")
    loop = Loopback(files, tmp_path / "sites", signers=signers(kits))
    lead = loop.sites["bank"]
    honest = lead.ask

    def lying(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Match) and request.step == "rows" and names == ["phone"]:
            assert request.positions is not None
            moved = aligned.with_a_stranger(request.positions)
            request = Match(step="rows", run=request.run, total=request.total, positions=moved)
        return honest(names, request)

    lead.ask = lying
    with pytest.raises(RunError, match="the masks did not cancel"):
        loop.run(text)

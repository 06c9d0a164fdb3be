"""What the neighbour test plays is everything that there is: mechanisms, steps of the protocol, fields, formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tacit.audit.harness import check
from tacit.audit.harness.check import Scope, Way, neighbour_test, plan_world
from tacit.audit.harness.play import play_sites
from tacit.audit.harness.recording import Recording
from tacit.audit.harness.tape import Tape
from tacit.audit.harness.world import World, protected_parties
from tacit.data.read import reader_of
from tacit.federation.protocol import REQUESTS, Scores
from tacit.mechanisms import MECHANISMS
from tacit.plan import FeatureSplit, SampleSplit
from tests.neighbour.worlds import FEATURES, SAMPLES, SUFFIX, aligned_world, feature_world, held_world, sample_world

WITHOUT_PRIVACY = {"Try", "Settle"}  # of a search for alpha, which [privacy] refuses
CLAIM_NOTHING = {"published", "published-inverse"}  # their certificates say so


def test_every_mechanism_of_the_feature_split_is_played(tmp_path: Path) -> None:
    plans = [plan_world(feature_world(case, "dense"), tmp_path / "plan") for case in FEATURES]
    known = {name for name, one in MECHANISMS.items() if one.split == FeatureSplit.split}
    assert {plan.private.mechanism.name for plan in plans} == known - CLAIM_NOTHING


def test_every_method_of_the_sample_split_is_played(tmp_path: Path) -> None:
    plans = [plan_world(sample_world(case, "dense"), tmp_path / "plan") for case in SAMPLES]
    known = {name for name, one in MECHANISMS.items() if one.split == SampleSplit.split}
    assert {plan.private.mechanism.name for plan in plans} == known


@pytest.mark.parametrize("mechanism", sorted(CLAIM_NOTHING))
def test_what_is_not_played_claims_nothing(tmp_path: Path, mechanism: str) -> None:
    FEATURES[mechanism] = f"[privacy]\nepsilon = 8\nmechanism = '{mechanism}'\n[model]\nloss = 'squared'"
    try:
        world = feature_world(mechanism, "dense")
    finally:
        del FEATURES[mechanism]
    assert not protected_parties(world.job, plan_world(world, tmp_path / "plan"))


def test_every_claim_on_one_party_has_a_world(tmp_path: Path) -> None:
    for make, cases in ((feature_world, FEATURES), (sample_world, SAMPLES)):
        for case in cases:
            world = make(case, "dense")
            plan = plan_world(world, tmp_path / "plan")
            claimed = {(claim.unit, claim.party) for claim in plan.certificate().claims if claim.unit != "person"}
            assert claimed == {(one.claim.unit, one.claim.party) for one in protected_parties(world.job, plan)}


def test_every_format_is_played() -> None:
    readers = {reader_of(Path(f"file{suffix}"), "a")[0] for suffix in (".csv", ".parquet", ".svm", ".libsvm")}
    assert {reader_of(Path(f"file{suffix}"), "a")[0] for suffix in SUFFIX.values()} == readers


def played(world: World, folder: Path) -> Recording:
    owner = world.job.names[-1]
    return play_sites(
        world, folder, Tape(owner), 0, restarts=False, owned=(), predict=world.tables[owner].ids is not None
    )


def test_every_step_of_the_protocol_is_played(tmp_path: Path) -> None:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    steps: set[str] = set()
    for world in (aligned_world(), held_world("dense", None), sample_world("gaussian under masks", "dense")):
        record = played(world, tmp_path / "play")
        steps |= {
            item.step for channel, items in record.channels.items() if channel.startswith("reply") for item in items
        }
    assert steps == {kind.__name__ for kind in REQUESTS} - WITHOUT_PRIVACY


def test_every_field_that_is_compared_says_why_it_leaves(tmp_path: Path) -> None:
    record = played(sample_world("gaussian", "dense"), tmp_path / "play")
    for channel, items in record.channels.items():
        if channel.startswith(("request", "reply")):
            bare = {leaf.path for item in items for leaf in item.leaves if not leaf.origin}
            assert bare <= {".type", "bytes"}  # the type of the message, and its size


def test_private_matching_and_predictions(tmp_path: Path) -> None:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    for restarts in (False, True):
        found = neighbour_test(
            aligned_world(), None, Scope((Way("between sites", restarts),), most=2, parties=1, predict=True)
        )
        assert found.comparisons > 1000
        assert found.passed, "\n".join(map(str, found.differences[:10]))
    assert Scores in REQUESTS


def refusals(monkeypatch: pytest.MonkeyPatch, world: World, party: str, neighbour: World) -> set[tuple[str, str]]:
    """Channels and steps in which a neighbour is told from a world, where the run of the neighbour is refused."""
    monkeypatch.setattr(check, "neighbours", lambda _, one, *rest: [("", neighbour)] * (one.party == party))
    found = neighbour_test(world, None, Scope((Way("between sites", False),)))
    return {(one.difference.channel, one.difference.step) for one in found.differences}


def test_what_the_proof_calls_told_is_told_and_by_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits that docs/proofs/audit.md states: files that cannot be used are refused."""
    world = feature_world("gram", "dense")
    shop = world.tables["shop"]
    for cell in ("text", None):
        told = refusals(monkeypatch, world, "shop", world.with_table("shop", shop.with_record(0, (cell, 1.0, 2.0))))
        assert ("reply shop -> bank", "Prepare") in told
    world = feature_world("labels", "dense")
    bank = world.tables["bank"]
    lonely = world.with_table("bank", replace(bank, labels=(1.0, *[0.0] * (len(bank.records) - 1))))
    alike = lonely.with_table("bank", lonely.tables["bank"].with_record(0, label=0.0))
    assert ("outcome", "training") in refusals(monkeypatch, lonely, "bank", alike)

"""A certificate says in one sentence what holds for several parties alike."""

from __future__ import annotations

from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease, RandomizedResponse
from tacit.privacy.request import SEEDED


def test_equal_claims_are_one_sentence_and_others_stay_apart() -> None:
    def claim(party: str, noise: float) -> Claim:
        return Claim("record", party, "replace-one", "anyone", (GaussianRelease(1.0, noise),), "theorem")

    certificate = Certificate(
        unit="record",
        claims=(claim("a", 4.0), claim("b", 4.0), claim("c", 4.0), claim("d", 2.0)),
        target=Target(None, 1e-5),
        per_party={"a": "a model", "b": "a model", "c": "sums", "d": "a model"},
    )
    lines = str(certificate).splitlines()
    proven = lines[lines.index("Proven:") + 1 : lines.index("Covered:")]
    assert len(proven) == 2
    assert proven[0].startswith("  - record of a, b and c, replace-one: epsilon ")
    assert proven[1].startswith("  - record of d, replace-one: epsilon ")
    assert lines[lines.index("What leaves each party:") + 1 :] == ["  - a, b and d: a model", "  - c: sums"]


def test_the_headline_names_every_epsilon_and_a_seed() -> None:
    rows = Claim("record", "shop", "replace-one", "anyone", (GaussianRelease(1.0, 4.0),), "theorem")
    labels = Claim("label", "bank", "replace-one", "anyone", (RandomizedResponse(2.0, unit="label"),), "theorem")
    certificate = Certificate(unit="record", claims=(rows, labels), target=Target(None, 1e-5), assumptions=(SEEDED,))
    lines = str(certificate).splitlines()
    assert lines[1].startswith("This run is differentially private: epsilon = ")
    assert lines[1].endswith(" for each record, and 2 for each label.")
    assert lines[2] == "BUT its noise was made from a seed: against anyone who knows the seed, nobody is protected."
    assert "Who is protected: each record: one row of one party's data that the run trained on, held by shop." in lines
    alone = str(Certificate(unit="record", claims=(rows,), target=Target(None, 1e-5)))
    assert "for each" not in alone.splitlines()[1]
    assert "BUT" not in alone

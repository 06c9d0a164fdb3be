"""A certificate says in one sentence what holds for several parties alike."""

from __future__ import annotations

from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease


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

"""The certificate of a run: who is protected, from whom, how strongly, and what is not covered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.errors import InputError
from tacit.privacy.claim import Claim, Target, at_least_or_infinite, claim_from_record, target_from_record
from tacit.privacy.fields import (
    Record,
    as_list,
    as_text,
    as_whole,
    check_names,
    dump,
    load,
    plain,
    probability,
    show,
    text_map,
    texts,
)
from tacit.privacy.wording import not_private_lines, private_lines

FORMAT = 1
SCHEMA = "certificate.schema.json"
_NEEDED = (
    "format",
    "private",
    "epsilon",
    "unit",
    "adversary",
    "covers",
    "does_not_cover",
    "per_party",
    "theorem",
    "published_claim",
)
_OPTIONAL = ("delta", "target", "claims", "assumptions", "versions")


@dataclass(frozen=True)
class Certificate:
    """What may truthfully be said about the privacy of a run.

    Attributes
    ----------
    unit : str
        What is protected: "none" where nothing is.
    adversary : str
        From whom.
    covers, does_not_cover : tuple of str
        Plain sentences.
    per_party : mapping of str to str
        What leaves each party.
    theorem : str
        Name of the theorem behind the claim; empty where there is no claim.
    published_claim : str
        What the paper behind the method would have said, where that differs.
    claims : tuple of Claim
        What is proven, for each unit and party; those of `unit` give the certificate's epsilon.
    target : Target or None
        What was asked of the whole run; its delta is the one at which epsilon is stated.
    assumptions : tuple of str
        What the proofs rely on and the run did not enforce, in plain sentences.
    versions : mapping of str to str
        The software that ran.
    """

    unit: str = "none"
    adversary: str = "anybody who sees the messages of the run"
    covers: tuple[str, ...] = ()
    does_not_cover: tuple[str, ...] = ()
    per_party: Mapping[str, str] = field(default_factory=dict)
    theorem: str = ""
    published_claim: str = ""
    claims: tuple[Claim, ...] = ()
    target: Target | None = None
    assumptions: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.claims) != (self.target is not None):
            raise InputError("a certificate has claims and a target, or neither: state at which delta the claims hold")
        if self.claims and not self.main_claims:
            raise InputError(f"unit={show(self.unit)} has no claim: choose the unit of one of the claims")
        if not self.claims and self.unit != "none":
            raise InputError(f'unit={show(self.unit)} has no claim: give its claims, or unit="none"')

    @property
    def main_claims(self) -> tuple[Claim, ...]:
        """The claims about the certificate's own unit."""
        return tuple(claim for claim in self.claims if claim.unit == self.unit)

    @property
    def private(self) -> bool:
        """Whether anything finite is proven at the target's delta."""
        return self.target is not None and self.epsilon(self.target.delta) < math.inf

    def epsilon(self, delta: float) -> float:
        """Smallest proven epsilon of the whole run at this delta, the largest over the parties; infinite without."""
        return max((claim.epsilon(delta) for claim in self.main_claims), default=math.inf)

    def delta(self, epsilon: float) -> float:
        """Smallest proven delta of the whole run at this epsilon, the largest over the parties; 1 without privacy."""
        return max((claim.delta(epsilon) for claim in self.main_claims), default=1.0)

    def to_json(self) -> str:
        """The certificate as JSON, see `schema`; an infinite epsilon is written as the string "infinity"."""
        at = self.target.delta if self.target else None
        record: Record = {
            "format": FORMAT,
            "private": self.private,
            "epsilon": plain(math.inf if at is None else self.epsilon(at)),
            "delta": at,
            "unit": self.unit,
            "adversary": self.adversary,
            "covers": list(self.covers),
            "does_not_cover": list(self.does_not_cover),
            "per_party": dict(self.per_party),
            "theorem": self.theorem,
            "published_claim": self.published_claim,
            "target": None if self.target is None else {"epsilon": self.target.epsilon, "delta": self.target.delta},
            "claims": [] if at is None else [claim.record(at) for claim in self.claims],
            "assumptions": list(self.assumptions),
            "versions": dict(self.versions),
        }
        return dump(record)

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """The certificate that `to_json` wrote.

        Its form is checked, field by field. Its numbers are not believed: they are computed anew from the events,
        and `tacit.privacy.verify` compares both.

        Raises
        ------
        InputError
            In one line that names the field which is missing, unknown or out of range.
        """
        return from_record(load(text))

    def __str__(self) -> str:
        return "\n".join(private_lines(self) if self.private else not_private_lines(self))


def from_record(record: Record) -> Certificate:
    """The certificate in a JSON object."""
    check_names(record, "the certificate", _NEEDED, _OPTIONAL)
    if as_whole(record["format"], "format", 1) != FORMAT:
        raise InputError(f"format={record['format']} is not known: this version reads format {FORMAT}")
    if not isinstance(record["private"], bool):
        raise InputError(f"private={show(record['private'])} is not allowed: it must be true or false")
    at_least_or_infinite(record["epsilon"], "epsilon")
    if record.get("delta") is not None:
        probability(record["delta"], "delta")
    claims = as_list(record.get("claims", []), "claims")
    return Certificate(
        unit=as_text(record["unit"], "unit"),
        adversary=as_text(record["adversary"], "adversary"),
        covers=texts(record["covers"], "covers"),
        does_not_cover=texts(record["does_not_cover"], "does_not_cover"),
        per_party=text_map(record["per_party"], "per_party"),
        theorem=as_text(record["theorem"], "theorem"),
        published_claim=as_text(record["published_claim"], "published_claim"),
        claims=tuple(claim_from_record(claim, f"claims[{i}]") for i, claim in enumerate(claims)),
        target=target_from_record(record.get("target")),
        assumptions=texts(record.get("assumptions", []), "assumptions"),
        versions=text_map(record.get("versions", {}), "versions"),
    )


def schema() -> str:
    """The JSON Schema of a certificate, as text."""
    from importlib.resources import files

    return files("tacit.privacy").joinpath(SCHEMA).read_text(encoding="utf-8")


def not_private(parties: tuple[str, ...], rows: int) -> Certificate:
    """Certificate of a run without noise: raw data stay home, and nothing more is claimed."""
    return Certificate(
        covers=("feature values and coefficients are never sent as such (this is not a privacy guarantee)",),
        does_not_cover=(
            "the labels: the vector sent to every party in each round gives each label away by its sign",
            "the rows of every party: one number per row leaves it in each round, without noise",
            "predictions: each asked row discloses one score per party",
        ),
        per_party=dict.fromkeys(parties, f"in each round one number for each of {rows} rows, and a few sums"),
    )

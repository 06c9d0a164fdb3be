"""The certificate in words, for a reader who knows law and not statistics; every sentence is a theorem's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tacit.privacy.events import NotPrivate, leaves

if TYPE_CHECKING:
    from tacit.privacy.certificate import Certificate
    from tacit.privacy.claim import Claim

TITLE = "Privacy certificate"
WHO = {
    "record": "each record: one row of one party's data that the run trained on",
    "person": "each person: the rows about them at all parties named below as covered, at most one at each",
    "label": "each label: the outcome recorded for one row that the run trained on",
    "column": "each column: one feature of all rows at once",
}
WEAK = 0.9  # from this chance on of telling two versions apart, a certificate says that its claim says little
CHANGE = {"replace-one": "replacing one {unit} by any other", "zero-out": "setting one {unit} to zero"}


def private_lines(certificate: Certificate) -> list[str]:
    """A certificate that proves something."""
    assert certificate.target is not None
    at = certificate.target.delta
    stated = certificate.epsilon(at)
    lines = [
        TITLE,
        f"{headline(certificate)}.",
        *_seeded(certificate),
        *(f"CAUTION: {said}." for said in cautions(certificate)),
        "",
    ]
    lines += [f"Who is protected: {WHO[certificate.unit]}{_of_whom(certificate)}."]
    lines += [f"From whom: {certificate.adversary}."]
    lines += ["How strongly:"] + [f"  - {sentence}" for sentence in _strength(certificate, stated, at)]
    lines += _listed("Proven", _claims(certificate.claims, at))
    lines += _listed("Covered", certificate.covers)
    lines += _listed("Not covered", certificate.does_not_cover)
    lines += _listed("Assumed", certificate.assumptions or ("nothing beyond the theorems",))
    return lines + _rest(certificate)


def headline(certificate: Certificate) -> str:
    """What is proven, in one sentence: the unit that was asked for, and every other with its own epsilon."""
    assert certificate.target is not None
    at = certificate.target.delta
    others: dict[str, float] = {}
    for claim in certificate.claims:
        if claim.unit != certificate.unit:
            others[claim.unit] = max(others.get(claim.unit, 0.0), claim.epsilon(at))
    said = f"This run is differentially private: epsilon = {up(certificate.epsilon(at))} at delta = {at:g}"
    beside = ", ".join(f"{up(epsilon)} for each {unit}" for unit, epsilon in others.items())
    return f"{said} for each {certificate.unit}, and {beside}" if beside else said


def cautions(certificate: Certificate) -> list[str]:
    """Where a claim is true but says little: an observer may be right almost always. One sentence for each unit."""
    if certificate.target is None:
        return []
    at, worst = certificate.target.delta, dict[str, tuple[float, float]]()
    for claim in certificate.claims:
        epsilon = claim.epsilon(at)
        if math.isfinite(epsilon):
            worst[claim.unit] = max(worst.get(claim.unit, (0.0, 0.0)), (_right(claim.delta(0.0)), epsilon))
    return [
        f"epsilon = {up(epsilon)} is so large that it says little about each {unit}: an observer who must tell two "
        f"equally likely versions of it apart may be right in up to {up(100 * right)} % of cases, where a guess is "
        "right in 50 %"
        for unit, (right, epsilon) in worst.items()
        if right >= WEAK
    ]


def _right(distance: float) -> float:
    """How often a test of two equally likely laws is right at most, from their total variation distance."""
    return (1 + distance) / 2


def _of_whom(certificate: Certificate) -> str:
    names = list(dict.fromkeys(claim.party for claim in certificate.main_claims if claim.party))
    return f", held by {_names(names)}" if names else ""


def _seeded(certificate: Certificate) -> list[str]:
    """A warning beside the headline where the noise can be repeated."""
    if not any("noise_seed" in sentence for sentence in certificate.assumptions):
        return []
    return ["BUT its noise was made from a seed: against anyone who knows the seed, nobody is protected."]


def not_private_lines(certificate: Certificate) -> list[str]:
    """A certificate that proves nothing."""
    lines = [TITLE, "This run is NOT differentially private: epsilon is infinite.", ""]
    lines += [f"Seen by: {certificate.adversary}."]
    reasons = [leaf.reason for leaf in _leaves(certificate) if isinstance(leaf, NotPrivate)]
    lines += _listed("Because", reasons) if reasons else []
    if certificate.target is not None:
        lines += _listed("Proven", _claims(certificate.claims, certificate.target.delta))
    lines += _listed("Covered", certificate.covers)
    lines += _listed("Not covered", certificate.does_not_cover)
    lines += _listed("Assumed", certificate.assumptions) if certificate.assumptions else []
    return lines + _rest(certificate)


def up(value: float, digits: int = 4) -> str:
    """A number with a few digits, rounded up, so that what is read is never too private."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{digits}g}"
    return text if float(text) >= value * (1 - 1e-12) else f"{float(text) + 10.0**-exponent:.{digits}g}"


def _strength(certificate: Certificate, epsilon: float, delta: float) -> list[str]:
    """The definition of (epsilon, delta), and the best guess that the whole curve allows."""
    change = " or ".join(
        CHANGE[how].format(unit=certificate.unit)
        for how in sorted({claim.neighbours for claim in certificate.main_claims})
    )
    rest = f", plus delta = {delta:g}{_one_in(delta)}" if delta else ""
    guess = _right(certificate.delta(0.0))
    return [
        f"whatever an observer may conclude, {change} changes the probability of that conclusion "
        f"by at most a factor {_factor(epsilon)}{rest}",
        _odds(epsilon, delta),
        f"an observer who must tell two equally likely versions of the {certificate.unit} apart "
        f"is right in at most {up(100 * guess)} % of cases, also with all other data at hand",
    ]


def _odds(epsilon: float, delta: float) -> str:
    """How far odds can move: always where delta is 0, else with a probability (composition.md, 1)."""
    if not delta:
        return f"an observer's odds change by at most a factor {_factor(epsilon)}"
    farther, seldom = epsilon + math.log(2), min(1.0, 3 * delta)
    # that the odds pass e^epsilon itself is more likely than delta, so nothing is said about it
    return (
        f"an observer's odds change by at most a factor {_factor(farther)}, except with a probability of at most "
        f"3 delta = {seldom:g}{_one_in(seldom)}"
    )


def _factor(epsilon: float) -> str:
    return f"e^{up(epsilon)} = {up(math.exp(epsilon))}" if epsilon < 700 else f"e^{up(epsilon)}"


def _one_in(delta: float) -> str:
    return f" (1 in {math.floor((1 + 1e-9) / delta):,})" if delta > 1e-15 else ""


def _claims(claims: tuple[Claim, ...], delta: float) -> list[str]:
    """What is proven, in one sentence for all parties of which the same is."""
    parties: dict[tuple[str, str], list[str]] = {}
    for claim in claims:
        strength = f"{claim.neighbours}: epsilon {up(claim.epsilon(delta))} at delta {delta:g}"
        same = (claim.unit, f"{strength}, against {claim.adversary} ({claim.theorem})")
        parties.setdefault(same, []).extend([claim.party] if claim.party else [])
    return [f"{unit}{' of ' if names else ''}{_names(names)}, {said}" for (unit, said), names in parties.items()]


def _names(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else ""


def _rest(certificate: Certificate) -> list[str]:
    lines = ["What leaves each party:"]
    leaves_of: dict[str, list[str]] = {}
    for name, what in certificate.per_party.items():
        leaves_of.setdefault(what, []).append(name)
    lines += [f"  - {_names(names)}: {what}" for what, names in leaves_of.items()]
    if certificate.theorem:
        lines += [f"Theorem: {certificate.theorem}"]
    if certificate.published_claim:
        lines += [f"The paper behind the method would have said: {certificate.published_claim}"]
    if certificate.versions:
        lines += ["Software: " + ", ".join(f"{name} {version}" for name, version in certificate.versions.items())]
    return lines


def _listed(title: str, sentences: tuple[str, ...] | list[str]) -> list[str]:
    return [f"{title}:"] + [f"  - {sentence}" for sentence in sentences or ("nothing",)]


def _leaves(certificate: Certificate) -> list[object]:
    return [leaf for claim in certificate.claims for event in claim.events for leaf in leaves(event)]

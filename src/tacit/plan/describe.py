"""A plan before it runs: rounds, noise, claims, traffic and outlook, as plain values and in words.

Everything here follows from what was asked and from public sizes. `record` is what `tacit plan --json` prints; `lines`
are made from it, so that both say the same.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.privacy.certificate import cautions, up
from tacit.privacy.releases import Allowed, AllowedNormNoise, Planned
from tacit.text import duration, size

if TYPE_CHECKING:
    from tacit.mechanisms.base import PrivatePlan
    from tacit.plan.make import Plan
    from tacit.privacy.certificate import Certificate
    from tacit.privacy.request import Privacy

FORMAT = 1
INFINITE = "infinity"  # in JSON, which has no word for it
WIDTH = 100
NUMBER = 8  # bytes of what travels for a row
# Vectors of one number per row in a round, to a party and back, as measured; besides them only a few sums travel.
VECTORS = {
    "memory": (1.0, 1.0),
    "averaged": (1.2, 1.0),
    "multipliers": (2.5, 1.0),
    "published": (1.2, 1.0),
    "sgd": (2.0, 2.0),
}
PRIVATE_VECTORS = {"shares": (1.0, 1.0), "published": (2.0, 1.0), "published-inverse": (2.0, 1.0)}
MOST_EPSILONS = 6  # of one unit that a headline names one by one
MASKED = 2  # a masked number is twice as long
MECHANISMS = {
    "gram": "private sharing in Gram space: each protected party fits once, with noise on sums over all its rows",
    "labels": "ordinary training on labels that were randomized once; the rows are not protected",
    "shares": "noise on every row's share, in every round",
    "published": "the sharing paper's noise, as published: its certificate proves nothing",
    "published-inverse": "the noise of the sharing paper's longer version: its certificate proves nothing",
}
UNITS = {
    "gram": ("these are deviations of sums over all rows, each row divided by row_norm, so that its norm is at most 1",)
}


def record(plan: Plan) -> dict[str, Any]:
    """What can be said before any row is read, as plain values for JSON; infinite numbers are "infinity"."""
    certificate, private = plan.certificate(), plan.private
    at = certificate.target.delta if certificate.target is not None else None
    return {
        "format": FORMAT,
        "private": certificate.private,
        "epsilon": _plain(math.inf if at is None else certificate.epsilon(at)),
        "delta": at,
        "mechanism": None if private is None else private.mechanism,
        "in_words": mechanism_words(plan),
        "method": plan.method if private is None or private.algorithm is None else None,
        "rows": plan.problem.rows,
        "parties": list(plan.party_names),
        "secure_aggregation": plan.secure,
        "rounds": {"most": plan.most_rounds, "fixed": plan.fixed_rounds},
        "noise": [] if private is None else _noise(private),
        **certificate_record(certificate),
        "traffic": traffic(plan),
        "seconds": None if private is None else private.seconds,
        "outlook": [] if private is None else list(private.outlook),
    }


def mechanism_words(plan: Plan) -> str:
    """Mechanism and form in words."""
    masks = ["answers travel under masks, so that only their sum can be read"] if plan.secure else []
    if plan.private is None:
        return "; ".join([f"none: method {plan.method}, without noise", *masks])
    privacy, name = plan.private.privacy, plan.private.mechanism
    return "; ".join([MECHANISMS[name], *_form(privacy, plan.private.holder), *masks])


def _form(privacy: Privacy, holder: str) -> list[str]:
    """What the request adds to the mechanism."""
    said = []
    if privacy.epsilon is not None and privacy.label_epsilon is not None:
        said.append("each label is randomized once")
    if privacy.protect == "everyone":
        said.append(f"{holder} is protected too: it fits with noise, and sends one randomized symbol for each row")
    if privacy.refit:
        said.append(f"the others send one randomized bit for each row, and {holder} fits once more")
    if privacy.noise_seed is not None:
        said.append("the noise comes from a seed, so nobody is protected from those who know it")
    return said


def _noise(private: PrivatePlan) -> list[dict[str, Any]]:
    """Every planned release with its noise."""
    return [
        {"party": private.holder if party == "coordinator" else party, **release(planned)}
        for party, releases in private.releases.items()
        for planned in releases
    ]


def release(planned: Planned) -> dict[str, Any]:
    """One planned release as plain values."""
    if isinstance(planned, Allowed):
        return {"release": planned.name, "times": planned.times, "deviation": planned.sd}
    if isinstance(planned, AllowedNormNoise):
        return {"release": planned.name, "times": planned.times, "rate": planned.rate}
    return {"release": planned.name, "times": planned.times, "epsilon": planned.epsilon, "symbols": planned.symbols}


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """What a plan of either split says of its certificate."""
    return {
        "claims": claims_of(certificate),
        "covers": list(certificate.covers),
        "does_not_cover": list(certificate.does_not_cover),
        "assumptions": list(certificate.assumptions),
        "leaves": dict(certificate.per_party),
        "cautions": cautions(certificate),
    }


def claims_of(certificate: Certificate) -> list[dict[str, Any]]:
    """What a certificate claims, at its own delta, as plain values."""
    target = certificate.target
    return [] if target is None else [_claim(claim, target.delta) for claim in certificate.claims]


def proven(found: Mapping[str, Any]) -> list[str]:
    """The claims of a record in words, without those that are infinite."""
    return [claim_words(claim) for claim in found["claims"] if claim["epsilon"] != INFINITE]


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else INFINITE


def _claim(claim: Any, delta: float) -> dict[str, Any]:
    return {
        "unit": claim.unit,
        "party": claim.party,
        "neighbours": claim.neighbours,
        "adversary": claim.adversary,
        "epsilon": _plain(claim.epsilon(delta)),
        "delta": delta,
        "theorem": claim.theorem,
    }


def traffic(plan: Plan) -> dict[str, Any]:
    """Payload to and from each party: of the whole run where that is fixed, else of one round, about."""
    known = {} if plan.private is None else plan.private.traffic
    if known:
        parties = {name: {"bytes_down": down, "bytes_up": back} for name, (down, back) in known.items()}
        return {"of": "run", "exact": True, "parties": parties, **_total(parties)}
    down, back = _vectors(plan)
    times = plan.most_rounds if plan.fixed_rounds else 1
    size = NUMBER * plan.problem.rows * times
    parties = {name: {"bytes_down": int(down * size), "bytes_up": int(back * size)} for name in plan.asked_parties}
    return {"of": "run" if plan.fixed_rounds else "round", "exact": False, "parties": parties, **_total(parties)}


def _vectors(plan: Plan) -> tuple[float, float]:
    """Numbers per row in a round, to a party and back."""
    ordinary = plan.private is None or plan.private.algorithm is None
    down, back = VECTORS[plan.method] if ordinary or plan.private is None else PRIVATE_VECTORS[plan.private.mechanism]
    return down, MASKED * back if plan.secure else back


def _total(parties: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {key: sum(party[key] for party in parties.values()) for key in ("bytes_down", "bytes_up")}


# --- in words ----------------------------------------------------------------------------------------


def lines(plan: Plan) -> list[str]:
    """The record in words."""
    found = record(plan)
    said = [*one("mechanism", found["in_words"]), *one("rounds", _rounds(found))]
    said += one("traffic", _traffic(found["traffic"]))
    if found["seconds"] is not None:
        guess = duration(float(f"{found['seconds']:.1g}"))
        said += one("time", f"about {guess}, roughly: it depends on the machine and on the data")
    said += many("noise", [*(noise_words(item) for item in found["noise"]), *UNITS.get(found["mechanism"], ())])
    said += one("claim", headline(found))
    said += many("caution", found["cautions"])
    said += many("proven", proven(found))
    said += many("covered", found["covers"]) if found["claims"] else []
    said += many("not covered", found["does_not_cover"])
    said += many("assumed", found["assumptions"])
    said += many("worth it?", found["outlook"])
    return said


def one(title: str, text: str) -> list[str]:
    """A titled text, wrapped."""
    return textwrap.wrap(text, WIDTH, initial_indent=f"{title:<11} ", subsequent_indent=" " * 12)


def many(title: str, sentences: Sequence[str]) -> list[str]:
    """A titled list of sentences, wrapped."""
    said: list[str] = []
    for sentence in sentences:
        said += textwrap.wrap(f"- {sentence}", WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 14)
    if said:
        said[0] = f"{title:<11} " + said[0][12:]
    return said


def _rounds(found: Mapping[str, Any]) -> str:
    most = found["rounds"]["most"]
    if found["rounds"]["fixed"]:
        return f"{most}, fixed beforehand"
    return f"until the stopping rule holds, at most {most}"


def _traffic(found: Mapping[str, Any]) -> str:
    parts = (
        f"{name} {size(sent['bytes_down'])} down, {size(sent['bytes_up'])} up"
        for name, sent in found["parties"].items()
    )
    about = "" if found["exact"] else "about "
    return f"{about}{'; '.join(parts)}; in {'the whole run' if found['of'] == 'run' else 'each round'}"


def noise_words(item: Mapping[str, Any]) -> str:
    """One planned release in words."""
    if "epsilon" in item:
        how = f"one of {item['symbols']} symbols for each row, randomized with epsilon {up(item['epsilon'])}"
        return f"{item['party']}: {item['release']}, {how}"
    times = "" if item["times"] == 1 else f", {item['times']} times"
    return f"{item['party']}: {item['release']}{times}, deviation {item['deviation']:.4g}"


def headline(found: Mapping[str, Any]) -> str:
    """What the whole run claims, in one sentence."""
    if not found["private"]:
        return "NOT differentially private: nothing is claimed, and epsilon is infinite"
    sizes = _epsilons(found)
    said = "; ".join(sizes) if len(sizes) > 1 else _epsilon(found)
    return f"differentially private, over the whole run: epsilon = {said} at delta = {found['delta']:g}"


def _epsilons(found: Mapping[str, Any]) -> list[str]:
    """Every epsilon that is claimed, with whom it is for: '2 for each record of north, east', '1 for each label'."""
    groups: dict[tuple[str, str], list[str]] = {}
    for claim in found["claims"]:
        if claim["epsilon"] != INFINITE:
            groups.setdefault((claim["unit"], _epsilon(claim)), []).append(claim["party"])
    said = []
    for unit in dict.fromkeys(unit for unit, _ in groups):
        own = {size: names for (other, size), names in groups.items() if other == unit}
        if len(own) > MOST_EPSILONS:  # those of labels, say, which their contributors chose
            ordered = sorted(own, key=float)
            said.append(f"{ordered[0]} to {ordered[-1]} for each {unit}")
        else:
            said += [f"{size} for each {unit}{_whose(names, found['parties'])}" for size, names in own.items()]
    return said


def _whose(names: Sequence[str], parties: Sequence[str]) -> str:
    """' of north, east'; nothing where it is everybody's, or no single party's."""
    own = [name for name in dict.fromkeys(names) if name]
    return "" if not own or set(own) >= set(parties) else f" of {', '.join(own)}"


def strengths(certificate: Certificate) -> str:
    """Whose data are protected, and how strongly, in one line; from whom is said by the certificate."""
    claims = [claim for claim in claims_of(certificate) if claim["epsilon"] != INFINITE]
    return "; ".join(f"each {claim['unit']}{_of(claim)}, epsilon {_epsilon(claim)}" for claim in claims)


def claim_words(claim: Mapping[str, Any]) -> str:
    """One claim in words: whose data, how strongly, from whom."""
    return (
        f"each {claim['unit']}{_of(claim)}: epsilon {_epsilon(claim)} at delta {claim['delta']:g} "
        f"({claim['neighbours']}), against {claim['adversary']}"
    )


def _of(claim: Mapping[str, Any]) -> str:
    return f" of {claim['party']}" if claim["party"] else ""


def _epsilon(claim: Mapping[str, Any]) -> str:
    return claim["epsilon"] if claim["epsilon"] == INFINITE else up(claim["epsilon"])

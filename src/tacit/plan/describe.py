"""A plan of either split before it runs: rounds, noise, claims, traffic and outlook, as plain values and in words.

Everything here follows from what was asked and from public sizes. `record` is what `tacit plan --json` prints; `lines`
are made from it, so that both say the same.
"""

from __future__ import annotations

import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.mechanisms.base import PrivatePlan
from tacit.plan.splits import PlannedRun
from tacit.privacy.certificate import Certificate, cautions, up
from tacit.privacy.releases import Allowed, AllowedNormNoise, Planned
from tacit.privacy.request import Privacy
from tacit.solvers import SOLVERS
from tacit.solvers.boosting import TREES, TreeSettings
from tacit.solvers.boosting.settings import MOST_GROWTH
from tacit.solvers.consensus.admm import MOST_SUMS
from tacit.text import duration, plural, size
from tacit.topologies import FeatureSplit, SampleSplit

FORMAT = 1
INFINITE = "infinity"  # in JSON, which has no word for it
WIDTH = 100
NUMBER = 8  # bytes of what travels for a row
MOST_EPSILONS = 6  # of one unit that a headline names one by one
MASKED = 2  # a masked number is twice as long
SINGLE = 0.5  # one of single precision is half as long
SEEDED = "the noise comes from a seed, so nobody is protected from those who know it"
ORDINARY = "none: consensus ADMM, without noise"
RELEASES = {"gram": "products of columns", "trace": "squares of rows", "check": "change of the loss"}  # in words
GIVEN = "consensus ADMM without noise, with the unbiased loss of labels that were randomized by their contributors"


def record(plan: PlannedRun) -> dict[str, Any]:
    """What can be said before any row is used, as plain values for JSON; infinite numbers are "infinity"."""
    certificate, private, words = plan.certificate(), plan.private, WORDS[plan.layout.split]
    at = certificate.target.delta if certificate.target is not None else None
    return {
        "format": FORMAT,
        **words.kind(),
        "private": certificate.private,
        "epsilon": _plain(math.inf if at is None else certificate.epsilon(at)),
        "delta": at,
        "mechanism": None if private is None else private.mechanism.name,
        "in_words": words.mechanism(plan),
        **words.sizes(plan),
        "rounds": {"most": plan.most_rounds, "fixed": plan.fixed_rounds},
        "noise": [] if private is None else words.noise(private),
        **certificate_record(certificate),
        "traffic": words.traffic(plan),
        **words.time(private),
        "outlook": [] if private is None else list(private.outlook),
    }


def mechanism_words(plan: PlannedRun) -> str:
    """What is run, with which noise, in words."""
    return WORDS[plan.layout.split].mechanism(plan)


def lines(plan: PlannedRun) -> list[str]:
    """The record in words."""
    return [*verdict(plan), *details(plan)]


def verdict(plan: PlannedRun) -> list[str]:
    """What is protected from whom, what the run costs, and what its sizes say about its use."""
    found, words = record(plan), WORDS[plan.layout.split]
    rows = one("privacy", headline(found))
    rows += many("caution", found["cautions"])
    rows += many("proven", proven(found))
    rows += one("rounds", words.rounds(found))
    rows += one("traffic", words.traffic_words(plan, found["traffic"]))
    rows += words.time_words(found)
    return [*rows, *many("worth it?", found["outlook"])]


def details(plan: PlannedRun) -> list[str]:
    """How that comes about: the mechanism with its noise, and what exactly is covered, not covered and assumed."""
    found, words = record(plan), WORDS[plan.layout.split]
    rows = [*one(words.title, found["in_words"]), *words.layout(found)]
    remarks = () if plan.private is None else plan.private.mechanism.noise_remarks
    rows += many("noise", [*(words.noise_words(item) for item in found["noise"]), *remarks])
    rows += many("covered", found["covers"]) if found["claims"] else []
    rows += many("not covered", found["does_not_cover"])
    return [*rows, *many("assumed", found["assumptions"])]


# --- what differs between the splits -----------------------------------------------------------------


class Words(ABC):
    """How plans of one split are told."""

    title: str  # of the line that says what is run

    @abstractmethod
    def kind(self) -> dict[str, Any]:
        """Entries that open the record."""

    @abstractmethod
    def mechanism(self, plan: PlannedRun) -> str:
        """What is run, with which noise."""

    @abstractmethod
    def sizes(self, plan: PlannedRun) -> dict[str, Any]:
        """Who holds how much."""

    @abstractmethod
    def noise(self, private: PrivatePlan) -> list[dict[str, Any]]:
        """Planned releases with their noise."""

    @abstractmethod
    def traffic(self, plan: PlannedRun) -> dict[str, Any]:
        """Payload by party: of the whole run where that is fixed, else of one round, about."""

    def time(self, private: PrivatePlan | None) -> dict[str, Any]:
        """A guess of the time of the run, where there is one."""
        return {}

    def time_words(self, found: Mapping[str, Any]) -> list[str]:
        """The same in words."""
        return []

    def layout(self, found: Mapping[str, Any]) -> list[str]:
        """Who talks to whom, where that is not said by the split."""
        return []

    @abstractmethod
    def rounds(self, found: Mapping[str, Any]) -> str:
        """How many rounds there are, and when the run ends."""

    @abstractmethod
    def traffic_words(self, plan: PlannedRun, found: Mapping[str, Any]) -> str:
        """The traffic in words."""

    @abstractmethod
    def noise_words(self, item: Mapping[str, Any]) -> str:
        """One planned release in words."""


class FeatureWords(Words):
    """Plans of the feature split."""

    title = "mechanism"

    def kind(self) -> dict[str, Any]:
        """Nothing: a record without a split is of this one."""
        return {}

    def mechanism(self, plan: PlannedRun) -> str:
        """Mechanism and form."""
        masks = ["answers travel under masks, so that only their sum can be read"] if plan.secure else []
        private = plan.private
        if plan.problem.trees is not None and (private is None or private.solver is None):
            return "; ".join([_trees(plan), *masks])
        if plan.problem.trees is not None and private is not None:
            beside = f"{private.holder} has boosted trees of its own columns, grown without noise"
            return "; ".join([private.mechanism.describe(), beside, *_form(private.privacy, private.holder)])
        if private is None:
            return "; ".join(["none: trained without noise", *masks])
        return "; ".join([private.mechanism.describe(), *_form(private.privacy, private.holder), *masks])

    def sizes(self, plan: PlannedRun) -> dict[str, Any]:
        """Rows, parties, and how they are asked."""
        private = plan.private
        return {
            "method": plan.recorded_method if private is None or private.solver is None else None,
            "rows": plan.problem.rows,
            "parties": list(plan.party_names),
            "secure_aggregation": plan.secure,
        }

    def noise(self, private: PrivatePlan) -> list[dict[str, Any]]:
        """Every planned release with its noise."""
        return [
            {"party": private.holder if party == "coordinator" else party, **release(planned)}
            for party, releases in private.releases.items()
            for planned in releases
        ]

    def traffic(self, plan: PlannedRun) -> dict[str, Any]:
        """Payload to and from each party."""
        known = {} if plan.private is None else plan.private.traffic
        if known:
            parties = {name: {"bytes_down": down, "bytes_up": back} for name, (down, back) in known.items()}
            return {"of": "run", "exact": True, "parties": parties, **_total(parties)}
        down, back = _vectors(plan)
        times = plan.most_rounds if plan.fixed_rounds else 1
        size = NUMBER * plan.problem.rows * times
        parties = {name: {"bytes_down": int(down * size), "bytes_up": int(back * size)} for name in plan.asked_parties}
        return {"of": "run" if plan.fixed_rounds else "round", "exact": False, "parties": parties, **_total(parties)}

    def time(self, private: PrivatePlan | None) -> dict[str, Any]:
        """What the mechanism guesses."""
        return {"seconds": None if private is None else private.seconds}

    def time_words(self, found: Mapping[str, Any]) -> list[str]:
        """The guess, rounded as roughly as it is meant."""
        if found["seconds"] is None:
            return []
        guess = duration(float(f"{found['seconds']:.1g}"))
        return one("time", f"about {guess}, roughly: it depends on the machine and on the data")

    def rounds(self, found: Mapping[str, Any]) -> str:
        """Fixed beforehand, or until the stopping rule holds."""
        most = found["rounds"]["most"]
        if found["rounds"]["fixed"]:
            return f"{most}, fixed beforehand"
        if found["method"] == TREES.name:
            return f"until the loss on held-out rows no longer falls, at most {most}"
        return f"until the stopping rule holds, at most {most}"

    def traffic_words(self, plan: PlannedRun, found: Mapping[str, Any]) -> str:
        """Down to each party, and up again."""
        parts = (
            f"{name} {size(sent['bytes_down'])} down, {size(sent['bytes_up'])} up"
            for name, sent in found["parties"].items()
        )
        about = "" if found["exact"] else "about "
        return f"{about}{'; '.join(parts)}; in {'the whole run' if found['of'] == 'run' else 'each round'}"

    def noise_words(self, item: Mapping[str, Any]) -> str:
        """One planned release in words."""
        if "epsilon" in item:
            return _symbols(item)
        times = "" if item["times"] == 1 else f", {item['times']} times"
        what = RELEASES.get(item["release"], item["release"])
        return f"{item['party']}: {what}{times}, standard deviation {item['deviation']:.4g}"


class SampleWords(Words):
    """Plans of the sample split."""

    title = "method"

    def kind(self) -> dict[str, Any]:
        """That rows are split."""
        return {"split": SampleSplit.split}

    def mechanism(self, plan: PlannedRun) -> str:
        """Method in words."""
        given, private = bool(plan.samples.label_epsilons), plan.private
        if private is None:
            return GIVEN if given else ORDINARY
        words = private.mechanism.describe(given_labels=given)
        if plan.secure:
            words += "; parts of sums travel under masks, so that only the sum over all nodes can be read"
        return words if private.privacy.noise_seed is None else f"{words}; {SEEDED}"

    def sizes(self, plan: PlannedRun) -> dict[str, Any]:
        """Rows by node, columns, and the graph."""
        layout, graph = plan.samples, plan.graph
        return {
            "rows": plan.problem.rows,
            "rows_by_party": dict(zip(graph.names, layout.rows, strict=True)),
            "columns": layout.columns,
            "parties": list(graph.names),
            "graph": {"edges": len(graph.edges), "diameter": graph.diameter},
        }

    def noise(self, private: PrivatePlan) -> list[dict[str, Any]]:
        """Planned releases with their noise; those of several rounds in one entry, from the first to the last."""
        found: list[dict[str, Any]] = []
        for party, releases in private.releases.items():
            groups: dict[str, list[dict[str, Any]]] = {}
            for planned in releases:
                item = release(planned)
                groups.setdefault(re.sub(r" \d+$", "", item["release"]), []).append(item)
            for name, items in groups.items():
                entry = {"party": party, **items[0], "release": name, "times": sum(item["times"] for item in items)}
                for key in ("deviation", "rate"):
                    if key in entry and items[-1][key] != items[0][key]:
                        entry[f"last_{key}"] = items[-1][key]
                found.append(entry)
        return found

    def traffic(self, plan: PlannedRun) -> dict[str, Any]:
        """Payload that each node sends to its neighbours."""
        fixed, graph = plan.fixed_rounds, plan.graph
        known = {} if plan.private is None else plan.private.traffic
        if known:
            sent = {name: up for name, (_, up) in known.items()}
        else:
            numbers = (plan.samples.columns + int(plan.problem.fit_intercept)) * (plan.most_rounds if fixed else 1)
            sent = {name: NUMBER * numbers * len(graph.neighbours(name)) for name in graph.names}
        return {"of": "run" if fixed else "round", "exact": fixed, "parties": sent, "bytes": sum(sent.values())}

    def layout(self, found: Mapping[str, Any]) -> list[str]:
        """The graph."""
        graph, nodes = found["graph"], plural(len(found["parties"]), "node")
        steps = f"at most {plural(graph['diameter'], 'step')} from one node to another"
        return one("graph", f"{nodes}, {plural(graph['edges'], 'edge')}, {steps}")

    def rounds(self, found: Mapping[str, Any]) -> str:
        """Fixed beforehand, or until all nodes agree."""
        most = found["rounds"]["most"]
        return (
            f"{most}, fixed beforehand"
            if found["rounds"]["fixed"]
            else f"until all nodes agree to stop, at most {most}"
        )

    def traffic_words(self, plan: PlannedRun, found: Mapping[str, Any]) -> str:
        """From each node to its neighbours."""
        about = "" if found["exact"] else "about "
        parts = ", ".join(f"{name} {size(sent)}" for name, sent in found["parties"].items())
        when = "in the whole run" if found["of"] == "run" else "in each round"
        text = f"{about}{parts}, each to its neighbours {when}"
        if plan.private is None and plan.graph.nodes > 1:
            text += f"; besides, up to {MOST_SUMS} times a sum of the nodes' curvature"
        return text

    def noise_words(self, item: Mapping[str, Any]) -> str:
        """One entry of planned releases in words."""
        if "epsilon" in item:
            return _symbols(item)
        times = "" if item["times"] == 1 else f", {item['times']} times"
        key, what = (
            ("deviation", "standard deviation") if "deviation" in item else ("rate", "density exp(-rate |e|), rate")
        )
        last = f" down to {item[f'last_{key}']:.4g}" if f"last_{key}" in item else ""
        last = last.replace(" down to", " up to") if item.get(f"last_{key}", 0) > item[key] else last
        return f"{item['party']}: {item['release']}{times}, {what} {item[key]:.4g}{last}"


WORDS: dict[str, Words] = {FeatureSplit.split: FeatureWords(), SampleSplit.split: SampleWords()}


def _form(privacy: Privacy, holder: str) -> list[str]:
    """What the request adds to the mechanism."""
    sentences = []
    if privacy.epsilon is not None and privacy.label_epsilon is not None:
        sentences.append("each label is randomized once")
    if privacy.protect == "everyone":
        sentences.append(f"{holder} is protected too: it fits with noise, and sends one randomized symbol for each row")
    if privacy.refit:
        sentences.append(f"the others send one randomized bit for each row, and {holder} fits once more")
    if privacy.noise_seed is not None:
        sentences.append(SEEDED)
    return sentences


def _trees(plan: PlannedRun) -> str:
    """What a run of trees does, in words."""
    settings: TreeSettings = plan.problem.trees
    counts = ", ".join(map(str, settings.trees[:-1])) + f" and then {settings.trees[-1]}"
    counts += f" (up to {MOST_GROWTH} times as many where all are kept)" if settings.grows else ""
    part = settings.validation_fraction
    chosen = f"the {part:.0%} of the rows that have no trees" if part else "all rows"
    noise = "none" if plan.private is None else plan.private.mechanism.describe()
    kept = "of them is kept: of its own, and of all others' together" if settings.common_step else "of them is kept"
    return (
        f"{noise}: boosted trees, without noise; in each round a party grows {counts} trees of at most "
        f"{settings.max_leaf_nodes} leaves on its own columns, and the label holder chooses on {chosen} how much {kept}"
    )


def _vectors(plan: PlannedRun) -> tuple[float, float]:
    """Numbers per row in a round, to a party and back."""
    private = plan.private
    if plan.problem.trees is not None:
        outputs = plan.problem.trees.loss.outputs
        back = MASKED if plan.secure else SINGLE
        return SINGLE * outputs * (1.0 - plan.problem.trees.validation_fraction), back * outputs
    ordinary = private is None or private.solver is None
    down, back = SOLVERS[plan.recorded_method].vectors if ordinary or private is None else private.mechanism.vectors
    down, back = down * plan.problem.loss.outputs, back * plan.problem.loss.outputs
    return down, MASKED * back if plan.secure else back


def _total(parties: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {key: sum(party[key] for party in parties.values()) for key in ("bytes_down", "bytes_up")}


def _symbols(item: Mapping[str, Any]) -> str:
    how = f"one of {item['symbols']} symbols for each row, randomized with epsilon {up(item['epsilon'])}"
    return f"{item['party']}: {item['release']}, {how}"


# --- plain values that both have ---------------------------------------------------------------------


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
        **({"rows": claim.rows} if claim.rows else {}),
        "neighbours": claim.neighbours,
        "adversary": claim.adversary,
        "epsilon": _plain(claim.epsilon(delta)),
        "delta": delta,
        "theorem": claim.theorem,
    }


# --- in words ----------------------------------------------------------------------------------------


def one(title: str, text: str) -> list[str]:
    """A titled text, wrapped."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{title:<11} ", subsequent_indent=" " * 12, break_on_hyphens=False
    )


def many(title: str, sentences: Sequence[str]) -> list[str]:
    """A titled list of sentences, wrapped."""
    rows: list[str] = []
    for sentence in sentences:
        rows += textwrap.wrap(
            f"- {sentence}", WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 14, break_on_hyphens=False
        )
    if rows:
        rows[0] = f"{title:<11} " + rows[0][12:]
    return rows


def headline(found: Mapping[str, Any]) -> str:
    """What the whole run claims, in one sentence."""
    if not found["private"]:
        return "NOT differentially private: nothing is protected, epsilon is infinite"
    sizes = _epsilons(found)
    sizes_text = "; ".join(sizes) if len(sizes) > 1 else _epsilon(found)
    return f"differentially private, over the whole run: epsilon = {sizes_text} at delta = {found['delta']:g}"


def _epsilons(found: Mapping[str, Any]) -> list[str]:
    """Every epsilon that is claimed, with whom it is for: '2 for each record of north, east', '1 for each label'."""
    groups: dict[tuple[str, str], list[str]] = {}
    for claim in found["claims"]:
        if claim["epsilon"] != INFINITE:
            groups.setdefault((claim["unit"], _epsilon(claim)), []).append(claim["party"])
    sentences = []
    for unit in dict.fromkeys(unit for unit, _ in groups):
        own = {size: names for (other, size), names in groups.items() if other == unit}
        if len(own) > MOST_EPSILONS:  # those of labels, say, which their contributors chose
            ordered = sorted(own, key=float)
            sentences.append(f"{ordered[0]} to {ordered[-1]} for each {unit}")
        else:
            sentences += [f"{size} for each {unit}{_whose(names, found['parties'])}" for size, names in own.items()]
    return sentences


def _whose(names: Sequence[str], parties: Sequence[str]) -> str:
    """' of north, east'; nothing where it is everybody's, or no single party's."""
    own = [name for name in dict.fromkeys(names) if name]
    return "" if not own or set(own) >= set(parties) else f" of {', '.join(own)}"


def strengths(certificate: Certificate) -> str:
    """Whose data are protected, and how strongly, in one line; from whom is said by the certificate."""
    claims = [claim for claim in claims_of(certificate) if claim["epsilon"] != INFINITE]
    return "; ".join(f"each {claim['unit']}{_of(claim)}{_aside(claim)}, epsilon {_epsilon(claim)}" for claim in claims)


def claim_words(claim: Mapping[str, Any]) -> str:
    """One claim in words: whose data, how strongly, from whom."""
    return (
        f"each {claim['unit']}{_of(claim)}{_aside(claim)}: epsilon {_epsilon(claim)} at delta {claim['delta']:g} "
        f"({claim['neighbours']}), against {claim['adversary']}"
    )


def _of(claim: Mapping[str, Any]) -> str:
    return f" of {claim['party']}" if claim["party"] else ""


def _aside(claim: Mapping[str, Any]) -> str:
    return f" that was {claim['rows']}" if claim.get("rows") else ""


def _epsilon(claim: Mapping[str, Any]) -> str:
    return claim["epsilon"] if claim["epsilon"] == INFINITE else up(claim["epsilon"])

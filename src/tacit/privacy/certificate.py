"""The certificate of a run, and its words for a reader who knows law and not statistics; every sentence is a theorem's.

A mechanism's own file says what its messages tell. The sentences here are the same for every mechanism, and every
number in them is computed from the events of the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.aggregation import explain_collusion
from tacit.privacy.claim import (
    Claim,
    Target,
    at_least_or_infinite,
    claim_from_record,
    group_epsilon,
    target_from_record,
)
from tacit.privacy.events import Event, NotPrivate, leaves
from tacit.records import (
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
from tacit.text import html_card

if TYPE_CHECKING:
    from tacit.privacy.claim import Claim


# --- The certificate in words, for a reader who knows law and not statistics; every sentence is a theorem's


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
        *(f"CAUTION: {caution}." for caution in cautions(certificate)),
        "",
    ]
    lines += [f"Who is protected: {_who(certificate)}{_of_whom(certificate)}."]
    lines += [f"From whom: {certificate.adversary}."]
    lines += ["How strongly:"] + [f"  - {sentence}" for sentence in _strength(certificate, stated, at)]
    lines += _listed("Proven", _claims(certificate.claims, at))
    lines += _listed("Covered", certificate.covers)
    lines += _listed("Not covered", certificate.does_not_cover)
    lines += _listed("Assumed", certificate.assumptions or ("nothing beyond the theorems",))
    return lines + _rest(certificate)


def _who(certificate: Certificate) -> str:
    """Whose data are protected; also of rows held out, where something is proven of them."""
    held = any(claim.rows for claim in certificate.main_claims)
    return WHO[certificate.unit].replace("trained on", "trained on or held out" if held else "trained on")


def headline(certificate: Certificate) -> str:
    """What is proven, in one sentence: the unit that was asked for, and every other with its own epsilon."""
    assert certificate.target is not None
    at = certificate.target.delta
    others: dict[str, float] = {}
    for claim in certificate.claims:
        if claim.unit != certificate.unit:
            others[claim.unit] = max(others.get(claim.unit, 0.0), claim.epsilon(at))
    text = f"This run is differentially private: epsilon = {up(certificate.epsilon(at))} at delta = {at:g}"
    beside = ", ".join(f"{up(epsilon)} for each {unit}" for unit, epsilon in others.items())
    return f"{text} for each {certificate.unit}, and {beside}" if beside else text


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


def blocks(certificate: Certificate) -> list[dict[str, Any]]:
    """The certificate's own words as headings with a sentence or a list; the headline first, without the software."""
    found: list[dict[str, Any]] = []
    for line in str(certificate).splitlines()[1:]:
        if line.startswith("  - "):
            found[-1]["items"].append(line.removeprefix("  - "))
        elif line.endswith(":"):
            found.append({"title": line.removesuffix(":"), "words": "", "items": []})
        elif line and not line.startswith("Software: "):
            title, colon, words = line.partition(": ")
            plain_text = not found  # the headline, which has a colon of its own
            words = line if plain_text else words or line
            found.append({"title": "" if plain_text or not colon else title, "words": words, "items": []})
    return found


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
        unit = f"{claim.unit} {claim.rows}" if claim.rows else claim.unit
        same = (unit, f"{strength}, against {claim.adversary} ({claim.theorem})")
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


# --- The certificate of a run: who is protected, from whom, how strongly, and what is not covered


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

    def _repr_html_(self) -> str:
        first, *rest = blocks(self)
        rows = [(block["title"], block["items"] or block["words"]) for block in rest]
        return html_card(TITLE, rows, head=str(first["words"]))


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


def not_private(parties: tuple[str, ...], rows: int, classes: int = 1) -> Certificate:
    """Certificate of a run without noise: raw data stay home, and nothing more is claimed.

    `classes` are more than 1 where every row has a number for each of them.
    """
    each = "" if classes == 1 else f" and each of {classes} classes"
    return Certificate(
        covers=("feature values and coefficients are never sent as such (this is not a privacy guarantee)",),
        does_not_cover=(
            "the labels: the vector sent to every party in each round gives each label away by its sign",
            f"the rows of every party: one number per row{each} leaves it in each round, without noise",
            f"predictions: each asked row discloses one score per party{each}",
        ),
        per_party=dict.fromkeys(parties, f"in each round one number for each of {rows} rows{each}, and a few sums"),
    )


ROWS_OF_TREES = (
    "the rows of every party: its answers split the rows finer with each round; on a census of 32,561 rows, a label "
    "holder who knew a tenth of the other party's rows predicted four columns of the rest from its answers with an AUC "
    "of 0.99 to 1.00",
    "the label holder's rows: the joint score that it sends in each round holds what its own trees add",
    "predictions: each asked row discloses one score per party",
)
"""What boosted trees without noise tell of rows."""


def leaves_trees(
    parties: tuple[str, ...], asked: tuple[str, ...], rows: int, labels: str = "labels", outputs: int = 1
) -> dict[str, str]:
    """What leaves each party that grows trees without noise; of more than two classes scores have `outputs` numbers."""
    holder = ", ".join(name for name in parties if name not in asked)
    score = "score" if outputs == 1 else f"scores ({outputs} for each row, one of each class)"
    margins = (
        f"once the {labels} of the fitted rows; in each round their joint {score}, and the steps of the last round"
    )
    leaves = dict.fromkeys(asked, f"in each round what its new trees add to the {score} of each of {rows} rows")
    return {holder: margins, **leaves} if asked else {holder: "nothing: there is no other party"}


def not_private_trees(parties: tuple[str, ...], asked: tuple[str, ...], rows: int, outputs: int = 1) -> Certificate:
    """Certificate of boosted trees without noise: columns stay home as such, and their answers tell about them."""
    several = f"predictions: each asked row discloses {outputs} scores per party, one of each class"
    return Certificate(
        covers=("cells and trees are never sent as such (this is not a privacy guarantee)",),
        does_not_cover=(
            "the labels of the fitted rows: they are sent to every party as they are",
            *ROWS_OF_TREES[:-1],
            "the labels of held-out rows: they are never sent, but the steps that everybody sees depend on them",
            ROWS_OF_TREES[-1] if outputs == 1 else several,
        ),
        per_party=leaves_trees(parties, asked, rows, outputs=outputs),
    )


# --- What a claim is about, and how far it reaches: which rows, several rows of one person, several runs


OTHER_RUNS = (
    "other runs on the same data: each spends its own epsilon and delta, and all runs together are bounded by the sum "
    "of the epsilons at the sum of the deltas"
)
OTHER_LABELS = (
    "other randomizations of the same labels: each spends its own epsilon, and all together are bounded by the sum"
)
UNUSABLE = (
    "whether the data could be used: the others see when a run stops before its first release because of text in a "
    "column of numbers, a blank that the job does not allow, or labels of one class alone"
)
NO_ROWS = ", where they hold none of the person's rows themselves"
GROUPS = (2, 10)  # for how many rows of one person the bound is computed
NAMES = {"record": "rows", "label": "labels", "person": "rows at every covered party", "column": "columns"}


def in_scope(
    certificate: Certificate,
    holdout: str = "",
    *,
    evaluated: bool = True,
    randomized: bool = False,
    released: bool = False,
) -> Certificate:
    """The certificate, with what is true of several rows of one person and of rows that were held out.

    Parameters
    ----------
    certificate : Certificate
        Of a planned run; one that proves nothing is returned as it is.
    holdout : str, default ""
        How rows are kept out of training, as the job says it; empty where none are.
    evaluated : bool, default True
        Whether the model may be evaluated on the rows that were held out.
    randomized : bool, default False
        Whether every label was randomized before the data came to any party.
    released : bool, default False
        Whether figures on rows held out are a planned release, with a claim of its own.
    """
    if not certificate.private:
        return certificate
    aside = () if released else held_out(holdout, evaluated=evaluated, randomized=randomized)
    added = (UNUSABLE, *aside, *several_rows(certificate))
    return replace(certificate, does_not_cover=(*certificate.does_not_cover, *added))


def held_out(how: str, *, evaluated: bool, randomized: bool) -> tuple[str, ...]:
    """What is true of rows that were not trained on, where there are some."""
    if not how:
        return ()
    rows = f"the rows held out ({how}): every claim is about the rows trained on"
    if not evaluated:
        return (f"{rows}; nothing is computed from those held out",)
    if randomized:
        return (
            f"{rows}. The figures on held-out rows (evaluation.json, report.html) are exact functions of their "
            "features and of their randomized labels; no true label is used",
        )
    return (
        f"{rows}. The figures on held-out rows (evaluation.json, report.html) are exact functions of their features "
        "and true labels, without noise",
        "the figures of a model trained on one party's rows alone, in the same files: they are exact functions of the "
        "rows and true labels that this party trained on, without noise. Keep both files with the party they are about",
    )


def several_rows(certificate: Certificate) -> tuple[str, ...]:
    """Epsilon where several units of one person, at one party, change together; none where nothing is finite."""
    assert certificate.target is not None
    at = certificate.target.delta
    what = NAMES[certificate.unit]
    sizes = [f"{up(epsilon)} for {rows}" for rows, epsilon in groups(certificate.main_claims, at)]
    if not sizes:
        return ()
    where = "" if certificate.unit == "person" else " at the same party"
    return (
        f"a person with several {what}{where}: epsilon is for one. Where several change together it is "
        f"{' and '.join(sizes)}, at delta {at:g} (docs/proofs/composition.md, theorem 8)",
    )


def groups(claims: Sequence[Claim], delta: float) -> list[tuple[int, float]]:
    """(number of rows, epsilon at `delta` where so many of one party change together, the largest of all parties)."""
    different = [claim.events for claim in claims]  # of rows trained on and rows held out, the worse
    found = [(rows, max(group_epsilon(events, delta, rows) for events in different)) for rows in GROUPS]
    return [(rows, epsilon) for rows, epsilon in found if math.isfinite(epsilon)]


def at_several_parties(claims: Sequence[Claim], delta: float) -> tuple[str, ...]:
    """Epsilon where one row at each of several parties changes; nothing where one party alone is covered."""
    own = {claim.party: claim.events for claim in claims if claim.unit == "record" and claim.party}
    if len(own) < 2:
        return ()
    total = accountant.epsilon([event for events in own.values() for event in events], delta)
    return (at_parties(len(own), total, delta),) if math.isfinite(total) else ()


def at_parties(count: int, epsilon: float, delta: float) -> str:
    """The sentence about a person with one row at each of so many parties."""
    return (
        f"a person with a row at each of the {count} covered parties: epsilon is for the row of one party. Where all "
        f"of them change together it is {up(epsilon)} at delta {delta:g}, against anyone who holds none of these rows"
    )


def row_and_label(rows: Sequence[Event], label: Sequence[Event], delta: float) -> tuple[str, ...]:
    """Epsilon where a row at one party and its label at another change together."""
    total = accountant.epsilon([*rows, *label], delta)
    if not math.isfinite(total):
        return ()
    return (f"a row and its label together: where both change, epsilon is {up(total)} at delta {delta:g}",)


# --- What secure aggregation adds to a certificate: who can still see one party's numbers, and what is assumed


HIDDEN = (
    "each party's own numbers in training: they travel under masks that cancel in the sum over all parties, so that "
    "only the sums can be read (this is not differential privacy)"
)
SUMS = "the sums over the parties, in every round: masks hide whose numbers they are, not what the sums tell"
BROADCASTS = (
    "what the broadcasts give away: they are made from the sums, so every party may learn what the coordinator learns"
)
ASSUMED = (
    "masks: at least two parties follow the protocol and do not pool what they know; the coordinator need not, "
    "as what it sends to each party is bound into the masks",
    "masks: the public keys that the coordinator passes on are genuine (the parties have confirmed each other's keys, "
    "or people compared the fingerprints of the run's masks)",
    "masks: each party runs where only it can look; the person who runs several in one process sees what they hold",
    "masks: X25519, HKDF-SHA256 and ChaCha20 are secure",
)
UNDER_MASKS = "under masks: only the sum over all parties can be read"


def secured(certificate: Certificate, parties: Sequence[str]) -> Certificate:
    """The certificate of the same run with every party's answers under masks.

    No claim changes: masks add no noise and take none away. Where a mechanism counts the noise of several parties
    together, because masks hide all but the sum, its own claims say so and from whom.

    Parameters
    ----------
    certificate : Certificate
        Of the run without masks.
    parties : sequence of str
        Everybody who answers; one of them belongs to the coordinator, who holds the labels.
    """
    return replace(
        certificate,
        covers=(*certificate.covers, HIDDEN, explain_collusion(parties, coordinator_is_party=True)),
        does_not_cover=(*certificate.does_not_cover, SUMS, BROADCASTS),
        per_party={name: f"{what} ({UNDER_MASKS})" for name, what in certificate.per_party.items()},
        assumptions=(*certificate.assumptions, *ASSUMED),
    )


SUM_OF_TREES = (
    "the rows of every party: the sum of the others' answers splits the rows finer with each round; masks hide which "
    "party a number comes from, not what the sum tells of the cells"
)


def secured_trees(certificate: Certificate, holder: str, asked: Sequence[str]) -> Certificate:
    """The certificate of the same run of trees with the answers of all parties but the label holder under masks."""
    names = f"{', '.join(asked[:-1])} and {asked[-1]}"
    hidden = (
        f"the answers of {names}: they travel under masks that cancel in their sum, so that only the sums can be read "
        "(this is not differential privacy)"
    )
    collusion = (
        f"{holder}, which holds the labels, sees only the sum over {names}. Together with {len(asked) - 1} of them it "
        "sees the numbers of the last. Each of them gets the joint score and can take off what it added itself: the "
        f"sum over all others is left, {holder} among them"
    )
    rows = tuple(SUM_OF_TREES if said == ROWS_OF_TREES[0] else said for said in certificate.does_not_cover)
    leaves = {
        name: f"{certificate.per_party[name]} (under masks: only the sum over {names} can be read)" for name in asked
    }
    honest = ASSUMED[0].replace("at least two parties", f"at least two of {names}")
    return replace(
        certificate,
        covers=(*certificate.covers, hidden, collusion),
        does_not_cover=(*rows, SUMS),
        per_party={**certificate.per_party, **leaves},
        assumptions=(*certificate.assumptions, honest, *ASSUMED[1:]),
    )

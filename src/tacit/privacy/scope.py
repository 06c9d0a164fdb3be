"""What a claim is about, and how far it reaches: which rows, several rows of one person, several runs.

A mechanism's own file says what its messages tell. The sentences here are the same for every mechanism, and every
number in them is computed from the events of the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tacit.privacy import accountant
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim
from tacit.privacy.events import Event
from tacit.privacy.groups import group_epsilon
from tacit.privacy.wording import up

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
    certificate: Certificate, holdout: float = 0.0, *, evaluated: bool = True, randomized: bool = False
) -> Certificate:
    """The certificate, with what is true of several rows of one person and of rows that were held out.

    Parameters
    ----------
    certificate : Certificate
        Of a planned run; one that proves nothing is returned as it is.
    holdout : float, default 0
        The part of the rows that is kept out of training.
    evaluated : bool, default True
        Whether the model may be evaluated on the rows that were held out.
    randomized : bool, default False
        Whether every label was randomized before the data came to any party.
    """
    if not certificate.private:
        return certificate
    added = (UNUSABLE, *held_out(holdout, evaluated=evaluated, randomized=randomized), *several_rows(certificate))
    return replace(certificate, does_not_cover=(*certificate.does_not_cover, *added))


def held_out(part: float, *, evaluated: bool, randomized: bool) -> tuple[str, ...]:
    """What is true of rows that were not trained on, where there are some."""
    if not part:
        return ()
    rows = f"the rows held out (holdout = {part:g}): every claim is about the rows trained on"
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
    different = {claim.party: claim.events for claim in claims}.values()
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

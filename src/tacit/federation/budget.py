"""A party's budget over jobs: what it has promised, what each job may spend, on its own disk.

A job reserves all that it may release before anything leaves. The rule is `tacit.privacy.filters`, which holds for jobs
that are chosen by looking at the results of earlier ones (docs/proofs/budget.md). What is reserved is given back only
for a job of which nothing has left.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.errors import InputError, RunError
from tacit.federation.ledger_file import LedgerContent, LedgerFile, Reservation
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.certificate import up
from tacit.privacy.claim import Claim
from tacit.privacy.events import UNITS, Event, GaussianRelease, NotPrivate, RandomizedResponse, leaves
from tacit.privacy.filters import Scale, choose_scale, fits, share, spends
from tacit.records import as_choice, as_record, as_text, as_whole, positive, probability
from tacit.text import plural, show

# --- A party's budget over jobs: what it has promised, what each job may spend, on its own disk


KEYS = ("epsilon", "delta", "unit", "allow_not_private")


@dataclass(frozen=True)
class Limit:
    """What a party promises over all jobs together: (epsilon, delta) for each unit of its data."""

    epsilon: float
    delta: float = 1e-6

    def __post_init__(self) -> None:
        positive(self.epsilon, "budget.epsilon")
        probability(self.delta, "budget.delta")


@dataclass(frozen=True)
class Standing:
    """Where a budget stands before and after a job.

    Attributes
    ----------
    unit : str
    limit : Limit
    before, after : float
        Epsilon at the limit's delta of all jobs so far, and with this one: as of jobs that were fixed beforehand.
    share_before, share_after : float
        Parts of the budget that they take; this is what counts, and it is never below that of jobs fixed beforehand.
    fits : bool
        Whether the job may be taken.
    private : bool
        Whether the job proves anything for the unit.
    """

    unit: str
    limit: Limit
    before: float
    after: float
    share_before: float
    share_after: float
    fits: bool
    private: bool


def read_limits(settings: Mapping[str, Any]) -> tuple[dict[str, Limit], bool]:
    """The budgets of site.toml, and whether jobs without privacy are allowed.

    Parameters
    ----------
    settings : mapping
        All of site.toml; its section [budget] has epsilon, delta, unit and allow_not_private. Without it: no budget.
    """
    section = as_record(settings.get("budget", {}), "[budget]")
    for key in section:
        if key not in KEYS:
            raise InputError(f"budget.{key} is unknown: [budget] has {', '.join(KEYS)}")
    allowed = section.get("allow_not_private", False)
    if not isinstance(allowed, bool):
        raise InputError(f"budget.allow_not_private = {show(allowed)} is not allowed: it must be true or false")
    if not section:
        return {}, False
    if "epsilon" not in section:
        raise InputError("[budget] has no epsilon: add epsilon = 3, say")
    unit = as_choice(section.get("unit", "record"), "budget.unit", UNITS)
    return {unit: Limit(section["epsilon"], section.get("delta", 1e-6))}, allowed


class BudgetBook:
    """The ledger of a party over jobs, kept in a file that several processes may use at once.

    Parameters
    ----------
    path : path
        The file, ledger.json; a lock, which counts, and the list of releases, releases.jsonl, are kept beside it.
    budgets : mapping of unit to Limit
        What was promised, fixed before the first job. Empty: jobs are recorded, and none is refused.
    party : str
        Whose it is, for messages and in the file.
    allow_not_private : bool, default False
        Take jobs that prove nothing for a unit with a budget. They are recorded, and no budget covers them.
    runs : path, optional
        Holds a folder for each job, by its id. What a job reserved is noted there too, so that a ledger which was put
        back to an older state is noticed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        budgets: Mapping[str, Limit],
        party: str,
        *,
        allow_not_private: bool = False,
        runs: str | os.PathLike[str] | None = None,
    ) -> None:
        self.party = as_text(party, "party")
        self.budgets = {as_choice(unit, "unit", UNITS): limit for unit, limit in budgets.items()}
        self.allow_not_private = allow_not_private
        self._file = LedgerFile(Path(path), self.party, None if runs is None else Path(runs))

    # --- asking ---------------------------------------------------------------------------------------

    def standings(self, events: Spending, job_id: str | None = None) -> list[Standing]:
        """Where every budget stands before and after a job; one that is known by its id counts once."""
        with self._file.locked():
            content = self._file.read()
        return [self._standing(content, unit, events, job_id) for unit in self.budgets]

    def jobs(self) -> tuple[str, ...]:
        """The jobs that have something reserved, in the order of acceptance."""
        with self._file.locked():
            return tuple(self._file.read().jobs)

    def releases(self) -> dict[tuple[str, int], str]:
        """Digest of everything that left, by job and number."""
        with self._file.locked():
            return self._file.journal.read()

    # --- spending -------------------------------------------------------------------------------------

    def reserve(self, job_id: str, events: Spending) -> bool:
        """Set aside all that a job may release; False where it was set aside before, so that nothing changes.

        Raises
        ------
        RunError
            Where it does not fit a budget, proves nothing, or the id belongs to a job with other events.
        """
        asked = {unit: tuple(events[unit]) for unit in UNITS}
        self._file.reservations.check(job_id)
        with self._file.locked():
            content = self._file.read()
            if job_id in content.jobs:
                if content.jobs[job_id] != asked:
                    raise RunError(
                        f"{self.party}: job {show(job_id)} is in the ledger with other releases: give the changed job "
                        "another name"
                    )
                self._file.reservations.put(job_id, Reservation(asked, job_id in content.released))
                return False
            for unit in self.budgets:
                self._check(content, unit, asked)
            scales = {**content.scales, **self._new_scales(content, asked)}
            self._file.write(LedgerContent({**content.jobs, job_id: asked}, scales, content.released, content.written))
            self._file.reservations.put(job_id, Reservation(asked))
            return True

    def cancel(self, job_id: str) -> bool:
        """Give back what a job has reserved, of which nothing has left; False where nothing is reserved.

        Raises
        ------
        RunError
            Where something has left: it is never given back then.
        """
        with self._file.locked():
            content = self._file.read()
            gone = sum(job == job_id for job, _ in self._file.journal.read())
            if gone:
                raise RunError(
                    f"{self.party}: job {show(job_id)} has released {plural(gone, 'time')}: that stays spent"
                )
            if job_id not in content.jobs:
                return False
            jobs = {name: events for name, events in content.jobs.items() if name != job_id}
            self._file.write(LedgerContent(jobs, content.scales if jobs else {}, content.released, content.written))
            self._file.reservations.drop(job_id)
            return True

    def count_again(self) -> list[str]:
        """Count as spent what the folders of the runs say and an older ledger has forgotten; return these jobs.

        Raises
        ------
        InputError
            Where the folders do not account for everything: what was spent is then unknown.
        """
        with self._file.locked():
            return self._file.count_again()

    def released(self, job_id: str, release_number: int, digest: str) -> bool:
        """Record a release before it leaves; False where the same one was recorded before.

        Raises
        ------
        RunError
            For a job that has reserved nothing, and for a number that was used with another digest.
        """
        with self._file.locked():
            content = self._file.read_alone()  # the folders of the runs were looked at when the job was reserved
            if job_id not in content.jobs:
                raise RunError(f"{self.party}: job {show(job_id)} has reserved nothing, so nothing of it may leave")
            number = as_whole(release_number, "release_number", 0)
            new = self._file.journal.add(job_id, number, as_text(digest, "digest"))
            if job_id not in content.released:
                content = self._file.write(replace(content, released=content.released | {job_id}))
            self._file.count(content)
            self._file.reservations.put(job_id, Reservation(content.jobs[job_id], released=True))
            return new

    # --- the rule -------------------------------------------------------------------------------------

    def _standing(self, content: LedgerContent, unit: str, events: Spending, job_id: str | None = None) -> Standing:
        limit = self.budgets[unit]
        before = [job for name, own in content.jobs.items() if name != job_id and _bounded(job := own[unit])]
        asked = tuple(events[unit])
        private = _bounded(asked)
        self._check_neighbours(before, asked, unit)
        scale = self._scale(content, unit, before, asked)
        after = [*before, asked]
        ok = fits(after, scale, limit.epsilon, limit.delta)
        return Standing(
            unit=unit,
            limit=limit,
            before=_epsilon(before, limit, proven=fits(before, scale, limit.epsilon, limit.delta)),
            after=_epsilon(after, limit, proven=ok),
            share_before=share(before, scale, limit.epsilon, limit.delta),
            share_after=share(after, scale, limit.epsilon, limit.delta) if private else math.inf,
            fits=ok,
            private=private,
        )

    def _check(self, content: LedgerContent, unit: str, asked: Spending) -> None:
        """Refuse a job that does not fit a budget."""
        now = self._standing(content, unit, asked)
        if not now.private:
            if self.allow_not_private:
                return
            reason = next(leaf.reason for leaf in _leaves(asked[unit]) if hasattr(leaf, "reason"))
            raise RunError(
                f"{self.party}: a budget does not allow a job without privacy ({reason}): ask for privacy that covers "
                f"each {unit}, or set allow_not_private = true in [budget] of site.toml"
            )
        if not now.fits:
            raise RunError(
                f"{self.party}: the job does not fit the budget of epsilon {now.limit.epsilon:g} at delta "
                f"{now.limit.delta:g} for each {unit}: {_percent(now.share_before)} is spent, with it "
                f"{_percent(now.share_after)} would be (epsilon {up(now.before)}, then {up(now.after)}); ask for a "
                "smaller epsilon"
            )

    def _scale(
        self, content: LedgerContent, unit: str, before: Sequence[Sequence[Event]], asked: Sequence[Event]
    ) -> Scale:
        """That of the first job that spends: kept, or chosen by the one that asks."""
        limit = self.budgets[unit]
        if unit in content.scales:
            return content.scales[unit]
        first = next((job for job in before if spends(job)), asked)  # before there was a budget, no scale was kept
        return choose_scale(first, limit.epsilon, limit.delta)

    def _new_scales(self, content: LedgerContent, asked: Spending) -> dict[str, Scale]:
        found = {}
        for unit in self.budgets:
            before = [job for own in content.jobs.values() if _bounded(job := own[unit])]
            if unit not in content.scales and any(spends(job) and _bounded(job) for job in (*before, asked[unit])):
                found[unit] = self._scale(content, unit, before, asked[unit])
        return found

    def _check_neighbours(self, before: Sequence[Sequence[Event]], asked: Sequence[Event], unit: str) -> None:
        """Bounds for different neighbours do not add up."""
        known = next((leaf.neighbours for job in before for leaf in _leaves(job)), None)
        for leaf in _leaves(asked) if known is not None and _bounded(asked) else ():
            if leaf.neighbours != known:
                raise RunError(
                    f"{self.party}: the job bounds each {unit} for neighbours {show(leaf.neighbours)}, earlier jobs "
                    f"for {show(known)}, and such bounds do not add up: ask for neighbours = {show(known)}"
                )


def _bounded(job: Sequence[Event]) -> bool:
    """Whether something finite is proven."""
    return accountant.epsilon(job, 0.5) < math.inf


def _leaves(job: Sequence[Event]) -> list[Any]:
    return [leaf for event in job for leaf in leaves(event)]


def _epsilon(jobs: Sequence[Sequence[Event]], limit: Limit, *, proven: bool) -> float:
    """Of all jobs; the budget's own where the rule has proven that, and the accountant rounds up beyond it."""
    found = accountant.epsilon([event for job in jobs for event in job], limit.delta)
    return min(found, limit.epsilon) if proven else found


def _percent(part: float) -> str:
    return f"{up(100 * part, 3)} %" if part < 100 else "more than all of it"


# --- What a job would spend of one party's budget, by unit: from the claims of the plan that the party made itself


Spending = Mapping[str, tuple[Event, ...]]

# Whose bound serves for a unit, the best first. A label is part of its record, and a person has one record at a party:
# of one party's own releases, what bounds the one bounds the other.
_SERVES = {
    "label": ("label", "record", "person"),
    "record": ("record", "person"),
    "person": ("person", "record"),
    "column": ("column",),
}


def events_of(plan: Plan, party: str) -> dict[str, tuple[Event, ...]]:
    """Everything that the planned job releases about each unit of a party's data.

    A unit of which the plan proves nothing gets one event that says so, whose epsilon is infinite.

    Parameters
    ----------
    plan : Plan
    party : str
        For the party with the labels this is what is released of them, too.
    """
    if plan.private is not None and plan.private.privacy.noise_seed is not None:
        reason = "the noise is made from a seed that everybody in the job knows"
        return {unit: _nothing(unit, party, reason) for unit in UNITS}
    claims = plan.certificate().claims
    if _gives_labels_away(plan, party) and not _labels(claims, party):
        reason = f"the labels of {party} are not randomized, and what is sent gives them away"
        rows = {unit: _nothing(unit, party, reason) for unit in UNITS if unit != "column"}
        return {**rows, "column": _of_unit(claims, "column", party)}
    return {unit: _of_unit(claims, unit, party) for unit in UNITS}


def _gives_labels_away(plan: Plan, party: str) -> bool:
    """Whether bounds for this party's rows leave its labels out: noise on shares hides no label."""
    private = plan.private
    return private is not None and private.holder == party and not private.mechanism.hides_labels


def _of_unit(claims: Sequence[Claim], unit: str, party: str) -> tuple[Event, ...]:
    aside = [claim for claim in claims if claim.rows]
    if aside:  # a row was trained on or held out: what is released of it is that of one of both
        trained = _of_unit([claim for claim in claims if not claim.rows], unit, party)
        held = _of_unit([replace(claim, rows="") for claim in aside], unit, party)
        return _larger(trained, held)
    for serving in _SERVES[unit]:
        found = _worst([own for claim in claims if claim.unit == serving and (own := _own(claim, party))])
        if serving == "person" and all(leaf.unit == "label" for leaf in found) and unit != "label":
            continue  # of a party whose rows are not protected, a claim about persons covers the labels alone
        if found:
            reads_label = unit == "label" or any(leaf.unit == "label" for leaf in found)
            # a bound for the row that leaves the label's own release out is completed by it
            return found if reads_label or unit == "column" else found + _labels(claims, party)
    return _nothing(unit, party, f"the job proves nothing for a {unit} of {party}")


def _larger(trained: tuple[Event, ...], held: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events that bound both; all of them where neither does for certain."""
    sizes = [_gaussian_square(events) for events in (trained, held)]
    if None in sizes:
        proven = [events for events in (trained, held) if not any(isinstance(leaf, NotPrivate) for leaf in events)]
        return trained + held if len(proven) == 2 else next(e for e in (trained, held) if e not in proven)
    return trained if sizes[0] >= sizes[1] else held  # type: ignore[operator]


def _gaussian_square(events: Sequence[Event]) -> float | None:
    """The square of mu of Gaussian releases together; None where there are others."""
    if not all(isinstance(event, GaussianRelease) for event in events):
        return None
    return math.fsum(event.count * event.mu**2 for event in events if isinstance(event, GaussianRelease))


def _own(claim: Claim, party: str) -> tuple[Event, ...]:
    """The events of a claim that are about this party's data."""
    if claim.party not in ("", party):
        return ()
    return tuple(leaf for event in claim.events for leaf in leaves(event) if leaf.party in ("", party))


def _labels(claims: Sequence[Claim], party: str) -> tuple[Event, ...]:
    return _worst([own for claim in claims if claim.unit == "label" and (own := _own(claim, party))])


def _worst(found: Sequence[tuple[Event, ...]]) -> tuple[Event, ...]:
    """Of several claims about one kind of unit: labels with epsilons of their own, or else all of them together."""
    if len(found) > 1 and all(len(own) == 1 and isinstance(own[0], RandomizedResponse) for own in found):
        responses = [own[0] for own in found if isinstance(own[0], RandomizedResponse)]
        if len({event.symbols for event in responses}) == 1:  # the larger epsilon dominates the smaller
            return (max(responses, key=lambda event: event.epsilon),)
    return tuple(event for own in found for event in own)


def _nothing(unit: str, party: str, reason: str) -> tuple[Event, ...]:
    return (NotPrivate(reason, released="what the job sends", party=party, unit=unit),)

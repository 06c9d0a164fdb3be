"""A site's say in a job: its consent in stages, its budget over all jobs, and the list of its releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.errors import FaultError, InputError, RunError
from tacit.federation.budget import BudgetBook, read_limits
from tacit.federation.consent import Consent, describe, digest_of, read_policy
from tacit.federation.kit import Kit
from tacit.federation.members import Members
from tacit.federation.protocol import Reason, RefusalError
from tacit.federation.site import QUESTIONS, MatchingLimits, lead_of, mask_cautions, plan_print
from tacit.federation.spending import events_of
from tacit.job import Job
from tacit.plan import GraphPlan, Plan
from tacit.plan.describe import many
from tacit.privacy.fields import as_list, as_record, as_text, as_whole

MATCHING = ("most_ids", "least_common", "tries", "without_asking")


class SiteGate:
    """The say of the organisation whose kit this is."""

    def __init__(self, kit: Kit) -> None:
        self.kit, self.settings = kit, kit.settings()
        limits, allow = read_limits(self.settings)
        self.book = BudgetBook(kit.ledger, limits, kit.name, allow_not_private=allow, runs=kit.jobs)
        self.policy = read_policy(self.settings)
        self.limits, self.friends = read_matching(self.settings)

    def allow_job(self) -> None:
        """Answer nothing but no, where that is the organisation's policy.

        Raises
        ------
        RefusalError
        """
        if self.policy == "never":
            raise RefusalError(Reason.NEVER)

    def allow_preparing(self, run: str, party: str, others: Sequence[str], lines: Sequence[str], job: str) -> None:
        """Show what matching and sizes tell, and wait for a yes: no budget covers that, so none lets it pass unasked.

        Raises
        ------
        RefusalError
            Where the organisation does not take part.
        """
        if set(others) <= self.friends:
            return
        policy = "ask" if self.policy == "within-budget" else self.policy
        bound = {"run": run, "stage": "prepare", "limits": repr(self.limits), "others": sorted(others), "job": job}
        Consent(self.kit.jobs / run, party, policy).obtain(digest_of("\n".join(lines), bound), lines, ())

    def allow(self, run: str, job: Job, plan: Plan | GraphPlan, party: str, bound: Mapping[str, str]) -> None:
        """Show the job, wait for a yes, and reserve its cost before anything leaves; a run that goes on counts once.

        Raises
        ------
        RefusalError
            Where the organisation does not take part.
        """
        if job.privacy is not None and job.privacy.noise_seed is not None and not self.settings.get("allow_noise_seed"):
            raise RefusalError(Reason.NOISE_SEED)
        events = events_of(plan, party)
        lead, (masked, reader) = lead_of(job), behind_masks(plan, lead_of(job))
        warned = party in masked and party != lead  # who passes keys of masks on is not warned of itself
        unchecked = Members(self.kit).unchecked(masked) if warned else []
        lines = [*describe(job, plan, party, self.book, run), *many("caution", mask_cautions(unchecked, reader))]
        digest = digest_of(job.to_toml(), {"run": run, "stage": "train", "plan": plan_print(plan), **bound})
        consent = Consent(self.kit.jobs / run, party, self.policy)
        consent.obtain(digest, lines, self.book.standings(events, run))
        try:
            self.book.reserve(run, events)
        except FaultError:
            raise
        except RunError as error:
            raise RefusalError(Reason.BUDGET, str(error)) from error

    def allow_scores(self, run: str, party: str, lines: Sequence[str], bound: Mapping[str, str]) -> None:
        """Show what is asked and wait for a yes: scores are covered by no budget, so none lets them pass unasked.

        Raises
        ------
        RefusalError
            Where the organisation does not take part.
        """
        policy = "ask" if self.policy == "within-budget" else self.policy
        digest = digest_of("\n".join(lines), {"run": run, "stage": "predict", **bound})
        Consent(self.kit.jobs / run, party, policy).obtain(digest, lines, ())

    def released(self, run: str, number: int, digest: str) -> None:
        """Record that a release is about to leave: once, whatever happens afterwards."""
        self.book.released(run, number, digest)

    def last_release(self, run: str) -> int:
        """The largest number under which this party has answered in a run; -1 where there is none."""
        return max((number for job, number in self.book.releases() if job == run and number < QUESTIONS), default=-1)


def behind_masks(plan: Plan | GraphPlan, lead: str) -> tuple[tuple[str, ...], str]:
    """Whose parts go under masks, and who could read one alone with false keys, which the lead passes on."""
    if isinstance(plan, Plan):
        return (plan.asked_parties if plan.secure else ()), lead
    if plan.private is None or not plan.private.masked:
        return (), lead
    middle = plan.graph.names[plan.graph.centre]
    leaves = tuple(name for name in plan.graph.names if name != middle)
    return leaves, lead if middle == lead else f"{lead} together with {middle}"


def read_matching(settings: Mapping[str, Any]) -> tuple[MatchingLimits, frozenset[str]]:
    """The section [matching] of site.toml: limits, and the parties with whom ids are matched without asking.

    Raises
    ------
    InputError
        For an unknown key or a value of the wrong kind.
    """
    section = as_record(settings.get("matching", {}), "[matching]")
    for key in section:
        if key not in MATCHING:
            raise InputError(f"matching.{key} is unknown: [matching] has {', '.join(MATCHING)}")
    names = as_list(section.get("without_asking", []), "matching.without_asking")
    counts = {key: as_whole(section[key], f"matching.{key}", 1) for key in MATCHING[:3] if key in section}
    return MatchingLimits(**counts), frozenset(as_text(name, "matching.without_asking") for name in names)

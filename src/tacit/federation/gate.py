"""A site's say in a job: its consent, its budget over all jobs, and the list of its releases."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.errors import RunError
from tacit.federation.budget import BudgetBook, read_limits
from tacit.federation.consent import Consent, describe, digest_of, read_policy
from tacit.federation.kit import Kit
from tacit.federation.site import plan_print
from tacit.federation.spending import events_of
from tacit.job import Job
from tacit.plan import GraphPlan, Plan


class SiteGate:
    """The say of the organisation whose kit this is."""

    def __init__(self, kit: Kit) -> None:
        self.kit, self.settings = kit, kit.settings()
        limits, allow = read_limits(self.settings)
        self.book = BudgetBook(kit.ledger, limits, kit.name, allow_not_private=allow, runs=kit.jobs)

    def allow(self, run: str, job: Job, plan: Plan | GraphPlan, party: str) -> None:
        """Show the job, wait for a yes, and take its cost down before anything leaves; a run that goes on counts once.

        Raises
        ------
        RunError
            Where the organisation does not take part.
        """
        if job.privacy is not None and job.privacy.noise_seed is not None and not self.settings.get("allow_noise_seed"):
            raise RunError("the job has noise_seed, with which everybody could take the noise off: leave it out")
        events = events_of(plan, party)
        lines = describe(job, plan, party, self.book, run)
        digest = digest_of(job.to_toml(), {"run": run, "plan": plan_print(plan)})
        consent = Consent(self.kit.jobs / run, party, read_policy(self.settings))
        consent.obtain(digest, lines, self.book.standings(events, run))
        self.book.reserve(run, events)

    def allow_scores(self, run: str, party: str, lines: Sequence[str]) -> None:
        """Show what is asked and wait for a yes: scores are covered by no budget, so none lets them pass unasked.

        Raises
        ------
        RunError
            Where the organisation does not take part.
        """
        policy = read_policy(self.settings)
        consent = Consent(self.kit.jobs / run, party, "ask" if policy == "within-budget" else policy)
        consent.obtain(digest_of("\n".join(lines), {"run": run}), lines, ())

    def released(self, run: str, number: int, digest: str) -> None:
        """Take down that a release is about to leave: once, whatever happens afterwards."""
        self.book.released(run, number, digest)

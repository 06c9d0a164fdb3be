"""What a party is shown before it takes part in a job, and its answer.

A job asks in stages: before ids are matched and sizes are told, before training, and before each prediction. Each
answer is bound to all that the stage depends on (`digest_of`), so that nothing can be changed after a yes.
`questions.py` says how a question is left and answered.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import FaultError, InputError, RunError
from tacit.federation.budget import BudgetBook, Standing, events_of, read_limits
from tacit.federation.kit import Kit
from tacit.federation.members import Members
from tacit.federation.progress import PREPARE, TRAIN
from tacit.federation.protocol import Reason, RefusalError
from tacit.federation.questions import PENDING, POLICIES, REFUSED, answer_to, one_line_of, read_policy
from tacit.federation.site import QUESTIONS, MatchingLimits, lead_of, mask_cautions, plan_print
from tacit.files import text_digest, write_json
from tacit.job import Job
from tacit.plan import Plan
from tacit.plan.describe import claim_words, headline, many, one
from tacit.privacy.certificate import up
from tacit.privacy.filters import PROMISE
from tacit.records import as_choice, as_list, as_record, as_text, as_whole
from tacit.run.evaluation import masked_scores, shares_figures, shows_scores
from tacit.solvers.boosting.model import lightgbm_version
from tacit.text import plural, size

SECONDS = 24 * 3600.0  # that a job waits for an answer
POLL = 0.5  # seconds between looks at the folder


# --- what is shown -----------------------------------------------------------------------------------


def describe(job: Job, plan: Plan, party: str, book: BudgetBook, job_id: str | None = None) -> list[str]:
    """A job as one party needs to know it: with whom, what leaves, to whom, what it costs, what is not covered.

    Parameters
    ----------
    job : Job
    plan : Plan
        Made by the party itself from the job and the sizes.
    party : str
    book : BudgetBook
        The party's own.
    job_id : str or None
        Where it may be in the book already, so that it counts once.
    """
    found, certificate = plan.describe(), plan.certificate()
    sizes = "the numbers of rows and columns of every party; every party makes the same plan from them"
    model = f"{job.model.loss} loss, {job.model.penalty} penalty, alpha {job.model.alpha:g}"
    if job.search is not None:
        model = f"{job.model.loss} loss, {job.model.penalty} penalty, alpha chosen by a search"
    if job.trees is not None:
        model = f"boosted trees, {job.model.loss} loss, at most {job.trees.max_leaf_nodes} leaves"
    lines = [
        *one("job", one_line_of(job.name)),
        *one("with", ", ".join(name for name in job.names if name != party) or "nobody"),
    ]
    lines += one("model", f"{model}; {found['in_words']}")
    lines += one("all know", sizes)
    lines += one("you send", certificate.per_party.get(party, "nothing"))
    if job.search is not None:
        tried = f"{plural(job.search.tried, 'alpha')} on {plural(job.search.folds_of(plan.problem.rows), 'fold')}"
        lines += one("search", f"{tried} of the rows are tried first: what you send is sent in each of these fits, too")
    lines += one("to", ", ".join(_receivers(job, plan, party)) or "nobody")
    lines += many("evaluation", evaluation_sentences(job, plan, party))
    lines += one("size", _size_words(found["traffic"], party))
    rounds = found["rounds"]
    lines += one("rounds", f"{rounds['most']}, fixed beforehand" if rounds["fixed"] else f"at most {rounds['most']}")
    lines += one("claim", headline(found))
    lines += many("no privacy" if plan.private is None else "rows", tree_sentences(job, plan, party))
    own = [claim for claim in found["claims"] if claim["party"] in ("", party) and claim["epsilon"] != "infinity"]
    lines += many("caution", found["cautions"]) if found["cautions"] else []
    lines += many("your data", [claim_words(claim) for claim in own] or ["nothing is proven for your data"])
    standings = book.standings(events_of(plan, party), job_id)
    lines += many("budget", budget_sentences(standings, book.allow_not_private))
    lines += many("not covered", found["does_not_cover"])
    return lines + many("assumed", found["assumptions"])


def tree_sentences(job: Job, plan: Plan, party: str) -> list[str]:
    """What a party must know before it grows trees without noise; nothing where none are grown so."""
    if plan.problem.trees is None or plan.fixed_rounds:
        return []
    holder, drawn = job.holder, " after they were randomized" if plan.private is not None else " as they are"
    told = f"the labels of the rows that trees are grown on,{drawn}, and in each round their joint score"
    rows = "nothing is claimed for any row: epsilon is infinite"
    software = f"trees are grown by LightGBM {lightgbm_version()} at every party"
    if party == holder:
        send = f"every other party gets {told}, which holds what your own trees add"
        return [rows, send, "you can reconstruct columns of the others from their answers", software]
    return [rows, f"{holder} can reconstruct columns of yours from what you send", f"you get {told}", software]


def evaluation_sentences(job: Job, plan: Plan, party: str) -> list[str]:
    """What leaves a party, and what it learns, when the model is tried on rows that were held out."""
    if not job.holdout:
        return []
    if job.rows_are_split:
        part = f"a part of your rows, holdout = {job.holdout:g}, is held out: not trained on"
        return [part, "the model is tried on them here, beside one of your own rows: no figure leaves"]
    holder, held = job.holder, plan.layout.held  # type: ignore[attr-defined]
    rows = f"{plural(held, 'row')}, chosen by {_key_words(job)}, held out: not trained on"
    if not shows_scores(plan) and not plan.evaluates_privately:
        return [rows, "nothing is evaluated: the certificate covers what is sent, and not the model"]
    told = "the main figures of the joint model and of {whom} alone, which are exact functions of {whose} labels"
    if not shares_figures(plan, job):
        told = ""
    others = told.format(whom="you", whose="your") or "nothing of how good the model is"
    learnt = told.format(whom=holder, whose="its") or f"nothing of how good the model is: {holder} keeps that"
    if plan.evaluates_privately and party == holder:
        sent = "the label and two scores of each of these rows go to the other party, without noise"
        return [rows, sent, f"you tell the others {others}"]
    if plan.evaluates_privately:
        sent = f"two sums and a histogram of these rows, with noise, go to {holder}: a row costs what a row that is "
        return [rows, f"{sent}trained on costs, and is one or the other", f"you are told {learnt}"]
    masked = masked_scores(plan, holder)
    how = f"under masks: {holder} reads the sum over {', '.join(masked)}" if masked else "without noise"
    if party == holder:
        return [rows, f"the others send you their scores of these rows, {how}", f"you tell the others {others}"]
    return [rows, f"your score of each of these rows goes to {holder}, {how}, once", f"you are told {learnt}"]


def _key_words(job: Job) -> str:
    """How it is decided which rows are held out."""
    matched = "id" if any(party.id is not None for party in job.parties) else "position"
    by = "numbers of all parties that nobody chose" if job.seed is None else f"the seed of the job ({job.seed})"
    return f"{matched} and {by}"


def budget_sentences(standings: Sequence[Standing], allow_not_private: bool = False) -> list[str]:
    """What a job would do to each budget."""
    if not standings:
        return ["you have set none: nothing limits what jobs learn together ([budget] in site.toml)"]
    said = []
    for one_ in standings:
        limit, unit = one_.limit, one_.unit
        said.append(
            f"each {unit}: epsilon {limit.epsilon:g} at delta {limit.delta:g} over all jobs; spent before: epsilon "
            f"{up(one_.before)}, {_part(one_.share_before)} of the budget"
        )
        if not one_.private:
            verdict = "allowed by allow_not_private, and outside the budget" if allow_not_private else "it is refused"
            said.append(f"this job proves nothing for each {unit} of yours, so its epsilon is infinite: {verdict}")
        elif not one_.fits:
            said.append(f"with this job: epsilon {up(one_.after)}, which does not fit: it is refused")
        else:
            left = _part(max(1 - one_.share_after, 0.0), up_=False)
            said.append(f"with this job: epsilon {up(one_.after)}, {_part(one_.share_after)}; {left} would remain")
    return [*said, PROMISE]


def _part(value: float, up_: bool = True) -> str:
    if not math.isfinite(value):
        return "all"
    return f"{up(100 * value, 3)} %" if up_ else f"{math.floor(1000 * value) / 10:g} %"


def _receivers(job: Job, plan: Plan, party: str) -> tuple[str, ...]:
    """Who gets what a party sends."""
    return plan.layout.receivers(party)


def _size_words(traffic: Mapping[str, Any], party: str) -> str:
    sent = traffic["parties"].get(party)
    when = "in the whole job" if traffic["of"] == "run" else "in each round"
    about = "" if traffic["exact"] else "about "
    if sent is None:  # whoever holds the labels sends to all others
        down = sum(other["bytes_down"] for other in traffic["parties"].values())
        return f"{about}{size(down)} {when}, to all others together"
    if isinstance(sent, int):
        return f"{about}{size(sent)} {when}, to all of them together"
    return f"{about}{size(sent['bytes_up'])} {when}; {size(sent['bytes_down'])} come back"


# --- the answer --------------------------------------------------------------------------------------


def digest_of(job_text: str, sizes: Mapping[str, Any]) -> str:
    """What an answer holds for: the text of the job, the stage, and everything else that the stage depends on."""
    whole = json.dumps([job_text, sizes], sort_keys=True, allow_nan=False)
    return text_digest(whole)


@dataclass(frozen=True)
class Consent:
    """A party's answers to one job.

    Attributes
    ----------
    folder : Path
        KIT/jobs/NAME; it is made where needed.
    party : str
    policy : {"ask", "within-budget", "always", "never"}
    seconds : float
        How long a job waits for an answer.
    """

    folder: Path
    party: str
    policy: str = "ask"
    seconds: float = SECONDS

    def obtain(self, digest: str, lines: Sequence[str], standings: Sequence[Standing], stage: str = TRAIN) -> None:
        """Come back once the party takes part.

        Raises
        ------
        RefusalError
            Where it does not, or nobody answers in time: with the party's name and the reason.
        """
        as_choice(self.policy, "accept", POLICIES)
        if self.policy == "never":
            raise RefusalError(Reason.NEVER, f'{self.party} takes part in no job: accept = "never" in its site.toml')
        if self.policy == "within-budget":
            self._within(standings)
            return
        if self.policy == "always":  # what exceeds a budget is refused all the same
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if answer_to(self.folder, digest) is not True:
            self._ask(digest, lines, stage)

    def _within(self, standings: Sequence[Standing]) -> None:
        if not standings:
            raise RefusalError(
                Reason.BUDGET,
                f'{self.party}: accept = "within-budget" needs [budget] in site.toml: add epsilon = 3, say',
            )
        for standing in standings:
            if not (standing.fits and standing.private):
                raise RefusalError(
                    Reason.BUDGET,
                    f"{self.party} refused: the job does not fit its budget of epsilon {standing.limit.epsilon:g} for "
                    f'each {standing.unit}, and accept = "within-budget" takes no other',
                )

    def _ask(self, digest: str, lines: Sequence[str], stage: str) -> None:
        """Leave the question and wait."""
        (self.folder / REFUSED).unlink(missing_ok=True)  # of an earlier time: who asks again may be answered anew
        about = {"stage": stage, "since": time.time()}
        record = {"digest": digest, "party": self.party, "lines": list(lines), **about}
        write_json(self.folder / PENDING, record, secret=True)
        until = time.monotonic() + self.seconds
        try:
            while (answer := answer_to(self.folder, digest)) is None:
                if time.monotonic() > until:
                    raise RefusalError(
                        Reason.UNANSWERED,
                        f"{self.party} did not answer within {plural(round(self.seconds), 'second')}: run tacit accept "
                        "there, and start the job again",
                    )
                time.sleep(POLL)
        finally:
            (self.folder / PENDING).unlink(missing_ok=True)
        if not answer:
            raise RefusalError(
                Reason.REFUSED, f"{self.party} refused: it was asked, and does not take part in this job"
            )


# --- A site's say in a job: its consent in stages, its budget over all jobs, and the list of its releases


MATCHING = ("most_ids", "least_common", "tries", "without_asking")


class KitAuthorizer:
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
        digest = digest_of("\n".join(lines), bound)
        Consent(self.kit.jobs / run, party, policy).obtain(digest, lines, (), PREPARE)

    def allow(self, run: str, job: Job, plan: Plan, party: str, bound: Mapping[str, str]) -> None:
        """Show the job, wait for a yes, and reserve its cost before anything leaves; a run that goes on counts once.

        Raises
        ------
        RefusalError
            Where the organisation does not take part.
        """
        if job.privacy is not None and job.privacy.noise_seed is not None and not self.settings.get("allow_noise_seed"):
            raise RefusalError(Reason.NOISE_SEED)
        events = events_of(plan, party)
        lead, (masked, reader) = lead_of(job), behind_masks(plan, lead_of(job), party)
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


def behind_masks(plan: Plan, lead: str, party: str) -> tuple[tuple[str, ...], str]:
    """Whose parts go under masks, and who could read a party's with false keys, which the lead passes on."""
    return plan.behind_masks(lead, party)


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

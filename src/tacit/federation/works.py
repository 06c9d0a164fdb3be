"""From a text, which is data, to who leads it and what sites do about it."""

from __future__ import annotations

from typing import Any, Protocol

from tacit.errors import RunError
from tacit.federation.graph_lead import GraphLead
from tacit.federation.lead import StarLead
from tacit.federation.node_work import NodeWork
from tacit.federation.party_work import PartyWork
from tacit.federation.score_lead import ScoreLead
from tacit.federation.score_work import ScoreWork, is_request, read_request
from tacit.federation.site import Site, Task, Work, lead_of, read_text
from tacit.runtime.loop import Observer


class Lead(Protocol):
    """What the leading site does."""

    def go(self, observe: Observer | None = None) -> dict[str, Any]:
        """Run to the end; what may be told of it."""


def lead_name(text: str) -> str:
    """The site that leads what a text asks for."""
    return read_request(text).lead if is_request(text) else lead_of(read_text(text))


def make_work(site: Site, run: str, text: object, caller: str) -> Work:
    """A site's part in what a text asks for.

    Raises
    ------
    RunError
        Where whoever asks does not lead it.
    """
    if isinstance(text, str) and is_request(text):
        return ScoreWork(run, read_request(text), site.name, site.new, site.folder, site.gate)
    job = read_text(text)
    if caller != lead_of(job):
        raise RunError(f"{caller!r} does not lead this job, {lead_of(job)!r} does: refused")
    task = Task(run, job, site.name, site.data, site.folder / run, caller, site.gate, site.dask)
    return PartyWork(task) if job.split == "features" else NodeWork(task, site.ask)


def make_lead(site: Site, run: str, text: str) -> Lead:
    """What the site does that leads what a text asks for."""
    if is_request(text):
        return ScoreLead(site, run, text)
    return StarLead(site, run, text) if read_text(text).split == "features" else GraphLead(site, run, text)

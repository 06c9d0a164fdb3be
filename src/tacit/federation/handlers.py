"""From a text, which is data, to who leads what it asks for and what sites do about it."""

from __future__ import annotations

from typing import Protocol

from tacit.errors import InputError
from tacit.federation.leads import GraphLead, ScoreLead, StarLead
from tacit.federation.node_handler import NodeHandler
from tacit.federation.party_handler import PartyHandler
from tacit.federation.protocol import Open, Reason, RefusalError
from tacit.federation.score_handler import ScoreHandler, is_request, read_request
from tacit.federation.site import Handler, Site, Task, lead_of, read_text
from tacit.run.drive import Observer


class Lead(Protocol):
    """What the leading site does."""

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""


def lead_name(text: str) -> str:
    """The site that leads what a text asks for."""
    return read_request(text).lead if is_request(text) else lead_of(read_text(text))


def make_handler(site: Site, request: Open, caller: str) -> Handler:
    """A site's part in what a text asks for.

    Raises
    ------
    RefusalError
        Where whoever asks does not lead it, or the text is no job for this site.
    """
    try:
        lead = lead_name(request.job)
    except InputError as error:
        raise RefusalError(Reason.JOB, str(error)) from error
    if caller != lead:
        raise RefusalError(Reason.NOT_LEAD)
    if is_request(request.job):
        asked = read_request(request.job)
        if site.name not in asked.parties:
            raise RefusalError(Reason.JOB)
        return ScoreHandler(request.run, asked, site.name, site.new, site.folder, site.gate, site.signer)
    job = read_text(request.job)
    if site.name not in job.names:
        raise RefusalError(Reason.JOB)
    own = (site.gate, site.dask, site.signer)
    task = Task(request.run, job, site.name, site.data, site.folder / request.run, caller, *own)
    return PartyHandler(task) if job.split == "features" else NodeHandler(task, site.ask)


def make_lead(site: Site, run: str, text: str) -> Lead:
    """What the site does that leads what a text asks for."""
    if is_request(text):
        return ScoreLead(site, run, text)
    return StarLead(site, run, text) if read_text(text).split == "features" else GraphLead(site, run, text)

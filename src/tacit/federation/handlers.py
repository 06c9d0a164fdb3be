"""From a text, which is data, to who leads what it asks for and what sites do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tacit.errors import InputError
from tacit.federation.leads import GraphLead, ScoreLead, StarLead
from tacit.federation.node_handler import NodeHandler
from tacit.federation.party_handler import PartyHandler
from tacit.federation.protocol import Open, Reason, RefusalError
from tacit.federation.score_handler import ScoreHandler, is_request, read_request
from tacit.federation.site import Handler, MakeHandler, Site, lead_of, read_text
from tacit.run.drive import Observer


class Lead(Protocol):
    """What the site that leads a run does besides its own part."""

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""


class RunKind(NamedTuple):
    """One kind of run between sites: each site's own part in it, and what the site that leads does besides."""

    handler: MakeHandler[Handler]
    lead: Callable[[Site, str, str], Lead]


PREDICTION = RunKind(ScoreHandler.open, ScoreLead)
TRAINING = {  # by the split of the job
    "features": RunKind(PartyHandler.open, StarLead),
    "samples": RunKind(NodeHandler.open, GraphLead),
}


def kind_of(text: str) -> RunKind:
    """The kind of run that a text asks for: a prediction, or the training of a job.

    Raises
    ------
    InputError
        For a text that is neither.
    """
    return PREDICTION if is_request(text) else TRAINING[read_text(text).split]


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
        return kind_of(request.job).handler(site, request, caller)
    except InputError as error:
        raise RefusalError(Reason.JOB, str(error)) from error


def make_lead(site: Site, run: str, text: str) -> Lead:
    """What the site does that leads what a text asks for."""
    return kind_of(text).lead(site, run, text)

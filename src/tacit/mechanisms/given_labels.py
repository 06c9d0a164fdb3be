"""Labels that their contributors randomized before any node got them: the loss that fits, and what may be claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import InputError
from tacit.privacy.certificate import OTHER_LABELS, Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import RandomizedResponse
from tacit.privacy.request import PaperOptions, Privacy, check_positive
from tacit.problem.losses import unbounded_reason
from tacit.problem.losses.modified import modified_rows
from tacit.solvers.base import Problem
from tacit.topologies import Graph, SampleSplit

Epsilons = Mapping[str, Sequence[float]]
MOST_CLAIMS = 5  # different epsilons of one node that are claimed one by one; of more, the largest is
ANYBODY = "anybody who gets the label after it was randomized, the node that collects the row among them"
BEFORE = (
    "the labels were randomized by the contributors before the data reached any node, each once, at the epsilon that "
    "its file states and that was not chosen by the label; the true ones were handed to nobody, and the two kinds of "
    "labels are public"
)
COVERED = "the labels, against everybody and for ever: each was randomized once, before the data reached any node"
THEOREM = "randomized response (docs/proofs/labels.md, theorems 1 and 2)"


def check_given(layout: SampleSplit, problem: Problem) -> dict[str, tuple[float, ...]]:
    """The epsilons by node as plain numbers; refused where they do not fit the data or the loss."""
    found = {}
    for name, count in zip(layout.names, layout.rows, strict=True):
        own = tuple(layout.label_epsilons.get(name, ()))
        if len(own) != count:
            raise InputError(f"label_epsilons of {name} are {len(own)}: the node has {count} rows, give one for each")
        found[name] = tuple(check_positive(f"label epsilon of {name}", value) for value in own)
        seen = modified_rows(problem.loss, np.array(own))
        reason = unbounded_reason(seen, problem.regularizer, problem.alpha)
        if reason:
            raise InputError(reason)
    return found


def options_for_given(privacy: Privacy, options: object, epsilons: Epsilons) -> PaperOptions:
    """A mechanism's options, with labels that are randomized already; refused where they would be randomized again."""
    if privacy.label_epsilon is not None:
        raise InputError(
            f"label_epsilon={privacy.label_epsilon:g} would randomize labels a second time: leave it out, as the data "
            "say at which epsilon they were randomized"
        )
    if isinstance(options, PaperOptions) and options.label_epsilons:
        raise InputError("label_epsilons are given twice, as an option and with the data: leave the option out")
    known = options if isinstance(options, PaperOptions) else PaperOptions()
    return replace(known, label_epsilons=epsilons, randomized=True)


def label_claims(epsilons: Epsilons, neighbours: str) -> list[Claim]:
    """What is proven for the labels of each node."""
    claims = []
    for name, own in epsilons.items():
        different = sorted(set(own))
        for epsilon in different if len(different) <= MOST_CLAIMS else different[-1:]:
            event = RandomizedResponse(
                epsilon, released="the label, randomized once", party=name, unit="label", neighbours=neighbours
            )
            claims.append(Claim("label", name, neighbours, ANYBODY, (event,), THEOREM))
    return claims


def given_certificate(graph: Graph, columns: int, epsilons: Epsilons) -> Certificate:
    """Certificate of a run without noise on labels that were randomized before."""
    sends = f"in each round a model of its own, {columns} coefficients, to "
    return Certificate(
        unit="label",
        adversary=ANYBODY,
        covers=(COVERED,),
        does_not_cover=(
            "the features of a row: the node that collects it holds them as they are, and the node's neighbours see "
            "its model after every round, without noise",
            "what features tell about a label: nobody can randomize that away",
            OTHER_LABELS,
        ),
        per_party={
            name: sends + ", ".join(graph.neighbours(name)) if graph.nodes > 1 else "nothing" for name in graph.names
        },
        theorem=THEOREM,
        claims=tuple(label_claims(epsilons, "replace-one")),
        target=Target(None, 0.0),
        assumptions=(BEFORE,),
    )

"""Randomized labels: once by the label holder, or by contributors before any party got them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms.base import COORDINATOR, LABELS, Mechanism, MechanismRequest, PrivatePlan
from tacit.privacy.certificate import OTHER_LABELS, ROWS_OF_TREES, Certificate, leaves_trees
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import RandomizedResponse
from tacit.privacy.releases import AllowedResponse
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, PaperOptions, Privacy, check_positive
from tacit.problem.losses import unbounded_reason
from tacit.problem.losses.modified import modified_rows
from tacit.solvers.base import Problem
from tacit.topologies import FeatureSplit, Graph, SampleSplit

SOFTWARE = "the label holder runs this software; the random bits of its operating system are not predictable"
THEOREM = "randomized response (docs/proofs/labels.md, theorem 1)"
THEOREM_OF_CLASSES = "randomized response over several classes (docs/proofs/labels.md, theorem 7)"
ALL_CLASSES = "which classes there are, and that each occurs: the list of them is public"


class RandomizedLabels(Mechanism[FeatureSplit]):
    """An ordinary solver on labels that the label holder randomizes once."""

    name = "labels"
    split = FeatureSplit.split
    summary = "ordinary training on labels that were randomized once; the rows are not protected"
    can_be_named = False
    has_own_solver = False
    takes_several_classes = True

    def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
        """Plan a run whose only noise is in the labels."""
        return _plan(self, request, layout)

    def is_default(self, privacy: Privacy, *, given_labels: bool) -> bool:
        """It is what a request for the labels alone gets."""
        return privacy.epsilon is None


def _plan(mechanism: RandomizedLabels, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
    privacy = request.privacy
    assert privacy.label_epsilon is not None
    for asked, value, usual in (
        ("protect", privacy.protect, "others"),
        ("unit", privacy.unit, "record"),
        ("refit", privacy.refit, False),
        ("neighbours", privacy.neighbours, "replace-one"),
    ):
        if value != usual:
            raise InputError(f"{asked}={value!r} needs epsilon: epsilon=None protects the labels alone")
    symbols = max(2, request.problem.loss.outputs)
    event = RandomizedResponse(
        privacy.label_epsilon, symbols, released="each label, randomized once", party=layout.holder, unit="label"
    )
    theorem = THEOREM if symbols == 2 else THEOREM_OF_CLASSES
    adversary = "anyone who sees what the run sends, the model, or predictions"
    certificate = Certificate(
        unit="label",
        adversary=adversary,
        covers=(RANDOMIZED,),
        does_not_cover=(*_rows_tell(request), OTHER_LABELS, CLASSES if symbols == 2 else ALL_CLASSES),
        per_party=_leaves(request, layout),
        theorem=theorem,
        claims=(Claim("label", layout.holder, "replace-one", adversary, (event,), theorem),),
        target=Target(privacy.label_epsilon, 0.0),
        assumptions=(*(() if privacy.noise_seed is None else (SEEDED,)), SOFTWARE),
    )
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=None,
        settings=None,
        releases={COORDINATOR: (AllowedResponse(LABELS, privacy.label_epsilon, symbols),)},
        certificate=certificate,
        holder=layout.holder,
        rounds=request.max_rounds,
        noise={},
    )


def _rows_tell(request: MechanismRequest) -> tuple[str, ...]:
    """What is not protected of the rows."""
    if request.problem.trees is not None:
        return ROWS_OF_TREES
    return (
        f"the rows of every party: one number per row{_each(request)} leaves it in each round, without noise",
        f"predictions: each asked row discloses one score per party{_each(request)}",
    )


def _leaves(request: MechanismRequest, layout: FeatureSplit) -> dict[str, str]:
    """What leaves each party."""
    if request.problem.trees is not None:
        return leaves_trees(layout.parties, layout.others, layout.rows, labels="randomized labels")
    leaves = f"in each round one number for each of {layout.rows} rows{_each(request)}, without noise"
    return dict.fromkeys(layout.parties, leaves)


def _each(request: MechanismRequest) -> str:
    """That there are numbers for each class, where there are more than two."""
    classes = request.problem.loss.outputs
    return "" if classes == 1 else f" and each of {classes} classes"


# --- Labels that their contributors randomized before any node got them: the loss that fits, and what may be claimed


Epsilons = Mapping[str, Sequence[float]]
MOST_CLAIMS = 5  # different epsilons of one node that are claimed one by one; of more, the largest is
ANYBODY = "anybody who gets the label after it was randomized, the node that collects the row among them"
BEFORE = (
    "the labels were randomized by the contributors before the data reached any node, each once, at the epsilon that "
    "its file states and that was not chosen by the label; the true ones were handed to nobody, and the two kinds of "
    "labels are public"
)
COVERED = "the labels, against everybody and for ever: each was randomized once, before the data reached any node"
GIVEN_THEOREM = "randomized response (docs/proofs/labels.md, theorems 1 and 2)"


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
            claims.append(Claim("label", name, neighbours, ANYBODY, (event,), GIVEN_THEOREM))
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
        theorem=GIVEN_THEOREM,
        claims=tuple(label_claims(epsilons, "replace-one")),
        target=Target(None, 0.0),
        assumptions=(BEFORE,),
    )

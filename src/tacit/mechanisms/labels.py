"""Randomized labels: once by the label holder, or by contributors before any party got them."""

from __future__ import annotations

from tacit.errors import InputError
from tacit.mechanisms.base import COORDINATOR, LABELS, Mechanism, MechanismRequest, PrivatePlan
from tacit.privacy.certificate import OTHER_LABELS, ROWS_OF_TREES, Certificate, leaves_trees
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import RandomizedResponse
from tacit.privacy.releases import AllowedResponse
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, Privacy
from tacit.topologies import FeatureSplit

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

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


class RandomizedLabels(Mechanism[FeatureSplit]):
    """An ordinary solver on labels that the label holder randomizes once."""

    name = "labels"
    split = FeatureSplit.split
    summary = "ordinary training on labels that were randomized once; the rows are not protected"
    can_be_named = False
    has_own_solver = False

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
    event = RandomizedResponse(
        privacy.label_epsilon, released="each label, randomized once", party=layout.holder, unit="label"
    )
    adversary = "anyone who sees what the run sends, the model, or predictions"
    certificate = Certificate(
        unit="label",
        adversary=adversary,
        covers=(RANDOMIZED,),
        does_not_cover=(*_rows_tell(request), OTHER_LABELS, CLASSES),
        per_party=_leaves(request, layout),
        theorem=THEOREM,
        claims=(Claim("label", layout.holder, "replace-one", adversary, (event,), THEOREM),),
        target=Target(privacy.label_epsilon, 0.0),
        assumptions=(*(() if privacy.noise_seed is None else (SEEDED,)), SOFTWARE),
    )
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=None,
        settings=None,
        releases={COORDINATOR: (AllowedResponse(LABELS, privacy.label_epsilon),)},
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
        "the rows of every party: one number per row leaves it in each round, without noise",
        "predictions: each asked row discloses one score per party",
    )


def _leaves(request: MechanismRequest, layout: FeatureSplit) -> dict[str, str]:
    """What leaves each party."""
    if request.problem.trees is not None:
        return leaves_trees(layout.parties, layout.others, layout.rows, labels="randomized labels")
    return dict.fromkeys(layout.parties, f"in each round one number for each of {layout.rows} rows, without noise")

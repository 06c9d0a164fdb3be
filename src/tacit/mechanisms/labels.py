"""Randomized labels: once by the label holder, or by contributors before any party got them."""

from __future__ import annotations

from tacit.errors import InputError
from tacit.mechanisms.base import COORDINATOR, LABELS, PrivatePlan, Sizes
from tacit.privacy.certificate import OTHER_LABELS, Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import RandomizedResponse
from tacit.privacy.releases import AllowedResponse
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, Privacy
from tacit.solvers.base import Problem

SOFTWARE = "the label holder runs this software; the random bits of its operating system are not predictable"
THEOREM = "randomized response (docs/proofs/labels.md, theorem 1)"


def plan_labels(privacy: Privacy, problem: Problem, sizes: Sizes) -> PrivatePlan:
    """Plan a run whose only noise is in the labels."""
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
        privacy.label_epsilon, released="each label, randomized once", party=sizes.holder, unit="label"
    )
    adversary = "anyone who sees what the run sends, the model, or predictions"
    certificate = Certificate(
        unit="label",
        adversary=adversary,
        covers=(RANDOMIZED,),
        does_not_cover=(
            "the rows of every party: one number per row leaves it in each round, without noise",
            "predictions: each asked row discloses one score per party",
            OTHER_LABELS,
            CLASSES,
        ),
        per_party=dict.fromkeys(
            sizes.parties, f"in each round one number for each of {sizes.rows} rows, without noise"
        ),
        theorem=THEOREM,
        claims=(Claim("label", sizes.holder, "replace-one", adversary, (event,), THEOREM),),
        target=Target(privacy.label_epsilon, 0.0),
        assumptions=(*(() if privacy.noise_seed is None else (SEEDED,)), SOFTWARE),
    )
    return PrivatePlan(
        privacy=privacy,
        mechanism="labels",
        algorithm=None,
        settings=None,
        releases={COORDINATOR: (AllowedResponse(LABELS, privacy.label_epsilon),)},
        certificate=certificate,
        holder=sizes.holder,
        rounds=sizes.max_rounds,
        noise={},
    )

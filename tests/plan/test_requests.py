"""Requests that fit no proof are refused or remarked on, and what is public is said."""

from __future__ import annotations

from typing import Any

import pytest

from tacit import InputError, Privacy, VerticalClassifier, VerticalRegressor
from tacit.data.load import PartySpec
from tacit.job import Job
from tacit.mechanisms.base import USUAL_ROUNDS
from tacit.plan import Plan
from tacit.privacy.request import CLASSES
from tacit.run.prepare import plan_job
from tests.plans import feature_plan


def plan_for(privacy: Privacy, names: tuple[str, ...] = ("bank", "shop"), **changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "loss": "logistic",
        "penalty": "l2",
        "alpha": 1e-3,
        "fit_intercept": True,
        "method": "auto",
        "rho": "auto",
        "max_rounds": 20,
        "tol": 1e-4,
        "party_names": names,
        "rows": 1000,
        "input_bytes": 10**6,
        "columns": (5,) * len(names),
    }
    return feature_plan(privacy=privacy, **{**settings, **changes})


@pytest.mark.parametrize(
    "asked", [{"protect": "everyone"}, {"unit": "person"}, {"refit": True}, {"neighbours": "zero-out"}]
)
def test_what_labels_alone_cannot_answer_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="needs epsilon: epsilon=None protects the labels alone"):
        plan_for(Privacy(epsilon=None, label_epsilon=1.0, **asked))


def test_a_party_cannot_have_the_name_of_the_coordinator() -> None:
    with pytest.raises(InputError, match="cannot be named 'coordinator'"):
        plan_for(Privacy(epsilon=1.0), ("bank", "coordinator"))


def test_a_large_delta_is_remarked_on() -> None:
    plan = plan_for(Privacy(epsilon=1.0, delta=1e-3))
    assert plan.private is not None
    assert any("delta = 0.001 is not below 1/1000" in line for line in plan.private.outlook)
    small = plan_for(Privacy(epsilon=1.0, delta=1e-5))
    assert small.private is not None
    assert not any("delta" in line for line in small.private.outlook)


def test_how_full_a_sparse_table_is_does_not_reach_the_plan() -> None:
    full, empty = (plan_for(Privacy(epsilon=1.0), input_bytes=size, rows=10**6) for size in (10**10, 1))
    assert full.record() == empty.record()


@pytest.mark.parametrize("epsilon", [1e-3, 1e4])
def test_extreme_epsilons_are_planned_and_not_overspent(epsilon: float) -> None:
    for protect in ("others", "everyone"):
        asked = Privacy(epsilon=epsilon, delta=1e-12, protect=protect)
        assert plan_for(asked, rows=10**5).certificate().epsilon(1e-12) <= epsilon


@pytest.mark.parametrize(
    "asked",
    [
        Privacy(epsilon=1.0, label_epsilon=1.0),
        Privacy(epsilon=1.0, protect="everyone"),
        Privacy(epsilon=None, label_epsilon=1.0),
        Privacy(epsilon=1.0, label_epsilon=1.0, mechanism="shares"),
    ],
)
def test_that_both_classes_occur_is_said_to_be_public(asked: Privacy) -> None:
    assert CLASSES in plan_for(asked).certificate().does_not_cover


def test_what_is_larger_than_a_record_is_said() -> None:
    record = plan_for(Privacy(epsilon=1.0, label_epsilon=1.0), ("bank", "shop", "phone")).certificate()
    assert any("a person with a row at each of the 2 covered parties" in sentence for sentence in record.does_not_cover)
    assert any("a row and its label together" in sentence for sentence in record.does_not_cover)
    person = plan_for(Privacy(epsilon=1.0, label_epsilon=0.5, unit="person"), ("bank", "shop", "phone")).certificate()
    assert not any(
        "a row at each" in sentence or "its label together" in sentence for sentence in person.does_not_cover
    )


# --- what a mechanism has no use for -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "changes", "message"),
    [
        (
            "auto",
            {"method": "memory"},
            "method='memory' does not go with this privacy, whose mechanism has a method of its own",
        ),
        ("shares", {"method": "averaged"}, "method='averaged' does not go with this privacy"),
        ("auto", {"rho": 0.5}, "rho=0.5 does not fit mechanism='gram', which has no such penalty: leave rho out"),
        ("auto", {"max_rounds": 1}, "max_rounds=1 does not fit mechanism='gram', which takes 2: leave max_rounds out"),
    ],
)
def test_a_choice_without_effect_is_refused(mechanism: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_for(Privacy(epsilon=1.0, mechanism=mechanism), **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bound_on_rounds_without_effect_is_remarked_on() -> None:
    said = "max_rounds = 20 changes nothing: mechanism 'gram' always takes 2 rounds"
    for rounds, expected in ((20, True), (200, False)):
        private = plan_for(Privacy(epsilon=1.0), max_rounds=rounds).private
        assert private is not None
        assert (said in private.outlook) is expected
    shares = plan_for(Privacy(epsilon=1.0, mechanism="shares"), max_rounds=20).private  # there it bounds them
    assert shares is not None
    assert not any("changes nothing" in line for line in shares.outlook)


def test_the_usual_number_of_rounds_is_that_of_estimators_and_jobs() -> None:
    assert VerticalClassifier().max_rounds == VerticalRegressor().max_rounds == Job("job", ()).rounds == USUAL_ROUNDS


def test_labels_alone_leave_the_method_to_the_user() -> None:
    plan = plan_for(Privacy(epsilon=None, label_epsilon=1.0), method="averaged", rho=0.5)
    assert plan.recorded_method == "averaged"


def test_a_mechanism_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="mechanism='noise' is unknown: choose one of auto, gram, shares, published"):
        plan_for(Privacy(mechanism="noise"))
    job = Job("job", (PartySpec("a", label="y"), PartySpec("b")), privacy=Privacy(mechanism="noise"))
    with pytest.raises(InputError, match=r'privacy\.mechanism = "noise" is not allowed: it must be one of "auto"'):
        plan_job(job, 10, (2, 2), 0)

"""What a plan would spend of each party's budget, by unit; what it does not prove counts as not private."""

from __future__ import annotations

from typing import Any

import pytest

from tacit import Privacy
from tacit.federation.budget import events_of
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.events import NotPrivate, RandomizedResponse
from tacit.privacy.request import PaperOptions
from tacit.topologies import make_graph
from tests.plans import feature_plan, sample_plan


def features(privacy: Privacy | None) -> Plan:
    return feature_plan(
        loss="logistic",
        penalty="l2",
        alpha=1e-3,
        fit_intercept=True,
        method="auto",
        rho="auto",
        max_rounds=20,
        tol=1e-4,
        privacy=privacy,
        party_names=("bank", "phone", "shop"),
        rows=50_000,
        input_bytes=8 * 50_000 * 15,
        columns=(5, 5, 5),
        holder="bank",
    )


def samples(privacy: Privacy | None, method: str, **others: Any) -> Any:
    return sample_plan(
        loss="logistic",
        penalty="l2",
        alpha=1e-2,
        fit_intercept=True,
        method=method,
        published=False,
        rho="auto",
        max_rounds=5,
        tol=1e-6,
        privacy=privacy,
        graph=make_graph("ring", ("a", "b", "c")),
        rows=(4000, 4000, 4000),
        columns=4,
        **others,
    )


def epsilon(plan: Any, party: str, unit: str, delta: float = 1e-6) -> float:
    return accountant.epsilon(events_of(plan, party)[unit], delta)


def nothing(plan: Any, party: str, unit: str) -> bool:
    return any(isinstance(event, NotPrivate) for event in events_of(plan, party)[unit])


def test_a_protected_party_spends_what_was_asked_and_the_label_holder_is_not_private() -> None:
    plan = features(Privacy(epsilon=1, delta=1e-6))
    for party in ("phone", "shop"):
        assert epsilon(plan, party, "record") == pytest.approx(1, rel=1e-6)
        assert epsilon(plan, party, "person") == pytest.approx(1, rel=1e-6)
    for unit in ("label", "record", "person", "column"):
        assert nothing(plan, "bank", unit)


def test_the_label_holder_spends_what_its_labels_cost() -> None:
    plan = features(Privacy(epsilon=1, delta=1e-6, label_epsilon=0.5))
    assert events_of(plan, "bank")["label"][0].party == "bank"
    assert epsilon(plan, "bank", "label", 0.0) == 0.5
    assert nothing(plan, "bank", "record")  # a score of each of its rows is sent
    everyone = features(Privacy(epsilon=1, delta=1e-6, protect="everyone"))
    for unit in ("label", "record", "person"):
        assert epsilon(everyone, "bank", unit) == pytest.approx(1, rel=1e-6)


def test_a_claim_about_persons_covers_the_labels_alone_where_rows_are_not_protected() -> None:
    plan = features(Privacy(epsilon=2, delta=1e-6, unit="person", label_epsilon=0.5))
    assert epsilon(plan, "bank", "label", 0.0) == 0.5
    assert nothing(plan, "bank", "record")
    assert nothing(plan, "bank", "person")
    assert epsilon(plan, "phone", "person") < 2  # its own part of what all release


def test_noise_on_shares_hides_no_label() -> None:
    plan = features(Privacy(epsilon=4, delta=1e-6, mechanism="shares"))
    for unit in ("label", "record", "person"):
        assert nothing(plan, "bank", unit)
    assert epsilon(plan, "phone", "record") == pytest.approx(4, rel=1e-6)
    both = features(Privacy(epsilon=4, delta=1e-6, mechanism="shares", label_epsilon=0.5))
    assert epsilon(both, "bank", "label", 0.0) == 0.5
    assert sum(isinstance(event, RandomizedResponse) for event in events_of(both, "bank")["record"]) == 1
    assert 4 < epsilon(both, "bank", "record") < 4.5 + 1e-6


@pytest.mark.parametrize("privacy", [None, Privacy(epsilon=1, mechanism="published"), Privacy(epsilon=1, noise_seed=1)])
def test_without_a_proof_against_the_others_nothing_is_private(privacy: Privacy | None) -> None:
    plan = features(privacy)
    assert all(nothing(plan, party, unit) for party in plan.party_names for unit in ("label", "record", "person"))


def test_labels_alone() -> None:
    plan = features(Privacy(epsilon=None, label_epsilon=0.7))
    assert epsilon(plan, "bank", "label", 0.0) == 0.7
    assert nothing(plan, "bank", "record")
    assert nothing(plan, "phone", "record")


def test_nodes_of_a_graph_spend_what_was_asked() -> None:
    plan = samples(Privacy(epsilon=2, delta=1e-6), "gaussian")
    for unit in ("label", "record", "person"):
        assert epsilon(plan, "b", unit) == pytest.approx(2, rel=1e-6)
    assert nothing(plan, "b", "column")
    assert nothing(samples(None, "none"), "b", "record")


def test_of_labels_with_epsilons_of_their_own_the_largest_counts() -> None:
    given = dict.fromkeys(("a", "b", "c"), (0.5, 1.5) * 2000)
    plan = samples(Privacy(epsilon=2, delta=1e-6), "pdml", label_epsilons=given, options=PaperOptions())
    assert epsilon(plan, "a", "label", 0.0) == 1.5
    assert epsilon(plan, "a", "record") >= accountant.epsilon(events_of(plan, "a")["label"], 1e-6)

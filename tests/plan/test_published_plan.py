"""The published mechanism, from the request to the finished run: it runs, and says that it protects nobody."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tacit.audit.attacks import column_space_attack
from tacit.errors import InputError, RunError
from tacit.mechanisms.published import corollary1_epsilon, lemma1_bound, theorem3_sigma
from tacit.plan import Plan
from tacit.privacy.certificate import Certificate
from tacit.privacy.request import SEEDED, Privacy
from tacit.privacy.verify import verify
from tacit.run.star import Run
from tacit.types import Message, Shard
from tests.conftest import correlated
from tests.plans import feature_plan

ROWS, COLUMNS = 200, (6, 8)
BOTH = ["published", "published-inverse"]


def data() -> tuple[list[Shard], np.ndarray]:
    X, labels = correlated("classification", rows=ROWS, columns=sum(COLUMNS))
    X = X[:, np.r_[1:6, 11, 0, 6:10, 12:14, 5]]
    return [Shard("bank", X[:, :6]), Shard("shop", X[:, 6:])], labels


def plan_for(privacy: Privacy, **changes: Any) -> Plan:
    settings = {"loss": "logistic", "penalty": "l2", "fit_intercept": False, "max_rounds": 200, "columns": COLUMNS}
    return feature_plan(
        **{**settings, "rho": "auto", **changes},
        alpha=1e-3,
        method="auto",
        tol=1e-4,
        privacy=privacy,
        party_names=("bank", "shop"),
        rows=ROWS,
        input_bytes=ROWS * 14 * 8,
    )


class Recorder:
    """An engine that keeps every message it carries."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.down, self.up = engine, [], []

    def exchange(self, message: Message) -> list[Message]:
        answers = self.engine.exchange(message)
        self.down.append(message)
        self.up.append(answers)
        return answers

    def close(self) -> None:
        self.engine.close()


def run(mechanism: str, **changes: Any) -> tuple[Run, Any]:
    asked = {"epsilon": 1.0, "noise_seed": 3, **changes.pop("privacy", {})}
    shards, labels = data()
    made = Run(plan_for(Privacy(mechanism=mechanism, **asked), **changes), shards, labels)
    made.engine = Recorder(made.engine)
    return made, made.go()


def test_the_noise_is_what_the_paper_computes() -> None:
    private = plan_for(Privacy(mechanism="published-inverse", epsilon=1.0, coef_norm=2.0)).private
    assert private is not None
    assert private.rounds == 19
    assert private.settings.rho == 2.5 * 0.25
    for party, columns in zip(("bank", "shop"), COLUMNS, strict=True):
        (planned,) = private.releases[party]
        assert planned.times == 19
        assert planned.sd == private.noise[f"noisy coefficients of {party}"]
        bound = lemma1_bound(columns, 2.5 * 0.25, 1e-3 * ROWS, 1.0, 2, 2.0)
        one = math.sqrt(2 * math.log(1.25 / (0.5e-5 / 19))) * bound / planned.sd
        assert corollary1_epsilon(one, 19, 0.5e-5) == pytest.approx(1.0, rel=1e-12)
        assert planned.sd == pytest.approx(theorem3_sigma(bound, one, 0.5e-5 / 19))


@pytest.mark.parametrize("mechanism", BOTH)
def test_the_run_ends_and_its_certificate_proves_nothing(mechanism: str) -> None:
    _, result = run(mechanism)
    certificate = result.certificate
    assert len(result.trace) == 19
    assert all(row.epsilon == math.inf for row in result.trace)
    assert not certificate.private
    assert certificate.epsilon(0.5) == math.inf
    assert certificate.delta(100.0) == 1.0
    text = str(certificate)
    assert "This run is NOT differentially private: epsilon is infinite." in text
    assert "projecting on it tells neighbours apart at any noise level" in text.split("Proven:")[0]
    assert "Covered:\n  - nothing" in text
    assert "The paper behind the method would have said: each of 19 rounds is (" in text
    assert "and the run (1, 1e-05) (Corollary 1)" in text
    for words in ("sensitivity bound", "not in one row", "the labels: the dual", SEEDED):
        assert words in text
    assert verify(certificate.to_json()).agrees
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_the_versions_are_told_apart_by_their_noise_and_theorem() -> None:
    plain, inverse = (plan_for(Privacy(mechanism=name)).private for name in BOTH)
    assert plain is not None
    assert inverse is not None
    assert (plain.mechanism.name, plain.solver.name, plain.settings.inverse) == ("published", "published", False)
    assert inverse.mechanism.name == inverse.solver.name == "published-inverse"
    assert inverse.settings.inverse
    assert "Theorem 1," in plain.certificate.published_claim
    assert "Theorem 3," in inverse.certificate.published_claim


def test_a_party_with_as_many_columns_as_rows_gets_the_reason_that_is_true() -> None:
    certificate = plan_for(Privacy(mechanism="published"), columns=(6, ROWS)).certificate()
    reasons = {(claim.unit, claim.party): claim.events[0].reason for claim in certificate.claims}
    assert "column space" in reasons["column", "bank"]
    assert "column space" not in reasons["column", "shop"]
    assert "is false" in reasons["column", "shop"]
    assert not certificate.private


@pytest.mark.parametrize("mechanism", BOTH)
def test_the_messages_of_a_run_give_the_data_away(mechanism: str) -> None:
    made, _ = run(mechanism)
    shards, _ = data()
    for party, shard in enumerate(shards):
        sent = [answers[party].arrays["share"] for answers in made.engine.up[:-1]]
        rows = made.parties[party].side.clip.apply(shard.features)
        used = np.column_stack([rows.predict(one) for one in np.eye(shard.features.shape[1])])
        other = used.copy()
        other[:, 0] *= 0.5 + np.arange(ROWS) % 2
        assert column_space_attack(sent, other, used).chosen == 1
        assert column_space_attack(sent, other, used).certain


def duals(made: Run) -> tuple[np.ndarray, np.ndarray]:
    """The dual variable of every round as it was sent, and as it follows from the combined broadcast q alone."""
    broadcasts = [message.arrays for message in made.engine.down[:-1]]
    rho, last, found = made.coordinator.side.rho, np.zeros(ROWS), []
    for arrays in broadcasts:
        combined = arrays["residual"] + arrays["dual"] / rho
        last = (combined + last) / 2  # u_t = (q_t + u_{t-1}) / 2
        found.append(rho * last)
    return np.array([arrays["dual"] for arrays in broadcasts])[1:], np.array(found)[1:]


def test_every_broadcast_gives_the_labels_away() -> None:
    made, _ = run("published-inverse", privacy={"epsilon": 1e9, "coef_norm": 0.1})
    _, labels = data()
    sent, recovered = duals(made)
    assert np.allclose(recovered, sent, atol=1e-12)
    assert np.array_equal(np.sign(sent), np.tile(-labels, (18, 1)))
    assert np.array_equal(np.sign(recovered), np.tile(-labels, (18, 1)))


@pytest.mark.parametrize("mechanism", BOTH)
def test_noise_that_drowns_a_round_does_not_hide_the_labels_of_a_run(mechanism: str) -> None:
    """Scores of hundreds make some derivatives rounding; those of the rounds that got a row wrong are not."""
    made, _ = run(mechanism)
    _, labels = data()
    for seen in duals(made):
        largest = seen[np.abs(seen).argmax(axis=0), np.arange(ROWS)]
        assert np.array_equal(np.sign(largest), -labels)


def test_only_the_noisy_share_leaves() -> None:
    made, _ = run("published")
    assert all(set(answer.arrays) == {"share"} for answers in made.engine.up[:-1] for answer in answers)
    assert all(not answer.arrays for answer in made.engine.up[-1])


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_paused_run_goes_on_as_if_nothing_had_been(mechanism: str, fit_intercept: bool) -> None:
    _, whole = run(mechanism, fit_intercept=fit_intercept)
    shards, labels = data()
    plan = plan_for(Privacy(mechanism=mechanism, epsilon=1.0, noise_seed=3), fit_intercept=fit_intercept)
    first = Run(plan, shards, labels)
    kept: list[Any] = []

    def keep(paused: Run) -> None:
        if paused.state.rounds == 7:
            copies = {who: {k: v.copy() for k, v in part.items()} for who, part in paused.snapshot().items()}
            kept.append((copies, paused.state.exchange))

    first.go(checkpoint=keep)
    second = Run(plan, shards, labels)
    states, exchange = kept[0]
    state = type(second.state)(exchange=exchange, rounds=7)
    second.restore(states, state)
    rest = second.go()
    assert len(rest.trace) == 12
    for a, b in zip(rest.model.parts, whole.model.parts, strict=True):
        assert np.array_equal(a.coef, b.coef)
    assert rest.model.constant == whole.model.constant


def test_predictions_use_rows_scaled_as_in_training() -> None:
    made, result = run("published", privacy={"row_norm": 0.1})
    shards, _ = data()
    scores = sum(model.score(shard.features) for model, shard in zip(result.model.parts, shards, strict=True))
    assert np.allclose(scores, made.coordinator.side.s, rtol=1e-10)
    assert np.linalg.norm(shards[0].features, axis=1).min() > 0.1


REFUSED: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
    ({"epsilon": None, "label_epsilon": 1.0}, {}, "needs epsilon"),
    ({"label_epsilon": 1.0}, {}, "does not randomize labels"),
    ({"refit": True}, {}, "has no refit"),
    ({}, {"loss": "hinge"}, "Lipschitz derivative .* not 'hinge'"),
    ({}, {"penalty": "l1"}, "second derivative .* not 'l1'"),
    ({}, {"columns": None}, "needs the number of columns"),
    ({"row_norm": {"bank": 1.0, "shop": 2.0}}, {}, "one row_norm"),
]


@pytest.mark.parametrize(("asked", "changes", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_what_the_paper_says_nothing_about_is_refused(
    asked: Mapping[str, Any], changes: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        plan_for(Privacy(mechanism="published", **asked), **changes)


def test_a_warm_start_is_refused() -> None:
    shards, labels = data()
    made = Run(plan_for(Privacy(mechanism="published")), shards, labels)
    with pytest.raises(RunError, match="starts at zero"):
        made.parties[0].answer(Message("coordinator", 0, {}, kind="start"))

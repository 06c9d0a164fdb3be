"""The named attacks: labels, models and rows, where they must succeed and where they must not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacit import Privacy
from tacit.audit import attacks
from tacit.audit.attacks import AS_STATED, AT_95, AT_999, BROKEN, NO_VIOLATION, AttackResult
from tacit.audit.auditor import named_attacks
from tacit.audit.scene import WatchedRun, watch
from tacit.errors import InputError
from tacit.plan import Plan
from tests.plans import feature_plan

ROWS = 600


def plan(method: str = "auto", privacy: Privacy | None = None, loss: str = "logistic", **more: Any) -> Plan:
    return feature_plan(
        loss=loss,
        penalty="l2",
        alpha=1e-2,
        fit_intercept=True,
        method=method,
        rho="auto",
        max_rounds=50,
        tol=1e-4,
        privacy=privacy,
        party_names=more.pop("parties", ("bank", "shop")),
        rows=500,
        input_bytes=10_000,
        columns=more.pop("columns", (3, 4)),
        **more,
    )


def seen(plan: Plan, seed: int = 0) -> WatchedRun:
    return watch(plan, ROWS, np.random.default_rng(seed), repeatable=True)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def by_name(found: list[AttackResult]) -> dict[str, AttackResult]:
    return {one.name: one for one in found}


def right(guesses: np.ndarray, truth: np.ndarray) -> float:
    return attacks.count(guesses, truth) / truth.size


# --- labels ------------------------------------------------------------------------------------------


def test_labels_from_the_dual_of_the_published_mechanism() -> None:
    run = seen(plan(privacy=Privacy(epsilon=1.0, mechanism="published")))
    duals = [inbox["dual"] for inbox in run.inboxes]
    assert right(attacks.labels_from_dual(attacks.largest(duals)), run.labels) >= 0.99


@pytest.mark.parametrize("method", ["averaged", "published"])
def test_labels_from_the_combined_vector_in_every_round(method: str) -> None:
    run = seen(plan(method))
    duals = attacks.duals_from_combined(run.inboxes)
    assert len(duals) >= 9  # relaxed rounds and accelerated ones
    for dual in duals:
        assert right(attacks.labels_from_dual(dual), run.labels) >= 0.99


def test_the_dual_is_the_scaled_loss_derivative() -> None:
    """What is computed from q is what the coordinator computes it from, up to rounding."""
    from tacit.solvers.sharing.coordinator import SharingCoordinator

    kept: list[np.ndarray] = []
    original = SharingCoordinator.broadcast

    def broadcast(self: Any) -> Any:
        message = original(self)
        kept.append(self._u.copy())
        return message

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharingCoordinator, "broadcast", broadcast)
        run = seen(plan("averaged"))
    duals = attacks.duals_from_combined(run.inboxes)
    for dual, true in zip(duals, kept, strict=False):
        np.testing.assert_allclose(dual, true, atol=1e-10 * np.abs(true).max())


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers", "published"])
def test_without_label_privacy_every_label_is_read(method: str) -> None:
    guesses, _ = attacks.seen_by_a_party(seen(plan(method)).inboxes) or (None, "")
    assert guesses is not None
    assert right(guesses, seen(plan(method)).labels) == 1.0
    found = by_name(named_attacks(plan(method), rng(), repeatable=True))[attacks.NAME]
    assert found.verdict == AS_STATED


@pytest.mark.parametrize("mechanism", ["labels", "gram"])
def test_randomized_labels_are_read_no_better_than_randomized_response_allows(mechanism: str) -> None:
    asked = Privacy(epsilon=None if mechanism == "labels" else 1.0, label_epsilon=1.0)
    found = by_name(named_attacks(plan(privacy=asked), rng(), repeatable=True))[attacks.NAME]
    allowed = math.e / (1 + math.e)
    assert found.details["allowed"] == pytest.approx(allowed)
    assert found.verdict == AT_95
    low, high = found.details["interval"]
    assert low < found.details["rate"] < high
    assert f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %) of 1000 labels right" in found.found
    assert found.claimed == "73.1 % right at most, in the long run"
    assert found.details["rate"] == pytest.approx(allowed, abs=0.06)  # the attack reads every randomized label


def test_labels_that_are_kept_too_often_are_caught() -> None:
    source = rng()
    truth = np.where(source.random(1000) < 0.5, 1.0, -1.0)
    for kept, verdict in ((0.731, AT_95), (0.85, BROKEN)):
        guesses = np.where(source.random(1000) < kept, truth, -truth)
        assert attacks.judge_labels(guesses, truth, 0.7311, "a test").verdict == verdict


def test_guesses_that_know_nothing_are_not_called_a_success() -> None:
    source = rng()
    truth = np.where(source.random(1000) < 0.5, 1.0, -1.0)
    assert attacks.judge_labels(np.zeros(1000), truth, None, "a test").verdict == AT_999
    assert attacks.judge_labels(truth, truth, None, "a test").verdict == AS_STATED


# --- models ------------------------------------------------------------------------------------------


def test_a_model_is_extracted_from_as_many_predictions_as_it_has_numbers() -> None:
    source = rng()
    coef = source.normal(size=7)
    rows = attacks.chosen_rows(7)
    found, constant = attacks.coefficients_from_scores(rows, rows @ coef - 0.3)
    assert len(rows) == 8
    np.testing.assert_allclose(found, coef, atol=1e-12)
    assert constant == pytest.approx(-0.3)


@pytest.mark.parametrize(
    ("private", "claimed", "verdict"), [(True, True, NO_VIOLATION), (False, False, AS_STATED), (False, True, BROKEN)]
)
def test_an_extracted_model_is_judged_by_what_it_is(private: bool, claimed: bool, verdict: str) -> None:
    coef = np.array([1.0, -2.0])
    rows = attacks.chosen_rows(2)
    found = attacks.extract(lambda X: X @ coef, coef, party="shop", private=private, claimed=claimed, rows=rows)
    assert found.verdict == verdict
    assert found.details["relative_error"] < 1e-12


def test_scores_that_hide_the_model_withstand() -> None:
    coef = np.array([1.0, -2.0])
    rows = attacks.chosen_rows(2)
    found = attacks.extract(lambda X: np.sign(X @ coef), coef, party="shop", private=False, claimed=True, rows=rows)
    assert found.verdict == NO_VIOLATION
    assert "not exact" in found.found


def test_the_model_that_gram_serves_is_its_private_output() -> None:
    found = by_name(named_attacks(plan(privacy=Privacy(epsilon=1.0)), rng(), repeatable=True))
    shop, bank = found["model of shop from predictions"], found["model of bank from predictions"]
    assert shop.details["relative_error"] < 1e-9
    assert shop.details["private_output"]
    assert shop.verdict == NO_VIOLATION
    assert bank.verdict == AS_STATED


# --- rows --------------------------------------------------------------------------------------------


def shares_of(rows: np.ndarray, rounds: int, noise: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rows @ rng.normal(size=(rows.shape[1], rounds)) + noise * rng.normal(size=(len(rows), rounds))


def test_enough_shares_give_the_column_space_and_with_it_all_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 5))
    found = attacks.recover(shares_of(rows, 9), rows)
    assert found.rank == 5
    assert found.angle < 1e-7
    assert found.error < 1e-8
    assert attacks.judge_rows(found, 9, 5, "shop", covered=False).verdict == AS_STATED
    assert attacks.judge_rows(found, 9, 5, "shop", covered=True).verdict == BROKEN


def test_too_few_shares_do_not() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 5))
    found = attacks.recover(shares_of(rows, 3), rows)
    assert found.rank == 3
    assert found.angle == pytest.approx(math.pi / 2)
    assert found.error > 0.1
    assert attacks.judge_rows(found, 3, 5, "shop", covered=False).verdict == NO_VIOLATION


def test_rows_are_fixed_up_to_a_matrix_only() -> None:
    """Without known rows, D A explains the same shares for every A: nothing but the column space is recovered."""
    source = rng()
    rows, turn = source.normal(size=(80, 5)), source.normal(size=(5, 5))
    shares = shares_of(rows, 9)
    one, other = (attacks.recover(shares, version) for version in (rows, rows @ turn))
    assert one.angle < 1e-7
    assert other.angle < 1e-7


def test_noise_on_the_shares_hides_both() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 5))
    found = attacks.recover(shares_of(rows, 9, noise=3.0), rows)
    assert found.angle > 0.3
    assert found.error > 0.5
    assert attacks.judge_rows(found, 9, 5, "shop", covered=True).verdict == NO_VIOLATION


def test_shares_that_are_all_zero_show_nothing() -> None:
    assert attacks.recover(np.zeros((20, 4)), np.ones((20, 2))).rank == 0


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers"])
def test_a_run_without_privacy_gives_its_rows_away(method: str) -> None:
    found = by_name(named_attacks(plan(method), rng(), repeatable=True))["rows of shop from its shares"]
    assert found.details["error"] < 1e-4
    assert found.verdict == AS_STATED


def test_masks_hide_a_party_s_shares() -> None:
    masked = plan(parties=("bank", "phone", "shop"), columns=(2, 3, 4), secure_aggregation=True)
    for name in masked.party_names:
        found = by_name(named_attacks(masked, rng(), repeatable=True))[f"rows of {name} from its shares"]
        assert found.claimed == "only sums can be read"
        assert found.verdict == NO_VIOLATION
        assert found.details["error"] > 0.5


@pytest.mark.parametrize("mechanism", ["published", "published-inverse"])
def test_the_published_noise_hides_nothing(mechanism: str) -> None:
    asked = Privacy(epsilon=1.0, mechanism=mechanism)
    found = by_name(named_attacks(plan(privacy=asked), rng(), repeatable=True))
    for name in ("bank", "shop"):
        assert found[f"columns of {name}: column space"].verdict == AS_STATED
        assert found[f"columns of {name}: column space"].details["certain"]
        assert found[f"rows of {name} from its shares"].verdict == AS_STATED
    assert found[attacks.NAME].details["rate"] >= 0.99


def test_noisy_shares_hide_the_rows_and_not_the_model() -> None:
    found = by_name(named_attacks(plan(privacy=Privacy(epsilon=8.0, mechanism="shares")), rng(), repeatable=True))
    for name in ("bank", "shop"):
        assert found[f"rows of {name} from its shares"].verdict == NO_VIOLATION
        assert found[f"rows of {name} from its shares"].claimed == "covered"
        assert found[f"model of {name} from predictions"].verdict == AS_STATED
    assert found[attacks.NAME].details["rate"] >= 0.99


def test_a_verdict_is_one_of_three_words() -> None:
    with pytest.raises(InputError, match="verdict='fine' is unknown"):
        AttackResult("a", "b", "c", "fine")

"""Trees whose answers travel under masks: the same trees as with one common step, and nothing but sums to be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer

from tacit import Privacy, VerticalBoostingClassifier, VerticalBoostingRegressor
from tacit.errors import InputError, RunError
from tacit.run.masking import SHARE, point_of
from tacit.run.star import Run
from tacit.solvers.boosting.losses import TreeLoss, make_loss
from tacit.solvers.boosting.sides import LARGEST_SLOPE, TreeHolder
from tacit.types import Message
from tests.boosting.test_runs import LOSSES, make_run
from tests.runtime.masked_runs import copied
from tests.runtime.recording import record, watch_door

LOGISTIC = make_loss("logistic")


def masked(loss: TreeLoss = LOGISTIC, **changed: Any) -> Run:
    return make_run(loss, secure=True, **changed)


# --- the same trees ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_model_is_that_of_one_common_step_without_masks(loss: TreeLoss) -> None:
    """To single precision, in which margins travel: a sum under masks is exact to 2^-61 for each party."""
    secure, plain = masked(loss, rounds=4), make_run(loss, rounds=4, common_step=True)
    one, other = secure.go(), plain.go()
    assert one.boosting is not None
    assert other.boosting is not None
    assert secure.plan.secure
    assert not plain.plan.secure
    np.testing.assert_allclose(one.boosting.held_out, other.boosting.held_out, rtol=1e-7)
    np.testing.assert_allclose(one.boosting.steps, other.boosting.steps, atol=1e-6)
    scores = [result.model.scores(run.shards) for result, run in ((one, secure), (other, plain))]
    np.testing.assert_allclose(*scores, atol=1e-5 * np.abs(scores[1]).max())
    np.testing.assert_allclose(scores[0], secure.coordinator.side.z, atol=1e-5 * np.abs(scores[0]).max())


def test_all_others_have_one_step_and_the_label_holder_its_own() -> None:
    history = masked(rounds=5).go().boosting
    assert history is not None
    own, first, second = zip(*history.steps, strict=True)
    assert first == second
    assert any(first)
    assert own != first
    for losses in (history.fitted, history.held_out):
        assert all(np.diff(losses) <= 1e-12)
    assert not np.isnan(history.interaction.gain)  # tested with the sum of the others


# --- what can be read ----------------------------------------------------------------------------------


def test_nothing_but_masked_arrays_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word that is carried is a bare number, as a float or in fixed point, and all of them look uniform."""
    door, run = watch_door(monkeypatch), masked(rounds=4)
    engine = record(run)
    run.go()
    assert engine.up == door.released
    contents = dict.fromkeys(run.plan.asked_parties, b"")
    for bare, answer in zip(door.bare, engine.up, strict=True):
        assert all(dtype == "uint64" for _, dtype, _, _ in answer.arrays)
        if answer.kind != "step":
            assert answer.kind == "keys" or not answer.arrays
            continue
        assert [name for name, *_ in answer.arrays] == list(bare) == ["added"]
        words, added = answer.array("added"), bare["added"]
        assert not np.isin(words, point_of("added").encode(added, "x")).any()
        assert not np.isin(words.view(np.float64).ravel(), added).any()
        contents[answer.sender] += words.tobytes()
    for content in contents.values():
        assert len(content) == 4 * 600 * 16
        counts = np.bincount(np.frombuffer(content, np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_the_label_holder_is_handed_the_sum_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    door, sums = watch_door(monkeypatch), []

    def refused(side: TreeHolder, answers: Any) -> Any:
        raise AssertionError("an answer was read by itself")

    combine = TreeHolder.combine

    def listening(side: TreeHolder, total: Any) -> Any:
        sums.append(total)
        return combine(side, total)

    monkeypatch.setattr(TreeHolder, "gather", refused)
    monkeypatch.setattr(TreeHolder, "combine", listening)
    run = masked(rounds=3)
    run.go()
    bare = [arrays["added"] for arrays in door.bare if "added" in arrays]
    assert [list(total) for total in sums] == [["added"]] * 3
    for number, total in enumerate(sums):
        np.testing.assert_allclose(total["added"], bare[2 * number] + bare[2 * number + 1], rtol=0, atol=2 * SHARE.step)
    side = run.coordinator.side
    assert list(side.scores) == ["all others together"]
    assert not [name for name in side.state() if name.startswith("score.") and name != "score.0"]


def test_parties_that_are_told_different_things_send_noise() -> None:
    run = masked(rounds=2)
    honest = run.parties[1].answer

    def told_otherwise(message: Message) -> Message:
        if message.kind != "step":
            return honest(message)
        margin = np.array(message.arrays["margin"])
        margin[0] += 1.0
        return honest(replace(message, arrays={**message.arrays, "margin": margin}))

    run.parties[1].answer = told_otherwise  # type: ignore[method-assign]
    with pytest.raises(RunError, match="the masks did not cancel, so the sum is noise"):
        run.go()


def test_a_resumed_run_has_new_keys_and_grows_the_same_trees() -> None:
    whole, kept = masked(rounds=4), []
    engine = record(whole)
    whole.go(checkpoint=lambda session: kept.append(copied(session)) if session.state.rounds == 2 else None)
    again = masked(rounds=4)
    second = record(again)
    again.restore(*kept[0])
    again.go()
    texts = [[part.text for part in run.result().model.parts] for run in (whole, again)]
    assert texts[0] == texts[1]
    assert again.result().boosting == whole.result().boosting
    assert whole.parties[0].fingerprint != again.parties[0].fingerprint
    played = [[m for m in e.up if m.kind == "step" and m.round == 3] for e in (engine, second)]
    for one, other in zip(*played, strict=True):  # the same numbers twice, and no word in common
        assert one.sender == other.sender
        assert not np.isin(one.array("added"), other.array("added")).any()


# --- what is said and refused --------------------------------------------------------------------------


def test_the_certificate_says_what_masks_hide_and_what_not() -> None:
    run = masked(rounds=1)
    certificate = run.go().certificate
    text = str(certificate)
    assert not certificate.private
    assert "This run is NOT differentially private: epsilon is infinite" in text
    assert "the answers of shop and phone: they travel under masks that cancel in their sum" in text
    assert "bank, which holds the labels, sees only the sum over shop and phone. Together with 1 of them it" in text
    assert "masks hide which party a number comes from, not what the sum tells of the cells" in text
    assert "AUC of 0.99" not in text  # that was measured on answers that are read one by one
    assert "masks: at least two of shop and phone follow the protocol" in text
    assert "under masks" not in certificate.per_party["bank"]
    assert "only the sum over shop and phone can be read" in certificate.per_party["shop"]
    assert type(certificate).from_json(certificate.to_json()) == certificate
    assert "masks" not in str(make_run(LOGISTIC, rounds=1).plan.certificate())
    assert "of its own, and of all others' together" in " ".join(str(run.plan).split())


def test_masks_cost_four_times_the_bytes() -> None:
    runs = [make_run(LOGISTIC, rounds=2, secure=secure).go() for secure in (True, False)]
    assert runs[0].traffic["bytes_up"] == 4 * runs[1].traffic["bytes_up"] == 4 * 2 * 2 * 4 * 600


def breast() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y


def test_the_estimator_has_masks_from_three_parties_on() -> None:
    X, y = breast()
    model = VerticalBoostingClassifier(parties=3, secure_aggregation=True, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.97
    assert "under masks" in str(model.certificate_)
    steps = list(model.steps_by_round_.values())
    assert steps[1] == steps[2]
    with pytest.raises(InputError, match="secure_aggregation=True needs at least 3 parties, not 2"):
        VerticalBoostingClassifier(parties=2, secure_aggregation=True).fit(X, y)
    with pytest.raises(InputError, match="secure_aggregation=1 is not allowed: it must be True or False"):
        VerticalBoostingClassifier(parties=3, secure_aggregation=1).fit(X, y)


def test_masks_and_privacy() -> None:
    X, y = breast()
    both = VerticalBoostingClassifier(
        parties=3, secure_aggregation=True, max_rounds=2, random_state=0,
        privacy=Privacy(epsilon=None, label_epsilon=3.0),
    ).fit(X, y)  # fmt: skip
    assert both.certificate_.private
    assert "under masks" in str(both.certificate_)
    with pytest.raises(InputError, match="secure_aggregation=True does not fit mechanism='gram'"):
        VerticalBoostingClassifier(
            parties=3, secure_aggregation=True, privacy=Privacy(epsilon=1.0),
            ranges={f"x{j}": (0, 5000) for j in range(30)},
        ).fit(X, y)  # fmt: skip


def test_what_trees_add_fits_the_masks() -> None:
    """Labels of a size that single precision carries at all are within the range of the masks."""
    assert SHARE.bound > LARGEST_SLOPE
    X, _ = breast()
    y = 1e13 * np.random.default_rng(0).normal(size=len(X))
    model = VerticalBoostingRegressor(parties=3, secure_aggregation=True, max_rounds=2, random_state=0).fit(X, y)
    assert np.ptp(model.predict(X)) > 1e12
    with pytest.raises(InputError, match="y has values that are too large for single precision"):
        VerticalBoostingRegressor(parties=3, secure_aggregation=True).fit(X, 1e3 * y)

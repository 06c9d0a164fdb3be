"""What the answers of trees tell of cells: the measure against scikit-learn's, and that it can say no."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score

from tacit.audit import attacks
from tacit.audit.attacks import AS_STATED, NO_VIOLATION, NOT_TRIED, guess_cells, known_rows
from tacit.audit.auditor import Effort, audit_trees, listen_to_trees
from tacit.run.masking import SHARE
from tacit.solvers.boosting.losses import make_loss
from tests.boosting.test_runs import make_run

LOGISTIC = make_loss("logistic")


def labels_of(run: object) -> np.ndarray:
    return run.coordinator.labels  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("number", [True, False])
def test_the_measures_are_those_of_scikit_learn(number: bool) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=500) if number else (rng.random(500) < 0.3).astype(float)
    guess = np.round(truth + rng.normal(size=500), 1)  # with ties
    oracle = r2_score(truth, guess) if number else roc_auc_score(truth, guess)
    assert attacks._measured(guess, truth, number=number) == pytest.approx(oracle, rel=1e-12)


def cells_and_sights(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A column, what is seen without answers, and an answer that splits by the column."""
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 4, 2000).astype(float) if kind == "category" else rng.normal(size=2000)
    cells[rng.random(2000) < 0.1] = np.nan
    return cells, rng.normal(size=(2000, 2)), np.where(np.isnan(cells), -1.0, np.round(cells, 1))


@pytest.mark.parametrize("kind", ["category", "number"])
def test_answers_that_tell_are_found_and_noise_is_not(kind: str) -> None:
    cells, own, answer = cells_and_sights(kind)
    rows = known_rows(len(cells), 0.1, np.random.default_rng(0))
    assert [len(part) for part in rows] == [200, 1800]
    assert not set(rows[0]) & set(rows[1])
    noise = np.random.default_rng(2).permutation(answer)
    verdicts = {}
    for name, sent in (("tells", answer), ("noise", noise)):
        seen = own, np.column_stack([own, sent])
        verdicts[name] = guess_cells("x", cells, seen, rows, category=kind == "category")
    assert verdicts["tells"].verdict == AS_STATED
    assert verdicts["tells"].details["with_answers"] > 0.95
    assert verdicts["noise"].verdict == NO_VIOLATION
    assert verdicts["noise"].details["with_answers"] < 0.6


def test_what_cannot_be_guessed_is_not_tried() -> None:
    own = np.random.default_rng(0).normal(size=(300, 1))
    rows = known_rows(300, 0.1, np.random.default_rng(0))
    for cells in (np.ones(300), np.full(300, np.nan)):
        for category in (True, False):
            assert guess_cells("x", cells, (own, own), rows, category=category).verdict == NOT_TRIED
    few = known_rows(100, 0.1, np.random.default_rng(0))
    assert guess_cells("x", own[:100, 0], (own[:100], own[:100]), few, category=False).verdict == NOT_TRIED


def test_an_audit_of_a_plan_hears_what_the_label_holder_hears() -> None:
    """Answers one by one, or under masks their sums alone."""
    plain, secure = (make_run(LOGISTIC, rounds=2, secure=secure) for secure in (False, True))
    sent, answers = listen_to_trees(plain.plan, plain.shards, labels_of(plain))
    assert len(answers) == 2 * 2
    assert len(sent) == 510
    _, sums = listen_to_trees(secure.plan, secure.shards, labels_of(secure))
    assert len(sums) == 2
    both = answers[0].astype(np.float64) + answers[1]
    np.testing.assert_allclose(sums[0], both, rtol=0, atol=2 * SHARE.step)


def test_the_audit_of_trees_names_every_column() -> None:
    run = make_run(LOGISTIC, rows=1500, rounds=6)
    told: list[float] = []
    found = audit_trees(run.plan, run.shards, labels_of(run), Effort(seed=3), lambda _, part: told.append(part))
    names = [one.name for one in found.findings]
    assert names == ["labels from what is sent", *(f"{c} of {p}: guessed" for p in ("shop", "phone") for c in "abc")]
    used = {one.details["column"]: one for one in found.findings if one.details.get("party") == "shop"}
    assert used["a"].verdict == AS_STATED
    assert used["a"].details["with_answers"] > used["a"].details["without_answers"] + 0.2
    assert used["c"].details["measure"] == "AUC"
    assert found.unbroken
    assert told == sorted(told)

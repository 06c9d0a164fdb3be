"""A whole audit, and how it is written down."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tacit import Privacy
from tacit.audit import findings
from tacit.audit.attacks import AT_95, AT_999, NO_VIOLATION
from tacit.audit.auditor import Audit, Effort, GameResult, audit
from tacit.audit.findings import conclusion, lines, to_json
from tacit.audit.game import lower_bound
from tacit.audit.scene import search
from tacit.errors import InputError
from tacit.privacy.certificate import not_private
from tests.audit import toy
from tests.audit.test_attacks import plan
from tests.audit.test_lower_bound import gaussian
from tests.audit.test_replay import CLAIMED

SMALL = Effort(pairs=80, runs=100, seed=1)


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(plan(privacy=Privacy(epsilon=1.0)), SMALL)


def test_an_audit_of_gram(found: Audit) -> None:
    verdicts = {finding.name: finding.verdict for finding in found.findings}
    assert verdicts == {
        "rows of shop: replayed neighbours": NO_VIOLATION,
        "rows of shop: guessing game": AT_95,
        "labels from what is sent": "as stated",
        "model of bank from predictions": "as stated",
        "model of shop from predictions": NO_VIOLATION,
    }
    assert found.unbroken
    assert conclusion(found)[0].startswith("No violation of a claim was found.")
    assert [game.party for game in found.games] == ["shop"]


def test_a_seed_repeats_an_audit(found: Audit) -> None:
    again = audit(plan(privacy=Privacy(epsilon=1.0)), SMALL)
    assert lines(again) == lines(found)


def test_everyone_is_audited() -> None:
    told: list[float] = []
    few = Effort(pairs=40, runs=60, seed=1)
    found = audit(plan(privacy=Privacy(epsilon=2.0, protect="everyone")), few, lambda text, part: told.append(part))
    names = {finding.name for finding in found.findings}
    assert {"rows of bank: guessing game", "rows of shop: guessing game"} <= names
    assert found.unbroken
    assert {finding.verdict for finding in found.findings} == {NO_VIOLATION, AT_95}
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_broken_mechanism_is_called_broken() -> None:
    verdicts = {finding.name: finding.verdict for finding in audit(toy.plan("forgets to clip"), SMALL).findings[:1]}
    assert verdicts == {"rows of shop: replayed neighbours": "broken"}


def test_a_run_that_claims_nothing_has_nothing_broken() -> None:
    found = audit(plan(), SMALL)
    assert found.unbroken
    assert not found.games
    assert {finding.verdict for finding in found.findings} == {"as stated"}
    assert conclusion(found) == [
        "No privacy is claimed, so nothing could be broken.",
        "5 of 5 attacks succeed where the certificate says that nothing is covered.",
    ]


def test_the_json_says_the_same(found: Audit) -> None:
    record = json.loads(to_json(found))
    assert record["mechanism"] == "gram"
    assert record["claimed_epsilon"] == pytest.approx(1.0)
    assert record["broken"] is False
    assert record["verdicts"] == {NO_VIOLATION: 2, AT_95: 1, AT_999: 0, "as stated": 2, "not tried": 0, "broken": 0}
    assert [line["attack"] for line in record["findings"]] == [name for name, *_ in lines(found)]
    assert record["findings"][0]["details"]["pairs"] >= 80


def test_the_json_knows_infinity() -> None:
    from tacit.audit.attacks import AttackResult

    odd = AttackResult("a", "b", "c", "broken", {"x": math.inf, "y": np.float64(1.5), "z": [math.nan, True]})
    whole = Audit(not_private(("bank",), 3), "none", (odd,))
    record = json.loads(to_json(whole))
    assert record["findings"][0]["details"] == {"x": "infinity", "y": 1.5, "z": ["not a number", True]}
    assert record["claimed_epsilon"] is None
    assert "BROKEN" in conclusion(whole)[0]


# --- the picture -------------------------------------------------------------------------------------


def measured(mu: float, runs: int = 4000) -> GameResult:
    guesses = gaussian(mu, runs, 3)
    worst = search(toy.scenes(), CLAIMED, 2, np.random.default_rng(0))
    claim = toy.plan().certificate().claims[0]
    return GameResult("shop", claim, guesses, lower_bound(guesses, toy.DELTA), worst)


def test_the_claimed_curve_is_the_gaussian_trade_off() -> None:
    from scipy.stats import norm

    alarms = np.linspace(0.001, 0.999, 50)
    exact = norm.cdf(norm.isf(alarms) - toy.MU)
    found = findings.claimed_misses(toy.plan().certificate().claims[0], alarms)
    assert np.all(found <= exact + 1e-9)  # a maximum over some epsilons is never above the whole curve
    np.testing.assert_allclose(found, exact, atol=2e-3)


def test_the_band_holds_the_measured_rates() -> None:
    guesses = gaussian(1.0, 500, 1)
    thresholds = np.linspace(-1, 2, 9)
    low, high = findings.band(guesses, thresholds)
    second = guesses.scores[guesses.truths]
    misses = np.array([np.mean(second <= threshold) for threshold in thresholds])
    assert np.all((low <= misses) & (misses <= high))
    assert np.all(high - low < 0.2)


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    games = [measured(toy.MU), measured(2 * toy.MU)]
    png = findings.draw(games, tmp_path / "audit.png", ["sound", "half the noise"])
    assert png.read_bytes().startswith(b"\x89PNG")
    text = findings.draw(games, tmp_path / "audit.svg").read_text()
    assert "<svg" in text
    with pytest.raises(InputError, match="cannot write the picture"):
        findings.draw(games, tmp_path / "nowhere" / "audit.png")


def test_a_picture_needs_matplotlib_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(findings, "has_matplotlib", lambda: False)
    with pytest.raises(InputError, match=r'pip install "tacit\[plot\]"'):
        findings.draw([measured(1.0, 200)], tmp_path / "audit.png")
    with pytest.raises(InputError, match="no guessing game"):
        findings.draw([], tmp_path / "audit.png")

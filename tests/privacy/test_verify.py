"""Verification: honest certificates agree, edited ones do not."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.certificate import Certificate, not_private
from tacit.privacy.verify import verify

from .conftest import make_certificate


@pytest.mark.parametrize("asked", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("rounds", [1, 2, 5, 10, 50, 100])
def test_honest_certificates_agree(asked: float, rounds: int) -> None:
    verdict = verify(make_certificate(epsilon=asked, rounds=rounds).to_json())
    assert verdict.agrees, verdict.problems
    assert 0.99 * asked <= verdict.claimed <= asked
    assert verdict.difference < 0.01
    assert [line.about for line in verdict.lines] == ["record of shop", "label of bank"]


@pytest.mark.parametrize("delta", [1e-2, 1e-9, 1e-20])
def test_honest_certificates_agree_at_any_delta(delta: float) -> None:
    assert verify(make_certificate(delta=delta).to_json()).agrees


def edit_both(record: Any, value: float) -> None:
    record["epsilon"] = record["claims"][0]["epsilon"] = value


def scale_noise(record: Any, factor: float) -> None:
    for event in record["claims"][0]["events"]:
        event["noise"] *= factor


TAMPERED = {
    "epsilon lowered": lambda r: r.update(epsilon=0.5),
    "epsilon lowered everywhere": lambda r: edit_both(r, 0.5),
    "epsilon lowered a little": lambda r: edit_both(r, 0.999),
    "epsilon raised": lambda r: edit_both(r, 3.0),
    "epsilon infinite": lambda r: r.update(epsilon="infinity"),
    "another claim's epsilon": lambda r: r["claims"][1].update(epsilon=0.1),
    "an event removed": lambda r: r["claims"][0]["events"].pop(),
    "a claim removed": lambda r: r["claims"].pop(1) and r["claims"][0]["events"].pop(),
    "delta changed": lambda r: r.update(delta=1e-9),
    "delta changed everywhere": lambda r: (r.update(delta=1e-9), r["target"].update(delta=1e-9)),
    "noise raised": lambda r: scale_noise(r, 2.0),
    "noise lowered": lambda r: scale_noise(r, 0.5),
    "said not to be private": lambda r: r.update(private=False),
    "more than was asked": lambda r: r["target"].update(epsilon=0.9),
    "sensitivity lowered": lambda r: r["claims"][0]["events"][3].update(sensitivity=1.0),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found(certificate: Certificate, name: str) -> None:
    record = json.loads(certificate.to_json())
    TAMPERED[name](record)
    verdict = verify(json.dumps(record))
    assert not verdict.agrees
    assert verdict.problems
    assert all("\n" not in problem for problem in verdict.problems)


def test_half_the_noise_is_found() -> None:
    verdict = verify(make_certificate(noise=0.5).to_json())
    assert not verdict.agrees
    assert "more than the 1 that was asked" in verdict.problems[0]


def test_a_wrong_first_accountant_is_found(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    right = accountant.epsilon
    monkeypatch.setattr(accountant, "epsilon", lambda events, delta: 0.9 * right(events, delta))
    verdict = verify(certificate.to_json())
    assert not verdict.agrees
    assert "the second accountant finds" in verdict.problems[0]


def test_a_run_without_privacy_agrees_that_it_has_none() -> None:
    verdict = verify(not_private(("bank", "shop"), 5).to_json())
    assert verdict.agrees
    assert verdict.claimed == verdict.recomputed == math.inf
    assert verdict.difference == 0.0
    record = json.loads(not_private(("bank",), 5).to_json())
    for change in ({"epsilon": 1.0}, {"private": True}, {"delta": 1e-5}):
        assert not verify(json.dumps({**record, **change})).agrees


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(InputError, match="not whole JSON"):
        verify("{")

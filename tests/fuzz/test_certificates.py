"""Changed certificates: refused in one line, or checked; a changed number is never found in order."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest

from tacit.privacy.certificate import Certificate
from tacit.privacy.verify import verify
from tests.fuzz.budget import SHARDS, bounded_memory, refusal, seeds
from tests.fuzz.mutate import VALUES, Mutator
from tests.fuzz.runs import KINDS, trained


def certificate(kind: str) -> bytes:
    return trained(kind).files()["certificate.json"]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_changed_certificate_is_refused_or_checked(shard: int) -> None:
    used = 0
    with bounded_memory():
        for seed in seeds("certificates", shard):
            mutator = Mutator(seed)
            content = mutator.json(certificate(mutator.random.choice([*KINDS, "private", "private"])))
            found, refused = refusal(lambda content=content: Certificate.from_json(content))
            if found is None:
                assert refusal(lambda content=content: verify(content))[1] == refused
                continue
            used += 1
            record = json.loads(content)
            assert list(found.covers) == record["covers"], seed
            assert len(found.claims) == len(record.get("claims", [])), seed
            verdict, _ = refusal(lambda content=content: verify(content))
            if verdict is not None and verdict.agrees:
                _check_agreement(found, record, seed)
    assert used > len(seeds("certificates", shard)) / 20


def _check_agreement(found: Certificate, record: dict[str, Any], seed: int) -> None:
    """What is found in order states the numbers of its own events."""
    assert record["private"] is found.private, seed
    stated = math.inf if record["epsilon"] == "infinity" else record["epsilon"]
    delta = record.get("delta")
    own = math.inf if delta is None else found.epsilon(delta)
    assert stated == own or math.isclose(stated, own, rel_tol=1e-5), seed


NUMBERS = [("epsilon",), ("delta",), ("private",), ("target", "delta"), ("claims", 0, "epsilon")]


@pytest.mark.parametrize("place", NUMBERS, ids=lambda place: ".".join(map(str, place)))
def test_a_changed_number_is_never_found_in_order(place: tuple[Any, ...]) -> None:
    record = json.loads(certificate("private"))
    assert verify(json.dumps(record)).agrees
    for value in [*VALUES, 0.99, 1.99, 2.01, 1e-6, 1.1e-5]:
        changed = copy.deepcopy(record)
        holder: Any = changed
        for key in place[:-1]:
            holder = holder[key]
        before = holder[place[-1]]
        close = type(value) in (int, float) and math.isclose(min(value, 1e300), before, rel_tol=1e-6)
        if value is before or close:
            continue  # within the rounding that a check allows
        holder[place[-1]] = value
        verdict, refused = refusal(lambda changed=changed: verify(json.dumps(changed)))
        assert refused or not verdict.agrees, (place, value)

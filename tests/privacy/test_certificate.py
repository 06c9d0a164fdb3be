"""The certificate: what it says, what it refuses, its JSON and its schema."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from scipy.stats import norm

from tacit.errors import InputError
from tacit.privacy.accountant import epsilon, gdp_mu
from tacit.privacy.certificate import Certificate, not_private, schema, up
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease, NotPrivate, PureRelease, RandomizedResponse

SCHEMA = json.loads(schema())


def claim(*events: Any, unit: str = "record", **other: str) -> Claim:
    values = {"party": "shop", "neighbours": "replace-one", "adversary": "the bank", "theorem": "a theorem", **other}
    return Claim(unit=unit, events=events, **values)


def test_epsilon_is_the_largest_over_the_parties_of_the_main_unit() -> None:
    one, two, label = GaussianRelease(1.0, 4.0), GaussianRelease(1.0, 2.0), RandomizedResponse(9.0, unit="label")
    whole = Certificate(
        unit="record",
        claims=(claim(one), claim(two, party="bank"), claim(label, unit="label")),
        target=Target(None, 1e-6),
    )
    assert whole.epsilon(1e-6) == epsilon(two, 1e-6)
    assert whole.delta(0.5) == max(c.delta(0.5) for c in whole.claims[:2])
    assert whole.private


def test_a_private_certificate_reads_well(certificate: Certificate) -> None:
    text = str(certificate)
    assert text.splitlines()[1] == (
        "This run is differentially private: epsilon = 1 at delta = 1e-05 for each record, and 1.5 for each label."
    )
    for sentence in (
        "Who is protected: each record",
        "From whom: the bank and the coordinator.",
        "by at most a factor e^1 = 2.719, plus delta = 1e-05 (1 in 100,000)",
        "an observer's odds change by at most a factor e^1.694 = 5.437, except with a probability of at most "
        "3 delta = 3e-05 (1 in 33,333)",
        "right in at most 55.34 % of cases",
        "Not covered:\n  - the asked row at prediction time",
        "Assumed:\n  - the noise is not seeded",
        "Software: tacit 0.1.0",
    ):
        assert sentence in text


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-2)])
def test_odds_pass_the_stated_factor_no_more_often_than_stated(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)

    def beyond(size: float) -> float:  # the privacy loss of mu-GDP is N(mu^2/2, mu^2)
        return float(norm.sf(size / mu - mu / 2) + norm.cdf(-size / mu - mu / 2))

    assert beyond(epsilon + math.log(2)) <= 3 * delta
    assert beyond(epsilon) > delta  # so that the factor e^epsilon must not be stated with delta


def test_a_run_without_noise_claims_nothing() -> None:
    plain = not_private(("bank", "shop"), 100)
    assert plain.epsilon(1e-5) == math.inf
    assert plain.delta(3.0) == 1.0
    assert "NOT differentially private: epsilon is infinite" in str(plain)
    record = json.loads(plain.to_json())
    assert (record["private"], record["epsilon"], record["unit"]) == (False, "infinity", "none")
    jsonschema.validate(record, SCHEMA)
    assert Certificate.from_json(plain.to_json()) == plain


def test_one_unproven_release_makes_the_run_not_private(certificate: Certificate) -> None:
    first = certificate.claims[0]
    open_claim = replace(first, events=(*first.events, NotPrivate("the offset is sent in clear")))
    broken = replace(certificate, claims=(open_claim, certificate.claims[1]))
    assert not broken.private
    assert "Because:\n  - the offset is sent in clear" in str(broken)
    assert "label of bank" in str(broken)
    record = json.loads(broken.to_json())
    assert record["epsilon"] == record["claims"][0]["epsilon"] == "infinity"
    jsonschema.validate(record, SCHEMA)


def test_json_round_trip_and_schema(certificate: Certificate) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    text = certificate.to_json()
    jsonschema.validate(json.loads(text), SCHEMA)
    assert Certificate.from_json(text) == certificate
    assert Certificate.from_json(text.encode()).to_json() == text


def test_certificates_without_the_newer_fields_are_read() -> None:
    record = json.loads(not_private(("bank",), 3).to_json())
    for name in ("delta", "target", "claims", "assumptions", "versions"):
        del record[name]
    jsonschema.validate(record, SCHEMA)
    assert Certificate.from_json(json.dumps(record)) == not_private(("bank",), 3)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field of a record but free texts within mappings."""
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        found += paths(part, (*path, key))
    return found


def changed(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(record))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


@pytest.mark.parametrize("value", [None, -1, 1e400, {}, [], "x", True, [[]]], ids=repr)
def test_a_wrong_field_is_refused_in_one_line_where_the_schema_refuses_it(certificate: Certificate, value: Any) -> None:
    record = json.loads(certificate.to_json())
    record["claims"][0]["events"] = record["claims"][0]["events"][:1]
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for path in paths(record):
        wrong = changed(record, path, value)
        text = json.dumps(wrong)
        if validator.is_valid(wrong):
            continue
        with pytest.raises(InputError) as caught:
            Certificate.from_json(text)
        assert "\n" not in str(caught.value)
        names = [key for key in path if isinstance(key, str)]
        assert names[-1] in str(caught.value) or str(caught.value).startswith("not whole JSON")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not whole JSON"),
        ("[]", "the whole is [] : it must be a JSON object"),
        ('{"format": 1}', "the certificate has no field private"),
        ('{"format": 1, "format": 1}', "the field 'format' is given twice"),
        ('{"epsilon": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "not whole JSON"),
        (b"\xff\xfe\x00", "not whole JSON"),
    ],
)
def test_what_is_no_certificate_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message.replace("[] :", "[]:"))):
        Certificate.from_json(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: claim(PureRelease(0.1), theorem=" "), "theorem is empty"),
        (lambda: claim(), "lists everything that was released"),
        (lambda: claim(PureRelease(0.1), unit="column"), "an event about a record proves nothing for a column"),
        (lambda: claim(PureRelease(0.1, unit="column")), "an event about a column proves nothing"),
        (lambda: claim(PureRelease(0.1, neighbours="zero-out")), "does not count for 'replace-one'"),
        (lambda: claim("event"), "not a known privacy event"),
        (lambda: Certificate(unit="record"), "unit='record' has no claim"),
        (lambda: Certificate(unit="record", claims=(claim(PureRelease(0.1)),)), "claims and a target"),
        (lambda: Certificate(unit="label", claims=(claim(PureRelease(0.1)),), target=Target(1, 0)), "has no claim"),
        (lambda: Target(1.0, 1.0), "delta=1.0"),
        (lambda: Target(-1.0, 0.0), "epsilon=-1.0"),
    ],
)
def test_claims_without_ground_are_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_numbers_for_people_are_rounded_up() -> None:
    assert [up(value) for value in (1.0, 0.99999999999999, 1.00001, 31.17286, 0.000123412, 99999.1, 0.0)] == [
        "1", "1", "1.001", "31.18", "0.0001235", "1e+05", "0",
    ]  # fmt: skip
    assert up(math.inf) == "inf"

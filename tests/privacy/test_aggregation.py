"""Secure aggregation: sums, masks that look random, refusals. In words: docs/explanation/secure-aggregation.md."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import InputError, RunError
from tacit.privacy.aggregation import FixedPoint, MaskingParty, explain_collusion, fingerprint, unmask_sum
from tacit.privacy.randomness import NoiseSource, grid_step
from tacit.types import Vector, Words

NAMES = ("ann", "bob", "cem")
POINT = FixedPoint(scale_bits=32, bound=1000.0)
LOW_ORDER_KEY = bytes(32)


def fixed_key(number: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes([number + 1]) * 32)


def meet(names: tuple[str, ...] = NAMES, run: str = "run") -> dict[str, MaskingParty]:
    """Parties with fixed keys that have agreed."""
    parties = {name: MaskingParty(name, run, fixed_key(i)) for i, name in enumerate(names)}
    keys = {name: party.public_bytes for name, party in parties.items()}
    for name, party in parties.items():
        party.agree({other: key for other, key in keys.items() if other != name})
    return parties


def mask_all(
    parties: dict[str, MaskingParty], vectors: dict[str, Vector], point: FixedPoint = POINT
) -> dict[str, Words]:
    return {name: party.mask(0, "share", vectors[name], point) for name, party in parties.items()}


def draw(names: tuple[str, ...] = NAMES, size: int = 50) -> dict[str, Vector]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=size) for name in names}


# ---------------------------------------------------------------- the sum


@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_sum_is_the_plain_sum(count: int, size: int, scale_bits: int, seed: int) -> None:
    names = tuple(f"p{i}" for i in range(count))
    rng = np.random.default_rng(seed)
    vectors = {name: rng.uniform(-1000, 1000, size) for name in names}
    point = FixedPoint(scale_bits, 1000.0)
    total = unmask_sum(mask_all(meet(names), vectors, point), names, point)
    exact = np.array([math.fsum(column) for column in zip(*vectors.values(), strict=True)])
    assert np.all(np.abs(total - exact) <= count * point.step / 2 + 2.0**-52 * np.abs(exact))


@given(st.floats(0.01, 1e4), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_noise_on_the_grid_stays_on_the_grid(sd: float, seed: int) -> None:
    step = grid_step(sd)
    point = FixedPoint(-int(math.log2(step)), 50 * sd)
    noisy = {name: NoiseSource(seed, stream=name).release(np.zeros(5), sd, 1.0).noisy for name in NAMES}
    total = unmask_sum(mask_all(meet(), noisy, point), NAMES, point)
    assert np.array_equal(total, sum(noisy.values()))
    assert np.array_equal(total / step, np.rint(total / step))


def test_the_order_of_parties_does_not_matter() -> None:
    vectors = draw()
    totals = []
    for order in itertools.permutations(NAMES):
        masked = mask_all(meet(), vectors)
        totals.append(unmask_sum({name: masked[name] for name in order}, order, POINT))
    assert all(np.array_equal(total, totals[0]) for total in totals)


def test_matrices_and_empty_arrays() -> None:
    square = {name: np.eye(3) for name in NAMES}
    assert np.array_equal(unmask_sum(mask_all(meet(), square), NAMES, POINT), 3 * np.eye(3))
    nothing = {name: np.empty(0) for name in NAMES}
    assert unmask_sum(mask_all(meet(), nothing), NAMES, POINT).size == 0


# ---------------------------------------------------------------- masks


def looks_uniform(words: Words) -> bool:
    """Chi-square tests of all bytes and of the top four bits, at level 1e-4 each."""
    all_bytes = np.bincount(words.view(np.uint8), minlength=256)
    top = np.bincount((words >> np.uint64(60)).astype(np.int64), minlength=16)
    return bool(stats.chisquare(all_bytes).pvalue > 1e-4 and stats.chisquare(top).pvalue > 1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_one_masked_vector_looks_uniform_and_a_bare_one_does_not(name: str) -> None:
    vectors = draw(size=50_000)
    assert looks_uniform(mask_all(meet(), vectors)[name])
    assert not looks_uniform(POINT.encode(vectors[name], name))


def test_masks_cancel_only_when_all_are_present() -> None:
    vectors = draw(size=50_000)
    masked = mask_all(meet(), vectors)
    for some in itertools.combinations(NAMES, 2):
        assert looks_uniform(masked[some[0]] + masked[some[1]])
        with pytest.raises(RunError, match="masks did not cancel"):
            unmask_sum({name: masked[name] for name in some}, some, POINT)
    assert not looks_uniform(masked["ann"] + masked["bob"] + masked["cem"])


def bare_mask(run: str = "run", round: int = 0, name: str = "share", names: tuple[str, ...] = NAMES) -> tuple[int, ...]:
    """The masks on a zero vector of the first party."""
    return tuple(meet(names, run)[names[0]].mask(round, name, np.zeros(4), POINT).tolist())


def test_every_round_array_run_and_company_has_fresh_masks() -> None:
    masks = [bare_mask(), bare_mask(round=1), bare_mask(name="gram"), bare_mask(run="other")]
    masks += [bare_mask(names=("ann", "bob")), bare_mask(names=("ann", "bob", "dan"))]
    assert len({word for mask in masks for word in mask}) == 4 * len(masks)
    assert bare_mask() == bare_mask()


def test_a_mask_is_never_used_twice() -> None:
    party = meet()["ann"]
    party.mask(3, "share", np.zeros(4), POINT)
    for round in (3, 2):
        with pytest.raises(RunError, match=rf"ann: round {round} of 'share' is masked already \(last: 3\)"):
            party.mask(round, "share", np.ones(4), POINT)
    party.mask(3, "gram", np.zeros(4), POINT)
    party.mask(4, "share", np.zeros(4), POINT)


def test_keys_are_drawn_afresh() -> None:
    assert MaskingParty("ann", "run").public_bytes != MaskingParty("ann", "run").public_bytes
    assert len(MaskingParty("ann", "run").public_bytes) == 32


def test_a_party_cannot_be_copied() -> None:
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="two copies would use the same masks"):
            make(MaskingParty("ann", "run"))


def test_parties_that_were_told_different_keys_are_found_out() -> None:
    parties = meet()
    cheated = MaskingParty("ann", "run", fixed_key(0))
    cheated.agree(
        {"bob": fixed_key(1).public_key().public_bytes_raw(), "cem": fixed_key(9).public_key().public_bytes_raw()}
    )
    with pytest.raises(RunError, match="masks did not cancel"):
        unmask_sum(mask_all({**parties, "ann": cheated}, draw()), NAMES, POINT)


# ---------------------------------------------------------------- refusals


def test_missing_parties_are_named() -> None:
    masked = mask_all(meet(), draw())
    with pytest.raises(RunError, match="no answer from bob and cem"):
        unmask_sum({"ann": masked["ann"]}, NAMES, POINT)
    with pytest.raises(RunError, match="an answer from cem, who did not agree"):
        unmask_sum(masked, ("ann", "bob"), POINT)
    with pytest.raises(InputError, match="parties is empty"):
        unmask_sum({}, (), POINT)


def test_tampered_arrays_are_refused() -> None:
    masked = mask_all(meet(), draw())
    with pytest.raises(RunError, match=r"bob sent an array of shape \(49,\), ann one of \(50,\)"):
        unmask_sum({**masked, "bob": masked["bob"][:-1]}, NAMES, POINT)
    with pytest.raises(RunError, match="bob sent numbers of type int64"):
        unmask_sum({**masked, "bob": masked["bob"].astype(np.int64)}, NAMES, POINT)  # type: ignore[dict-item]
    with pytest.raises(RunError, match="masks did not cancel"):
        unmask_sum({**masked, "bob": masked["bob"] ^ np.uint64(2**63)}, NAMES, POINT)


@pytest.mark.parametrize("bad", [1000.1, -2e300, math.nan, math.inf])
def test_entries_beyond_the_bound_are_refused_without_being_shown(bad: float) -> None:
    with pytest.raises(RunError, match="bob: entry 1 is NaN or beyond the public bound 1000") as refusal:
        meet()["bob"].mask(0, "share", np.array([0.0, bad]), POINT)
    assert "1000.1" not in str(refusal.value)


def test_a_refused_vector_does_not_use_up_the_round() -> None:
    party = meet()["bob"]
    with pytest.raises(RunError, match="public bound"):
        party.mask(0, "share", np.array([2000.0]), POINT)
    party.mask(0, "share", np.array([1.0]), POINT)


def test_overflow_is_refused_before_it_happens() -> None:
    tight = FixedPoint(scale_bits=0, bound=(2.0**63 - 2**11) / 3)
    ends = {name: np.array([tight.bound, -tight.bound]) for name in NAMES}
    total = unmask_sum(mask_all(meet(), ends, tight), NAMES, tight)
    assert total == pytest.approx(3 * tight.bound * np.array([1.0, -1.0]), rel=1e-15)
    loose = FixedPoint(scale_bits=0, bound=2.0**63 / 3 * 1.001)
    with pytest.raises(InputError, match=r"cem: the sum of 3 vectors .* can overflow 64 bits at scale_bits=0"):
        meet()["ann"].mask(0, "share", np.zeros(1), loose)
    with pytest.raises(InputError, match="can overflow"):
        unmask_sum(mask_all(meet(), draw()), NAMES, loose)


@pytest.mark.parametrize(("scale_bits", "bound"), [(63, 1.0), (0, 2.0**63), (2000, 1.0), (0, 0.0), (0, math.nan)])
def test_bad_fixed_points_are_refused(scale_bits: int, bound: float) -> None:
    with pytest.raises(InputError, match=r"overflow|not allowed"):
        FixedPoint(scale_bits, bound)


def test_steps_larger_than_one_and_tiny_ones() -> None:
    for point in (FixedPoint(-10, 1e15), FixedPoint(200, 2.0**-150)):
        vectors = {name: np.array([7 * point.step, -point.bound]) for name in NAMES}
        total = unmask_sum(mask_all(meet(), vectors, point), NAMES, point)
        assert np.all(np.abs(total - 3 * vectors["ann"]) <= 1.5 * point.step)


def test_keys_that_are_refused() -> None:
    def agree(others: dict[str, bytes]) -> None:
        MaskingParty("ann", "run", fixed_key(0)).agree(others)

    own, other = (fixed_key(i).public_key().public_bytes_raw() for i in range(2))
    with pytest.raises(InputError, match="ann is alone"):
        agree({})
    with pytest.raises(InputError, match="two parties are called ann"):
        agree({"ann": other})
    with pytest.raises(RunError, match="have the same public key"):
        agree({"bob": own})
    for bad in (LOW_ORDER_KEY, b"short"):
        with pytest.raises(RunError, match="bob sent a key that is no X25519 public key"):
            agree({"bob": bad})


def test_keys_are_agreed_on_once_and_first() -> None:
    with pytest.raises(RunError, match="ann has no keys of the other parties yet"):
        MaskingParty("ann", "run").mask(0, "share", np.zeros(1), POINT)
    with pytest.raises(RunError, match="ann has already agreed"):
        meet()["ann"].agree({"bob": fixed_key(1).public_key().public_bytes_raw()})


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("count", range(1, 7))
@pytest.mark.parametrize("coordinator_is_party", [False, True])
def test_collusion_is_explained(count: int, coordinator_is_party: bool) -> None:
    text = explain_collusion([f"p{i}" for i in range(count)], coordinator_is_party)
    hidden_from_coordinator = count - coordinator_is_party >= 2
    assert text.startswith("Masks hide nothing") is not hidden_from_coordinator
    allies = count - coordinator_is_party - 2
    assert ("Even with" in text) is (allies > 0)
    assert allies <= 0 or f"Even with {allies} other" in text


def test_the_example_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs/explanation/secure-aggregation.md"
    code = page.read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert capsys.readouterr().out == code.split("# ")[-1]


def test_the_fingerprint_names_the_whole_company() -> None:
    keys = {name: party.public_bytes for name, party in meet().items()}
    swapped = {**keys, "ann": keys["bob"], "bob": keys["ann"]}
    assert fingerprint(keys) == fingerprint(dict(reversed(keys.items())))
    assert len({fingerprint(keys), fingerprint(swapped), fingerprint({"ann": keys["ann"]})}) == 3
    assert len(fingerprint(keys)) == 39

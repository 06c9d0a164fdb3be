"""Fixed point over several words: exact sums modulo a power of 2^64, checked against Python's own integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InputError, RunError
from tacit.privacy.aggregation import FixedPoint
from tacit.types import Words

POINTS = [FixedPoint(30, 2.0**20), FixedPoint(60, 2.0**50, 2), FixedPoint(100, 2.0**70, 3), FixedPoint(150, 1e30, 4)]


def as_words(number: int, count: int) -> Words:
    values = [(number >> (64 * place)) & (2**64 - 1) for place in range(count)]
    return np.array(values, dtype=np.uint64)[:, None] if count > 1 else np.array(values, dtype=np.uint64)


def as_integer(words: Words) -> int:
    return sum(int(word) << (64 * place) for place, word in enumerate(words.ravel()))


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.words} words")
@given(number=st.floats(-(2.0**20), 2.0**20))
def test_a_number_is_its_nearest_multiple_of_the_step(point: FixedPoint, number: float) -> None:
    encoded = as_integer(point.encode([number], "ann"))
    assert encoded == round(math.ldexp(number, point.scale_bits)) % 2 ** (64 * point.words)
    back = point.decode_sum(point.encode([number], "ann"), 1)[0]
    assert abs(back - number) <= point.step / 2 + 2.0**-52 * abs(number)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@given(data=st.data())
def test_sums_and_differences_are_those_of_integers(count: int, data: st.DataObject) -> None:
    edge = st.sampled_from([0, 1, 2**64 - 1, 2**64, 2 ** (64 * count) - 1, 2 ** (64 * count) - 2**64])
    a, b, c = (data.draw(st.integers(0, 2 ** (64 * count) - 1) | edge) % 2 ** (64 * count) for _ in range(3))
    point = FixedPoint(0, 1.0, count)
    total, signs = as_words(a, count), (data.draw(st.booleans()), data.draw(st.booleans()))
    point.add(total, as_words(b, count))
    assert as_integer(total) == (a + b) % 2 ** (64 * count)
    total = as_words(a, count)
    point.add_masks(total, [(as_words(one, count), minus) for one, minus in zip((b, c), signs, strict=True)])
    b, c = (-one if minus else one for one, minus in zip((b, c), signs, strict=True))
    assert as_integer(total) == (a + b + c) % 2 ** (64 * count)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.words} words")
def test_ends_of_the_range(point: FixedPoint) -> None:
    ends = np.array([point.bound, -point.bound, point.step, -point.step, 0.0])
    np.testing.assert_array_equal(point.decode_sum(point.encode(ends, "ann"), 1), ends)
    with pytest.raises(RunError, match="beyond the public bound"):
        point.encode([point.bound * 1.001], "ann")


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.words} words")
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_larger_than_the_bounds_allow_is_refused(point: FixedPoint, sign: int) -> None:
    most = 3 * math.ceil(math.ldexp(point.bound, point.scale_bits))
    assert point.decode_sum(as_words(sign * most, point.words), 3) == pytest.approx(sign * 3 * point.bound)
    with pytest.raises(RunError, match="the masks did not cancel"):
        point.decode_sum(as_words(sign * (most + 1), point.words), 3)


@pytest.mark.parametrize("words", [0, 9])
def test_the_number_of_words_is_checked(words: int) -> None:
    with pytest.raises(InputError, match=f"words={words} is not allowed"):
        FixedPoint(0, 1.0, words)


def test_powers_that_no_float_holds_are_refused() -> None:
    for scale_bits in (-600, 600):
        with pytest.raises(InputError, match=f"scale_bits={scale_bits} is not allowed: at most 552 either way"):
            FixedPoint(scale_bits, 1.0, 8)
    FixedPoint(-552, 1.0, 8).decode_sum(FixedPoint(-552, 1.0, 8).encode([1.0], "ann"), 1)


def test_more_words_make_room() -> None:
    with pytest.raises(InputError, match="can overflow 64 bits"):
        FixedPoint(60, 2.0**50)
    with pytest.raises(InputError, match="can overflow 128 bits"):
        FixedPoint(60, 2.0**50, 2).check_room(["p"] * 2**18)

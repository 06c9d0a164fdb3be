"""The keystream against the published vector, and contexts that cannot be confused."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.privacy.randomness import Keystream, derive_key, pack

RFC_8439_A1 = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"


def test_words_are_the_chacha20_keystream() -> None:
    assert Keystream(bytes(32)).words(4).astype("<u8").tobytes().hex() == RFC_8439_A1


@pytest.mark.parametrize("count", [0, 1, 7, 2**16, 2**16 + 1, 200_001])
def test_words_go_on_where_they_stopped(count: int) -> None:
    whole, parts = Keystream(b"k" * 32), Keystream(b"k" * 32)
    assert np.array_equal(whole.words(count + 5), np.concatenate([parts.words(count), parts.words(5)]))


def test_a_key_is_not_used_beyond_its_end() -> None:
    stream = Keystream(bytes(32))
    stream.room = 3
    with pytest.raises(ValueError, match="take a new key"):
        stream.words(4)


def test_contexts_cannot_be_confused() -> None:
    contexts = [("ab", "c"), ("a", "bc"), ("abc",), (b"ab", "c"), ("1",), (1,), ("a", 1, "bc"), ("", "abc"), ()]
    assert len({pack(*fields) for fields in contexts}) == len(contexts)
    assert len({derive_key(b"secret", *fields) for fields in contexts}) == len(contexts)

"""Small arrays travel as bytes and come out as they were; what is no array is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.federation.packing import MARK, SMALL, pack, unpack


def test_arrays_come_out_as_they_were() -> None:
    arrays = {
        "floats": np.array([[1.5, -np.inf], [np.nan, 0.0]]),
        "whole": np.array([2**63 + 1], np.uint64),
        "none": np.zeros((0, 3)),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }
    value = {"message": {"arrays": arrays, "round": 3, "kind": "step"}, "names": ["a", 1, None, b"x"]}
    packed = pack(value)
    assert not any(isinstance(item, np.ndarray) for item in packed["message"]["arrays"].values())
    back = unpack(packed)
    assert (back["names"], back["message"]["round"]) == (["a", 1, None, b"x"], 3)
    for name, array in arrays.items():
        got = back["message"]["arrays"][name]
        np.testing.assert_array_equal(got, array)
        assert (got.dtype, got.flags.writeable) == (array.dtype, True)


def test_large_arrays_are_left_to_the_carrier() -> None:
    large = np.zeros(SMALL // 8 + 1)
    assert pack({"x": large})["x"] is large


@pytest.mark.parametrize(
    "packed", [["<f8", [2], b"x"], ["|O", [1], b"12345678"], ["<f8", [1], "text"], ["<f8", ["a"], b""], 3, ["<f8"]]
)
def test_what_is_no_array_is_refused(packed: object) -> None:
    with pytest.raises(RunError, match="no array"):
        unpack({"x": {MARK: packed}})

"""Arrays as bytes inside messages: they come back as they were, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from tacit.errors import RunError
from tacit.federation.wire import pack, unpack, unpack_reply


@pytest.mark.parametrize("kind", ["f8", "u8", "i8", "f4", "i4", "u1", "b1", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 2), (0, 4)])
def test_arrays_come_back_as_they_were(kind: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, size=shape).astype(kind)
    payload = {
        "message": {"arrays": {"share": array}, "sender": "bank", "round": 3},
        "list": [array, {"a": None}, b"x"],
    }
    back = unpack(msgpack.loads(msgpack.dumps(pack(payload))))
    for found in (back["message"]["arrays"]["share"], back["list"][0]):
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype.newbyteorder("=")
        assert found.flags.writeable
    assert (back["message"]["sender"], back["message"]["round"], back["list"][1:]) == ("bank", 3, [{"a": None}, b"x"])


def test_a_view_travels_as_its_own_numbers_alone() -> None:
    whole = np.arange(1000.0).reshape(10, 100)
    packed = pack(whole[:, 3])
    assert packed["bytes"] == whole[:, 3].tobytes()


WRONG: dict[str, dict[str, Any]] = {
    "objects": {"array": "O8"},
    "texts": {"array": "U2"},
    "no kind": {"array": ["f8"]},
    "too short": {"bytes": b"\0" * 15},
    "too long": {"bytes": b"\0" * 17},
    "negative": {"shape": [-1]},
    "no whole number": {"shape": [2.0]},
    "truth": {"shape": [True, 2]},
    "huge": {"shape": [2**62, 2**62]},
    "sides": {"shape": [1] * 9 + [2]},
    "no bytes": {"bytes": "0" * 16},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_no_array_is_refused(change: dict[str, Any]) -> None:
    assert unpack({"array": "f8", "shape": [2], "bytes": b"\0" * 16}).tolist() == [0.0, 0.0]
    with pytest.raises(RunError, match="an array came"):
        unpack({"array": "f8", "shape": [2], "bytes": b"\0" * 16, **change})


def test_objects_do_not_travel() -> None:
    with pytest.raises(RunError, match="object"):
        pack({"a": np.array([None])})


def test_a_reply_that_is_none_is_an_error_in_one_line() -> None:
    assert unpack_reply({"at": 3}, "shop") == {"at": 3}
    assert "'shop'" in unpack_reply([1], "shop")["error"]
    assert unpack_reply({"x": {"array": "f8", "shape": [2], "bytes": b""}}, "shop")["error"].startswith("an array came")

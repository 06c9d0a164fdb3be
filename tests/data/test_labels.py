from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tacit.data.labels import encode_binary
from tacit.errors import InputError


@pytest.mark.parametrize(
    ("y", "classes", "signs"),
    [
        ([0, 1, 1], [0, 1], [-1, 1, 1]),
        ([1.0, -1.0], [-1, 1], [1, -1]),
        (["yes", "no", "yes"], ["no", "yes"], [1, -1, 1]),
        ([True, False], [False, True], [1, -1]),
        (np.array(["b", "a"], dtype=object), ["a", "b"], [1, -1]),
        (pd.Series(["u", "v"], dtype="category"), ["u", "v"], [-1, 1]),
        (np.array([3, 3, 9], dtype=np.uint8), [3, 9], [-1, -1, 1]),
    ],
)
def test_two_classes(y: Any, classes: list[Any], signs: list[int]) -> None:
    pm1, found = encode_binary(y)
    assert pm1.dtype == np.float64
    assert pm1.tolist() == signs
    assert found.tolist() == classes


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1, 1], "one class only, 1"),
        (["no", "no"], 'one class only, "no"'),
        ([0, 1, 2], "Only binary classification is supported. The labels have 3 classes, 0, 1, 2"),
        ([0.5, 1.7, 2.2], "Unknown label type: continuous. Only binary classification is supported"),
        ([0.0, np.nan, 1.0], "1 label blank, NaN or infinite, the first in row 2"),
        ([0.0, 1.0, np.inf], "the first in row 3"),
        (["a", "", "b", " "], "2 labels blank, NaN or infinite, the first in row 2"),
        (np.array(["a", None, "b"], dtype=object), "the first in row 2"),
        (np.array(["a", float("nan")], dtype=object), "the first in row 2"),
        (pd.array([1, None, 0], dtype="Int64"), "the first in row 2"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), "the first in row 2"),
        (np.array(["a", 1], dtype=object), "mix numbers and text"),
        ([], "there are no labels"),
        ([[0, 1], [1, 0]], "have shape (2, 2)"),
        (1, "have shape ()"),
    ],
)
def test_refusals(y: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        encode_binary(y, party="bank")
    assert str(caught.value).startswith('party "bank": ')
    assert expected in str(caught.value)
    with pytest.raises(InputError) as caught:
        encode_binary(y)
    assert "party" not in str(caught.value)

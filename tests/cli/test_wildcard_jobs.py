"""Jobs that speak of several columns at once, by wildcards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit import load

WILD = 'id = "customer"\n[party.columns]\n"s*" = { low = -4, high = 4 }\ns1 = { low = -3, high = 3 }'
EXACT = 'id = "customer"\n[party.columns]\n' + "".join(
    f"s{number} = {{ low = {-high}, high = {high} }}\n" for number, high in enumerate((4, 3, 4, 4))
)


@pytest.mark.parametrize("privacy", [None, "epsilon = 1\nnoise_seed = 3"])
def test_the_model_is_that_of_the_job_with_every_name(files: Any, tacit: Any, tmp_path: Path, privacy: Any) -> None:
    files.privacy = privacy
    for name, files.shop_keys in (("wild", WILD), ("exact", EXACT)):
        answer = tacit("train", files.write(), "--out", tmp_path / name, "--quiet")
        assert answer.code == 0, answer.err
    assert load(tmp_path / "wild").coef == load(tmp_path / "exact").coef


@pytest.mark.parametrize("verb", ["plan", "train"])
@pytest.mark.parametrize("privacy", [None, "epsilon = 1"])
def test_a_wildcard_without_a_column_is_one_line(files: Any, refused: Any, verb: str, privacy: Any) -> None:
    files.privacy, files.shop_keys = privacy, WILD.replace("s*", "t*")
    line = refused(verb, files.write())
    assert 'party "shop": columns names "t*", which matches none of its features: they are "s0", "s1"' in line

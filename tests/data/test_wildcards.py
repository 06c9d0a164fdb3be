"""Names with wildcards in [party.columns]: which statement holds for which column, and that categories stay text."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.columns.spec import ColumnSpec, EncodeRules, common_specs, is_wildcard, resolve_specs
from tacit.data.load import PartySpec, load_training_data
from tacit.data.nodes import load_nodes
from tacit.data.sizes import node_sizes, public_size
from tacit.errors import InputError

NAMES = ("AGE", "BILL_AMT1", "BILL_AMT2", "PAY_AMT1", "bill_amt1")


def number(name: str, high: float, *, optional: bool = False) -> ColumnSpec:
    return ColumnSpec(name, low=0.0, high=high, optional=optional)


def highs(*specs: ColumnSpec, names: tuple[str, ...] = NAMES) -> dict[str, float | None]:
    return {spec.name: spec.high for spec in resolve_specs(specs, names, "bank")}


def refusal(*specs: ColumnSpec, names: tuple[str, ...] = NAMES) -> str:
    with pytest.raises(InputError) as caught:
        resolve_specs(specs, names, "bank")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wildcard_is_about_every_column_that_it_matches() -> None:
    assert highs(number("BILL_AMT*", 5.0)) == {"BILL_AMT1": 5.0, "BILL_AMT2": 5.0}
    assert highs(number("*_AMT?", 5.0)) == {"BILL_AMT1": 5.0, "BILL_AMT2": 5.0, "PAY_AMT1": 5.0}
    assert highs(number("*[!1E]", 5.0)) == {"BILL_AMT2": 5.0}


def test_an_exact_name_comes_first_then_the_longer_wildcard() -> None:
    found = highs(number("*", 1.0), number("BILL*", 2.0), number("BILL_AMT2", 3.0))
    assert found == {"AGE": 1.0, "BILL_AMT1": 2.0, "BILL_AMT2": 3.0, "PAY_AMT1": 1.0, "bill_amt1": 1.0}


def test_what_a_party_says_comes_before_what_is_optional() -> None:
    book = [
        number("BILL_AMT1", 9.0, optional=True),
        number("P*", 8.0, optional=True),
        number("nobody", 7, optional=True),
    ]
    found = highs(number("B*", 1.0), *book, number("nob*", 7, optional=True))
    assert found == {"BILL_AMT1": 1.0, "BILL_AMT2": 1.0, "PAY_AMT1": 8.0}


def test_a_column_that_has_a_sign_in_its_name_is_meant_itself() -> None:
    names = ("a*", "ab", "q[1]", "q1")
    assert highs(number("a*", 2.0), names=names) == {"a*": 2.0}
    assert highs(number("q[1]", 2.0), names=names) == {"q[1]": 2.0}
    assert highs(number("q[[]1]", 2.0), number("??", 1.0), names=("q[1]", "q1")) == {"q[1]": 2.0, "q1": 1.0}


def test_what_is_wrong_is_one_line() -> None:
    line = refusal(number("BIL_AMT*", 5.0))
    assert line.startswith('party "bank": columns names "BIL_AMT*" (did you mean "BILL_AMT')
    assert 'which matches none of its features: they are "AGE", ' in line
    line = refusal(number("BILL*", 1.0), number("*AMT1", 1.0))
    assert 'column "BILL_AMT1" matches both "BILL*" and "*AMT1": make one of them longer, or give' in line
    assert highs(number("BILL*", 1.0), number("*AMT1", 2.0), number("BILL_AMT1", 3.0))["BILL_AMT1"] == 3.0


def test_other_names_are_left_for_the_usual_refusal() -> None:
    stray = number("AEG", 1.0)
    assert resolve_specs([stray, number("P*", 2.0)], NAMES, "bank")[0] == stray


TEXT = st.text("ab*?[]!1", min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.sets(TEXT, min_size=1, max_size=5), st.sets(TEXT, min_size=1, max_size=4))
def test_any_names_by_the_rules_of_fnmatch(names: set[str], patterns: set[str]) -> None:
    specs = [number(pattern, 1.0 + place) for place, pattern in enumerate(sorted(patterns))]
    columns = tuple(sorted(names))
    wild = [spec for spec in specs if spec.name not in names and is_wildcard(spec.name)]
    expected: dict[str, float | None] = {}
    tie = False
    for name in columns:
        own = [spec for spec in specs if spec.name == name]
        found = own or sorted((s for s in wild if fnmatch.fnmatchcase(name, s.name)), key=lambda s: -len(s.name))
        tie |= len(found) > 1 and len(found[0].name) == len(found[1].name)
        if found:
            expected[name] = found[0].high
    if tie or any(not fnmatch.filter(columns, spec.name) for spec in wild):
        refusal(*specs, names=columns)
    else:
        assert {name: high for name, high in highs(*specs, names=columns).items() if name in names} == expected


# --- in files ---------------------------------------------------------------------------------------------

BANK = PartySpec("bank", "bank.csv", "id", "y", columns=(ColumnSpec("zip_*", kind="category"), number("zip_rate", 1.0)))
ROWS = "id,zip_home,zip_rate,other,y\n1,01,0.5,3,a\n2,02,0.25,4,b\n"


def test_categories_by_wildcard_keep_their_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "bank.csv").write_text(ROWS)
    read = load_training_data([BANK], tmp_path, EncodeRules(rare=1))
    assert read.shards[0].columns == ("other", "zip_home=01", "zip_home=02", "zip_home=other", "zip_rate")
    listed = replace(BANK, features=("zip_home", "zip_rate"))
    read = load_training_data([listed], tmp_path, EncodeRules(rare=1))
    assert "zip_home=01" in read.shards[0].columns


def test_nodes_of_which_one_has_a_wildcard(tmp_path: Path) -> None:
    for name in ("bank", "shop"):
        (tmp_path / f"{name}.csv").write_text(ROWS)
    nodes = [BANK, PartySpec("shop", "shop.csv", "id", "y", columns=(number("oth*", 5.0),))]
    read = load_nodes(nodes, tmp_path, EncodeRules(rare=1))
    assert read.shards[1].columns == ("other", "zip_home=01", "zip_home=02", "zip_home=other", "zip_rate")
    other = replace(nodes[1], columns=(number("zip_r*", 5.0),))
    with pytest.raises(InputError, match='"bank" and "shop" say different things about column "zip_rate"'):
        load_nodes([BANK, other], tmp_path, EncodeRules())


def test_what_a_node_says_comes_before_a_code_book() -> None:
    own, book = number("age", 90.0), number("age", 120.0, optional=True)
    for parties in (
        [("a", [own]), ("b", [book])],
        [("a", [book]), ("b", [own])],
        [
            ("a", [book]),
            (
                "b",
                [
                    own,
                ],
            ),
        ]
        * 2,
    ):
        assert common_specs(parties) == (own,)


def test_sizes_of_protected_parties(tmp_path: Path) -> None:
    (tmp_path / "bank.csv").write_text(ROWS)
    spec = PartySpec("bank", "bank.csv", "id", "y", columns=(ColumnSpec("zip_*", buckets=4), number("*", 9.0)))
    encoding = public_size(spec, [spec], tmp_path, EncodeRules()).encoding
    assert encoding is not None
    expected = ("other", *(f"zip_{one}=bucket {k}" for one in ("home", "rate") for k in range(4)))
    assert encoding.encoder.names == expected
    found = node_sizes([spec], tmp_path, EncodeRules(), protected=True)
    assert found is not None
    assert found.encoder.names == expected


def test_a_libsvm_file_has_no_columns_to_speak_of(tmp_path: Path) -> None:
    (tmp_path / "bank.svm").write_text("1 1:2 2:3\n-1 1:1\n")
    for column, refused in ((number("*", 1.0), True), (number("1", 1.0, optional=True), True),
                            (number("age", 1.0, optional=True), False)):  # fmt: skip
        spec = PartySpec("bank", "bank.svm", None, "label", columns=(column,))
        if refused:
            with pytest.raises(InputError, match="a LIBSVM file is used as it is: remove columns"):
                load_training_data([spec], tmp_path, EncodeRules())
        else:
            assert load_training_data([spec], tmp_path, EncodeRules()).shards[0].columns == ("1", "2")

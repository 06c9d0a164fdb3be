from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.data.load import PartySpec, load_prediction_data, load_training_data
from tacit.data.nodes import load_nodes
from tacit.errors import InputError

BANK = "id,age,default,income\n3,30,no,1.5\n1,40,yes,2.5\n2,50,no,3.5\n"
PHONE = "key,calls\n2,20\n9,90\n1,10\n3,30\n"
SPECS = (PartySpec("bank", "bank.csv", "id", "default"), PartySpec("phone", "phone.csv", "key"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bank.csv").write_text(BANK)
    (tmp_path / "phone.csv").write_text(PHONE)
    return tmp_path


def refusal(specs: Any, folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_training_data(specs, folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_shards_of_the_common_rows(folder: Path) -> None:
    data = load_training_data(SPECS, folder)
    assert [shard.name for shard in data.shards] == ["bank", "phone"]
    assert [shard.columns for shard in data.shards] == [("age", "income"), ("calls",)]
    np.testing.assert_array_equal(data.shards[0].features, [[40, 2.5], [50, 3.5], [30, 1.5]])
    np.testing.assert_array_equal(data.shards[1].features, [[10], [20], [30]])
    assert data.labels.tolist() == ["yes", "no", "no"]
    assert data.ids is not None
    assert data.ids.tolist() == [1, 2, 3]
    assert (data.counts.kept, data.counts.dropped) == (3, {"bank": 0, "phone": 1})


def test_named_features_come_in_the_order_named(folder: Path) -> None:
    specs = (PartySpec("bank", "bank.csv", "id", "default", ("income", "age")), SPECS[1])
    data = load_training_data(specs, folder)
    assert data.shards[0].columns == ("income", "age")
    np.testing.assert_array_equal(data.shards[0].features[0], [2.5, 40])


def test_sparse_and_dense_parties_without_ids(folder: Path) -> None:
    (folder / "web.svm").write_text("1 1:5\n-1 3:7\n1 2:1\n")
    specs = (PartySpec("bank", "bank.csv", features=("age",)), PartySpec("web", "web.svm", label="label"))
    data = load_training_data(specs, folder)
    assert sp.issparse(data.shards[1].features)
    assert data.shards[1].columns == ("1", "2", "3")
    assert data.labels.tolist() == [1, -1, 1]
    assert data.ids is None


def test_the_label_of_a_libsvm_party_without_label_is_no_feature(folder: Path) -> None:
    (folder / "web.svm").write_text("1 1:5\n-1 3:7\n1 2:1\n")
    specs = (PartySpec("bank", "bank.csv", label="default", features=("age",)), PartySpec("web", "web.svm"))
    assert load_training_data(specs, folder).shards[1].columns == ("1", "2", "3")


def test_a_copy_of_the_label_is_refused(folder: Path) -> None:
    (folder / "phone.csv").write_text("key,calls,default\n1,10,yes\n")
    message = refusal(SPECS, folder)
    assert 'party "phone" also has a column "default", the label of another party' in message
    named = (SPECS[0], PartySpec("phone", "phone.csv", "key", features=("calls",)))
    assert load_training_data(named, folder).counts.kept == 1


def test_refusals(folder: Path) -> None:
    bank, phone = SPECS
    assert 'party "phone" has no column "keys"' in refusal((bank, PartySpec("phone", "phone.csv", "keys")), folder)
    wrong = PartySpec("bank", "bank.csv", "id", "defaults")
    assert 'has no column "defaults" (did you mean "default"?)' in refusal((wrong, phone), folder)
    wrong = PartySpec("bank", "bank.csv", "id", "default", ("age", "height"))
    assert 'has no column "height"' in refusal((wrong, phone), folder)
    assert "there is no file" in refusal((bank, PartySpec("phone", "none.csv", "key")), folder)
    assert "0 parties name a label" in refusal((phone,), folder)
    (folder / "only.csv").write_text("key\n1\n")
    assert 'party "only" has no feature columns' in refusal((bank, PartySpec("only", "only.csv", "key")), folder)
    (folder / "blank.csv").write_text("id,age,default\n3,1,0\n2,1,\n1,1,1\n")
    blank = PartySpec("blank", "blank.csv", "id", "default")
    assert 'party "blank": 1 label blank, NaN or infinite, the first in row 2' in refusal((blank, phone), folder)
    text = PartySpec("bank", "bank.csv", "id", "age")
    assert 'column "default" is not numeric, row 1 holds "no"' in refusal((text, phone), folder)


def test_prediction_takes_the_columns_of_the_model(folder: Path) -> None:
    (folder / "new_bank.csv").write_text("extra,income,id,age\nz,9,5,8\nz,7,4,6\n")
    specs = (
        PartySpec("bank", id="id", features=("age", "income")),
        PartySpec("phone", id="key", features=("calls",)),
    )
    (folder / "new_phone.csv").write_text("key,calls\n4,1\n5,2\n")
    data = load_prediction_data(specs, [folder / "new_bank.csv", folder / "new_phone.csv"])
    np.testing.assert_array_equal(data.shards[0].features, [[6, 7], [8, 9]])
    assert data.shards[0].columns == ("age", "income")
    assert data.ids is not None
    assert data.ids.tolist() == [4, 5]
    with pytest.raises(InputError, match='party "bank" has no columns "age", "income"'):
        load_prediction_data((PartySpec("bank", id="key", features=("age", "income")),), [folder / "new_phone.csv"])
    with pytest.raises(InputError, match='1 data file for 2 parties: give one for each, in the order "bank"'):
        load_prediction_data(specs, [folder / "new_bank.csv"])


def test_prediction_from_libsvm_takes_absent_columns_as_zeros(folder: Path) -> None:
    (folder / "new.svm").write_text("0 1:5\n")
    data = load_prediction_data((PartySpec("web", features=("1", "2", "3")),), [folder / "new.svm"])
    np.testing.assert_array_equal(data.shards[0].features.toarray(), [[5, 0, 0]])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 12), st.randoms(use_true_random=False), st.booleans())
def test_order_in_the_files_does_not_matter(tmp_path: Path, n: int, random: Any, text: bool) -> None:
    names = ["id", "label", "a", "b", "c"]
    rows = [
        {"id": f"p{i}" if text else str(i), "label": str(i % 2), "a": f"{i}.5", "b": f"-{i}", "c": str(i * i)}
        for i in range(n)
    ]

    def written(rows: list[dict[str, str]], names: list[str]) -> Any:
        lines = [",".join(names), *(",".join(row[name] for name in names) for row in rows)]
        (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
        (tmp_path / "two.csv").write_text("id,d\n" + "".join(f"{row['id']},{row['a']}\n" for row in rows))
        return lambda features: load_training_data(
            (PartySpec("one", "one.csv", "id", "label", features), PartySpec("two", "two.csv", "id")),
            tmp_path,
        )

    wanted = ("a", "b", "c")
    plain = written(rows, names)(wanted)
    load = written(random.sample(rows, n), random.sample(names, len(names)))
    mixed, all_columns = load(wanted), load(None)
    for one, two in zip(plain.shards, mixed.shards, strict=True):
        np.testing.assert_array_equal(one.features, two.features)
    np.testing.assert_array_equal(plain.labels, mixed.labels)
    np.testing.assert_array_equal(plain.ids, mixed.ids)
    by_name = [all_columns.shards[0].columns.index(name) for name in wanted]
    np.testing.assert_array_equal(all_columns.shards[0].features[:, by_name], plain.shards[0].features)


def test_real_parties(real_data: Path) -> None:
    specs = (
        PartySpec("guest", "breast_hetero_guest.csv.gz", "id", "y"),
        PartySpec("host", "breast_hetero_host.csv.gz", "id"),
    )
    data = load_training_data(specs, real_data)
    assert [shard.features.shape for shard in data.shards] == [(569, 10), (569, 20)]
    assert int(data.labels.sum()) == 357


def test_real_libsvm_test_file_has_fewer_columns(real_data: Path) -> None:
    columns = tuple(str(number) for number in range(1, 124))
    data = load_prediction_data((PartySpec("web", features=columns),), [real_data / "a9a.t.svm.gz"])
    assert data.shards[0].features.shape == (16281, 123)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_blanks_around_labels_do_not_count(tmp_path: Path, kind: str) -> None:
    labels = ["paid", "paid ", " open", "open"]
    data = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": labels})
    if kind == "csv":
        (tmp_path / "d.csv").write_text("x,y\n" + "".join(f"{k + 1},{label}\n" for k, label in enumerate(labels)))
    else:
        pyarrow.parquet.write_table(data, tmp_path / "d.parquet")
    spec = PartySpec("p", f"d.{kind}", label="y")
    assert load_training_data([spec], tmp_path).labels.tolist() == ["paid", "paid", "open", "open"]
    assert load_nodes([spec], tmp_path).labels[0].tolist() == ["paid", "paid", "open", "open"]

"""Jobs on files with ids, categories and blanks: from training to prediction, in any order, and under privacy."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.linear_model import LogisticRegression

Rows = list[dict[str, Any]]
PUBLIC = """
[party.columns]
plan = { values = ["gold", "silver"] }
calls = { low = 0, high = 100 }
code = { buckets = 8 }
"""


@dataclass
class Customers:
    """A bank with the labels and a phone company, in files with text and blanks."""

    folder: Path
    head: str = ""
    bank_keys: str = 'id = "customer"\nlabel = "default"'
    phone_keys: str = 'id = "customer"\n[party.columns]\ncode = { kind = "category" }'
    bank: Rows = field(default_factory=list)
    phone: Rows = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(5)
        for number in range(160):
            age, city, plan = (
                rng.uniform(18, 90),
                rng.choice(["Basel", "Bern", "Chur", ""]),
                rng.choice(["gold", "basic"]),
            )
            calls = rng.expovariate(1 / 30)
            score = (age - 50) / 20 + 2 * (city == "Bern") - 2 * (plan == "gold") + (calls - 30) / 30 + rng.gauss(0, 1)
            bank = {"age": "" if number % 9 == 0 else age, "city": city, "vip": rng.choice(["true", "false"])}
            phone = {"plan": plan, "calls": "" if number % 7 == 0 else calls, "code": f"0{rng.randrange(4)}"}
            key = {"customer": f"c{number:03d}"}
            self.bank.append({**key, **bank, "default": "yes" if score > 0 else "no"})
            self.phone.append({**key, **phone})

    def write(self, rng: random.Random | None = None, *, joint: bool = False) -> Path:
        """Write the files, with rows and columns in an order of `rng`; `joint` keeps the rows of both matched."""
        orders = []
        for name, rows in (("bank", self.bank), ("phone", self.phone)):
            columns, order = list(rows[0]), list(range(len(rows)))
            if rng is not None:
                rng.shuffle(columns)
                order = orders[0] if joint and orders else rng.sample(order, len(order))
            orders.append(order)
            write_csv(self.folder / f"{name}.csv", [rows[i] for i in order], columns)
        text = f'[job]\nname = "credit"\ntol = 1e-10\n[model]\nalpha = 0.01\n{self.head}\n'
        for name, keys in (("bank", self.bank_keys), ("phone", self.phone_keys)):
            text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\n{keys}\n'
        path = self.folder / "credit.toml"
        path.write_text(text)
        return path

    @property
    def files(self) -> list[Path]:
        return [self.folder / "bank.csv", self.folder / "phone.csv"]


def write_csv(path: Path, rows: Rows, columns: list[str] | None = None) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Rows, kinds: dict[str, Any]) -> None:
    def cell(value: Any, kind: Any) -> Any:
        if value == "":
            return None
        return value == "true" if kind == pa.bool_() else value

    data = {name: pa.array([cell(row[name], kind) for row in rows], kind) for name, kind in kinds.items()}
    pyarrow.parquet.write_table(pa.table(data), path)


@pytest.fixture
def customers(tmp_path: Path) -> Customers:
    return Customers(tmp_path)


def model(run: Path, *names: str) -> dict[str, float]:
    """The coefficients by party and column, and the constant."""
    found = {"constant": json.loads((run / "model" / "joint.json").read_text())["constant"]}
    for name in names:
        part = json.loads((run / "model" / f"{name}.json").read_text())
        found |= {f"{name}.{column}": coef for column, coef in zip(part["columns"], part["coef"], strict=True)}
    return found


def scores(text: str) -> dict[str, float]:
    return {row["customer"]: float(row["score"]) for row in csv.DictReader(io.StringIO(text))}


def assert_close(left: dict[str, float], right: dict[str, float], atol: float = 1e-8) -> None:
    assert set(left) == set(right)
    np.testing.assert_allclose([left[key] for key in left], [right[key] for key in left], rtol=0, atol=atol)


def trained(customers: Customers, tacit: Any, out: str = "run", **order: Any) -> tuple[Path, Any]:
    run = customers.folder / out
    answer = tacit("train", customers.write(**order), "--out", run)
    assert (answer.code, answer.err) == (0, "")
    return run, answer


# --- the model ---------------------------------------------------------------------------------------


def test_the_model_is_that_of_the_encoded_table(customers: Customers, tacit: Any) -> None:
    run, answer = trained(customers, tacit)
    found = model(run, "bank", "phone")
    assert sorted(found)[:-1] == [
        "bank.age", "bank.age missing", "bank.city=Basel", "bank.city=Bern", "bank.city=Chur", "bank.city=missing",
        "bank.city=other", "bank.vip", "constant", "phone.calls", "phone.calls missing", "phone.code=00",
        "phone.code=01", "phone.code=02", "phone.code=03", "phone.code=other", "phone.plan=basic", "phone.plan=gold",
    ]  # fmt: skip
    columns = []
    for rows, name in ((customers.bank, "age"), (customers.phone, "calls")):
        blank = np.array([row[name] == "" for row in rows])
        cells = np.array([np.nan if row[name] == "" else row[name] for row in rows], dtype=float)
        columns += [np.where(blank, 0, (cells - np.nanmean(cells)) / np.nanstd(cells)), blank]
    vip = np.array([row["vip"] == "true" for row in customers.bank], dtype=float)
    columns.append((vip - vip.mean()) / vip.std())
    columns += [[row["city"] == city for row in customers.bank] for city in ("Basel", "Bern", "Chur", "")]
    columns += [[row["plan"] == plan for row in customers.phone] for plan in ("basic", "gold")]
    columns += [[row["code"] == f"0{k}" for row in customers.phone] for k in range(4)]
    X, y = np.array(columns, dtype=float).T, [row["default"] for row in customers.bank]
    pooled = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10, max_iter=1000).fit(X, y)
    predicted = scores(tacit("predict", run, *customers.files).out)
    np.testing.assert_allclose(list(predicted.values()), pooled.decision_function(X), atol=1e-4)
    blanks = sum(row["city"] == "" for row in customers.bank)
    for words in ('number, 18 blanks: "age"', f'3 categories, {blanks} blanks: "city"', '4 categories: "code"'):
        assert words in answer.out
    certificate = json.loads((run / "certificate.json").read_text())
    assert any("constants of the encoding of bank, phone" in text for text in certificate["does_not_cover"])


@pytest.mark.parametrize("seed", range(4))
def test_no_order_changes_the_model(customers: Customers, tacit: Any, seed: int) -> None:
    rng = random.Random(seed)
    by_id, _ = trained(customers, tacit, "one")
    before = scores(tacit("predict", by_id, *customers.files).out)
    again, _ = trained(customers, tacit, "two", rng=rng)
    assert_close(model(by_id, "bank", "phone"), model(again, "bank", "phone"))
    assert_close(before, scores(tacit("predict", again, *customers.files).out))
    assert_close(before, scores(tacit("predict", by_id, *customers.files).out))  # new rows in another order
    for rows in (customers.bank, customers.phone):
        for row in rows:
            row.pop("customer")
    customers.bank_keys = 'label = "default"'
    customers.phone_keys = customers.phone_keys.replace('id = "customer"\n', "")
    by_position, _ = trained(customers, tacit, "three", rng=rng, joint=True)
    assert_close(model(by_id, "bank", "phone"), model(by_position, "bank", "phone"))


def test_the_order_of_a_public_list_does_not_matter(customers: Customers, tacit: Any) -> None:
    customers.phone_keys = 'id = "customer"' + PUBLIC
    one, _ = trained(customers, tacit, "one")
    customers.phone_keys = customers.phone_keys.replace('"gold", "silver"', '"silver", "gold"')
    two, _ = trained(customers, tacit, "two")
    assert model(one, "phone") == model(two, "phone")
    assert "phone.plan=silver" in model(one, "phone")


def test_parquet_and_zipped_csv_give_the_same_model(customers: Customers, tacit: Any) -> None:
    import gzip

    one, _ = trained(customers, tacit, "one")
    text = pa.dictionary(pa.int8(), pa.string())
    kinds = {"vip": pa.bool_(), "default": pa.string(), "customer": pa.string(), "city": text, "age": pa.float64()}
    write_parquet(customers.folder / "bank.parquet", customers.bank, kinds)
    (customers.folder / "phone.csv.gz").write_bytes(gzip.compress((customers.folder / "phone.csv").read_bytes()))
    job = customers.write()
    job.write_text(job.read_text().replace("bank.csv", "bank.parquet").replace("phone.csv", "phone.csv.gz"))
    assert tacit("train", job, "--out", customers.folder / "two").code == 0
    assert_close(model(one, "bank", "phone"), model(customers.folder / "two", "bank", "phone"))
    both = [tacit("predict", one, customers.folder / f"bank{end}", customers.files[1]) for end in (".csv", ".parquet")]
    assert_close(scores(both[0].out), scores(both[1].out))


def test_without_a_penalty_nothing_breaks(customers: Customers, tacit: Any) -> None:
    customers.head = (
        'penalty = "none"\nloss = "squared"\n'  # columns that add up to 1, one of zeros and one that is alike
    )
    for row in customers.bank:
        row["default"], row["alike"], row["void"] = row["age"] or 50.0, "x", ""
    run = customers.folder / "run"
    job = customers.write()
    job.write_text(job.read_text().replace("alpha = 0.01\n", "").replace("tol = 1e-10", "tol = 1e-6"))
    answer = tacit("train", job, "--out", run)
    assert answer.code == 0, answer.err
    assert all(np.isfinite(list(model(run, "bank", "phone").values())))
    predicted = scores(tacit("predict", run, *customers.files).out)
    truth = [float(row["default"]) for row in customers.bank]
    assert np.corrcoef(list(predicted.values()), truth)[0, 1] > 0.99
    assert 'the same in all rows: "alike"' in answer.out


# --- new rows ----------------------------------------------------------------------------------------


def test_new_rows_with_other_columns_blanks_and_categories(customers: Customers, tacit: Any, refused: Any) -> None:
    run, _ = trained(customers, tacit)
    new = [{**row, "extra": 1} for row in customers.bank[:4]]
    new[1] |= {"city": "Lugano", "vip": ""}
    write_csv(customers.files[0], [{key: row[key] for key in row if key != "default"} for row in new])
    answer = tacit("predict", run, *customers.files)
    assert answer.code == 0
    share = sum(row["vip"] == "true" for row in customers.bank) / len(customers.bank)
    unknown = '1 row holds none of the model\'s 3 categories (such as "Lugano"): counted as other'
    assert answer.err.splitlines() == [
        'tacit: bank: column "extra" not used by the model, so not looked at',
        f'tacit: bank: column "city": {unknown}',
        f'tacit: bank: column "vip" has 1 blank, for which the model has no column: filled with {share:.6g}',
        "tacit: rows without a match at another party were left out: phone 156 rows",
    ]
    write_csv(customers.files[0], [{**row, "age": "old"} for row in new])
    assert 'column "age" holds "old" in row 1, but the model was trained on numbers' in refused(
        "predict", run, *customers.files
    )
    write_csv(customers.files[0], [{"customer": row["customer"], "city": "Bern"} for row in new])
    assert 'party "bank" has no columns "age", "vip"' in refused("predict", run, *customers.files)


def test_categories_keep_their_zeros_where_new_rows_look_like_numbers(customers: Customers, tacit: Any) -> None:
    customers.phone_keys = 'id = "customer"'
    for number, row in enumerate(customers.phone):
        row["code"] = "x" if number % 8 == 0 else row["code"]  # so that the file itself says that it is text
    run, _ = trained(customers, tacit)
    before = scores(tacit("predict", run, *customers.files).out)
    write_csv(customers.files[1], [row for row in customers.phone if row["code"] != "x"])
    answer = tacit("predict", run, *customers.files)
    assert "none of the model's" not in answer.err
    after = scores(answer.out)
    assert_close({key: before[key] for key in after}, after)


def test_a_column_that_nobody_trained_on_is_not_said_again(customers: Customers, tacit: Any) -> None:
    customers.bank_keys += '\nfeatures = ["city"]'
    run, _ = trained(customers, tacit)
    assert tacit("predict", run, *customers.files).err == ""


def test_a_schema_that_does_not_fit_is_refused(customers: Customers, tacit: Any, refused: Any) -> None:
    run, _ = trained(customers, tacit)
    path = run / "model" / "bank.json"
    record = json.loads(path.read_text())
    for spoil in ({"schema": 3}, {"schema": {**record["schema"], "columns": record["schema"]["columns"][1:]}}):
        path.write_text(json.dumps(record | spoil))
        assert "bank.json: its schema" in refused("predict", run, *customers.files)
    path.write_text(json.dumps(record | {"schema": None}))  # as if its columns had been numbers
    assert 'has no columns "age missing"' in refused("predict", run, *customers.files)


# --- labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "positive"), [("yes no", '"no"'), ("1 0", "0"), ("1 0", '"0"'), ("true false", "false")]
)
def test_which_label_is_positive(customers: Customers, tacit: Any, labels: str, positive: str) -> None:
    names = dict(zip(("yes", "no"), labels.split(), strict=True))
    for row in customers.bank:
        row["default"] = names[row["default"]]
    one, _ = trained(customers, tacit, "one")
    customers.bank_keys += f"\npositive = {positive}"
    two, answer = trained(customers, tacit, "two")
    shown = {"true": "True", "false": "False"}
    assert f"{shown.get(names['no'], names['no'])} is positive" in answer.out
    left, right = (
        scores(tacit("predict", one, *customers.files).out),
        scores(tacit("predict", two, *customers.files).out),
    )
    assert_close(left, {key: -value for key, value in right.items()}, atol=1e-6)
    classes = [json.loads((run / "model" / "joint.json").read_text())["classes"] for run in (one, two)]
    assert classes[0] == classes[1][::-1]


def test_a_positive_label_that_is_none(customers: Customers, refused: Any) -> None:
    customers.bank_keys += '\npositive = "maybe"'
    line = refused("train", customers.write(), "--out", customers.folder / "run")
    assert 'party "bank": positive = "maybe" is none of the labels: choose one of "no", "yes"' in line
    customers.head = 'loss = "squared"'
    for row in customers.bank:
        row["default"] = 1.5
    assert "is for two classes, not for loss" in refused("train", customers.write(), "--out", customers.folder / "run")


# --- resuming ----------------------------------------------------------------------------------------


def test_a_run_goes_on_only_with_the_same_encoding(customers: Customers, tacit: Any, refused: Any) -> None:
    run, _ = trained(customers, tacit)
    assert "nothing to do" in tacit("train", customers.write(), "--out", run, "--resume").out
    customers.head = "[encode]\nrare = 2"
    assert "encode.rare is 2, it began with 10" in refused("train", customers.write(), "--out", run, "--resume")
    customers.head, kept = "", customers.phone_keys
    customers.phone_keys = kept.replace("category", "number")
    assert "party 2.columns is" in refused("train", customers.write(), "--out", run, "--resume")
    customers.phone_keys, customers.bank_keys = kept, customers.bank_keys + '\npositive = "no"'
    assert "party 1.positive is" in refused("train", customers.write(), "--out", run, "--resume")


def test_a_stopped_run_goes_on_to_the_same_model(
    customers: Customers, tacit: Any, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.run.coordinator import Coordinator

    whole, _ = trained(customers, tacit, "whole")
    job, run = customers.folder / "credit.toml", customers.folder / "run"
    combine = Coordinator.combine

    def stop(self: Coordinator, round_: int, answers: Any) -> Any:
        if round_ == 3:
            raise KeyboardInterrupt
        return combine(self, round_, answers)

    monkeypatch.setattr(Coordinator, "combine", stop)
    assert tacit("train", job, "--out", run, "--quiet", "--checkpoint-every", 0).code == 130
    monkeypatch.undo()
    before = customers.phone[3]["calls"]
    customers.phone[3]["calls"] = 31.5
    line = refused("train", customers.write(), "--out", run, "--resume")
    assert 'the data of party "phone" are not those it began with' in line
    customers.phone[3]["calls"] = before
    answer = tacit("train", customers.write(random.Random(2)), "--out", run, "--resume")
    assert (answer.code, "continuing after round 2" in answer.out) == (0, True)
    assert_close(model(whole, "bank", "phone"), model(run, "bank", "phone"), atol=1e-12)


# --- privacy -----------------------------------------------------------------------------------------


def private(customers: Customers, privacy: str = "epsilon = 3\nrow_norm = 2", phone: str = PUBLIC) -> None:
    customers.head, customers.phone_keys = f"[privacy]\n{privacy}", 'id = "customer"' + phone


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('plan = { values = ["gold", "silver"] }', "", 'column "plan" holds categories'),
        ("buckets = 8", 'kind = "category"', "give it values = [...] or buckets = 32"),
        ("calls = { low = 0, high = 100 }", "", 'column "calls" has blanks'),
    ],
)
def test_constants_from_protected_rows_are_refused(
    customers: Customers, refused: Any, old: str, new: str, words: str
) -> None:
    private(customers, phone=PUBLIC.replace(old, new))
    line = refused("train", customers.write(), "--out", customers.folder / "run")
    assert words in line
    assert 'party "phone"' in line
    assert not (customers.folder / "run" / "plan.json").exists()


def test_a_scale_from_protected_rows_is_refused(customers: Customers, tacit: Any, refused: Any) -> None:
    private(customers, phone=PUBLIC.replace("calls = { low = 0, high = 100 }", "calls = { missing = true }"))
    assert tacit("train", customers.write(), "--out", customers.folder / "raw").code == 0
    customers.head += '\n[encode]\nscale = "standard"'
    for verb in (("plan",), ("train", "--out", customers.folder / "run")):
        line = refused(verb[0], customers.write(), *verb[1:])
        assert 'column "calls" would be scaled by its rows (scale = "standard")' in line
    private(customers)
    customers.head += '\n[encode]\nscale = "standard"'
    assert tacit("train", customers.write(), "--out", customers.folder / "run").code == 0


def test_who_is_protected_follows_what_is_asked(customers: Customers, tacit: Any, refused: Any) -> None:
    private(customers, "epsilon = 3\nrow_norm = 2")
    assert tacit("train", customers.write(), "--out", customers.folder / "others").code == 0
    for more in ('protect = "everyone"', 'mechanism = "shares"'):
        private(customers, f"epsilon = 8\nrow_norm = 2\n{more}")
        line = refused("train", customers.write(), "--out", customers.folder / "run")
        assert 'party "bank": column "city" holds categories' in line
        assert '; column "age" has blanks' in line
    private(customers, 'epsilon = "none"\nlabel_epsilon = 2', "")
    assert tacit("train", customers.write(), "--out", customers.folder / "labels").code == 0


def test_a_protected_row_changes_no_constant_and_no_other_row(customers: Customers) -> None:
    from tacit.job import read_job
    from tacit.run.prepare import prepare

    private(customers)
    before = prepare(read_job(customers.write()))
    customers.phone[5] |= {"plan": "platinum", "calls": 1e9, "code": "never seen"}
    customers.phone[6] |= {"plan": "", "calls": "", "code": ""}
    after = prepare(read_job(customers.write()))
    assert before.encodings["phone"] == after.encodings["phone"]
    assert before.encodings["bank"] == after.encodings["bank"]
    keep = np.delete(np.arange(160), [5, 6])
    np.testing.assert_array_equal(before.shards[1].features[keep], after.shards[1].features[keep])
    np.testing.assert_array_equal(before.shards[0].features, after.shards[0].features)
    assert not np.array_equal(before.shards[1].features[5:7], after.shards[1].features[5:7])
    assert before.plan.record() == after.plan.record()


def test_what_is_said_and_saved_of_protected_rows(customers: Customers, tacit: Any) -> None:
    private(customers)
    run, answer = trained(customers, tacit)
    for words in (
        'number from 0 to 100, blanks become 50: "calls"',
        'category in 8 buckets: "code"',
        'category, 2 categories, blanks are other: "plan"',
        'number, 18 blanks: "age"',
    ):
        assert words in answer.out
    schema = json.loads((run / "model" / "phone.json").read_text())["schema"]
    assert {column["source"] for column in schema["columns"]} == {"job"}
    certificate = json.loads((run / "certificate.json").read_text())
    assert any("of the encoding of phone" in text and "are public" in text for text in certificate["assumptions"])
    uncovered = [text for text in certificate["does_not_cover"] if "constants of the encoding" in text]
    assert ["of bank (means" in text for text in uncovered] == [True]
    assert tacit("verify", run).code == 0
    assert tacit("predict", run, *customers.files).code == 0
    plan = json.loads(tacit("plan", customers.folder / "credit.toml", "--json").out)
    assert plan["sizes"]["columns"] == {"bank": 8, "phone": 12}
    assert {name: own["protected"] for name, own in plan["sizes"]["encoding"].items()} == {"bank": False, "phone": True}
    assert "blanks" not in json.dumps(plan["sizes"]["encoding"]["phone"])
    words = " ".join(tacit("plan", customers.folder / "credit.toml").out.split())
    assert "the constants of the encoding of phone (columns and their kinds, ranges, categories, buckets)" in words
    assert "nothing else was used of phone; read in full, as the rows are not protected: bank" in words


def test_many_buckets_are_sparse_and_private(customers: Customers, tacit: Any) -> None:
    private(customers, phone=PUBLIC.replace("buckets = 8", "buckets = 200"))
    run, _ = trained(customers, tacit)
    assert len(model(run, "phone")) == 205
    assert tacit("predict", run, *customers.files).code == 0


def test_a_plan_refuses_text_that_a_parquet_file_declares(customers: Customers, refused: Any) -> None:
    private(customers, phone="")
    job = customers.write()
    kinds = {"customer": pa.string(), "plan": pa.string(), "calls": pa.float64(), "code": pa.string()}
    write_parquet(customers.folder / "phone.parquet", customers.phone, kinds)
    job.write_text(job.read_text().replace("phone.csv", "phone.parquet"))
    assert 'columns "code", "plan" hold categories' in refused("plan", job)

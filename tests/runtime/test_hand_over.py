"""Models handed over: the plain scorer, ONNX and skops give our scores, for every kind of model and odd rows."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.cli.main import main
from tacit.errors import InputError
from tacit.run import hand_over, plain_scorer
from tacit.run.predict import load_model, load_rows, predict

ROWS = 150
CITIES = ("Bern", "Basel", "Zürich")
DATES = '[party.columns]\nsince = { kind = "date" }\n'
RANGES = """[party.columns]
age = { low = 18, high = 90 }
since = { kind = "date", low = 2000-01-01, high = 2030-01-01 }
city = { values = ["Bern", "Basel", "Zürich"] }
"""
SHOP_RANGES = "[party.columns]\nspend = { low = 0, high = 5000 }\nvisits = { low = 0, high = 20 }\n"
PRIVATE = "[privacy]\nepsilon = 2\ndelta = 1e-5\nnoise_seed = 3\n"
KINDS: dict[str, dict[str, str]] = {
    "linear": {},
    "curves": {"model": 'terms = "spline"\n'},
    "three classes": {"label": "grade", "model": "classes = 3\n"},
    "three classes, curves": {"label": "grade", "model": 'classes = 3\nterms = "spline"\n'},
    "numbers": {"label": "amount", "model": 'loss = "squared"\n'},
    "counts with exposure": {"label": "claims", "model": 'loss = "poisson"\n', "bank": f'exposure = "years"\n{DATES}'},
    "buckets": {"bank": f'{DATES}city = {{ kind = "category", buckets = 8 }}\n'},
    "private": {"sections": PRIVATE, "bank": RANGES, "shop": SHOP_RANGES},
    "private curves": {"sections": PRIVATE, "model": 'terms = "spline"\n', "bank": RANGES, "shop": SHOP_RANGES},
    "trees": {"model": 'kind = "trees"\n'},
    "trees, three classes": {"label": "grade", "model": 'kind = "trees"\nloss = "softmax"\nclasses = 3\n'},
    "trees of counts": {"label": "claims", "model": 'kind = "trees"\nloss = "poisson"\n'},
    "private beside trees": {"sections": PRIVATE, "model": 'kind = "trees"\n', "shop": SHOP_RANGES},
    "rows split": {"split": "samples"},
    "rows split, three classes": {"split": "samples", "label": "grade", "model": "classes = 3\n"},
    "rows split, private": {"split": "samples", "sections": PRIVATE},
}
BANK = ("id", "age", "city", "since", "years")
SHOP = ("id", "spend", "visits")


def people(seed: int, rows: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    age, spend = rng.uniform(18, 90, rows).round(1), rng.lognormal(5, 1, rows).round(2)
    visits, city = rng.integers(0, 15, rows), rng.integers(0, 3, rows)
    since = [f"20{10 + k % 14}-0{1 + k % 9}-{10 + k % 19}" for k in rng.integers(0, 1000, rows)]
    pull = (age - 50) / 15 + city - np.log(spend) / 2 + np.sin(visits) + rng.normal(size=rows)
    table = {"id": [f"c{k:04d}" for k in range(rows)], "age": age.tolist(), "city": [CITIES[k] for k in city]}
    table |= {"since": since, "years": rng.uniform(0.5, 2, rows).round(2).tolist(), "spend": spend.tolist()}
    table |= {"visits": visits.tolist(), "y": np.where(pull > -1, "yes", "no").tolist()}
    table |= {"grade": np.digitize(pull, [-2, 0]).tolist(), "amount": pull.round(3).tolist()}
    table |= {"claims": rng.poisson(np.exp(pull / 3)).tolist()}
    for column, at in (("age", 3), ("city", 5), ("spend", 7), ("visits", 11)):
        table[column][at] = ""
    return table


def write(path: Path, table: dict[str, list[Any]], columns: tuple[str, ...]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(table[column] for column in columns), strict=True))


def odd_rows() -> dict[str, list[Any]]:
    """New rows: ordinary ones, blanks, categories that training did not see, values far outside of the ranges."""
    table = people(9, 40)
    table["age"][:8] = ["", 0, 17.999, 90.001, 1e6, -1e6, 1e-300, 50]
    table["city"][:8] = ["", "Genf", "other", "missing", " Bern ", "bern", "Zu\u0308rich", "Zürich"]
    table["spend"][:8] = [0, "", 1e9, -5, 5000, 5000.01, 1e-9, 100]
    table["visits"][:8] = ["", 100, -1, 20, 21, 0.5, 3, 1e12]
    table["since"][:6] = ["1969-12-31", "2099-01-01", "2030-01-01", "2000-01-01", "1999-12-31", ""]
    return table


def job_text(parts: dict[str, str]) -> str:
    label = parts.get("label", "y")
    lines = [f'[job]\nname = "credit"\nrounds = 60\nseed = 1\nsplit = "{parts.get("split", "features")}"']
    lines += ["[model]\nalpha = 0.01\n" + parts.get("model", "") if "trees" not in parts.get("model", "") else ""]
    lines[-1] = lines[-1] or "[model]\n" + parts["model"]
    lines += [parts.get("sections", "")]
    if parts.get("split") == "samples":
        lines += ['[graph]\nkind = "ring"\n']
        for k in range(3):
            private = "privacy" in parts.get("sections", "")
            own = (
                "[party.columns]\nage = { low = 18, high = 90 }\nyears = { low = 0, high = 3 }\n" if private else DATES
            )
            features = '["age", "years"]' if private else '["age", "city", "since", "years"]'
            lines += [f'[[party]]\nname = "n{k}"\ndata = "n{k}.csv"\nlabel = "{label}"\nfeatures = {features}\n{own}']
        return "\n".join(lines)
    used = '["age", "city", "since"]'
    lines += [f'[[party]]\nname = "bank"\ndata = "bank.csv"\nid = "id"\nlabel = "{label}"\nfeatures = {used}']
    lines += [
        parts.get("bank", "" if "trees" in parts.get("model", "") else DATES),
        '[[party]]\nname = "shop"\ndata = "shop.csv"\nid = "id"',
        parts.get("shop", ""),
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("handed")
    table, labels = people(1, ROWS), ("y", "grade", "amount", "claims")
    write(place / "bank.csv", table, (*BANK, *labels))
    write(place / "shop.csv", table, SHOP)
    for k in range(3):
        write(place / f"n{k}.csv", {name: cells[k::3] for name, cells in table.items()}, (*BANK, *labels))
    odd = odd_rows()
    write(place / "new_bank.csv", odd, BANK)
    write(place / "new_shop.csv", odd, SHOP)
    write(place / "new.csv", odd, (*BANK, *SHOP[1:]))
    return place


@pytest.fixture(scope="module", params=list(KINDS))
def run(request: pytest.FixtureRequest, folder: Path) -> Path:
    name = request.param.replace(" ", "-").replace(",", "")
    (folder / f"{name}.toml").write_text(job_text(KINDS[request.param]))
    assert main(["train", str(folder / f"{name}.toml"), "--out", str(folder / name), "--quiet"]) == 0
    return folder / name


def ours(run: Path) -> Any:
    model = load_model(run)
    files = ["new_bank.csv", "new_shop.csv"] if len(model.parties) > 1 else ["new_bank.csv"]
    return model, predict(model, load_rows(model, [run.parent / file for file in files]))


def new_rows(run: Path) -> list[dict[str, Any]]:
    with (run.parent / "new.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_plain_scorer_needs_python_alone_and_gives_our_scores(run: Path, tmp_path: Path) -> None:
    model, expected = ours(run)
    hand_over.export(model, tmp_path / "scorer.py", "python")
    command = [sys.executable, "-I", "-S", str(tmp_path / "scorer.py")]  # no packages, no paths
    done = subprocess.run(command, input=(run.parent / "new.csv").read_bytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    told = list(csv.DictReader(io.StringIO(done.stdout.decode())))
    columns = expected.columns
    for name in (name for name in columns if name.startswith(("score", "probability"))):
        np.testing.assert_allclose([float(row[name]) for row in told], columns[name], rtol=1e-6, atol=1e-6)
    said = [row["prediction"] for row in told]
    if model.task == "classification":
        assert said == [str(one) for one in expected.prediction]
    else:
        np.testing.assert_allclose(np.array(said, float), expected.prediction, rtol=1e-6)


def test_skops_gives_our_scores_and_needs_no_pickle(run: Path, tmp_path: Path) -> None:
    io_ = pytest.importorskip("skops.io", reason="needs tacit[export]")
    model, expected = ours(run)
    hand_over.export(model, tmp_path / "model.skops", "skops")
    known = ["tacit.run.hand_over.HandedOverModel"]
    assert io_.get_untrusted_types(file=tmp_path / "model.skops") == known
    loaded = io_.load(tmp_path / "model.skops", trusted=known)
    np.testing.assert_allclose(loaded.decision_function(new_rows(run)), expected.score, rtol=1e-6, atol=1e-6)
    if expected.probability is not None:
        found = loaded.predict_proba(new_rows(run))
        wanted = expected.probability
        np.testing.assert_allclose(found if wanted.ndim == 2 else found[:, 1], wanted, rtol=1e-6, atol=1e-6)


def onnx_scores(content: bytes, values: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    runtime = pytest.importorskip("onnxruntime", reason="needs tacit[export]")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    columns = {column["name"]: column for part in values["parts"] for column in part["columns"]}
    feed = {}
    for given in session.get_inputs():
        if given.type == "tensor(string)":
            feed[given.name] = np.array([[plain_scorer.text_of(row[given.name])] for row in rows], dtype=object)
        else:
            column = columns.get(given.name, {"name": given.name})
            feed[given.name] = np.array([[plain_scorer.number_of(row[given.name], column)] for row in rows])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feed), strict=True))


def test_onnx_gives_our_scores(run: Path) -> None:
    pytest.importorskip("onnx", reason="needs tacit[export]")
    model, expected = ours(run)
    values = hand_over.plain_model(model)
    if any(column["kind"] == "buckets" for part in values["parts"] for column in part["columns"]):
        with pytest.raises(InputError, match="hashed into buckets, which ONNX cannot do: use --to python"):
            hand_over.onnx_bytes(values)
        return
    found = onnx_scores(hand_over.onnx_bytes(values), values, new_rows(run))
    wide = expected.score.reshape(len(expected), -1)
    np.testing.assert_allclose(found["score"], wide, rtol=1e-6, atol=1e-6)
    if "probability" in found:
        assert expected.probability is not None
        np.testing.assert_allclose(found["probability"], expected.probability.reshape(wide.shape), rtol=1e-6, atol=1e-6)
    if model.task == "counts":
        np.testing.assert_allclose(found["prediction"][:, 0], expected.prediction, rtol=1e-6)


def test_the_parts_of_the_parties_add_up(run: Path) -> None:
    model, expected = ours(run)
    if len(model.parties) < 2:
        return
    rows = new_rows(run)
    total = np.zeros(expected.score.shape) + np.asarray(model.constant)
    for part in model.parties:
        values = hand_over.plain_model(model, [part.name])
        assert not values["whole"]
        total = total + np.array([plain_scorer.score(row, values) for row in rows])
        assert set(plain_scorer.predict(rows[20], values)) == {"score"}
    np.testing.assert_allclose(total, expected.score, rtol=1e-6, atol=1e-6)


# --- the verb, the method and the card -------------------------------------------------------------------


@pytest.fixture(scope="module")
def simple(folder: Path) -> Path:
    (folder / "simple.toml").write_text(job_text(KINDS["curves"]).replace("seed = 1", "seed = 1\nholdout = 0.2"))
    assert main(["train", str(folder / "simple.toml"), "--out", str(folder / "simple"), "--quiet"]) == 0
    return folder / "simple"


def test_the_verb_writes_every_form(simple: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, name in (("python", "s.py"), ("onnx", "s.onnx"), ("skops", "s.skops"), ("card", "s.md")):
        assert main(["export", str(simple), "--to", form, "--out", str(tmp_path / name)]) == 0
        assert f"written    {tmp_path / name}" in capsys.readouterr().out
        assert (tmp_path / name).stat().st_size > 500
    assert main(["export", str(simple), "--to", "python", "--party", "shop", "--out", str(tmp_path / "shop.py")]) == 0
    assert "'party': 'shop'" in (tmp_path / "shop.py").read_text()
    assert "'party': 'bank'" not in (tmp_path / "shop.py").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "python", "--party", "bnk"], 'the run has no part of "bnk": choose one of "bank"'),
        (["--to", "card", "--party", "bank"], "--party is not used here: a card is about the whole model"),
        (["--to", "python", "--out", "no/such/folder/x.py"], "give --out a file in a directory that is there"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    words: list[str], said: str, simple: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(simple), *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_run_and_an_estimator_export_themselves(simple: Path, tmp_path: Path) -> None:
    loaded = tacit.load(simple)
    assert loaded.export(tmp_path / "a.py") == tmp_path / "a.py"
    with pytest.raises(InputError, match=r"use a name that ends in \.py, \.onnx, \.skops"):
        loaded.export(tmp_path / "a.txt")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    model = tacit.VerticalClassifier(parties=2).fit(x, x @ [1, -1, 2] > 0)
    model.export(tmp_path / "b.py")
    space: dict[str, Any] = {"__name__": "scorer"}
    exec((tmp_path / "b.py").read_text(), space)
    names = [column["name"] for part in space["MODEL"]["parts"] for column in part["columns"]]
    found = [space["score"](dict(zip(names, row, strict=True))) for row in x.tolist()]
    np.testing.assert_allclose(found, model.decision_function(x), rtol=1e-6, atol=1e-9)


def test_the_card_says_what_the_model_is_and_no_value(simple: Path, folder: Path, tmp_path: Path) -> None:
    assert main(["export", str(simple), "--to", "card", "--out", str(tmp_path / "card.md")]) == 0
    text = (tmp_path / "card.md").read_text()
    for section in ("# Model card: credit", "## Data", "## How good it is", "## Privacy", "## Limits", "log loss"):
        assert section in text
    assert "It is not private" in text
    private = folder / "private-curves"
    if not private.exists():
        (folder / "private-curves.toml").write_text(job_text(KINDS["private curves"]))
        assert main(["train", str(folder / "private-curves.toml"), "--out", str(private), "--quiet"]) == 0
    assert main(["export", str(private), "--to", "card", "--out", str(tmp_path / "private.md")]) == 0
    text = (tmp_path / "private.md").read_text()
    assert "This run is differentially private: epsilon = 2" in text
    assert "Not on this card: figures of a private run" in text
    assert "log loss |" not in text


def test_the_card_of_trees_speaks_of_trees_alone(folder: Path, tmp_path: Path) -> None:
    job = folder / "card-of-trees.toml"
    job.write_text(job_text(KINDS["trees"]))
    assert main(["train", str(job), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert main(["export", str(tmp_path / "run"), "--to", "card", "--out", str(tmp_path / "card.md")]) == 0
    text = (tmp_path / "card.md").read_text()
    assert "boosted trees of at most" in text
    assert "curves" not in text
    assert "penalty" not in text

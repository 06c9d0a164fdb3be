"""`tacit plan`: its numbers are those of the run that follows, and it reads nothing but public sizes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.job import read_job
from tacit.run.prepare import plan_job, prepare
from tacit.run.star import Run
from tests.cli.test_private_jobs import FORMS
from tests.cli.wards import NAMES, Nodes

SIZES = ("--rows", "120", "--columns", "bank=3,shop=4")


def planned(tacit: Any, job: Path, *options: str) -> Any:
    answer = tacit("plan", job, "--json", *options)
    assert (answer.code, answer.err) == (0, "")
    return json.loads(answer.out)


def trained(job: Path) -> Any:
    begun = prepare(read_job(job))
    return Run(begun.plan, begun.shards, begun.labels.values).go()


# --- against the run that follows --------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FORMS if name != "labels alone"])
def test_rounds_traffic_and_claims_are_those_of_the_run(files: Any, tacit: Any, name: str) -> None:
    files.privacy = FORMS[name]
    job = files.write()
    plan, result = planned(tacit, job), trained(job)
    assert plan["rounds"] == {"most": len(result.trace), "fixed": True}
    exact = plan["mechanism"] == "gram"
    assert (plan["traffic"]["of"], plan["traffic"]["exact"]) == ("run", exact)
    for key in ("bytes_down", "bytes_up"):
        assert plan["traffic"][key] == pytest.approx(result.traffic[key], rel=0 if exact else 0.05, abs=0)
    certificate = json.loads(result.certificate.to_json())
    assert plan["epsilon"] == certificate["epsilon"]
    assert [claim["epsilon"] for claim in plan["claims"]] == [claim["epsilon"] for claim in certificate["claims"]]
    assert [claim["adversary"] for claim in plan["claims"]] == [claim["adversary"] for claim in certificate["claims"]]
    assert plan["does_not_cover"] == certificate["does_not_cover"]
    assert plan["outlook"][0] in result.outlook


def test_traffic_with_three_parties_is_that_of_the_run(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    job = files.write()
    job.write_text(job.read_text() + '[[party]]\nname = "post"\ndata = "shop.csv"\nid = "customer"\nfeatures=["s1"]\n')
    plan, result = planned(tacit, job), trained(job)
    parties = plan["traffic"]["parties"]
    assert set(parties) == {"shop", "post"}
    assert parties["shop"]["bytes_up"] - parties["post"]["bytes_up"] == 8 * 2 * 3
    assert sum(party["bytes_down"] for party in parties.values()) == result.traffic["bytes_down"]
    assert sum(party["bytes_up"] for party in parties.values()) == result.traffic["bytes_up"]


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers", "published", "sgd"])
def test_traffic_of_a_round_without_noise_is_about_right(files: Any, tacit: Any, method: str) -> None:
    files.__init__(files.folder, rows=2000)
    files.model, files.job = f'loss = "logistic"\nmethod = "{method}"\nalpha = 1e-3', "rounds = 15\ntol = 1e-9"
    job = files.write()
    plan, result = planned(tacit, job), trained(job)
    assert (plan["traffic"]["of"], plan["traffic"]["exact"]) == ("round", False)
    for key in ("bytes_down", "bytes_up"):
        assert plan["traffic"][key] == pytest.approx(result.traffic[key] / len(result.trace), rel=0.15)


def test_masked_answers_are_counted_as_long_as_they_are(files: Any, tacit: Any) -> None:
    files.__init__(files.folder, rows=2000)
    files.job = "secure_aggregation = true"
    job = files.write()
    job.write_text(job.read_text() + '[[party]]\nname = "post"\ndata = "shop.csv"\nid = "customer"\nfeatures=["s1"]\n')
    plan, result = planned(tacit, job), trained(job)
    assert plan["secure_aggregation"]
    assert plan["traffic"]["bytes_up"] == pytest.approx(result.traffic["bytes_up"] / len(result.trace), rel=0.1)
    assert "under masks" in plan["in_words"]


def test_noise_is_that_of_the_planned_releases(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3\nlabel_epsilon = 2"
    job = files.write()
    plan, result = planned(tacit, job), trained(job)
    settings = result.plan.private.settings
    noise = {(item["party"], item["release"]): item for item in plan["noise"]}
    gradient = noise["shop", "gradient"]
    assert gradient["deviation"] == settings.fits["shop"].gradient_sd
    assert gradient["times"] == settings.fits["shop"].steps
    assert noise["bank", "labels"]["epsilon"] == 2.0
    assert {release for _, release in noise} == {"mean", "trace", "gram", "gradient", "check", "labels"}


def test_less_epsilon_is_more_noise_and_a_warning(files: Any, tacit: Any) -> None:
    deviations = []
    for epsilon in (4, 1, 0.1):
        files.privacy = f"epsilon = {epsilon}"
        plan = planned(tacit, files.write())
        deviations.append(next(item["deviation"] for item in plan["noise"] if item["release"] == "gradient"))
    assert deviations == sorted(deviations)
    assert "this is large noise: raise epsilon" in plan["outlook"][0]


# --- words -------------------------------------------------------------------------------------------


def test_words_say_the_same_as_print_in_python(files: Any, tacit: Any) -> None:
    files.privacy = 'epsilon = 4\nprotect = "everyone"'
    job = files.write()
    answer = tacit("plan", job)
    assert answer.code == 0
    plan = plan_job(read_job(job), 120, (3, 4), 8 * 120 * 7)
    for line in str(plan).splitlines():
        assert line in answer.out
    assert answer.out.index("privacy  ") < answer.out.index("worth it?") < answer.out.index("sizes  ")
    for words in (
        "bank 3 columns and the labels, shop 4 columns",
        "at most 120 rows",
        "row counts and column names are treated as public",
        "each protected party fits once",
        "it fits with noise, and sends one randomized symbol",
        "rounds      1, fixed beforehand",
        "shop: gradient, 12 times, standard deviation ",
        "bank: symbols, one of 8 symbols for each row, randomized with epsilon 2.8",
        "differentially private, over the whole run: epsilon = 4 at delta = 1e-05",
        "each record of shop: epsilon 4 at delta 1e-05 (replace-one), against anyone who sees",
        "not covered - ",
        "worth it?   - noise level",
        "roughly",
    ):
        assert words in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 104


def test_a_job_without_privacy_says_that_nothing_is_claimed(files: Any, tacit: Any) -> None:
    answer = tacit("plan", files.write())
    assert "NOT differentially private: nothing is protected, epsilon is infinite" in answer.out
    assert "until the stopping rule holds, at most 200" in answer.out
    assert "in each round" in answer.out
    assert "proven" not in answer.out
    plan = planned(tacit, files.folder / "credit.toml")
    assert (plan["private"], plan["epsilon"], plan["claims"], plan["method"]) == (False, "infinity", [], "memory")


def test_labels_alone(files: Any, tacit: Any) -> None:
    files.privacy = FORMS["labels alone"]
    plan = planned(tacit, files.write())
    assert (plan["mechanism"], plan["rounds"]) == ("labels", {"most": 200, "fixed": False})
    assert [(claim["unit"], claim["party"], claim["delta"]) for claim in plan["claims"]] == [("label", "bank", 0.0)]
    assert plan["claims"][0]["epsilon"] == pytest.approx(2.0, abs=1e-9)
    assert any("the rows of every party" in sentence for sentence in plan["does_not_cover"])


# --- nothing but public sizes ------------------------------------------------------------------------


def test_no_file_is_opened_where_the_options_say_all(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    job = files.write()
    expected = planned(tacit, job)
    for name in ("bank", "shop"):
        (files.folder / f"{name}.csv").unlink()
    plan = planned(tacit, job, *SIZES)
    assert plan["sizes"] == {**expected["sizes"], "at_most": False, "opened": [], "encoding": {}}
    assert {**plan, "sizes": None} == {**expected, "sizes": None}
    assert "nothing was read" in tacit("plan", job, *SIZES).out


def test_values_of_protected_parties_are_not_looked_at(files: Any, tacit: Any) -> None:
    files.privacy = 'epsilon = 4\nprotect = "everyone"'
    expected = planned(tacit, files.write())
    files.shop = {name: ["secret"] * files.rows for name in files.shop}
    files.bank = {name: [""] + ["nan"] * (files.rows - 1) for name in files.bank}
    assert planned(tacit, files.write()) == expected


def test_rows_are_those_of_the_smallest_file(files: Any, tacit: Any) -> None:
    files.shop = {name: values[:50] for name, values in files.shop.items()}
    files.shop_keys += '\nfeatures = ["s0", "s2"]'
    sizes = planned(tacit, files.write())["sizes"]
    assert (sizes["rows"], sizes["at_most"], sizes["columns"]) == (50, True, {"bank": 3, "shop": 2})
    assert planned(tacit, files.folder / "credit.toml", "--rows", "70")["sizes"]["rows"] == 70
    some = planned(tacit, files.folder / "credit.toml", "--rows", "70", "--columns", "shop=9")["sizes"]
    assert (some["columns"], some["opened"]) == ({"bank": 3, "shop": 9}, ["bank"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rows", "0"), '--rows="0" is not allowed: it must be a whole number'),
        (("--rows", "-3"), "--rows"),
        (("--rows", "1e5"), '--rows="1e5" is not allowed'),
        (("--rows", "9" * 30), "is not allowed"),
        (("--rows", ""), "is not allowed"),
        (("--columns", "12"), "write PARTY=N, separated by commas"),
        (("--columns", ""), "write PARTY=N"),
        (("--columns", "bank=0"), '--columns bank="0" is not allowed'),
        (("--columns", "bank=3,bank=4"), "two numbers"),
        (("--columns", "bnak=3"), 'did you mean "bank"?'),
    ],
)
def test_options_are_checked(files: Any, refused: Any, options: tuple[str, ...], words: str) -> None:
    assert words in refused("plan", files.write(), *options)


def test_files_are_checked(files: Any, refused: Any) -> None:
    job = files.write()
    (files.folder / "shop.csv").write_text("customer;s0\n1;2\n")
    assert "separate it by commas" in refused("plan", job)
    (files.folder / "shop.csv").write_text("customer,s0,s0\n1,2,3\n")
    assert 'more than one column "s0"' in refused("plan", job)
    (files.folder / "shop.csv").write_text("customer,s0\n")
    assert "has no rows" in refused("plan", job)
    (files.folder / "shop.csv").write_text("customer,default\n1,2\n")
    assert "the label of another party" in refused("plan", job)
    (files.folder / "shop.csv").unlink()
    assert "there is no file" in refused("plan", job)
    assert "there is no job file" in refused("plan", files.folder / "nowhere.toml")


def test_different_rows_without_ids_are_refused(files: Any, refused: Any) -> None:
    files.bank_keys, files.shop_keys = 'label = "default"', ""
    del files.bank["customer"], files.shop["customer"]
    files.shop = {name: values[1:] for name, values in files.shop.items()}
    assert "they are bank 120, shop 119: name an id for each party" in refused("plan", files.write())


def test_the_guess_of_the_time_grows_with_the_sizes(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    job = files.write()
    guesses = [
        planned(tacit, job, "--rows", str(rows), "--columns", f"bank=3,shop={columns}")["seconds"]
        for rows, columns in ((1000, 10), (100_000, 10), (100_000, 200), (10_000_000, 200))
    ]
    assert np.all(np.diff(guesses) > 0)


def test_without_files_it_says_how_to_plan(files: Any, refused: Any) -> None:
    job = files.write()
    (files.folder / "shop.csv").unlink()
    assert "or give --rows and --columns" in refused("plan", job)


@pytest.mark.parametrize(
    ("privacy", "expected"),
    [
        ("epsilon = 3", "epsilon = 3 at delta = 1e-05"),
        (
            "epsilon = 3\nlabel_epsilon = 1",
            "epsilon = 3 for each record of shop; 1 for each label of bank at delta = 1e-05",
        ),
        ('epsilon = "none"\nlabel_epsilon = 1', "epsilon = 1 at delta = "),
    ],
)
def test_the_claim_names_every_epsilon(files: Any, tacit: Any, privacy: str, expected: str) -> None:
    files.privacy = privacy
    assert f"differentially private, over the whole run: {expected}" in claim(tacit("plan", files.write()).out)


@pytest.mark.parametrize(
    ("model", "privacy", "expected"),
    [
        ("", "epsilon = 2", "epsilon = 2 at delta = 1e-05"),
        (
            "",
            "epsilon = 2\nepsilon_by_party = { south = 0.5 }",
            "epsilon = 2 for each record of north, east; 0.5 for each record of south at delta = 1e-05",
        ),
        (
            'method = "pdml"',
            "epsilon = 4\nlabel_epsilon = 2",
            "epsilon = 2 for each label; 4 for each record at delta = 1e-05",
        ),
    ],
)
def test_the_claim_of_a_graph_names_every_epsilon(
    tmp_path: Path, tacit: Any, model: str, privacy: str, expected: str
) -> None:
    nodes = Nodes(tmp_path, model=f"alpha = 0.01\n{model}", privacy=privacy)
    assert f"differentially private, over the whole run: {expected}" in claim(tacit("plan", nodes.write()).out)


def test_many_epsilons_of_labels_are_a_range(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path, model='alpha = 0.01\nmethod = "pdml"', privacy="epsilon = 40")
    each = {
        name: [1 + k + (row % 3) / 4 for row in range(count)]
        for k, (name, count) in enumerate(zip(NAMES, nodes.rows, strict=True))
    }
    nodes.options = "label_epsilons = { " + ", ".join(f"{name} = {own}" for name, own in each.items()) + " }"
    said = claim(tacit("plan", nodes.write()).out)
    assert re.search(r"epsilon = 1 to 3\.5 for each label; \S+ for each record at delta = 1e-05", said)


def claim(out: str) -> str:
    """The sentence after "privacy", on one line."""
    found = re.search(r"^privacy +(.*?)(?=^\S)", out, re.MULTILINE | re.DOTALL)
    assert found, out
    return " ".join(found[1].split())


# --- labels ------------------------------------------------------------------------------------------


def test_it_says_which_label_is_positive(files: Any, tacit: Any) -> None:
    assert "label       default: the last in sorted order is positive; to choose" in tacit("plan", files.write()).out
    files.bank_keys += '\npositive = "no"'
    assert "label       default: no is positive\n" in tacit("plan", files.write()).out
    assert (
        "label      default: no is positive, yes negative"
        in tacit("train", files.write(), "--out", files.folder / "run").out
    )
    files.bank_keys = 'id = "customer"\nlabel = "b0"'
    files.model = 'loss = "squared"'
    assert "\nlabel " not in tacit("plan", files.write()).out

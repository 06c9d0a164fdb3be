"""The sentences of certificates and pages, each against a number that is computed here by other means.

Who reads a certificate as an adversary's lawyer would looks for a sentence that is not so. Each test here is one that
was found: several rows of a person, rows held out, true labels, old copies of a ledger, and an
epsilon so large that it promises nothing.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import binom, norm

from tacit.cli.main import main
from tacit.errors import TacitError
from tacit.privacy import accountant
from tacit.privacy.certificate import WEAK, Certificate, cautions
from tacit.privacy.claim import Claim, Target, group_epsilon, group_events
from tacit.privacy.events import (
    UNITS,
    BucketedResponse,
    Event,
    GaussianRelease,
    NormRelease,
    NotPrivate,
    PureRelease,
    RandomizedResponse,
)
from tests.hostile.plans import NOT_PRIVATE, PRIVATE, feature_plan, node_plan

ROOT = Path(__file__).resolve().parents[2]
THREATS = ROOT / "docs" / "explanation" / "threat-model.md"
DELTA = 1e-5


# --- several rows of one person ----------------------------------------------------------------------


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The hockey-stick divergence of N(mu, 1) and N(0, 1), by integrating the two densities."""
    x = np.linspace(-40, mu + 40, 2_000_001)
    return float(trapezoid(np.maximum(norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), 0.0), x))


@pytest.mark.parametrize(("rows", "stated"), [(2, 9.0848), (10, 81.402)])
def test_k_rows_are_k_mu_and_not_k_epsilon(rows: int, stated: float) -> None:
    one = GaussianRelease(accountant.gdp_mu(4.0, DELTA), 1.0)
    found = group_epsilon(one, DELTA, rows)
    assert found == pytest.approx(stated, rel=1e-4)
    assert gaussian_delta(rows * one.mu, found) == pytest.approx(DELTA, rel=1e-3)
    # a sum in which all rows of a person move the same way reaches it: with "their epsilons add up", delta is broken
    assert gaussian_delta(rows * one.mu, rows * 4.0) > (0.5 if rows == 10 else 10 * DELTA)
    assert found > rows * 4.0


@pytest.mark.parametrize("rows", [2, 3, 10])
def test_k_labels_are_k_randomized_responses(rows: int) -> None:
    found = group_epsilon(RandomizedResponse(1.0, unit="label"), DELTA, rows)
    kept = math.e / (1 + math.e)
    count = np.arange(rows + 1)
    loss, mass = 2 * count - rows, binom.pmf(count, rows, kept)
    reached = float((mass * np.maximum(0, -np.expm1(np.minimum(found - loss, 0)))).sum())
    assert reached <= DELTA * (1 + 1e-6)
    assert found <= rows
    assert group_epsilon(RandomizedResponse(1.0, unit="label"), 0.0, rows) == rows


def test_a_fit_and_symbols_of_several_rows() -> None:
    """A Gaussian of k mu, and k symbols: the mixture is integrated here."""
    found = group_epsilon(BucketedResponse(0.5, 0.4, 2), DELTA, 3)
    kept = math.exp(0.4) / (1 + math.exp(0.4))
    losses = [(0.4 * (2 * j - 3), binom.pmf(j, 3, kept)) for j in range(4)]
    reached = sum(float(mass) * gaussian_delta(1.5, found - loss) for loss, mass in losses)
    assert reached == pytest.approx(DELTA, rel=1e-3)


def test_laplace_noise_of_several_rows_attains_the_bound_and_releases_of_rounds_stay_apart() -> None:
    one = NormRelease(0.5, 1, 0.0, 4)  # in one dimension noise of density exp(-rate |e|) is Laplace noise
    (found,) = group_events(one, 3)
    assert isinstance(found, PureRelease)
    assert found.count == 4
    assert found.epsilon == pytest.approx(1.5)
    assert group_events([one], 1) == (one,)
    assert math.isinf(group_epsilon(NotPrivate("sent"), DELTA, 2))


@pytest.mark.parametrize("name", PRIVATE)
def test_every_certificate_states_what_several_rows_cost(name: str) -> None:
    certificate = PRIVATE[name]().certificate()
    assert certificate.target is not None
    said = [line for line in certificate.does_not_cover if line.startswith("a person with several")]
    assert len(said) == 1
    two, ten = (float(found) for found in re.findall(r"([\d.e+]+) for (?:2|10)\b", said[0]))
    at = certificate.target.delta
    for rows, stated in ((2, two), (10, ten)):
        exact = max(group_epsilon(claim.events, at, rows) for claim in certificate.main_claims)
        assert exact <= stated * (1 + 1e-12)
        assert stated <= exact * 1.001
    assert two >= certificate.epsilon(at) < ten


@pytest.mark.parametrize("name", [*PRIVATE, *NOT_PRIVATE])
def test_no_certificate_says_that_epsilons_simply_add_up(name: str) -> None:
    certificate = {**PRIVATE, **NOT_PRIVATE}[name](holdout="holdout = 0.2").certificate()
    text = str(certificate)
    assert "add up" not in text
    assert "not used again" not in text
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_rows_at_several_parties_that_move_one_sum_count_as_often() -> None:
    """Under masks the rows of a person at three nodes move the same sum: three mu, not the square root of three."""
    masked, apart = (node_plan("gaussian", epsilon=1, secure=secure).certificate() for secure in (True, False))
    mu = accountant.gdp_mu(1.0, DELTA)
    for certificate, times in ((masked, 3.0), (apart, math.sqrt(3))):
        (line,) = [line for line in certificate.does_not_cover if line.startswith("a person with a row at each")]
        found = re.search(r"together it is ([\d.]+) at", line)
        assert found is not None
        assert float(found[1]) == pytest.approx(accountant.gaussian_epsilon(times * mu, DELTA), rel=2e-3)
    shares = feature_plan(epsilon=8, mechanism="shares", honest=2, secure=True).certificate()
    (line,) = [line for line in shares.does_not_cover if line.startswith("a person with a row at each")]
    found = re.search(r"together it is ([\d.]+) at", line)
    assert found is not None
    whole = accountant.gaussian_epsilon(3 * accountant.gdp_mu(8.0, DELTA), DELTA)
    assert float(found[1]) == pytest.approx(whole, rel=5e-3)


@pytest.mark.parametrize("name", ["person", "gaussian, person"])
def test_a_person_is_not_hidden_from_who_holds_rows_about_them(name: str) -> None:
    certificate = PRIVATE[name]().certificate()
    assert "hold none of the person's rows" in certificate.adversary


# --- rows held out, and true labels ------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIVATE)
def test_a_certificate_says_which_rows_it_is_about(name: str) -> None:
    certificate = PRIVATE[name](holdout="holdout = 0.2").certificate()
    (line,) = [line for line in certificate.does_not_cover if line.startswith("the rows held out")]
    assert "holdout = 0.2" in line
    assert "every claim is about the rows trained on" in line
    evaluated = name not in ("shares", "shares, masks", "dual, published")
    assert ("exact functions" in line) == evaluated
    assert ("nothing is computed" in line) == (not evaluated)
    assert ("true labels" in line) == (evaluated and name != "given labels")
    assert not any("held out" in line for line in PRIVATE[name]().certificate().does_not_cover)


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_evaluated_is_what_the_certificate_says(name: str) -> None:
    plan = PRIVATE[name](holdout="holdout = 0.2")
    said = " ".join(plan.certificate().does_not_cover)
    assert plan.served == ("nothing is computed" not in said)


JOB = """
[job]
name = "credit"
holdout = 0.25
{split}
[model]
loss = "logistic"
alpha = 0.01
{model}
[privacy]
epsilon = 2
noise_seed = 5
{privacy}
[[party]]
name = "bank"
data = "bank.csv"
{keys}
label = "default"
[[party]]
name = "shop"
data = "shop.csv"
{keys}
{shop_label}
"""


def write_job(folder: Path, split: str, flip: int | None = None) -> tuple[Path, list[str]]:
    """A job of either split with a quarter of its rows held out; `flip` turns one true label round."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(160, 4)) / 2
    labels = (features.sum(axis=1) + rng.logistic(size=160) / 2 > 0).astype(int)
    if flip is not None:
        labels[flip] = 1 - labels[flip]
    ids = [f"c{number:03d}" for number in range(160)]
    samples = split == "samples"
    for name, columns, rows in (("bank", [0, 1], slice(0, 80)), ("shop", [2, 3], slice(80, 160))):
        own = list(range(4)) if samples else columns
        kept = range(160)[rows] if samples else range(160)
        with_label = samples or name == "bank"
        lines = [",".join(["customer", *(f"x{j}" for j in own), *(["default"] if with_label else [])])]
        for i in kept:
            cells = [ids[i], *(f"{features[i, j]:.6f}" for j in own), *([str(labels[i])] if with_label else [])]
            lines.append(",".join(cells))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    text = JOB.format(
        split='split = "samples"\n[graph]\nkind = "complete"' if samples else "",
        model='method = "pdml"\nfit_intercept = false' if samples else "",
        privacy="label_epsilon = 1",
        keys='id = "customer"',
        shop_label='label = "default"' if samples else "",
    )
    path = folder / "credit.toml"
    path.write_text(text)
    return path, ids


@pytest.mark.parametrize("split", ["features", "samples"])
def test_the_evaluation_uses_a_true_label_that_training_never_saw_and_the_certificate_says_so(
    tmp_path: Path, split: str, monkeypatch: Any
) -> None:
    """Turn one held-out label round: the model stays the same to the last bit, the figures do not."""
    from tacit.data.holdout import held_rows
    from tacit.job import read_job

    runs = {}
    for name, flip in (("one", None), ("other", 0)):
        folder = tmp_path / name
        folder.mkdir()
        path, ids = write_job(folder, split)
        own = ids[:80] if split == "samples" else ids
        held = held_rows(len(own), 0.25, read_job(path).seed or 0, np.array(own))
        if flip is not None:
            write_job(folder, split, int(np.flatnonzero(held)[0]))
        monkeypatch.chdir(folder)
        assert main(["train", str(path), "--quiet"]) == 0
        runs[name] = folder / "runs" / "credit"
    parts = [sorted((run / "model").glob("*.json")) for run in runs.values()]
    numbers = [[json.loads(file.read_text()).get("coef") for file in own] for own in parts]
    assert numbers[0] == numbers[1]
    figures = [json.loads((run / "evaluation.json").read_text())["models"][0]["measures"] for run in runs.values()]
    assert figures[0] != figures[1]
    certificate = json.loads((runs["one"] / "certificate.json").read_text())
    (line,) = [line for line in certificate["does_not_cover"] if line.startswith("the rows held out")]
    assert "exact functions of their features and true labels" in line
    assert "that the run trained on" in (runs["one"] / "certificate.txt").read_text()


# --- an epsilon that promises nothing ----------------------------------------------------------------


def certificate_of(*events: Event, unit: str = "record") -> Certificate:
    claim = Claim(unit, "shop", "replace-one", "anyone", events, "theorem")
    return Certificate(unit=unit, claims=(claim,), target=Target(None, DELTA))


@pytest.mark.parametrize(("epsilon", "warned"), [(1.0, False), (8.0, False), (20.0, True), (1000.0, True)])
def test_a_large_epsilon_gets_a_caution_with_the_number_that_it_implies(epsilon: float, warned: bool) -> None:
    mu = accountant.gdp_mu(epsilon, DELTA)
    certificate = certificate_of(GaussianRelease(mu, 1.0))
    right = norm.cdf(mu / 2)  # the best test of two equally likely normals at a distance of mu
    assert (right >= WEAK) == warned
    said = cautions(certificate)
    assert bool(said) == warned
    if warned:
        found = re.search(r"up to ([\d.]+) % of cases", said[0])
        assert found is not None
        assert float(found[1]) == pytest.approx(100 * right, abs=0.02)
        assert str(certificate).splitlines()[2].startswith("CAUTION: epsilon = ")


def test_a_plan_shows_the_caution_and_labels_have_their_own() -> None:
    plan = feature_plan(epsilon=1000, label_epsilon=4)
    text = str(plan)
    assert "caution     - epsilon = 1000 is so large" in text
    record = plan.describe()
    assert len(record["cautions"]) == 2
    assert "98.21 %" in next(line for line in record["cautions"] if "each label" in line)  # e^4 / (1 + e^4)
    assert feature_plan(epsilon=1).describe()["cautions"] == []
    assert "caution" in str(node_plan("gaussian", epsilon=500))


# --- old copies --------------------------------------------------------------------------------------


def test_an_old_copy_of_the_books_is_never_recommended(tmp_path: Path) -> None:
    from tacit.federation.budget import BudgetBook, Limit
    from tacit.federation.releases import ReleaseJournal

    messages = []
    ledger = tmp_path / "ledger.json"
    book = BudgetBook(ledger, {"record": Limit(epsilon=3, delta=1e-6)}, party="phone")
    job = dict.fromkeys(UNITS, (GaussianRelease(0.1, 1.0),))
    book.reserve("job", job)
    ledger.write_text(ledger.read_text().replace('"job"', '"jub"'))
    with pytest.raises(TacitError) as refused:
        BudgetBook(ledger, {"record": Limit(epsilon=3, delta=1e-6)}, party="phone").reserve("next", job)
    messages.append(str(refused.value))
    path = tmp_path / "releases.jsonl"
    releases = ReleaseJournal(path)
    releases.add("job", 1, "a" * 64)
    path.write_text("")
    with pytest.raises(TacitError) as refused:
        releases.add("job", 2, "b" * 64)
    messages.append(str(refused.value))
    path.unlink()
    with pytest.raises(TacitError) as refused:
        releases.add("job", 2, "b" * 64)
    messages.append(str(refused.value))
    path.write_text("no record\n")
    with pytest.raises(TacitError) as refused:
        ReleaseJournal(path).read()
    messages.append(str(refused.value))
    for message in messages:
        assert "restore" not in message
        assert "backup" not in message
        assert "spent" in message  # what is lost counts as spent


def test_the_ledger_that_nothing_used_is_gone() -> None:
    assert importlib.util.find_spec("tacit.privacy.ledger") is None


# --- sentences that were not so ----------------------------------------------------------------------

NOT_SO = (
    "their epsilons add up",
    "epsilons of all runs on the same rows add up",
    "each has its own epsilon, and they add up",
    "true labels are not used again",
    "never looked at again",
    "keep a backup",
    "restore the file",
    "restore it from a backup",
    "no row, however large, makes a computation fail",
    "tacit.privacy.ledger",
    "is protected k times less",
    "times the noise-to-signal",
    "whatever a node is told",
    "only keys and certificates are used",
    "cannot speak for another party",
    "usually beats",
)


def pages() -> list[Path]:
    found = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("src/tacit/**/*.py"), ROOT / "README.md"]
    return [page for page in found if "_build" not in page.parts]


@pytest.mark.parametrize("sentence", NOT_SO)
def test_no_page_and_no_message_says_what_is_not_so(sentence: str) -> None:
    wanted = " ".join(sentence.split()).lower()
    guilty = []
    for page in pages():
        text = re.sub(r'"\s*\n\s*f?"', "", page.read_text(encoding="utf-8"))
        if wanted in " ".join(text.split()).lower():
            guilty.append(str(page.relative_to(ROOT)))
    assert guilty == []


# --- one table ---------------------------------------------------------------------------------------


def guarantees() -> list[list[str]]:
    """The rows of the table of guarantees: number, what, from whom, assumption, proof, test."""
    text = THREATS.read_text(encoding="utf-8")
    lines = text[text.index("## Every guarantee") :].splitlines()
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines if line.startswith("| G")]
    assert len(rows) >= 20
    return rows


@pytest.mark.parametrize("row", guarantees() if "## Every guarantee" in THREATS.read_text(encoding="utf-8") else [[]])
def test_every_guarantee_names_a_proof_and_a_test_that_exist(row: list[str]) -> None:
    assert len(row) == 6, row
    assert all(row), row
    links = re.findall(r"\]\(([^)]+)\)", row[4])
    assert links, row
    for link in links:
        path, _, anchor = link.partition("#")
        page = (THREATS.parent / path).resolve() if path else THREATS
        assert page.is_file(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
            known = {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}
            assert anchor in known, link
    named = re.findall(r"`((?:papers/)?tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", row[5])
    assert named, row
    for file, test in named:
        path = ROOT / file
        assert path.is_file() or path.is_dir(), file
        if test:
            assert f"def {test}(" in path.read_text(encoding="utf-8"), f"{file}::{test}"


def test_the_guarantees_are_numbered_without_gaps() -> None:
    assert [row[0] for row in guarantees()] == [f"G{number}" for number in range(1, len(guarantees()) + 1)]

"""Private runs as a whole: the law of the noise, going on after a pause, and what true labels may touch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import stats

from tacit import Privacy
from tacit.privacy.releases import Releaser
from tacit.run.drive import LoopState
from tacit.run.star import Run
from tacit.types import Shard
from tests.plans import feature_plan

ROWS, COLUMNS = 300, (4, 3, 3)
NAMES = ("holder", "b", "c")
FORMS = {
    "A": {},
    "A, labels": {"label_epsilon": 2.0},
    "B": {"refit": True},
    "B, labels": {"refit": True, "label_epsilon": 2.0},
    "C": {"protect": "everyone"},
    "C, few levels": {"protect": "everyone", "epsilon": 1.0},
}


def data(columns: tuple[int, ...] = COLUMNS) -> tuple[list[Shard], np.ndarray]:
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(ROWS, d)) / np.sqrt(d) for d in columns]
    score = sum(3 * block.sum(axis=1) for block in blocks)
    labels = np.where(score + rng.logistic(size=ROWS) > 0, 1.0, -1.0)
    return [Shard(name, block) for name, block in zip(NAMES, blocks, strict=True)], labels


def plan(columns: tuple[int, ...] = COLUMNS, **privacy):
    return feature_plan(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, method="auto", rho="auto", max_rounds=10,
        tol=1e-4, privacy=Privacy(**{"epsilon": 4.0, **privacy}), party_names=NAMES, rows=ROWS, input_bytes=0,
        columns=columns,
    )  # fmt: skip


def model(result) -> dict[str, object]:
    """Everything a finished run says, but for the time it took."""
    parts = {f"{p.name}.coef": p.coef.tolist() for p in result.model.parts}
    parts |= {f"{p.name}.offset": p.offset for p in result.model.parts}
    parts |= {f"{p.name}.bend": p.bend for p in result.model.parts}
    parts |= {f"{p.name}.centre": p.clip.centre.tolist() for p in result.model.parts if p.clip is not None}
    parts |= {f"{p.name}.radius": p.clip.radius for p in result.model.parts if p.clip is not None}
    return {**parts, "constant": result.model.constant, "outlook": result.outlook}


# --- noise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["A", "C"])
def test_the_noise_has_the_planned_deviation_and_law(monkeypatch, form):
    seen: dict[str, list[np.ndarray]] = {}
    add = Releaser.add

    def recorded(self, name, value):
        noisy = add(self, name, value)
        noise = (noisy - np.asarray(value)) / self._planned[name].sd
        seen.setdefault(f"{self.owner}: {name}", []).append(np.ravel(noise))
        return noisy

    monkeypatch.setattr(Releaser, "add", recorded)
    wide = (4, 30, 30)
    for seed in range(20):
        Run(plan(wide, **FORMS[form], noise_seed=seed), *data(wide)).go()
    seen["all"] = [noise for parts in list(seen.values()) for noise in parts]
    for name, parts in seen.items():
        noise = np.concatenate(parts)
        tail = stats.chi2.cdf(float(noise @ noise), noise.size)
        assert 1e-4 < tail < 1 - 1e-4, f"{name}: {noise.size} numbers of mean square {noise @ noise / noise.size}"
        assert stats.kstest(noise, "norm").pvalue > 1e-4, name
    planned = {one.name for one in plan(**FORMS[form]).private.releases["b"]}
    assert {name.split(": ")[1] for name in seen if name.startswith("b")} == planned


def test_noise_of_different_parties_releases_and_runs_is_independent(monkeypatch):
    seen: list[np.ndarray] = []
    add = Releaser.add

    def recorded(self, name, value):
        noisy = add(self, name, value)
        seen.append(np.ravel(noisy - np.asarray(value))[:1] / self._planned[name].sd)
        return noisy

    monkeypatch.setattr(Releaser, "add", recorded)
    for _ in range(3):
        Run(plan(), *data()).go()
    values = np.sort(np.concatenate(seen))
    assert np.diff(values).min() > 1e-7, "the same number twice"


# --- going on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["A", "A, labels", "B", "B, labels"])
def test_a_run_that_goes_on_between_the_exchanges_ends_in_the_same_model(monkeypatch, form):
    kept: list = []

    def keep(run):
        if not kept:
            kept.append((copy.deepcopy(run.snapshot()), copy.deepcopy(run.state)))

    shards, labels = data()
    whole = Run(plan(**FORMS[form]), shards, labels).go(checkpoint=keep)
    asked: list[str] = []
    respond = Releaser.respond
    monkeypatch.setattr(Releaser, "respond", lambda self, name, s: asked.append(name) or respond(self, name, s))
    resumed = Run(plan(**FORMS[form]), shards, labels)
    resumed.restore(*kept[0])
    assert model(resumed.go()) == model(whole)
    assert "labels" not in asked, "labels were randomized twice"
    assert len(whole.trace) == 2


@pytest.mark.parametrize("form", ["A, labels", "C", "C, few levels"])
def test_a_label_holder_that_sends_twice_sends_the_same(form):
    shards, labels = data()
    side = Run(plan(**FORMS[form]), shards, labels).coordinator.side
    first, second = side.broadcast(), side.broadcast()
    assert {name: array.tolist() for name, array in first.items()} == {n: a.tolist() for n, a in second.items()}


def test_a_private_run_is_repeatable_by_seed_alone():
    shards, labels = data()
    one, same, other = (Run(plan(noise_seed=seed), shards, labels).go() for seed in (1, 1, 2))
    assert model(one) == model(same)
    assert model(one) != model(other)
    assert any("seed" in line for line in one.certificate.assumptions)


# --- true labels ---------------------------------------------------------------------------------------


def messages_of(run: Run) -> list[dict[str, list[float]]]:
    """Run to the end; what went either way, in order."""
    sent: list[dict[str, list[float]]] = []
    exchange = run.engine.exchange

    def watched(message):
        answers = exchange(message)
        sent.extend({name: np.ravel(array).tolist() for name, array in m.arrays.items()} for m in (message, *answers))
        return answers

    run.engine.exchange = watched
    run.result = run.go()
    return sent


@pytest.mark.parametrize("form", ["A, labels", "B, labels"])
@pytest.mark.parametrize("predictions", ["anyone", "label-holder"])
def test_everything_is_a_function_of_the_randomized_labels(monkeypatch, form, predictions):
    said = np.random.default_rng(5).integers(0, 2, ROWS)
    monkeypatch.setattr(
        Releaser,
        "respond",
        lambda self, name, s, real=Releaser.respond: said if name == "labels" else real(self, name, s),
    )
    shards, labels = data()
    flipped = np.where(np.arange(ROWS) % 3 == 0, -labels, labels)
    runs = [Run(plan(**FORMS[form], predictions=predictions, noise_seed=3), shards, y) for y in (labels, flipped)]
    assert messages_of(runs[0]) == messages_of(runs[1])
    one, two = (model(run.result) for run in runs)
    own = {name for name in one if name.startswith("holder.")}
    assert {name: one[name] for name in one if name not in own} == {name: two[name] for name in two if name not in own}
    same = {name: one[name] for name in own} == {name: two[name] for name in own}
    assert same is (predictions == "anyone"), "only its own predictions may use the true labels"


def test_without_randomized_labels_messages_do_depend_on_them():
    """The test above could fail."""
    shards, labels = data()
    runs = [Run(plan(noise_seed=3), shards, y) for y in (labels, -labels)]
    assert messages_of(runs[0]) != messages_of(runs[1])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_learns_something(form):
    """With much privacy given away, the joint model is far better than a coin."""
    shards, labels = data()
    result = Run(plan(**{**FORMS[form], "epsilon": 20.0, "noise_seed": 1}), shards, labels).go()
    scores = sum(part.score(shard.features) for part, shard in zip(result.model.parts, shards, strict=True))
    assert np.mean(np.sign(scores + result.model.constant) == labels) > 0.75


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_is_begun_again_from_its_keys_repeats_its_noise(form):
    shards, labels = data()
    run = Run(plan(**FORMS[form]), shards, labels)
    before = copy.deepcopy(run.snapshot())
    again = Run(plan(**FORMS[form]), shards, labels)
    again.restore(before, LoopState())
    assert model(again.go()) == model(run.go())

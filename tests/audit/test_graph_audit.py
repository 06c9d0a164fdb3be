"""The audit of the sample split: sound plans hold, broken ones are caught, published claims are judged one by one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.audit.attacks import AS_STATED, AT_95, BROKEN, NO_VIOLATION
from tacit.audit.auditor import Effort, refutes
from tacit.audit.findings import lines, to_json
from tacit.audit.game import SURE, Game, lower_bound
from tacit.audit.graph import attacks, audit_graph
from tacit.audit.graph.attacks import claimed_rounds, density_ratios, paper_alpha
from tacit.audit.graph.replay import Objective
from tacit.audit.graph.scene import node_scenes, row_norm
from tacit.audit.scene import ClaimedPrivacy, PartyData, WorstPair, search
from tacit.cli.audit import audit_any
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.problem.losses import Softmax
from tacit.topologies import make_graph
from tests.algorithms.paper_nodes import Scripted, plan, side
from tests.audit import graph_cases as cases
from tests.audit.graph_cases import NODE, gaussian, half, record_claim

SMALL = Effort(pairs=40, runs=60, seed=1)
RUNAWAY: dict[str, Any] = {"alpha": 0.02, "rho": 0.5}


def replayed(made: Plan, pairs: int = 60, seed: int = 0) -> WorstPair:
    claim = record_claim(made)
    sums = add_up(claim.events)
    claimed = ClaimedPrivacy(sums.mu, 0.0, claim.neighbours, row_norm(made, NODE), sums.pure)
    return search(node_scenes(made, NODE), claimed, pairs, np.random.default_rng(seed))


def verdicts(made: Plan, effort: Effort = SMALL) -> dict[str, str]:
    return {finding.name: finding.verdict for finding in audit_graph(made, effort).findings}


# --- replay ------------------------------------------------------------------------------------------

RING: dict[str, Any] = {"secure": True, "graph": "ring", "honest": 2}
SOUND = {
    "gaussian": (lambda: gaussian(rounds=8), 0.85),
    "gaussian, gradients under masks": (lambda: gaussian(secure=True, rounds=20), 0.85),
    "under masks on a ring, two of four pool": (lambda: gaussian(**RING, rounds=20), 0.85),
    "gaussian, four classes": (lambda: gaussian(rounds=20, secure=True, loss=Softmax(4)), 0.7),
    "gaussian, four classes, exact": (lambda: gaussian(rounds=6, loss=Softmax(4)), 0.6),
    "gaussian, counts": (lambda: gaussian(rounds=8, loss="poisson"), 0.7),
    "gaussian, squared": (lambda: gaussian(rounds=8, loss="squared"), 0.75),
    "dual": (lambda: plan(options={"rounds": 2}), 0.3),
    "primal": (lambda: plan("primal", options={"rounds": 4, "last_round": "primal"}), 0.85),
    "primal, last round dual": (lambda: plan("primal", options={"rounds": 3}), 0.6),
    "primal, noise by norm": (lambda: plan("primal", options={"rounds": 3, "noise": "norm"}), 0.4),
    "primal, intercept": (lambda: plan("primal", rows=(9, 9), fit_intercept=True, options={"rounds": 3}), 0.3),
    "pdml": (lambda: plan("pdml", options={"rounds": 4}), 0.8),
    "pdml, published": (lambda: plan("pdml", published=True, options={"rounds": 4}), 0.8),
    "dual, published": (lambda: plan(published=True, alpha=1.0, options={"rounds": 2}), 0.3),
}


@pytest.mark.parametrize("name", SOUND)
def test_no_neighbour_uses_more_than_is_claimed(name: str) -> None:
    make, least = SOUND[name]
    worst = replayed(make())
    assert worst.holds
    assert least < worst.ratio


BROKEN_PLANS = {
    "own state, tight noise": (
        lambda: plan("primal", **RUNAWAY, options={"rounds": 30, "last_round": "primal"}),
        cases.OwnState,
    ),
    "own state in the last round": (lambda: plan("primal", **RUNAWAY, options={"rounds": 12}), cases.OwnStateAtTheEnd),
    "rows are not scaled down": (lambda: plan("primal", options={"rounds": 3}), cases.Unclipped),
    "gaussian, own state": (lambda: gaussian(rounds=10), cases.StartsFromItself),
}


@pytest.mark.parametrize("name", BROKEN_PLANS)
def test_a_wrong_sensitivity_is_caught(name: str) -> None:
    make, node = BROKEN_PLANS[name]
    worst = replayed(cases.with_node(make(), node), pairs=40)
    assert worst.ratio > 1.05
    assert not worst.holds


def test_what_leaves_beside_the_releases_is_caught() -> None:
    worst = replayed(cases.with_node(plan("primal", options={"rounds": 2}), cases.SendsItsModel), pairs=20)
    assert worst.leaks > 0.01
    assert not worst.holds


def test_under_masks_the_noise_of_all_honest_nodes_is_counted_and_drawn() -> None:
    made = gaussian(secure=True, rounds=20)
    scene = node_scenes(made, NODE)(np.random.default_rng(0))
    assert made.private is not None
    own = {one.name: one.sd for one in made.private.releases[NODE]}  # type: ignore[union-attr]
    for one in scene.planned:
        assert one.sd == pytest.approx(math.sqrt(3) * own[one.name])  # type: ignore[union-attr]
    drawn: list[float] = []
    for seed in range(40):
        assert scene.compare(scene.held, scene.held, seed).cost.squares == 0
        drawn.append(_noise(scene, seed))
    assert np.std(drawn) == pytest.approx(math.sqrt(3) * own["gradient"], rel=0.3)


def _noise(scene: Any, seed: int) -> float:
    """The noise of one entry of the last release."""
    seen: list[float] = []

    class Watch:
        owner = NODE

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def add(self, name: str, value: Any) -> Any:
            noisy = self.inner.add(name, value)
            seen.append(float(noisy[0] - np.asarray(value)[0]))
            return noisy

    scene.play(scene.held, seed, Watch)
    return seen[-1]


# --- guessing game -----------------------------------------------------------------------------------

GAMES = {
    "gaussian": lambda: gaussian(rounds=5, epsilon=8.0),
    "gaussian, gradients under masks": lambda: gaussian(secure=True, rounds=3, epsilon=8.0),
    "under masks on a ring, two of four pool": lambda: gaussian(**RING, rounds=3, epsilon=8.0),
    "gaussian, four classes": lambda: gaussian(secure=True, rounds=3, epsilon=8.0, loss=Softmax(4)),
    "gaussian, counts": lambda: gaussian(secure=True, rounds=3, epsilon=8.0, loss="poisson"),
    "primal": lambda: plan("primal", options={"rounds": 3, "last_round": "primal"}, privacy={"epsilon": 8.0}),
}


@pytest.mark.parametrize("name", GAMES)
def test_the_game_bounds_sound_noise_from_below_and_catches_half_of_it(name: str) -> None:
    made = GAMES[name]()
    claim, rng = record_claim(made), np.random.default_rng(2)
    claimed = ClaimedPrivacy(add_up(claim.events).mu, 0.0)
    pair = search(node_scenes(made, NODE, (1, 12), far=True), claimed, 60, rng, transcripts=2)
    assert pair.ratio > 0.7
    sound = Game(pair.scene, pair.first, pair.second).play(400, seed=1)
    assert not refutes(lower_bound(sound, 1e-5, SURE), claim)
    scene: Any = pair.scene
    scene.used = half(scene.used)
    broken = Game(scene, pair.first, pair.second).play(400, seed=1)
    assert refutes(lower_bound(broken, 1e-5, SURE), claim)


# --- densities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.2, 3.0])
def test_dual_rounds_come_near_to_alpha_and_half_the_noise_is_caught(alpha: float) -> None:
    made = plan(options={"alphas": alpha, "rounds": 3}, privacy={"epsilon": 100.0})
    claim, rng = record_claim(made), np.random.default_rng(0)
    assert claimed_rounds(made, claim) == pytest.approx(dict.fromkeys((1, 2, 3), alpha), rel=1e-14)
    found = density_ratios(made, claim, 40, rng)
    assert all(one.holds for one in found)
    assert min(one.part for one in found[1:]) > 0.9  # in the first round nobody has told the node anything
    assert made.private is not None
    halved = density_ratios(made, claim, 0, rng, half(made.private.releases[NODE]))
    assert min(one.part for one in halved[1:]) > 1.5
    line = attacks.judge_rounds(halved, claim)
    assert line is not None
    assert line.verdict == BROKEN


def test_noise_and_volume_belong_to_each_other() -> None:
    made = plan(rows=(6, 6), columns=2, fit_intercept=True, options={"alphas": 0.5, "rounds": 2})
    rng = np.random.default_rng(3)
    held = PartyData(2 * rng.normal(size=(6, 2)), rng.choice([-1.0, 1.0], 6))
    objective = Objective.of(side(made, held.rows, held.labels, Scripted()), held)
    model, step = rng.normal(size=3), 1e-6
    columns = [objective.noise(np.zeros(3), model + step * unit, 1) for unit in np.eye(3)]
    jacobian = (np.array(columns) - objective.noise(np.zeros(3), model, 1)) / step
    assert objective.log_volume(model, 1) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-4)
    np.testing.assert_array_equal(objective.noise(model, model, 1), np.zeros(3))


ODD = {
    "one node": lambda: plan(rows=(5,), graph=make_graph("complete", 1), options={"rounds": 2}),
    "one column": lambda: plan("primal", columns=1, options={"rounds": 2}),
    "zero-out": lambda: plan("primal", privacy={"neighbours": "zero-out"}, options={"rounds": 2}),
    "labels of several epsilons": lambda: plan(
        "pdml", rows=(4, 4), options={"rounds": 2, "label_epsilons": {NODE: [0.5, 1.0, 2.0, 0.5]}}
    ),
    "rows of another norm": lambda: plan("primal", privacy={"row_norm": 7.0}, options={"rounds": 2}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_plans_can_be_audited(name: str) -> None:
    found = audit_graph(ODD[name](), Effort(pairs=20, runs=40, seed=0))
    assert found.unbroken
    assert found.games


def test_alphas_of_single_rounds_are_told_apart() -> None:
    made = plan("primal", options={"alphas": [0.5, 0.1, 0.3, 0.2]}, privacy={"epsilon": 100.0})
    assert claimed_rounds(made, record_claim(made)) == pytest.approx({1: 0.5, 2: 0.1, 3: 0.3, 4: 0.2})


def test_the_printed_noise_of_dual_is_twice_what_the_paper_says_and_within_the_certificate() -> None:
    made = plan(published=True, alpha=1.0, options={"alphas": 0.5, "rounds": 2})
    claim = record_claim(made)
    assert paper_alpha(made, NODE, 2) == pytest.approx(0.5)
    found = density_ratios(made, claim, 20, np.random.default_rng(0))
    stated, paper = attacks.judge_rounds(found, claim), attacks.judge_published(made, found, claim)
    assert stated is not None
    assert stated.verdict == NO_VIOLATION
    assert paper is not None
    assert paper.verdict == AS_STATED
    assert found[1].found > 1.8 * 0.5


def test_of_published_primal_rounds_the_last_one_alone_fails() -> None:
    made = plan("primal", published=True, **RUNAWAY, options={"alphas": 0.5, "rounds": 20})
    claim = record_claim(made)
    found = density_ratios(made, claim, 20, np.random.default_rng(0))
    assert found[-1].claimed is None
    assert found[-1].found > 5 * paper_alpha(made, NODE, 20)
    assert all(0 < one.found <= 0.5 for one in found[:-1])
    stated, paper = attacks.judge_rounds(found, claim), attacks.judge_published(made, found, claim)
    assert stated is not None
    assert stated.verdict == NO_VIOLATION
    assert paper is not None
    assert paper.verdict == AS_STATED
    assert paper.details["rounds"][0]["round"] == 20


# --- pdml --------------------------------------------------------------------------------------------


def test_noise_that_is_drawn_once_cancels() -> None:
    made = plan("pdml", published=True)
    alone, together = attacks.differenced(made, NODE, np.random.default_rng(0))
    assert alone > 0.05
    assert together < 1e-9
    found = attacks.objective_noise(made, NODE, np.random.default_rng(0))
    assert found is not None
    assert found.verdict == AS_STATED
    assert attacks.objective_noise(plan("pdml"), NODE, np.random.default_rng(0)) is None


def test_randomized_labels_reach_their_epsilon_and_never_more() -> None:
    made = plan("pdml", privacy={"epsilon": None})
    claim = made.certificate().claims[0]
    found = attacks.label_game(made, claim, 20000, np.random.default_rng(0))
    assert found is not None
    assert found.verdict == AT_95
    assert 0.9 < found.details["bound"]["epsilon_any"] < 1
    assert made.private is not None
    named = made.private.releases[NODE][0].name
    weak = tuple(one for one in half(made.private.releases[NODE]) if one.name == named)
    broken = attacks.label_game(made, claim, 20000, np.random.default_rng(0), weak)
    assert broken is not None
    assert broken.verdict == BROKEN


def test_a_kept_model_is_told_from_released_ones() -> None:
    for published, verdict in ((False, NO_VIOLATION), (True, AS_STATED)):
        made = plan("pdml", published=published, options={"rounds": 3})
        found = attacks.judge_model(made, record_claim(made), np.random.default_rng(0))
        assert found.verdict == verdict


# --- the whole ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gaussian", "dual", "primal", "pdml"])
def test_nothing_is_broken_in_a_sound_plan(method: str) -> None:
    made = gaussian() if method == "gaussian" else plan(method, options={"rounds": 3})
    seen: list[float] = []
    found = audit_graph(made, SMALL, lambda text, part: seen.append(part))
    assert found.unbroken
    assert found.mechanism == method
    assert {finding.verdict for finding in found.findings} <= {NO_VIOLATION, AT_95}
    assert len(found.games) == (2 if method == "gaussian" else 1)  # the middle of a star, and one of the others
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert not json.loads(to_json(found))["broken"]
    assert len(lines(found)) == len(found.findings)


def test_a_broken_plan_is_reported() -> None:
    made = cases.with_node(plan("primal", options={"rounds": 2}), cases.Unclipped)
    found = verdicts(made)
    assert found[f"rows of {NODE}: replayed neighbours"] == BROKEN


def test_published_forms_are_weak_as_their_certificates_state() -> None:
    made = plan("primal", published=True, **RUNAWAY, options={"alphas": 0.5, "rounds": 12})
    found = audit_graph(made, SMALL)
    assert found.unbroken
    assert not found.games  # the run as a whole claims nothing
    assert AS_STATED in {finding.verdict for finding in found.findings}


def test_without_privacy_nothing_is_claimed_and_nothing_tried() -> None:
    made = replace(gaussian(), private=None, recorded_method="admm")
    assert audit_any(made, SMALL).findings == ()


def test_the_verb_audits_either_split() -> None:
    found = audit_any(plan("pdml", privacy={"epsilon": None}), SMALL)
    assert [finding.name for finding in found.findings] == [f"labels of {NODE}: randomized labels"]

"""Labels that came randomized: used as they are, with the unbiased loss of each row's own epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.errors import InputError
from tacit.plan import Plan
from tacit.privacy.releases import AllowedResponse
from tacit.privacy.request import PaperOptions, Privacy
from tacit.run.graph import GraphRun
from tacit.topologies import make_graph
from tacit.types import Shard
from tests.plans import sample_plan

ROWS = (40, 60, 50)
NAMES = ("node 1", "node 2", "node 3")
RNG = np.random.default_rng(5)
BLOCKS = [RNG.normal(size=(rows, 3)) / 2 for rows in ROWS]
LABELS = [np.where(block @ [2.0, -1.0, 0.5] + RNG.normal(size=len(block)) > 0, 1.0, -1.0) for block in BLOCKS]
EPSILONS = {name: tuple(RNG.uniform(1, 3, size=rows)) for name, rows in zip(NAMES, ROWS, strict=True)}


def make(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "loss": "logistic", "penalty": "l2", "alpha": 0.1, "fit_intercept": True, "method": "pdml",
        "published": False, "rho": "auto", "max_rounds": 1000, "tol": 1e-10, "privacy": None,
        "graph": make_graph("ring", 3), "rows": ROWS, "columns": 3, "label_epsilons": EPSILONS,
    }  # fmt: skip
    return sample_plan(**(settings | changes))


def run(plan: Plan) -> GraphRun:
    shards = [Shard(name, block, ("a", "b", "c")) for name, block in zip(NAMES, BLOCKS, strict=True)]
    the_run = GraphRun(plan, shards, LABELS)
    the_run.go()
    return the_run


def test_the_optimum_is_that_of_the_unbiased_loss_row_by_row() -> None:
    the_run = run(make())
    coef, intercept = the_run.consensus()
    X, y = np.concatenate(BLOCKS), np.concatenate(LABELS)
    tilt = 1 / np.expm1(np.concatenate([EPSILONS[name] for name in NAMES]))
    slope = -y / (1 + np.exp(y * (X @ coef + intercept))) - tilt * y
    assert np.abs([*(X.T @ slope / len(y) + 0.1 * coef), slope.mean()]).max() < 1e-5
    assert the_run.state.converged


def test_the_certificate_claims_the_largest_epsilon_of_many_and_each_of_few() -> None:
    many = make().certificate()
    assert many.private
    assert many.unit == "label"
    assert many.epsilon(0.0) == pytest.approx(max(max(own) for own in EPSILONS.values()), rel=1e-12)
    assert len(many.claims) == 3
    few = make(label_epsilons={name: (1.0,) + (2.0,) * (rows - 1) for name, rows in zip(NAMES, ROWS, strict=True)})
    assert [claim.epsilon(0.0) for claim in few.certificate().claims] == pytest.approx([1.0, 2.0] * 3)
    assert run(few).state.trace[-1].epsilon == pytest.approx(2.0)


def test_pdml_does_not_flip_them_again_and_plans_no_release_of_labels() -> None:
    privacy = Privacy(epsilon=5.0, noise_seed=1)
    plan = make(privacy=privacy, max_rounds=5)
    assert plan.private is not None
    assert not any(isinstance(one, AllowedResponse) for own in plan.private.releases.values() for one in own)
    for node, labels in zip(run(plan).nodes, LABELS, strict=True):
        np.testing.assert_array_equal(node.side.data.labels, labels)  # type: ignore[attr-defined]
    again = make(privacy=privacy, max_rounds=5, label_epsilons=None, options=PaperOptions(label_epsilons=EPSILONS))
    changed = [(node.side.data.labels != own).any() for node, own in zip(run(again).nodes, LABELS, strict=True)]  # type: ignore[attr-defined]
    assert all(changed)


def test_their_noise_is_that_of_labels_which_the_run_randomizes() -> None:
    privacy = Privacy(epsilon=5.0)
    given, own = (
        make(privacy=privacy),
        make(privacy=privacy, label_epsilons=None, options=PaperOptions(label_epsilons=EPSILONS)),
    )
    assert given.private is not None
    assert own.private is not None
    assert given.private.noise == own.private.noise


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"label_epsilons": {"node 1": EPSILONS["node 1"]}}, "label_epsilons of node 2 are 0"),
        ({"label_epsilons": {name: (0.0,) * rows for name, rows in zip(NAMES, ROWS, strict=True)}}, "above 0"),
        ({"loss": "squared_hinge"}, "use 'logistic'"),
        ({"penalty": "none"}, "no lower bound"),
        ({"method": "primal", "privacy": Privacy(epsilon=1.0)}, "use mechanism='pdml'"),
        ({"privacy": Privacy(epsilon=1.0, label_epsilon=1.0)}, "a second time"),
        (
            {"privacy": Privacy(epsilon=1.0), "label_epsilons": None, "options": PaperOptions(randomized=True)},
            "randomized=True needs label_epsilons",
        ),
    ],
)
def test_refusals(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        make(**changes)

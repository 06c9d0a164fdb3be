"""The side of pdml: its labels, its sensitivity, and the noise of its objective, which cancels."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.plan import Plan
from tacit.types import Vector
from tests.algorithms.paper_nodes import Scripted, heard, plan, side


def data(rng: np.random.Generator, rows: int = 20, columns: int = 3) -> tuple[Vector, Vector]:
    X = rng.normal(size=(rows, columns))
    return X / np.linalg.norm(X, axis=1)[:, None], rng.choice([-1.0, 1.0], rows)


def objective_gradient(made: Plan, X: Vector, y: Vector, w: Vector) -> Vector:
    """Gradient of (1/m) sum of the modified loss + ridge, without the noise."""
    n = made.private.settings.nodes[made.graph.names[0]]  # type: ignore[union-attr]
    margin, tilt = y * (X @ w), 1 / np.expm1(1.0)
    slopes = -y * (1 / (1 + np.exp(margin)) + tilt)
    return np.asarray(n.weight / len(y) * X.T @ slopes + n.ridge * w)


def seen_gradient(made: Plan, w: Vector, own: Vector, others: Vector, dual: Vector) -> Vector:
    """What a neighbour computes from models alone: the gradient of the node's objective, noise included."""
    n = made.private.settings.nodes[made.graph.names[0]]  # type: ignore[union-attr]
    return -2 * dual - 2 * n.penalty * w + n.penalty * (own + others)


def test_the_noise_of_the_objective_cancels_in_the_difference_of_two_rounds() -> None:
    rng = np.random.default_rng(0)
    changes = {"privacy": {"epsilon": None}, "options": {"objective_noise": 9.0}}
    made = plan("pdml", (20, 20), 3, published=True, **changes)
    X, y = data(rng)
    node = side(made, X, y, Scripted(spread=0.97))
    zero, models, seen = np.zeros(3), [], []
    others = [zero, rng.normal(size=3), rng.normal(size=3)]
    dual, own = np.zeros(3), zero
    for t in (1, 2, 3):
        if t > 1:
            dual = dual + 0.5 * node.numbers.penalty * (own - others[t - 1])
        sent = node.step(t, heard(made, others[t - 1]) if t > 1 else {})["model"]
        models.append(sent)
        seen.append(seen_gradient(made, sent, own, others[t - 1], dual))
        own = sent
    noise = node.objective_noise / 2
    assert np.linalg.norm(noise) > 1  # there is noise, and one round alone is hidden by it
    true = [objective_gradient(made, X, y, w) for w in models]
    assert seen[0] == pytest.approx(true[0] + noise, abs=1e-9)
    assert seen[1] - seen[0] == pytest.approx(true[1] - true[0], abs=1e-9)
    assert seen[2] - seen[1] == pytest.approx(true[2] - true[1], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_replaced_records_move_a_model_by_no_more_than_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    closest = 0.0
    for _ in range(20):
        rows = int(rng.integers(1, 5))
        label_epsilon = float(rng.choice([0.2, 1.0, 4.0]))
        asked = {"label_epsilon": label_epsilon}
        made = plan("pdml", (rows, rows), 2, alpha=float(rng.choice([0.01, 1.0])), privacy=asked, options={"rounds": 2})
        claimed = made.certificate().main_claims[0].events[0].sensitivity  # type: ignore[attr-defined]
        for _ in range(10):
            X, y = data(rng, rows, 2)
            other, flipped = X.copy(), y.copy()
            other[0], flipped[0] = data(rng, 1, 2)[0][0], rng.choice([-1.0, 1.0])
            sent, inbox = (10 ** rng.uniform(-1, 2) * rng.normal(size=2) for _ in range(2))
            models = []
            for one in ((X, y), (other, flipped)):
                node = side(made, *one, Scripted(add=lambda name, value, sent=sent: sent))
                node.step(1, {})
                node.step(2, heard(made, inbox))
                models.append(node.model)
            reached = float(np.linalg.norm(models[0] - models[1]))
            assert reached <= claimed * (1 + 1e-6)
            closest = max(closest, reached / claimed)
    assert closest > 0.5


class Flipping(Scripted):
    """Turns every label round, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int]] = []

    def respond(self, name, symbols):  # type: ignore[no-untyped-def]
        self.asked.append((name, len(symbols)))
        return 1 - np.asarray(symbols)


def test_labels_are_randomized_once_and_the_true_ones_are_dropped() -> None:
    made = plan("pdml", (20, 20), 3, options={"label_epsilons": {"node 1": [0.5] * 5 + [2.0] * 15}})
    X, y = data(np.random.default_rng(1))
    release = Flipping()
    node = side(made, X, y, release)
    node.step(1, {})
    node.step(2, heard(made, np.zeros(3)))
    assert sorted(release.asked) == [("labels at 0.5", 5), ("labels at 2.0", 15)]
    assert np.array_equal(node.data.labels, -y)
    assert np.array_equal(node.local.data.labels, -y)
    assert np.array_equal(node.state()["labels"], -y)
    again = side(made, X, y, Scripted())
    again.restore(node.state())
    assert np.array_equal(again.data.labels, -y)


def test_the_kept_model_is_the_mean_of_released_ones_and_in_the_published_form_of_those_without_noise() -> None:
    X, y = data(np.random.default_rng(2))
    for published in (False, True):
        made = plan("pdml", (20, 20), 3, published=published, options={"rounds": 3})
        node = side(made, X, y, Scripted(add=lambda name, value: value + 1.0))
        models, sent = [], []
        for t in (1, 2, 3):
            sent.append(node.step(t, heard(made, np.zeros(3)) if t > 1 else {})["model"])
            models.append(node.model)
        assert node.coef == pytest.approx(np.mean(models if published else sent, axis=0))

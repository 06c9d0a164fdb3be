"""Targets of the default mechanism, what the label holder may send for each, and wicked rows and transcripts."""

from __future__ import annotations

import numpy as np

from tacit.mechanisms.gram.fit import GRADIENT, GRAM, MEAN, TRACE
from tacit.problem.losses import Softmax
from tests.algorithms.gram.replay import Case, plan_of

ROWS, COLUMNS = 5, 3
CLASSES = Softmax(4)
TARGETS: dict[str, tuple[object, dict]] = {
    "half": ("logistic", {}),
    "logistic": ("logistic", {"label_epsilon": 1.5}),
    "hinge": ("hinge", {}),
    "sigmoid": ("sigmoid", {}),
    "sigmoid, labels": ("sigmoid", {"label_epsilon": 1.5}),
    "squared": ("squared", {}),
    "huber": ("huber", {}),
    "absolute": ("absolute", {}),
    "classes": (CLASSES, {}),
    "counts": ("poisson", {}),
    "refit": ("logistic", {"refit": True}),
    "bits": ("logistic", {"epsilon": 1.0, "protect": "everyone"}),
    "symbols": ("logistic", {"epsilon": 4.0, "protect": "everyone"}),
}
TWO_SIGNED = ("squared", "huber", "absolute", "counts")


def case(target: str, rng: np.random.Generator, *, neighbours: str = "replace-one", wide: float = 2.0, **more) -> Case:
    """A case with a random inbox: offsets up to `wide`, any labels or symbols."""
    loss, privacy = TARGETS[target]
    plan = plan_of(loss, ROWS, COLUMNS, neighbours=neighbours, **privacy)
    offset, signs = rng.uniform(-wide, wide, ROWS), rng.choice([-1.0, 1.0], ROWS)
    inbox = {"offset": offset, "labels": signs}
    if target in TWO_SIGNED:
        inbox["labels"] = rng.normal(0, 3, ROWS)
    if target == "counts":
        inbox["labels"] = rng.choice([0.0, 1.0, 3.0, 1e6], ROWS)
    if target == "classes":
        inbox["offset"] = rng.uniform(-wide, wide, ROWS * CLASSES.outputs)
        inbox["labels"] = rng.integers(CLASSES.outputs, size=ROWS).astype(float)
    if target == "bits":
        inbox = {"symbols": signs, "cuts": np.zeros(0), "middles": np.sort(rng.normal(0, 2, 2))}
    if target == "symbols":
        middles = np.sort(rng.normal(0, wide, 4))
        inbox = {
            "symbols": rng.integers(0, 8, ROWS).astype(float),
            "cuts": np.sort(rng.normal(0, 1, 3)),
            "middles": middles,
        }
    return Case(plan, inbox, **more)


def row(rng: np.random.Generator) -> np.ndarray:
    """A row of any length: zero, tiny, at its bound, beyond it, huge, beyond what floats can square."""
    way = rng.standard_normal(COLUMNS)
    way /= np.linalg.norm(way)
    return way * rng.choice([0.0, 1e-9, 0.3, 0.7, 1.0, 1.0, 1.0, 1 + 1e-9, 5.0, 1e8, 1e59, 1e61, 1e160, 1e307])


def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two neighbours that differ in the first: random, flipped, turned a little, scaled, or zeroed."""
    rows = np.array([row(rng) for _ in range(ROWS)])
    if rng.random() < 0.5:  # the other rows sit together, so that the centre is far from zero
        rows[1:] = row(rng) * (1 + 0.01 * rng.standard_normal((ROWS - 1, 1)))
    other = rows.copy()
    kind = rng.integers(6)
    change = (row(rng), -rows[0], rows[0] + 1e-3 * row(rng), rows[0] * rng.uniform(0, 2), 0 * rows[0], -0.5 * rows[0])
    other[0] = change[kind]
    return rows, np.nan_to_num(other, posinf=1e308, neginf=-1e308)


def script(rng: np.random.Generator, *, centre: str, push: float) -> dict:
    """A transcript: centre at zero or at one end of the ball, any radius, coefficients pushed far to one side."""
    way = rng.standard_normal(COLUMNS)
    way /= np.linalg.norm(way)
    far, trace = 1e3 * (centre == "end"), rng.choice([-1e9, 0.1, 0.5, 1e9])
    return {
        MEAN: lambda value, time: far * way,
        TRACE: lambda value, time: np.array([trace]),
        GRAM: lambda value, time: value,
        GRADIENT: lambda value, time: push * rng.standard_normal(value.size),
    }


def turned(cosine: float, first: float = 1.0, second: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours whose first rows have these norms and this cosine; the others are zero."""
    rows, other = np.zeros((2, ROWS, COLUMNS))
    rows[0, 0] = first
    other[0, :2] = second * cosine, second * np.sqrt(1 - cosine**2)
    return rows, other


def still(trace: float = -1e9, push: np.ndarray | None = None) -> dict:
    """A transcript that says: centre 0, the least radius, coefficients 0, or pushed once in one direction."""
    quiet = {MEAN: lambda value, time: 0 * value, TRACE: lambda value, time: np.array([trace])}
    moved = (lambda value, time: 0 * value) if push is None else (lambda value, time: push if time == 0 else 0 * value)
    return {**quiet, GRAM: lambda value, time: 0 * value, GRADIENT: moved}

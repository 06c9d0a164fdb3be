"""Generated rows for one node of a plan, and transcripts that are likely, or chosen to be bad.

The plan keeps its method, its noise and its numbers. Where there is no intercept, a row of zeros adds nothing to what a
node minimises: a few rows with a smaller weight are then a node whose other rows are zeros. Columns are few for speed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.algorithms.consensus.papers import MODEL, NOISE, PaperSettings, at_round
from tacit.algorithms.consensus.pdml import PdmlSettings
from tacit.algorithms.consensus.tree import TreeSum
from tacit.audit.graph.scene import Inboxes, NodeScene
from tacit.audit.scene import Held
from tacit.errors import RunError, TacitError
from tacit.plan.graph import GraphPlan
from tacit.privacy.releases import Allowed, AllowedNormNoise, Planned
from tacit.runtime import door
from tacit.types import Message, Vector

SCENE_ROWS = (1, 4, 12)
OTHER_ROWS = 4
COLUMNS = 2
TRIES = 20
PUSHED = 30.0  # how far out a common model is pushed, in units of a row
Chooser = Callable[[GraphPlan, str, np.random.Generator], "Transcript"]


def is_paper(plan: GraphPlan) -> bool:
    """Whether it is one of the papers' methods, which all release models of the same kind of round."""
    return plan.private is not None and isinstance(plan.private.settings, PaperSettings)


def small(plan: GraphPlan, node: str, rows: int) -> GraphPlan:
    """The plan with few rows and columns."""
    private, columns = plan.private, min(plan.columns, COLUMNS)
    assert private is not None
    counts = tuple(_rows(plan, node, rows) if name == node else OTHER_ROWS for name in plan.graph.names)
    settings: Any = private.settings
    if isinstance(settings, PaperSettings):
        by_name = dict(zip(plan.graph.names, counts, strict=True))
        settings = replace(
            settings,
            nodes={
                name: replace(n, weight=n.weight * by_name[name] / plan.rows[plan.graph.number(name)])
                for name, n in settings.nodes.items()
            },
        )
        if isinstance(settings, PdmlSettings):
            # the least epsilon comes first: its label can move most, and the first row is the one that changes
            given = {name: _stretched(own, by_name[name]) for name, own in settings.label_epsilons.items()}
            settings = replace(settings, label_epsilons=given)
    else:
        settings = replace(settings, columns=columns)
    sizes = tuple(float(count) for count in counts)
    return replace(plan, rows=counts, sizes=sizes, columns=columns, private=replace(private, settings=settings))


def _rows(plan: GraphPlan, node: str, rows: int) -> int:
    whole = plan.rows[plan.graph.number(node)]
    return whole if is_paper(plan) and plan.problem.fit_intercept else min(rows, whole) if is_paper(plan) else rows


def _stretched(own: Sequence[float], count: int) -> tuple[float, ...]:
    ordered = sorted(own)
    return tuple((ordered * (count // len(ordered) + 1))[:count])


def row_norm(plan: GraphPlan, node: str) -> float:
    """The public norm of a node's rows."""
    return 1.0 if plan.private is None else float(plan.private.settings.row_norm)


# --- likely transcripts ------------------------------------------------------------------------------


def node_scenes(
    plan: GraphPlan,
    node: str,
    rows: tuple[int, ...] = SCENE_ROWS,
    used: tuple[Planned, ...] | None = None,
    *,
    far: bool = False,
) -> Callable[[np.random.Generator], NodeScene]:
    """A maker of small scenes around one node, with recorded and chosen transcripts in turn.

    With `far` all have neighbours far out, and releases that are drawn.
    """
    kinds: tuple[Chooser | None, ...] = (
        (told,) if far else (told, None, still, wild) if is_paper(plan) else (told, None)
    )
    turns = itertools.cycle(kinds)

    def make(rng: np.random.Generator) -> NodeScene:
        choose = next(turns)
        for _ in range(TRIES):
            few = small(plan, node, int(rng.choice(rows)))
            data = {name: _held(few, name, rng, own=name == node) for name in few.graph.names}
            try:
                return _scene(few, node, data, choose, used, rng)
            except TacitError as error:
                reason = str(error)
        raise RunError(f"no small run of this plan could be made to audit: {reason}")

    return make


def _scene(
    plan: GraphPlan,
    node: str,
    data: dict[str, Held],
    choose: Chooser | None,
    used: tuple[Planned, ...] | None,
    rng: np.random.Generator,
) -> NodeScene:
    if choose is None:
        return NodeScene(plan, data, node, used, int(rng.integers(2**31)))
    if is_paper(plan):
        made = choose(plan, node, rng)
        return made.scene(plan, node, data[node] if made.row is None else _alone(data[node], made.row), used)
    data[node] = _alone(data[node], lone_row(plan, node, -0.2))
    scene = NodeScene(plan, data, node, used, int(rng.integers(2**31)))
    scene.inboxes = pushed(plan, node, scene.inboxes)
    return scene


def pushed(plan: GraphPlan, node: str, inboxes: Inboxes) -> Inboxes:
    """What a node of the Gaussian method heard, changed so that the common model is far out from the second sum on."""
    assert plan.private is not None
    settings, tree = plan.private.settings, TreeSum(plan.graph, node)
    push = np.zeros(plan.columns + 1)
    push[0] = PUSHED * (settings.nodes if settings.form == "exact" else -settings.total)
    first = 1 + tree.rounds if settings.centred else 0  # that of the centre comes before
    found: list[Mapping[str, Message]] = []
    for t, inbox in enumerate(inboxes, 1):
        changed = dict(inbox)
        told = [name for name, message in inbox.items() if message.arrays and t > first]
        for name in told[:1]:  # one branch, or the whole sum: either moves it by as much
            arrays = {key: np.array(array, np.float64) + push for key, array in inbox[name].arrays.items()}
            changed[name] = replace(inbox[name], arrays=arrays)
        found.append(changed)
    return found


def _held(plan: GraphPlan, name: str, rng: np.random.Generator, *, own: bool) -> Held:
    count, norm = plan.rows[plan.graph.number(name)], row_norm(plan, name)
    rows = rng.normal(size=(count, plan.columns)) * norm
    if own and rng.random() < 0.5:
        rows = 0.2 * rows + norm * rng.normal(size=plan.columns)
    if rng.random() < 0.5:
        rows[1:] = 0.0
    return Held(rows, labels(plan, count, rng))


def labels(plan: GraphPlan, count: int, rng: np.random.Generator) -> Vector:
    """Fair coins, or numbers of about the public size."""
    if plan.problem.loss.task != "classification":
        return np.asarray(rng.normal(size=count) * getattr(getattr(plan.private, "settings", None), "label_norm", 1.0))
    return np.where(rng.random(count) < 0.5, 1.0, -1.0)


def _alone(held: Held, row: Vector) -> Held:
    """One row among zeros, all of one label."""
    rows = np.zeros_like(held.rows)
    rows[0] = row
    return Held(rows, np.abs(held.labels))


# --- chosen transcripts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transcript:
    """What a node hears and releases.

    Attributes
    ----------
    heard : tuple of array
        The model that all neighbours send, from the second round on and at the end.
    script : mapping of str to array
        By release: what the node sends, where that is not drawn.
    row : array or None
        A row, among zeros, for which it is bad.
    """

    heard: tuple[Vector, ...]
    script: Mapping[str, Vector]
    row: Vector | None = None

    def inboxes(self, plan: GraphPlan, node: str) -> list[Mapping[str, Message]]:
        """As messages."""
        names = plan.graph.neighbours(node)
        rounds = enumerate(self.heard, 1)
        return [{}, *({name: door.leave(name, t, {MODEL: model}) for name in names} for t, model in rounds)]

    def scene(self, plan: GraphPlan, node: str, held: Held, used: tuple[Planned, ...] | None = None) -> NodeScene:
        """Where it is played."""
        return NodeScene(plan, {node: held}, node, used, inboxes=self.inboxes(plan, node), script=self.script)


def size_of(plan: GraphPlan) -> int:
    """Entries of a model."""
    return plan.columns + int(plan.problem.fit_intercept)


def still(plan: GraphPlan, node: str, rng: np.random.Generator) -> Transcript:
    """Nothing moves, until a last round that ends far out: a node's own state, if it has one, runs away from it."""
    rounds, zero, far = _rounds(plan), np.zeros(size_of(plan)), np.zeros(size_of(plan))
    far[0] = 20.0 / row_norm(plan, node) * (1.0 if rng.random() < 0.5 else -1.0)
    script = scripted(plan, node, [zero] * (rounds - 1) + [far])
    return Transcript((zero,) * rounds, script, lone_row(plan, node, 1.0))


def wild(plan: GraphPlan, node: str, rng: np.random.Generator) -> Transcript:
    """Anything, small or large."""
    rounds, reach = _rounds(plan), 10 ** rng.uniform(-1, 1.3) / row_norm(plan, node)
    models = [reach * rng.normal(size=size_of(plan)) for _ in range(2 * rounds)]
    return Transcript(tuple(models[rounds:]), scripted(plan, node, models[:rounds]))


def told(plan: GraphPlan, node: str, rng: np.random.Generator) -> Transcript:
    """Neighbours far out, where the slopes of a row and of its mirror image are at their bound; releases are drawn."""
    far = np.zeros(size_of(plan))
    far[0] = PUSHED / row_norm(plan, node)
    return Transcript((far,) * _rounds(plan), {}, lone_row(plan, node, -0.2))


def lone_row(plan: GraphPlan, node: str, first: float) -> Vector:
    """A row of the public norm with this part of it in the first column, and the rest in the second."""
    row = np.zeros(plan.columns)
    row[:2] = (first, (1 - first**2) ** 0.5)[: plan.columns]
    return np.asarray(row * row_norm(plan, node))


def scripted(plan: GraphPlan, node: str, models: Sequence[Vector]) -> dict[str, Vector]:
    """A script in which these models are released; the little noise that hides last digits is drawn."""
    assert plan.private is not None
    planned = {one.name: one for one in plan.private.releases[node]}
    script = {}
    for t, model in enumerate(models, 1):
        noise, value = at_round(NOISE, t), at_round(MODEL, t)
        if isinstance(planned.get(noise), AllowedNormNoise):
            script[noise] = model
        elif isinstance(planned.get(value), Allowed):
            script[value] = model
    return script


def _rounds(plan: GraphPlan) -> int:
    assert plan.private is not None
    return plan.private.rounds

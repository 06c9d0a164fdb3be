"""One node of a run whose rows may be exchanged, on generated rows: what it hears is recorded once, or chosen.

The runtime's own node and releaser are used, so that what is audited is what runs.

Rows are generated, and transcripts are likely or chosen to be bad. The plan keeps its method, its noise and its
numbers. Where there is no intercept, a row of zeros adds nothing to what a node minimises: a few rows with a smaller
weight are then a node whose other rows are zeros. Columns are few for speed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tacit.audit.graph.replay import NodeReplay, TappedSide
from tacit.audit.replay import Symbols
from tacit.audit.scene import Pair, PartyData, PartyOutput, apart, copied, distance
from tacit.errors import RunError, TacitError
from tacit.mechanisms.perturbed import MODEL, NOISE, PaperSettings, at_round
from tacit.mechanisms.perturbed.pdml import PdmlSettings
from tacit.plan import Plan
from tacit.privacy.releases import Allowed, AllowedNormNoise, Planned, Releaser
from tacit.run import door
from tacit.run.drive import QUIET
from tacit.run.graph import GraphRun
from tacit.run.node import Node, Outbox
from tacit.solvers.base import Problem, Release
from tacit.solvers.consensus.base import NodeData, NodeSide, Place, PrivateConsensus, TreeSum
from tacit.types import Arrays, Message, Shard, Vector

# --- One node of a run whose rows may be exchanged: what it hears is recorded once, or chosen, and can be said again


Wrap = Callable[[Release], Release]
Inboxes = Sequence[Mapping[str, Message]]
SOLVED = 1e-6  # models that are sent as they were solved may differ by this: published forms take solves for exact


def honest_nodes(plan: Plan) -> int:
    """How many nodes' noise protects a row: under masks that of all who keep to themselves."""
    return 1 if plan.private is None else plan.private.honest


class NodeScene:
    """One node of a plan, what it hears, and what it plans to release.

    Parameters
    ----------
    plan : Plan
        With a private method.
    data : mapping of str to PartyData
        Rows and labels of every node; few, for speed. Of the node alone where `inboxes` are given.
    node : str
        Whose data are exchanged.
    used : sequence of planned releases, optional
        What the noise really is, where it is not as planned: to try whether an audit notices.
    seed : int
        Of the noise in the run that is recorded.
    inboxes : sequence of mapping of str to Message, optional
        What the node hears in each round and at the end, where it is chosen and not recorded.
    script : mapping of str to array, optional
        What it releases, by name, where that is chosen.
    """

    holder = True  # a node's labels belong to its records

    def __init__(
        self,
        plan: Plan,
        data: Mapping[str, PartyData],
        node: str,
        used: Sequence[Planned] | None = None,
        seed: int = 0,
        inboxes: Inboxes | None = None,
        script: Mapping[str, Vector] | None = None,
    ) -> None:
        assert plan.private is not None
        self.honest = honest_nodes(plan)
        # under masks a sum is seen, in which the noise of all honest nodes is: it is added here, and masks are left out
        self.plan = replace(plan, secure=False, private=replace(plan.private, masked=False))
        self.node, self.held, self.script = node, data[node], script
        own = tuple(plan.private.releases[node])
        self.used = own if used is None else tuple(used)
        self.planned = tuple(_together(one, self.honest) for one in own)
        self.inboxes = tuple(inboxes) if inboxes is not None else self._listen(data, seed)

    def play(self, held: PartyData, seed: int | None, wrap: Wrap | None = None) -> PartyOutput:
        """Let the node answer with these data."""
        plan = self._changed(seed, wrap, held)
        with np.errstate(**QUIET):
            node = Node(Shard(self.node, held.rows), held.labels, None, plan)
            last = len(self.inboxes)
            sent = [_flat(node.answer(t, inbox)) for t, inbox in enumerate(self.inboxes[:-1], 1)]
            node.finish(last, self.inboxes[-1])
            return PartyOutput(tuple(sent), np.append(node.coef, node.intercept))

    def compare(self, first: PartyData, second: PartyData, seed: int | None = None) -> Pair:
        """Run on the first data, then hand the same transcript to the second; neither may stop the run."""
        kept: list[NodeReplay] = []

        def record(release: Release) -> Release:
            kept.append(NodeReplay(release, self.planned, self.script))
            return kept[0]

        before = self.play(first, seed, record)
        kept[0].rewind()
        after = self.play(second, seed, lambda _: kept[0])
        if not kept[0].complete:
            raise RunError(f"{self.node}: the neighbour makes fewer releases: how many depends on the data")
        leaks = max((apart(a, b) for a, b in zip(before.sent, after.sent, strict=True)), default=0.0)
        exact = getattr(self.plan.private.settings, "published", False) if self.plan.private else False
        return Pair(kept[0].cost, 0.0 if exact and leaks <= SOLVED else leaks, distance(before.coef, after.coef))

    def noises(self, held: PartyData) -> dict[str, Vector]:
        """The noise of each round that leads these rows through the scripted transcript."""
        kept: list[NodeReplay] = []

        def record(release: Release) -> Release:
            kept.append(NodeReplay(release, self.planned, self.script))
            return kept[0]

        self.play(held, 0, record)
        return kept[0].drawn

    def _listen(self, data: Mapping[str, PartyData], seed: int) -> Inboxes:
        """Run all nodes once and write down what this one hears."""
        names = self.plan.graph.names
        run = GraphRun(
            self._changed(seed, None, self.held),
            [Shard(name, data[name].rows) for name in names],
            [data[name].labels for name in names],
        )
        engine = RecordingGraphEngine(run.engine, self.node)
        run.engine = engine  # type: ignore[assignment]
        run.go()
        return tuple(engine.heard)

    def _changed(self, seed: int | None, wrap: Wrap | None, held: PartyData) -> Plan:
        """The plan with this noise, the node's releases passed through `wrap`."""
        private = self.plan.private
        assert private is not None
        solver = cast("PrivateConsensus", self.plan.consensus)
        if wrap is not None:
            solver = replace(solver, node=self._tapped(solver, seed, wrap, held))
        changed = replace(
            private,
            solver=solver,
            releases={**private.releases, self.node: self.used},
            privacy=replace(private.privacy, noise_seed=seed),
        )
        return replace(self.plan, private=changed)

    def _tapped(self, solver: PrivateConsensus, seed: int | None, wrap: Wrap, held: PartyData) -> Any:
        def make(problem: Problem, place: Place, data: NodeData, settings: Any, release: Release) -> NodeSide:
            whole = release if self.honest == 1 else JointReleases(release, self.used, self._others(), seed)
            wrapped = wrap(whole)
            side = solver.node(problem, place, data, settings, wrapped)
            if not isinstance(wrapped, NodeReplay):
                return side
            wrapped.watch(side, held)
            return TappedSide(side, wrapped)

        return make

    def _others(self) -> list[str]:
        """Other nodes that keep to themselves."""
        return [name for name in self.plan.graph.names if name != self.node][: self.honest - 1]


class JointReleases:
    """Releases with the noise of several nodes: what can be seen of them is their sum, and their values are known."""

    def __init__(self, own: Release, planned: Sequence[Planned], others: Sequence[str], seed: int | None) -> None:
        self.owner, self._own = own.owner, own
        self._others = [Releaser(planned, name, seed) for name in others]

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """The value, with the noise of all."""
        found = self._own.add(name, value)
        for other in self._others:
            found = found + other.add(name, np.zeros(found.shape))
        return found

    def respond(self, name: str, symbols: npt.ArrayLike) -> Symbols:
        """Randomized symbols, as the node alone releases them."""
        return self._own.respond(name, symbols)

    def draw(self, name: str, size: int) -> Vector:
        """Noise that the node alone draws."""
        return self._own.draw(name, size)

    def uniform(self, size: int) -> Vector:
        """Uniform numbers that the node alone draws."""
        return self._own.uniform(size)


class RecordingGraphEngine:
    """An engine of a graph that writes down what one node hears."""

    def __init__(self, inner: Any, node: str) -> None:
        self.inner, self.node = inner, node
        self.heard: list[dict[str, Message]] = []

    @property
    def bytes_by_edge(self) -> dict[tuple[str, str], int]:
        """Bytes that went over each edge, as the engine behind this one counts them."""
        return dict(self.inner.bytes_by_edge)

    def exchange(self, round_: int) -> int:
        """Write down what the node has heard, then play the round."""
        self._listen()
        return int(self.inner.exchange(round_))

    def finish(self, round_: int) -> None:
        """Write down what the node has heard, then end the run."""
        self._listen()
        self.inner.finish(round_)

    def _listen(self) -> None:
        self.heard.append({name: copied(message) for name, message in self.inner.inboxes[self.node].items()})


def _together(planned: Planned, honest: int) -> Planned:
    """A planned release as it is seen: with the noise of all honest nodes."""
    if honest == 1 or not isinstance(planned, Allowed):
        return planned
    return replace(planned, sd=planned.sd * honest**0.5)


def _flat(outbox: Outbox) -> Arrays:
    """All that left a node, as numbers."""
    named = ((f"{to}: {name}", array) for to, sent in outbox.items() for name, array in sent.arrays.items())
    return {name: np.array(array, np.float64) for name, array in named}


# --- Generated rows for one node of a plan, and transcripts that are likely, or chosen to be bad


SCENE_ROWS = (1, 4, 12)
OTHER_ROWS = 4
COLUMNS = 2
TRIES = 20
PUSHED = 30.0  # how far out a common model is pushed, in units of a row
Chooser = Callable[[Plan, str, np.random.Generator], "Transcript"]


def is_paper(plan: Plan) -> bool:
    """Whether it is one of the papers' methods, which all release models of the same kind of round."""
    return plan.private is not None and isinstance(plan.private.settings, PaperSettings)


def small(plan: Plan, node: str, rows: int) -> Plan:
    """The plan with few rows and columns."""
    private, columns = plan.private, min(plan.samples.columns, COLUMNS)
    assert private is not None
    counts = tuple(_rows(plan, node, rows) if name == node else OTHER_ROWS for name in plan.graph.names)
    settings: Any = private.settings
    if isinstance(settings, PaperSettings):
        by_name = dict(zip(plan.graph.names, counts, strict=True))
        settings = replace(
            settings,
            nodes={
                name: replace(n, weight=n.weight * by_name[name] / plan.samples.rows_of(name))
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
    fewer = replace(plan.samples, rows=counts, weights=sizes, columns=columns)
    return replace(plan, layout=fewer, private=replace(private, settings=settings))


def _rows(plan: Plan, node: str, rows: int) -> int:
    whole = plan.samples.rows_of(node)
    return whole if is_paper(plan) and plan.problem.fit_intercept else min(rows, whole) if is_paper(plan) else rows


def _stretched(own: Sequence[float], count: int) -> tuple[float, ...]:
    ordered = sorted(own)
    return tuple((ordered * (count // len(ordered) + 1))[:count])


def row_norm(plan: Plan, node: str) -> float:
    """The public norm of a node's rows."""
    return 1.0 if plan.private is None else float(plan.private.settings.row_norm)


# --- likely transcripts ------------------------------------------------------------------------------


def node_scenes(
    plan: Plan,
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
        (likely_transcript,)
        if far
        else (likely_transcript, None, still, wild)
        if is_paper(plan)
        else (likely_transcript, None)
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
    plan: Plan,
    node: str,
    data: dict[str, PartyData],
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


def pushed(plan: Plan, node: str, inboxes: Inboxes) -> Inboxes:
    """What a node of the Gaussian method heard, changed so that the common model is far out from the second sum on."""
    assert plan.private is not None
    settings, tree = plan.private.settings, TreeSum(plan.graph, node)
    push = np.zeros(settings.size)
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


def _held(plan: Plan, name: str, rng: np.random.Generator, *, own: bool) -> PartyData:
    count, norm = plan.samples.rows_of(name), row_norm(plan, name)
    rows = rng.normal(size=(count, plan.samples.columns)) * norm
    if own and rng.random() < 0.5:
        rows = 0.2 * rows + norm * rng.normal(size=plan.samples.columns)
    if rng.random() < 0.5:
        rows[1:] = 0.0
    return PartyData(rows, labels(plan, count, rng))


def labels(plan: Plan, count: int, rng: np.random.Generator) -> Vector:
    """Fair coins, classes, or numbers and counts of about the public size."""
    loss, norm = plan.problem.loss, getattr(getattr(plan.private, "settings", None), "label_norm", 1.0)
    if loss.task == "counts":
        return np.asarray(np.floor(2 * norm * rng.random(count)))
    if loss.task != "classification":
        return np.asarray(rng.normal(size=count) * norm)
    if loss.outputs > 1:
        return rng.integers(loss.outputs, size=count).astype(np.float64)
    return np.where(rng.random(count) < 0.5, 1.0, -1.0)


def _alone(held: PartyData, row: Vector) -> PartyData:
    """One row among zeros, all of one label."""
    rows = np.zeros_like(held.rows)
    rows[0] = row
    return PartyData(rows, np.abs(held.labels))


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

    def inboxes(self, plan: Plan, node: str) -> list[Mapping[str, Message]]:
        """What the node hears in each round, as messages of its neighbours."""
        names = plan.graph.neighbours(node)
        rounds = enumerate(self.heard, 1)
        return [{}, *({name: door.leave(name, t, {MODEL: model}) for name in names} for t, model in rounds)]

    def scene(self, plan: Plan, node: str, held: PartyData, used: tuple[Planned, ...] | None = None) -> NodeScene:
        """The scene in which the node hears this, with these data."""
        return NodeScene(plan, {node: held}, node, used, inboxes=self.inboxes(plan, node), script=self.script)


def size_of(plan: Plan) -> int:
    """Entries of a model."""
    return plan.samples.columns + int(plan.problem.fit_intercept)


def still(plan: Plan, node: str, rng: np.random.Generator) -> Transcript:
    """Nothing moves, until a last round that ends far out: a node's own state, if it has one, runs away from it."""
    rounds, zero, far = _rounds(plan), np.zeros(size_of(plan)), np.zeros(size_of(plan))
    far[0] = 20.0 / row_norm(plan, node) * (1.0 if rng.random() < 0.5 else -1.0)
    script = scripted(plan, node, [zero] * (rounds - 1) + [far])
    return Transcript((zero,) * rounds, script, lone_row(plan, node, 1.0))


def wild(plan: Plan, node: str, rng: np.random.Generator) -> Transcript:
    """Anything, small or large."""
    rounds, reach = _rounds(plan), 10 ** rng.uniform(-1, 1.3) / row_norm(plan, node)
    models = [reach * rng.normal(size=size_of(plan)) for _ in range(2 * rounds)]
    return Transcript(tuple(models[rounds:]), scripted(plan, node, models[:rounds]))


def likely_transcript(plan: Plan, node: str, rng: np.random.Generator) -> Transcript:
    """Neighbours far out, where the slopes of a row and of its mirror image are at their bound; releases are drawn."""
    far = np.zeros(size_of(plan))
    far[0] = PUSHED / row_norm(plan, node)
    return Transcript((far,) * _rounds(plan), {}, lone_row(plan, node, -0.2))


def lone_row(plan: Plan, node: str, first: float) -> Vector:
    """A row of the public norm with this part of it in the first column, and the rest in the second."""
    row = np.zeros(plan.samples.columns)
    row[:2] = (first, (1 - first**2) ** 0.5)[: plan.samples.columns]
    return np.asarray(row * row_norm(plan, node))


def scripted(plan: Plan, node: str, models: Sequence[Vector]) -> dict[str, Vector]:
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


def _rounds(plan: Plan) -> int:
    assert plan.private is not None
    return plan.private.rounds

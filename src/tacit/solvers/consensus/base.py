"""What every solver of the sample split looks like: one side per node, and messages to neighbours.

Maxima and sums over all nodes are known to everybody in the same round, without a server.

**Maxima.** Let D be the diameter, x_i(t) the numbers of node i in round t, and B(i, k) the nodes within k edges of i.
Node i keeps

    A_k(t) = max of x_j(t - k) over j in B(i, k),   k = 0 .. D,

and sends A_0 .. A_{D-1}. The union of B(j, k-1) over i and its neighbours j is B(i, k), hence

    A_0(t) = x_i(t),   A_k(t) = max of A_{k-1}(t-1) over i and its neighbours,

which needs the messages of the round before only. B(i, D) is the whole graph, so A_D(t) is the maximum over all nodes
of what they had in round t - D: the same number at every node, and to the last bit, as a maximum is never rounded. So
every decision that is a function of A_D(t) and of public numbers is taken by all nodes in the same round: to stop, too.

**Sums** go along a tree of the graph. Every node knows the graph, hence the same tree: shortest ways from a node in the
middle (the root). In the round in which a sum begins the leaves send their values towards the root; each other node
adds its own and sends on in the round in which the last of its branches has reached it. The root has the sum `depth`
rounds later and sends it back outwards. After 2 depth rounds every node has it, bit for bit the same, as it was rounded
at the root alone. The root is no server: it relays like any other node, keeps nothing, and any node could take its
place.

**Under masks** every node, the root too, hides its own value first; what goes up the tree are sums of hidden values,
and the masks cancel in the sum over all nodes alone. Each node's masks are bound to all totals that it has heard
(docs/proofs/graph.md, section 9). Masks are drawn anew when a run goes on, so a sum that was on its way up begins
again, with the same values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol, cast

import numpy as np

from tacit.blocks import coef_of_classes, scores_of
from tacit.errors import RunError
from tacit.problem.losses.base import Loss
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Problem, Release
from tacit.topologies import Graph
from tacit.types import Arrays, Vector, Words

# --- What every solver of the sample split looks like: one side per node, and messages to neighbours


def as_sent(arrays: Arrays, name: str, size: int) -> Vector:
    """The vector of a neighbour's message, checked before any row is used: refusals depend on the message alone.

    Raises
    ------
    RunError
        Where it is missing, of another length or type, or not finite.
    """
    found = arrays.get(name)
    if found is None or found.dtype != np.float64 or found.shape != (size,) or not np.isfinite(found).all():
        raise RunError(f"a neighbour sent no {name} of {size} numbers: its side must run the same version")
    return found


class Rows(Protocol):
    """A node's rows as a linear map: a `Block`, `SeveralBlock` or `ClippedRows`."""

    @property
    def n(self) -> int:
        """Rows."""

    @property
    def d(self) -> int:
        """Columns."""

    def predict(self, x: Vector) -> Vector:
        """The rows times x."""

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""


@dataclass(frozen=True, eq=False)
class NodeData:
    """What a node alone holds: its rows, their labels, and their weights where they are not all 1."""

    rows: Rows
    labels: Vector
    weights: Vector | None = None


class Cover(Protocol):
    """How a node's part of a sum is hidden: under masks that cancel in the sum over all nodes, and in no other."""

    def hide(self, round_: int, value: Vector, seen: bytes) -> Words:
        """Own part of the sum that began in a round, under masks that cancel among those who have seen the same."""

    def add(self, total: Words, part: Words) -> None:
        """Add what a branch sent to `total`, in place; refuses what is no hidden part."""

    def open(self, total: Words) -> Vector:
        """The sum over all nodes; refuses one in which masks are left."""


@dataclass(frozen=True)
class Place:
    """What a node knows of the others: the graph, and how much each node holds; all of it public.

    Attributes
    ----------
    name : str
        The node.
    graph : Graph
    sizes : tuple of float
        Sum of the row weights at each node (numbers of rows where there are no weights), in the order of the graph.
    total : float
        Sum of all sizes: N of the objective.
    columns : int
        Columns of every node's rows.
    cover : Cover or None
        How the node hides its parts of sums; None where they travel as they are.
    """

    name: str
    graph: Graph
    sizes: tuple[float, ...]
    total: float
    columns: int
    cover: Cover | None = field(default=None, compare=False)

    @property
    def number(self) -> int:
        """The node's number in the graph."""
        return self.graph.number(self.name)

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Names of the neighbours."""
        return self.graph.neighbours(self.name)

    @property
    def share(self) -> float:
        """The node's own part of the total."""
        return self.sizes[self.number] / self.total


@dataclass(frozen=True)
class NodeProgress:
    """What a node tells of the run after a round, from its own state and its neighbours' messages.

    That of a private solver holds public numbers alone: see `private_progress`.

    Attributes
    ----------
    primal, dual : float
        Residuals at this node: how far it is from its neighbours; how far it moved, in units of the objective.
    rho : float
        Penalty in force (0 for a solver that has none).
    done : bool
        True where the stopping rule holds; then it holds at every node in the same round.
    note : str
        Why a run that is not done must stop now; empty otherwise.
    """

    primal: float = 0.0
    dual: float = 0.0
    rho: float = 0.0
    done: bool = False
    note: str = ""


def private_progress(rho: float) -> NodeProgress:
    """All that a node of a private solver tells of a round: a number of the plan, and nothing of its solves."""
    return NodeProgress(primal=math.nan, dual=math.nan, rho=rho)


@dataclass(frozen=True)
class Sent:
    """What a node sends in one round: arrays to all its neighbours, and some more to one or the other."""

    to_all: Arrays
    to_one: Mapping[str, Arrays] = field(default_factory=dict)


class NodeSide(Protocol):
    """State in, arrays out: everything a node does in a round except deciding what may leave.

    A round is one message of each node to each of its neighbours. In the first round the inbox is empty.
    """

    @property
    def coef(self) -> Vector:
        """The node's model: one number for each column."""

    @property
    def intercept(self) -> Any:
        """The constant of the node's model; of several classes one for each."""

    @property
    def progress(self) -> NodeProgress:
        """How far the node has come, after a step."""

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays | Sent:
        """From the neighbours' messages of the round before, by name, to those of this round (arrays go to all)."""

    def finish(self, inbox: Mapping[str, Arrays]) -> None:
        """Take in the neighbours' messages of the last round; nothing is sent any more."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""


@dataclass(frozen=True)
class Consensus:
    """An ordinary solver by name: what it refuses, and how a node's side is made.

    Attributes
    ----------
    name : str
    refusal : callable
        (loss, regularizer) -> why this pair cannot be solved by it; empty where it can.
    node : callable
        (problem, place, data) -> the node's side.
    """

    name: str
    refusal: Callable[[Loss, Regularizer], str]
    node: Callable[[Problem, Place, NodeData], NodeSide]

    def make_node(
        self, problem: Problem, place: Place, data: NodeData, settings: Any, release: Release | None
    ) -> NodeSide:
        """A node's side, which has no use for settings and releases."""
        return self.node(problem, place, data)


@dataclass(frozen=True)
class PrivateConsensus:
    """A solver whose nodes release noisy values only.

    Attributes
    ----------
    name : str
    node : callable
        (problem, place, data, settings, release) -> the node's side; what it returns may leave as it is. `settings`
        are public numbers of the plan; `release` knows the node's planned releases by name.
    """

    name: str
    node: Callable[[Problem, Place, NodeData, Any, Release], NodeSide]

    def make_node(
        self, problem: Problem, place: Place, data: NodeData, settings: Any, release: Release | None
    ) -> NodeSide:
        """A node's side."""
        assert release is not None, "a noisy node has releases"
        return self.node(problem, place, data, settings, release)


def split_model(model: Vector, columns: int) -> tuple[Vector, float]:
    """(coefficients, intercept) of a vector in which the intercept, where there is one, is last."""
    return model[:columns], float(model[columns]) if model.size > columns else 0.0


def split_classes(model: Vector, columns: int, outputs: int) -> tuple[Vector, Vector]:
    """The same of several classes: a row of coefficients for each, and an intercept for each; both sum to zero."""
    coef, intercepts = model[: columns * outputs], model[columns * outputs :]
    constants = intercepts - intercepts.mean() if intercepts.size else np.zeros(outputs)
    return coef_of_classes(coef, outputs), constants


def objective_at(problem: Problem, data: NodeData, share: float, total: float, coef: Vector, intercept: Any) -> float:
    """A node's part of the objective: its loss over the total, and its share of the penalty."""
    coef = coef.T.ravel()
    scores = data.rows.predict(coef) + scores_of(problem.loss.outputs).repeat(intercept, data.labels.size)
    loss = problem.loss.total(scores, data.labels, data.weights) / total
    penalty = (
        problem.alpha * problem.regularizer.value(coef) if problem.alpha > 0 or problem.regularizer.constraint else 0
    )
    return float(loss + share * penalty)


# --- Maxima over all nodes, known to everybody in the same round without a server


UNKNOWN = 1e100  # before a node has anything to say: larger than whatever it may say


class Flood:
    """One node's table A_0 .. A_D of `count` numbers."""

    def __init__(self, diameter: int, count: int) -> None:
        self.table = np.full((diameter + 1, count), UNKNOWN)

    def step(self, own: Vector, tables: Iterable[Vector]) -> Vector:
        """Take in this round's own numbers and the neighbours' tables; return the maxima of `diameter` rounds ago."""
        older = self.table[:-1]
        for table in tables:
            older = np.maximum(older, table)
        self.table = np.vstack([np.minimum(own, UNKNOWN)[None, :], older])
        return np.asarray(self.table[-1])

    @property
    def message(self) -> Vector:
        """What goes to all neighbours."""
        return self.table[:-1]

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {"flood.table": self.table}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.table = state["flood.table"]


# --- Sums over all nodes along a tree of the graph, known to everybody at the same round


UP, DOWN = "sum_up", "sum_down"


class TreeSum:
    """One node's part in sums over all nodes; one sum at a time."""

    def __init__(self, graph: Graph, name: str, cover: Cover | None = None) -> None:
        number = graph.number(name)
        parents, heights = graph.tree
        self.depth = heights[graph.centre]
        self.parent = None if parents[number] < 0 else graph.names[parents[number]]
        self.children = tuple(graph.names[k] for k in graph.children[number])
        self.height = heights[number]
        self.cover = cover
        self.begun = 0  # the round in which the sum began; 0 where there is none
        self.partial: Vector | None = None  # of the branch; under masks the own value
        self.hidden: Words | None = None  # under masks: of the branch
        self.added: set[str] = set()  # under masks: children whose parts are in it
        self.total: Vector | None = None
        self.heard = b""  # under masks: fingerprint of all totals so far

    @property
    def rounds(self) -> int:
        """Rounds from the beginning of a sum to its end."""
        return 2 * self.depth

    def begin(self, round_: int, value: Vector) -> None:
        """Begin a sum; every node does so in the same round."""
        self.begun, self.partial, self.hidden, self.total = round_, value, None, None

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> dict[str, Arrays]:
        """Take in what neighbours sent; return what goes to which of them now."""
        if self.begun == 0:
            return {}
        assert self.partial is not None
        if round_ == self.begun:  # what came in this round belongs to the sum before
            self._hide()
            inbox = {}
        for child in self.children:
            if UP in inbox.get(child, {}):
                self._add(child, inbox[child])
        if self.parent is not None and DOWN in inbox.get(self.parent, {}):
            self.total = as_sent(inbox[self.parent], DOWN, self.partial.size)
            return {child: {DOWN: self.total} for child in self.children}
        if round_ != self.begun + self.height:
            return {}
        if self.cover is not None and len(self.added) < len(self.children):
            raise RunError("a branch sent no part of a sum under masks: what is left of it does not leave alone")
        if self.parent is not None:
            return {self.parent: {UP: self._branch}}
        self.total = self.partial if self.cover is None else self.cover.open(self._masked)
        return {child: {DOWN: self.total} for child in self.children}

    def _hide(self) -> None:
        if self.cover is not None:
            assert self.partial is not None
            self.hidden, self.added = self.cover.hide(self.begun, self.partial, self.heard), set()

    def _add(self, child: str, arrays: Arrays) -> None:
        """Add what a branch sent; under masks once."""
        assert self.partial is not None
        if self.cover is None:
            self.partial = self.partial + as_sent(arrays, UP, self.partial.size)
            return
        if child in self.added:
            raise RunError(f"node {child!r} sent its part of a sum under masks twice")
        self.cover.add(self._masked, cast("Words", arrays[UP]))
        self.added.add(child)

    @property
    def _branch(self) -> Any:
        """The sum over the node's branch, as it travels; a copy, as a sum may begin again."""
        return self.partial if self.cover is None else self._masked.copy()

    @property
    def _masked(self) -> Words:
        if self.hidden is None:
            raise RunError("the masks of a sum that was on its way are gone: it must begin again")
        return self.hidden

    def result(self, round_: int) -> Vector | None:
        """The sum, in the round in which it has reached every node, and in no other."""
        if self.begun == 0 or round_ != self.begun + self.rounds:
            return None
        if self.cover is not None:
            if self.total is None:
                raise RunError("no neighbour sent the sum over all nodes in the round in which it must come")
            self.heard = sha256(self.heard + self.total.tobytes()).digest()
        self.begun = 0
        return self.total

    # --- under new masks -----------------------------------------------------------------------------------

    def sent_again(self, round_: int) -> range:
        """The rounds whose messages are sent again when a run goes on after this one, under new masks.

        All from the beginning of the sum while parts of it go up; else the last one. Sums follow one another.
        """
        first = round_ - (round_ - 1) % self.rounds if round_ else 0
        return range(first if round_ < first + self.depth else round_, round_ + 1)

    def is_going_up(self, round_: int) -> bool:
        """Whether parts of the sum that is under way are sent in this round, be it again."""
        return 0 < self.begun <= round_ < self.begun + self.depth

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on; what is under masks is not among them."""
        state = {"tree.begun": np.array([float(self.begun)])}
        if self.partial is not None:
            state["tree.partial"] = self.partial
        if self.total is not None:
            state["tree.total"] = self.total
        if self.heard:
            state["tree.heard"] = np.frombuffer(self.heard, np.uint8).astype(np.float64)
        return state

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.begun = int(state["tree.begun"][0])
        self.partial, self.total, self.hidden = state.get("tree.partial"), state.get("tree.total"), None
        self.heard = state["tree.heard"].astype(np.uint8).tobytes() if "tree.heard" in state else b""

"""What the private methods of the papers have in common: consensus ADMM in the plain norm, from released models.

    f_p <- argmin  C/B_p sum_i loss_i(f) + rho/2 |coef|^2 + phi/2 |f|^2 + (2 lambda_p + e) . f
                   + eta sum_{i in N_p} | f - (v_p + v_i)/2 |^2
    lambda_p <- lambda_p + eta/2 sum_{i in N_p} (v_p - v_i)

| symbol | here | meaning |
|---|---|---|
| C, B_p | weight, rows | weight of the node's mean loss, and its number of rows |
| rho, eta | ridge, penalty | weights of the regularizer and of the distance from neighbours |
| phi, e | extra, noise | further curvature and noise of a round, for methods that have them |
| f_p, v_p | model, released | the minimiser; what neighbours see of it. All begin at 0 |
| lambda_p | multiplier | made from released models alone |

Rows are scaled down to a public norm, and what neighbours send to a public reach. Then every solve ends within a
distance of the minimiser that is fixed in the plan, whatever the rows and the messages are
(solvers/consensus/local.py): the proofs count it, and no round stops because of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tacit.blocks.dense import Block, RowClip
from tacit.solvers.base import Problem, Release
from tacit.solvers.consensus.base import NodeData, Place, as_sent, private_progress, split_model
from tacit.solvers.consensus.local import WIDE, LocalProblem, Solved, descend, steps_for, within
from tacit.types import Arrays, Vector

MODEL, NOISE, LABELS = "model", "noise", "labels"
MOST_POLISHES = 10


@dataclass(frozen=True)
class NodeNumbers:
    """Public numbers of one node.

    Attributes
    ----------
    weight, ridge, penalty : float
        C, rho and eta.
    tolerance : float
        Largest gradient norm that a solve may leave; over the curvature, its distance from the minimiser.
    reach : float
        Largest norm of a model that enters a round: longer ones are scaled down.
    farthest : float
        Bound on the norm of every minimiser, for which rounding is counted.
    push, bend : float
        Bounds on the gradient of the node's losses, and on their curvature: C L b and C c1 b^2.
    extra : tuple of float
        phi of each round; empty where there is none.
    """

    weight: float
    ridge: float
    penalty: float
    tolerance: float
    reach: float
    farthest: float
    push: float
    bend: float
    extra: tuple[float, ...] = ()


@dataclass(frozen=True)
class PaperSettings:
    """Public numbers of a run.

    Attributes
    ----------
    row_norm : float
        Rows are scaled down to this norm where they are longer.
    rounds : int
    nodes : mapping of str to NodeNumbers
    published : bool
        Whether the paper's exact form was asked for.
    """

    row_norm: float
    rounds: int
    nodes: Mapping[str, NodeNumbers]
    published: bool = False


def at_round(name: str, round_: int) -> str:
    """Name of what is released in one round: each has noise of its own."""
    return f"{name} {round_}"


class PaperNode:
    """One node: its state, and what it does in every method."""

    def __init__(
        self, problem: Problem, place: Place, data: NodeData, settings: PaperSettings, release: Release
    ) -> None:
        assert isinstance(data.rows, Block)
        self.problem, self.place, self.settings, self.release = problem, place, settings, release
        self.numbers = settings.nodes[place.name]
        self.clip = RowClip(settings.row_norm)
        self.data = NodeData(self.clip.apply(data.rows), data.labels)
        self.degree = len(place.neighbours)
        self.size = place.columns + int(problem.fit_intercept)
        self.model, self.released = np.zeros(self.size), np.zeros(self.size)
        self.multiplier = np.zeros(self.size)
        self.progress = private_progress(self.numbers.penalty)  # the same in every round
        self.loss = problem.loss
        self.local = self._make_local()

    @property
    def answer(self) -> Vector:
        """The model that the node keeps: a released one, unless the method says otherwise."""
        return self.released

    @property
    def coef(self) -> Vector:
        """The node's coefficients."""
        return split_model(self.answer, self.place.columns)[0]

    @property
    def intercept(self) -> float:
        """The node's intercept."""
        return split_model(self.answer, self.place.columns)[1]

    def finish(self, inbox: Mapping[str, Arrays]) -> None:
        """Nothing is left to do."""

    def _make_local(self) -> LocalProblem:
        scale = self.numbers.weight / self.data.rows.n
        return LocalProblem(self.data, self.loss, scale, self.numbers.ridge, self.problem.fit_intercept)

    def _take_in(self, inbox: Mapping[str, Arrays]) -> Vector:
        """Sum of the neighbours' released models, each within reach; the multiplier follows them."""
        if not inbox:
            return np.zeros(self.size)
        models = [as_sent(arrays, MODEL, self.size) for arrays in inbox.values()]
        others = np.sum([self._near(model) for model in models], axis=0)
        apart = self.degree * self._near(self.released) - others
        held = 0.5 * self._modulus(0.0) * self.numbers.reach
        self.multiplier = within(self.multiplier + 0.5 * self.numbers.penalty * apart, held)
        return np.asarray(others)

    def _near(self, model: Vector) -> Vector:
        """A model scaled down to the public reach, where it is further out."""
        return within(model, self.numbers.reach)

    def _modulus(self, extra: float) -> float:
        """Least curvature of a round's objective."""
        ridge = 0.0 if self.problem.fit_intercept else self.numbers.ridge
        return ridge + 2 * self.numbers.penalty * self.degree + extra

    def _minimise(self, round_: int, own: Vector, others: Vector, noise: Vector | float = 0.0) -> None:
        """Set the model to the minimiser, or to a point as near to it as the proof counts on; this never fails."""
        eta, extra = self.numbers.penalty, self.numbers.extra
        more = extra[round_ - 1] if extra else 0.0
        pull = 2 * eta * self.degree + more
        linear = 2 * self.multiplier + noise - eta * (self.degree * self._near(own) + others)
        self.local = self._make_local()  # nothing kept: a round that is repeated after a crash ends in the same bits
        found = self._newton(linear, pull)
        self.model = self._descend(linear, pull, self._modulus(more)) if found is None else found

    def _newton(self, linear: Vector, pull: float) -> Vector | None:
        """The minimiser by Newton steps, if its gradient norm shows that it is one; None otherwise."""
        aim = 0.05 * self.numbers.tolerance
        try:
            with np.errstate(all="ignore"):
                found = self.local.solve(linear, pull, np.zeros(self.size), aim, self.model)
                point, left = self._polish(found, linear, pull)
        except (ArithmeticError, ValueError):  # a singular matrix among them
            return None
        sure = left <= 0.5 * self.numbers.tolerance  # the other half is left to rounding
        return point if sure and np.linalg.norm(point) <= self.numbers.farthest else None

    def _descend(self, linear: Vector, pull: float, modulus: float) -> Vector:
        """The minimiser by steps along the gradient, from that of everything but the rows."""
        numbers, whole = self.numbers, self.local.ridge + pull
        steepest = (numbers.bend + numbers.ridge + pull) * (1 + 1e-9)
        steps = steps_for(modulus, steepest, 2 * numbers.push, numbers.tolerance)
        return descend(lambda w: self.local.gradient(w) + linear + pull * w, -linear / whole, steepest, steps)

    def _polish(self, found: Solved, linear: Vector, pull: float) -> tuple[Vector, float]:
        """Newton steps by the gradient alone: near a minimiser, values of the objective no longer tell points apart."""
        w, norm = found.point, found.gradient_norm
        for _ in range(MOST_POLISHES):
            if norm <= 0.5 * self.numbers.tolerance or self.size > WIDE:
                break
            whole = self.local.hessian(w)
            whole[np.diag_indices(self.size)] += pull
            there = w - np.linalg.solve(whole, self.local.gradient(w) + linear + pull * w)
            after = float(np.linalg.norm(self.local.gradient(there) + linear + pull * there))
            if not after < norm:
                break
            w, norm = there, after
        return w, norm

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {"model": self.model, "released": self.released, "multiplier": self.multiplier}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.model, self.released, self.multiplier = state["model"], state["released"], state["multiplier"]

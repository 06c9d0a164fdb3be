"""What was chosen for a run, and what differs between the two splits when it is planned.

| class | of |
|---|---|
| PlannedRun | a run: problem, solver, layout, privacy; what a `Plan` is, but for its description |
| FeaturePlanner, SamplePlanner | a split: its problem, solver, refusals, certificate without noise, and record |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms import mechanism_of, names_for, those_that
from tacit.mechanisms.base import COORDINATOR, LEAST_MASKED, Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.labels import check_given, given_certificate, options_for_given
from tacit.plan.memory import check_low_memory, check_one_score, fitting_window
from tacit.plan.request import AUTO, TrainingRequest, asked_trees, check_trees, loss_beside_trees
from tacit.privacy.certificate import Certificate, in_scope, not_private, not_private_trees, secured, secured_trees
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.problem.losses.base import RowLoss
from tacit.problem.losses.modified import modified_rows
from tacit.solvers import METHODS, SOLVERS, Solver
from tacit.solvers.base import PrivateSolver, Problem
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.sides import settings_of
from tacit.solvers.consensus import Consensus, Place, PrivateConsensus
from tacit.solvers.consensus.admm import ADMM
from tacit.solvers.consensus.base import TreeSum
from tacit.topologies import FeatureSplit, Graph, Layout, SampleSplit, mask_graph

WINDOW_BYTES = 128 * 2**20  # past steps may always take this much memory ...
WINDOW_SHARE = 0.25  # ... or this part of the input, where that is more
MOST_PRODUCT = 6000  # of classes and columns of a party: a matrix of so many rows and columns has 288 MB
WIDE_BLOCK = 2000  # columns of one party from which a factorisation in every round takes too long
GRAPH_SOLVERS = ("auto", "none")  # methods of a sample split: one solver, which mechanisms do without
MANY_PARTIES = 10  # from which "multipliers" needs fewer rounds than "averaged" for smooth losses too


@dataclass(frozen=True)
class PlannedRun:
    """What will be run, and what will be claimed about it."""

    problem: Problem
    recorded_method: str  # what records call the method, see `SplitPlanner.recorded_method`; what runs is `solver`
    layout: Layout
    max_rounds: int
    private: PrivatePlan | None = None
    secure: bool = False  # whether answers travel under masks, so that only their sum can be read
    holdout: str = ""  # how rows are kept out of training, as the job says it
    published: bool = False  # whether a paper's mechanism was asked for in its exact form

    # --- who takes part ------------------------------------------------------------------------------

    @property
    def split(self) -> SplitPlanner:
        """What is special about the split."""
        return SPLITS[self.layout.split]

    @property
    def party_names(self) -> tuple[str, ...]:
        """Everybody who takes part."""
        return self.layout.names

    @cached_property
    def asked_parties(self) -> tuple[str, ...]:
        """The parties to which messages go: all but one that is itself the coordinator's side."""
        if self.problem.trees is not None and not self.fixed_rounds:
            return cast("TreeSettings", self.problem.trees).parties
        reads_each = self.private is not None and getattr(self.private.solver, "reads_each_answer", False)
        holder = self.private.holder if self.private is not None and reads_each else None
        return tuple(name for name in self.party_names if name != holder)

    @property
    def samples(self) -> SampleSplit:
        """The layout of a sample split."""
        return cast("SampleSplit", self.layout)

    @property
    def graph(self) -> Graph:
        """Who talks to whom in a sample split."""
        return self.samples.graph

    def place(self, name: str) -> Place:
        """A node's place among the others."""
        return Place(name, self.graph, self.samples.sizes, self.samples.total_size, self.samples.columns)

    @property
    def mask_graph(self) -> Graph:
        """Who shares masks with whom in a sample split."""
        return mask_graph(self.graph.names, 1 if self.private is None else self.private.honest)

    def problem_of(self, name: str) -> Problem:
        """What a node minimises its part of: with the unbiased loss where its labels came randomized."""
        given = self.samples.label_epsilons
        if self.private is not None or name not in given:
            return self.problem
        return replace(self.problem, loss=modified_rows(self.problem.loss, np.array(given[name])))

    # --- how it is run -------------------------------------------------------------------------------

    @property
    def solver(self) -> Solver | PrivateSolver:
        """The two sides of a run of a feature split."""
        if self.private is None or self.private.solver is None:
            return SOLVERS[self.recorded_method]
        return cast("PrivateSolver", self.private.solver)

    @property
    def consensus(self) -> Consensus | PrivateConsensus:
        """What makes each node's side of a sample split."""
        return ADMM if self.private is None else cast("PrivateConsensus", self.private.solver)

    @property
    def fixed_rounds(self) -> bool:
        """Whether the number of rounds is fixed beforehand, so that there is no stopping rule."""
        return self.private is not None and self.private.solver is not None

    @property
    def most_rounds(self) -> int:
        """Exchanges at most."""
        return self.max_rounds if self.private is None else self.private.rounds

    # --- what is claimed -----------------------------------------------------------------------------

    def certificate(self) -> Certificate:
        """The claim of the whole run."""
        known = self.private.certificate if self.private is not None else self._without_noise()
        randomized = self.split.came_randomized(self.layout)
        known = in_scope(
            known, self.holdout, evaluated=self.served, randomized=randomized, released=self.evaluates_privately
        )
        return self.split.under_masks(self, known)

    def _without_noise(self) -> Certificate:
        """The claim of a run that adds no noise."""
        if self.problem.trees is None:
            return self.split.without_noise(self.layout, self.problem.loss.outputs)
        outputs = settings_of(self.problem).loss.outputs
        return not_private_trees(self.party_names, self.asked_parties, self.problem.rows, outputs)

    @property
    def served(self) -> bool:
        """Whether the model may be evaluated on further rows: not where a certificate covers the messages alone."""
        return not self.published and (self.private is None or self.private.mechanism.covers_model)

    @property
    def evaluates_privately(self) -> bool:
        """Whether a planned release says how good the model is on the rows held out."""
        return self.private is not None and getattr(self.private.settings, "evaluation", None) is not None

    @property
    def models_are_released(self) -> bool:
        """Whether each node's model may be seen."""
        return self.private is None or self.private.models_are_released

    def behind_masks(self, lead: str, party: str) -> tuple[tuple[str, ...], str]:
        """Whose parts go under masks, and who could read a party's with false keys, which the lead passes on."""
        return self.split.behind_masks(self, lead, party) if self.secure else ((), lead)

    def record(self) -> dict[str, Any]:
        """The plan as plain values, for the run directory and for checking a resumed run."""
        return self.split.record(self)


class SplitPlanner(ABC):
    """What is special about a split when a run is planned."""

    name: str

    @abstractmethod
    def seen_loss(self, request: TrainingRequest) -> Loss:
        """The loss that solvers minimise."""

    @abstractmethod
    def problem(self, request: TrainingRequest, layout: Any, loss: Loss) -> Problem:
        """What is minimised, with the public numbers of the solvers."""

    @abstractmethod
    def recorded_method(self, request: TrainingRequest, problem: Problem, layout: Any) -> str:
        """What records call the method: refused where it is unknown or does not fit.

        In a feature split the ordinary solver that fits the problem, also where a mechanism runs its own instead.
        In a sample split the mechanism, or "none".
        """

    @abstractmethod
    def mechanism(self, request: TrainingRequest, layout: Any) -> Mechanism[Any]:
        """What answers a request for privacy: refused where the split has nothing to offer for it."""

    @abstractmethod
    def mechanism_request(self, request: TrainingRequest, problem: Problem, layout: Any) -> MechanismRequest:
        """What is asked of the mechanism."""

    @abstractmethod
    def check(self, request: TrainingRequest, layout: Any, private: PrivatePlan | None) -> None:
        """Refuse what does not go with the privacy that was planned."""

    @abstractmethod
    def without_noise(self, layout: Any, outputs: int) -> Certificate:
        """Certificate of a run that adds no noise, with so many scores of a row."""

    @abstractmethod
    def under_masks(self, plan: PlannedRun, certificate: Certificate) -> Certificate:
        """The certificate, with what masks add to it where it does not say so itself."""

    @abstractmethod
    def behind_masks(self, plan: PlannedRun, lead: str, party: str) -> tuple[tuple[str, ...], str]:
        """Whose parts go under masks, and who could read a party's with false keys, which the lead passes on."""

    @abstractmethod
    def record(self, plan: PlannedRun) -> dict[str, Any]:
        """A plan as plain values."""

    def prepared(self, layout: Any, problem: Problem) -> Any:
        """The layout, checked, with its numbers as plain ones."""
        return layout

    def uses_masks(self, request: TrainingRequest, layout: Any) -> bool:
        """Whether answers travel under masks: as asked, or where "auto" finds that they can."""
        if request.secure_aggregation == AUTO:
            raise InputError(
                'secure_aggregation="auto" is for rows split between parties: give True or False where columns are'
            )
        return bool(request.secure_aggregation)

    def remarks(self, privacy: Privacy, layout: Any) -> tuple[str, ...]:
        """What sizes say about the use of any private run."""
        return ()

    def came_randomized(self, layout: Any) -> bool:
        """Whether every label was randomized before the data came to any party."""
        return False


# --- the feature split -------------------------------------------------------------------------------


class FeaturePlanner(SplitPlanner):
    """Parties hold different columns of the same rows."""

    name = FeatureSplit.split

    def seen_loss(self, request: TrainingRequest) -> Loss:
        """The unbiased loss of labels that are randomized before a solver begins, or the loss as it is."""
        loss, privacy = request.plain_loss, request.privacy
        if isinstance(privacy, Privacy) and request.trees is not None:
            return loss_beside_trees(request.trees.loss, privacy)
        if not isinstance(privacy, Privacy) or privacy.label_epsilon is None:
            return loss
        return _asked_mechanism(privacy).seen_loss(loss, privacy)

    def problem(self, request: TrainingRequest, layout: FeatureSplit, loss: Loss) -> Problem:
        """What is minimised, with as many past steps as memory allows."""
        parties, rows, memory = len(layout.parties), layout.rows, request.memory
        others = tuple(name for name in layout.parties if name != layout.holder)
        return Problem(
            loss=loss,
            regularizer=request.regularizer,
            alpha=request.weight,
            fit_intercept=bool(request.fit_intercept),
            parties=parties,
            rows=rows,
            tol=float(request.tol),
            rho=_rho(request, loss, layout),
            max_window=_window(request, layout) if memory is None else fitting_window(memory, rows, layout.columns),
            row_weights=layout.row_weights,
            seed=request.seed,
            sums_only=bool(request.secure_aggregation),
            low_memory=memory is not None,
            trees=None if request.trees is None else replace(asked_trees(request, rows), parties=others),
        )

    def recorded_method(self, request: TrainingRequest, problem: Problem, layout: FeatureSplit) -> str:
        """The solver that was named, or the one that needs the fewest rounds."""
        if request.trees is not None:
            return check_trees(request)
        chosen = (
            _fastest_solver(problem, layout.columns) if request.method == "auto" else _named_solver(request, problem)
        )
        _check_product(problem.loss.outputs, layout.columns)
        if request.memory is not None:
            check_low_memory(chosen, private=request.privacy is not None, secure=bool(request.secure_aggregation))
            check_one_score(problem.loss, "memory")
        return chosen

    def mechanism(self, request: TrainingRequest, layout: FeatureSplit) -> Mechanism[Any]:
        """What the request names, or what answers it."""
        privacy = cast("Privacy", request.privacy)
        if COORDINATOR in layout.parties:
            raise InputError(f"a party of a private run cannot be named {COORDINATOR!r}: rename it")
        if layout.row_weights is not None:
            raise InputError("sample_weight is not available with privacy: no bound is proven for weighted rows")
        if privacy.epsilon_by_party is not None:
            raise InputError("epsilon_by_party is for rows split over a graph: give one epsilon here")
        _check_names(privacy, layout)
        mechanism = _asked_mechanism(privacy)
        if privacy.honest is not None and not mechanism.splits_noise:
            raise InputError(
                f"honest={privacy.honest} does not fit mechanism={mechanism.name!r}: noise is split between parties in "
                f"{those_that(self.name, 'splits_noise')} alone, so leave honest out"
            )
        return mechanism

    def mechanism_request(self, request: TrainingRequest, problem: Problem, layout: FeatureSplit) -> MechanismRequest:
        """Privacy, rounds and masks."""
        return MechanismRequest(
            privacy=cast("Privacy", request.privacy),
            problem=problem,
            max_rounds=int(request.max_rounds),
            method=request.method,
            rho=request.rho,
            secure=bool(request.secure_aggregation),
            evaluated=request.evaluated,
        )

    def remarks(self, privacy: Privacy, layout: FeatureSplit) -> tuple[str, ...]:
        """That delta is not far below one over the number of rows."""
        if privacy.delta * layout.rows < 1 or privacy.epsilon is None:
            return ()
        return (
            f"delta = {privacy.delta:g} is not below 1/{layout.rows}, one over the number of rows: a run that "
            "publishes a whole row now and then would satisfy it too; ask for a delta far below that",
        )

    def check(self, request: TrainingRequest, layout: FeatureSplit, private: PrivatePlan | None) -> None:
        """Refuse masks that would hide nothing, or that a mechanism has no sum for."""
        if not request.secure_aggregation:
            return
        if private is not None and getattr(private.solver, "reads_each_answer", False):
            raise InputError(
                f"secure_aggregation=True does not fit mechanism={private.mechanism.name!r}, which reads every party's "
                "answer by itself and needs no sum: leave secure_aggregation out, or choose another mechanism"
            )
        if len(layout.parties) < LEAST_MASKED:
            raise InputError(
                f"secure_aggregation=True needs at least {LEAST_MASKED} parties, not {len(layout.parties)}: with two, "
                "the one that holds the labels takes its own numbers off the sum and has the other's"
            )

    def without_noise(self, layout: FeatureSplit, outputs: int) -> Certificate:
        """Raw data stay home, and nothing more is claimed."""
        return not_private(layout.parties, layout.rows, outputs)

    def under_masks(self, plan: PlannedRun, certificate: Certificate) -> Certificate:
        """With what masks hide."""
        if not plan.secure:
            return certificate
        if plan.problem.trees is not None:
            return secured_trees(certificate, cast("FeatureSplit", plan.layout).holder, plan.asked_parties)
        return secured(certificate, plan.party_names)

    def behind_masks(self, plan: PlannedRun, lead: str, party: str) -> tuple[tuple[str, ...], str]:
        """Everybody who answers; the lead adds up."""
        return plan.asked_parties, lead

    def record(self, plan: PlannedRun) -> dict[str, Any]:
        """A plan as plain values."""
        private = plan.private
        return {
            "method": plan.recorded_method,
            **_objective(plan),
            "rows": plan.problem.rows,
            "parties": list(plan.party_names),
            "window": plan.problem.max_window,
            "secure_aggregation": plan.secure,
            **({} if plan.problem.trees is None else {"trees": plan.problem.trees.record()}),
            "privacy": None
            if private is None
            else {"mechanism": private.mechanism.name, "holder": private.holder, **_noise(private)},
        }


def _asked_mechanism(privacy: Privacy) -> Mechanism[Any]:
    """What answers a request of a feature split; labels alone are randomized by none that has a name."""
    mechanism = mechanism_of(privacy, FeatureSplit.split)
    if privacy.epsilon is None and mechanism.can_be_named:
        raise InputError(
            f"mechanism={mechanism.name!r} needs epsilon: give a number, or leave mechanism out to randomize labels"
        )
    return mechanism


def _objective(plan: PlannedRun) -> dict[str, Any]:
    p = plan.problem
    return {
        "loss": p.loss.name,
        **_loss_settings(p.loss),
        "penalty": p.regularizer.name,
        "alpha": p.alpha,
        "fit_intercept": p.fit_intercept,
        "rho": p.rho,
        "tol": p.tol,
        "max_rounds": plan.max_rounds,
    }


def _loss_settings(loss: Loss) -> dict[str, Any]:
    """Numbers of the loss that are not its usual ones, and what rows have beside a label; nothing for most runs."""
    known = getattr(loss, "settings", {})
    inner: Any = loss.inner if isinstance(loss, RowLoss) else loss
    usual = type(inner)().settings if known else {}
    found: dict[str, Any] = {"loss_settings": known} if known != usual else {}
    return found | ({"row_values": "weighted" if loss.weighted else "offset"} if isinstance(loss, RowLoss) else {})


def _noise(private: PrivatePlan) -> dict[str, Any]:
    return {"rounds": private.rounds, "noise": dict(private.noise), "asked": private.privacy.record()}


def _rho(request: TrainingRequest, loss: Loss, layout: FeatureSplit) -> float | None:
    """Rho of the objective times the total row weight, the unit of the solvers."""
    rho, weights = request.check_rho(), layout.row_weights
    if rho is None:
        return None
    total = float(layout.rows if weights is None else weights.sum())
    least = len(layout.parties) * loss.concavity / total  # below it a z-update has several minimisers
    if rho <= least:
        raise InputError(
            f'rho={request.rho!r} is too small for loss={loss.name!r}: give more than {least:.3g}, or "auto"'
        )
    return rho * total


def _window(request: TrainingRequest, layout: FeatureSplit) -> int:
    """Past steps that fit: two windows of one float64 per row and step."""
    size, widths = layout.input_bytes, sum(layout.columns)
    if request.privacy is not None and widths:
        size = 8 * layout.rows * widths  # how many entries of a row are zero is data
    room = max(WINDOW_BYTES, WINDOW_SHARE * size)
    return max(1, min(32, int(room // (16 * max(layout.rows * request.plain_loss.outputs, 1)))))


def _named_solver(request: TrainingRequest, problem: Problem) -> str:
    name = request.method
    if name not in METHODS:
        raise InputError(f"method={name!r} is unknown: choose one of auto, {', '.join(METHODS)}")
    reason = SOLVERS[name].refusal(problem.loss, problem.regularizer)
    if problem.loss.outputs > 1 and not SOLVERS[name].several_scores:
        reason = "it is for two classes"
    if reason:
        raise InputError(f'method={name!r} does not fit: {reason}; use method="auto"')
    return name


def _fastest_solver(problem: Problem, columns: tuple[int, ...]) -> str:
    """The solver that needs the fewest rounds, as measured, where its work per round is bearable."""
    if not SOLVERS["memory"].refusal(problem.loss, problem.regularizer):
        return "memory"
    if problem.loss.outputs > 1:
        raise InputError(
            f"penalty={problem.regularizer.name!r} is for two classes and the labels have {problem.loss.outputs}: "
            'use "l2" or "none", or join them into two'
        )
    wide = max(columns or (0,)) > min(problem.rows, WIDE_BLOCK)
    if problem.regularizer.form == "group":
        reason = SOLVERS["multipliers"].refusal(problem.loss, problem.regularizer)
        if reason:
            raise InputError(f"penalty={problem.regularizer.name!r} needs a convex loss: {reason}; choose another loss")
        return "multipliers"
    if SOLVERS["multipliers"].refusal(problem.loss, problem.regularizer) or wide:
        return "averaged"
    return "multipliers" if not problem.loss.smooth or problem.parties >= MANY_PARTIES else "averaged"


def _check_product(classes: int, columns: tuple[int, ...]) -> None:
    """Refuse so many classes and columns that matrices with a number for every two coefficients do not fit."""
    widest = max(columns or (0,))
    if classes > 1 and classes * widest > MOST_PRODUCT:
        raise InputError(
            f"{classes} classes and {widest} columns of one party are too many together: their product may be "
            f"{MOST_PRODUCT} at most; join classes, or train on fewer columns"
        )


def _check_names(privacy: Privacy, layout: FeatureSplit) -> None:
    """Refuse a norm for somebody who takes no part: it is a slip in a name."""
    named = privacy.row_norm if isinstance(privacy.row_norm, Mapping) else {}
    for name in named:
        if name not in layout.parties:
            known = ", ".join(repr(party) for party in layout.parties)
            raise InputError(f"row_norm names {name!r}, which is no party: the parties are {known}")


# --- the sample split --------------------------------------------------------------------------------


class SamplePlanner(SplitPlanner):
    """Nodes of a graph hold different rows of the same columns."""

    name = SampleSplit.split

    def seen_loss(self, request: TrainingRequest) -> Loss:
        """The loss as it is: a node takes the one that fits its labels."""
        if request.trees is not None:
            raise InputError("boosted trees are for parties that hold different columns: leave trees out here")
        return request.plain_loss

    def problem(self, request: TrainingRequest, layout: SampleSplit, loss: Loss) -> Problem:
        """What is minimised."""
        return Problem(
            loss=loss,
            regularizer=request.regularizer,
            alpha=request.weight,
            fit_intercept=bool(request.fit_intercept),
            parties=layout.graph.nodes,
            rows=layout.total,
            tol=float(request.tol),
            rho=request.check_rho(),
            seed=request.seed,
        )

    def prepared(self, layout: SampleSplit, problem: Problem) -> SampleSplit:
        """The layout, where every node has rows, and an epsilon for each label that came randomized."""
        if len(layout.rows) != layout.graph.nodes:
            raise InputError(f"graph has {layout.graph.nodes} nodes: the data have {len(layout.rows)}")
        for name, count in zip(layout.graph.names, layout.rows, strict=True):
            if count < 1:
                raise InputError(f"{name} has no rows, 0 sample(s): give it at least 1, or leave it out of the graph")
        return replace(layout, label_epsilons=check_given(layout, problem)) if layout.label_epsilons else layout

    def recorded_method(self, request: TrainingRequest, problem: Problem, layout: SampleSplit) -> str:
        """The mechanism whose sides run; without privacy consensus ADMM does, whatever it is called."""
        method, given = request.method, bool(layout.label_epsilons)
        if method not in GRAPH_SOLVERS and method not in names_for(self.name):
            raise InputError(f"method={method!r} is unknown: choose one of {', '.join(GRAPH_SOLVERS)}")
        if request.privacy is not None:
            named = mechanism_of(request.privacy, self.name, given_labels=given).name
            return named if method == "auto" else method
        reason = ADMM.refusal(problem.loss, problem.regularizer)
        if reason:
            raise InputError(reason)
        return "none" if method == "auto" else method

    def mechanism(self, request: TrainingRequest, layout: SampleSplit) -> Mechanism[Any]:
        """What the request names, or what answers it."""
        method, privacy, given = request.method, cast("Privacy", request.privacy), bool(layout.label_epsilons)
        if layout.weights is not None:
            raise InputError("sample_weight is not available with privacy: no bound is proven for weighted rows")
        if method == "none":
            raise InputError("method='none' has no privacy to offer: leave method out, or leave privacy out")
        mechanism = mechanism_of(privacy, self.name, given_labels=given)
        if method != "auto" and privacy.mechanism == "auto":
            mechanism = mechanism_of(replace(privacy, mechanism=method), self.name)
        if method not in ("auto", mechanism.name):
            raise InputError(f"method={method!r} does not fit mechanism={mechanism.name!r}: leave method out")
        if given and not mechanism.takes_given_labels:
            raise InputError(
                f"mechanism={mechanism.name!r} does not fit labels that were randomized beforehand: use "
                f"{those_that(self.name, 'takes_given_labels')}, or leave privacy out"
            )
        return mechanism

    def mechanism_request(self, request: TrainingRequest, problem: Problem, layout: SampleSplit) -> MechanismRequest:
        """Privacy, rounds, masks, and the numbers of the papers."""
        privacy, options, given = cast("Privacy", request.privacy), request.options, layout.label_epsilons
        return MechanismRequest(
            privacy=privacy,
            problem=problem,
            max_rounds=int(request.max_rounds),
            rho=request.rho,
            secure=bool(request.secure_aggregation),
            published=bool(request.published),
            options=options_for_given(privacy, options, given) if given else options,
        )

    def uses_masks(self, request: TrainingRequest, layout: SampleSplit) -> bool:
        """As asked; "auto" means masks where the mechanism and the number of nodes allow it."""
        if request.secure_aggregation != AUTO:
            return bool(request.secure_aggregation)
        privacy = request.privacy
        return privacy is not None and self.mechanism(request, layout).wants_masks(privacy, layout.graph.nodes)

    def check(self, request: TrainingRequest, layout: SampleSplit, private: PrivatePlan | None) -> None:
        """Refuse masks where no mechanism has a sum for them."""
        if request.secure_aggregation and (private is None or not private.masked):
            raise InputError(
                f"secure_aggregation=True is for {those_that(self.name, 'supports_masks')} with privacy: leave it out"
            )

    def without_noise(self, layout: SampleSplit, outputs: int) -> Certificate:
        """Rows stay home, and nothing more is claimed but for labels that came randomized."""
        if layout.label_epsilons:
            return given_certificate(layout.graph, layout.columns, layout.label_epsilons)
        return not_private_on_graph(layout.graph, layout.columns * outputs)

    def came_randomized(self, layout: SampleSplit) -> bool:
        """Whether contributors randomized the labels."""
        return bool(layout.label_epsilons)

    def under_masks(self, plan: PlannedRun, certificate: Certificate) -> Certificate:
        """The certificate of a mechanism with masks says so itself."""
        return certificate

    def behind_masks(self, plan: PlannedRun, lead: str, party: str) -> tuple[tuple[str, ...], str]:
        """Everybody; the neighbours in the tree of the sums together know what a node adds to them."""
        tree = TreeSum(plan.graph, party)
        others = [name for name in (tree.parent, *tree.children) if name not in (None, lead)]
        return plan.graph.names, f"{lead} together with {', '.join(map(str, others))}" if others else lead

    def record(self, plan: PlannedRun) -> dict[str, Any]:
        """A plan as plain values."""
        layout, private = plan.samples, plan.private
        return {
            "split": self.name,
            "method": plan.recorded_method,
            **_objective(plan),
            "rows": list(layout.rows),
            "columns": layout.columns,
            "graph": layout.graph.record(),
            "label_epsilons": {name: [min(own), max(own)] for name, own in layout.label_epsilons.items()},
            "privacy": None
            if private is None
            else {"method": private.mechanism.name, "secure_aggregation": private.masked, **_noise(private)},
        }


def not_private_on_graph(graph: Graph, columns: int) -> Certificate:
    """Certificate of a run without noise: rows stay home, and nothing more is claimed."""
    return Certificate(
        covers=("rows and labels are never sent as such (this is not a privacy guarantee)",),
        does_not_cover=(
            "the rows and labels of every node: its neighbours see its model after every round, without noise",
            "sums over the rows of a node: those of its loss curvature go to a neighbour, without noise",
            "the trained model: it is an exact function of all rows",
        ),
        per_party={
            name: f"in each round a model of its own, {columns} coefficients, to {', '.join(graph.neighbours(name))}"
            if graph.nodes > 1
            else "nothing"
            for name in graph.names
        },
    )


SPLITS: dict[str, SplitPlanner] = {one.name: one for one in (FeaturePlanner(), SamplePlanner())}

"""The two sides: a protected party with its private fit, and the label holder with its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.blocks import make_block
from tacit.blocks.dense import Block, RowClip
from tacit.columns.raw import OwnColumns, RawTable
from tacit.errors import RunError, TacitError
from tacit.mechanisms.base import LABELS, LARGEST, Inbox
from tacit.mechanisms.gram.fit import (
    BASE,
    DIFFERENCE,
    HISTOGRAM,
    LEAST_WEIGHT,
    LOSS_CHANGE,
    Gain,
    HeldOutRelease,
    PartyChange,
    PrivateFit,
    directed_fit,
    estimate,
    held_answer,
    held_question,
    is_short,
    large_norm,
    private_fit,
    row_changes,
    side_columns,
)
from tacit.mechanisms.gram.settings import (
    CLASS_CONSTANT,
    CONSTANT,
    FOLDS,
    Bits,
    ClassTarget,
    CountTarget,
    DirectedTarget,
    FitSettings,
    FitTarget,
    GramSettings,
    HalfTarget,
    Levels,
    Margin,
    Randomized,
    Residual,
    Response,
    Symbols,
    bit_factor,
    label_weight,
    levels_of,
)
from tacit.problem.losses.base import Loss
from tacit.solvers.alone import OwnFit, clearly_best, fit_alone, fit_and_scores
from tacit.solvers.base import PrivateSolver, Problem, Progress, Release, Solver, private_progress
from tacit.solvers.boosting.alone import OwnTrees, trees_alone
from tacit.solvers.boosting.settings import TreeSettings, for_labels
from tacit.solvers.boosting.sides import MODEL, settings_of
from tacit.solvers.memory import MEMORY
from tacit.solvers.multipliers import MULTIPLIERS
from tacit.solvers.sharing import AVERAGED
from tacit.types import SCORE_CLIP, Arrays, Vector

# --- A protected party: it answers what the label holder sent with the outcome of its private fit


SHARE_CLIP = 1.5  # a score is clipped at this many times its released root mean square before it becomes a bit
BITS = "bits"
ASKED = ("offset", "labels")  # what a second exchange needs of the first one


class GramParty:
    """Fits once; all that it gives out is private."""

    def __init__(self, problem: Problem, block: Block, settings: GramSettings, release: Release) -> None:
        self.problem, self.block, self.settings, self.release = problem, block, settings, release
        self.fit_settings: FitSettings = settings.fits[release.owner]
        self.fit: PrivateFit | None = None
        self.inbox: Arrays = {}
        self.held: Block | None = None  # rows that are not trained on, where they are evaluated by a planned release

    def hold_out(self, block: Block) -> None:
        """Take the rows that are not trained on, for the release about them."""
        self.held = block

    @property
    def coef(self) -> Vector:
        """The private coefficients, before damping."""
        return np.zeros(self.block.d) if self.fit is None else self.fit.coef

    def start_at(self, coef: Vector) -> Arrays:
        """A private run has no warm start: one would depend on the data."""
        raise RunError("a private run cannot start from given coefficients")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """The private fit; or, in a second exchange, one randomized bit for each row."""
        if self.fit is not None:
            return self._second(self.fit, inbox)
        directed = self._directed(inbox)
        ridge = self.problem.rows * self.settings.alpha
        if directed is not None:
            self.fit = directed_fit(self.block, directed, self.fit_settings, self.release, ridge=ridge)
            return fit_to_arrays(self.fit)
        target = self._target(inbox)
        self.inbox = {name: inbox[name] for name in ASKED if name in inbox}  # as they were checked, and nothing else
        excess = self._excess(target)
        self.fit = private_fit(self.block, target, self.fit_settings, self.release, ridge=ridge, excess=excess)
        return fit_to_arrays(self.fit)

    def _directed(self, inbox: Arrays) -> DirectedTarget | None:
        """Several classes or counts, which have directions of their own; None for everything else."""
        sent, rows = Inbox(inbox, self.release.owner), self.block.n
        if self.settings.target == "softmax":
            count = self.settings.seen_loss.outputs
            return ClassTarget(sent.numbers("offset", rows * count), sent.choices("labels", rows, range(count)), count)
        if self.settings.target == "counts":
            return CountTarget(sent.numbers("offset", rows), sent.numbers("labels", rows), self.fit_settings.slope)
        return None

    def _target(self, inbox: Arrays) -> FitTarget:
        """What was sent, as something to fit; the bounds hold for whatever passes the checks of `Inbox`."""
        sent, rows, response = Inbox(inbox, self.release.owner), self.block.n, self.settings.response
        if response is not None:
            levels = Levels(sent.numbers("cuts", response.levels - 1), sent.numbers("middles", max(2, response.levels)))
            if response.levels == 1:
                return Bits(sent.choices("symbols", rows, (-1.0, 1.0)), response, levels)
            return Symbols(sent.choices("symbols", rows, range(response.symbols)), response, levels)
        offset = sent.numbers("offset", rows)
        if self.settings.target == "residual":
            return Residual(offset, sent.numbers("labels", rows), self.fit_settings.slope)
        labels = sent.choices("labels", rows, (-1.0, 1.0))
        if self.settings.target == "half":
            return HalfTarget(offset, labels)
        if self.settings.target == "logistic":
            return Randomized(offset, labels, self.settings.flip)
        return Margin(offset, labels, self.settings.seen_loss)

    def _excess(self, target: FitTarget) -> float:
        """How much more a derivative varies than its curvature says."""
        if isinstance(target, Bits | Symbols):
            slopes = target.slope(np.zeros(self.block.n))
            return max(1.0, float(np.mean(slopes**2)) / max(float(np.mean(target.weight)), LEAST_WEIGHT))
        return 1.0 / (1 - 2 * self.settings.flip) ** 2  # exactly so at the best weights

    def _second(self, fit: PrivateFit, inbox: Arrays) -> Arrays:
        """What follows the fit: bits for a refit, or how the fit changes the loss; at last, rows held out."""
        if BASE in inbox and self.settings.evaluation is not None and self.held is not None:
            scores = self.settings.damping * fit.clip.apply(self.held).predict(fit.coef)
            return held_answer(scores, Inbox(inbox, self.release.owner), self.settings.evaluation, self.release)
        if self.settings.refit is not None:
            return {BITS: self._bits(fit, self.settings.refit)}
        kept = Inbox(self.inbox, self.release.owner)
        offset, labels = (kept.numbers(name, self.block.n) for name in ASKED)
        side = side_columns(offset, score_column=self.fit_settings.score_column)
        base = offset + side @ Inbox(inbox, self.release.owner).numbers("side", side.shape[1])
        scores = self.settings.damping * fit.clip.apply(self.block).predict(fit.coef)
        changes = row_changes(base, scores, labels, self.fit_settings.loss_change_clip, self.settings.flip)
        return {LOSS_CHANGE: self.release.add(LOSS_CHANGE, [float(changes.sum())])}

    def _bits(self, fit: PrivateFit, refit: Response) -> Vector:
        """The sign of each row's score, rounded at random so that it is unbiased, then randomized."""
        scores = fit.clip.apply(self.block).predict(fit.coef)
        likely = 0.5 * (1 + np.clip(scores / share_clip(fit), -1.0, 1.0))
        bits = self.release.respond(BITS, (self.release.uniform(scores.size) < likely).astype(np.int64))
        return bits.astype(np.float64)

    def part(self, scale: float) -> dict[str, Any]:
        """The party's part of the model from its own fit: coef, offset, clip, noise.

        `scale` is the size of residuals in a regression, which the label holder found. It is the only number of the
        part that another party sets, and it is 1 for all other targets.
        """
        allowed = 0 < scale <= LARGEST if self.settings.target == "residual" else scale == 1.0
        if self.fit is None or not allowed:
            raise RunError(f"party {self.release.owner!r}: there is no part of the model with scale {scale:g}")
        return part_of(self.fit, self.settings.damping * scale)

    def finish(self, inbox: Arrays) -> None:
        """Nothing is left to do."""

    def state(self) -> Arrays:
        """The fit and what it answered, where there is one."""
        if self.fit is None:
            return {}
        return {**fit_to_state(self.fit), **{f"inbox.{name}": array for name, array in self.inbox.items()}}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.fit = fit_from_arrays(state, self.fit_settings.row_norm) if "coef" in state else None
        self.inbox = {name: state[f"inbox.{name}"] for name in ASKED if f"inbox.{name}" in state}


def part_of(fit: PrivateFit, scale: float) -> dict[str, Any]:
    """A part of the model from a private fit: coef, offset, clip, noise."""
    assert fit.clip.centre is not None
    coef = scale * fit.coef
    noise = None if fit.noise is None else scale**2 * fit.noise
    return {"coef": coef, "offset": coef @ fit.clip.centre, "clip": fit.clip, "noise": noise}


def tree_part(own: OwnTrees) -> dict[str, Any]:
    """The label holder's part of the model, of trees."""
    return {MODEL: own.model, "offset": -own.constant}


def share_clip(fit: PrivateFit) -> float:
    """Where a score is clipped before it becomes a bit: a function of released values."""
    return SHARE_CLIP * math.sqrt(max(fit.spread, 1e-4))


def fit_to_arrays(fit: PrivateFit) -> Arrays:
    """A private fit as it travels."""
    assert fit.clip.centre is not None
    return {
        "coef": fit.coef,
        "centre": fit.clip.centre,
        "side": fit.side,
        "numbers": np.array([fit.clip.radius, fit.spread, fit.freedom]),
    }


def fit_to_state(fit: PrivateFit) -> Arrays:
    """A private fit as its owner keeps it: also what noise does to the coefficients."""
    return fit_to_arrays(fit) | ({} if fit.noise is None else {"noise": fit.noise})


def fit_from_arrays(arrays: Arrays, row_norm: float) -> PrivateFit:
    """The private fit that travelled, or was kept."""
    radius, spread, freedom = (float(value) for value in arrays["numbers"])
    if not radius > 0 or arrays["coef"].shape[-1:] != arrays["centre"].shape:
        raise RunError("the outcome of a private fit is damaged: its radius or its sizes are wrong")
    clip, noise = RowClip(row_norm, arrays["centre"], radius), arrays.get("noise")
    return PrivateFit(clip, arrays["coef"], arrays["side"], spread, freedom, noise)


# --- A second fit of the label holder, beside what its own columns can tell of the others' noisy scores


def loss_beside(
    block: Block, loss: Loss, fits: Mapping[str, PrivateFit], bits: Mapping[str, Vector], settings: GramSettings
) -> Loss:
    """The loss of the label holder's scores beside the others'; a noisy score itself never enters a loss.

    What the own columns explain of the noisy scores is added to the own score; the rest of the others' score acts as
    a normal spread, which flattens the loss (probit approximation).
    """
    assert settings.refit is not None
    total, noise, spread = np.zeros(block.n), 0.0, 0.0
    for name, fit in fits.items():
        size = settings.damping * share_clip(fit) * bit_factor(settings.refit.epsilon)
        total += size * np.where(bits[name] > 0.5, 1.0, -1.0)
        noise, spread = noise + size**2, spread + settings.damping**2 * max(fit.spread, 1e-4)
    told = _explained(block, total, noise, spread)
    left = max(0.3 * spread, spread - float(np.var(told)))
    return Beside(loss, told, 1 / math.sqrt(1 + math.pi * left / 8))


def _explained(block: Block, total: Vector, noise: float, spread: float) -> Vector:
    """Ridge regression of the noisy scores on the own columns; prior: what they explain varies by `spread`."""
    n, columns = block.n, block.d + 1
    gram = np.empty((columns, columns))
    gram[:-1, :-1] = block.gram()
    gram[-1, :-1] = gram[:-1, -1] = block.correlate(np.ones(n))
    gram[-1, -1] = n
    values, vectors = np.linalg.eigh(gram / n)
    right = np.append(block.correlate(total), total.sum()) / n
    ridge = noise / n * columns / spread * float(values.mean())
    coef = vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + ridge))
    return np.asarray(block.predict(coef[:-1]) + coef[-1])


class Beside(Loss):
    """A loss of scores that are added to a fixed offset and shrunk: value(factor (offset + z))."""

    def __init__(self, inner: Loss, offset: Vector, factor: float) -> None:
        self.inner, self.offset, self.factor = inner, offset, factor
        self.name, self.task, self.convex, self.smooth = (
            inner.name,
            inner.task,
            inner.convex,
            inner.smooth,
        )
        self.lipschitz, self.curvature = factor * inner.lipschitz, factor**2 * inner.curvature

    def value(self, z: Vector, y: Vector) -> Vector:
        """Of the shifted, shrunk score."""
        return self.inner.value(self.factor * (self.offset + z), y)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Of the shifted, shrunk score."""
        return self.factor * self.inner.grad(self.factor * (self.offset + z), y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """Of the shifted, shrunk score."""
        return self.factor**2 * self.inner.hess(self.factor * (self.offset + z), y)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """By the substitution w = factor (offset + z)."""
        inner = self.inner.prox(self.factor * (self.offset + v), y, self.factor**2 * step)
        return inner / self.factor - self.offset

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """By the same substitution."""
        return self.inner.conjugate(t / self.factor, y) - t * self.offset


# --- The label holder: its own fit, what it sends to the protected parties, and the joint model


SYMBOLS = "symbols"
NO_TREES = (
    "{} alone stands for curves of its own columns: trees of these, which may do better, were not tried (estimators "
    'do with own_part="auto")'
)
FIRST_EXCESS = 1.5  # the noise of randomized labels counts so much more where all rows weigh the same


class GramHolder:
    """The side that holds the labels and the rows beside them."""

    def __init__(
        self,
        problem: Problem,
        labels: Vector,
        settings: GramSettings,
        block: Block,
        release: Release,
        solvers: tuple[Solver, ...],
    ) -> None:
        # the own columns as trees take them, where trees may be the own part of the model
        self.table = block.raw if isinstance(block, OwnColumns) else block if isinstance(block, RawTable) else None
        self.block = block
        if isinstance(block, OwnColumns):
            self.block = make_block(block.coded)
            self.block.curves = block.curves
        self.problem, self.settings, self.release = problem, settings, release
        self.labels, self.solvers, self.seen_loss = labels, solvers, settings.seen_loss
        self.own_fit: OwnFit | OwnTrees | PrivateFit | None = None
        self.sent: Arrays = {}
        self.fits: dict[str, PrivateFit] = {}
        self.scale = 1.0
        self.refitted = False
        self.gain: Gain | None = None
        self.exchanges = 0  # whose answers came in
        self.held: tuple[Any, Vector] | None = None  # rows that are not trained on, as trees or as a fit takes them
        self.tried: HeldOutRelease | None = None

    def hold_out(self, block: Any, labels: Vector) -> None:
        """Take the rows that are not trained on, for the question about them."""
        self.held = (block, labels)

    # --- what goes out ---------------------------------------------------------------------------------

    def broadcast(self) -> Arrays:
        """Offset and labels, or one symbol for each row; then, for a refit, a request for bits."""
        if self.settings.evaluation is not None and self.exchanges == 2:
            return self._held_question(self.settings.evaluation.bins)
        if self.fits:
            return {} if self.settings.refit is not None else {"side": self._side()}
        if not self.sent:
            self.sent = self._symbols() if self.settings.holder_fit is not None else self._offset()
        return self.sent

    def _offset(self) -> Arrays:
        """Scores by fits that did not see the row, so that the others see honest residuals."""
        seen = self._seen_labels()
        self.own_fit, offset = self._best_own(seen)
        if self.settings.target == "residual":
            self.scale = max(math.sqrt(float(np.mean(np.square(seen - offset)))), 1e-300)
        return {"offset": offset.ravel() / self.scale, "labels": seen / self.scale}

    def _held_question(self, bins: int) -> Arrays:
        """The own part of the joint score, the score alone and the label of each row that was held out."""
        assert self.held is not None
        assert isinstance(self.own_fit, OwnFit | OwnTrees)
        block, labels = self.held
        trees = isinstance(self.own_fit, OwnTrees)
        if isinstance(block, OwnColumns):
            block = block.raw if trees else make_block(block.coded)
        alone = self.own_fit.predict(block)
        bend = float(self.parts()[self.settings.holder].get("bend", 0.0))
        base = alone + bend * np.clip(alone, -SCORE_CLIP, SCORE_CLIP) + self.intercept
        base, alone = (np.clip(np.nan_to_num(scores), -LARGEST, LARGEST) for scores in (base, alone))
        return held_question(base, alone, labels, bins)

    def _best_own(self, seen: Vector) -> tuple[OwnFit | OwnTrees, Vector]:
        """The own fit and its scores; trees where these do clearly better out of fold, on the labels that are sent."""
        if self.table is None:
            return self._own_line(seen)
        trees = self._own_trees(self.table, seen)
        if isinstance(self.block, RawTable):
            return trees
        line, loss = self._own_line(seen), self._tree_settings.loss
        return (line, trees)[clearly_best([loss.value(scores, seen) for _, scores in (line, trees)])]

    @property
    def _tree_settings(self) -> TreeSettings:
        """How trees are grown on the labels that are sent."""
        return for_labels(settings_of(self.problem), self.settings.label_epsilon, self.problem.rows)

    def _own_line(self, seen: Vector) -> tuple[OwnFit, Vector]:
        problem, weights = self._own_problem(seen)
        return fit_and_scores(problem, self.block, seen, self.solvers, FOLDS, weights)

    def _own_trees(self, table: RawTable, seen: Vector) -> tuple[OwnTrees, Vector]:
        """Trees, their number included, are made from the labels that are sent and from nothing else of labels."""
        return trees_alone(self._tree_settings, table, seen, FOLDS, self.problem.seed)

    def _own_problem(self, seen: Vector) -> tuple[Problem, Vector | None]:
        """The label holder's own problem; rows whose randomized label says little weigh less, and alpha is larger."""
        problem = replace(self.problem, loss=self.seen_loss)
        if self.settings.label_epsilon is None:
            return problem, None
        flip, size = self.settings.flip, self.block.mean_square() / (self.problem.rows)
        excess = 1 / (1 - 2 * flip) ** 2
        first = replace(problem, alpha=max(problem.alpha, FIRST_EXCESS * excess * size))
        weights = label_weight(fit_alone(first, self.block, seen, self.solvers).predict(self.block), flip)
        return replace(problem, alpha=max(problem.alpha, excess * size / float(weights.mean()))), weights

    def _seen_labels(self) -> Vector:
        """The labels that anything below is computed from: randomized once where that was asked."""
        if self.settings.label_epsilon is None:
            return self.labels
        said = self.release.respond(LABELS, (self.labels > 0).astype(np.int64))
        return np.where(said > 0, 1.0, -1.0)

    def _symbols(self) -> Arrays:
        """A private fit, and one randomized symbol for each row that is computed with it."""
        fit_settings, response = self.settings.holder_fit, self.settings.response
        assert fit_settings is not None
        assert response is not None
        start = np.zeros(self.block.n)
        ridge = self.problem.rows * self.settings.alpha
        fit = self.own_fit = private_fit(
            self.block, HalfTarget(start, self.labels), fit_settings, self.release, ridge=ridge
        )
        mean, spread = CONSTANT * float(fit.side[0]), math.sqrt(max(fit.spread, 1e-4))
        scores = fit.clip.apply(self.block).predict(fit.coef) + mean
        levels = levels_of(mean, spread, response.levels)
        positive = (self.labels > 0).astype(np.int64)
        if response.levels > 1:
            truth = 2 * np.digitize(scores, levels.cuts) + positive
            symbols = self.release.respond(SYMBOLS, truth).astype(np.float64)
            return {"symbols": symbols, "cuts": levels.cuts, "middles": levels.middles}
        residual = np.clip((0.5 * (1 + np.tanh(scores / 2)) - positive) / response.clip, -1.0, 1.0)
        signs = self.release.uniform(scores.size) < 0.5 * (1 + residual)
        said = self.release.respond(SYMBOLS, signs.astype(np.int64))
        return {
            "symbols": np.where(said > 0, 1.0, -1.0),
            "cuts": np.zeros(0),
            "middles": np.array([mean, mean + spread]),
        }

    # --- what comes in ---------------------------------------------------------------------------------

    def gather(self, answers: Mapping[str, Arrays]) -> Progress:
        """Keep the private fits; refit where that was asked; at last, what is said of rows held out."""
        self.exchanges += 1
        if self.exchanges == 3 and self.settings.evaluation is not None:
            ((name, answer),) = answers.items()
            asked = self._held_question(self.settings.evaluation.bins)
            self.tried = HeldOutRelease.of(answer, asked, self.settings.evaluation, name)
            return private_progress(done=True)
        if not self.fits:
            for name, arrays in answers.items():
                self.fits[name] = self._taken(name, arrays)
            return private_progress(done=self.settings.refit is None and not self.settings.releases_loss_change)
        if self.settings.refit is not None:
            self._refit({name: arrays[BITS] for name, arrays in answers.items()})
        else:
            self.gain = self._gain({name: float(arrays[LOSS_CHANGE][0]) for name, arrays in answers.items()})
        return private_progress(done=self.settings.evaluation is None)

    def _side(self) -> Vector:
        return np.asarray(sum(fit.side for fit in self.fits.values()))

    def _gain(self, changes: Mapping[str, float]) -> Gain:
        """The gain of the joint model, from released changes of the loss and the labels that everything else saw."""
        offset, labels, rows = self.sent["offset"], self.sent["labels"], self.problem.rows
        p = 0.5 * (1 + np.tanh(offset / 2))
        curvature, weight = float(np.mean(p * (1 - p))), self.settings.damping**2
        parties = [
            PartyChange(
                changes[name] / rows, fit.loss_change_sd / rows, self.fits[name].freedom, weight * curvature * spread
            )
            for name, fit in self.settings.fits.items()
            for spread in (self.fits[name].spread,)
        ]
        noise = max(fit.label_noise for fit in self.settings.fits.values())  # unweighted: an upper estimate
        moved = offset + side_columns(offset, score_column=True) @ self._side()
        return estimate(
            self.seen_loss.value(offset, labels),
            self.seen_loss.value(moved, labels),
            parties,
            excess=1 + noise / max(curvature, 1e-12),
            damping=self.settings.damping,
        )

    @property
    def outlook(self) -> str:
        """Whether it was worth it, where the run could tell; empty otherwise."""
        if self.gain is None:
            return ""
        return self.gain.sentence(self.settings.holder, randomized=self.settings.label_epsilon is not None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """On a row_norm that is far above the rows, as the released radius tells; and on what "alone" stands for."""
        fits = [(name, fit, self.settings.fits[name]) for name, fit in self.fits.items()]
        if isinstance(self.own_fit, PrivateFit) and self.settings.holder_fit is not None:
            fits.insert(0, (self.settings.holder, self.own_fit, self.settings.holder_fit))
        long = tuple(
            large_norm(name, settings.row_norm)
            for name, fit, settings in fits
            if is_short(fit.clip.radius, settings, self.problem.rows)
        )
        untried = self.gain is not None and self.table is None and bool(self.block.curves)
        return (*long, *((NO_TREES.format(self.settings.holder),) if untried else ()))

    def _taken(self, name: str, arrays: Arrays) -> PrivateFit:
        try:
            fit = fit_from_arrays(arrays, self.settings.fits[name].row_norm)
        except (KeyError, ValueError) as error:
            raise RunError(f"party {name!r}: its answer is damaged or incomplete ({error})") from error
        outputs, rows = self.settings.seen_loss.outputs, self.settings.fits[name]
        wanted = outputs * (2 if rows.score_column else 1)
        if fit.side.shape != (wanted,) or fit.coef.shape[:-1] != ((outputs,) if outputs > 1 else ()):
            raise RunError(f"party {name!r}: its answer has {fit.side.size} side coefficients, {wanted} were planned")
        return fit

    def _refit(self, bits: Mapping[str, Vector]) -> None:
        """Fit the own columns once more, beside what they can tell of the others' noisy scores."""
        assert self.settings.refit is not None
        loss = loss_beside(self.block, self.seen_loss, self.fits, bits, self.settings)
        seen, (problem, weights) = self.sent["labels"], self._own_problem(self.sent["labels"])
        self.own_fit = fit_alone(replace(problem, loss=loss), self.block, seen, self.solvers, weights)
        self.refitted = True

    # --- the model -------------------------------------------------------------------------------------

    @property
    def intercept(self) -> Any:
        """Constant of the joint scores; of several classes one for each."""
        if self.refitted:
            return 0.0
        if self.settings.target == "softmax":
            return CLASS_CONSTANT * self._side()
        side = sum(float(fit.side[0]) for fit in self.fits.values())
        if self.settings.response is not None:
            return self._own_constant() + self.settings.damping * CONSTANT * side
        return self.scale * side * (1.0 if self._score_is_side_column else CONSTANT)

    @property
    def _score_is_side_column(self) -> bool:
        return all(fit.score_column for fit in self.settings.fits.values())

    def _own_constant(self) -> float:
        if isinstance(self.own_fit, PrivateFit) and not self.settings.holder_is_exact:
            return CONSTANT * float(self.own_fit.side[0])
        return 0.0

    @property
    def part_scale(self) -> float:
        """The one number of the others' parts that is set here: the size of residuals in a regression, 1 elsewhere."""
        return self.scale

    def parts(self) -> dict[str, dict[str, Any]]:
        """Each party's part of the model: coef, offset, clip, bend."""
        scale = self.settings.damping * self.scale
        parts = {name: part_of(fit, scale) for name, fit in self.fits.items()}
        own: dict[str, Any]
        if self.settings.holder_is_exact:  # it stays with the label holder, and so do predictions
            own = self._exact_part()
        else:
            own = self._own_part()
        if self._score_is_side_column and not self.refitted and self.settings.response is None:
            own["bend"] = sum(float(fit.side[1]) for fit in self.fits.values()) / SCORE_CLIP
        return {**parts, self.settings.holder: own}

    def _exact_part(self) -> dict[str, Any]:
        """The label holder's own exact fit to its true labels; nobody else sees it.

        Where its rows are protected too they are clipped as in its private fit: what the others add was fitted beside
        scores of clipped rows, and one long row must not bend the fit. Where even so it cannot be made, the part that
        others' answers were made with takes its place: a run that stopped here would tell of the rows.
        """
        try:
            with np.errstate(all="ignore"):
                return self._exact_fit()
        except (TacitError, ArithmeticError, ValueError):
            part, own = self._own_part(), self.own_fit
            constant = CONSTANT * float(own.side[0]) if isinstance(own, PrivateFit) else 0.0
            return {**part, "offset": part["offset"] - constant}

    def _exact_fit(self) -> dict[str, Any]:
        if isinstance(self.own_fit, OwnTrees):
            assert self.table is not None
            settings = settings_of(self.problem)  # with the loss of the true labels
            return tree_part(trees_alone(settings, self.table, self.labels, FOLDS, self.problem.seed)[0])
        if not isinstance(self.own_fit, PrivateFit):
            exact = fit_alone(self.problem, self.block, self.labels, self.solvers)
            return {"coef": exact.coef, "offset": -exact.intercept}
        clip = _sparse_clip(self.own_fit.clip) if self.block.is_compact else self.own_fit.clip
        rows = make_block(clip.apply(self.block).matrix())
        rows.curves = self.block.curves
        exact, _ = fit_and_scores(self.problem, rows, self.labels, self.solvers, FOLDS)
        centred = 0.0 if clip.centre is None else float(clip.centre @ exact.coef)
        return {"coef": exact.coef, "offset": centred - exact.intercept, "clip": clip}

    def _own_part(self) -> dict[str, Any]:
        """The own part of the model that others' answers were made with."""
        assert self.own_fit is not None
        if isinstance(self.own_fit, PrivateFit):
            return part_of(self.own_fit, 1.0)
        if isinstance(self.own_fit, OwnTrees):
            return tree_part(self.own_fit)
        return {"coef": self.own_fit.coef, "offset": -self.own_fit.intercept}

    def closing(self) -> Arrays:
        """Nothing more is sent."""
        return {}

    def state(self) -> Arrays:
        """What was sent, the own fit and the fits of the others."""
        state = {f"sent.{name}": array for name, array in self.sent.items()}
        for name, fit in self.fits.items():
            state |= {f"fit.{list(self.settings.fits).index(name)}.{key}": v for key, v in fit_to_arrays(fit).items()}
        if isinstance(self.own_fit, PrivateFit):
            state |= {f"private.{key}": value for key, value in fit_to_state(self.own_fit).items()}
        elif isinstance(self.own_fit, OwnTrees):
            state |= {f"own.{key}": value for key, value in self.own_fit.state().items()}
        elif self.own_fit is not None:
            state["own"] = np.append(self.own_fit.coef, self.own_fit.intercept)
        gain = (math.nan,) * 3 if self.gain is None else (self.gain.alone, self.gain.change, self.gain.sd)
        state["numbers"] = np.array([self.scale, float(self.refitted), *gain])
        if self.settings.evaluation is not None:
            state["exchanges"] = np.array([float(self.exchanges)])
        if self.tried is not None:
            state |= {f"tried.{DIFFERENCE}": self.tried.sums, f"tried.{HISTOGRAM}": self.tried.counts.ravel()}
        return state

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.sent = _under("sent.", state)
        self.fits = {}
        for index, (name, fit) in enumerate(self.settings.fits.items()):
            arrays = _under(f"fit.{index}.", state)
            if arrays:
                self.fits[name] = fit_from_arrays(arrays, fit.row_norm)
        if "own" in state:
            self.own_fit = own_fit_from(state["own"], self.settings.seen_loss.outputs)
        elif "own.trees" in state:
            self.own_fit = OwnTrees.restored(_under("own.", state), (self.table or self.block).d)
        elif self.settings.holder_fit is not None and "private.coef" in state:
            self.own_fit = fit_from_arrays(_under("private.", state), self.settings.holder_fit.row_norm)
        self.scale, self.refitted = float(state["numbers"][0]), bool(state["numbers"][1])
        alone, change, sd = (float(value) for value in state["numbers"][2:])
        self.gain = None if math.isnan(alone) else Gain(alone, change, sd)
        if self.settings.evaluation is not None:
            self.exchanges, answer = int(state["exchanges"][0]), _under("tried.", state)
            if answer:
                asked = self._held_question(self.settings.evaluation.bins)
                self.tried = HeldOutRelease.of(answer, asked, self.settings.evaluation, next(iter(self.settings.fits)))


def own_fit_from(numbers: Vector, outputs: int) -> OwnFit:
    """The own fit that was kept: coefficients, then constants."""
    if outputs == 1:
        return OwnFit(numbers[:-1], float(numbers[-1]))
    return OwnFit(numbers[:-outputs].reshape(outputs, -1), numbers[-outputs:])


def _sparse_clip(clip: RowClip) -> RowClip:
    """A clip without a centre, under which sparse rows stay sparse; rows that the given one keeps whole stay whole."""
    assert clip.centre is not None
    return RowClip(min(clip.norm, float(np.linalg.norm(clip.centre)) + clip.radius))


def _under(prefix: str, state: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _holder(problem: Problem, labels: Vector, settings: Any, own: Block | None, release: Release) -> GramHolder:
    assert own is not None, "the label holder holds rows of its own"
    return GramHolder(problem, labels, settings, own, release, (MEMORY, MULTIPLIERS, AVERAGED))


GRAM_SHARING = PrivateSolver(name="gram", party=GramParty, coordinator=_holder, reads_each_answer=True)

"""The label holder: its own fit, what it sends to the protected parties, and the joint model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.algorithms.alone import OwnFit, fit_alone, out_of_fold
from tacit.algorithms.base import Algorithm, Problem, Progress, Release, private_progress
from tacit.algorithms.block import Block
from tacit.algorithms.gram.check import Checked, Gain, estimate, is_short, large_norm
from tacit.algorithms.gram.fit import CHECK, PrivateFit, private_fit, side_columns
from tacit.algorithms.gram.party import BITS, fit_from_arrays, fit_to_arrays, flip_of, part_of
from tacit.algorithms.gram.refit import loss_beside
from tacit.algorithms.gram.settings import BEND_AT, CONSTANT, FOLDS, GramSettings
from tacit.algorithms.gram.targets import Half, label_weight, levels_of
from tacit.algorithms.rows import RowClip
from tacit.errors import RunError, TacitError
from tacit.types import Arrays, Vector

LABELS, SYMBOLS = "labels", "symbols"
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
        methods: tuple[Algorithm, ...],
    ) -> None:
        self.problem, self.settings, self.block, self.release = problem, settings, block, release
        self.labels, self.methods, self.seen_loss = labels, methods, settings.seen_loss
        self.own: OwnFit | PrivateFit | None = None
        self.sent: Arrays = {}
        self.fits: dict[str, PrivateFit] = {}
        self.scale = 1.0
        self.refitted = False
        self.gain: Gain | None = None

    # --- what goes out ---------------------------------------------------------------------------------

    def broadcast(self) -> Arrays:
        """Offset and labels, or one symbol for each row; then, for a refit, a request for bits."""
        if self.fits:
            return {} if self.settings.refit is not None else {"side": self._side()}
        if not self.sent:
            self.sent = self._symbols() if self.settings.own is not None else self._offset()
        return self.sent

    def _offset(self) -> Arrays:
        """Scores by fits that did not see the row, so that the others see honest residuals."""
        seen = self._seen_labels()
        problem, weights = self._own_problem(seen)
        whole = self.own = fit_alone(problem, self.block, seen, self.methods, weights)
        offset = out_of_fold(problem, self.block, seen, self.methods, FOLDS, weights, whole=whole)
        if self.settings.target == "residual":
            self.scale = max(math.sqrt(float(np.mean(np.square(seen - offset)))), 1e-300)
        return {"offset": offset / self.scale, "labels": seen / self.scale}

    def _own_problem(self, seen: Vector) -> tuple[Problem, Vector | None]:
        """The label holder's own problem; rows whose randomized label says little weigh less, and alpha is larger."""
        problem = replace(self.problem, loss=self.seen_loss)
        if self.settings.label_epsilon is None:
            return problem, None
        flip, size = flip_of(self.settings.label_epsilon), self.block.mean_square() / (self.problem.rows)
        excess = 1 / (1 - 2 * flip) ** 2
        first = replace(problem, alpha=max(problem.alpha, FIRST_EXCESS * excess * size))
        weights = label_weight(fit_alone(first, self.block, seen, self.methods).predict(self.block), flip)
        return replace(problem, alpha=max(problem.alpha, excess * size / float(weights.mean()))), weights

    def _seen_labels(self) -> Vector:
        """The labels that anything below is computed from: randomized once where that was asked."""
        if self.settings.label_epsilon is None:
            return self.labels
        said = self.release.respond(LABELS, (self.labels > 0).astype(np.int64))
        return np.where(said > 0, 1.0, -1.0)

    def _symbols(self) -> Arrays:
        """A private fit, and one randomized symbol for each row that is computed with it."""
        own, response = self.settings.own, self.settings.response
        assert own is not None
        assert response is not None
        start = np.zeros(self.block.n)
        ridge = self.problem.rows * self.settings.alpha
        fit = self.own = private_fit(self.block, Half(start, self.labels), own, self.release, ridge=ridge)
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
        """Keep the private fits; refit where that was asked."""
        if not self.fits:
            for name, arrays in answers.items():
                self.fits[name] = self._taken(name, arrays)
            return private_progress(done=self.settings.refit is None and not self.settings.checks)
        if self.settings.refit is not None:
            self._refit({name: arrays[BITS] for name, arrays in answers.items()})
        else:
            self.gain = self._gain({name: float(arrays[CHECK][0]) for name, arrays in answers.items()})
        return private_progress(done=True)

    def _side(self) -> Vector:
        return np.asarray(sum(fit.side for fit in self.fits.values()))

    def _gain(self, checks: Mapping[str, float]) -> Gain:
        """What the checks say about the joint model; computed from the labels that everything else saw."""
        offset, labels, rows = self.sent["offset"], self.sent["labels"], self.problem.rows
        p = 0.5 * (1 + np.tanh(offset / 2))
        curvature, weight = float(np.mean(p * (1 - p))), self.settings.damping**2
        parties = [
            Checked(checks[name] / rows, fit.check_sd / rows, self.fits[name].freedom, weight * curvature * spread)
            for name, fit in self.settings.fits.items()
            for spread in (self.fits[name].spread,)
        ]
        noise = max(fit.label_noise for fit in self.settings.fits.values())  # unweighted: an upper estimate
        moved = offset + side_columns(offset, bent=True) @ self._side()
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
        """On a row_norm that is far above the rows, as the released radius tells."""
        fits = [(name, fit, self.settings.fits[name]) for name, fit in self.fits.items()]
        if isinstance(self.own, PrivateFit) and self.settings.own is not None:
            fits.insert(0, (self.settings.holder, self.own, self.settings.own))
        return tuple(
            large_norm(name, settings.row_norm)
            for name, fit, settings in fits
            if is_short(fit.clip.radius, settings, self.problem.rows)
        )

    def _taken(self, name: str, arrays: Arrays) -> PrivateFit:
        try:
            fit = fit_from_arrays(arrays, self.settings.fits[name].row_norm)
        except (KeyError, ValueError) as error:
            raise RunError(f"party {name!r}: its answer is damaged or incomplete ({error})") from error
        wanted = 2 if self.settings.fits[name].bent else 1
        if fit.side.shape != (wanted,):
            raise RunError(f"party {name!r}: its answer has {fit.side.size} side coefficients, {wanted} were planned")
        return fit

    def _refit(self, bits: Mapping[str, Vector]) -> None:
        """Fit the own columns once more, beside what they can tell of the others' noisy scores."""
        assert self.settings.refit is not None
        loss = loss_beside(self.block, self.seen_loss, self.fits, bits, self.settings)
        seen, (problem, weights) = self.sent["labels"], self._own_problem(self.sent["labels"])
        self.own = fit_alone(replace(problem, loss=loss), self.block, seen, self.methods, weights)
        self.refitted = True

    # --- the model -------------------------------------------------------------------------------------

    @property
    def intercept(self) -> float:
        """Constant of the joint scores."""
        if self.refitted:
            return 0.0
        side = sum(float(fit.side[0]) for fit in self.fits.values())
        if self.settings.response is not None:
            return self._own_constant() + self.settings.damping * CONSTANT * side
        return self.scale * side * (1.0 if self._bent else CONSTANT)

    @property
    def _bent(self) -> bool:
        return all(fit.bent for fit in self.settings.fits.values())

    def _own_constant(self) -> float:
        if isinstance(self.own, PrivateFit) and not self.settings.own_exact:
            return CONSTANT * float(self.own.side[0])
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
        if self.settings.own_exact:  # it stays with the label holder, and so do predictions
            own = self._exact_part()
        else:
            own = self._own_part()
        if self._bent and not self.refitted and self.settings.response is None:
            own["bend"] = sum(float(fit.side[1]) for fit in self.fits.values()) / BEND_AT
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
            part, own = self._own_part(), self.own
            constant = CONSTANT * float(own.side[0]) if isinstance(own, PrivateFit) else 0.0
            return {**part, "offset": part["offset"] - constant}

    def _exact_fit(self) -> dict[str, Any]:
        if not isinstance(self.own, PrivateFit):
            exact = fit_alone(self.problem, self.block, self.labels, self.methods)
            return {"coef": exact.coef, "offset": -exact.intercept}
        clip = _sparse_clip(self.own.clip) if self.block.is_sparse else self.own.clip
        exact = fit_alone(self.problem, Block(clip.apply(self.block).matrix()), self.labels, self.methods)
        centred = 0.0 if clip.centre is None else float(clip.centre @ exact.coef)
        return {"coef": exact.coef, "offset": centred - exact.intercept, "clip": clip}

    def _own_part(self) -> dict[str, Any]:
        """The own part of the model that others' answers were made with."""
        assert self.own is not None
        if isinstance(self.own, PrivateFit):
            return part_of(self.own, 1.0)
        return {"coef": self.own.coef, "offset": -self.own.intercept}

    def closing(self) -> Arrays:
        """Nothing more is sent."""
        return {}

    def state(self) -> Arrays:
        """What was sent, the own fit and the fits of the others."""
        state = {f"sent.{name}": array for name, array in self.sent.items()}
        for name, fit in self.fits.items():
            state |= {f"fit.{list(self.settings.fits).index(name)}.{key}": v for key, v in fit_to_arrays(fit).items()}
        if isinstance(self.own, PrivateFit):
            state |= {f"private.{key}": value for key, value in fit_to_arrays(self.own).items()}
        elif self.own is not None:
            state["own"] = np.append(self.own.coef, self.own.intercept)
        gain = (math.nan,) * 3 if self.gain is None else (self.gain.alone, self.gain.change, self.gain.sd)
        state["numbers"] = np.array([self.scale, float(self.refitted), *gain])
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
            self.own = OwnFit(state["own"][:-1], float(state["own"][-1]))
        elif self.settings.own is not None and "private.coef" in state:
            self.own = fit_from_arrays(_under("private.", state), self.settings.own.row_norm)
        self.scale, self.refitted = float(state["numbers"][0]), bool(state["numbers"][1])
        alone, change, sd = (float(value) for value in state["numbers"][2:])
        self.gain = None if math.isnan(alone) else Gain(alone, change, sd)


def _sparse_clip(clip: RowClip) -> RowClip:
    """A clip without a centre, under which sparse rows stay sparse; rows that the given one keeps whole stay whole."""
    assert clip.centre is not None
    return RowClip(min(clip.norm, float(np.linalg.norm(clip.centre)) + clip.radius))


def _under(prefix: str, state: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}

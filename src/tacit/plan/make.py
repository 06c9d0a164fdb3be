"""Plan and make_plan: every choice of a run checked against every other."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms import plan_privacy, seen_loss
from tacit.mechanisms.base import PrivatePlan, Sizes
from tacit.plan import describe
from tacit.plan.memory import check_lean, fitting_window
from tacit.privacy.certificate import Certificate, in_scope, not_private, secured
from tacit.problem.losses import Loss, get_loss, unbounded_reason
from tacit.problem.regularizers import Regularizer, get_regularizer
from tacit.solvers import ALGORITHMS, Algorithm
from tacit.solvers.base import PrivateAlgorithm, Problem
from tacit.text import plural
from tacit.types import Vector

WINDOW_BYTES = 128 * 2**20  # past steps may always take this much memory ...
WINDOW_SHARE = 0.25  # ... or this part of the input, where that is more
WIDE_BLOCK = 2000  # columns of one party from which a factorisation in every round takes too long
LEAST_MASKED = 3  # parties, of which one is the coordinator's: with two, the sum gives the other's vector away
SERVED = ("gram", "labels")  # mechanisms after which scores of further rows cost no more privacy
USUAL_ROUNDS = 200  # max_rounds where nobody said anything, in the estimators and in jobs
MANY_PARTIES = 10  # from which "multipliers" needs fewer rounds than "averaged" for smooth losses too


@dataclass(frozen=True)
class Plan:
    """What will be run, and what will be claimed about it."""

    problem: Problem
    method: str
    party_names: tuple[str, ...]
    max_rounds: int
    private: PrivatePlan | None = None
    secure: bool = False  # whether answers travel under masks, so that only their sum can be read
    holdout: float = 0.0  # the part of the rows that is kept out of training

    @property
    def algorithm(self) -> Algorithm | PrivateAlgorithm:
        """The two sides of the run."""
        if self.private is not None and self.private.algorithm is not None:
            return self.private.algorithm
        return ALGORITHMS[self.method]

    @property
    def asked_parties(self) -> tuple[str, ...]:
        """The parties to which messages go: all but the one that is itself the coordinator's side."""
        gathers = isinstance(self.algorithm, PrivateAlgorithm) and self.algorithm.gathers
        holder = self.private.holder if self.private is not None and gathers else None
        return tuple(name for name in self.party_names if name != holder)

    @property
    def fixed_rounds(self) -> bool:
        """Whether the number of rounds is fixed beforehand, so that there is no stopping rule."""
        return self.private is not None and self.private.algorithm is not None

    @property
    def most_rounds(self) -> int:
        """Exchanges at most."""
        return self.max_rounds if self.private is None else self.private.rounds

    def describe(self) -> dict[str, Any]:
        """Rounds, noise, claims, traffic and outlook as plain values; `str` says the same in words."""
        return describe.record(self)

    def __str__(self) -> str:
        return "\n".join(describe.lines(self))

    def certificate(self) -> Certificate:
        """The claim of the whole run."""
        rows = self.problem.rows
        known = not_private(self.party_names, rows) if self.private is None else self.private.certificate
        known = in_scope(known, self.holdout, evaluated=self.served)
        return secured(known, self.party_names) if self.secure else known

    @property
    def served(self) -> bool:
        """Whether the model may be evaluated on further rows: not where a certificate covers the messages alone."""
        return self.private is None or self.private.mechanism in SERVED

    def record(self) -> dict[str, Any]:
        """The plan as plain values, for the run directory and for checking a resumed run."""
        p = self.problem
        return {
            "method": self.method,
            "loss": p.loss.name,
            "penalty": p.regularizer.name,
            "alpha": p.alpha,
            "fit_intercept": p.fit_intercept,
            "rho": p.rho,
            "tol": p.tol,
            "max_rounds": self.max_rounds,
            "rows": p.rows,
            "parties": list(self.party_names),
            "window": p.max_window,
            "secure_aggregation": self.secure,
            "privacy": None if self.private is None else self.private.record(),
        }


def make_plan(
    *,
    loss: str | Loss,
    penalty: str | Regularizer | None,
    alpha: float,
    fit_intercept: bool,
    method: str,
    rho: float | str,
    max_rounds: int,
    tol: float,
    privacy: object,
    party_names: tuple[str, ...],
    rows: int,
    input_bytes: int,
    columns: tuple[int, ...] | None = None,
    row_weights: Vector | None = None,
    seed: int = 0,
    holder: str | None = None,
    secure_aggregation: bool = False,
    memory: int | None = None,
) -> Plan:
    """Check every choice against every other and fill in what is left open.

    `columns` says how many each party holds, where that is known: very wide blocks are left to "averaged".
    `holder` is the party with the labels, the first one where it is not said. With `secure_aggregation` the answers
    travel under masks. `memory` is how many bytes the process may take, where rows are left on disk for that.

    Raises
    ------
    InputError
        With one line that names the value and the way out.
    """
    if privacy is not None and columns is not None:
        input_bytes = 8 * rows * sum(columns)  # how many entries of a row are zero is data
    the_loss = seen_loss(get_loss(loss), privacy)
    regularizer = get_regularizer("none" if penalty is None else penalty)
    check_number("alpha", alpha, least=0.0)
    check_number("tol", tol, least=0.0)
    if isinstance(max_rounds, bool) or not isinstance(max_rounds, numbers.Integral) or max_rounds < 1:
        raise InputError(f"max_rounds={max_rounds!r} is not allowed: it must be a whole number of at least 1")
    if not isinstance(fit_intercept, bool | np.bool_):
        raise InputError(f"fit_intercept={fit_intercept!r} is not allowed: it must be True or False")
    reason = unbounded_reason(the_loss, regularizer, float(alpha))
    if reason:
        raise InputError(reason)
    widths = columns or (0,) * len(party_names)
    problem = Problem(
        loss=the_loss,
        regularizer=regularizer,
        alpha=0.0 if regularizer.name == "none" else float(alpha),
        fit_intercept=bool(fit_intercept),
        parties=len(party_names),
        rows=rows,
        tol=float(tol),
        rho=_check_rho(rho, the_loss, len(party_names), rows, row_weights),
        max_window=_window(rows, input_bytes) if memory is None else fitting_window(memory, rows, widths),
        row_weights=row_weights,
        seed=seed,
        sums_only=bool(secure_aggregation),
        lean=memory is not None,
    )
    chosen = _choose_method(method, problem, columns)
    if memory is not None:
        check_lean(chosen, private=privacy is not None, secure=bool(secure_aggregation))
    sizes = Sizes(party_names, holder or party_names[0], rows, widths, int(max_rounds), bool(secure_aggregation))
    private = _check_unused(plan_privacy(privacy, problem, sizes), method, rho, int(max_rounds))
    _check_secure(secure_aggregation, party_names, private)
    return Plan(problem, chosen, party_names, int(max_rounds), private, bool(secure_aggregation))


def _check_unused(private: PrivatePlan | None, method: str, rho: float | str, rounds: int) -> PrivatePlan | None:
    """Refuse what a mechanism with an algorithm of its own has no use for; remark on a bound that changes nothing."""
    if private is None or private.algorithm is None:
        return private
    mechanism = private.mechanism
    if method != "auto" and not (method == "published" and mechanism.startswith("published")):
        raise InputError(
            f"method={method!r} does not fit mechanism={mechanism!r}, which has a method of its own: leave method out"
        )
    if mechanism != "gram":
        return private
    if rho != "auto":
        raise InputError(f"rho={rho!r} does not fit mechanism='gram', which has no such penalty: leave rho out")
    if private.rounds > rounds:
        raise InputError(
            f"max_rounds={rounds} does not fit mechanism='gram', which takes {private.rounds}: leave max_rounds out"
        )
    if rounds == USUAL_ROUNDS:
        return private
    remark = f"max_rounds = {rounds} changes nothing: mechanism 'gram' always takes {plural(private.rounds, 'round')}"
    return replace(private, outlook=(*private.outlook, remark))


def _check_secure(secure: object, party_names: tuple[str, ...], private: PrivatePlan | None) -> None:
    """Refuse masks that would hide nothing, or that a mechanism has no sum for."""
    if not isinstance(secure, bool | np.bool_):
        raise InputError(f"secure_aggregation={secure!r} is not allowed: it must be True or False")
    if not secure:
        return
    if private is not None and private.algorithm is not None and private.algorithm.gathers:
        raise InputError(
            f"secure_aggregation=True does not fit mechanism={private.mechanism!r}, which reads every party's answer "
            "by itself and needs no sum: leave secure_aggregation out, or choose another mechanism"
        )
    if len(party_names) < LEAST_MASKED:
        raise InputError(
            f"secure_aggregation=True needs at least {LEAST_MASKED} parties, not {len(party_names)}: with two, the one "
            "that holds the labels takes its own numbers off the sum and has the other's"
        )


def _choose_method(method: str, problem: Problem, columns: tuple[int, ...] | None) -> str:
    loss, regularizer = problem.loss, problem.regularizer
    if method == "auto":
        return _fastest_method(problem, columns)
    if method not in ALGORITHMS:
        raise InputError(f"method={method!r} is unknown: choose one of auto, {', '.join(sorted(ALGORITHMS))}")
    reason = ALGORITHMS[method].refusal(loss, regularizer)
    if reason:
        raise InputError(f'method={method!r} does not fit: {reason}; use method="auto"')
    return method


def _fastest_method(problem: Problem, columns: tuple[int, ...] | None) -> str:
    """The method that needs the fewest rounds, as measured, where its work per round is bearable."""
    if not ALGORITHMS["memory"].refusal(problem.loss, problem.regularizer):
        return "memory"
    wide = max(columns or (0,)) > min(problem.rows, WIDE_BLOCK)
    if ALGORITHMS["multipliers"].refusal(problem.loss, problem.regularizer) or wide:
        return "averaged"
    return "multipliers" if not problem.loss.smooth or problem.parties >= MANY_PARTIES else "averaged"


def check_number(name: str, value: object, least: float) -> None:
    """Refuse what is not a finite number of at least `least`."""
    ok = isinstance(value, int | float) or hasattr(value, "__float__")
    if not ok or isinstance(value, str | bool) or not math.isfinite(float(value)) or float(value) < least:  # type: ignore[arg-type]
        raise InputError(f"{name}={value!r} is not allowed: it must be a finite number of at least {least:g}")


def _check_rho(rho: float | str, loss: Loss, parties: int, rows: int, row_weights: Vector | None) -> float | None:
    """Turn rho of the objective into rho times the total row weight, the unit of the algorithms."""
    if rho == "auto":
        return None
    if isinstance(rho, bool) or not isinstance(rho, numbers.Real) or not math.isfinite(rho) or rho <= 0:
        raise InputError(f'rho={rho!r} is not allowed: it must be positive, or "auto"')
    total = float(rows if row_weights is None else row_weights.sum())
    least = parties * loss.concavity / total  # below it a z-update has several minimisers
    if rho <= least:
        raise InputError(f'rho={rho!r} is too small for loss={loss.name!r}: give more than {least:.3g}, or "auto"')
    return float(rho) * total


def _window(rows: int, input_bytes: int) -> int:
    """Past steps that fit: two windows of one float64 per row and step."""
    room = max(WINDOW_BYTES, WINDOW_SHARE * input_bytes)
    return max(1, min(32, int(room // (16 * max(rows, 1)))))

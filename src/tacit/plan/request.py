"""All that a user asks of a training run, whatever the layout of the data is."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import cast

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms.base import USUAL_ROUNDS
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.problem.registry import get_loss, get_regularizer
from tacit.problem.regularizers import Regularizer
from tacit.solvers.boosting import TreeSettings


@dataclass(frozen=True)
class TrainingRequest:
    """What is to be trained, how, and how private it must be.

    Attributes
    ----------
    loss, penalty, alpha, fit_intercept
        The objective: (1/N) sum of the losses + alpha R(coef), the intercept free.
    tol : float
        Relative objective gap at which a run may stop.
    method : str
        The solver; "auto" takes the one that needs the fewest rounds.
    rho : float or "auto"
        Penalty of the solver, where it has one.
    max_rounds : int
        Rounds at most.
    privacy : Privacy or None
        How private the whole run must be; None adds no noise.
    options : PaperOptions or None
        Numbers of the papers' mechanisms.
    published : bool
        Whether a paper's mechanism is wanted in its exact form.
    seed : int
        For solvers that draw samples of rows.
    secure_aggregation : bool
        Whether answers travel under masks, so that only their sum can be read.
    memory : int or None
        Bytes that the process may take, where rows are left on disk for that.
    holdout : float
        The part of the rows that is kept out of training.
    trees : TreeSettings or None
        Settings of boosted trees, with their loss: the model is then a sum of trees, and `penalty` and `alpha` have no
        meaning.
    """

    loss: str | Loss
    penalty: str | Regularizer | None
    alpha: float
    fit_intercept: bool
    tol: float
    method: str = "auto"
    rho: float | str = "auto"
    max_rounds: int = USUAL_ROUNDS
    privacy: Privacy | None = None
    options: object = None
    published: bool = False
    seed: int = 0
    secure_aggregation: bool = False
    memory: int | None = None
    holdout: float = 0.0
    trees: TreeSettings | None = None

    @property
    def plain_loss(self) -> Loss:
        """The loss that was named; that of trees has the same facts about labels."""
        return get_loss(self.loss) if self.trees is None else cast("Loss", self.trees.loss)

    @property
    def regularizer(self) -> Regularizer:
        """The penalty that was named."""
        return get_regularizer("none" if self.penalty is None else self.penalty)

    @property
    def weight(self) -> float:
        """Alpha, or 0 where there is no penalty."""
        return 0.0 if self.regularizer.name == "none" else float(self.alpha)

    def check(self) -> None:
        """Refuse a value of the wrong kind.

        Raises
        ------
        InputError
            With one line that names the value and the way out.
        """
        check_number("alpha", self.alpha, least=0.0)
        check_number("tol", self.tol, least=0.0)
        rounds = self.max_rounds
        if isinstance(rounds, bool) or not isinstance(rounds, numbers.Integral) or rounds < 1:
            raise InputError(f"max_rounds={rounds!r} is not allowed: it must be a whole number of at least 1")
        for name in ("fit_intercept", "published", "secure_aggregation"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise InputError(f"{name}={value!r} is not allowed: it must be True or False")
        if self.privacy is not None and not isinstance(self.privacy, Privacy):
            raise InputError(f"privacy={self.privacy!r} is not allowed: give tacit.Privacy(...), or None")
        self.check_rho()
        if self.trees is not None:
            self.trees.check()

    def check_rho(self) -> float | None:
        """Rho of the objective, or None where it is left open."""
        rho = self.rho
        if isinstance(rho, str) and rho == "auto":
            return None
        if isinstance(rho, bool) or not isinstance(rho, numbers.Real) or not math.isfinite(rho) or rho <= 0:
            raise InputError(f'rho={rho!r} is not allowed: it must be positive, or "auto"')
        return float(rho)


def check_number(name: str, value: object, least: float) -> None:
    """Refuse what is not a finite number of at least `least`."""
    ok = isinstance(value, int | float) or hasattr(value, "__float__")
    if not ok or isinstance(value, str | bool) or not math.isfinite(float(value)) or float(value) < least:  # type: ignore[arg-type]
        raise InputError(f"{name}={value!r} is not allowed: it must be a finite number of at least {least:g}")

"""All that a user asks of a training run, whatever the layout of the data is."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms.base import USUAL_ROUNDS
from tacit.privacy.request import CAN_LEAVE_OUT_HOLDER, Privacy
from tacit.problem.losses import Loss
from tacit.problem.losses.modified import flip_of
from tacit.problem.registry import get_loss, get_regularizer
from tacit.problem.regularizers import Regularizer
from tacit.solvers.boosting import TREES, TreeLoss, TreeSettings
from tacit.solvers.boosting.settings import for_labels

AUTO = "auto"
CODED_ALPHA = 1e-4  # penalty of protected parties' curves beside the label holder's trees


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
    secure_aggregation : bool or "auto"
        Whether answers travel under masks, so that only their sum can be read; "auto", where rows are split: where the
        mechanism and the number of parties allow it.
    memory : int or None
        Bytes that the process may take, where rows are left on disk for that.
    holdout : str
        How rows are kept out of training, as the job says it; empty where none are.
    evaluated : bool
        Whether a planned release is to say how good the model is on these rows.
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
    secure_aggregation: bool | str = False
    memory: int | None = None
    holdout: str = ""
    evaluated: bool = False
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
            or_auto = name == "secure_aggregation"
            if not isinstance(value, bool | np.bool_) and not (or_auto and isinstance(value, str) and value == AUTO):
                more = ', or "auto"' if or_auto else ""
                raise InputError(f"{name}={value!r} is not allowed: it must be True or False{more}")
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


# --- Boosted trees: which loss parties see, how trees are grown, and what is refused


def loss_beside_trees(loss: TreeLoss, privacy: Privacy) -> Loss:
    """The loss that parties see: that of linear models where their rows are protected, as their parts are linear.

    Raises
    ------
    InputError
        Where there is none.
    """
    if privacy.epsilon is None:
        assert privacy.label_epsilon is not None
        return cast("Loss", loss.of_randomized(flip_of(privacy.label_epsilon)))
    if not loss.linear_name:
        raise InputError(
            f"privacy does not fit loss={loss.name!r} of trees: protected parties fit logistic, squared or absolute "
            "errors; choose one of these, or leave privacy out"
        )
    return get_loss(loss.linear_name)


def asked_trees(request: TrainingRequest, rows: int) -> TreeSettings:
    """How trees are grown: on randomized labels where these alone are protected; under masks with one common step."""
    trees = cast("TreeSettings", request.trees)
    trees = replace(trees, common_step=trees.common_step or bool(request.secure_aggregation))
    labels_alone = request.privacy is not None and request.privacy.epsilon is None
    return for_labels(trees, request.privacy.label_epsilon, rows) if labels_alone and request.privacy else trees


def check_trees(request: TrainingRequest) -> str:
    """The method of trees, where nothing else was asked that they cannot do."""
    if request.method not in ("auto", TREES.name):
        raise InputError(f"method={request.method!r} does not fit trees: leave method out")
    if request.memory is not None:
        raise InputError("memory is not available with boosted trees: leave it out, or train a linear model")
    if request.privacy is not None and request.privacy.mechanism not in CAN_LEAVE_OUT_HOLDER:
        raise InputError(
            f"mechanism={request.privacy.mechanism!r} does not fit boosted trees, whose label holder grows trees on "
            "its own rows beside mechanism 'gram' of the others: leave mechanism out"
        )
    return TREES.name

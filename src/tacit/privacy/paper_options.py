"""Options of the papers' private methods: the parameters that the papers leave to the user, all of them public."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.errors import InputError
from tacit.privacy.fields import show

NOISES = ("gaussian", "norm")
LAST_ROUNDS = ("dual", "primal")
Alphas = float | Sequence[float] | Mapping[str, float | Sequence[float]]


@dataclass(frozen=True)
class PaperOptions:
    """Parameters of the papers' methods, all public; what is left open follows from `Privacy` and public sizes.

    Attributes
    ----------
    alphas : float, sequence of float, or mapping of node to either, optional
        alpha_p(t) of dynamic: the pure epsilon of one round, of each round, or of each node's rounds. By default one
        number, from the epsilon and delta asked of the whole run. For "dual" and "primal".
    rounds : int, optional
        Rounds, where fewer than `max_rounds` are wanted; a sequence in `alphas` says it, too.
    loss_weight : float, optional
        C of dynamic (1 in pdml): weight of each node's mean loss.
    noise : {"gaussian", "norm"}, optional
        "primal": Gaussian noise on models, or the paper's, of density exp(-zeta |e|), which `alphas` ask for.
    last_round : {"dual", "primal"}, optional
        "primal": whether the last round is one of dual variable perturbation, as in the paper.
    objective_noise : float, optional
        R of pdml: bound on each entry of the noise that is drawn once. It earns nothing. 0, or 1 in the published form.
    first_sd : float, optional
        V of pdml: deviation of the noise of the first round; by default from the epsilon and delta that were asked.
    decay : float, default 0.95
        r of pdml: factor of the variance from one round to the next, up to 1.
    label_epsilons : mapping of node to sequence of float, optional
        pdml: the epsilon that each contributor chose for their own label, one for each row of the node. Nodes that are
        not named take `Privacy.label_epsilon`.
    randomized : bool, default False
        pdml: the labels came randomized at `label_epsilons`; they are used as they are, and not randomized again.
    """

    alphas: Alphas | None = None
    rounds: int | None = None
    loss_weight: float | None = None
    noise: str | None = None
    last_round: str | None = None
    objective_noise: float | None = None
    first_sd: float | None = None
    decay: float = 0.95
    label_epsilons: Mapping[str, Sequence[float]] | None = None
    randomized: bool = False

    def __post_init__(self) -> None:
        for name, allowed in (("noise", NOISES), ("last_round", LAST_ROUNDS)):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise InputError(f"{name}={show(value)} is unknown: choose one of {', '.join(allowed)}")
        for name in ("loss_weight", "first_sd"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.objective_noise != 0 and self.objective_noise is not None:
            check_positive("objective_noise", self.objective_noise)
        if check_positive("decay", self.decay) > 1:
            raise InputError(f"decay={self.decay!r} is not allowed: it must be at most 1")
        if self.rounds is not None and (isinstance(self.rounds, bool) or not isinstance(self.rounds, int)):
            raise InputError(f"rounds={show(self.rounds)} is not allowed: it must be a whole number of at least 1")
        if self.rounds is not None and self.rounds < 1:
            raise InputError(f"rounds={self.rounds} is not allowed: it must be at least 1")

    def refuse(self, method: str, *allowed: str) -> None:
        """Refuse an option that belongs to another method."""
        defaults = PaperOptions()
        for name in self.__dataclass_fields__:
            if (
                name not in allowed
                and name not in ("rounds", "loss_weight")
                and getattr(self, name) != getattr(defaults, name)
            ):
                raise InputError(f"option {name} does not belong to method={method!r}: leave it out")


def check_positive(name: str, value: object) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name}={show(value)} is not allowed: it must be a finite number above 0")
    return float(value)

"""What a user asks for: how private the whole run must be, for whom, and from whom."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tacit.errors import InputError
from tacit.privacy.events import NEIGHBOURS
from tacit.records import show

# --- What a user asks for: how private the whole run must be, for whom, and from whom


# Mechanisms for which protect="others" leaves the rows of the label holder unprotected. Jobs need it before mechanisms
# are known; each says the same of itself (`Mechanism.can_leave_out_holder`), and a test compares the two.
CAN_LEAVE_OUT_HOLDER = ("auto", "gram")
ASKED_UNITS = ("record", "person")
PROTECT = ("others", "everyone")
PREDICTIONS = ("anyone", "label-holder")
ACCOUNTANTS = ("gdp", "pld")


@dataclass(frozen=True)
class Privacy:
    """The privacy asked of a whole run; the noise is calibrated backwards from it.

    Attributes
    ----------
    epsilon : float or None, default 2.0
        Of the whole run, at `delta`. None adds no noise to what depends on rows: give `label_epsilon` then.
    delta : float, default 1e-5
        The delta at which epsilon holds; it should be far below 1 / rows.
    unit : {"record", "person"}, default "record"
        "record": one row of one party. "person": the rows of one person at all parties whose rows are protected.
    label_epsilon : float or None, default None
        Each label is randomized once with this epsilon, and training sends nothing that was made from true labels.
        An evaluation on rows held out uses the true labels of these rows, and figures of the label holder's model
        alone, or predictions="label-holder", those of its own rows: none of these is covered.
    row_norm : float, mapping of party to float, or None, default None
        Rows are scaled down to this norm where they are longer. It must not be taken from the data. None is the norm
        that follows from the encoding where numbers are curves (terms="spline"), and 1.0 elsewhere.
    accountant : {"gdp", "pld"}, default "gdp"
        "gdp" is exact for Gaussian noise; "pld" asks dp-accounting, which rounds a little upwards.
    protect : {"others", "everyone"}, default "others"
        "others": the rows of the parties without the labels. "everyone": all rows and the labels.
    mechanism : str, default "auto"
        Feature split: "auto", "gram", "shares", "published" or "published-inverse". "auto" is "gram": noise on sums
        over all rows. "shares" puts noise on every row's share, and covers training messages only. "published" is the
        paper's noise on the coefficients, "published-inverse" that of its longer version, of covariance
        sigma^2 (D'D)^-1; both protect nobody, and their certificate says so. Sample split: "auto", "gaussian", "dual",
        "primal" or "pdml". "auto" is "gaussian", or "pdml" where labels are randomized; the last three are papers'.
    predictions : {"anyone", "label-holder"}, default "anyone"
        Who may see predictions. Where only the label holder does, it uses its own exact fit in them, which may make
        them better or worse: measure it on rows kept out of training.
    neighbours : {"replace-one", "zero-out"}, default "replace-one"
        What may change about a row.
    coef_norm : float, default 1.0
        Largest norm of the coefficients whose shares a party releases, for "shares" and the published mechanisms
        (b1 of the paper).
    refit : bool, default False
        Mechanism "gram": let the label holder fit its own columns once more beside the others' noisy scores.
    label_norm : float, default 1.0
        Sample split, labels that are numbers: their unit, and the residual at which the squared loss becomes linear.
        Of counts (loss="poisson"): the largest one, as which larger ones count. The bound on one row's influence comes
        from there, so it must not be taken from the data.
    epsilon_by_party : mapping of party to float, or None, default None
        Sample split: an epsilon of its own for some nodes; `epsilon` holds for all others.
    honest : int or None, default None
        With secure_aggregation=True, mechanism "shares" and the sample split: at least this many parties, the protected
        one among them, do not pool what they know with the coordinator or with others who do; each party then adds
        only 1/sqrt(honest) of the noise. None: every party adds all of it ("shares"); all parties but one (samples).
    noise_seed : int or None, default None
        Repeatable noise, for tests and papers only: anyone who knows the seed can remove the noise.
    """

    epsilon: float | None = 2.0
    delta: float = 1e-5
    unit: str = "record"
    label_epsilon: float | None = None
    row_norm: float | Mapping[str, float] | None = None
    accountant: str = "gdp"
    protect: str = "others"
    mechanism: str = "auto"
    predictions: str = "anyone"
    neighbours: str = "replace-one"
    coef_norm: float = 1.0
    refit: bool = False
    label_norm: float = 1.0
    epsilon_by_party: Mapping[str, float] | None = None
    honest: int | None = None
    noise_seed: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("unit", ASKED_UNITS),
            ("accountant", ACCOUNTANTS),
            ("protect", PROTECT),
            ("predictions", PREDICTIONS),
            ("neighbours", NEIGHBOURS),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name}={show(getattr(self, name))} is unknown: choose one of {', '.join(allowed)}")
        if self.epsilon is not None:
            _check_positive("epsilon", self.epsilon)
        if self.label_epsilon is not None:
            _check_positive("label_epsilon", self.label_epsilon)
        if self.epsilon is None and self.label_epsilon is None:
            raise InputError("epsilon=None asks for nothing: give epsilon, label_epsilon, or privacy=None")
        _check_positive("delta", self.delta)
        if self.delta >= 1:
            raise InputError(f"delta={self.delta!r} is not allowed: it must be below 1, and should be far below 1/rows")
        _check_positive("coef_norm", self.coef_norm)
        _check_positive("label_norm", self.label_norm)
        if not isinstance(self.epsilon_by_party, Mapping | None):
            raise InputError(
                f"epsilon_by_party={show(self.epsilon_by_party)} is not allowed: give a number for each party"
            )
        for value in (self.epsilon_by_party or {}).values():
            _check_positive("epsilon_by_party", value)
        if isinstance(self.row_norm, list | tuple):
            raise InputError(
                f"row_norm={show(self.row_norm)} is not allowed: give one number, or a mapping of party to number, "
                "such as {'party 1': 1.0, 'party 2': 2.0}"
            )
        if self.row_norm is not None:
            for norm in self.row_norm.values() if isinstance(self.row_norm, Mapping) else (self.row_norm,):
                _check_positive("row_norm", norm)
        if not isinstance(self.refit, bool):
            raise InputError(f"refit={show(self.refit)} is not allowed: it must be True or False")
        _check_whole("noise_seed", self.noise_seed, 0)
        _check_whole("honest", self.honest, 1)
        if not isinstance(self.mechanism, str):
            raise InputError(f"mechanism={show(self.mechanism)} is not allowed: give its name, or leave it out")

    @property
    def spares_holder(self) -> bool:
        """Whether the rows of the party with the labels are left unprotected in a feature split."""
        return self.protect == "others" and self.mechanism in CAN_LEAVE_OUT_HOLDER

    def norm_of(self, party: str) -> float:
        """Largest norm of a row of this party."""
        if self.row_norm is None:
            return 1.0
        if not isinstance(self.row_norm, Mapping):
            return float(self.row_norm)
        if party not in self.row_norm:
            raise InputError(f"row_norm says nothing about party {show(party)}: give a number for it")
        return float(self.row_norm[party])

    def epsilon_of(self, party: str) -> float:
        """Epsilon asked for the rows of this party."""
        own = self.epsilon if self.epsilon_by_party is None else self.epsilon_by_party.get(party, self.epsilon)
        if own is None:
            raise InputError(f"epsilon says nothing about party {show(party)}: give a number for it")
        return float(own)

    def record(self) -> dict[str, Any]:
        """What was asked as plain values, for plans and certificates."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["row_norm"] = 1.0 if self.row_norm is None else self.row_norm
        for name in ("row_norm", "epsilon_by_party"):
            if isinstance(values[name], Mapping):
                values[name] = {party: float(value) for party, value in values[name].items()}
        return values


def _check_whole(name: str, value: object, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InputError(f"{name}={show(value)} is not allowed: it must be a whole number from {least}, or None")


def _check_positive(name: str, value: object) -> None:
    ok = isinstance(value, int | float) or hasattr(value, "__float__")
    if not ok or isinstance(value, str | bool) or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"{name}={show(value)} is not allowed: it must be a finite number above 0")


RANDOMIZED = (
    "the labels of the rows trained on: each was randomized once, and training sent nothing that was made from the "
    "true ones"
)
"""What may be said of labels that a party randomizes itself; what is computed from true labels is not covered."""

CLASSES = "which two classes there are, and that both occur: a run with one class only is refused, so this is public"
"""The sentence about labels that every certificate which claims something for them needs."""

SEEDED = "the noise was made from a seed (noise_seed): anyone who knows it can remove the noise, so nobody is protected"
"""The sentence that marks the certificate of a run with repeatable noise."""


# --- Options of the papers' private methods: the parameters that the papers leave to the user, all of them public


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
                raise InputError(f"option {name} does not belong to mechanism={method!r}: leave it out")


def check_positive(name: str, value: object) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name}={show(value)} is not allowed: it must be a finite number above 0")
    return float(value)

"""The trade-off between privacy and accuracy of one round, and the alpha that balances it.

T. Zhang and Q. Zhu, "Dynamic differential privacy for ADMM-based distributed classification learning", IEEE TIFS 12
(2017), section V-C and equation (28).

| symbol | here | meaning |
|---|---|---|
| alpha | alpha | pure epsilon of one round |
| c4, c5, c6 | height, rate, floor | of the fitted loss: c4 e^(-c5 alpha) + c6, all at least 0 |
| w1..w4 | scale, top, linear, square | of the utility of privacy: w1 ln(w2 / (w3 alpha + w4 alpha^2)), all above 0 |
| alpha_U, c3 | most_alpha, most_loss | bounds on alpha and on the fitted loss |

Choosing alpha from losses of private rows is a release of its own: `tacit_papers.design.tuning_cost`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize

from tacit.errors import InputError
from tacit.records import positive
from tacit.types import Vector

# --- the trade-off between privacy and accuracy of one round, and the alpha that balances it ---------

GRID = 4000  # points between the ends, on which changes of sign of the slope are looked for
RATES = 400  # candidates for c5 before the best one is refined
REACH = 1e3  # c5 is looked for from 1/(REACH largest alpha) ...
STEEPEST = 20.0  # ... to this over the smallest alpha: what falls faster between 0 and there, no point can show


@dataclass(frozen=True)
class LossCurve:
    """L_acc(alpha) = height e^(-rate alpha) + floor, and the root mean square distance of its points."""

    height: float
    rate: float
    floor: float
    residual: float = 0.0

    def __call__(self, alpha: float) -> float:
        """The loss at alpha."""
        return self.height * math.exp(-self.rate * alpha) + self.floor

    def alpha_for(self, loss: float) -> float:
        """Smallest alpha >= 0 at which the loss is at most `loss`; infinite where none is."""
        if loss >= self.height + self.floor:
            return 0.0
        return math.inf if loss <= self.floor else math.log(self.height / (loss - self.floor)) / self.rate


@dataclass(frozen=True)
class PrivacyUtility:
    """U_priv(alpha) = scale ln(top / (linear alpha + square alpha^2)); the paper's numbers by default."""

    scale: float = 0.02
    top: float = 6.0
    linear: float = 9.0
    square: float = 1.0

    def __post_init__(self) -> None:
        for name in ("scale", "top", "linear", "square"):
            positive(getattr(self, name), name)

    def __call__(self, alpha: float) -> float:
        """The utility at alpha."""
        return self.scale * math.log(self.top / (self.linear * alpha + self.square * alpha**2))

    def slope(self, alpha: float) -> float:
        """Its derivative, below 0 everywhere."""
        return -self.scale * (1 / alpha + self.square / (self.linear + self.square * alpha))


@dataclass(frozen=True)
class Design:
    """The alpha that balances loss and privacy.

    Attributes
    ----------
    alpha, loss, utility, objective : float
        The best alpha, L_acc and U_priv there, and J = L_acc - U_priv.
    least_alpha, most_alpha : float
        The ends of what the bounds allow.
    where : {"inside", "loss bound", "alpha bound"}
        Whether J has a minimum there, or a bound holds it.
    minima : tuple of float
        Every alpha between the ends at which J has a local minimum.
    curve, utility_of : LossCurve, PrivacyUtility
    """

    alpha: float
    loss: float
    utility: float
    objective: float
    least_alpha: float
    most_alpha: float
    where: str
    minima: tuple[float, ...]
    curve: LossCurve
    utility_of: PrivacyUtility

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "minima": list(self.minima)}


def fit_loss_curve(alphas: Sequence[float], losses: Sequence[float]) -> LossCurve:
    """Fit L_acc(alpha) = c4 e^(-c5 alpha) + c6 to measured points by least squares.

    For each c5 the best c4 and c6 that are not negative are found exactly; c5 is searched for on a grid and refined.

    Parameters
    ----------
    alphas, losses : sequences of float
        At least three different values of alpha above 0; several losses of one alpha are all counted.

    Raises
    ------
    InputError
        For fewer alphas, values out of range, or losses that do not fall as alpha grows.
    """
    x, y = np.asarray(alphas, dtype=float), np.asarray(losses, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"there are {x.size} alphas and {y.size} losses: give one loss for each alpha")
    for name, values, least in (("alpha", x, "above 0"), ("loss", y, "at least 0")):
        bad = ~np.isfinite(values) | (values < 0) | ((values == 0) & (name == "alpha"))
        if bad.any():
            raise InputError(f"{name}={float(values[bad][0])!r} is not allowed: it must be a finite number {least}")
    if np.unique(x).size < 3:
        raise InputError(
            f"there are {np.unique(x).size} different alphas: three numbers are fitted, so give at least 3"
        )
    rates = np.geomspace(1 / (REACH * x.max()), STEEPEST / x.min(), RATES)
    errors = [_best_heights(rate, x, y)[2] for rate in rates]
    best = int(np.argmin(errors))
    ends = np.log(rates[[max(best - 1, 0), min(best + 1, RATES - 1)]])
    found = optimize.minimize_scalar(
        lambda log: _best_heights(math.exp(log), x, y)[2],
        bounds=tuple(ends),
        method="bounded",
        options={"xatol": 1e-12},
    )
    rate = math.exp(found.x) if found.fun <= errors[best] else float(rates[best])
    height, floor, error = _best_heights(rate, x, y)
    if height <= 0:
        raise InputError("the losses do not fall as alpha grows: there is nothing to balance, so measure more points")
    return LossCurve(height, rate, floor, error / math.sqrt(x.size))


def _best_heights(rate: float, x: Vector, y: Vector) -> tuple[float, float, float]:
    """c4 and c6 for a given c5, and the norm of what is left."""
    (height, floor), error = optimize.nnls(np.column_stack([np.exp(-rate * x), np.ones_like(x)]), y)
    return float(height), float(floor), float(error)


def choose_alpha(curve: LossCurve, utility: PrivacyUtility, most_alpha: float, most_loss: float) -> Design:
    """Minimise J(alpha) = L_acc(alpha) - U_priv(alpha) over 0 < alpha <= alpha_U, L_acc(alpha) <= c3: equation (28).

    J falls without bound as alpha goes to 0, where U_priv is infinite: (28) has a minimum only where c3 keeps alpha
    away from 0, that is c3 < c4 + c6. The paper does not say so, and means a local minimum inside: it is found where it
    is the best, and `Design.minima` lists it where it is not. (The paper also calls L_acc "increasing": accuracy
    is, and L_acc falls.)

    Raises
    ------
    InputError
        Where the bounds leave no alpha, or leave all down to 0.
    """
    positive(most_alpha, "most_alpha")
    positive(most_loss, "most_loss")
    least = curve.alpha_for(most_loss)
    if least == 0:
        raise InputError(
            f"most_loss={most_loss:g} allows every alpha, and the objective falls without bound as alpha goes to 0: "
            f"give most_loss below {curve.height + curve.floor:.6g}, the fitted loss at alpha 0"
        )
    if least > most_alpha:
        raise InputError(
            f"no alpha up to {most_alpha:g} has a fitted loss of at most {most_loss:g}: raise most_alpha, or most_loss "
            f"to {curve(most_alpha):.6g} or more"
        )
    minima = _minima(curve, utility, least, most_alpha)
    ends = {least: "loss bound", most_alpha: "alpha bound"}
    best = min([*minima, *ends], key=lambda alpha: curve(alpha) - utility(alpha))
    value = curve(best) - utility(best)
    return Design(
        best, curve(best), utility(best), value, least, most_alpha, ends.get(best, "inside"), minima, curve, utility
    )


def _minima(curve: LossCurve, utility: PrivacyUtility, low: float, high: float) -> tuple[float, ...]:
    """Where the slope of J changes from falling to rising."""

    def slope(alpha: float) -> float:
        return -curve.height * curve.rate * math.exp(-curve.rate * alpha) - utility.slope(alpha)

    grid = np.geomspace(low, high, GRID)
    signs = np.array([slope(float(alpha)) for alpha in grid])
    turns = np.flatnonzero((signs[:-1] < 0) & (signs[1:] >= 0))
    return tuple(float(optimize.brentq(slope, grid[k], grid[k + 1], xtol=1e-14)) for k in turns)


# --- the trade-off as a picture: measured losses, the fitted curve, the utility of privacy, and the best alpha ---

MISSING = 'a picture needs matplotlib, which is not installed: pip install "tacit[plot]", or leave the picture out'
BLUE, GREY, RED = "#1f5f99", "#666666", "#b3261e"


def has_matplotlib() -> bool:
    """Whether a picture can be drawn."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(design: Design, alphas: Sequence[float], losses: Sequence[float], path: str | Path) -> Path:
    """Draw the points and the fitted loss on the left, loss, utility and balance on the right.

    Raises
    ------
    InputError
        Where matplotlib is not installed, or the file cannot be written.
    """
    if not has_matplotlib():
        raise InputError(MISSING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.5), dpi=150)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.24})
    low, high = min(design.least_alpha, *alphas), max(design.most_alpha, *alphas)
    grid = np.geomspace(low / 1.5, high * 1.2, 400)
    _losses(left, design, alphas, losses, grid)
    _balance(right, design, grid)
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xlim(grid[0], grid[-1])
        panel.axvspan(grid[0], design.least_alpha, color=GREY, alpha=0.12, linewidth=0)
        panel.axvspan(design.most_alpha, grid[-1], color=GREY, alpha=0.12, linewidth=0)
        panel.axvline(design.alpha, color=RED, linewidth=0.9, linestyle=(0, (4, 3)))
        panel.set_xlabel("alpha: epsilon of one round (grey: outside the bounds)")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(loc="upper right", fontsize=8, framealpha=1.0, edgecolor="none")
    out = Path(path)
    try:
        figure.savefig(out, bbox_inches="tight", pad_inches=0.15)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write the picture {out}: {error}") from error
    return out


def _losses(panel: Any, design: Design, alphas: Sequence[float], losses: Sequence[float], grid: Any) -> None:
    curve = design.curve
    panel.plot(alphas, losses, "o", color=BLUE, markersize=5, label="measured")
    label = f"{curve.height:.3g} exp(-{curve.rate:.3g} alpha) + {curve.floor:.3g}"
    panel.plot(grid, [curve(a) for a in grid], color=BLUE, linewidth=1.5, label=label)
    panel.plot([design.alpha], [design.loss], "D", color=RED, markersize=7, label=f"best alpha {design.alpha:.3g}")
    panel.set_title("loss", fontsize=10, loc="left")


def _balance(panel: Any, design: Design, grid: Any) -> None:
    curve, utility = design.curve, design.utility_of
    panel.plot(grid, [curve(a) for a in grid], color=BLUE, linewidth=1.2, label="fitted loss")
    panel.plot(grid, [utility(a) for a in grid], color=GREY, linewidth=1.2, label="utility of privacy")
    panel.plot(grid, [curve(a) - utility(a) for a in grid], color=RED, linewidth=1.6, label="loss - utility")
    panel.plot([design.alpha], [design.objective], "D", color=RED, markersize=7)
    panel.set_title("balance", fontsize=10, loc="left")

"""The figures of the paper, and those that stand beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit_papers.dynamic.readings import (
    UTILITY,
    Readings,
    balance,
    inner_minimum,
    printed_curve,
)
from tacit_papers.dynamic.settings import ALPHAS, ETAS, NAMES, SHOWN
from tacit_papers.paper import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, legend, tidy

Draw = Callable[[Any], None]
COLOURS = {"none": GREY, "dvp": BLUE, "pvp": RED, "pvp-table": ORANGE}
LOSS = "mean logistic loss (nats)"
ALPHA = "alpha of one iteration"
ZERO_MODEL = np.log(2)
OUTSIDE = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}


def convergence(at: Readings, alpha: float) -> Draw:
    """Fig. 3: loss by iteration at one alpha."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        steps = np.arange(1, at.iterations + 1)
        axes.plot(steps, at.curve("run/none"), color="#aaaaaa", lw=3.2, label=NAMES["none"])
        axes.plot(steps, at.curve(f"run/dvp/{alpha}"), color=BLUE, lw=1.3, label=NAMES["dvp"])
        axes.plot(steps, at.curve(f"run/pvp/{alpha}"), color=RED, lw=1.3, label=NAMES["pvp"])
        released = at.curve(f"run/pvp/{alpha}", "released")
        axes.plot(steps, released, color=RED, lw=0.9, ls=(0, (3, 2)), label="PVP, C^R 146, as sent")
        axes.plot(steps, at.curve(f"run/pvp-table/{alpha}"), color=ORANGE, lw=1.3, label=NAMES["pvp-table"])
        axes.axhline(ZERO_MODEL, color="#222222", lw=0.8, ls=":", label="zero model (ln 2)")
        axes.set_yscale("log")
        axes.set_xlim(0, at.iterations)
        tidy(axes, "iteration", LOSS)
        legend(axes, **OUTSIDE)

    return draw


def sound_forms(at: Readings) -> Draw:
    """Beside Fig. 3: the forms that have a proof, at the same alphas and parameters."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        steps = np.arange(1, at.iterations + 1)
        shades = (PURPLE, RED, ORANGE, GREEN)
        for axes, name, title in zip(
            panels, ("dvp", "pvp"), ("DVP, zeta halved", "PVP, from released models"), strict=True
        ):
            for alpha, colour in zip(SHOWN, shades, strict=True):
                axes.plot(
                    steps, at.curve(f"sound/{name}/{alpha}", "released"), color=colour, lw=1.4, label=f"alpha {alpha:g}"
                )
                axes.plot(steps, at.curve(f"run/{name}/{alpha}"), color=colour, lw=0.9, ls=(0, (3, 2)))
            axes.plot(steps, at.curve("run/none"), color=GREY, lw=1.8, label=NAMES["none"])
            axes.set_yscale("log")
            tidy(axes, "iteration", LOSS if axes is panels[0] else "", title)
        panels[1].plot([], [], color="#222222", lw=0.9, ls=(0, (3, 2)), label="as published")
        legend(panels[1], **OUTSIDE)

    return draw


def tradeoff(at: Readings, name: str, iteration: int) -> Draw:
    """Fig. 4: loss by alpha with its curve, and the balance with the utility of privacy."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        grid = np.geomspace(0.008, 1.2, 300)
        points, fitted = at.points(name, iteration), at.fit(name, iteration)
        floor = min(points) if fitted is None else fitted.floor
        printed = printed_curve(name, floor)
        left.plot(ALPHAS, points, "o", color=COLOURS[name], ms=5, label="measured")
        curves = [("printed c4, c5 above our floor", printed, GREEN)]
        if fitted is not None:
            label = f"fitted: {fitted.height:.3g} exp(-{fitted.rate:.3g} alpha) + {fitted.floor:.3g}"
            curves.insert(0, (label, fitted, COLOURS[name]))
        lowest = np.inf
        for label, curve, colour in curves:
            left.plot(grid, [curve(a) for a in grid], color=colour, lw=1.4, label=label)
            inside = inner_minimum(curve)
            best = "no minimum inside" if inside is None else f"minimum inside at {inside:.3g}"
            right.plot(
                grid,
                [balance(curve, a) for a in grid],
                color=colour,
                lw=1.4,
                label=f"{label.split(':')[0].split(' c4')[0]}: {best}",
            )
            if inside is not None:
                right.plot([inside], [balance(curve, inside)], "D", color=colour, ms=6)
                lowest = min(lowest, balance(curve, inside))
        middle = lowest if np.isfinite(lowest) else floor
        if middle < 2:  # otherwise the utility is too small to be seen beside it
            right.plot(grid, [UTILITY(a) for a in grid], color=GREY, lw=1.1, label="utility of privacy")
        right.set_ylim(*((-0.1, middle + 0.6) if middle < 2 else (middle - 0.3, middle + 1.5)))
        left.set_yscale("log")
        for axes, what in ((left, LOSS), (right, "loss - utility")):
            axes.set_xscale("log")
            tidy(axes, ALPHA, what)
            legend(axes, loc="lower center", bbox_to_anchor=(0.5, 1.01), borderaxespad=0.0)

    return draw


def by_alpha(at: Readings, when: str, what: str) -> Draw:
    """Fig. 5: loss of the final output, or error at the last iteration, by alpha."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name in ("dvp", "pvp"):
            axes.plot(ALPHAS, at.values(name, when, what), "o-", color=COLOURS[name], lw=1.4, ms=4, label=NAMES[name])
            sound = [at.value(f"sound/{name}/{alpha}", when, what) for alpha in SHOWN]
            axes.plot(SHOWN, sound, "s", mfc="white", color=COLOURS[name], ms=6, label=f"{name.upper()}, sound form")
        table = at.values("pvp-table", when, what, SHOWN)
        axes.plot(SHOWN, table, "^--", color=ORANGE, lw=1.0, ms=5, label=NAMES["pvp-table"])
        axes.axhline(at.value("run/none", when, what), color=GREY, lw=1.6, label=NAMES["none"])
        axes.axhline(float(at.outcome("pooled")[what]), color=GREY, lw=1.0, ls=":", label="all rows in one place")
        axes.set_xscale("log")
        if what == "loss":
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0.0)
        tidy(axes, ALPHA, LOSS if what == "loss" else "wrong labels (part of the test rows)")
        legend(axes, **OUTSIDE)

    return draw


def by_eta(at: Readings) -> Draw:
    """Beside Fig. 3: what eta, which is not printed, changes."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name in ("none", "dvp", "pvp"):
            losses = [at.changed(f"eta/{eta:g}", name) for eta in ETAS]
            axes.plot(ETAS, losses, "o-", color=COLOURS[name], lw=1.4, ms=5, label=NAMES[name])
        axes.axhline(ZERO_MODEL, color="#222222", lw=0.8, ls=":", label="zero model (ln 2)")
        axes.set_xscale("log")
        axes.set_yscale("log")
        tidy(axes, "eta: weight of the distance from neighbours", LOSS)
        legend(axes, **OUTSIDE)

    return draw


def densities(at: Readings) -> Draw:
    """Beside theorems 1 and 2: the largest log ratio that was found, by iteration."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1, 2]})
        for place, (name, label, colour) in enumerate((("dvp", "printed", RED), ("dvp-half", "zeta halved", GREEN))):
            outcome = at.outcome(f"density/{name}")
            at_x = np.array(outcome["rounds"]) + 0.36 * (place - 0.5)
            left.bar(at_x, outcome["found"], width=0.34, color=colour, label=label)
        left.set_xticks([1, 2])
        for name, label, colour in (("pvp", "printed", RED), ("pvp-released", "from released models", GREEN)):
            outcome = at.outcome(f"density/{name}")
            right.plot(outcome["rounds"], outcome["found"], "o-", color=colour, lw=1.0, ms=3.5, label=label)
        right.set_yscale("log")
        for axes, title in ((left, "DVP"), (right, "PVP; the last iteration is one of DVP")):
            axes.axhline(0.5, color="#222222", lw=0.9, ls=":", label="stated: alpha 0.5")
            tidy(axes, "iteration", "largest log ratio found" if axes is left else "", title)
            legend(axes, loc="upper left")
        left.set_ylim(0, 1.6)
        right.set_ylim(top=20)

    return draw

"""The pictures of the sharing paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit_papers.paper import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, legend, tidy
from tacit_papers.sharing.claims import (
    best_rho,
    best_step,
    chosen_rho,
    default_step,
    end,
    label,
    noisy_ends,
    numbers,
)
from tacit_papers.sharing.pieces import INVERSE
from tacit_papers.work import Results

Draw = Callable[[Any], None]
DASHED, DOTTED = (0, (5, 3)), (0, (1, 2))
LEVEL_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#00838f", "#a1887f")  # red and grey are the baselines'
HEADROOM = 0.45  # of the distance from the optimum to the loss of guessing, shown above the optimum
GUESSING = math.log(2)


@dataclass(frozen=True)
class _Line:
    name: str
    values: Sequence[float]
    colour: str
    style: Any = "-"


def draw_epochs(results: Results, name: str) -> Draw:
    """Fig. 1(a), 2(a): training objective and test log loss by epoch."""

    def draw(figure: Any) -> None:
        reference = results[f"{name}/reference"]
        levels = {"objective": reference["pooled_objective"], "test": reference["pooled"]}
        titles = {"objective": "training objective (nats)", "test": "test log loss (nats)"}
        panels = figure.subplots(1, 2)
        for panel, what in zip(panels, levels, strict=True):
            for line in _method_lines(results, name, what):
                epochs = np.arange(1, len(line.values) + 1)
                panel.plot(epochs, line.values, color=line.colour, linestyle=line.style, linewidth=1.5, label=line.name)
            panel.axhline(levels[what], color=GREY, linewidth=0.9, linestyle=DOTTED, label="scikit-learn, all columns")
            _limits(panel, levels[what], [line.values for line in _method_lines(results, name, what)])
            tidy(panel, "epoch", titles[what], label(name))
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)

    return draw


def _method_lines(results: Results, name: str, what: str) -> list[_Line]:
    (rho, chosen), (best, best_curve) = chosen_rho(results, name), best_rho(results, name)
    step, stepped = best_step(results, name)
    methods = results[f"{name}/admm"]
    lines = [_Line(f"ADMM as published, rho {rho}", numbers(chosen[what]), BLUE)]
    if best != rho:
        lines.append(_Line(f"the same, best rho {best}", numbers(best_curve[what]), BLUE, DASHED))
    lines.append(_Line("SGD", numbers(default_step(results, name)[what]), ORANGE))
    if step != "1":
        lines.append(_Line(f"SGD, best steps (x {step})", numbers(stepped[what]), ORANGE, DASHED))
    lines.append(_Line("averaged ADMM (ours)", numbers(methods["averaged"][what]), GREEN))
    lines.append(_Line("our default", numbers(methods["default"][what]), PURPLE, DASHED))
    return lines


def _limits(panel: Any, floor: float, curves: Sequence[Sequence[float]]) -> None:
    """Leave the first epochs outside where they would flatten all that follows."""
    middle = max(float(np.median(values)) for values in curves)
    top = max(floor + HEADROOM * (GUESSING - floor) * 0.5, min(middle + 0.5 * (middle - floor), 1.0))
    panel.set_ylim(min(floor, *(min(values) for values in curves)) - 0.03 * (top - floor), top)


def draw_noise(results: Results, name: str) -> Draw:
    """Fig. 1(b), 2(b): test log loss by epoch under different levels of noise, mean over the seeds."""

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        reference = results[f"{name}/reference"]
        clear = numbers(chosen_rho(results, name)[1]["test"])
        runs = results[f"{name}/noise"][INVERSE]
        epochs = max(len(run["test"]) for own in runs.values() for run in own)
        panel.plot(np.arange(1, epochs + 1), clear[:epochs], color="black", linewidth=1.6, label="no noise")
        for (level, own), colour in zip(runs.items(), LEVEL_COLOURS, strict=False):
            means = np.mean([numbers(run["test"]) for run in own], axis=0)
            panel.plot(
                np.arange(1, len(means) + 1), means, color=colour, linewidth=1.4, marker="o", markersize=2.5,
                label=f"noise {level}",
            )  # fmt: skip
        _baselines(panel, reference)
        panel.set_yscale("log")
        panel.set_ylim(0.9 * reference["pooled"], min(5.0, 1.1 * max(_highest(runs), GUESSING)))
        _plain_ticks(panel)
        panel.set_xticks([1, *range(5, epochs + 1, 5)])
        tidy(panel, "epoch", "test log loss (nats, log scale)", label(name))
        legend(panel, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

    return draw


def _highest(runs: dict[str, Any]) -> float:
    return max(value for own in runs.values() for run in own for value in numbers(run["test"]))


def _baselines(panel: Any, reference: dict[str, Any]) -> None:
    panel.axhline(reference["local"], color=RED, linewidth=1.0, linestyle=DASHED, label="party 1 alone")
    panel.axhline(reference["pooled"], color=GREY, linewidth=1.0, linestyle=DOTTED, label="all columns, scikit-learn")


def _plain_ticks(panel: Any) -> None:
    """Ticks of a log axis as plain numbers of two digits, evenly spread."""
    low, high = panel.get_ylim()
    marks = sorted({float(f"{mark:.1e}") for mark in np.geomspace(low, high, 8)[1:-1]})
    panel.minorticks_off()
    panel.set_yticks(marks, [f"{mark:g}" for mark in marks])


def draw_levels(results: Results, name: str) -> Draw:
    """Fig. 3: test log loss at the end by level of noise, with the sound forms beside it."""

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        ends, sound = noisy_ends(results, name), results[f"{name}/sound"]
        shares = {float(level): case["test"] for level, case in sound["shares"].items()}
        _points(panel, ends, BLUE, "o-", "as published (no proven epsilon)")
        _points(panel, shares, PURPLE, "s--", "on the shares, sound (epsilon in table)")
        _baselines(panel, results[f"{name}/reference"])
        gram = sound["gram"]
        panel.axhline(
            float(np.mean(gram["test"])), color=GREEN, linewidth=1.4, linestyle="-.",
            label=f"our default, proven epsilon {gram['epsilon']:g}",
        )  # fmt: skip
        clear = end(chosen_rho(results, name)[1])
        panel.axhline(clear, color="black", linewidth=1.0, label="ADMM as published, no noise, all epochs")
        panel.set_xscale("log")
        panel.set_yscale("log")
        levels = sorted(ends)
        panel.set_xticks(levels, [f"{level:g}" for level in levels])
        reference = results[f"{name}/reference"]
        panel.set_ylim(0.9 * min(reference["pooled"], clear, *map(min, shares.values())), _top(ends, shares))
        _plain_ticks(panel)
        tidy(panel, "standard deviation of the noise in every epoch", "test log loss (nats, log scale)", label(name))
        legend(panel, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

    return draw


def _top(*series: dict[float, list[float]]) -> float:
    return 1.1 * min(5.0, max(max(map(max, one.values())) for one in series))


def _points(panel: Any, series: dict[float, list[float]], colour: str, style: str, name: str) -> None:
    levels = sorted(series)
    means = [float(np.mean(series[level])) for level in levels]
    panel.plot(levels, means, style, color=colour, linewidth=1.4, markersize=4, label=name)
    low, high = [min(series[level]) for level in levels], [max(series[level]) for level in levels]
    panel.fill_between(levels, low, high, color=colour, alpha=0.15, linewidth=0)


def draw_same_columns(results: Results) -> Draw:
    """Beside Theorems 1 and 2: V by round where all of Assumption 1 holds."""

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        for (name, case), colour in zip(results["theory/same-columns"].items(), (GREEN, RED, ORANGE), strict=False):
            values = case["stationarity"]
            text = f"{name}: needs rho > {case['threshold']:g}"
            panel.plot(
                np.arange(1, len(values) + 1), np.maximum(values, 1e-16), color=colour, linewidth=1.5, label=text
            )
        panel.set_yscale("log")
        tidy(panel, "round", "Lyapunov function V of eq. (13)", "all parties hold the same column, rho = 2.5")
        legend(panel, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

    return draw


def draw_rho(results: Results) -> Draw:
    """Beside Theorem 1: where the published and the averaged form end on a9a, by rho and number of parties."""

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        optimum = results["a9a/reference"]["pooled_objective"]
        two = {rho: end(curve, "objective") for rho, curve in results["a9a/admm"]["published"].items()}
        series = [("as published, 2 parties", two, BLUE, "o-")]
        for (parties, forms), colour in zip(results["a9a/many-parties"].items(), (ORANGE, RED), strict=False):
            for form, style in (("published", "o-"), ("averaged", "s--")):
                ends = {rho: found["objective"] for rho, found in forms[form].items()}
                words = "as published" if form == "published" else "averaged"
                series.append((f"{words}, {parties} parties", ends, colour, style))
        for name, ends, colour, style in series:
            gaps = [(math.inf if value is None else value) / optimum - 1 for value in ends.values()]
            places = [float(rho) for rho in ends]
            panel.plot(places, np.minimum(gaps, 1e3), style, color=colour, linewidth=1.4, markersize=4, label=name)
        panel.set_xscale("log")
        panel.set_yscale("log")
        marks = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0]
        panel.minorticks_off()
        panel.set_xticks(marks, [f"{mark:g}" for mark in marks])
        tidy(panel, "rho of the summed loss", "relative gap of the objective", "a9a, after the last round")
        legend(panel, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)

    return draw

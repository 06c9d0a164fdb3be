"""The figures of pdml, and our own beside them; every function draws on a figure that is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit_papers.claims import Expected
from tacit_papers.paper import BLUE, CYCLE, GREEN, GREY, ORANGE, PURPLE, RED, legend, tidy
from tacit_papers.pdml import beside, table
from tacit_papers.pdml import claims_measured as seen
from tacit_papers.pdml.claims import published
from tacit_papers.pdml.rows import BOUNDS, COLUMNS, DECAYS, EPSILONS, LABELS_ONLY, USUAL, Array
from tacit_papers.work import Results

RISK = "Empirical risk (objective (1), nats)"
ROUND = "Iteration"


def _band(axes: Any, curves: Array, colour: str, label: str, **options: Any) -> None:
    """Mean over seeds, and from the least to the largest."""
    rounds = np.arange(1, curves.shape[1] + 1)
    axes.plot(rounds, curves.mean(axis=0), color=colour, label=label, **({"linewidth": 1.6} | options))
    if len(curves) > 1:
        axes.fill_between(rounds, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.15, linewidth=0)


def draw_distances(results: Results, figure: Any) -> None:
    """Fig. 3(a)."""
    axes = figure.subplots()
    for setup, colour, label in ((USUAL, BLUE, "with Phase 2 (R = 1, decay 0.8)"), (LABELS_ONLY, ORANGE, "without")):
        marks = {} if setup is USUAL else {"marker": "o", "markersize": 3, "markevery": 5}
        _band(axes, seen.curve(results, setup, "distance"), colour, label, **marks)
    axes.set_yscale("log")
    tidy(axes, ROUND, "Largest distance of two servers' models")
    legend(axes, loc="upper right")


def draw_risks(results: Results, figure: Any) -> None:
    """Fig. 3(b): everything, and the lower part once more, where two of the curves are."""
    figure.set_layout_engine("constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        _band(axes, seen.curve(results, USUAL), BLUE, "with Phase 2")
        marks = {"marker": "o", "markersize": 3, "markevery": 5}
        _band(axes, seen.curve(results, LABELS_ONLY), ORANGE, "without Phase 2", **marks)
        axes.axhline(seen.reference(results), color=GREEN, linestyle="--", linewidth=1.4, label="reference")
    tidy(left, ROUND, RISK, "all curves")
    mark = seen.reference(results)
    low = seen.curve(results, LABELS_ONLY).mean(axis=0)[len(seen.curve(results, LABELS_ONLY)[0]) // 5 :]
    width = max(float(low.max()) - mark, 1e-6)
    right.set_ylim(mark - 0.25 * width, mark + 1.5 * width)
    right.ticklabel_format(axis="y", useOffset=False)
    tidy(right, ROUND, "", "around the reference")
    legend(left, loc="center right")


def draw_bounds(results: Results, figure: Any) -> None:
    """Fig. 4(a)."""
    setups = [USUAL.with_(bound=bound) for bound in BOUNDS]
    axes = figure.subplots()
    for setup, colour in zip(setups, CYCLE, strict=False):
        _band(axes, seen.curve(results, setup), colour, f"R = {setup.bound:g}")
    axes.axhline(seen.reference(results), color=GREY, linestyle="--", linewidth=1.4, label="reference")
    axes.set_yscale("log")
    axes.set_ylim(top=4 * max(float(seen.curve(results, setup).max()) for setup in setups))  # room for the legend
    tidy(axes, ROUND, RISK + ", log scale")
    axes.yaxis.set_major_formatter("{x:g}")
    legend(axes, loc="upper center", ncols=4)


def draw_decays(results: Results, figure: Any) -> None:
    """Fig. 4(b): the risks, and how far they still are from where they end; means over seeds."""
    figure.set_layout_engine("constrained")
    left, right = figure.subplots(1, 2)
    goal = seen.curve(results, USUAL.with_(decay=DECAYS[0]))[:, -1:]
    for decay, colour in zip(DECAYS, CYCLE, strict=False):
        risks = seen.curve(results, USUAL.with_(decay=decay))
        rounds = np.arange(1, risks.shape[1] + 1)
        left.plot(rounds, risks.mean(axis=0), color=colour, label=f"decay {decay:g}", linewidth=1.5)
        away = 100 * np.mean(np.abs(risks - goal) / goal, axis=0)
        right.plot(rounds[:-1], away[:-1], color=colour, linewidth=1.5)
    left.axhline(seen.reference(results), color=GREY, linestyle="--", linewidth=1.4, label="reference")
    right.axhline(100 * seen.CLOSE, color=GREY, linestyle=":", linewidth=1.2)
    right.set_yscale("log")
    tidy(left, ROUND, RISK, "risk")
    tidy(right, ROUND, "Distance from the last risk at decay 0.7 (%)", "dotted: 0.1 %")
    legend(left, loc="center right", bbox_to_anchor=(1.0, 0.35))


def draw_epsilons(results: Results, figure: Any) -> None:
    """Fig. 4(c): gaps to the reference, since the two curves are far apart."""
    axes = figure.subplots()
    mark = seen.reference(results)
    for setup, colour, label in ((USUAL, BLUE, "with Phase 2 (R = 1)"), (LABELS_ONLY, ORANGE, "without Phase 2")):
        gaps = np.array([seen.curve(results, setup.with_(epsilon=e))[:, -1] - mark for e in EPSILONS])
        axes.plot(EPSILONS, gaps.mean(axis=1), color=colour, marker="o", markersize=4, label=label)
        if gaps.shape[1] > 1:
            axes.fill_between(EPSILONS, gaps.min(axis=1), gaps.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    axes.axhline(0.01 * mark, color=GREY, linestyle=":", linewidth=1.2, label="1 % of the reference")
    axes.set_yscale("log")
    axes.set_xticks(EPSILONS)
    tidy(axes, "Label epsilon (PPD)", "Final risk minus the reference (nats)")
    legend(axes, loc="upper right", bbox_to_anchor=(1.0, 0.88))


def draw_table(results: Results, expected: Expected, figure: Any) -> None:
    """Beside Table I: ours with its spread, and the published numbers."""
    names = seen.present(results)
    figure.set_layout_engine("constrained")
    all_axes = np.ravel(figure.subplots(1, max(len(names), 1), sharey=True))
    short = [column.replace("none", "no privacy").replace("eps=", "ε=").replace(",", ", ") for column in COLUMNS]
    places = np.arange(len(COLUMNS))[::-1]
    for axes, name in zip(all_axes, names, strict=False):
        outcome, row = results[table.name_of(name)], published(expected, name)
        means, spreads = zip(*((seen.cell(outcome, column)[:2]) for column in COLUMNS), strict=True)
        axes.errorbar(
            means, places, xerr=spreads, fmt="o", color=BLUE, markersize=4, capsize=2, linewidth=1,
            label="ours, mean and deviation over splits",
        )  # fmt: skip
        axes.plot(list(row.values()), places, "D", color=RED, markersize=4, fillstyle="none", label="published")
        axes.axvline(outcome["share"], color=GREY, linestyle=":", linewidth=1, label="always the larger class")
        tidy(axes, "Test accuracy (%)", "", name + (" (drawn)" if outcome["drawn"] else ""))
        axes.set_yticks(places, labels=short, fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        axes.xaxis.label.set_fontsize(8)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)


def draw_cancelling(results: Results, figure: Any) -> None:
    """How much of the noise is left in what neighbours compute."""
    outcome, axes = results[beside.CANCELS], figure.subplots()
    rounds = np.arange(1, len(outcome["one_round"]) + 1)
    axes.plot(rounds, outcome["one_round"], color=PURPLE, label="gradient of one round")
    axes.plot(rounds[1:], outcome["difference"], color=RED, label="difference of two rounds")
    axes.axhline(outcome["gradient"], color=GREY, linestyle=":", label="the last gradient itself")
    axes.set_yscale("log")
    tidy(axes, ROUND, "Norm of the error of what neighbours compute")
    legend(axes, loc="lower left")

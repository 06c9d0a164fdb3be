"""All pieces of work: the full ones, and a small version of each with the same names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tacit_papers.dynamic.runs import add_up_rounds, audited, compare_densities, run_algorithm, run_default, run_pooled
from tacit_papers.dynamic.settings import ALPHAS, ETAS, NONE, PUBLISHED, RIDGES, SHOWN, TUNED, WEIGHTS, Run
from tacit_papers.work import Piece

FILES = ("adult",)
MAIN = ("dvp", "pvp")
NETWORKS: dict[str, dict[str, Any]] = {
    "ring": {"graph": "ring"},
    "complete": {"graph": "complete"},
    "5 nodes": {"nodes": 5},
    "17 nodes": {"nodes": 17},
}
CHANGES: dict[str, dict[str, Any]] = {
    **{f"eta/{eta:g}": {"eta": eta} for eta in ETAS},
    **{f"rho/{ridge:.2e}": {"ridge": ridge} for ridge in RIDGES},
    **{f"weight/{weight:g}": {"weight": weight} for weight in WEIGHTS},
    **{f"network/{network}": change for network, change in NETWORKS.items()},
}
SEEDS = 2
EPSILONS = (0.5, 1.0, 4.0)
FEW: dict[str, Any] = {"rows": 7200, "nodes": 4, "iterations": 10, "seeds": 1}  # C^R <= B_p = 1800 holds here, too
LONG = 4  # times as many iterations, to see where Algorithm 1 goes
LONG_ETA = 0.03


def all_pieces(quick: bool) -> list[Piece]:
    """Every piece of the paper."""
    pieces = [
        Piece(name, run_algorithm, _sized(run, quick).record(), FILES, 0.5 if quick else 4.5 * run.seeds)
        for name, run in runs()
    ]
    long = _sized(replace(NONE, eta=LONG_ETA), quick)
    long = replace(long, iterations=LONG * long.iterations)
    base = _sized(NONE, quick)
    pieces += [
        Piece("algorithm 1/long", run_algorithm, long.record(), FILES, 2.0 if quick else 25.0),
        Piece("pooled", run_pooled, base.record(), FILES, 2.0 if quick else 5.0),
        Piece(
            "default",
            run_default,
            {"rows": base.rows, "nodes": base.nodes, "epsilons": [1.0] if quick else list(EPSILONS)},
            FILES,
            3.0 if quick else 10.0,
        ),
        Piece("epsilon", add_up_rounds, {"alphas": list(ALPHAS), "rounds": 100, "rows": 3016}, seconds=3.0),
    ]
    for name, run in audited().items():
        pieces.append(Piece(f"density/{name}", compare_densities, run.record(), seconds=3.0))
    return pieces


def runs() -> Iterator[tuple[str, Run]]:
    """Every run by name: at the published parameters, in their sound forms, and at others."""
    yield "run/none", NONE
    for name in MAIN:
        for alpha in ALPHAS:
            yield f"run/{name}/{alpha}", replace(PUBLISHED[name], alpha=alpha, seeds=SEEDS if alpha in SHOWN else 1)
        for alpha in SHOWN:
            yield f"sound/{name}/{alpha}", replace(PUBLISHED[name], alpha=alpha, sound=True)
    for alpha in SHOWN:
        yield f"run/pvp-table/{alpha}", replace(PUBLISHED["pvp-table"], alpha=alpha)
    for name in ("none", *MAIN):
        base = replace(PUBLISHED[name], alpha=0.0 if name == "none" else TUNED)
        for label, change in CHANGES.items():
            changed = replace(base, **change)
            if changed != base:
                yield f"{label}/{name}", changed


def changed_name(label: str, name: str) -> str:
    """The piece of an algorithm with one parameter changed; that of the published parameters where it is theirs."""
    if replace(PUBLISHED[name], **CHANGES[label]) != PUBLISHED[name]:
        return f"{label}/{name}"
    return "run/none" if name == "none" else f"run/{name}/{TUNED}"


def _sized(run: Run, quick: bool) -> Run:
    """The run, or a small version of it; a network keeps its form."""
    if not quick:
        return run
    nodes = {10: 4, 5: 3, 17: 5}[run.nodes]
    return replace(run, **(FEW | {"nodes": nodes}))

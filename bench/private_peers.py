"""Untuned Tacit beside tuned private learners that trust one place with all rows, at the same epsilon and unit.

Everybody spends (epsilon, 1e-5) on one row that is replaced, over the whole run. Tacit runs as it comes, with ten nodes
around a star: rows stay where they are, and masks take the place of trust (any one node may look at all that it sees).
The peers hold all rows in one place and add their noise once. They are given what nobody has in earnest: of the
settings in their grids (`central_peers`) each has the one with the least mean loss on the *test* rows of the set and
epsilon, and does not pay for the choice. Linear learners have numbers as lines, as they are used; and once more
numbers as curves, in Tacit's own code of 2, 4 or 8 pairs of frequencies, which no other software gives them: the
verdicts against these stand beside.

Sets, ranges and splits are those of `curves` (`curve_sets`); what Tacit's constants were tuned on is said there. Every
cell is printed, won or lost. "At least level" is: the mean over runs is not above that of the best peer by more than
the standard error of the difference, run by run on the same rows.

`--cells star,C` adds Tacit with columns split between two parties, everyone protected and no place trusted: beside
the same peers, and not counted. `--sets`, `--epsilons`, `--runs` and `--keep FILE` are as for `curves`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench import central_peers, curve_peers, curve_sets, diffprivlib_peer
from bench.central_peers import LINES, PAIRS, SCALES, Losses, adassp, diffprivlib, ebm, gradients, newton, table
from bench.curve_fits import CELLS, fit_private, fitted
from bench.curve_peers import ebm_missing
from bench.curve_sets import QUICK, SETS, CurveSet, Cut, missing
from bench.kept import Kept, code_of
from bench.progress import say, tell
from bench.row import Row
from tacit.errors import RunError
from tacit.types import Vector

TITLE = (
    "untuned Tacit and tuned private peers: loss on test rows, mean and standard error; delta 1e-5, one row replaced"
)
ONLY_WHEN_NAMED = True
EPSILONS, QUICK_EPSILONS = (0.5, 1.0, 2.0, 4.0), (1.0,)
RUNS, QUICK_RUNS = 3, 1
WANTED = 0.8  # of the cells at least level
ORDER = (  # small ones first, so that a bench that was stopped has whole sets
    "german", "image", "splice", "banana", "waveform", "telco", "ringnorm", "twonorm", "heloc", "linear", "waves",
    "friedman", "mixed", "housing", "adult",
)  # fmt: skip
TACIT, NO_PLACE = "Tacit", "Tacit, columns split, no place trusted"
WON, LEVEL, LOST = "won", "level", "LOST"
GIVEN = " on curves"  # a linear learner with numbers coded as Tacit codes them
Epsilons = Sequence[float]


# --- the peers -------------------------------------------------------------------------------------------

Measure = Callable[[CurveSet, Cut, Epsilons, int], dict[float, Losses]]
Fit = Callable[[Any, Epsilons, int], dict[float, Losses]]


@dataclass(frozen=True)
class Peer:
    """A rival: `measure` gives the loss of every setting by epsilon; `missing` says why it cannot run."""

    name: str
    tasks: tuple[str, ...]
    measure: Measure
    missing: Callable[[CurveSet], str] = lambda one: ""


def _on_lines(fit: Fit) -> Measure:
    """With numbers as lines; to which length rows are clipped belongs to the settings."""
    return _tried(fit, {f"rows times {scale:g}": (LINES, scale) for scale in SCALES})


def _on_curves(fit: Fit) -> Measure:
    """With numbers as curves, whose rows all have the length that is allowed; how many pairs is one of the settings."""
    return _tried(fit, {f"{pairs} pairs": (pairs, 1.0) for pairs in PAIRS})


def _tried(fit: Fit, codes: Mapping[str, tuple[int, float]]) -> Measure:
    """Every setting of a peer with every code: pairs of frequencies, and what rows are multiplied by."""

    def measure(one: CurveSet, cut: Cut, epsilons: Epsilons, seed: int) -> dict[float, Losses]:
        found: dict[float, Losses] = {epsilon: {} for epsilon in epsilons}
        for code, asked in codes.items():
            for epsilon, losses in fit(table(one, cut, *asked), epsilons, seed).items():
                found[epsilon] |= {f"{code}, {name}": loss for name, loss in losses.items()}
        return found

    return measure


def _each(fit: Callable[[Any, float, int], Losses]) -> Fit:
    return lambda one, epsilons, seed: {epsilon: fit(one, epsilon, seed) for epsilon in epsilons}


def _ebm(one: CurveSet, cut: Cut, epsilons: Epsilons, seed: int) -> dict[float, Losses]:
    return {epsilon: ebm(one, cut, epsilon, seed) for epsilon in epsilons}


CLASSES, NUMBERS = ("classification",), ("regression",)
PEERS = (
    Peer("noisy gradients", CLASSES + NUMBERS, _on_lines(gradients)),
    Peer("Newton, double noise", CLASSES, _on_lines(_each(newton))),
    Peer("AdaSSP", NUMBERS, _on_lines(_each(adassp))),
    Peer("DP-EBM", CLASSES + NUMBERS, _ebm, ebm_missing),
    Peer("diffprivlib", CLASSES, _on_lines(diffprivlib), lambda one: diffprivlib_peer.missing()),
    Peer(f"noisy gradients{GIVEN}", CLASSES + NUMBERS, _on_curves(gradients)),
    Peer(f"Newton, double noise{GIVEN}", CLASSES, _on_curves(_each(newton))),
    Peer(f"AdaSSP{GIVEN}", NUMBERS, _on_curves(_each(adassp))),
)


# --- what was asked ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """What the command line asked for; empty: everything."""

    sets: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    runs: int | None = None
    epsilons: tuple[float, ...] = ()


_chosen, _kept = Chosen(), Kept()


def choose(sets: Sequence[str], cells: Sequence[str], runs: int | None, epsilons: Epsilons, keep: Path | None) -> None:
    """Restrict what `run` does."""
    global _chosen, _kept
    _chosen, _kept = Chosen(tuple(sets), tuple(cells), runs, tuple(epsilons)), Kept(keep)


@cache
def _peer_code() -> str:
    """Of the peers and the sets: nothing else decides their losses."""
    files = [Path(module.__file__) for module in (central_peers, curve_peers, curve_sets)]
    return code_of(files, version("numpy"), version("scikit-learn"))


# --- the table -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored(Row):
    """A cell with the losses of all runs, by method."""

    set: str = ""
    epsilon: float = 0.0
    verdict: str = ""
    given: str = ""  # against peers that have Tacit's code too
    losses: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As plain values."""
        own = {"set": self.set, "epsilon": self.epsilon, "verdict": self.verdict, "given": self.given}
        return {**super().record(), **own, "losses": dict(self.losses), "settings": dict(self.settings)}


def run(quick: bool = False) -> list[Row]:
    """Every set at every epsilon; then how many cells were at least level."""
    rows: list[Row] = []
    for one in _sets(quick):
        with threadpool_limits(1):  # all methods on one thread, whatever else runs
            for row in _set_rows(one, quick):
                tell(f"{row.name}: {row.measured}")
                rows.append(row)
    if _chosen.sets and not quick:
        rows.append(Row("not run", ", ".join(name for name in ORDER if name not in _chosen.sets) or "none"))
    return [*rows, *counted([row for row in rows if isinstance(row, Scored)], judged=not quick)]


def _sets(quick: bool) -> list[CurveSet]:
    if quick:
        return list(QUICK.values())[1:2]
    return [SETS[name] for name in _chosen.sets or ORDER]


def _set_rows(one: CurveSet, quick: bool) -> Iterator[Row]:
    absent = missing(one)
    if absent:
        yield Row(one.name, f"not run: {absent}")
        return
    runs = QUICK_RUNS if quick else _chosen.runs or RUNS
    epsilons = QUICK_EPSILONS if quick else _chosen.epsilons or EPSILONS
    cuts = [one.cut(seed) for seed in range(1 if one.one_split else runs)]
    unit = "log loss" if one.task == "classification" else "root mean squared error"
    yield Row(
        one.name, f"{len(cuts[0].y)} rows, {len(one.ranges)} numbers, {len(one.lists)} lists; {unit}; {runs} runs"
    )
    found = {}
    for peer in PEERS:
        if one.task in peer.tasks:
            reason = peer.missing(one)
            if reason:
                yield Row(f"{one.name}, {peer.name}", f"not run: {reason}")
                continue
            try:
                found[peer.name] = [
                    _peer_run(one, cuts[seed % len(cuts)], peer, epsilons, seed) for seed in range(runs)
                ]
            except RunError as error:
                yield Row(f"{one.name}, {peer.name}", f"not run: {error}")
    for epsilon in epsilons:
        yield _cell(one, cuts, epsilon, runs, {name: [by[epsilon] for by in each] for name, each in found.items()})


def _peer_run(one: CurveSet, cut: Cut, peer: Peer, epsilons: Epsilons, seed: int) -> dict[float, Losses]:
    """Losses by epsilon and setting."""
    say(f"{one.name}, {peer.name}, run {seed + 1}")
    name = {"set": one.name, "rows": len(cut.y), "peer": peer.name, "epsilons": list(epsilons), "run": seed}
    kept = _kept.result(name, _peer_code(), lambda: {f"{e:g}": x for e, x in _measured(peer, one, cut, epsilons, seed)})
    return {epsilon: kept[f"{epsilon:g}"] for epsilon in epsilons}


def _measured(peer: Peer, one: CurveSet, cut: Cut, epsilons: Epsilons, seed: int) -> Iterator[tuple[float, Losses]]:
    """A loss that is no number, as of steps that did not settle, is the largest one."""
    with np.errstate(all="ignore"):
        for epsilon, losses in peer.measure(one, cut, epsilons, seed).items():
            yield epsilon, {name: loss if math.isfinite(loss) else 1e9 for name, loss in losses.items()}


def _cell(one: CurveSet, cuts: Sequence[Cut], epsilon: float, runs: int, found: Mapping[str, list[Losses]]) -> Scored:
    """One set at one epsilon: Tacit as it comes, each peer at its best setting."""
    losses: dict[str, tuple[float, ...]] = {TACIT: _own(one, cuts, "star", epsilon, runs)}
    if "C" in _chosen.cells and one.task == "classification":
        losses[NO_PLACE] = _own(one, cuts, "C", epsilon, runs)
    settings = {}
    for name, each in found.items():
        settings[name] = best = min(each[0], key=lambda setting: float(np.mean([by[setting] for by in each])))
        losses[name] = tuple(by[best] for by in each)
    plain, every = (_best(losses, [name for name in found if code or GIVEN not in name]) for code in (False, True))
    verdicts = judged(losses[TACIT], losses[plain]), judged(losses[TACIT], losses[every])
    shown = "; ".join(f"{name} {_shown(each)}" for name, each in losses.items())
    ratio = float(np.mean(losses[TACIT]) / np.mean(losses[plain]))
    text = f"{shown}: {ratio:.3f} of the best peer ({plain}: {settings[plain]}), {verdicts[0]}"
    text += f"; against {every}: {verdicts[1]}" if every != plain else ""
    return Scored(
        f"{one.name}, epsilon {epsilon:g}", text, float(np.mean(losses[TACIT])),
        set=one.name, epsilon=epsilon, verdict=verdicts[0], given=verdicts[1], losses=losses, settings=settings,
    )  # fmt: skip


def _best(losses: Mapping[str, tuple[float, ...]], names: Sequence[str]) -> str:
    return min(names, key=lambda name: float(np.mean(losses[name])))


def _own(one: CurveSet, cuts: Sequence[Cut], key: str, epsilon: float, runs: int) -> tuple[float, ...]:
    """Tacit's losses: curves from public ranges, as a private job with `terms = "auto"` has; all else by its rules."""
    found = []
    for seed in range(runs):
        say(f"{one.name}, Tacit, {CELLS[key].name}, epsilon {epsilon:g}, run {seed + 1}")
        name = {"cell": key, "terms": "spline", "epsilon": epsilon, "run": seed}
        fit = fitted(
            _kept, one, cuts[seed % len(cuts)], name,
            lambda cut, seed=seed: fit_private(one, cut, CELLS[key], "spline", epsilon, seed),
        )  # fmt: skip
        found.append(fit.loss)
    return tuple(found)


def judged(own: Sequence[float], rival: Sequence[float]) -> str:
    """By the differences run by run: level within one standard error of their mean."""
    change = np.array(own) - np.array(rival)
    error = float(change.std(ddof=1)) / math.sqrt(len(change)) if len(change) > 1 else 0.0
    if abs(change.mean()) <= error:
        return LEVEL
    return WON if change.mean() < 0 else LOST


def _shown(losses: Sequence[float]) -> str:
    error = f" ± {np.std(losses, ddof=1) / math.sqrt(len(losses)):.4f}" if len(losses) > 1 else ""
    return f"{np.mean(losses):.4f}{error}"


def counted(cells: Sequence[Scored], *, judged: bool) -> list[Row]:
    """How many cells were at least level with the best tuned peer, and with the best that has Tacit's code."""
    limit = 1 - WANTED if judged else None
    first = _count("all cells", [cell.verdict for cell in cells], limit)
    return [first, _count(f"all cells, peers{GIVEN} too", [cell.given for cell in cells])]


def _count(name: str, said: Sequence[str], limit: float | None = None) -> Row:
    kept = len(said) - said.count(LOST)
    share = kept / len(said) if said else 0.0
    words = ", ".join(f"{word} {said.count(word)}" for word in (WON, LEVEL, LOST))
    text = f"at least level in {kept} of {len(said)} cells ({share:.0%}): {words}"
    return Row(name, text, 1 - share, limit, "" if limit is None else f"at least level in {WANTED:.0%}")


# --- the page and its picture --------------------------------------------------------------------------


def markdown(cells: Sequence[Mapping[str, Any]]) -> str:
    """All cells as a table: the records of a JSON file of this part."""
    names = [TACIT, *dict.fromkeys(name for cell in cells for name in cell["losses"] if name != TACIT)]
    heads = ["set", "epsilon", *names, "as used", "with the code"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for cell in cells:
        shown = [_shown(cell["losses"][name]) if name in cell["losses"] else "-" for name in names]
        lines.append(
            f"| {cell['set']} | {cell['epsilon']:g} | "
            + " | ".join(shown)
            + f" | {cell['verdict']} | {cell['given']} |"
        )
    return "\n".join(lines)


def draw(rows: list[Row], path: Path) -> str:
    """Draw every set's losses against epsilon."""
    draw_cells([row.record() for row in rows if isinstance(row, Scored)], path)
    return f"drawn: {path}"


def draw_cells(cells: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One small picture for each set: loss against epsilon, a line for each method."""
    import matplotlib as mpl

    mpl.use("svg" if path.suffix == ".svg" else "agg")
    mpl.rcParams.update({"svg.hashsalt": "tacit", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot as plt

    sets = list(dict.fromkeys(cell["set"] for cell in cells))
    names = list(dict.fromkeys(name for cell in cells for name in cell["losses"]))
    wide = 5
    high = math.ceil(len(sets) / wide)
    figure, axes = plt.subplots(high, wide, figsize=(2.3 * wide, 2.1 * high), squeeze=False, layout="constrained")
    for place in axes.flat[len(sets) :]:
        place.set_visible(False)
    for place, name in zip(axes.flat, sets, strict=False):
        _panel(place, name, [cell for cell in cells if cell["set"] == name], names)
    shown = {line.get_label(): line for place in axes.flat for line in place.get_lines()}
    figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=5, frameon=False)
    figure.supxlabel("epsilon of the whole run")
    figure.supylabel("loss on test rows (lower is better)")
    numbers = json.dumps(
        [{key: cell[key] for key in ("set", "epsilon", "verdict", "given", "losses")} for cell in cells]
    )
    about = {"Date": None, "Description": numbers, "Title": TITLE} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=about)
    plt.close(figure)


COLOURS = ("#1b5e9b", "#c2541b", "#2e7d32", "#7b3f9d", "#7a7a7a", "#b8860b", "#008080", "#a0522d", "#d68fb0")


def _panel(axes: Any, name: str, cells: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> None:
    tops: list[Vector] = []
    for colour, method in zip(COLOURS, methods, strict=False):
        own = [(cell["epsilon"], float(np.mean(cell["losses"][method]))) for cell in cells if method in cell["losses"]]
        if own:
            epsilons, losses = np.array(own).T
            axes.plot(
                epsilons, losses, "o-", color=colour, label=method, markersize=3, linewidth=2 if method == TACIT else 1
            )
            tops.append(losses)
    sane = np.sort(np.concatenate(tops))
    axes.set_ylim(sane[0] * 0.97, min(sane[-1], 1.6 * float(np.median(sane))) * 1.03)  # far losers leave the picture
    axes.set_xscale("log", base=2)
    axes.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axes.set_title(name, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)

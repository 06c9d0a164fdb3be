"""A verdict on every claim of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from tacit_papers.claims import OPEN, Expected, Item, Judged, judge_number, judge_words, leave_open
from tacit_papers.dynamic.pieces import LONG_ETA
from tacit_papers.dynamic.readings import Readings, balance, inner_minimum, printed_curve, undercut
from tacit_papers.dynamic.sample_sizes import Goal, rows_for_dual, rows_for_released_primal
from tacit_papers.dynamic.settings import ALPHAS, ETAS, PUBLISHED, RIDGES, SHOWN, TUNED, WEIGHTS
from tacit_papers.work import Results

# --- verdicts on what the paper proves: privacy of one iteration and of all, and the rows that are needed ---

Check = Callable[[Item, Readings, Expected], Judged]
ROUNDING = 1e-9
CONSTANT = (
    "the bound has a constant that is only said to exist, and Delta(t) without any bound; its terms are in "
    "tacit_papers.dynamic.sample_sizes, and what is wrong in them in docs/proofs/dynamic.md, section 9"
)
EXAMPLE = Goal(reference=10.0, accuracy=0.1, alpha=0.3, columns=105, weight=1750.0, pull=26.0)


def _densities(name: str, *, last: bool | None = None) -> Check:
    """Iterations of a run: all of them, or the last one, or all but it."""

    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        outcome = at.outcome(f"density/{name}")
        rows = list(zip(outcome["rounds"], outcome["found"], outcome["said"], strict=True))
        if last is not None:
            rows = [row for row in rows if (row[0] == outcome["last"]) == last]
        worst, found, said = max(rows, key=lambda row: row[1] / row[2])
        words = f"largest log ratio found: {found:.3f} in iteration {worst}, stated {said:.3g}"
        holds = found <= said * (1 + ROUNDING)
        reason = "nothing above it was found" if holds else f"{found / said:.2f} times what is stated"
        return judge_words(item, words, holds, reason)

    return check


def _whole_run(item: Item, at: Readings, expected: Expected) -> Judged:
    outcome = at.outcome("epsilon")
    printed, sound = outcome["dvp_printed"]["0.5"], outcome["dvp_sound"]["0.5"]
    reason = (
        f"alpha is the epsilon of one message; {outcome['rounds']} of which no more is known add up to this, and to "
        f"{0.5 * outcome['rounds']:g} at delta 0. The uniform direction of its noise (docs/proofs/composition.md, 4b) "
        f"brings DVP to {sound:.1f} where it is corrected and to {printed:.1f} as printed"
    )
    return judge_number(item, round(outcome["stated"]["0.5"], 2), reason)


def _open(item: Item, at: Readings, expected: Expected) -> Judged:
    return leave_open(item, CONSTANT)


def growth() -> tuple[float, float]:
    """Factors by which the printed bounds of DVP and PVP grow with a reference ten times as large."""
    harder = replace(EXAMPLE, reference=10 * EXAMPLE.reference)
    dual = rows_for_dual(harder, published=True) / rows_for_dual(EXAMPLE, published=True)
    primal = rows_for_released_primal(harder, published=True) / rows_for_released_primal(EXAMPLE, published=True)
    return dual, primal


def _influence(item: Item, at: Readings, expected: Expected) -> Judged:
    dual, primal = growth()
    words = f"ten times |f0|: rows of DVP times {dual:.4g}, of PVP times {primal:.4g}"
    return judge_words(
        item, words, dual > primal, "PVP has |f0|^3, DVP |f0|^2: the printed words are the wrong way round"
    )


def _preferred(item: Item, at: Readings, expected: Expected) -> Judged:
    dual, primal = growth()
    words = f"rows of DVP times {dual:.4g}, of PVP times {primal:.4g}"
    return judge_words(
        item, words, dual < primal, "of two upper bounds with unknown constants, which decide nothing at one |f0|"
    )


PRIVACY_CHECKS: dict[str, Check] = {
    "theorem-1/printed": _densities("dvp"),
    "theorem-1/half": _densities("dvp-half"),
    "theorem-2/intermediate": _densities("pvp", last=False),
    "theorem-2/last": _densities("pvp", last=True),
    "sec-6/whole-run": _whole_run,
    **{f"theorem-{number}": _open for number in (3, 4, 5, 6)},
    "sec-4/influence": _influence,
    "sec-4/preferred": _preferred,
}


# --- a verdict on every claim of the paper -----------------------------------------------------------

SLACK = 0.001  # losses nearer than this are the same
ZERO_MODEL = math.log(2)
ON_ADULT = ("fig-3/", "table-2/", "table-3/", "fig-4/dvp", "fig-4/pvp", "fig-4/same", "fig-4/osc", "fig-5/pvp",
            "fig-5/error", "abstract/", "conclusion/", "sec-5/", "sec-4/algorithm")  # fmt: skip
LABELS = {"dvp": "DVP", "pvp": "PVP", "none": "Algorithm 1"}


def judge(results: Results, expected: Expected) -> Sequence[Judged]:
    """A verdict for every item, in their order."""
    readings, judged = Readings(results), []
    for item in expected.items:
        if readings.missing and item.id.startswith(ON_ADULT) and item.id != "fig-3/weight/pvp":
            judged.append(leave_open(item, f"Adult is not at hand: {readings.missing}"))
        else:
            judged.append(CHECKS[item.id](item, readings, expected))
    return judged


def _listed(values: Sequence[float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}g}" for value in values)


def _falls(values: Sequence[float]) -> bool:
    return all(after < before for before, after in pairwise(values))


def _most(better: Sequence[bool]) -> bool:
    return sum(better) > len(better) / 2


def _ranked(item: Item, at: Readings, found: tuple[str, bool, str], what: str = "loss") -> Judged:
    """A verdict on which of DVP and PVP is lower; open where another eta, which is not printed, turns it round."""
    words, holds, reason = found
    dvp, pvp = at.by_eta("dvp", what), at.by_eta("pvp", what)
    lower = [eta for eta in ETAS if dvp[eta] < pvp[eta]]
    if len(lower) in (0, len(ETAS)):
        return judge_words(item, words, holds, reason)
    pairs = "; ".join(f"eta {eta:g}: DVP {dvp[eta]:.3g}, PVP {pvp[eta]:.3g}" for eta in ETAS)
    hangs = (
        f"{'holds' if holds else 'does not hold'} at eta 10, and hangs on eta, which is not printed; {what} at alpha "
        f"{TUNED}: {pairs}; each at its own best eta: DVP {min(dvp.values()):.3g}, PVP {min(pvp.values()):.3g}"
    )
    return Judged(item, words, OPEN, "; ".join(part for part in (hangs, reason) if part))


# --- convergence -------------------------------------------------------------------------------------


def _algorithm_1(item: Item, at: Readings, expected: Expected) -> Judged:
    curve, pooled = at.curve("algorithm 1/long", "joint"), at.outcome("pooled")["loss"]
    gaps = [float(curve[len(curve) * k // 4 - 1]) - pooled for k in (1, 2, 3, 4)]
    slow = float(at.curve("run/none", "joint")[-1]) - pooled
    reason = (
        f"{len(curve)} iterations at eta {LONG_ETA}; at eta 10 it is still {slow:.2g} above after {at.iterations}: "
        "how fast it converges hangs on an eta that the paper does not print"
    )
    words = f"loss of the mean model above the pooled {pooled:.4f}, by quarters of a run: {_listed(gaps, 2)}"
    return judge_words(item, words, _falls(gaps) and gaps[-1] <= SLACK, reason)


def _faster(name: str) -> Check:
    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        means = [float(at.curve(f"run/{name}/{alpha}").mean()) for alpha in SHOWN]
        other = ""
        if name == "pvp":
            table = [float(at.curve(f"run/pvp-table/{alpha}").mean()) for alpha in SHOWN]
            other = f"with C^R 1750 of Table III: {_listed(table)}"
        return judge_words(
            item, f"mean loss over the iterations at alpha {_listed(SHOWN)}: {_listed(means)}", _falls(means), other
        )

    return check


def _converges(name: str) -> Check:
    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        ends = at.values(name, "last", alphas=SHOWN)
        below = [alpha for alpha, end in zip(SHOWN, ends, strict=True) if end < ZERO_MODEL]
        none = at.value("run/none", "last")
        reason = f"below 0.693 at alpha {_listed(below)}" if below else "at no alpha below the loss of the zero model"
        return judge_words(
            item,
            f"loss at the last iteration {_listed(ends)}; Algorithm 1 {none:.3g}",
            len(below) == len(SHOWN),
            reason,
        )

    return check


def _robust(item: Item, at: Readings, expected: Expected) -> Judged:
    none = at.value("run/none", "last")
    above = {name: [v - none for v in at.values(name, "last", alphas=SHOWN)] for name in ("dvp", "pvp", "pvp-table")}
    holds = all(d < min(p, t) for d, p, t in zip(*above.values(), strict=True))
    words = f"above Algorithm 1: DVP {_listed(above['dvp'], 2)}; PVP {_listed(above['pvp'], 2)}"
    reason = f"PVP with C^R 1750: {_listed(above['pvp-table'], 2)}; not slightly, but by far" if holds else ""
    return _ranked(item, at, (words, holds, reason))


def _variance(item: Item, at: Readings, expected: Expected) -> Judged:
    found = {name: [at.variance(f"run/{name}/{alpha}") for alpha in SHOWN] for name in ("dvp", "pvp")}
    holds = all(d < p for d, p in zip(*found.values(), strict=True))
    words = f"variance: DVP {_listed(found['dvp'], 2)}; PVP {_listed(found['pvp'], 2)}"
    return _ranked(item, at, (words, holds, ""), "variance")


# --- tables II and III -------------------------------------------------------------------------------


def _best_of(name: str, kind: str, values: Sequence[float], form: str) -> Check:
    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        losses = {value: at.changed(f"{kind}/{value:{form}}", name) for value in values}
        assert isinstance(item.published, int | float)
        printed = float(item.published)
        own = losses[min(values, key=lambda value: abs(math.log(value / printed)))]
        best = min(losses, key=lambda value: losses[value])
        words = "; ".join(f"{value:.3g}: {loss:.4g}" for value, loss in losses.items())
        reason = f"best of those tried here: {best:.3g}; the printed one gives {own:.4g}"
        return judge_words(item, f"loss at the last iteration by value: {words}", own <= losses[best] + SLACK, reason)

    return check


def _two_weights(item: Item, at: Readings, expected: Expected) -> Judged:
    table = expected.item("table-3/pvp").published
    assert isinstance(table, int | float)
    return judge_number(
        item, float(table), "Table III and the caption of Fig. 3 contradict each other: both are run here"
    )


# --- the trade-off -----------------------------------------------------------------------------------


def _fitted(name: str, place: int) -> Check:
    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        curve = at.fit(name, at.iterations)
        if curve is None:
            return judge_words(item, "the losses do not fall with alpha: nothing can be fitted", False)
        upper = at.fit(name, at.iterations, least=0.1)
        other = "" if upper is None else f"; to alphas from 0.1 up: {(upper.height, upper.rate)[place]:.3g}"
        zero = f"{PUBLISHED[name].weight * ZERO_MODEL:.0f}"
        reason = (
            f"fitted at eta 10 to alphas {_listed(ALPHAS)}{other}; the paper prints neither its alphas nor its units "
            f"(with its factor C^R the zero model has a loss of {zero}; ours are without it)"
        )
        return judge_number(item, (curve.height, curve.rate)[place], reason)

    return check


def _same(item: Item, at: Readings, expected: Expected) -> Judged:
    whole = at.iterations
    times = [max(whole // 10, 1), max(whole // 5, 2), whole // 2, whole]
    fits = [at.fit("dvp", t) for t in times]
    if any(fit is None for fit in fits):
        return judge_words(item, "at some iterations the losses do not fall with alpha", False)
    pairs = [(fit.height, fit.rate) for fit in fits if fit is not None]
    near = [abs(a - b) <= b / 2 for pair in pairs for a, b in zip(pair, pairs[-1], strict=True)]
    words = "; ".join(f"iteration {t}: c4 {c4:.3g}, c5 {c5:.3g}" for t, (c4, c5) in zip(times, pairs, strict=True))
    return judge_words(item, words, all(near))


def _oscillations(item: Item, at: Readings, expected: Expected) -> Judged:
    fits = {name: at.fit(name, at.iterations) for name in ("dvp", "pvp")}
    left = [math.inf if fit is None else fit.residual for fit in fits.values()]
    return judge_words(item, f"distance from the curve: DVP {left[0]:.2g}, PVP {left[1]:.2g}", left[0] < left[1])


def _increasing(item: Item, at: Readings, expected: Expected) -> Judged:
    slopes = [printed_curve(name, 0.0)(1.0) - printed_curve(name, 0.0)(0.01) for name in ("dvp", "pvp")]
    words = f"from alpha 0.01 to 1 the printed curves change by {_listed(slopes)}"
    return judge_words(item, words, all(one > 0 for one in slopes), "L_acc is a loss, and falls; accuracy increases")


def _optimum(item: Item, at: Readings, expected: Expected) -> Judged:
    words, bounded = [], True
    for name in ("dvp", "pvp"):
        inside, below = inner_minimum(printed_curve(name, 0.0)), undercut(printed_curve(name, 0.0))
        bounded = bounded and below is None
        said = "none inside" if inside is None else f"minimum inside at alpha {inside:.4g}"
        words.append(
            f"{LABELS[name]}: {said}" + ("" if below is None else f", undercut from alpha 10^{below:.0f} down")
        )
    reason = "the objective falls without bound as alpha goes to 0, where U_priv is infinite: (28) needs c3 < c4 + c6"
    return judge_words(item, "; ".join(words), bounded, "" if bounded else reason)


def _final(better: str, alphas: tuple[float, ...]) -> Check:
    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        found = {name: at.values(name, "final", alphas=alphas) for name in ("dvp", "pvp")}
        won = [(d < p) == (better == "dvp") for d, p in zip(*found.values(), strict=True)]
        words = f"{LABELS[better]} lower at {sum(won)} of {len(won)} alphas"
        reason = f"final loss at alpha {_listed(alphas)}: DVP {_listed(found['dvp'])}; PVP {_listed(found['pvp'])}"
        return _ranked(item, at, (words, _most(won), reason))

    return check


def _printed_fits(item: Item, at: Readings, expected: Expected) -> Judged:
    alphas = [alpha for alpha in ALPHAS if alpha < 1]
    dvp, pvp = printed_curve("dvp", 0.0), printed_curve("pvp", 0.0)
    won = [pvp(alpha) < dvp(alpha) for alpha in alphas]
    words = f"at alpha 0.1 above the floor: DVP {dvp(0.1):.3g}, PVP {pvp(0.1):.3g}"
    reason = "the curves printed on the same page say the contrary of Fig. 5" if not _most(won) else ""
    return judge_words(item, words, _most(won), reason)


def _error(item: Item, at: Readings, expected: Expected) -> Judged:
    found = {name: at.values(name, "last", "error") for name in ("dvp", "pvp")}
    won = [d < p for d, p in zip(*found.values(), strict=True)]
    reason = f"error at alpha {_listed(ALPHAS)}: DVP {_listed(found['dvp'])}; PVP {_listed(found['pvp'])}"
    return _ranked(item, at, (f"DVP lower at {sum(won)} of {len(won)} alphas", _most(won), reason), "error")


def _balanced(item: Item, at: Readings, expected: Expected) -> Judged:
    least: dict[str, float] = {}
    for name in ("dvp", "pvp"):
        curve = at.fit(name, at.iterations)
        inside = None if curve is None else inner_minimum(curve)
        least[name] = math.inf if curve is None or inside is None else balance(curve, inside)
    words = f"L_acc - U_priv at its minimum inside: DVP {least['dvp']:.3g}, PVP {least['pvp']:.3g}"
    reason = "inf: the balance has no minimum inside" if math.inf in least.values() else ""
    return _ranked(item, at, (words, least["pvp"] < least["dvp"], reason))


def _tradeoff(item: Item, at: Readings, expected: Expected) -> Judged:
    found = {name: at.values(name, "final", alphas=SHOWN) for name in ("dvp", "pvp")}
    words = f"final loss: DVP {_listed(found['dvp'])}; PVP {_listed(found['pvp'])}"
    return judge_words(item, words, all(_falls(values) for values in found.values()))


CHECKS: dict[str, Check] = {
    "sec-4/algorithm-1": _algorithm_1,
    **{f"fig-3/faster/{name}": _faster(name) for name in ("dvp", "pvp")},
    **{f"fig-3/converges/{name}": _converges(name) for name in ("dvp", "pvp")},
    "fig-3/robust": _robust,
    "fig-3/variance": _variance,
    **{f"table-2/{name}": _best_of(name, "rho", RIDGES, ".2e") for name in LABELS},
    **{f"table-3/{name}": _best_of(name, "weight", WEIGHTS, "g") for name in LABELS},
    "fig-3/weight/pvp": _two_weights,
    **{f"fig-4/{name}/{c}": _fitted(name, place) for name in ("dvp", "pvp") for place, c in enumerate(("c4", "c5"))},
    "fig-4/same": _same,
    "fig-4/oscillations": _oscillations,
    "fig-4/increasing": _increasing,
    "fig-4/optimum": _optimum,
    "fig-5/pvp-better": _final("pvp", tuple(alpha for alpha in ALPHAS if alpha < 1)),
    "fig-5/fits": _printed_fits,
    "fig-5/error": _error,
    "abstract/dvp": _final("dvp", ALPHAS),
    "conclusion/pvp": _balanced,
    "sec-5/tradeoff": _tradeoff,
    **PRIVACY_CHECKS,
}

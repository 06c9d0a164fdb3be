"""Lines or curves in jobs without privacy: what each setting of `terms` costs and brings, on rows that are held out.

Each set is a job of two parties, the label holder with every other column, and `holdout = 0.3`; a run has another seed,
which holds out other rows (and draws generated sets anew). "searched": alpha by the search of a job, of 11 from 1 to
1e-5. "auto": the search that also chooses between lines and curves. Loss: that which was trained, mean over the rows
held out. The sets are those of `curves`, where it says what the code of curves was tuned on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from bench.curve_sets import QUICK, SETS, CurveSet, missing
from bench.progress import say, tell
from bench.row import Row
from tacit.columns.spec import LINEAR, SPLINE
from tacit.job import Job, read_job
from tacit.run.folder import PreparedRun
from tacit.run.measures import row_losses
from tacit.run.prepare import prepare_codes
from tacit.run.search import AlphaSearch, TermsSearch, search_job
from tacit.run.star import Run
from tacit.types import Vector

TITLE = "lines and curves in jobs without privacy: loss on rows held out, rounds and seconds"
ONLY_WHEN_NAMED = True
RUNS, QUICK_RUNS, HOLDOUT, USUAL = 3, 1, 0.3, 1e-4
WORSE_THAN_LINEAR, MOST_ROUNDS = 1.01, 2.0
LOSSES = {"classification": "logistic", "regression": "squared", "counts": "poisson"}
JOB = """\
[job]
holdout = {holdout}
seed = {seed}
[model]
loss = "{loss}"
terms = "auto"
[[party]]
name = "holder"
data = "holder.parquet"
id = "row of the set"
label = "label of the row"
[[party]]
name = "other"
data = "other.parquet"
id = "row of the set"
"""


@dataclass(frozen=True)
class Chosen:
    """What the command line asked for; empty: everything."""

    sets: tuple[str, ...] = ()
    runs: int | None = None


_chosen = Chosen()


def choose(sets: Sequence[str], runs: int | None) -> None:
    """Restrict what `run` does."""
    global _chosen
    _chosen = Chosen(tuple(name for name in sets if name in SETS), runs)


@dataclass(frozen=True)
class Fitted:
    """One fit: its loss on rows held out, and its cost."""

    loss: float
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Compared:
    """The fits of one run by name, and its two searches; `curve` is None where no column has a curve."""

    fits: dict[str, Fitted]
    found: TermsSearch
    rows: int
    columns: tuple[int, ...]

    @property
    def searches(self) -> list[AlphaSearch]:
        return [search for search in (self.found.linear, self.found.curve) if search is not None]


def run(quick: bool = False) -> list[Row]:
    """Every set."""
    rows: list[Row] = []
    sets = QUICK if quick else {name: SETS[name] for name in _chosen.sets or SETS}
    for one in sets.values():
        with threadpool_limits(1):
            for row in _set_rows(one, QUICK_RUNS if quick else _chosen.runs or RUNS, judged=not quick):
                tell(f"{row.name}: {row.measured}")
                rows.append(row)
    return rows


def _set_rows(one: CurveSet, runs: int, *, judged: bool) -> Iterator[Row]:
    absent = missing(one)
    if absent:
        yield Row(one.name, f"skipped: {absent}")
        return
    found = []
    for seed in range(runs):
        say(f"{one.name}, run {seed + 1} of {runs}")
        found.append(_compare(one, seed))
    first = found[0]
    yield Row(one.name, f"{first.rows} rows, {len(one.ranges) + len(one.lists)} columns, encoded as {first.columns}")
    for name in first.fits:
        fits = [compared.fits[name] for compared in found]
        rounds, seconds = (np.mean([getattr(fit, key) for fit in fits]) for key in ("rounds", "seconds"))
        losses = np.array([fit.loss for fit in fits])
        shown = f"{losses.mean():.4f} ± {losses.std():.4f}, {rounds:.0f} rounds, {seconds:.1f} s"
        yield Row(f"{one.name}: {name}", shown, float(losses.mean()))
    yield from _search_rows(one, found)
    yield from _targets(one, found, judged=judged)


def _search_rows(one: CurveSet, found: Sequence[Compared]) -> Iterator[Row]:
    """What was taken, and what the search cost."""
    taken = ", ".join(f"{compared.found.terms} at {compared.found.taken.alpha:g}" for compared in found)
    yield Row(f"{one.name}: auto took", taken)
    rounds = [" + ".join(str(search.rounds) for search in compared.searches) for compared in found]
    seconds = [f"{sum(search.seconds for search in compared.searches):.0f}" for compared in found]
    unfinished = sum(search.unfinished for compared in found for search in compared.searches)
    shown = f"rounds {', '.join(rounds)}; seconds {', '.join(seconds)}; {unfinished} fits not converged"
    yield Row(f"{one.name}: the search", shown)


def _targets(one: CurveSet, found: Sequence[Compared], *, judged: bool) -> Iterator[Row]:
    """Hold auto to lines, and the rounds of curves to those of lines."""

    def mean(name: str, key: str = "loss") -> float:
        return float(np.mean([getattr(compared.fits[name], key) for compared in found]))

    held = [("auto / linear, searched", mean("auto") / mean("linear, searched"), WORSE_THAN_LINEAR)]
    if "spline, alpha 1e-4" in found[0].fits:
        ratio = mean("spline, alpha 1e-4", "rounds") / mean("linear, alpha 1e-4", "rounds")
        held.append(("rounds of spline / linear, alpha 1e-4", ratio, MOST_ROUNDS))
    for name, ratio, limit in held:
        target = (limit, f"at most {limit:g}") if judged else (None, "")
        yield Row(f"{one.name}: {name}", f"{ratio:.3f}", ratio, *target)


# --- one run ---------------------------------------------------------------------------------------------


def _compare(one: CurveSet, seed: int) -> Compared:
    """All settings on the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        job = _write(one, seed, Path(folder))
        codes = prepare_codes(job)
    assert job.searched is not None
    searches, fits = [], {}
    for terms, code in zip((LINEAR, SPLINE), codes, strict=False):
        search = search_job(code.plan, code.shards, code.labels, job.searched)
        searches.append(search)
        fits[f"{terms}, alpha 1e-4"] = _fit(code, USUAL)
        fits[f"{terms}, searched"] = _fit(code, search.alpha)
    found = TermsSearch(searches[0], searches[1] if len(searches) > 1 else None)
    fits["auto"] = fits[f"{found.terms}, searched"]
    columns = tuple(sum(len(shard.columns) for shard in code.shards) for code in codes)
    return Compared(fits, found, len(codes[0].labels.values), columns)


def _write(one: CurveSet, seed: int, folder: Path) -> Job:
    """The files and the job of a run."""
    cut = one.cut(seed)
    frame = pd.concat([cut.train, cut.test], ignore_index=True)
    return write_job(frame, np.r_[cut.y, cut.y_test], LOSSES[one.task], seed, folder)


def write_job(frame: pd.DataFrame, labels: Vector, loss: str, seed: int, folder: Path) -> Job:
    """Files of two parties, the label holder with every other column, and their job."""
    rows = pd.Series(np.arange(len(frame)), name="row of the set")
    known = pd.Series(labels, name="label of the row")
    frame = frame.reset_index(drop=True)
    pd.concat([rows, known, frame.iloc[:, ::2]], axis=1).to_parquet(folder / "holder.parquet")
    pd.concat([rows, frame.iloc[:, 1::2]], axis=1).to_parquet(folder / "other.parquet")
    path = folder / "job.toml"
    path.write_text(JOB.format(holdout=HOLDOUT, seed=seed, loss=loss))
    return read_job(path)


def _fit(code: PreparedRun, alpha: float) -> Fitted:
    """Train one code at one alpha, and try it on the rows held out."""
    problem = code.plan.problem
    result = Run(replace(code.plan, problem=replace(problem, alpha=alpha)), code.shards, code.labels.values).go()
    assert code.held is not None
    losses = row_losses(result.model.scores(code.held.shards), code.held.labels, problem.loss.name)
    return Fitted(float(losses.mean()), len(result.trace), result.seconds)

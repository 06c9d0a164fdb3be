"""`tacit design JOB.toml`: run a job at several alphas, and take the points together."""

from __future__ import annotations

import argparse
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.run.prepare import labels_by_node, plan_nodes, prepare
from tacit.run.progress import progress_bar
from tacit.text import tell
from tacit_papers.design.points import PICTURE, POINTS, Done, LossNoise, Measured, held, read_done, write_done

if TYPE_CHECKING:
    from tacit.job import Job
    from tacit.plan import Plan
    from tacit.run.folder import PreparedRun
    from tacit_papers.design.tuning_cost import TuningCost

METHODS = ("dual", "primal")
REPEATS, MOST_REPEATS, MOST_ALPHAS = 3, 1000, 1000


def points_of_job(options: argparse.Namespace) -> Measured:
    """Make the runs that are not there yet, and take all points together."""
    noise = _loss_noise(options)
    wanted = [] if options.alphas is None else parse_alphas(options.alphas)
    repeats = _repeats(options.repeats)
    job = _checked(options)
    begun = prepare(_at(job, None))
    rounds = begun.plan.most_rounds
    job = _at(job, None, rounds)
    out = Path(options.out or _default_directory(job.name))
    with held(out, job, begun, noise):
        done = read_done(out)
        _check_enough(out, wanted, done)
        ask = [(alpha, number) for alpha in wanted for number in range(1, repeats + 1)]
        _sweep(job, begun, out, [one for one in ask if one not in done], noise, options)
        done = read_done(out)
    return _measured(job, begun, out, done, noise, options)


# --- what was asked ----------------------------------------------------------------------------------


def parse_alphas(text: str) -> list[float]:
    """The different numbers in '0.01,0.1,1'."""
    from tacit.text import show

    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not 0 < len(found) <= MOST_ALPHAS or not all(0 < alpha < math.inf for alpha in found):
        raise InputError(f"--alphas {show(text)} is not allowed: give numbers above 0, separated by commas")
    return list(dict.fromkeys(found))


def _repeats(given: int | None) -> int:
    if given is not None and not 1 <= given <= MOST_REPEATS:
        raise InputError(f"--repeats {given} is not allowed: it must be a whole number from 1 to {MOST_REPEATS}")
    return REPEATS if given is None else given


def _loss_noise(options: argparse.Namespace) -> LossNoise:
    from tacit.records import positive

    mu, bound = options.loss_mu, options.loss_bound
    if mu is not None and bound is None:
        raise InputError("--loss-mu puts noise on losses, whose size must be bounded: give --loss-bound, too")
    for option, value in (("--loss-mu", mu), ("--loss-bound", bound)):
        if value is not None:
            positive(value, option)
    return LossNoise(mu, bound)


def _checked(options: argparse.Namespace) -> Job:
    """The job, if it has an alpha that can be chosen."""
    from tacit.job import read_job
    from tacit.text import show

    job, name = read_job(options.source), Path(options.source).name
    for option, value, where in (("--rounds", options.rounds, "rounds in [privacy.options]"),
                                 ("--delta", options.delta, "delta in [privacy]")):  # fmt: skip
        if value is not None:
            raise InputError(f"{option} goes with a file of points: a job says it itself, {where}")
    if job.split != "samples":
        raise InputError(f'{name}: split = "{job.split}" has no alpha of a round: design is for split = "samples"')
    if job.model.method not in METHODS:
        raise InputError(f'{name}: method = {show(job.model.method)} has no alpha of a round: write "dual" or "primal"')
    if job.privacy is None:
        raise InputError(f"{name} has no [privacy], which says delta and row_norm: add it")
    if job.options is not None and job.options.noise == "gaussian":
        raise InputError(f'{name}: noise = "gaussian" has no alpha of a round: leave it out of [privacy.options]')
    if job.model.published:
        raise InputError(f"{name}: published = true has rounds that no theorem covers: design is for the proven form")
    return job


def _default_directory(name: str) -> Path:
    return Path("designs", re.sub(r"[^\w.-]+", "-", name).strip("-.") or "design")


# --- the job at an alpha -----------------------------------------------------------------------------


def _at(job: Job, alpha: float | None, rounds: int | None = None, noise_seed: int | None = None) -> Job:
    """The job at one alpha, with an epsilon that it stays within; None leaves the alpha open, at epsilon 1."""
    from tacit.privacy.request import PaperOptions
    from tacit_papers.design.sweep import asked_epsilon

    assert job.privacy is not None
    known = PaperOptions() if job.options is None else job.options
    if alpha is None:
        kept = replace(known, alphas=None, rounds=rounds or known.rounds)
        kept = replace(kept, noise="norm") if job.model.method == "primal" else kept
        return replace(job, options=kept, privacy=replace(job.privacy, epsilon=1.0))
    asked = asked_epsilon(alpha, known.rounds or 1, job.privacy.delta)
    privacy = replace(job.privacy, epsilon=asked, noise_seed=noise_seed)
    return replace(job, options=replace(known, alphas=alpha), privacy=privacy)


def _plan_at(job: Job, begun: PreparedRun, alpha: float, noise_seed: int | None = None) -> Plan:
    held = begun.plan.samples
    return plan_nodes(_at(job, alpha, noise_seed=noise_seed), held.rows, held.columns, {})


def _seed_of(job: Job, alpha: float, repeat: int) -> int | None:
    """Of a job with repeatable noise: other noise in every run, the same where a run is made again."""
    assert job.privacy is not None
    if job.privacy.noise_seed is None:
        return None
    return int.from_bytes(hashlib.sha256(f"{job.privacy.noise_seed} {alpha!r} {repeat}".encode()).digest()[:7])


# --- the runs ----------------------------------------------------------------------------------------


def _check_enough(out: Path, wanted: Sequence[float], done: Done) -> None:
    """Refuse too few alphas before any run is made."""
    count = len({*wanted, *(alpha for alpha, _ in done)})
    if not wanted and not done:
        raise InputError(f"there are no points in {out} yet: give --alphas, such as --alphas 0.01,0.1,0.5,1")
    if count < 3:
        raise InputError(f"there are {count} different alphas: three numbers are fitted, so give at least 3 (--alphas)")


def _sweep(
    job: Job,
    begun: PreparedRun,
    out: Path,
    missing: Sequence[tuple[float, int]],
    noise: LossNoise,
    options: argparse.Namespace,
) -> None:
    """Make the runs; each is in the file before the next begins."""
    plans = {alpha: _plan_at(job, begun, alpha) for alpha, _ in missing}  # what is refused is refused before any run
    secret = options.tuned_on == "private" and noise.mu is None
    done = read_done(out)
    with progress_bar("design", visible=not options.quiet) as observe:
        for number, (alpha, repeat) in enumerate(missing):
            if observe:
                observe(f"alpha {alpha:g}, run {number + 1} of {len(missing)}", number / len(missing))
            try:
                seed = _seed_of(job, alpha, repeat)
                plan = plans[alpha] if seed is None else _plan_at(job, begun, alpha, seed)
                done[alpha, repeat] = _loss(plan, begun, noise, seed)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped; {number} of {len(missing)} runs are in {out / POINTS}, and the same command goes on"
                ) from None
            write_done(out, done, secret=secret)


def _loss(plan: Plan, begun: PreparedRun, noise: LossNoise, seed: int | None) -> float:
    """The loss of one run, with noise where that was asked."""
    from tacit_papers.design.sweep import loss_of_run, noisy_loss

    loss, _ = loss_of_run(plan, begun.shards, labels_by_node(begun), noise.bound)
    if noise.mu is None or noise.bound is None:
        return loss
    return noisy_loss(loss, noise.mu, noise.bound, plan.samples.total, seed)[0]


# --- what follows ------------------------------------------------------------------------------------


def _measured(
    job: Job,
    begun: PreparedRun,
    out: Path,
    done: Done,
    noise: LossNoise,
    options: argparse.Namespace,
) -> Measured:
    from tacit.privacy.request import SEEDED
    from tacit_papers.design.sweep import events_of
    from tacit_papers.design.tuning_cost import composed_cost, dominating

    assert job.privacy is not None
    assert job.options is not None
    alphas, delta = [alpha for alpha, _ in done], job.privacy.delta
    by_alpha = {alpha: events_of(_plan_at(job, begun, alpha)) for alpha in set(alphas)}
    tried = [by_alpha[alpha] for alpha in alphas] if options.tuned_on == "private" else []
    event = noise.event(len(begun.labels.values))

    largest = _most_alpha(options, begun) if options.max_alpha is None else options.max_alpha
    bound = dominating(events_of(_plan_at(job, begun, largest)))

    def cost(alpha: float) -> TuningCost:
        kept = events_of(_plan_at(job, begun, alpha))
        return composed_cost(kept, tried, [] if event is None else [event] * len(tried), delta, bound, largest)

    notes = [f"{'written':<11} {out / POINTS}: {len(done)} runs; runs that are in it are not made again"]
    if options.tuned_on == "private" and noise.mu is None:
        notes.append(f"{'':<11} it and the picture hold losses of private rows without noise: keep them to yourself")
    if job.privacy.noise_seed is not None:
        notes.append(f"{'':<11} {SEEDED}")
    return Measured(
        alphas,
        list(done.values()),
        begun.plan.most_rounds,
        delta,
        largest,
        _loss_of_nothing(begun) if options.max_loss is None else options.max_loss,
        cost,
        _picture(options, out),
        tuple(notes),
        _next_steps,
    )


def _most_alpha(options: argparse.Namespace, begun: PreparedRun) -> float:
    """The largest alpha of rounds with which a run stays within the epsilon that the job asks for."""
    from tacit.job import read_job
    from tacit.privacy.events import NormRelease

    job = read_job(options.source)
    assert job.privacy is not None
    if job.privacy.epsilon is None:
        raise InputError('epsilon = "none" bounds no alpha: give --max-alpha')
    open_ = replace(_at(job, None), privacy=job.privacy)
    plan = plan_nodes(open_, begun.plan.samples.rows, begun.plan.samples.columns, {})
    found = [event for claim in plan.certificate().claims for event in claim.events if isinstance(event, NormRelease)]
    return min(event.epsilon for event in found)


def _loss_of_nothing(begun: PreparedRun) -> float:
    """Mean loss of a model that always says 0: more than that is of no use."""
    import numpy as np

    if begun.plan.problem.loss.task != "classification":  # there it depends on the labels, which may be private
        raise InputError(f"loss {begun.plan.problem.loss.name!r} has no largest loss of its own: give --max-loss")
    labels = begun.labels.values
    return float(begun.plan.problem.loss.value(np.zeros_like(labels), labels).mean())


def _picture(options: argparse.Namespace, out: Path) -> Path | None:
    from tacit_papers.design.tradeoff import MISSING, has_matplotlib

    if options.picture is not None:
        return Path(options.picture)
    if not has_matplotlib():
        tell(f"tacit: {MISSING}")
        return None
    return out / PICTURE


def _next_steps(alpha: float, epsilon: float) -> list[str]:
    """What to write into the job; the epsilon is rounded upwards."""
    enough = math.ceil(epsilon * (1 + 1e-4) * 1e3) / 1e3
    return [f"{'to train':<11} alphas = {alpha:.6g} in [privacy.options], and epsilon = {enough:.3f} in [privacy]"]

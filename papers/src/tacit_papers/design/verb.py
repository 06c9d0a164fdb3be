"""`tacit design`: the alpha of a round that balances loss and privacy, and what choosing it costs."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit_papers.design.points import Measured
    from tacit_papers.design.tradeoff import Design, PrivacyUtility
    from tacit_papers.design.tuning_cost import TuningCost

HELP = "choose the alpha of the mechanisms dual and primal"
DESCRIPTION = """\
Fit a curve to losses that were measured at several alphas, and choose the
alpha that balances loss and privacy: the design of the paper behind the
methods "dual" and "primal".

With a job file of split = "samples" it makes the runs itself, several at each
of --alphas, and takes the mean loss of each model on the job's own rows. Every
run is written into a file of points at once and is never made twice. Otherwise
POINTS.csv has the columns alpha and loss, one line for each run.

Choosing alpha from private rows is itself a release: every run that was tried
sent models about the same rows, and adds to the epsilon of the run that is
kept. That one counts at --max-alpha, whichever alpha is chosen, as the choice
depends on the results. The output states the total; it holds if --alphas,
--repeats and --max-alpha were fixed before the first result was seen. The sound
ways are to measure on public or generated rows of the same sizes (--tuned-on
public), or to pay: noise on the losses that are compared (--loss-mu), and the
total as the epsilon of the whole."""
EPILOG = """\
examples:
  tacit design wards.toml --alphas 0.01,0.1,0.5,1 --tuned-on public
  tacit design wards.toml --alphas 0.01,0.1,0.5,1 --loss-mu 0.1 --loss-bound 2
  tacit design points.csv --max-alpha 1 --max-loss 0.5
  tacit design points.csv --max-alpha 1 --max-loss 0.5 --tuned-on public \\
      --rounds 20 --picture tradeoff.png --json"""
UTILITY = (0.02, 6.0, 9.0, 1.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    add = parser.add_argument
    add("source", metavar="JOB.toml|POINTS.csv", help="the job to run; or columns alpha and loss, a line for each run")
    add("--alphas", metavar="A,A,...", help="of a job: where to measure, at least 3 different ones")
    add("--repeats", metavar="N", type=int, help="of a job: runs at each alpha, each with noise of its own (3)")
    add("--out", metavar="DIR", help="of a job: directory of the points and the picture (default: designs/NAME)")
    add("--quiet", action="store_true", help="of a job: no progress")
    add(
        "--max-alpha",
        metavar="A",
        type=float,
        help="largest alpha that counts as private (of a job: the one that its epsilon allows)",
    )
    add(
        "--max-loss",
        metavar="L",
        type=float,
        help="largest loss that is of use (of a job: that of a model which always says 0)",
    )
    add("--utility", metavar="W1,W2,W3,W4", help="of privacy: W1 ln(W2 / (W3 alpha + W4 alpha^2)) (0.02,6,9,1)")
    add("--rounds", metavar="N", type=int, help="of points: rounds of every run (3)")
    add("--delta", metavar="D", type=float, help="of points: for the epsilon of whole runs (1e-5)")
    add("--tuned-on", choices=("private", "public"), default="private", help="whose rows the losses are from (private)")
    add("--loss-mu", metavar="MU", type=float, help="GDP parameter of the noise on each loss")
    add("--loss-bound", metavar="M", type=float, help="of a job: what each row's loss counts for at most")
    add("--picture", metavar="FILE", help="draw the trade-off (PNG or SVG)")
    add("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Measure or read, fit, choose, account, print."""
    from tacit_papers.design.tradeoff import PrivacyUtility

    utility = PrivacyUtility(*parse_utility(options.utility))  # before runs that may take long
    measured = _measured(options)
    design = _choose(measured, utility)
    cost = measured.cost(design.alpha)
    if measured.picture:
        from tacit_papers.design.tradeoff import draw

        draw(design, measured.alphas, measured.losses, measured.picture)
    meaning = said(cost, options.tuned_on, measured.rounds)
    if options.json:
        record = {
            "points": [list(point) for point in zip(measured.alphas, measured.losses, strict=True)],
            "design": design.record(),
            "rounds": measured.rounds,
            "tuned_on": options.tuned_on,
            "cost": cost.record(),
            "meaning": meaning,
            "notes": [note.strip() for note in measured.notes],
        }
        print(json.dumps(record, indent=2, allow_nan=False))
    else:
        written = [f"{'picture':<11} {measured.picture}"] if measured.picture else []
        print("\n".join([*_lines(design, measured.alphas, measured.losses), *meaning]))
        print("\n".join(["", *measured.notes, *written, *measured.next_steps(design.alpha, cost.run)]).rstrip())
    return 0


def _measured(options: argparse.Namespace) -> Measured:
    if options.source.casefold().endswith(".toml"):
        from tacit_papers.design.job import points_of_job

        return points_of_job(options)
    from tacit_papers.design.points import points_of_file

    return points_of_file(options)


def _choose(measured: Measured, utility: PrivacyUtility) -> Design:
    """Fit and choose; refusals name the options as they are called here."""
    from tacit_papers.design.tradeoff import choose_alpha, fit_loss_curve

    try:
        curve = fit_loss_curve(measured.alphas, measured.losses)
        return choose_alpha(curve, utility, measured.most_alpha, measured.most_loss)
    except InputError as error:
        text = str(error)
        for inner, outer in (("most_alpha", "--max-alpha"), ("most_loss", "--max-loss")):
            text = text.replace(f"{inner}=", f"{outer} ").replace(inner, outer)
        raise InputError(text) from error


def parse_utility(text: str | None) -> tuple[float, ...]:
    """The four numbers of the utility of privacy."""
    if text is None:
        return UTILITY
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) != 4:
        raise InputError(f"--utility {text!r} is not allowed: give four numbers, separated by commas")
    return found


# --- what is printed ---------------------------------------------------------------------------------


def _lines(design: Design, alphas: list[float], losses: list[float]) -> list[str]:
    curve = design.curve
    held = {
        "inside": "a minimum of loss - utility",
        "loss bound": "the least alpha that --max-loss allows: loss - utility still falls towards smaller ones",
        "alpha bound": "the largest alpha that is allowed",
    }
    lines = [f"{'alpha':>10} {'loss':>10} {'fitted':>10} {'utility':>10} {'balance':>10}"]
    for alpha, loss in sorted(zip(alphas, losses, strict=True)):
        utility = design.utility_of(alpha)
        lines.append(
            f"{alpha:>10.4g} {loss:>10.4f} {curve(alpha):>10.4f} {utility:>10.4f} {curve(alpha) - utility:>10.4f}"
        )
    others = [alpha for alpha in design.minima if alpha != design.alpha]
    return [
        *lines,
        "",
        f"{'fit':<11} loss = {curve.height:.4g} exp(-{curve.rate:.4g} alpha) + {curve.floor:.4g}, within "
        f"{curve.residual:.2g} of the points (root mean square)",
        f"{'allowed':<11} alpha from {design.least_alpha:.4g} to {design.most_alpha:.4g}",
        f"{'best':<11} alpha {design.alpha:.6g}: loss {design.loss:.4f}, utility {design.utility:.4f}, balance "
        f"{design.objective:.4f}",
        f"{'':<11} {held[design.where]}",
        *(f"{'':<11} a local minimum inside, of larger balance: alpha {alpha:.6g}" for alpha in others),
        "",
    ]


def said(cost: TuningCost, tuned_on: str, rounds: int) -> list[str]:
    """What the numbers mean for privacy, in plain sentences."""
    size = _shown(cost.run)
    lines = [
        f"{'one run':<11} {rounds} rounds at this alpha: epsilon {size} at delta {cost.delta:g} for each row; alpha is "
        "the epsilon of one message"
    ]
    if tuned_on == "public":
        return [
            *lines,
            f"{'tuning':<11} on public or generated rows: it costs nothing, if none of the private rows was used",
        ]
    lines.append(
        f"{'tuning':<11} choosing alpha from private rows is itself a release: {cost.tried} runs were tried on them"
    )
    models = f"their models and a run at --max-alpha, {_shown(cost.largest)} (the sum of all alphas is "
    models += f"{_shown(cost.pure)})"
    if math.isinf(cost.together):
        return [
            *lines,
            f"{'together':<11} no epsilon: the losses that were compared had no noise, so that the choice itself tells "
            "something of private rows. Put noise on them (--loss-mu), or tune on public or generated rows",
            f"{'':<11} {models} would have epsilon {_shown(cost.models)} at delta {cost.delta:g} without this choice",
        ]
    return [
        *lines,
        f"{'together':<11} epsilon {_shown(cost.together)} at delta {cost.delta:g} for each row, whichever alpha up to "
        f"--max-alpha is chosen: {models}, and the noisy losses; without the losses {_shown(cost.models)}",
        f"{'':<11} this holds if --alphas, --repeats and --max-alpha were fixed before the first result was seen",
    ]


def _shown(value: Any) -> str:
    return f"{value:.4g}"

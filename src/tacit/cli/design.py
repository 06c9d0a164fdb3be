"""`tacit design`: the alpha of a round that balances loss and privacy, and what choosing it costs."""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.papers.tradeoff import Design
    from tacit.papers.tuning_cost import TuningCost

HELP = "choose the alpha of the methods dual and primal"
DESCRIPTION = """\
Fit a curve to losses that were measured at several alphas, and choose the
alpha that balances loss and privacy: the design of the paper behind the
methods "dual" and "primal". POINTS.csv has the columns alpha and loss, one
line for each run.

Choosing alpha from private rows is itself a release: every run that was tried
sent models about the same rows, and adds to the epsilon of the run that is
kept. The output states the sum. The sound ways are to measure on public or
generated rows of the same sizes (--tuned-on public), or to pay: noise on the
losses that are compared (--loss-mu), and the sum as the epsilon of the whole."""
EPILOG = """\
examples:
  tacit design points.csv --max-alpha 1 --max-loss 0.5
  tacit design points.csv --max-alpha 1 --max-loss 0.5 --tuned-on public \\
      --rounds 20 --picture tradeoff.png --json"""
UTILITY = (0.02, 6.0, 9.0, 1.0)
MOST_POINTS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("points", metavar="POINTS.csv", help="columns alpha and loss, a line for each run")
    parser.add_argument(
        "--max-alpha", metavar="A", type=float, required=True, help="largest alpha that counts as private"
    )
    parser.add_argument("--max-loss", metavar="L", type=float, required=True, help="largest loss that is of use")
    parser.add_argument(
        "--utility", metavar="W1,W2,W3,W4", help="of privacy: W1 ln(W2 / (W3 alpha + W4 alpha^2)) (0.02,6,9,1)"
    )
    parser.add_argument("--rounds", metavar="N", type=int, default=3, help="rounds of every run (3)")
    parser.add_argument("--delta", metavar="D", type=float, default=1e-5, help="for the epsilon of whole runs (1e-5)")
    parser.add_argument(
        "--tuned-on", choices=("private", "public"), default="private", help="whose rows the losses are from (private)"
    )
    parser.add_argument("--loss-mu", metavar="MU", type=float, help="GDP parameter of the noise on each loss")
    parser.add_argument("--picture", metavar="FILE", help="draw the trade-off (PNG or SVG)")
    parser.add_argument("--json", action="store_true", help="print it for machines")


def run(options: argparse.Namespace) -> int:
    """Fit, choose, account, print."""
    from tacit.papers.tradeoff import PrivacyUtility, choose_alpha, fit_loss_curve
    from tacit.papers.tuning_cost import tuning_cost

    alphas, losses = read_points(options.points)
    utility = PrivacyUtility(*parse_utility(options.utility))
    design = choose_alpha(fit_loss_curve(alphas, losses), utility, options.max_alpha, options.max_loss)
    cost = tuning_cost(
        alphas, design.alpha, options.rounds, options.delta, tuned_on=options.tuned_on, loss_mu=options.loss_mu
    )
    if options.picture:
        from tacit.papers.tradeoff_picture import draw

        draw(design, alphas, losses, options.picture)
    if options.json:
        record = {
            "points": [list(point) for point in zip(alphas, losses, strict=True)],
            "design": design.record(),
            "rounds": options.rounds,
            "tuned_on": options.tuned_on,
            "cost": cost.record(),
            "meaning": said(cost, options.tuned_on, options.rounds),
        }
        print(json.dumps(record, indent=2, allow_nan=False))
    else:
        print("\n".join([*_lines(design, alphas, losses), *said(cost, options.tuned_on, options.rounds)]))
        if options.picture:
            print(f"\n{'written':<11} {options.picture}")
    return 0


def read_points(name: str) -> tuple[list[float], list[float]]:
    """The columns alpha and loss of a CSV file."""
    from tacit.data.wording import show

    path = Path(name)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = [field.strip() for field in reader.fieldnames or []]
            reader.fieldnames = header
            missing = [column for column in ("alpha", "loss") if column not in header]
            if missing:
                raise InputError(f"{name} has no column {missing[0]!r}: its first line must name alpha and loss")
            rows = [row for _, row in zip(range(MOST_POINTS + 1), reader, strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {show(name)} ({type(error).__name__}): give a CSV file") from error
    if len(rows) > MOST_POINTS:
        raise InputError(f"{name} has more than {MOST_POINTS} points: give fewer")
    table = [
        [_number(row[column], column, line, name) for column in ("alpha", "loss")] for line, row in enumerate(rows, 2)
    ]
    return [alpha for alpha, _ in table], [loss for _, loss in table]


def _number(text: str | None, column: str, line: int, name: str) -> float:
    from tacit.data.wording import show

    try:
        return float(text or "")
    except ValueError:
        raise InputError(f"{name}, line {line}: {column} is {show(text)}, which is no number") from None


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
    lines += [
        f"{'tuning':<11} choosing alpha from private rows is itself a release: {cost.tried} runs were tried on them",
        f"{'together':<11} their models and the run that is kept: epsilon {_shown(cost.models)} at delta "
        f"{cost.delta:g} (the sum of all alphas is {_shown(cost.pure)})",
    ]
    if math.isinf(cost.together):
        lines.append(
            f"{'':<11} and the losses that were compared had no noise, which no epsilon covers: whoever learns the "
            "choice learns something of them. Put noise on them (--loss-mu), or tune on public or generated rows"
        )
    else:
        lines.append(f"{'':<11} with the noisy losses that were compared: epsilon {_shown(cost.together)}")
    return lines


def _shown(value: Any) -> str:
    return f"{value:.4g}"

"""Every polynomial bound of the proofs, for all real numbers, by an SMT solver: its negation has no solution.

Each `Bound` is one statement of a page in docs/proofs, with the constants that the code has (computed by its functions,
or read from a plan). Vectors of any dimension enter by their inner products: a pair a, a' has the numbers
A = |a|^2, B = |a'|^2 and C = a.a', and by the inequality of Cauchy and Schwarz C^2 <= A B. That, and what `by_hand` of
a bound says, is done by people; all the rest is the solver's. z3 decides polynomial statements over the reals: where it
says "unsat" there is no counterexample. Of a
constant that is 1 % smaller it must show one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import z3

from tacit.blocks import make_block
from tacit.columns.curves import MOST_PAIRS, FourierColumn
from tacit.mechanisms.gaussian.node import UnitRows, own_sums
from tacit.mechanisms.gaussian.settings import (
    gradient_rounding,
    gradient_sensitivity,
    model_sensitivity,
    solve_rounding,
)
from tacit.mechanisms.gram.fit import DIFFERENCE, SQUARE
from tacit.mechanisms.gram.plan import EVALUATION_SHARES
from tacit.mechanisms.gram.settings import CLASS_CONSTANT, CONSTANT, bounds
from tacit.mechanisms.shares.sides import exact_sensitivity
from tacit.plan.terms import with_row_norms
from tacit.privacy.calibration import budget_mu
from tacit.privacy.request import Privacy
from tacit.problem.losses.modified import flip_of
from tacit.topologies import make_graph
from tests.plans import feature_plan, sample_plan

LESS = Fraction(99, 100)
MOST_STEPS = 20_000_000  # of the solver, which counts the same on a busy machine; all statements take 9 million
ROWS = 500  # of a node
ASKED = {"loss": "logistic", "penalty": "l2", "alpha": 1e-4, "fit_intercept": True, "tol": 1e-4}
Squares = Mapping[str, Fraction]
Statement = Callable[[Squares], Any]


@dataclass(frozen=True)
class Bound:
    """A statement about all real numbers.

    Attributes
    ----------
    proof : str
        Where people prove it.
    given : tuple
        What is known of the variables.
    claim : callable
        What then holds, from the squares of the constants.
    squares : mapping
        The squares of the code's constants.
    roomy : mapping
        A constant that could be smaller, with the part of it that would still do; 1 % below that must not.
    by_hand : str
        The step between this statement and the theorem, beside Cauchy and Schwarz.
    """

    proof: str
    given: tuple[Any, ...]
    claim: Statement
    squares: Squares
    roomy: Mapping[str, Fraction] = field(default_factory=dict)
    by_hand: str = ""


def rational(value: float, tolerance: float = 1e-14) -> Fraction:
    """The simple fraction that a float of the code stands for; `tolerance` is what rounding in it may add."""
    found = Fraction(value).limit_denominator(100_000)
    assert abs(float(found) - value) <= tolerance * value, f"{value!r} is no simple fraction"
    return found


def number(value: Fraction) -> Any:
    return z3.Q(value.numerator, value.denominator)


def counterexample(bound: Bound, squares: Squares) -> Any:
    """Numbers for which the statement is false; None where the solver proves that there are none."""
    solver = z3.SolverFor("QF_NRA")
    solver.set("rlimit", MOST_STEPS)
    solver.add(*bound.given, z3.Not(bound.claim(squares)))
    said = solver.check()
    assert said != z3.unknown, f"no answer: {solver.reason_unknown()}"
    return solver.model() if said == z3.sat else None


# --- what is known of the variables --------------------------------------------------------------------

A, B, C, t, u, side = z3.Reals("A B C t u side")
PAIR = (A >= 0, A <= 1, B >= 0, B <= 1, C * C <= A * B)
distance_squared = A + B - 2 * C  # |a - a'|^2
frobenius_squared = A * A + B * B - 2 * C * C  # |aa' - a'a''|_F^2


def between(low: Any, high: Any, *variables: Any) -> tuple[Any, ...]:
    return tuple(limit for one in variables for limit in (low <= one, one <= high))


def gradients(squared_side: Any) -> Any:
    """How far r (a, c) moves, in units of the bound of r: t and u are r and r' over it."""
    return t * t * A + u * u * B - 2 * t * u * C + (t - u) * (t - u) * squared_side


# --- gram.md -------------------------------------------------------------------------------------------

SHAPES = ((1.0, 0.5, 1), (1.7, 0.25, 12), (0.5, 1.0, 30))  # bound of the derivative, of the weight, gradients
EACH_STEP = "each of K gradients moves by at most the most that one moves: their mean is at most that"


def fit_squares(one_signed: bool, shape: tuple[float, float, int], neighbours: str = "replace-one") -> Squares:
    """Squares of the deviations at mu = 1, in units of the derivative's bound (all steps) and of the weight's."""
    slope, weight, steps = shape
    size = bounds(slope, weight, steps, one_signed=one_signed, neighbours=neighbours)
    return {
        "gram": rational((size.gram / weight) ** 2),
        "gradient": rational(size.gradient**2 / (steps * slope**2)),
        "mean": rational((size.mean / weight) ** 2),
        "trace": rational((size.trace / weight) ** 2),
    }


def some(squares: Squares, *names: str) -> Squares:
    return {name: squares[name] for name in names}


def fit_cost(squared_side: Any) -> Statement:
    return lambda s: gradients(squared_side) / number(s["gradient"]) + frobenius_squared / number(s["gram"]) <= 1


def class_cost(s: Squares) -> Any:
    """In units of sqrt 2: both rows are sure of one wrong class, of two different ones, or one row of the right one."""
    constant = 1 / number(s["constant"])
    moves = (distance_squared, A + B - C + constant, A + constant, B + constant)
    return z3.And(*(one / number(s["gradient"]) + frobenius_squared / number(s["gram"]) <= 1 for one in moves))


def centre_cost(s: Squares) -> Any:
    return distance_squared / number(s["mean"]) + (A - B) * (A - B) / number(s["trace"]) <= 1


def gram_bounds() -> dict[str, Bound]:
    any_sign, one_sign = (fit_squares(signed, SHAPES[0]) for signed in (False, True))
    zero_out = fit_squares(True, SHAPES[0], "zero-out")
    constant = number(rational(CONSTANT) ** 2)
    return {
        "the Gram matrix beside gradients of any sign": Bound(
            "gram.md, theorem 1",
            (*PAIR, *between(-1, 1, t, u)),
            fit_cost(constant),
            some(any_sign, "gram", "gradient"),
            by_hand=EACH_STEP,
        ),
        "the Gram matrix beside gradients of one sign": Bound(
            "gram.md, theorem 2",
            (*PAIR, *between(0, 1, t, u), *between(0, 2, side)),
            fit_cost(side),
            some(one_sign, "gram", "gradient"),
            by_hand=EACH_STEP,
        ),
        "the Gram matrix beside gradients of several classes": Bound(
            "gram.md, theorem 2a",
            PAIR,
            class_cost,
            some(one_sign, "gram", "gradient") | {"constant": 1 / rational(CLASS_CONSTANT**2)},
            by_hand=f"a convex function of p and p' is largest at unit vectors; {EACH_STEP}",
        ),
        "the mean beside the trace": Bound(
            "gram.md, theorem 3",
            PAIR,
            centre_cost,
            some(one_sign, "mean", "trace"),
            roomy={"trace": Fraction(425, 1000)},  # the remark there
        ),
        "the mean beside the trace, a row set to zero": Bound(
            "gram.md, theorem 4", (*PAIR, B == 0), centre_cost, some(zero_out, "mean", "trace")
        ),
        "weights of the logistic loss": _label_weight(),
        "weights of the half loss": _half_weight(),
        "the change of the loss": _loss_change(),
        "the squares of differences beside their sum, of rows held out": _held_out(),
    }


def _gram_plan(**privacy: Any) -> Any:
    asked = Privacy(epsilon=1.0, **privacy)
    return feature_plan(party_names=("bank", "shop"), rows=1000, columns=(3, 4), privacy=asked, **ASKED).private


def _held_out() -> Bound:
    """How far (x, w x^2) moves, w the weight of the squares that the code has."""
    weight = number(rational(SQUARE**2))
    moved = (t - u) * (t - u) + weight * (t * t - u * u) * (t * t - u * u)
    found = feature_plan(
        party_names=("bank", "shop"),
        rows=1000,
        columns=(3, 4),
        privacy=Privacy(epsilon=1.0),
        holdout=0.2,
        evaluated=True,
        **ASKED,
    ).private
    share = math.sqrt(EVALUATION_SHARES[DIFFERENCE])
    square = (found.settings.evaluation.difference_sd * share * budget_mu(1.0, found.privacy.delta)) ** 2
    return Bound(
        "evaluation.md, lemma 2",
        between(-1, 1, t, u),
        lambda s: moved <= number(s["sums"]),
        {"sums": rational(square, 1e-4)},  # rounding was taken off mu
    )


def _label_weight() -> Bound:
    """The weight k p (1 - p), where k s (1 - s) = p (1 - p) and s is the probability of the label that is seen."""
    p, q, k, seen = z3.Reals("p q k seen")
    given = (*between(0, 1, p), q >= 0, 2 * q < 1, seen == q + (1 - 2 * q) * p, p > 0, p < 1)
    square = rational(_gram_plan(label_epsilon=1.0).settings.fits["shop"].weight) ** 2
    weight = k * p * (1 - p)
    return Bound(
        "gram.md, section 2, logistic",
        (*given, k * seen * (1 - seen) == p * (1 - p)),
        lambda s: z3.And(weight >= 0, weight * weight <= number(s["weight"])),
        {"weight": square},
    )


def _half_weight() -> Bound:
    p, w = z3.Reals("p w")
    square = rational(_gram_plan().settings.fits["shop"].weight) ** 2
    return Bound(
        "gram.md, section 2, half",
        (*between(0, 1, p), w <= p, w <= 1 - p, w >= 0),
        lambda s: w * w <= number(s["weight"]),
        {"weight": square},
    )


def _loss_change() -> Bound:
    """D of one row before and after, each a mixture of two clipped changes; labels flipped with probability q."""
    k, q, x, y, x2, y2, distance = z3.Reals("k q x y x2 y2 distance")
    planned = _gram_plan(label_epsilon=1.0)
    fit, spent = planned.settings.fits["shop"], planned.certificate.claims[0].events[2].sensitivity
    factor = fit.loss_change_sd * spent * (1 - 2 * flip_of(1.0)) / fit.loss_change_clip
    given = (k > 0, q >= 0, 2 * q < 1, *between(-k, k, x, y, x2, y2))
    moved = (1 - q) * (x - x2) - q * (y - y2)  # times 1/(1 - 2q)
    return Bound(
        "gram.md, section 6",
        (*given, distance == moved),
        lambda s: distance * distance <= number(s["change"]) * k * k,
        {"change": rational(factor, 1e-5) ** 2},
    )


# --- graph.md ------------------------------------------------------------------------------------------


def _graph_plan(**asked: Any) -> Any:
    graph, privacy = make_graph("ring", 4), Privacy(epsilon=1.0)
    return sample_plan(graph=graph, rows=(ROWS,) * 4, columns=5, privacy=privacy, **{**ASKED, **asked}).private


def graph_bounds() -> dict[str, Bound]:
    classes = _graph_plan()
    settings, events = classes.settings, classes.certificate.claims[0].events
    row = gradient_sensitivity(settings, ROWS) / (1 + gradient_rounding(settings, ROWS))
    return {
        "the sums of the centre": Bound(
            "graph.md, theorem 1",
            PAIR,
            lambda s: distance_squared + frobenius_squared / 2 <= number(s["centre"]),
            {"centre": rational(events[0].sensitivity, 1e-5) ** 2},
        ),
        "the sums of the centre, with the trace alone": Bound(
            "graph.md, theorem 1, its last sentence",
            PAIR,
            lambda s: distance_squared + (A - B) * (A - B) / 2 <= number(s["centre"]),
            {"centre": rational(events[0].sensitivity, 1e-5) ** 2},
        ),
        "a gradient": Bound(
            "graph.md, lemma 2",
            PAIR,
            lambda s: distance_squared <= number(s["gradient"]),
            {"gradient": rational(row, 1e-12) ** 2},
        ),
        "a model": _model(),
    }


def _model() -> Bound:
    """With e the distance of two solves, g and h the norms of their gradients, j how far a row moves a gradient."""
    settings = _graph_plan(loss="squared").settings
    assert settings.form == "exact"
    e, g, h, j, product = z3.Reals("e g h j product")
    left = Fraction(settings.tolerance) + Fraction(solve_rounding(settings, ROWS))
    pull, row = Fraction(settings.pull), 2 * Fraction(settings.scale)
    given = (e >= 0, *between(0, number(left), g, h), *between(0, number(row), j))
    convex = (product >= number(pull) * e * e, product <= e * (g + h + j))
    size = Fraction(model_sensitivity(settings, ROWS))
    return Bound(
        "graph.md, theorem 3",
        (*given, *convex),
        lambda s: e * e <= number(s["model"]),
        {"model": size**2},
        by_hand="strong convexity: (gradients' difference).(w - w') >= q |w - w'|^2; the triangle inequality",
    )


# --- shares.md -----------------------------------------------------------------------------------------


def share_bounds() -> dict[str, Bound]:
    """S, S2: the row's own shares; p, p2: of the other model; x = |D_0 e|^2; v the target."""
    b, S, S2, v, p, p2, x = z3.Reals("b S S2 v p p2 x")
    given = (b > 0, *between(-b, b, S, S2, v, p, p2), x >= 0)
    found = {}
    for neighbours, theorem, more in (
        ("replace-one", "theorem 1", (x <= (S - v) * (p - S) - (S2 - v) * (S2 - p2),)),
        ("zero-out", "theorem 2", (x <= (S - v) * (p - S), S2 == 0)),
    ):
        found[f"a share, {neighbours}"] = Bound(
            f"shares.md, {theorem}",
            (*given, *more),
            lambda s: x + (S - S2) * (S - S2) <= number(s["share"]) * b * b,
            {"share": rational(exact_sensitivity(neighbours, 1.0)) ** 2},
            by_hand="(1): the two minimisers' variational inequalities, added",
        )
    return found


# --- curves.md -----------------------------------------------------------------------------------------


def curve_bounds() -> dict[str, Bound]:
    """Cosines and sines enter by the sum of their squares."""
    found = {}
    for pairs in range(1, MOST_PAIRS + 1):
        heights = FourierColumn("age", 0.0, 100.0, pairs).heights
        cos, sin = z3.RealVector("cos", pairs), z3.RealVector("sin", pairs)
        squares = [number(rational(float(h) ** 2)) for h in heights]
        norm = z3.Sum([h * (x * x + y * y) for h, x, y in zip(squares, cos, sin, strict=True)])
        found[f"the code of a cell, {pairs} pairs"] = Bound(
            "curves.md, theorem 1",
            tuple(x * x + y * y == 1 for x, y in zip(cos, sin, strict=True)),
            lambda s, norm=norm: norm <= number(s["norm"]),
            {"norm": Fraction(1)},
        )
    place = z3.Real("place")
    found["the code of a cell, a line"] = Bound(
        "curves.md, theorem 1",
        between(0, 1, place),
        lambda s: (2 * place - 1) * (2 * place - 1) <= number(s["norm"]),
        {"norm": Fraction(1)},
    )
    cells, asked = z3.RealVector("cell", 7), with_row_norms(Privacy(epsilon=1.0), ["shop"], [7])
    assert asked is not None
    found["a row of seven columns"] = Bound(
        "curves.md, theorem 1",
        between(-1, 1, *cells),
        lambda s: z3.Sum([cell * cell for cell in cells]) <= number(s["row_norm"]),
        {"row_norm": rational(asked.norm_of("shop") ** 2)},
        by_hand="a cell's code enters by its norm",
    )
    return found


BOUNDS: dict[str, Bound] = {**gram_bounds(), **graph_bounds(), **share_bounds(), **curve_bounds()}
CONSTANTS = [(name, constant) for name, bound in BOUNDS.items() for constant in bound.squares]


# --- the tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOUNDS)
def test_no_real_numbers_break_a_bound(name):
    bound = BOUNDS[name]
    found = counterexample(bound, bound.squares)
    assert found is None, f"{bound.proof} is false at {found}"


@pytest.mark.parametrize(("name", "constant"), CONSTANTS)
def test_a_constant_that_is_one_percent_smaller_has_a_counterexample(name, constant):
    bound = BOUNDS[name]
    part = LESS * bound.roomy.get(constant, Fraction(1))
    found = counterexample(bound, {**bound.squares, constant: bound.squares[constant] * part**2})
    assert found is not None, f"{bound.proof} holds with {float(part):g} of its {constant} too"


@pytest.mark.parametrize(
    ("name", "constant"), [(name, constant) for name, constant in CONSTANTS if constant in BOUNDS[name].roomy]
)
def test_a_constant_with_room_could_be_as_much_smaller_as_the_proof_says(name, constant):
    bound = BOUNDS[name]
    smaller = bound.squares[constant] * bound.roomy[constant] ** 2
    assert counterexample(bound, {**bound.squares, constant: smaller}) is None


def test_the_side_column_must_be_paid_for_on_the_gram_matrix_too():
    """The trap of gram.md, section 3: f on the gradients alone."""
    bound = BOUNDS["the Gram matrix beside gradients of any sign"]
    one_signed = fit_squares(True, SHAPES[0])
    assert counterexample(bound, {**bound.squares, "gram": one_signed["gram"]}) is not None


def test_rows_of_zeros_need_the_whole_noise_once_they_are_centred():
    """Gram.md, theorem 4: 7/8 of the cost would be enough for a' = 0, and is not for a centred row."""
    bound = BOUNDS["the Gram matrix beside gradients of one sign"]
    smaller = {name: square * Fraction(7, 8) for name, square in bound.squares.items()}
    assert counterexample(replace(bound, given=(*bound.given, B == 0, side == 0)), smaller) is None
    assert counterexample(bound, smaller) is not None


@pytest.mark.parametrize("one_signed", [True, False])
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_constants_grow_with_the_loss_and_the_gradients_as_the_statements_assume(shape, one_signed):
    """So that what is proven in units of the loss's bounds and of the number of gradients is proven for all."""
    assert fit_squares(one_signed, shape) == fit_squares(one_signed, SHAPES[0])


def test_a_plan_has_at_least_the_noise_of_these_constants():
    fit, claim = (planned := _gram_plan()).settings.fits["shop"], planned.certificate.claims[0]
    centre, rest = claim.events[0].sensitivity, claim.events[1].sensitivity
    size = bounds(fit.slope, fit.weight, fit.steps, one_signed=True, neighbours="replace-one")
    for sd, least in (
        (fit.mean_sd * centre, size.mean),
        (fit.trace_sd * centre, size.trace),
        (fit.gram_sd * rest, size.gram),
        (fit.gradient_sd * rest, size.gradient),
    ):
        assert least * (1 + 1e-12) <= sd <= least * (1 + 1e-4)


@pytest.mark.parametrize("with_gram", [True, False])
def test_the_sums_of_the_centre_move_as_the_statement_says(with_gram):
    """The packed triangle has half the squared Frobenius norm, which z3 does not see."""
    a, b = (np.array(x) / math.sqrt(2) for x in ([0.6, -0.8, 1.0], [1.0, 0.6, 0.8]))
    first, second = (own_sums(UnitRows(make_block(x[None, :]), 1.0), with_gram=with_gram) for x in (a, b))
    outer = np.outer(a, a) - np.outer(b, b)
    beside = np.square(outer).sum() if with_gram else (a @ a - b @ b) ** 2
    assert np.square(first - second).sum() == pytest.approx(np.square(a - b).sum() + beside / 2)

"""The pieces of work of the sharing paper, full and quick: what the paper leaves open is chosen here.

| not printed in the paper | chosen | sensitivity to it |
|---|---|---|
| lambda | 1e-4 times the rows (alpha 1e-4 on the mean loss) | "a9a/sensitivity" |
| rho (of the summed loss) | M/4: parties times the largest curvature of the loss | "*/admm", "a9a/sensitivity" |
| SGD's batch and steps | 64 rows; 2 over curvature times mean squared row norm, over sqrt(epoch) | "*/sgd" |
| levels of the noise | 0.1 to 30 on a9a, 0.01 to 10 on wide data; on a9a both laws of the noise | "*/noise" |
| epochs | 60 of ADMM, 30 (a9a) or 60 of SGD; 20 with noise, where the paper wants fewer than 20 | by epoch |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit_papers.sharing import runs, theory_runs
from tacit_papers.work import Piece, seeds

ALPHA, DELTA = 1e-4, 1e-5
STAND_INS = ("mnist49", "basehock")
SETS = ("a9a", "gisette", *STAND_INS)
PARTIES = {"a9a": 2, "gisette": 3, "mnist49": 3, "basehock": 3}
RHO = {name: parties / 4 for name, parties in PARTIES.items()}
INVERSE, COEFFICIENTS = "published-inverse", "published"
LEVELS = {name: (0.1, 0.3, 1.0, 3.0, 10.0, 30.0) if name == "a9a" else (0.01, 0.03, 0.1, 1.0, 10.0) for name in SETS}
COEFFICIENT_LEVELS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
NOISY_ROUNDS = 20
STEPS, WIDE_STEPS = (0.3, 1.0, 3.0, 10.0), (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FACTORS, WIDE_FACTORS = (0.1, 0.2, 0.4, 1.0, 2.0), (0.01, 0.02, 0.05, 0.1, 0.4, 1.0, 2.0)  # of the chosen rho
QUICK_ROWS = {"a9a": None, "gisette": 1, "mnist49": 1000, "basehock": 400}
QUICK_SIZES = {"basehock": (600, 600, 300)}  # the first columns: factors of thousands of columns take seconds
A9A_COLUMNS = 123


def pieces(quick: bool) -> Sequence[Piece]:
    """All of them."""
    found: list[Piece] = []
    for name in SETS:
        found += _on_data(name, quick)
    return [*found, *_a9a_only(quick), *_theory(quick)]


def _on_data(name: str, quick: bool) -> list[Piece]:
    wide, base = name != "a9a", _base(name, quick)
    factors = (0.4, 1.0) if quick else WIDE_FACTORS if wide else FACTORS
    steps = STEPS[1:2] if quick else WIDE_STEPS if wide else STEPS
    own = LEVELS[name][1::3] if quick else LEVELS[name]
    levels = {INVERSE: own}
    if not wide:
        levels[COEFFICIENTS] = COEFFICIENT_LEVELS[::3] if quick else COEFFICIENT_LEVELS
    epochs = (10 if quick else 60) if wide else (6 if quick else 30)
    many = {"seeds": seeds(0, 1 if quick or wide else 3)}
    works: list[tuple[str, Any, dict[str, Any], float]] = [
        ("reference", runs.reference, {}, 5),
        ("admm", runs.admm, {"rounds": 40 if quick else 60, "rhos": [RHO[name] * factor for factor in factors]}, 30),
        ("sgd", runs.sgd, {"epochs": epochs, "steps": list(steps),
                           "seeds": seeds(0, 1 if quick or wide else 2)}, 80),
        ("noise", runs.noise, {"rho": RHO[name], "rounds": NOISY_ROUNDS,
                               "levels": {law: list(some) for law, some in levels.items()}, **many}, 60),
        ("sound", runs.sound, {"rounds": NOISY_ROUNDS, "levels": list(own), "delta": DELTA,
                               "epsilon": 1.0, **many}, 15),
    ]  # fmt: skip
    return [
        Piece(f"{name}/{what}", run, base | more, (name,), time * (0.1 if quick else 1))
        for what, run, more, time in works
    ]


def _base(name: str, quick: bool) -> dict[str, Any]:
    fewer = {"sizes": QUICK_SIZES[name]} if quick and name in QUICK_SIZES else {}
    return {"data": name, "rows": QUICK_ROWS[name] if quick else None, "alpha": ALPHA, **fewer}


def _a9a_only(quick: bool) -> list[Piece]:
    base = _base("a9a", quick)
    grid = [0.1, 0.5] if quick else [0.05, 0.1, 0.25, 0.5, 1.0, 4.0]
    rounds = {"rounds": 12 if quick else 60}
    many = {"parties": [10] if quick else [10, 30], "columns": [A9A_COLUMNS], "rhos": grid, **rounds}
    table = {"alphas": [1e-4] if quick else [3e-5, 1e-4, 1e-3, 1e-2], "rhos": grid, **rounds}
    return [
        Piece("a9a/many-parties", runs.many_parties, base | many, ("a9a",), 3 if quick else 40),
        Piece("a9a/sensitivity", runs.sensitivity_table, base | table, ("a9a",), 2 if quick else 50),
        Piece("a9a/spectrum", theory_runs.spectrum, {"data": "a9a", "rows": base["rows"]}, ("a9a",), 2),
    ]


def _theory(quick: bool) -> list[Piece]:
    cases = [{"loss": "squared", "parties": parties, "rho": 2.5} for parties in (2, 4)]
    cases.append({"loss": "logistic", "parties": 12, "rho": 2.5})
    sizes = [[200, 40], [1000, 100]] if quick else [[200, 40], [1000, 100], [3000, 300]]
    attack = {"rows": 150 if quick else 400, "levels": [1.0, 100.0] if quick else [0.01, 1.0, 100.0],
              "trials": 10 if quick else 60}  # fmt: skip
    read = {"rows": QUICK_ROWS["a9a"] if quick else None, "levels": [1.0] if quick else [0.1, 1.0, 10.0, 30.0],
            "rounds": 5, "rho": RHO["a9a"], "alpha": ALPHA}  # fmt: skip
    budget = {"delta": DELTA, "epsilons": [0.1, 0.5, 1.0], "rounds": [1, 5, 20, 100]}
    return [
        Piece("theory/same-columns", theory_runs.same_columns, {"cases": cases, "rows": 20, "rounds": 60}),
        Piece("theory/lemma-1", theory_runs.lemma1,
              {"sizes": sizes, "rhos": [1.0, 10.0], "seeds": seeds(0, 1 if quick else 3)}, (), 3),
        Piece("theory/column-space", theory_runs.column_space, attack, ("a9a",), 2 if quick else 25),
        Piece("theory/labels", theory_runs.labels, read, ("a9a",), 2),
        Piece("theory/composition", theory_runs.composition, budget),
    ]  # fmt: skip

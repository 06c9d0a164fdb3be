"""The tables of the sharing paper's page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.papers.reproduction.page_parts import Table
from tacit.papers.reproduction.sharing.claims_measures import (
    at_epoch,
    end,
    label,
    mean,
    noisy_ends,
    numbers,
    published_epsilon,
    settled,
    sgd_curve,
)
from tacit.papers.reproduction.sharing.pieces import COEFFICIENTS, INVERSE
from tacit.papers.reproduction.work import Results


def noise_table(results: Results, name: str, number: str) -> Table:
    """What each level of noise is worth: as published, and on the shares themselves."""
    ends, sound = noisy_ends(results, name), results[f"{name}/sound"]
    epsilon = published_epsilon(results, name)
    rows = [
        (
            f"{level:g}",
            _loss(ends[level]),
            epsilon,
            f"{sound['shares'][f'{level:g}']['epsilon']:.3g}",
            _loss(sound["shares"][f"{level:g}"]["test"]),
        )
        for level in ends
    ]
    gram, reference = sound["gram"], results[f"{name}/reference"]
    rows += [
        ("our default (gram)", "", "", f"{gram['epsilon']:g}", _loss(gram["test"])),
        ("none, party 1 alone", f"{reference['local']:.4f}", "", "", ""),
        ("none, all columns", f"{reference['pooled']:.4f}", "", "", ""),
    ]
    return Table(
        f"beside {number}",
        f"{label(name)}: test log loss by noise, and the epsilon that the noise really is",
        f"Whole run, delta {sound['delta']:g}, replace-one record of one party. The published noise has no proven "
        "epsilon at any level, and an infinite one for every party with fewer columns than rows. The next column is "
        "the epsilon of the same noise in 20 rounds if it is put on the shares themselves, with rows and coefficients "
        "held to norm 1 (so that a share moves by at most 2); the last one is what the sound mechanism reaches at that "
        "epsilon, with as many rounds as it chooses itself. Scaled rows and short coefficients are another model: they "
        "hold it back on a9a even where there is hardly any noise, and help on basehock.",
        ("noise", "as published: test log loss", "its epsilon", "sound: epsilon", "sound: test log loss"),
        rows,
    )


def _loss(values: Sequence[float]) -> str:
    spread = f" ({min(values):.4f} to {max(values):.4f})" if len(values) > 1 else ""
    return f"{mean(values):.4f}{spread}"


def law_table(results: Results) -> Table:
    """The two versions of the paper draw different noise."""
    inverse, plain = (noisy_ends(results, "a9a", law) for law in (INVERSE, COEFFICIENTS))
    rows = [
        (f"{one:g}", _loss(inverse[one]), f"{other:g}", _loss(plain[other]))
        for one, other in zip(inverse, plain, strict=True)
    ]
    return Table(
        "beside Fig. 1(b)",
        "a9a: the two laws of the noise in the two versions of the paper",
        "The longer version has covariance sigma^2 (D'D)^-1, eq. (16), the shorter one sigma^2 I on the coefficients. "
        "The figures do not say which was used; neither is private. Test log loss after 20 epochs.",
        ("sigma, eq. (16)", "test log loss", "sigma, on coefficients", "test log loss"),
        rows,
    )


def sensitivity_table(results: Results) -> Table:
    """Lambda and rho are not printed in any version of the paper."""
    found = results["a9a/sensitivity"]
    rhos = list(next(iter(found.values()))["ends"])
    rows = [
        (f"{float(alpha):g}", f"{case['pooled']:.4f}", *(_ended(case["ends"][rho]) for rho in rhos))
        for alpha, case in found.items()
    ]
    return Table(
        "beside Fig. 1(a)",
        "a9a: the published iteration for other lambda and rho",
        "Neither is printed in any of the three versions of the paper. lambda over the number of rows, rho of the "
        "summed loss; test log loss of the last epoch. Where the objective ended above that of guessing, it diverged.",
        ("lambda / N", "scikit-learn", *(f"rho {rho}" for rho in rhos)),
        rows,
    )


def _ended(last: dict[str, float | str | None]) -> str:
    test, objective = last["test"], last["objective"]
    if not isinstance(test, float) or not isinstance(objective, float) or objective > math.log(2):
        return "diverged"
    return f"{test:.4f}"


def step_table(results: Results, names: Sequence[str]) -> Table:
    """SGD's steps are not printed either."""
    rows = []
    for name in names:
        for step, curve in results[f"{name}/sgd"]["steps"].items():
            own = sgd_curve(curve)
            rows.append((label(name), step, str(len(own["test"])), f"{settled(own, 'objective'):.4f}",
                         f"{settled(own):.4f}", f"{min(numbers(own['test'])):.4f}"))  # fmt: skip
    return Table(
        "beside Figs. 1(a) and 2(a)",
        "SGD with steps of other sizes",
        "Batches of 64 rows, steps falling with the root of the epoch; sizes in units of the default, which is 2 over "
        "curvature times mean squared row norm. Means of the last five epochs, and the best single one.",
        ("data", "steps x", "epochs", "training objective", "test log loss", "best epoch"),
        rows,
    )


def rho_table(results: Results, names: Sequence[str]) -> Table:
    """The published iteration by rho."""
    rows = [
        (label(name), rho, *(f"{at_epoch(curve, epoch):.3f}" for epoch in (10, 20)), f"{end(curve):.4f}",
         f"{end(curve, 'objective'):.4f}")
        for name in names
        for rho, curve in results[f"{name}/admm"]["published"].items()
    ]  # fmt: skip
    return Table(
        "beside Figs. 1(a) and 2(a)",
        "The published iteration with other rho",
        "rho of the summed loss. Where rho is small it swings, or diverges: a run may end low and have been far off on "
        "the way.",
        ("data", "rho", "test log loss after 10", "after 20", "at the end", "training objective at the end"),
        rows,
    )


def column_space_table(results: Results) -> Table:
    """How often the column space gives the data away."""
    found = results["theory/column-space"]
    names = {
        INVERSE: "sigma^2 (D'D)^-1, eq. (16)",
        COEFFICIENTS: "sigma^2 I on the coefficients",
        "isotropic": "on the share itself (sound)",
    }
    rows = [
        (names[law], level, *(f"{100 * units[unit]['right']:.0f} %" for unit in ("column", "record")))
        for law, levels in found.items()
        for level, units in levels.items()
    ]
    trials = next(iter(next(iter(found[INVERSE].values())).values()))["trials"]
    return Table(
        "beside Theorem 3",
        "Which of two data sets was it? Right answers of an observer of one release",
        f"Party 2 of a9a, rows scaled to norm 1, {trials} trials each; the observer projects the release on both "
        "column spaces. 50 % is guessing. Noise on the share itself is sound, but worth little where it is small: its "
        "epsilon is in the tables above.",
        ("noise", "sigma", "one column differs", "one record differs"),
        rows,
    )


def lemma_table(results: Results) -> Table:
    """Lemma 1's bound and what moves."""
    rows = [
        (str(case["rows"]), str(case["columns"]), f"{case['rho']:g}", f"{case['ratio']:.1f}")
        for case in results["theory/lemma-1"]["cases"]
    ]
    return Table(
        "beside Lemma 1",
        "How far the share moves, in units of the lemma's C",
        "Random rows of norm 1, two parties, one column moved by a vector of norm 1 towards the residual. Above 1 the "
        "lemma is false.",
        ("rows", "columns", "rho", "moved / C"),
        rows,
    )


def composition_table(results: Results) -> Table:
    """Corollary 1's formula."""
    rows = [
        (f"{case['one']:g}", str(case["rounds"]), f"{case['said']:.3g}", f"{case['exact']:.3g}", "infinite")
        for case in results["theory/composition"]["cases"]
    ]
    return Table(
        "beside Corollary 1",
        "Epsilon of T rounds: the formula, the exact number if its premises were true, and the truth",
        "delta 1e-5 for the whole run, half of it for delta'.",
        ("epsilon of a round", "T", "Corollary 1", "exact, if Lemma 1 were true", "of the published noise"),
        rows,
    )


def label_table(results: Results) -> Table:
    """Labels from the dual."""
    rows = [
        (level, f"{100 * case['first']:.2f} %", f"{100 * case['all']:.2f} %", f"{100 * case['guess']:.2f} %")
        for level, case in results["theory/labels"].items()
    ]
    return Table(
        "beside Algorithm 1",
        "a9a: labels that a party reads off the dual variable it is sent",
        "The sign of each entry of y is minus the label of that row, whatever noise the parties add.",
        ("sigma, eq. (16)", "right after one round", "right after five", "the commoner label"),
        rows,
    )

"""The sharing paper as a paper that can be rerun: its tables, what its page shows, and all of it together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit_papers.paper import Figure, Paper, Section, Table
from tacit_papers.sharing import figures
from tacit_papers.sharing.claims import (
    at_epoch,
    at_hand,
    end,
    judge,
    label,
    mean,
    noisy_ends,
    numbers,
    published_epsilon,
    settled,
    sgd_curve,
    why_missing,
)
from tacit_papers.sharing.pieces import COEFFICIENTS, INVERSE, STAND_INS, pieces
from tacit_papers.work import Results

# --- the tables of the sharing paper's page ----------------------------------------------------------


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


# --- what the page of the sharing paper shows --------------------------------------------------------

SIZE, WIDE = (7.2, 3.6), (8.6, 4.4)
CHOSEN = (
    "Not printed in any version of the paper, and chosen here: lambda = 1e-4 N, rho = M/4 (both of the summed loss), "
    "SGD's batches and steps, the levels of the noise."
)


def sections(results: Results) -> Sequence[Section]:
    """All sections; those whose data are not at hand say so."""
    narrow = at_hand(results, ["a9a"])
    wide = at_hand(results, ["gisette", *STAND_INS])
    parts = [_about(results)]
    parts.append(_a9a(results) if narrow else _absent("Fig. 1 and Fig. 3(a): a9a", results, "a9a/reference"))
    parts.append(_wide(results, wide) if wide else _absent("Fig. 2 and Fig. 3(b)", results, "mnist49/reference"))
    parts.append(_convergence(results))
    parts.append(_privacy(results))
    return parts


def _absent(title: str, results: Results, name: str) -> Section:
    return Section(title, (f"Not rerun: {why_missing(results, name) or 'a part of its data is not at hand'}.",))


def _about(results: Results) -> Section:
    lost = why_missing(results, "gisette/reference")
    words = [
        "Parties hold different columns of the same rows and train one logistic regression. The published iteration "
        "sends one number per row and round; here it is run by the package's own parties and coordinator, beside the "
        "averaged form, our default method and the SGD that the paper compares with.",
        CHOSEN + " Tables below show what other values do.",
        "The paper's figures are pictures without printed numbers: what is checked is what its text says of them.",
    ]
    if lost:
        words.append(
            f"gisette was not at hand ({lost.rstrip('.')}). mnist49 and basehock stand in for it, their columns "
            "dealt out in the same proportion 2:2:1; whatever is drawn on them is labelled as a stand-in, and the two "
            "numbers that the paper prints of gisette cannot be checked on them."
        )
    return Section("What is rerun", words)


def _a9a(results: Results) -> Section:
    found = results["a9a/reference"]
    size = f"{found['rows']} training rows, {found['test_rows']} test rows, columns 66 | 57"
    shown = (
        _figure("fig-1a", "Fig. 1(a)", "a9a: loss by epoch", f"{size}. {CHOSEN} The first epoch of the published "
                "iteration stays at zero, as its equations do.", figures.draw_epochs(results, "a9a"), WIDE),
        _figure("fig-1b", "Fig. 1(b)", "a9a: test log loss under different levels of noise", "Noise of eq. (16), mean "
                "over the seeds. It has no proven epsilon at any level.", figures.draw_noise(results, "a9a")),
        _figure("fig-3a", "Fig. 3(a)", "a9a: test log loss by level of noise", "After 20 epochs; band: least and "
                "largest over the seeds.", figures.draw_levels(results, "a9a")),
    )  # fmt: skip
    own = [noise_table(results, "a9a", "Fig. 3(a)"), law_table(results)]
    if not why_missing(results, "a9a/sensitivity"):
        own.append(sensitivity_table(results))
    return Section("Fig. 1 and Fig. 3(a): a9a", (), shown, own)


def _wide(results: Results, names: Sequence[str]) -> Section:
    shown: list[Figure] = []
    for name in names:
        found, title = results[f"{name}/reference"], label(name)
        columns = " | ".join(str(count) for count in found["columns"])
        size = f"{found['rows']} training rows, {found['test_rows']} test rows, columns {columns}"
        shown += [
            _figure(f"fig-2a-{name}", "Fig. 2(a)", f"{title}: loss by epoch", f"{size}. {CHOSEN}",
                    figures.draw_epochs(results, name), WIDE),
            _figure(f"fig-2b-{name}", "Fig. 2(b)", f"{title}: test log loss under different levels of noise",
                    "Noise of eq. (16). It has no proven epsilon at any level.", figures.draw_noise(results, name)),
            _figure(f"fig-3b-{name}", "Fig. 3(b)", f"{title}: test log loss by level of noise", "After 20 epochs.",
                    figures.draw_levels(results, name)),
        ]  # fmt: skip
    own = [noise_table(results, name, "Fig. 3(b)") for name in names]
    sets = [*at_hand(results, ["a9a"]), *names]
    words = (
        "At one lambda, ADMM and scikit-learn minimise the same strictly convex objective: they have the same "
        "minimiser, and ADMM can be better on test rows only where it ends early or where lambda differs, as it does "
        "from scikit-learn's default.",
        "Speed depends on rho and on SGD's steps, which the paper does not print. ADMM and SGD are compared, each at "
        "the value of a grid that has the least training objective by then; test rows choose nothing.",
    )
    return Section(
        "Fig. 2 and Fig. 3(b): wide data",
        words,
        shown,
        [*own, rho_table(results, sets), step_table(results, sets)],
    )


def _convergence(results: Results) -> Section:
    shown = [
        _figure("theorem-1", "beside Theorems 1 and 2", "The published iteration where Assumption 1 holds",
                "Every party holds the same single column of norm 1; full column rank, (b) and (c) of Assumption 1 "
                "hold in all three cases, and V must go to 0 by Theorem 2.", figures.draw_same_columns(results)),
    ]  # fmt: skip
    if not why_missing(results, "a9a/many-parties", "a9a/admm", "a9a/reference"):
        shown.append(
            _figure("theorem-1-rho", "beside Theorem 1", "a9a: where the iteration ends, by rho and number of parties",
                    "The published form diverges where rho is small, the sooner the more parties there are; the "
                    "averaged form converges for every rho.", figures.draw_rho(results))
        )  # fmt: skip
    words = (
        "Every party corrects the whole residual at once. Where M parties hold the same column and the loss has "
        "curvature L, the iteration is a linear recursion with an eigenvalue below -1 as soon as rho < L (3M - 4)/2. "
        "Assumption 1 does not ask for more with more parties; its proof loses a factor rho between Lemmas 3 and 4.",
    )
    return Section("Theorems 1 and 2: convergence", words, shown)


def _privacy(results: Results) -> Section:
    own = [lemma_table(results), composition_table(results)]
    if not why_missing(results, "theory/column-space", "theory/labels"):
        own = [column_space_table(results), *own, label_table(results)]
    words = (
        "The published noise is put on the coefficients, so that every release lies in the column space of the data: "
        "two data sets with other column spaces give releases that are never confused, whatever the noise. Epsilon is "
        "infinite for one round, and no composition repairs it. The proofs are in docs/proofs/published.md.",
        "Its unit is a column, not a person or a record; its sensitivity bound is false; and every party reads all "
        "labels off the dual variable.",
    )
    return Section("Lemma 1, Theorem 3 and Corollary 1: privacy", words, (), own)


def _figure(
    slug: str, number: str, title: str, caption: str, draw: figures.Draw, size: tuple[float, float] = SIZE
) -> Figure:
    return Figure(slug, number, title, caption, draw, size)


# --- the sharing paper as a paper that can be rerun --------------------------------------------------

PAPER = Paper(
    name="sharing",
    title="Learning Privately over Distributed Features: An ADMM Sharing Approach",
    authors="Y. Hu, P. Liu, L. Kong, D. Niu",
    summary=(
        "Features are split between parties that train one model by sharing ADMM: each sends one number per row and "
        "round. Gaussian noise on what is sent is to make it differentially private. It is compared with stochastic "
        "gradient descent on a9a and gisette."
    ),
    pieces=pieces,
    sections=sections,
    judge=judge,
)

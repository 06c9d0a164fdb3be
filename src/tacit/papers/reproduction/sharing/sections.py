"""What the page of the sharing paper shows."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.papers.reproduction.page_parts import Figure, Section
from tacit.papers.reproduction.sharing import figures, tables
from tacit.papers.reproduction.sharing.claims_measures import at_hand, label, why_missing
from tacit.papers.reproduction.sharing.pieces import STAND_INS
from tacit.papers.reproduction.work import Results

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
    own = [tables.noise_table(results, "a9a", "Fig. 3(a)"), tables.law_table(results)]
    if not why_missing(results, "a9a/sensitivity"):
        own.append(tables.sensitivity_table(results))
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
    own = [tables.noise_table(results, name, "Fig. 3(b)") for name in names]
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
        [*own, tables.rho_table(results, sets), tables.step_table(results, sets)],
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
    own = [tables.lemma_table(results), tables.composition_table(results)]
    if not why_missing(results, "theory/column-space", "theory/labels"):
        own = [tables.column_space_table(results), *own, tables.label_table(results)]
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

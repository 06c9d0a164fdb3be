"""Private learning over ten nodes on five sets, nothing tuned, against noisy gradient descent tuned on the data.

Both spend (epsilon, 1e-5) on a row over the whole run (replace-one), every node adds its own noise, and both scale
rows down to the same public norm, in training and when asked. The rival is given what nobody has in earnest: for each
set and epsilon the steps, the rate and the kind of averaging with the least mean loss on the *test* rows, and the
choice is not paid for. Its figures do not depend on who holds which rows. Adult has its published test part; of the
other sets 70 % of all rows are for training, drawn anew with every seed, the same rows for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.noisy_gradient import Descent, clipped
from bench.progress import say
from bench.row import Row
from bench.sets import Set, adult, raetsch
from tacit import HorizontalClassifier, Privacy
from tacit.types import Matrix, Vector

TITLE = "Private learning over ten nodes, one row replaced, delta 1e-5: nothing tuned against tuned noisy gradients"
NODES, DELTA = 10, 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SEEDS = 10
STEPS, RATES = (10, 30, 100), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
CONSTANT = 0.3  # the rival's column for the intercept, beside rows of norm 1
SORTED = 0.8  # of the rows, where labels are skewed
LEVEL = 2.0  # standard errors within which two means count as level
SPREADS = ("even", "skewed labels", "sizes 1:20")
BETTER, SAME, WORSE = "better", "level", "NOT AS GOOD"


@dataclass(frozen=True, eq=False)
class Measured:
    """Test log loss and accuracy, one row for each seed."""

    scores: Vector

    def mean(self, which: int) -> float:
        """Mean of the losses (0) or accuracies (1)."""
        return float(self.scores[:, which].mean())


@dataclass(frozen=True)
class Judged(Row):
    """A row with what it says of log loss and of accuracy."""

    verdicts: tuple[str, str] = (SAME, SAME)


def run(quick: bool = False) -> list[Row]:
    """Every set in an even split at every epsilon; skewed labels and unequal sizes at epsilon 1."""
    rows: list[Row] = []
    for found in _sets(quick):
        if found.missing:
            text = "skipped: its files are in no folder named by the variable TACIT_DATA; generated rows instead"
            rows.append(Row(f"{found.name} itself", text))
        for epsilon in (1.0,) if quick else EPSILONS:
            rows += _rows(found, epsilon, 2 if quick else SEEDS, quick)
    return [*rows, _count(rows)]


def _sets(quick: bool) -> Iterator[Set]:
    if not quick:
        yield adult()
    for name in ("german",) if quick else ("german", "waveform", "image", "twonorm"):
        yield raetsch(name)


def _rows(found: Set, epsilon: float, seeds: int, quick: bool) -> Iterator[Judged]:
    say(f"{found.name}, epsilon {epsilon:g}, the rival")
    rival, how = _tuned(found, epsilon, seeds, STEPS[:2] if quick else STEPS)
    for spread in SPREADS if epsilon == 1.0 else SPREADS[:1]:
        say(f"{found.name}, epsilon {epsilon:g}, {spread}")
        own = Measured(np.array([_own(found, epsilon, spread, seed) for seed in range(seeds)]))
        yield _row(f"{found.name}, {spread}, epsilon {epsilon:g}", own, rival, how)


def _row(name: str, own: Measured, rival: Measured, how: str) -> Judged:
    loss, accuracy = verdict(own, rival, 0), verdict(own, rival, 1)
    ratio, more = own.mean(0) / rival.mean(0), own.mean(1) - rival.mean(1)
    shown = (
        f"log loss {own.mean(0):.4f} against {rival.mean(0):.4f} (ratio {ratio:.3f}): {loss}; "
        f"accuracy {own.mean(1):.4f} against {rival.mean(1):.4f} ({more:+.4f}): {accuracy}; {how}"
    )
    return Judged(name, shown, own.mean(0), verdicts=(loss, accuracy))


def verdict(own: Measured, rival: Measured, which: int) -> str:
    """Whether the mean is better than the rival's, by more than chance between seeds."""
    gain = (rival.scores - own.scores)[:, which] * (1 if which == 0 else -1)
    error = float(gain.std(ddof=1)) / math.sqrt(len(gain))
    if abs(gain.mean()) <= LEVEL * error:
        return SAME
    return BETTER if gain.mean() > 0 else WORSE


def _count(rows: list[Row]) -> Row:
    """How often ours was better, and where it was not as good."""
    judged = [row for row in rows if isinstance(row, Judged)]
    told = []
    for which, name in enumerate(("log loss", "accuracy")):
        found = [row.verdicts[which] for row in judged]
        worse = [row.name for row in judged if row.verdicts[which] == WORSE]
        counts = ", ".join(f"{word} in {found.count(word)}" for word in (BETTER, SAME, WORSE))
        told.append(f"{name}: {counts}" + (f" ({'; '.join(worse)})" if worse else ""))
    return Row(f"all {len(judged)} settings", "; ".join(told))


# --- both methods --------------------------------------------------------------------------------------


def _own(found: Set, epsilon: float, spread: str, seed: int) -> tuple[float, float]:
    """Ours, as it comes."""
    X, y, X_test, y_test = found.split(seed)
    parts = held(y, spread, seed)
    privacy = Privacy(epsilon=epsilon, delta=DELTA, row_norm=found.row_norm, noise_seed=seed)
    model = HorizontalClassifier(penalty="none", privacy=privacy, random_state=seed)
    model.fit([X[part] for part in parts], [y[part] for part in parts])
    # as in training, and as the rival's: longer rows are scaled down
    short = clipped(X_test / found.row_norm) * found.row_norm
    return _scores(model.decision_function(short), y_test)


def held(y: Vector, spread: str, seed: int) -> list[Vector]:
    """Which rows each node has."""
    order = np.random.default_rng(seed).permutation(len(y))
    if spread == "skewed labels":
        cut = round(SORTED * len(y))
        chosen = order[:cut]
        mixed = np.concatenate([chosen[np.argsort(y[chosen], kind="stable")], order[cut:]])
        # the rows left in random order are dealt out evenly between the sorted ones
        places = np.concatenate([np.linspace(0, 1, cut), np.linspace(0, 1, len(y) - cut)])
        order = mixed[np.argsort(places, kind="stable")]
    share = np.linspace(1, 20, NODES) if spread == "sizes 1:20" else np.ones(NODES)
    ends = np.round(np.cumsum(share) / share.sum() * len(y)).astype(int)
    return np.split(order, ends[:-1])


def _tuned(found: Set, epsilon: float, seeds: int, steps: tuple[int, ...]) -> tuple[Measured, str]:
    """The rival with the settings that have the least mean loss on the test rows."""
    tried = {count: np.array([_descents(found, epsilon, count, seed) for seed in range(seeds)]) for count in steps}
    cells = [
        (float(all_[:, kind, rate, 0].mean()), count, kind, rate)
        for count, all_ in tried.items()
        for kind in range(2)
        for rate in range(len(RATES))
    ]
    _, count, kind, rate = min(cells)
    how = f"rival: {count} steps of {RATES[rate]:g}, {('last', 'half averaged')[kind]}"
    return Measured(tried[count][:, kind, rate]), how


def _descents(found: Set, epsilon: float, steps: int, seed: int) -> Vector:
    """Loss and accuracy of noisy gradient descent by averaging and rate, all rates at once with the same noise."""
    X, y, X_test, y_test = found.split(seed)
    rows, test = with_constant(X, found.row_norm), with_constant(X_test, found.row_norm)
    sd = Descent(epsilon, DELTA, NODES, steps, 1.0).sd * math.sqrt(NODES)  # of the sum of all nodes' noises
    rng, rates = np.random.default_rng(seed), np.array(RATES)
    coef = np.zeros((rows.shape[1], rates.size))
    mean = np.zeros_like(coef)
    for step in range(1, steps + 1):
        margins = y[:, None] * (rows @ coef)
        total = -(rows.T @ (y[:, None] / (1.0 + np.exp(np.minimum(margins, 500.0)))))
        noise = sd * rng.standard_normal(coef.shape[0])
        coef = coef - rates / len(y) * (total + noise[:, None])
        if step > steps // 2:
            mean += (coef - mean) / (step - steps // 2)
    return np.array([[_scores(column, y_test) for column in (test @ kind).T] for kind in (coef, mean)])


def with_constant(X: Matrix, row_norm: float) -> Matrix:
    """Rows scaled down to the public norm, with a constant beside them; none is longer than 1."""
    from scipy import sparse

    short = clipped(X / row_norm)
    ones = np.full((X.shape[0], 1), CONSTANT)
    both = sparse.hstack([short, ones], format="csr") if sparse.issparse(short) else np.hstack([short, ones])
    return both / math.sqrt(1.0 + CONSTANT**2)


def _scores(scores: Vector, y: Vector) -> tuple[float, float]:
    return float(np.logaddexp(0.0, -y * scores).mean()), float(np.mean(np.sign(scores) == y))

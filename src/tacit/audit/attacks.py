"""What an insider can read off what is sent and served: column spaces, coefficients, labels, rows, cells.

**Column spaces.** Two attacks on the sharing paper's noise: by the column space of its releases, and on its sensitivity
bound.

What is released is D (x + xi), a vector in the column space of D whatever the noise xi is. Whoever knows two versions
of the data projects the releases on both column spaces: on the true one nothing is left over, on the other something
nearly always is. Proofs: docs/proofs/published.md, sections 2 and 3.

**Coefficients** from the scores that a party serves (model extraction).

A score is linear in the row, s = row . x - offset, for rows that are not clipped: d + 1 rows in general position, asked
one by one, give x and the offset exactly. Where the rows of a private fit are clipped around a centre, rows near that
centre stay as they are, and the same holds. Whether this breaks a claim depends on what x is: the private outcome of a
mechanism may be published, an exact fit may not.

**Labels** from what the coordinator sends to every party.

| symbol | meaning |
|---|---|
| u | the scaled dual: a positive multiple of the loss derivative at z, row by row |
| q | a - zbar + u, the combined vector of averaged sharing ADMM |
| r | over-relaxation of a round, which is sent with q |

A loss that strictly falls with the margin y z has a derivative of the sign of -y: whoever sees u, or the derivative
itself, reads off every label. The combined q hides nothing: with w/M - a = v at the start of a round, q = 2u - v, where
v = u - (1 - r)(q - u) of the round before (0 at the start, mixed as the round's starts are where it is accelerated).
Without relaxation this is u_t = (q_t + u_{t-1})/2. Proof: docs/proofs/audit.md, section 4.

**Rows** from shares without noise.

| symbol | meaning |
|---|---|
| D | the party's rows, n x d |
| S | the shares s_t = D x_t of T rounds, n x T; x_t is the party's own secret |
| A | a d x d matrix that nobody but the party knows |

S = D X with X = (x_1 .. x_T). Where X has rank d, the columns of S span those of D, and nothing else is fixed: every
D A with A invertible explains the same S. So shares alone give the column space of D, and with it the answer to every
question of the form "is this vector a combination of your columns?". Whoever also knows d rows in general position,
say their own and a few friends' records, solves for A and has all the other rows exactly; so does whoever knows X.

**Cells** from what a party's trees add to each row. Each answer splits the rows by the party's columns, and finer in
each round. Whoever knows the cells of some rows learns from these which answers belong to which cells, and guesses
the others: how well is measured, against guesses by what it knows anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy import linalg, sparse
from scipy.linalg import subspace_angles, svd
from threadpoolctl import threadpool_limits

from tacit.audit.game import CONFIDENCE as STATED
from tacit.audit.game import interval, share_line
from tacit.errors import InputError
from tacit.mechanisms.published import lemma1_bound
from tacit.types import Arrays, Matrix, Vector

# --- What one attack found, beside what was claimed


NEIGHBOURS = "neighbours: every byte that leaves"  # the name of the replay on neighbouring data sets
NO_VIOLATION, BROKEN, AS_STATED = "no violation found", "broken", "as stated"
AT_95, AT_999 = f"{NO_VIOLATION} at 95 %", f"{NO_VIOLATION} at 99.9 %"  # of what is measured, and has an error
NOT_TRIED = "not tried"
VERDICTS = (NO_VIOLATION, AT_95, AT_999, AS_STATED, NOT_TRIED, BROKEN)


@dataclass(frozen=True)
class AttackResult:
    """One line of an audit.

    Attributes
    ----------
    name : str
        What was tried.
    claimed, found : str
        What the certificate says of it, and what came out.
    verdict : str
        "no violation found", with the confidence of a measurement: the claim withstood this attempt, which proves
        nothing. "broken": it did not. "as stated": the attack succeeds, and the certificate itself says that this is
        not covered. "not tried": this job cannot be attacked so.
    details : mapping
        The numbers behind it, as plain values.
    """

    name: str
    claimed: str
    found: str
    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict={self.verdict!r} is unknown: choose one of {', '.join(VERDICTS)}")

    def record(self) -> dict[str, Any]:
        """The line as the audit's JSON file holds it."""
        return {
            "attack": self.name,
            "claimed": self.claimed,
            "found": self.found,
            "verdict": self.verdict,
            "details": dict(self.details),
        }


def judged(succeeded: bool, *, covered: bool) -> str:
    """The verdict on an attack, where the certificate covers what it aims at, or says that it does not."""
    if not succeeded:
        return NO_VIOLATION
    return BROKEN if covered else AS_STATED


# --- Two attacks on the sharing paper's noise: by the column space of its releases, and on its sensitivity bound


ROUNDING = 1e-9  # a part of the release that is left over and smaller than this is rounding
APART = 100.0  # the other version must leave over this many times more


@dataclass(frozen=True)
class ColumnSpaceVerdict:
    """Which of two versions of the data the releases were made from.

    Attributes
    ----------
    chosen : int
        0 for the first version, 1 for the second: that which leaves less over.
    residuals : tuple of float
        Norm of what each version leaves over, as a part of the norm of the releases.
    certain : bool
        Whether one version leaves over nothing but rounding, and the other clearly more.
    """

    chosen: int
    residuals: tuple[float, float]
    certain: bool


def column_space_attack(released: npt.ArrayLike, first: Matrix, second: Matrix) -> ColumnSpaceVerdict:
    """Tell by the releases alone which version of a party's data they were made from.

    Parameters
    ----------
    released : array of shape (rounds, rows) or (rows,)
        The vectors that one party sent.
    first, second : matrix of shape (rows, columns)
        Both versions, as the mechanism multiplies them (rows already scaled to their norm), with fewer columns than
        rows: else both column spaces may be everything, and nothing is certain.

    Raises
    ------
    InputError
        Where the numbers of rows differ.
    """
    shares = np.atleast_2d(np.asarray(released, dtype=np.float64)).T
    for version in (first, second):
        if version.shape[0] != shares.shape[0]:
            raise InputError(
                f"released has {shares.shape[0]} rows and the data have {version.shape[0]}: give vectors of one party"
            )
    left = (_left_over(shares, first), _left_over(shares, second))
    low, high = min(left), max(left)
    return ColumnSpaceVerdict(int(left[1] < left[0]), left, low <= ROUNDING and high > APART * max(low, ROUNDING))


def _left_over(shares: Vector, features: Matrix) -> float:
    """Relative norm of the shares off the column space; projected twice, so that rounding stays small."""
    dense = features.toarray() if sparse.issparse(features) else np.asarray(features)
    basis = linalg.orth(dense.astype(np.float64))
    size = float(np.linalg.norm(shares))
    for _ in range(2):
        shares = shares - basis @ (basis.T @ shares)
    return float(np.linalg.norm(shares)) / size if size > 0 else 0.0


@dataclass(frozen=True)
class SensitivityCheck:
    """Lemma 1's bound on how far a share can move, against how far it moved.

    Attributes
    ----------
    claimed : float
        C, with the smallest b1 that Assumption 2.1 allows here (or the one that was given).
    moved : float
        Norm of the change of D x.
    """

    claimed: float
    moved: float

    @property
    def ratio(self) -> float:
        """How many times the claim the change is; the lemma is refuted above 1."""
        return self.moved / self.claimed


def check_lemma1(
    features: Matrix,
    neighbour: Matrix,
    *,
    others: Vector,
    z: Vector,
    dual: Vector,
    rho: float,
    weight: float,
    blocks: int,
    bound: float = 0.0,
) -> SensitivityCheck:
    """Evaluate Lemma 1 on two versions of a party's data that differ in one column, for R = ||x||^2 / 2.

    Parameters
    ----------
    features, neighbour : matrix of shape (rows, columns)
    others : vector
        Sum of the other parties' shares.
    z, dual : vector
        What the central node sends.
    rho, weight : float
        Penalty and lambda of the summed loss.
    blocks : int
        M, the number of parties.
    bound : float
        b1, where it must be larger than the norms of x, x', y and z (for the other parties' coefficients).
    """
    target = z - others - dual / rho
    x, moved_x = (_update(version, target, weight / rho) for version in (features, neighbour))
    largest = max(bound, *(float(np.linalg.norm(v)) for v in (x, moved_x, dual, z)))
    claimed = lemma1_bound(features.shape[1], rho, weight, 1.0, blocks, largest)
    return SensitivityCheck(claimed, float(np.linalg.norm(neighbour @ moved_x - features @ x)))


def towards_residual(features: Matrix, target: Vector, ridge: float, column: int = 0) -> Vector:
    """The data with one column moved, by a vector of norm 1, towards what the x-update leaves of its target."""
    moved = np.array(features, dtype=np.float64)
    rest = target - moved @ _update(moved, target, ridge)
    moved[:, column] += rest / float(np.linalg.norm(rest))
    return moved


def _update(features: Matrix, target: Vector, ridge: float) -> Vector:
    """The x-update: argmin ridge/2 ||x||^2 + 1/2 ||D x - target||^2."""
    gram = np.asarray(features.T @ features) + ridge * np.eye(features.shape[1])
    return np.asarray(linalg.solve(gram, features.T @ target, assume_a="pos"))


# --- Model extraction: a party's coefficients from the scores that it serves


SAME_COEFFICIENT = 1e-6


def chosen_rows(columns: int, size: float = 1.0, centre: Vector | None = None) -> Vector:
    """The rows to ask about: the centre, and one step from it along each column."""
    steps = np.vstack([np.zeros(columns), size * np.eye(columns)])
    return steps if centre is None else np.asarray(steps + centre)


def coefficients_from_scores(rows: Vector, scores: Vector) -> tuple[Vector, float]:
    """Coefficients and constant by least squares."""
    design = np.column_stack([rows, np.ones(len(rows))])
    solution, *_ = np.linalg.lstsq(design, scores, rcond=None)
    return np.asarray(solution[:-1]), float(solution[-1])


def extract(
    serve: Callable[[Vector], Vector], coef: Vector, *, party: str, private: bool, claimed: bool, rows: Vector
) -> AttackResult:
    """Ask for d + 1 scores, solve for the coefficients, and judge by what they are.

    Parameters
    ----------
    serve : callable
        Rows to scores: what whoever may ask gets to see.
    coef : Vector
        The coefficients behind the scores, to compare.
    party : str
        Whose they are.
    private : bool
        Whether the coefficients are computed from proven releases alone, and may be published.
    claimed : bool
        Whether the certificate covers them: False where it says that predictions are not covered, or claims nothing.
    rows : Vector
        What to ask, see `chosen_rows`.
    """
    found, _ = coefficients_from_scores(rows, serve(rows))
    error = float(np.linalg.norm(found - coef) / max(float(np.linalg.norm(coef)), 1e-300))
    exact = error < SAME_COEFFICIENT
    text = f"{'exact' if exact else 'not exact'}, from {len(rows)} predictions"
    text += "; a private output" if exact and private else "; NOT private" if exact else ""
    details = {"party": party, "predictions": len(rows), "relative_error": error, "private_output": private}
    verdict = NO_VIOLATION if private or not exact else judged(True, covered=claimed)
    claim = "the model is private" if claimed else "not covered"
    return AttackResult(f"model of {party} from predictions", claim, text, verdict, details)


# --- Labels from what the coordinator sends to every party


NAME = "labels from what is sent"
CONFIDENCE = 0.999  # with which a claim must be refuted before it is called broken


def labels_from_dual(dual: Vector) -> Vector:
    """Labels -1 and +1 from the loss derivative of each row; 0 where it is 0 and says nothing."""
    return np.asarray(-np.sign(dual), dtype=np.float64)


def duals_from_combined(inboxes: Sequence[Arrays]) -> list[Vector]:
    """The scaled dual of each round from the broadcasts of averaged (or published) sharing ADMM.

    Ends before the first round in which rho changes: from there on the coordinator's state is no longer linear in what
    it sent.
    """
    duals: list[Vector] = []
    kept: dict[int, Vector] = {}
    rho = None
    for inbox in inboxes:
        now, relaxation, slot = (*(float(value) for value in inbox["control"][:3]), 1.0, 0.0)[:3]
        if rho is not None and now != rho:
            break
        rho, q = now, inbox["q"]
        mixture = inbox.get("mixture", np.ones(min(len(kept), 1)))  # without acceleration, the round before
        start = sum((weight * kept[j] for j, weight in enumerate(mixture) if weight), np.zeros_like(q))
        dual = (q + start) / 2
        kept[int(slot)] = dual - (1 - relaxation) * (q - dual)
        duals.append(dual)
    return duals


def largest(duals: Sequence[Vector]) -> Vector:
    """Each row's dual of the round in which it is largest: where a row fits well, its dual is lost in rounding."""
    stacked = np.stack(duals)
    return np.asarray(np.take_along_axis(stacked, np.abs(stacked).argmax(axis=0)[None], axis=0)[0])


def count(guesses: Vector, truth: Vector) -> int:
    """Right guesses; one of 0 is a coin's, so that half of these count."""
    return int(np.sum(guesses == truth) + np.sum(guesses == 0) // 2)


def judge_labels(guesses: Vector, truth: Vector, allowed: float | None, source: str) -> AttackResult:
    """Compare recovered labels with what a certificate allows.

    Parameters
    ----------
    guesses, truth : array
        -1 and +1; a guess may be 0. The true labels must be fair coins, independent of everything else: otherwise who
        knows the rows guesses labels without any leak.
    allowed : float or None
        Largest probability with which an observer may tell two equally likely labels apart: for randomized labels
        e^epsilon / (1 + e^epsilon). None where nothing is claimed.
    source : str
        Where the guesses came from.
    """
    right, rows = count(guesses, truth), truth.size
    low, high = interval(right, rows)
    details: dict[str, object] = {"right": right, "rows": rows, "rate": right / rows, "source": source}
    details |= {"interval": [low, high]}
    text = f"{share_line(right / rows, low, high)} of {rows} labels right, from {source}"
    if allowed is None:
        better = scipy.stats.binom.sf(right - 1, rows, 0.5) < 1 - CONFIDENCE
        return AttackResult(NAME, "not covered", text, AS_STATED if better else AT_999, details)
    chance = float(scipy.stats.binom.sf(right - 1, rows, allowed))
    details |= {"allowed": allowed, "chance": chance, "confidence": CONFIDENCE}
    verdict = BROKEN if chance < 1 - CONFIDENCE else AT_95 if chance >= 1 - STATED else AT_999
    return AttackResult(NAME, at_most(allowed), text, verdict, details)


def at_most(allowed: float) -> str:
    """A claim on guessed labels: a rate in the long run, which a sample may exceed by chance."""
    return f"{100 * allowed:.1f} % right at most, in the long run"


def seen_by_a_party(inboxes: Sequence[Arrays]) -> tuple[Vector, str] | None:
    """Guesses of all labels from what a party was told, by whichever array gives them away; None where none does."""
    first = inboxes[0] if inboxes else {}
    if "labels" in first:
        return np.asarray(np.sign(first["labels"])), "the labels as they are sent"
    if "symbols" in first:
        return _from_symbols(first["symbols"]), "the randomized symbols"
    if "q" in first:
        return labels_from_dual(duals_from_combined(inboxes[:1])[0]), "the combined vector q of round 1"
    duals = [inbox["dual"] for inbox in inboxes if "dual" in inbox]
    if duals:
        return labels_from_dual(largest(duals)), f"the dual of {len(duals)} rounds"
    if "residual" in first:
        return labels_from_dual(first["residual"]), "the residual of round 1"
    return None


def _from_symbols(symbols: Vector) -> Vector:
    """Symbols -1 and +1 are signs of residuals, which oppose the label; others are 2 level + (label is positive)."""
    if np.all(np.abs(symbols) == 1) and np.any(symbols < 0):
        return np.asarray(-symbols)
    return np.where(symbols % 2 > 0, 1.0, -1.0)


# --- A party's rows from shares without noise


SEEN = 1e-7  # singular values below this part of the largest are rounding
TINY = 1e-9  # shares below this part of the largest are rounding
SAME = 1e-4


@dataclass(frozen=True)
class RowRecovery:
    """What shares gave away.

    Attributes
    ----------
    rank : int
        Dimensions of the column space that were seen.
    angle : float
        Largest principal angle, in radians, between what was seen and the true column space (pi/2 where some of it is
        missing).
    error : float
        Relative error of the unknown rows, given as many known rows as there are dimensions; NaN without.
    """

    rank: int
    angle: float
    error: float


def column_space(shares: Vector) -> Vector:
    """An orthonormal basis of what the shares span, n x rank."""
    sizes = np.linalg.norm(shares, axis=0)
    large = sizes > TINY * sizes.max(initial=0.0)
    left, values, _ = svd(shares[:, large] / sizes[large], full_matrices=False)
    rank = int(np.sum(values > SEEN * values[0])) if values.size and values[0] > 0 else 0
    return np.asarray(left[:, :rank])


def complete_rows(basis: Vector, known: Vector) -> Vector:
    """All rows, from the column space and the first ones, which are `known`."""
    solution, *_ = np.linalg.lstsq(basis[: len(known)], known, rcond=None)
    return np.asarray(basis @ solution)


def recover(shares: Vector, rows: Vector) -> RowRecovery:
    """Attack the shares, n x T, and compare with the true rows, n x d; as many as there are dimensions are known."""
    basis = column_space(shares)
    rank, columns = basis.shape[1], int(np.linalg.matrix_rank(rows))
    angle = math.pi / 2
    if rank > 0:
        angles = subspace_angles(basis, column_space(rows))
        angle = float(angles.max()) if rank >= columns else math.pi / 2
    error = math.nan
    if 0 < rank < len(rows):
        found = complete_rows(basis, rows[:rank])
        error = float(np.linalg.norm(found[rank:] - rows[rank:]) / np.linalg.norm(rows[rank:]))
    return RowRecovery(rank, angle, error)


def judge_rows(
    found: RowRecovery, rounds: int, columns: int, party: str, *, covered: bool, masked: bool = False
) -> AttackResult:
    """The attack as a line of an audit."""
    space, rows = found.angle < SAME, found.error < SAME
    if rows:
        text = f"all rows exactly, given {found.rank} of them ({rounds} rounds of shares)"
    elif space:
        text = f"the column space ({rounds} rounds of shares)"
    else:
        text = f"neither rows nor column space, from {rounds} vector{'s' * (rounds > 1)} of shares"
        text += "" if math.isnan(found.error) else f"; guessed rows wrong by {100 * min(found.error, 9.99):.0f} %"
    claimed = "only sums can be read" if masked else "covered" if covered else "not covered"
    details = {"rank": found.rank, "angle": found.angle, "error": found.error, "rounds": rounds, "columns": columns}
    return AttackResult(
        f"rows of {party} from its shares", claimed, text, judged(space or rows, covered=covered), details
    )


# --- Cells of a party from what its trees add to each row


SURE = 3.0  # standard errors by which answers must lower the loss of guesses
MOST_KNOWN, MOST_GUESSED = 5_000, 20_000  # rows, of many
LEAST_KNOWN = 20


def known_rows(rows: int, part: float, rng: np.random.Generator) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Rows whose cells an attacker knows, a part of all; and rows whose cells it guesses, some of many."""
    order = rng.permutation(rows)
    count = round(part * rows)
    return order[:count][:MOST_KNOWN], order[count:][:MOST_GUESSED]


def guess_cells(
    name: str, cells: Vector, seen: tuple[Vector, Vector], rows: tuple[Any, Any], *, category: bool
) -> AttackResult:
    """Guess a column of another party from what is seen of each row, without its answers and with them.

    Parameters
    ----------
    name : str
        Of the attack.
    cells : array
        The column; NaN is a blank. Of a number the value is guessed, where it is not blank; of a category, or a number
        with two values, whether it is the commonest one.
    seen : (array, array)
        What the attacker sees of each row: without the answers, and with them.
    rows : (array of int, array of int)
        Whose cells it knows, and whose it guesses; see `known_rows`.
    category : bool
    """
    known, others = rows if category else tuple(part[np.isfinite(cells[part])] for part in rows)
    values, counts = np.unique(cells[known], return_counts=True, equal_nan=True)
    number = not category and len(values) > 2
    target = cells if number or not counts.size else (cells == values[counts.argmax()]).astype(np.float64)
    if len(known) < LEAST_KNOWN or any(np.ptp(target[part]) == 0 if len(part) else True for part in (known, others)):
        return AttackResult(name, "not covered", "too few rows, or cells that are all alike", NOT_TRIED)
    guesses = [_guessed(one, target, known, others, number=number) for one in seen]
    lost = [_losses_of(guess, target[others], number=number) for guess in guesses]
    gain = lost[0] - lost[1]
    surely = float(gain.mean()) > SURE * float(gain.std()) / math.sqrt(len(gain))
    measure, (before, after) = "R2" if number else "AUC", (_measured(g, target[others], number=number) for g in guesses)
    said = f"{measure} {before:.3f} from own columns and labels, {after:.3f} with the answers"
    details = {"measure": measure, "without_answers": before, "with_answers": after}
    details |= {"rows_known": len(known), "rows_guessed": len(others)}
    return AttackResult(name, "not covered", said, judged(surely, covered=False), details)


MANY_ROWS = 100_000  # fewer are guessed by one thread: several would wait for each other longer than they work


def _guessed(seen: Vector, target: Vector, known: Any, others: Any, *, number: bool) -> Vector:
    """Guesses for the other rows: values, or probabilities of the commonest one."""
    # Heavy, and no other attack needs it.
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    options = {"min_samples_leaf": int(np.clip(len(known) // 20, 3, 20)), "random_state": 0}
    with threadpool_limits(1 if len(target) < MANY_ROWS else None, user_api="openmp"):
        if number:
            values = HistGradientBoostingRegressor(**options).fit(seen[known], target[known])
            return np.asarray(values.predict(seen[others]))
        model = HistGradientBoostingClassifier(**options).fit(seen[known], target[known])
        return np.asarray(model.predict_proba(seen[others])[:, 1])


def _losses_of(guesses: Vector, truth: Vector, *, number: bool) -> Vector:
    """Squared errors, or the log loss of each probability."""
    if number:
        return np.asarray((guesses - truth) ** 2)
    return np.asarray(-np.log(np.clip(np.where(truth > 0, guesses, 1 - guesses), 1e-6, 1.0)))


def _measured(guesses: Vector, truth: Vector, *, number: bool) -> float:
    """R2 of values, the area under the curve of probabilities."""
    if number:
        return 1.0 - float(np.mean((guesses - truth) ** 2) / truth.var())
    ranks, positive = scipy.stats.rankdata(guesses), truth > 0
    count = int(positive.sum())
    return float(ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(truth) - count))

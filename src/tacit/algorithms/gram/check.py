"""Is the collaboration worth it? One noisy number of each party says how the joint model changes the loss.

After the fits, a protected party releases the sum over its rows of the clipped change in log loss that its score
makes, with noise of its own (gram.md, section 6). The estimate of the joint model's loss on new rows below is
computed from such sums and from what the label holder knows; it is an estimate, and no theorem.

| symbol | meaning |
|---|---|
| b | scores of the label holder, moved by the side columns |
| z | a party's damped score |
| q | probability with which a label was flipped |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.algorithms.gram.settings import LEAST_SPREAD, RADIUS, FitSettings
from tacit.types import Vector

ESTIMATED = "estimated from noisy sums"  # how a sentence begins that a measurement takes the place of
TARGET_SD = 0.005  # the clip is widened as long as the noise of the mean stays below this
CLIPS = (0.5, 2.0)  # least and largest clip of one row's change
OVERLAP, OVERLAP_SD = 0.4, 0.2  # of the most that several parties' scores can share, as seen on real data
SURE = 2.5  # standard deviations from zero before anything is said
SURE_TRACE = 5e-4  # noise of the trace over the rows, up to which the radius tells how long the rows are


@dataclass(frozen=True)
class Gain:
    """What the label holder gets alone, and by how much the joint model changes it, on new rows.

    Attributes
    ----------
    alone : float
        Log loss of the label holder's own model, by fits that did not see the row.
    change, sd : float
        Estimated change by the joint private model (negative is better), and its standard deviation.
    """

    alone: float
    change: float
    sd: float

    @property
    def verdict(self) -> str:
        """One of "worth it", "not worth it", "cannot be told"."""
        if abs(self.change) <= SURE * self.sd:
            return "cannot be told"
        return "worth it" if self.change < 0 else "not worth it"

    def sentence(self, holder: str, *, randomized: bool = False) -> str:
        """For people: an estimate, told as one; no verdict where both models were trained on randomized labels."""
        joint, either = self.alone + self.change, SURE * self.sd
        if randomized:
            return (
                f"{ESTIMATED}, log loss on new rows with randomized labels: {holder} alone on these {self.alone:.4f}, "
                f"joint private model {joint:.4f} +/- {either:.4f}; whether it beats {holder} alone with its true "
                "labels cannot be told from this"
            )
        said = f"{ESTIMATED}, log loss on new rows: {holder} alone {self.alone:.4f}"
        if either >= self.alone and self.verdict == "cannot be told":
            return f"{said}; that of the joint private model is lost in noise, so whether it helps cannot be told"
        said = f"{said}, joint private model {joint:.4f} +/- {either:.4f}"
        if self.verdict == "not worth it":
            return f"{said}: NOT worth it at this epsilon: {holder} alone is better"
        if self.verdict == "cannot be told":
            return f"{said}: the difference cannot be told from noise; more rows or a larger epsilon may tell"
        return f"{said}: worth it"


def check_clip(rows: int, mu: float, flip: float) -> float:
    """Clip of one row's change, from public numbers."""
    return min(max(TARGET_SD * (1 - 2 * flip) * mu * rows / 2, CLIPS[0]), CLIPS[1])


def row_changes(base: Vector, score: Vector, labels: Vector, clip: float, flip: float) -> Vector:
    """Clipped change of each row's log loss from b to b + z; unbiased over flips of the labels -1 and +1."""
    changes = _change(base, score, labels, clip)
    if flip == 0.0:
        return changes
    return np.asarray(((1 - flip) * changes - flip * _change(base, score, -labels, clip)) / (1 - 2 * flip))


def _change(base: Vector, score: Vector, labels: Vector, clip: float) -> Vector:
    after, before = np.logaddexp(0, -labels * (base + score)), np.logaddexp(0, -labels * base)
    return np.asarray(np.clip(after - before, -clip, clip))


@dataclass(frozen=True)
class Checked:
    """One party's part: its noisy mean change and that noise, the freedom of its fit, and its mean squared score."""

    change: float
    sd: float
    freedom: float
    spread: float


def estimate(alone: Vector, moved: Vector, parties: list[Checked], *, excess: float, damping: float) -> Gain:
    """The gain of the joint model.

    Parameters
    ----------
    alone, moved : Vector
        The label holder's loss of each row, by its own out-of-fold score, and by that score and the side columns.
    excess : float
        How much more a derivative varies than its curvature says (randomized labels).
    """
    rows, exact = alone.size, moved - alone
    overlap = 0.5 * (sum(math.sqrt(party.spread) for party in parties) ** 2 - sum(party.spread for party in parties))
    change = float(exact.mean()) + sum(party.change for party in parties) + OVERLAP * overlap
    change += damping * excess * sum(party.freedom for party in parties) / rows  # what a fit learns of its own rows
    variance = sum(party.sd**2 for party in parties) + (OVERLAP_SD * overlap) ** 2
    variance += (float(exact.var()) + excess * sum(party.spread for party in parties)) / rows
    return Gain(float(alone.mean()), change, math.sqrt(variance))


# --- row_norm ----------------------------------------------------------------------------------------


def is_short(radius: float, settings: FitSettings, rows: int) -> bool:
    """Whether the released radius is the least that a fit takes, and the noise was too small to make it so."""
    least = RADIUS * math.sqrt(LEAST_SPREAD) * settings.row_norm
    return radius <= least * (1 + 1e-9) and settings.trace_sd <= SURE_TRACE * rows


def large_norm(name: str, row_norm: float) -> str:
    """For people."""
    return (
        f"row_norm = {row_norm:g} is more than 4 times as long as rows of {name} typically are around their mean, as "
        "its released radius tells: the noise is made for rows of that length; a smaller row_norm would need less "
        "(every run costs its own epsilon)"
    )

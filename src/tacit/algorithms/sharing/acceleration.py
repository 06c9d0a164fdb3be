"""Anderson acceleration of the fixed point: which mixture of the last results the next round starts from.

The state of the coordinator is (w, a, b); the parties hold the rest and send only inner products of their residuals.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.types import Arrays, Vector

GROWTH_ALLOWED = 2.0  # an accelerated step whose residual grows by more is taken back
RIDGE = 1e-10


class Acceleration:
    """The last results and residuals, one per slot, with the Gram matrix of the residuals."""

    def __init__(self, rows: int, slots: int) -> None:
        self.slots = slots
        self.result_w, self.result_a, self.residual_w = (np.zeros((rows, slots), order="F") for _ in range(3))
        self.result_b, self.residual_b = np.zeros(slots), np.zeros(slots)
        self.gram = np.zeros((slots, slots))
        self.mixture: Vector = np.zeros(0)
        self.slot = self.filled = self.last_slot = 0
        self.last_norm = math.inf

    def store(self, w: Vector, a: Vector, b: float, residual_w: Vector, residual_b: float) -> None:
        """Put a round's result and residual into the current slot."""
        slot = self.slot
        self.result_w[:, slot], self.result_a[:, slot], self.result_b[slot] = w, a, b
        self.residual_w[:, slot], self.residual_b[slot] = residual_w, residual_b
        self.filled = max(self.filled, slot + 1)

    def choose(self, row: Vector, *, accelerate: bool) -> None:
        """Choose the mixture, given the inner products of the new residual with all that are kept.

        Plain step, accelerated step, or back to the last good result where acceleration did harm.
        """
        self.gram[self.slot, : self.filled] = self.gram[: self.filled, self.slot] = row
        norm = math.sqrt(max(float(row[self.slot]), 0.0))
        if accelerate and not norm <= GROWTH_ALLOWED * self.last_norm:
            self.mixture = _one_hot(self.last_slot, self.slots)
            self.forget()
            return
        self.last_norm, self.last_slot = norm, self.slot
        if accelerate and self.filled > 1:
            self.mixture = _least_residual(self.gram[: self.filled, : self.filled])
        else:
            self.mixture = _one_hot(self.slot, self.filled)
        self.slot = (self.slot + 1) % self.slots

    def start(self) -> tuple[Vector, Vector, float]:
        """(w, a, b) of the mixture."""
        used = self.mixture.size
        w, a = self.result_w[:, :used] @ self.mixture, self.result_a[:, :used] @ self.mixture
        return w, a, float(self.result_b[:used] @ self.mixture)

    def forget(self) -> None:
        """Empty the window (the mixture already chosen still refers to what the parties hold)."""
        self.slot = self.filled = 0
        self.last_norm = math.inf

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        numbers = [self.slot, self.filled, self.last_slot, self.last_norm]
        return {name: getattr(self, name) for name in _ARRAYS} | {"slots": np.array(numbers, dtype=np.float64)}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name in _ARRAYS:
            setattr(self, name, state[name])
        slot, filled, last_slot, self.last_norm = (float(value) for value in state["slots"])
        self.slot, self.filled, self.last_slot = int(slot), int(filled), int(last_slot)


_ARRAYS = ("result_w", "result_a", "residual_w", "result_b", "residual_b", "gram", "mixture")


def _one_hot(slot: int, size: int) -> Vector:
    mixture = np.zeros(size)
    mixture[slot] = 1.0
    return mixture


def _least_residual(gram: Vector) -> Vector:
    """Weights that sum to 1 and make the mixed residual smallest, a little ridge keeping them bounded."""
    unit = 1.0 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = unit[:, None] * gram * unit
    scaled[np.diag_indices_from(scaled)] += RIDGE
    weights = unit * np.linalg.solve(scaled, unit / unit.max())
    return np.asarray(weights / weights.sum())

"""The sharing paper's private mechanism as written: every party releases D_m (x_m + xi). It is not private.

The paper exists in two versions that differ in the law of xi:

| name | text | law of xi |
|---|---|---|
| "published" | the shorter version, eqs. (7) to (10) | N(0, sigma^2 I): noise on the coefficients |
| "published-inverse" | the longer version, eq. (16) | N(0, sigma^2 (D'D)^-1): the share gets N(0, sigma^2 P) |

P projects on the column space of D. Why neither is differentially private: docs/proofs/published.md.

| symbol | meaning | held by |
|---|---|---|
| D, x | the party's rows and the argmin of its x-update over the ball ||x|| <= b1 | party |
| xi, x~ | noise and x + xi; x~ is the party's model, and all that later rounds use | party |
| s | sum of the shares D x~ (and the intercept) | coordinator |
| z, y | the paper's auxiliary and dual variable | coordinator |
| s - z, y | what is broadcast (Algorithm 1, line 12) | everybody |

Where the text leaves something open:

- l is the *sum* of the losses, as in the display before eq. (1), so that lambda = alpha times rows and rho is in the
  unit of `Problem.rho`; the minimiser is that of the mean loss with alpha.
- Rows longer than `row_norm` are scaled down to it (in predictions too). Assumption 2.3 wants every row to have norm 1:
  shorter rows are left as they are.
- b1 bounds x, y and z in Assumption 2.1. Only x can be held to it without changing the algorithm, so only x is.
- D'D must have an inverse; where columns depend on each other (one-hot columns do) its pseudo-inverse is taken.
- An intercept, which the paper has not, is one more block of the same iteration: a column of ones at the coordinator.
- rho is never adapted, and x, y and z start at 0, as in the paper.
"""

from tacit.blocks.dense import Block
from tacit.mechanisms.published.sides import NOISY, PublishedCoordinator, PublishedParty, PublishedSettings
from tacit.solvers.base import PrivateSolver, Problem, Release
from tacit.types import Vector


def _coordinator(
    problem: Problem, labels: Vector, settings: PublishedSettings, own: Block | None, release: Release
) -> PublishedCoordinator:
    return PublishedCoordinator(problem, labels, settings)


ON_COEFFICIENTS = PrivateSolver("published", party=PublishedParty, coordinator=_coordinator)
INVERSE = PrivateSolver("published-inverse", party=PublishedParty, coordinator=_coordinator)

__all__ = ["INVERSE", "NOISY", "ON_COEFFICIENTS", "PublishedCoordinator", "PublishedParty", "PublishedSettings"]

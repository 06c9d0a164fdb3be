"""Noisy shares: averaged sharing ADMM in which one number per row leaves a party, each with Gaussian noise.

Proof of the bound: docs/proofs/shares.md. Rows are in units of their public norm, so that they have norm 1 at most.

| symbol | meaning | held by |
|---|---|---|
| b | bound of a share: coef_norm times row_norm | everybody |
| r | the party's share as it was last released (0 before) | everybody |
| q | the broadcast vector of sharing ADMM | everybody |
| x | argmin over ||x|| <= b of mu/2 ||x||^2 + 1/2 ||D x - v||^2, v = r - q clipped to [-b, b] | party |
| r | D x + noise, released | everybody |

Where answers travel under masks and the noise is split between the parties (`SharesSettings.steps`), a party must not
use r, which nobody else sees: v is -q clipped, x is a step, and the coordinator adds the steps up.

After the last release the closing broadcast lets each party solve once more, from its own exact share and without the
ball: nothing of that leaves the party, so nothing of it needs noise.
"""

from tacit.mechanisms.shares.sides import SharesCoordinator, SharesParty, SharesSettings
from tacit.solvers.base import PrivateSolver

SHARES = PrivateSolver(
    "shares",
    party=lambda problem, block, settings, release: SharesParty(problem, block, settings, release),
    coordinator=lambda problem, labels, settings, own, release: SharesCoordinator(problem, labels, settings),
)

__all__ = ["SHARES", "SharesCoordinator", "SharesParty", "SharesSettings"]

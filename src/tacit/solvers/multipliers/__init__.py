"""Sharing with multipliers: the steps of `memory` for losses and penalties with kinks.

Solves  (1/total) sum_i s_i l(z_i; y_i) + alpha sum_m R(x_m),  z = sum_m D_m x_m + b,  for a convex loss and any R.
The code works with total times this. Loss and penalty are each replaced by a Moreau envelope around a multiplier,
which has a slope and a curvature everywhere:

    l_e(z) = min_t   l(t) + sigma/2 (t - z - lam/sigma)^2 - lam^2/(2 sigma)
    R_e(x) = min_k c R(k) + 1/2 |k - x - mu/tau|_tau^2    - |mu|^2_{1/tau} / 2        c = alpha total

One round minimises sum_i s_i l_e(z_i) + sum_m R_e(x_m) a little by coupled block Newton steps. Once that is precise
enough beside how far t is from z and k from x, the multipliers move: lam <- l_e'(z), mu <- R_e'(x), each side its own.
A smooth loss and a quadratic R are left as they are. The model that is reported is k, not x: it has exact zeros and
keeps to its bounds. Its objective costs an exchange of its own, just before the multipliers move.

| symbol | meaning | held by |
|---|---|---|
| lam, sigma | multiplier and stiffness of the loss's envelope, one number per row and one for all | coordinator |
| mu, tau | multiplier and stiffness of the penalty's envelope, one number per column each | party |
| r, w | l_e'(z), l_e''(z); w_f is s w / sigma frozen at the last refresh | coordinator; parties from the broadcast |
| psi, C | R_e'(x) and its curvature diag(d) + e e' (e only for a ball) | party |
| k | the minimiser inside R_e(x): the party's part of the model | party |
| S | the last h steps of z (without b), n x h, one slot each | coordinator; parties from the broadcast |
| X | the party's own part of these steps, d x h | party |
| A, E, H, Y | D'W_f D, D'W_f S, sigma (E - A X), (sigma A + C)^-1 H | party |
| T, G | S'W_f S, sum_m X_m'C_m X_m | everybody |
| p, share | the party's new direction and D p | party; only the sum of shares travels on |
| cf | coefficients of the step over [S, sum of shares, 1] | coordinator; parties all but the last |

A round carries one vector of n numbers up and two down (s r and the newest step; at a refresh also w_f). With an
intercept every weighted product is taken after projecting out the constant (weights w_f).

Stopping: `gap` is a true bound by weak duality, from the dual point theta = r pulled into the conjugates' domains.
With no penalty or x >= 0 there is no such bound, and with l1 alone it lags far behind. There a run may also stop on
an estimate, which is not a bound: a few times the distance between the best objective and the value of the smoothed
problem, which bounds the optimum from below only at its exact minimiser.
"""

from tacit.problem.losses.base import Loss
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Solver
from tacit.solvers.multipliers.coordinator import MultipliersCoordinator
from tacit.solvers.multipliers.party import MultipliersParty, SentOutlook


def _refusal(loss: Loss, regularizer: Regularizer) -> str:
    if not loss.convex:
        return f"loss={loss.name!r} is not convex"
    if loss.least_slope > 0 and regularizer.l2 == 0:  # an envelope is flat inside the bounds: nothing holds a step
        return f"loss={loss.name!r} has no lower bound, and penalty={regularizer.name!r} is flat inside its bounds"
    return ""


MULTIPLIERS = Solver(
    "multipliers",
    refusal=_refusal,
    party=MultipliersParty,
    coordinator=MultipliersCoordinator,
    shared=SentOutlook,
    vectors=(2.5, 1.0),
)

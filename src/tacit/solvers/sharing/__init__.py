"""Sharing ADMM: the averaged form (default for every loss and penalty) and the published Jacobi form.

Solves  (1/total) sum_i s_i l(z_i; y_i) + alpha sum_m R(x_m),  z = sum_m D_m x_m + b.
One vector of n numbers goes down and one comes up per round; only the sum over the parties is used.

| symbol | meaning | held by |
|---|---|---|
| s, total | row weights and their sum; norms below are weighted by s | everybody |
| copies | M in the averaged form; 1 gives the published form, in which every party corrects the whole residual | - |
| rho | penalty times total, so that its size does not depend on n | everybody |
| a | (sum of shares + b) / copies | coordinator |
| w | the single state vector: z = prox_l(w), zbar = z / copies, u = w / copies - zbar | coordinator |
| q | a - zbar + u, the only vector that is broadcast | everybody |
| base, x | coefficients the round starts from; argmin (alpha total/rho) R(x) + 1/2 ||D x - (D base - q)||^2 | party |

After a round the next start (base, w, a, b) is a mixture of the last results: the newest alone (plain ADMM), or the
mixture whose residuals cancel best (Anderson acceleration). Parties mix their own part; only inner products travel.
"""

from tacit.problem.losses.base import Loss
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Solver
from tacit.solvers.sharing.coordinator import SharingCoordinator, averaged_form, published_form
from tacit.solvers.sharing.party import SharingParty


def _refusal(loss: Loss, regularizer: Regularizer) -> str:
    return f"penalty={regularizer.name!r} has groups" if regularizer.form == "group" else ""


AVERAGED = Solver(
    "averaged",
    refusal=_refusal,
    party=lambda problem, block, _: SharingParty(problem, block, averaged_form(problem)),
    coordinator=lambda problem, labels: SharingCoordinator(problem, labels, averaged_form(problem)),
    vectors=(1.2, 1.0),
)
PUBLISHED = Solver(
    "published",
    refusal=_refusal,
    party=lambda problem, block, _: SharingParty(problem, block, published_form(problem)),
    coordinator=lambda problem, labels: SharingCoordinator(problem, labels, published_form(problem)),
    vectors=(1.2, 1.0),
)

"""Sharing with memory: block Newton steps that share every earlier step as a free search direction.

Solves  (1/total) sum_i s_i l(z_i; y_i) + alpha/2 sum_m ||x_m||^2,  z = sum_m D_m x_m + b,  for a smooth convex loss.
One vector of n numbers goes down and one comes up per round, and only the sum over the parties is used.
The coordinator keeps z = sum_m D_m x_m exactly, so the objective can never rise.

| symbol | meaning | held by |
|---|---|---|
| r, w | s l'(z), s l''(z); w_f is w frozen at the last refresh | coordinator; parties from the broadcast |
| S | the last h steps of z, n x h, one slot each | coordinator; parties from the broadcast |
| X | the party's own part of these steps, d x h | party |
| A, E, H, Y | D'W_f D, D'W_f S, E - A X, (A + c I)^-1 H, with c = alpha * total | party |
| T, G | S'W_f S, sum_m X_m'X_m | everybody |
| E'E, E'g | sums over parties: what a certificate needs (`coordinator.py`) | coordinator |
| p, share | the party's new direction and D p | party; only the sum of shares travels on |
| cf | coefficients of the step over [S, sum of shares] | coordinator, broadcast |

Another alpha changes none of S, X, A, E, H, T, G: after a closing broadcast a run goes on with it (`retune`), and every
step of the old alpha is a free search direction of the new one. Rows of weight zero move nothing, but their z is kept.

Where the loss has several scores for each row, one for each class, all vectors have as many numbers for each row, W_f
is a small matrix for each row and b a vector (`tacit.blocks`).

With an intercept every weighted product is taken after projecting out the constant (weights w_f), and the
coordinator keeps b at its exact minimiser: the parties never see it.
"""

from tacit.solvers.base import Solver
from tacit.solvers.memory.coordinator import MemoryCoordinator, newton_refusal
from tacit.solvers.memory.party import MemoryParty, shared_window

MEMORY = Solver(
    "memory",
    refusal=newton_refusal,
    party=MemoryParty,
    coordinator=MemoryCoordinator,
    shared=shared_window,
    supports_path=True,
    several_scores=True,
)

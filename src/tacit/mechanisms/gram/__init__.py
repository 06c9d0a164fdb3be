"""Private sharing in Gram space: noise on sums over all rows instead of on every row's share.

| file | holds |
|---|---|
| plan.py | `Gram`: from what was asked to noise, planned releases and a certificate |
| settings.py | the public numbers of a run, the sensitivities, and what is fitted: derivative and weight of each row |
| fit.py | the private fit of one party, the only place where protected rows meet noise; whether the run is worth it |
| sides.py | a protected party, and the label holder: its own fit, what it sends, the joint model |

Theorems: docs/proofs/gram.md.
"""

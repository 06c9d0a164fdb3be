"""Trying to break what a run claims.

| file | what it tries |
|---|---|
| replay.py | the same transcript on neighbouring data: was the noise planned for such a change? |
| game.py | many runs on two neighbours: how private can the mechanism be at most? |
| attacks.py | labels, coefficients and rows from what is sent and served; what published noise does not hide |
| scene.py | generated data, one party of a run played again, and the worst pair of neighbours for it |
| auditor.py | which of these apply to a plan |
| findings.py | what was found, as a table, as JSON and as a picture |
| graph/ | the same for plans of the sample split |
| harness/ | the neighbour test: whole runs on data that differ in one record, and every byte that leaves compared |

An audit can show that a claim is false. It cannot show that one is true: that is what the proofs are for.
"""

"""Trying to break what a run claims.

| file | what it tries |
|---|---|
| replay.py, neighbours.py | the same transcript on neighbouring data: was the noise planned for such a change? |
| game.py, lower_bound.py | many runs on two neighbours: how private can the mechanism be at most? |
| label_recovery.py | labels from what the coordinator sends |
| extraction.py | coefficients from served predictions |
| row_recovery.py | rows from shares without noise |
| column_space.py | which version of the data a published release was made from |
| result.py, findings.py, picture.py | what was found, as a record, a table and a picture |
| probes.py, scene.py | generated data, and one party of a run played again |
| named_attacks.py, auditor.py | which of these apply to a plan |
| graph/ | the same for plans of the sample split |
| harness/ | the neighbour test: whole runs on data that differ in one record, and every byte that leaves compared |

An audit can show that a claim is false. It cannot show that one is true: that is what the proofs are for.
"""

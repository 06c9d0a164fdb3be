"""The neighbour test: a whole run twice, on data sets that differ in one record, and every byte that leaves compared.

| file | what it does |
|---|---|
| tape.py | secret coins fixed by their owner's name; releases taken down in one run, played back in the other |
| recording.py | whatever leaves, as named values, and the comparison of two recordings |
| world.py | a job with generated files in every format, and its neighbours: the same with one record changed |
| play.py | one whole run, by the command line or between sites that may be killed, with everything recorded |
| check.py | which runs are compared for a job, and what was found |

The protected party's releases are the same in both runs, since the second run is handed those of the first. So nothing
at all may differ in what leaves: not the messages, replies, logs, printed lines, files of others or exit codes. What
the data change in a value before its noise is added up and compared with the claim. Statement and proof:
docs/proofs/audit.md, section 7.
"""

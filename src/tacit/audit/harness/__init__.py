"""The neighbour test: a whole run twice, on data sets that differ in one record, and every byte that leaves compared.

| file | what it does |
|---|---|
| coins.py | every secret coin is fixed by its owner's name, so that two runs draw the same |
| pace.py | one thing after the other, and nothing twice that need not be |
| tape.py | the releases of the protected party: taken down on the first data set, played back on the second |
| recording.py | whatever leaves, as named values, and the comparison of two recordings |
| tables.py | records as cells, the file formats, and changes of one record that are hard on code |
| world.py | a job with generated files, and its neighbours |
| carrier.py | sites in one process, which can be killed after every step |
| play.py | one whole run, by the command line or between sites, with everything recorded |
| check.py | which runs are compared for a job, and what was found |

The protected party's releases are the same in both runs, since the second run is handed those of the first. So nothing
at all may differ in what leaves: not the messages, replies, logs, printed lines, files of others or exit codes. What
the data change in a value before its noise is added up and compared with the claim. Statement and proof:
docs/proofs/audit.md, section 7.
"""

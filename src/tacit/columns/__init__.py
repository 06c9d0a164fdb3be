"""From a party's columns of numbers, text and blanks to the numbers that it trains on.

| file | holds |
|---|---|
| spec.py | what a job says about columns: `ColumnSpec`, `EncodeRules`, and who is protected |
| table.py | tables as read from a file, and one column as numbers or as texts, with its blanks |
| constants.py | the constants of columns: from the job, or from rows that nobody protects; refusals of any others |
| encoder.py | `Encoder`: all columns of a party with their constants, and as plain values |
| words.py | what is said about an encoding |

The modules are imported one by one: who reads a table does not pay for what encodes it.
"""

"""From a party's columns of numbers, text and blanks to the numbers that it trains on.

| file | holds |
|---|---|
| spec.py | what a job says about columns: `ColumnSpec`, `EncodeRules`, and who is protected |
| cells.py | one column of a table as numbers or as texts, with its blanks |
| columns.py | the constants of one column, and what they make of its cells |
| encoder.py | `Encoder`: all columns of a party |
| stated.py | constants from the job, and refusals of constants from protected rows |
| fit.py | constants from rows that nobody protects |
| saved.py | an encoder as plain values and back |
| words.py | what is said about an encoding |
"""

from __future__ import annotations

from tacit.columns.encoder import Encoder
from tacit.columns.spec import ColumnSpec, EncodeRules

__all__ = ["ColumnSpec", "EncodeRules", "Encoder"]

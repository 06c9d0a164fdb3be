"""How a refusal of columns says what to do: in the words of a job file, or in those of Python.

COLUMN stands for the name of the first column that a refusal is about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tacit.text import show


@dataclass(frozen=True)
class Advice:
    """The ways out of refusals, in the words of who is asked.

    Attributes
    ----------
    style : {"toml", "python"}
        How names of columns are written.
    ranges, dates, lists, fills : str
        What a column of protected rows is to be given: a range, a range of dates, categories, or what blanks count as.
    lines : str
        What else may be done with a column without a range where numbers are curves.
    left : str
        Out of what a column is left.
    kinds : str
        What to do about numbers that are written as text.
    same : str
        What to do about a column whose kind is not the same at all parties.
    lost, amounts : str
        What to do about texts of which nothing would be used, and about amounts of money among them.
    """

    style: Literal["toml", "python"]
    ranges: str
    dates: str
    lists: str
    fills: str
    lines: str
    left: str
    kinds: str
    same: str
    lost: str
    amounts: str

    def of(self, way: str, column: str) -> str:
        """One of the ways out, with the name of a column in it."""
        plain = self.style == "toml" and re.fullmatch(r"[A-Za-z0-9_-]+", column)
        name = column if plain else show(column) if self.style == "toml" else repr(column)
        return str(getattr(self, way)).replace("COLUMN", name)


IN_A_JOB = Advice(
    style="toml",
    ranges="low and high in [party.columns]",
    dates="low and high in [party.columns], not taken from the rows, such as "
    "COLUMN = { low = 2000-01-01, high = 2030-01-01 }",
    lists="values = [...] or buckets = 32 in [party.columns]",
    fills="low and high (blanks become their middle), or missing = true (they become 0), in [party.columns]",
    lines='(values for categories), or term = "linear"',
    left=" of features",
    kinds='fix the file, or give it kind = "number" or kind = "category" in [party.columns]',
    same="fix one of the files, or give its kind in [party.columns]",
    lost='write numbers as 28453.4 and dates as 2023-08-07 (with kind = "date"), give it kind = "category" in '
    "[party.columns] to keep it as it is (all of it counts as other), or list features without it",
    amounts='say how the file writes numbers, as in numbers = "1.234,56" under its [[party]]; remove signs of percent '
    'and money, and replace other words by blanks; write dates as 2023-08-07 (with kind = "date"); or give it '
    'kind = "category" in [party.columns] to keep it as it is',
)

IN_PYTHON = Advice(
    style="python",
    ranges="a range, as in ranges={COLUMN: (low, high)}",
    dates="a range that is not taken from the rows, as in ranges={COLUMN: (date(2000, 1, 1), date(2030, 1, 1))}",
    lists="a list, as in categories={COLUMN: [...]}",
    fills="a range, as in ranges={COLUMN: (low, high)} (blanks become its middle), or fill them in",
    lines="(for categories a list, as in categories={COLUMN: [...]}), or use terms='linear'",
    left="",
    kinds="make it numbers (pandas.to_numeric), or categories (astype('category'))",
    same="give it the same type at both",
    lost="make numbers and dates columns of their own types (pandas.to_numeric, pandas.to_datetime), make it "
    "categories (astype('category')) to keep it as it is (all of it counts as other), or leave it out",
    amounts="make it numbers or dates (pandas.to_numeric, pandas.to_datetime), or categories (astype('category')) to "
    "keep it as it is",
)

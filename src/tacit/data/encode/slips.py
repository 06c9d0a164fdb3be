"""Columns of text that are probably none: numbers with a slip, and numbers or dates that are written in another way."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tacit.data.encode.cells import reads_as_number
from tacit.data.encode.spec import ColumnSpec, EncodeRules
from tacit.data.wording import show
from tacit.errors import InputError

MONEY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|Fr\.?|kr\.?|zł)"
MARK = r"[,.'’_ \u00a0\u202f]"  # between groups of digits
DIGITS = rf"(?:\d{{1,3}}(?:{MARK}\d{{2,3}})+|\d+)?(?:[.,]\d*)?"
LOCAL_NUMBER = re.compile(rf"\(?[-+−]?\s?{MONEY}?\s?[-+−]?{DIGITS}\s?(?:[%‰]|{MONEY})?[-−]?\)?")
LOCAL_DATE = re.compile(r"(?:\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})|\d{4}[./-]\d{1,2}[./-]\d{1,2})(?:[ T]\d{1,2}:.*)?")


def reads_as_amount(text: str) -> bool:
    """Whether a text is a number, or a number or date as people write them: 1,234 or 3.06% or (1'200.-) or 7.8.2023."""
    if reads_as_number(text) or LOCAL_DATE.fullmatch(text):
        return True
    return any(sign.isdecimal() for sign in text) and LOCAL_NUMBER.fullmatch(text) is not None


def refuse_guesses(party: str, spec: ColumnSpec, counts: Mapping[str, int], rules: EncodeRules) -> None:
    """Refuse a column of text that would be taken for categories although the job does not say so.

    Parameters
    ----------
    party : str
    spec : ColumnSpec
        What the job says about the column; a kind is believed.
    counts : mapping of str to int
        Rows by text, blanks left out, of rows that nobody protects.
    rules : EncodeRules

    Raises
    ------
    InputError
        Where most texts are numbers, where not one of several texts is in enough rows to be kept, or where most of what
        would be lost are numbers or dates.
    """
    if spec.kind is None:
        _refuse_numbers_as_text(party, spec.name, counts, rules)
        _refuse_lost_texts(party, spec.name, counts, rules)
        _refuse_lost_amounts(party, spec.name, counts, rules)


def _refuse_numbers_as_text(party: str, name: str, counts: Mapping[str, int], rules: EncodeRules) -> None:
    """Refuse to guess where a column of text is mostly numbers: one wrong cell makes a file's numbers text."""
    wrong = [value for value in sorted(counts) if not reads_as_number(value)]
    if 2 * sum(counts[value] for value in wrong) > sum(counts.values()):
        return
    # Codes such as 1, 2 and U are categories, each in many rows; what stands in few looks like a slip.
    if len(counts) <= rules.most and not any(counts[value] < rules.rare for value in wrong):
        return
    held = f" and {show(wrong[0])}" if wrong else ""
    raise InputError(
        f"party {show(party)}: column {show(name)} holds numbers{held} as text: fix the file, or give it "
        'kind = "number" or kind = "category" in [party.columns]'
    )


def _refuse_lost_texts(party: str, name: str, counts: Mapping[str, int], rules: EncodeRules) -> None:
    """Refuse a column of which nothing would be left, as all its texts are rare and become the same."""
    rows = sum(counts.values())
    # Of a single text nothing is lost: it is the others. In fewer rows than `rare` nothing could be kept.
    if len(counts) < 2 or rows < rules.rare or max(counts.values()) >= rules.rare:
        return
    raise InputError(
        f"party {show(party)}: column {show(name)} holds {len(counts)} different texts such as {show(min(counts))}, "
        f"none of them in rare = {rules.rare} of the {rows} rows, so that nothing of it would be used: write numbers "
        'as 28453.4 and dates as 2023-08-07 (with kind = "date"), give it kind = "category" in [party.columns] to keep '
        "it as it is (all of it counts as other), or list features without it"
    )


def _refuse_lost_amounts(party: str, name: str, counts: Mapping[str, int], rules: EncodeRules) -> None:
    """Refuse a column such as 0, 0, "1,234", 0, "3.06%": the zeros would be a category, all amounts its others."""
    often = sorted((value for value in counts if counts[value] >= rules.rare), key=lambda value: -counts[value])
    lost = set(counts) - set(often[: rules.most])
    amounts = sorted(value for value in lost if reads_as_amount(value))
    rows, all_lost = (sum(counts[value] for value in values) for values in (amounts, lost))
    if len(amounts) < 2 or rows < rules.rare or 2 * rows <= all_lost:
        return
    # of several texts, one that is written in another way says more than a plain number
    held = next((value for value in amounts if not reads_as_number(value)), amounts[0])
    raise InputError(
        f"party {show(party)}: column {show(name)} holds numbers or dates as text, such as {show(held)} beside "
        f"{show(often[0])}: as categories {rows} rows with {len(amounts)} different ones would all count as other; "
        "write numbers as 28453.4 (no signs for thousands, percent or money) and dates as 2023-08-07 (with "
        'kind = "date"), or give it kind = "category" in [party.columns] to keep it as it is'
    )

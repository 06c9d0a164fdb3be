"""Columns of text that are probably none: numbers with a slip, and numbers or dates that are written in another way."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.data.encode.cells import reads_as_number
from tacit.data.encode.spec import ColumnSpec, EncodeRules
from tacit.data.wording import show
from tacit.errors import InputError


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
        Where most texts are numbers, or where not one of several texts is in enough rows to be kept.
    """
    if spec.kind is None:
        _refuse_numbers_as_text(party, spec.name, counts, rules)
        _refuse_lost_texts(party, spec.name, counts, rules)


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
        f"party {show(party)}: column {show(name)} holds numbers{held} as text: mend the file, or give it "
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

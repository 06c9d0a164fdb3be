"""A model card: one page of Markdown that goes with a model to whoever uses it, made from the run and its certificate.

It names parties, sizes and settings, and no value of a row. How good the model is stands there only where the run
claims no privacy: figures of a private run come from labels and single scores, which its certificate does not cover.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.privacy.certificate import cautions, headline
from tacit.report import run_words as words
from tacit.report import tree_words
from tacit.run.saved import SavedRun
from tacit.version import __version__

LIMITS = (
    "A score says what went with the label in these rows, and not what causes it.",
    "Rows unlike those of training (other people, other times, other ways of measuring) may be scored badly, and "
    "nothing here says so.",
    "Numbers beyond the range of training and unknown categories are taken as the documentation of the export says.",
)
KEPT = (
    "Not on this card: figures of a private run come from labels and single scores, which no certificate covers. "
    "`tacit report` shows them to who may see them."
)


def model_card(run: SavedRun) -> str:
    """The card of a finished run."""
    own = tree_words.job_rows(run) if run.model.is_trees else words.job_rows(run)
    parts = [
        f"# Model card: {_cell(run.job.name)}",
        words.lead(run),
        "## Model",
        _pairs([("trained", words.day(run)), *own, *words.label_rows(run), *_made(run)]),
        "## Data",
        _pairs([("rows trained on", f"{run.rows:,}"), *words.held_rows(run)]),
        "" if run.on_graph else _table(*words.party_rows(run)),
        "No value of a row is on this card.",
        "## How good it is",
        *_figures(run),
        "## Privacy",
        *_privacy(run),
        "## Limits",
        _bullets(LIMITS),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _made(run: SavedRun) -> list[tuple[str, str]]:
    software = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    return [("software", software), ("card", f"tacit {__version__}")]


def _figures(run: SavedRun) -> list[str]:
    if run.certificate.private:
        return [KEPT]
    if not words.models_of(run):
        return ["It was not evaluated: no rows were held out."]
    _, sentence = words.verdict_of(run)
    return [sentence, _table(*words.measure_rows(run))]


def _privacy(run: SavedRun) -> list[str]:
    certificate = run.certificate
    if not certificate.private:
        return [
            "It is not private: nothing is protected, and epsilon is infinite.",
            _bullets(certificate.does_not_cover),
        ]
    return [
        f"{headline(certificate)}.",
        _bullets([f"Caution: {caution}." for caution in cautions(certificate)]),
        "Covered:",
        _bullets(certificate.covers),
        "Not covered:",
        _bullets(certificate.does_not_cover),
        "`tacit verify` recomputes these numbers from certificate.json, which should go with the model.",
    ]


def _cell(text: str) -> str:
    """A text that Markdown takes as it is, on one line."""
    plain = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in plain)


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    return _table(["", ""], [list(row) for row in rows])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows] if head else []
    return "\n".join(
        "| " + " | ".join(cell if line is lines[1] else _cell(cell) for cell in line) + " |" for line in lines
    )


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {_cell(sentence)}" for sentence in sentences)

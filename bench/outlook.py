"""What a private run said about its own use, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WORTH, NOT_WORTH, UNKNOWN, SILENT = "worth it", "not worth it", "cannot be told", "no verdict"


@dataclass(frozen=True)
class Told:
    """The run's own verdict, whether the public sizes alone spoke against it, and whether they called it doubtful."""

    verdict: str
    sizes_against: bool
    doubtful: bool = False


def told_by(outlook: Sequence[str]) -> Told:
    """Read the sentences of `outlook_`."""
    verdict = next((word for word in map(_verdict, outlook) if word != SILENT), SILENT)
    large, doubtful = (any(words in one for one in outlook) for words in ("this is large noise", "this is doubtful"))
    return Told(verdict, large, doubtful)


def _verdict(sentence: str) -> str:
    if "NOT worth it" in sentence:
        return NOT_WORTH
    if "cannot be told" in sentence:
        return UNKNOWN
    return WORTH if sentence.endswith(": worth it") else SILENT


def counted(told: Sequence[Told]) -> str:
    """How often each was said."""
    verdicts = Counter(one.verdict for one in told)
    shown = ", ".join(f"{word} {verdicts[word]}" for word in (WORTH, NOT_WORTH, UNKNOWN, SILENT) if verdicts[word])
    return f"{shown}; sizes against it {sum(one.sizes_against for one in told)} (of {len(told)} runs)"


def opposed(told: Told, change: float) -> bool:
    """Whether a verdict has the other sign than the change of the loss on test rows."""
    return change > 0 if told.verdict == WORTH else change < 0 and told.verdict == NOT_WORTH

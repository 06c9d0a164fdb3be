"""Match rows by id without showing ids: private set intersection between two or more parties.

What it hides, from whom, and what it does not, is stated and argued in `docs/proofs/alignment.md`.
"""

from tacit.alignment.aligner import Aligner, Alignment
from tacit.alignment.conversation import CHUNK, Question, align, align_here, converse

__all__ = ["CHUNK", "Aligner", "Alignment", "Question", "align", "align_here", "converse"]

"""pdml: what there is to compute, to show and to judge."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.papers.reproduction.paper import Paper
from tacit.papers.reproduction.pdml import adult, beside, table
from tacit.papers.reproduction.pdml.claims import judge
from tacit.papers.reproduction.pdml.sections import sections
from tacit.papers.reproduction.work import Piece


def pieces(quick: bool) -> Sequence[Piece]:
    """All pieces of work."""
    return [*adult.pieces(quick), *table.pieces(quick), *beside.pieces(quick)]


PAPER = Paper(
    name="pdml",
    title="Privacy-preserving Distributed Machine Learning via Local Randomization and ADMM Perturbation",
    authors="Xin Wang, Hideaki Ishii, Linkang Du, Peng Cheng, Jiming Chen",
    summary=(
        "Users randomize their labels before servers get them; the servers train a common classifier by consensus ADMM "
        "with an unbiased loss, bounded noise in their objectives, and decaying Gaussian noise on what they send."
    ),
    pieces=pieces,
    sections=sections,
    judge=judge,
)

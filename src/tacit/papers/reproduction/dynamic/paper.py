"""The paper as the runner takes it."""

from __future__ import annotations

from tacit.papers.reproduction.dynamic.claims import judge
from tacit.papers.reproduction.dynamic.pieces import all_pieces
from tacit.papers.reproduction.dynamic.sections import sections
from tacit.papers.reproduction.paper import Paper

PAPER = Paper(
    name="dynamic",
    title="Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning",
    authors="Tao Zhang and Quanyan Zhu, IEEE Transactions on Information Forensics and Security 12 (2017)",
    summary=(
        "Rows are split between the nodes of a graph, which fit one logistic regression by consensus ADMM. Noise is "
        "put into every iteration: on the dual variable (DVP, noise in the objective) or on the primal one (PVP, "
        "noise on the model). The experiments are on Adult."
    ),
    pieces=all_pieces,
    sections=sections,
    judge=judge,
)

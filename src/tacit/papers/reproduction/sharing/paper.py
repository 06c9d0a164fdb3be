"""The sharing paper as a paper that can be rerun."""

from __future__ import annotations

from tacit.papers.reproduction.paper import Paper
from tacit.papers.reproduction.sharing.claims import judge
from tacit.papers.reproduction.sharing.pieces import pieces
from tacit.papers.reproduction.sharing.sections import sections

PAPER = Paper(
    name="sharing",
    title="Learning Privately over Distributed Features: An ADMM Sharing Approach",
    authors="Y. Hu, P. Liu, L. Kong, D. Niu",
    summary=(
        "Features are split between parties that train one model by sharing ADMM: each sends one number per row and "
        "round. Gaussian noise on what is sent is to make it differentially private. It is compared with stochastic "
        "gradient descent on a9a and gisette."
    ),
    pieces=pieces,
    sections=sections,
    judge=judge,
)

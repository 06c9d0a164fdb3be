"""Trying to break what a plan of the sample split claims.

| file | what it does |
|---|---|
| replay.py | the same transcript on neighbouring rows of a node, for noise on values and noise inside an objective |
| scene.py | one of the nodes of a run played again with other rows: generated ones, and transcripts chosen to be bad |
| attacks.py | the ratio of the densities of one round, and what is known against published forms |
| auditor.py | `audit_graph`: which of these apply to a plan |
"""

from tacit.audit.graph.auditor import audit_graph

__all__ = ["audit_graph"]

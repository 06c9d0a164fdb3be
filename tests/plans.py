"""Plans from one list of keywords, for tests: what is asked and the layout in one call."""

from __future__ import annotations

from typing import Any

from tacit.plan import FeatureSplit, Plan, SampleSplit, TrainingRequest, make_plan


def feature_plan(
    *,
    party_names: tuple[str, ...],
    rows: int,
    input_bytes: int = 0,
    columns: tuple[int, ...] | None = None,
    row_weights: Any = None,
    holder: str | None = None,
    **asked: Any,
) -> Plan:
    """The plan of a feature split; `asked` is what `TrainingRequest` takes."""
    split = FeatureSplit(party_names, rows, columns or (), holder or "", input_bytes, row_weights)
    return make_plan(TrainingRequest(**asked), split)


def sample_plan(
    *,
    graph: Any,
    rows: tuple[int, ...],
    columns: int,
    sizes: tuple[float, ...] | None = None,
    label_epsilons: Any = None,
    **asked: Any,
) -> Plan:
    """The plan of a sample split; `asked` is what `TrainingRequest` takes."""
    return make_plan(TrainingRequest(**asked), SampleSplit(graph, rows, columns, sizes, label_epsilons or {}))

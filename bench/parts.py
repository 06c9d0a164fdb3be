"""The parts of the bench by name."""

from __future__ import annotations

from types import ModuleType

from bench import (
    align,
    baselines,
    curves,
    curves_size,
    dense,
    faults,
    fit_time,
    flare,
    graph,
    graph_methods,
    graph_private,
    graph_sets,
    growth,
    on_dask,
    paper_prototype,
    path,
    private,
    private_rounds,
    rounds,
    service,
    streamed,
    structure,
    terms,
    trees,
)

PARTS: dict[str, ModuleType] = {
    "rounds": rounds,
    "fit_time": fit_time,
    "paper_prototype": paper_prototype,
    "dense": dense,
    "growth": growth,
    "path": path,
    "baselines": baselines,
    "private": private,
    "private_rounds": private_rounds,
    "graph": graph,
    "graph-private": graph_private,
    "graph-sets": graph_sets,
    "graph-methods": graph_methods,
    "streamed": streamed,
    "curves": curves,
    "curves_size": curves_size,
    "terms": terms,
    "trees": trees,
    "align": align,
    "service": service,
    "faults": faults,
    "flare": flare,
    "dask": on_dask,
    "structure": structure,
}

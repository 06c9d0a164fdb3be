"""Options of the papers' private methods beside public sizes: alpha_p(t) of every node and round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.errors import InputError
from tacit.plan.private import GraphSizes
from tacit.privacy.fields import show
from tacit.privacy.paper_options import PaperOptions, check_positive


def given_alphas(options: PaperOptions, sizes: GraphSizes, usual: int) -> dict[str, tuple[float, ...]] | None:
    """alpha_p(t) by node, one for each round, as they were given; None where they were not."""
    given = options.alphas
    if given is None:
        return None
    by_node = dict(given) if isinstance(given, Mapping) else dict.fromkeys(sizes.graph.names, given)
    for name in by_node:
        if name not in sizes.graph.names:
            raise InputError(f"alphas name {show(name)}, which is no node: give one entry for each node")
    missing = [name for name in sizes.graph.names if name not in by_node]
    if missing:
        raise InputError(f"alphas say nothing about node {missing[0]!r}: give it a number, or one for each round")
    lengths = {len(value) for value in by_node.values() if isinstance(value, Sequence)}
    if options.rounds is not None:
        lengths.add(options.rounds)
    if len(lengths) > 1:
        raise InputError(f"alphas and rounds ask for {sorted(lengths)} rounds: give every node the same number")
    count = lengths.pop() if lengths else min(sizes.max_rounds, usual)
    if not 1 <= count <= sizes.max_rounds:
        raise InputError(f"alphas are given for {count} rounds: give 1 to max_rounds={sizes.max_rounds}")
    return {name: _spread(name, by_node[name], count) for name in sizes.graph.names}


def _spread(name: str, value: float | Sequence[float], count: int) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,) * count
    return tuple(check_positive(f"alpha of {name} in round {t}", one) for t, one in enumerate(values, 1))

"""Private sharing in Gram space: noise on sums over all rows instead of on every row's share.

| file | holds |
|---|---|
| settings.py | the public numbers of a run, and the sensitivities |
| targets.py | what is fitted: derivative and weight of each row |
| fit.py | the private fit of one party, the only place where protected rows meet noise |
| party.py | a protected party |
| holder.py | the label holder: its own fit, what it sends, the joint model |
| refit.py | its second fit, where that was asked |
"""

from __future__ import annotations

from typing import Any

from tacit.blocks.dense import Block
from tacit.mechanisms.gram.sides import GramHolder, GramParty
from tacit.solvers.base import PrivateAlgorithm, Problem, Release
from tacit.solvers.memory import MEMORY
from tacit.solvers.multipliers import MULTIPLIERS
from tacit.solvers.sharing import AVERAGED
from tacit.types import Vector


def _holder(problem: Problem, labels: Vector, settings: Any, own: Block | None, release: Release) -> GramHolder:
    assert own is not None, "the label holder holds rows of its own"
    return GramHolder(problem, labels, settings, own, release, (MEMORY, MULTIPLIERS, AVERAGED))


GRAM = PrivateAlgorithm(name="gram", party=GramParty, coordinator=_holder, gathers=True)

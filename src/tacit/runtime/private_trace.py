"""What the trace of a private run may hold: public numbers, and functions of what was released; nothing else.

| field | why it may be there |
|---|---|
| round, rho, epsilon | public: of the plan, and of how far the run is |
| bytes_down, bytes_up | sizes of messages, which follow from public sizes |
| seconds | what the clock of whoever writes the trace says, who could look at any clock |
| primal | in the sample split: how far released models are from each other |

Where labels alone are randomized and rows are not protected, the run is an ordinary one on the labels that were drawn,
and so is its trace. Everywhere else an objective, a gap or the residual of a solve is a function of the rows without
noise. A row that holds one of them as a finite number is refused: the mistake is in the program, and it is found in the
first round of any run.
"""

from __future__ import annotations

import math
from dataclasses import fields

from tacit.errors import RunError
from tacit.types import TraceRow

PRIVATE_FIELDS = frozenset({"round", "rho", "epsilon", "bytes_down", "bytes_up", "seconds", "primal"})


def check_private(row: TraceRow) -> TraceRow:
    """The row, unless it holds what a private run must not tell; whether it does is never a matter of the data."""
    told = [one.name for one in fields(TraceRow) if one.name not in PRIVATE_FIELDS]
    found = [name for name in told if math.isfinite(getattr(row, name))]
    if found:
        raise RunError(f"the trace of a private run would hold {found[0]}, which is not released: nothing is written")
    return row

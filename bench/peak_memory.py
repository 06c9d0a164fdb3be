"""Peak memory of one fit: run as `python -m bench.peak_memory METHOD ROWS`.

METHOD may be "private": a private run with the software's own choices.
Prints three numbers of bytes: the peak of this process, what it held before there were any data, and the input.
"""

from __future__ import annotations

import resource
import sys
import warnings
from pathlib import Path

from bench.data import ALPHA, dense_blocks
from tacit import Privacy, VerticalClassifier

ROUNDS = 15
_STATUS = Path("/proc/self/status")


def main(method: str, n: int) -> None:
    """Fit a small problem, take the baseline, fit the large one."""
    _fit(method, 2000)
    baseline = read_status("VmRSS")
    inputs = _fit(method, n)
    print(read_status("VmHWM"), baseline, inputs)


def _fit(method: str, n: int) -> int:
    """Fit and return the size of the input."""
    blocks, labels = dense_blocks(n)
    model = _model(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is meant not to stop
        model.fit(blocks, labels)
    return sum(block.nbytes for block in blocks) + labels.nbytes


def _model(method: str) -> VerticalClassifier:
    if method == "private":
        return VerticalClassifier(alpha=ALPHA, privacy=Privacy(noise_seed=0))
    return VerticalClassifier(method=method, alpha=ALPHA, fit_intercept=False, max_rounds=ROUNDS, tol=0.0)


def read_status(field: str) -> int:
    """Bytes of a field of the process status; the largest size so far where the system has no such file."""
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

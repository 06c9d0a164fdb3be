"""What is said beside curves: against what they are, and what their bands hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.job import Job
from tacit.privacy.certificate import Certificate
from tacit.run.curves import Curve

NO_ROWS = "no bands are drawn: how far a curve would move with other rows is not computed"
BAND = (
    "a band holds 95 % of what other noise would have given on the same rows, by an approximation from what was "
    "released; how far other rows would move the curve is not in it"
)
EXACT = (
    "{}: no band, as no noise was added to its part of the model: this is its exact fit, which no certificate covers"
)
UNKNOWN = "{}: no band, as it is not known how far the noise of this mechanism moves a curve"


def band_lines(curves: Mapping[str, Sequence[Curve]], job: Job, certificate: Certificate) -> list[str]:
    """One line about the bands, and one about each party that has none."""
    if not certificate.private:
        return [NO_ROWS]
    shown = {name: any(curve.has_band for curve in own) for name, own in curves.items()}
    lines = [BAND] if any(shown.values()) else []
    return lines + [_without(name, job, curves).format(name) for name, banded in shown.items() if not banded]


def _without(name: str, job: Job, curves: Mapping[str, Sequence[Curve]]) -> str:
    """Why a party's curves have no band."""
    exact = name in job.names and name not in job.protected
    holders_own = job.privacy is not None and job.privacy.predictions == "label-holder" and name == job.holder
    return EXACT if exact or holders_own else UNKNOWN

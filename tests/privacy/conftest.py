"""A private certificate that tests take apart."""

from __future__ import annotations

import pytest

from tacit.privacy.calibration import noise_for
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease, RandomizedResponse


def make_certificate(*, epsilon: float = 1.0, delta: float = 1e-5, rounds: int = 10, noise: float = 1.0) -> Certificate:
    """Ten rounds of one party's noisy gradients, and randomized labels; `noise` scales the calibrated noise."""
    sd = noise * noise_for(epsilon, delta, 2.0, rounds)
    releases = tuple(GaussianRelease(2.0, sd, released="a gradient", party="shop", round=t) for t in range(rounds))
    label = RandomizedResponse(1.5, released="the label", party="bank", unit="label")
    return Certificate(
        unit="record",
        adversary="the bank and the coordinator",
        covers=("the rows of shop",),
        does_not_cover=("the asked row at prediction time",),
        per_party={"shop": "ten noisy gradients", "bank": "one randomized label per row"},
        theorem="Gaussian composition",
        claims=(
            Claim("record", "shop", "replace-one", "the bank", releases, "Gaussian composition"),
            Claim("label", "bank", "replace-one", "the shop", (label,), "randomized response"),
        ),
        target=Target(epsilon, delta),
        assumptions=("the noise is not seeded",),
        versions={"tacit": "0.1.0"},
    )


@pytest.fixture
def certificate() -> Certificate:
    return make_certificate()

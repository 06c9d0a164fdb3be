"""Noise of density exp(-rate |e|): its law, and its planned releases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.errors import InputError, RunError
from tacit.privacy.randomness import NoiseSource, norm_noise
from tacit.privacy.releases import Allowed, AllowedNormNoise, Releaser

DRAWS = 4000


@pytest.mark.parametrize(("size", "rate"), [(1, 0.5), (3, 2.0), (40, 0.1)])
def test_the_norm_is_gamma_and_the_direction_uniform(size: int, rate: float) -> None:
    source = NoiseSource(seed=size)
    drawn = np.array([norm_noise(source, size, rate) for _ in range(DRAWS)])
    norms = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(norms, stats.gamma(size, scale=1 / rate).cdf).pvalue > 1e-3
    direction = drawn / norms[:, None]
    assert np.abs(direction.mean(axis=0)).max() < 5 / np.sqrt(DRAWS * size)
    square = direction[:, 0] ** 2
    if size > 1:
        assert stats.kstest(square, stats.beta(0.5, (size - 1) / 2).cdf).pvalue > 1e-3
    else:
        # one dimension: the Laplace law
        assert stats.kstest(drawn[:, 0], stats.laplace(scale=1 / rate).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(norms, direction[:, 0])[0, 1]) < 0.08


@pytest.mark.parametrize("rate", [0.0, -1.0, np.inf, np.nan])
def test_rates_that_make_no_law_are_refused(rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        norm_noise(NoiseSource(seed=0), 2, rate)


def test_only_planned_noise_is_drawn_and_only_as_often() -> None:
    releaser = Releaser([AllowedNormNoise("noise 1", 2.0), Allowed("model 1", 1.0)], "node", seed=3)
    first = releaser.draw("noise 1", 4)
    assert first.shape == (4,)
    for name in ("noise 1", "noise 2", "model 1"):
        with pytest.raises(RunError, match=name):
            releaser.draw(name, 4)
    assert np.array_equal(first, Releaser([AllowedNormNoise("noise 1", 2.0)], "node", seed=3).draw("noise 1", 4))

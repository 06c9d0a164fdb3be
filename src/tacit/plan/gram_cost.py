"""What private sharing in Gram space sends, and how long it takes, from public sizes."""

from __future__ import annotations

from tacit.algorithms.gram.settings import GramSettings
from tacit.plan.private import Sizes

NUMBER = 8  # bytes
FIT_NUMBERS = 3  # radius, spread and freedom
BIT_MIDDLES = 2  # where one bit is sent for each row, two scores describe the label holder's own
# Seconds, as measured on one core of about 3 GHz with 2,000 to 200,000 rows and 20 to 400 columns: a run took between
# half and twice as long.
START, PER_ROW, PER_VALUE, PER_PRODUCT, PER_CUBE = 0.3, 6e-6, 2.8e-7, 2e-10, 1e-8
RANDOMIZED_LABELS, HOLDER_WITH_NOISE = 1.4, 0.4  # against the label holder's own exact fits


def payload(settings: GramSettings, sizes: Sizes) -> dict[str, tuple[int, int]]:
    """Bytes to each protected party and back, over the whole run."""
    return {name: _of_party(settings, sizes, name) for name in settings.fits}


def _of_party(settings: GramSettings, sizes: Sizes, name: str) -> tuple[int, int]:
    side = 2 if settings.fits[name].bent else 1
    response = settings.response
    if response is None:
        down = 2 * sizes.rows  # a score and a label for each row
    else:
        levels = response.levels
        down = sizes.rows + (BIT_MIDDLES if levels == 1 else 2 * levels - 1)
    up = 2 * sizes.columns_of(name) + side + FIT_NUMBERS
    if settings.refit is not None:
        up += sizes.rows
    elif settings.checks:
        down, up = down + side, up + 1
    return NUMBER * down, NUMBER * up


def seconds(settings: GramSettings, sizes: Sizes) -> float:
    """Rough guess of the time of a run in one process."""
    factor = RANDOMIZED_LABELS if settings.label_epsilon is not None else 1.0
    factor = HOLDER_WITH_NOISE if settings.response is not None else factor
    values = sizes.rows * sum(sizes.columns)
    squares = sum(sizes.columns_of(name) ** 2 for name in settings.fits)
    cubes = sum(sizes.columns_of(name) ** 3 for name in settings.fits)
    by_rows = factor * (PER_ROW * sizes.rows + PER_VALUE * values)
    return START + by_rows + PER_PRODUCT * sizes.rows * squares + PER_CUBE * cubes

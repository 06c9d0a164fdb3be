"""Private noise: cryptographic bits, the exact law of a rounded Gaussian, values and noise on one grid.

`docs/proofs/grid.md` proves what is claimed here. In its letters: g is the step of the grid, r = sd / g, U a uniform
number in (0, 1) of which as many bits are drawn as are needed, and the noise is g * round(r * Phi^-1(U)).

Noise whose density depends on its norm alone: proportional to exp(-rate |e|), in any number of dimensions.

The direction is uniform, the norm has the Gamma law of shape `size` and mean size / rate. Both are made from uniform
numbers of 53 bits by inverse distribution functions in floating point: unlike the Gaussian noise of `randomness` this
noise is on no grid, and its law is exact only up to rounding. What is released must hide the last digits by other
means, or say that it does not (docs/proofs/dynamic.md, section 4).

Keys and random words are HKDF-SHA256 and ChaCha20 of the `cryptography` package, with the arguments that Tacit uses.

Labels under randomized response: each one kept or flipped once.

With q = 1 / (1 + e^eps) a label of -1 or +1 is flipped with probability q and kept with p = 1 - q. The result is
eps-differentially private for the label, for ever, as far as everything else is made from the randomized ones. What is
computed from true labels (an evaluation on rows held out, the label holder's own exact fit) is not covered by it.
Randomizing the same labels a second time costs eps a second time. The proofs, and the list of places where true labels
may be used by mistake, are in docs/proofs/labels.md.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mpmath import MPContext
from scipy.special import gammaincinv, ndtri

from tacit.errors import InputError
from tacit.records import positive
from tacit.types import Vector, Words

# --- Keys and random words


KEY_BYTES = 32
LIMIT = 2**33  # words under one key: 64 GiB, a quarter of where ChaCha20's block counter would start again
_ZEROS = bytes(2**19)


def pack(*fields: str | bytes | int) -> bytes:
    """The fields as bytes, each with its kind and length in front, so that no two lists of fields pack alike."""
    return b"".join(_with_length(field) for field in fields)


def derive_key(secret: bytes, *context: str | bytes | int) -> bytes:
    """A 32-byte key made from a secret for one use only, which the context names (HKDF-SHA256)."""
    return derive_packed(secret, pack("tacit", *context))


def derive_packed(secret: bytes, packed: bytes) -> bytes:
    """The same for a context that is packed already, "tacit" in front: packed fields can be put one after another."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=packed).derive(secret)


class Keystream:
    """The ChaCha20 keystream of one key as 64-bit words; `room` is how many words the key still has."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        self.room = LIMIT

    def words(self, count: int) -> Words:
        """The next words of the stream, uniform in 0 .. 2^64 - 1."""
        if count > self.room:
            raise ValueError(f"{count} words asked of a key that has {self.room} left: take a new key")
        self.room -= count
        buffer = bytearray(8 * count)
        for start in range(0, len(buffer), len(_ZEROS)):
            part = memoryview(buffer)[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(part)], part)
        return np.frombuffer(buffer, dtype="<u8").astype(np.uint64, copy=False)


def _with_length(field: str | bytes | int) -> bytes:
    body = field if isinstance(field, bytes) else str(field).encode()
    return f"{type(field).__name__} {len(body)} ".encode() + body


# --- Private noise: cryptographic bits, the exact law of a rounded Gaussian, values and noise on one grid


Integers = npt.NDArray[np.int64]
Shape = int | tuple[int, ...]

GRID_BITS = 24  # g is the largest power of two that is at most sd * 2^-24
PREFIX_BITS = 52  # bits of U that the fast path sees: then the middle of U's interval is a float
NDTRI_ERROR = 2.0**-45  # |computed r z - r z| <= NDTRI_ERROR * r * (1 + |z|); about 40 times what is measured
FAST_REACH = 4.0  # the fast path decides for |z| up to this,
FAST_MARGIN = 2.0**-39  # and at least this far (times r) from the border of a cell
FARTHEST = 40  # cells beyond 40 sd are merged with the last one: they have probability below 2^-1100
CHUNK = 2**15
LARGEST = 2.0**62  # a larger value, in steps of the grid, is held to it
SMALLEST_SD, LARGEST_SD = 1e-200, 1e200

_EXACT, _EXACT_LOCK = MPContext(), threading.Lock()  # not mpmath's shared context: its precision belongs to the user


@dataclass(frozen=True)
class GridRelease:
    """A value with Gaussian noise, on a grid.

    Attributes
    ----------
    noisy : Vector
        Value plus noise; every entry is a multiple of `step`.
    sensitivity : float
        L2 sensitivity of the value once it is on the grid: account with this one, at the same sd.
    step : float
        Step of the grid, a power of two.
    """

    noisy: Vector
    sensitivity: float
    step: float


class NoiseSource:
    """Noise from the ChaCha20 keystream of a key that the operating system draws.

    Parameters
    ----------
    seed : int, optional
        For tests and papers only: whoever knows it can take the noise off again.
    stream : str
        Sources with the same seed or key and different streams are independent: give each party its name.
    key : bytes, optional
        A secret of 32 bytes to draw from, where the same noise must be drawn again after a crash.
    """

    def __init__(self, seed: int | None = None, stream: str = "", key: bytes | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise InputError(f"seed={seed!r} is not allowed: it must be an integer of 0 or more, or None")
        self._seed = None if seed is None else int(seed)
        self._secret = key if seed is None else str(self._seed).encode()
        self._stream = stream
        self._keys = 0
        self._lock = threading.Lock()
        self._bits: Keystream | None = None  # from the first draw on: many sources are made and never drawn from

    @property
    def is_seeded(self) -> bool:
        """Whether the noise can be repeated by whoever knows the seed: then it protects nobody."""
        return self._seed is not None

    def uniform(self, size: Shape) -> Vector:
        """Uniform numbers in (0, 1), never 0 or 1: odd multiples of 2^-53."""
        return _middle(self._words(_count(size))).reshape(size)

    def coin(self, probability: float, size: Shape) -> npt.NDArray[np.bool_]:
        """True with this probability: exactly so from 2^-11 on, and at most 2^-64 more often below that."""
        if not 0 <= probability <= 1:
            raise InputError(f"probability={probability} is not allowed: it must be between 0 and 1")
        words = self._words(_count(size)).reshape(size)
        threshold = math.ceil(math.ldexp(float(probability), 64))
        if threshold == 2**64:
            return np.ones(words.shape, dtype=np.bool_)
        return np.asarray(words < np.uint64(threshold))

    def gaussian(self, size: Shape, sd: float) -> Vector:
        """Gaussian noise rounded to multiples of `grid_step(sd)`, exactly in its law (docs/proofs/grid.md)."""
        step = grid_step(sd)
        return (self._steps(_count(size), sd / step).astype(np.float64) * step).reshape(size)

    def release(self, value: npt.ArrayLike, sd: float, sensitivity: float) -> GridRelease:
        """Round a value to the grid and add Gaussian noise.

        Parameters
        ----------
        value : array
            What is to be protected.
        sd : float
            Standard deviation of the noise; see `sd_for`.
        sensitivity : float
            L2 sensitivity of the value as it is computed, before it is on the grid.

        Returns
        -------
        GridRelease
            At most as informative as the Gaussian mechanism with this sd and the sensitivity that it states.
        """
        noisy = self.add(value, sd)
        return GridRelease(noisy, grid_sensitivity(sensitivity, sd, noisy.size), grid_step(sd))

    def add(self, value: npt.ArrayLike, sd: float) -> Vector:
        """The value on the grid with Gaussian noise, where the plan has accounted for its sensitivity."""
        step = grid_step(sd)
        array = np.asarray(value, dtype=np.float64)
        total = _to_grid(array, step) + self._steps(array.size, sd / step).reshape(array.shape)
        return np.asarray(total.astype(np.float64) * step)

    def _steps(self, count: int, ratio: float) -> Integers:
        """Gaussian noise of sd `ratio`, rounded to integers."""
        steps = np.empty(count, dtype=np.int64)
        for start in range(0, count, CHUNK):
            part = steps[start : start + CHUNK]
            part[:] = rounded_gaussian(self._words(part.size), ratio, self._word)
        return steps

    def _word(self) -> int:
        return int(self._words(1)[0])

    def _words(self, count: int) -> Words:
        with self._lock:
            if self._bits is None or self._is_forked() or count > self._bits.room:
                self._bits = self._renew()
            return self._bits.words(count)

    def _is_forked(self) -> bool:
        return self._process != os.getpid() and self._secret is None

    def _renew(self) -> Keystream:
        """Take a new key: at the start, when one is used up, and in a forked child, whose noise must be its own."""
        self._process = os.getpid()
        self._keys += 1
        if self._secret is None:
            return Keystream(os.urandom(KEY_BYTES))
        return Keystream(derive_key(self._secret, "noise", self._stream, self._keys))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a NoiseSource is not copied, since two copies would add the same noise: make a new one")


def grid_step(sd: float) -> float:
    """Step of the grid for noise of this standard deviation: the largest power of two up to sd * 2^-24."""
    if not SMALLEST_SD <= sd <= LARGEST_SD:
        raise InputError(f"sd={sd} is not allowed: it must be between {SMALLEST_SD:g} and {LARGEST_SD:g}")
    return math.ldexp(1.0, math.frexp(sd)[1] - 1 - GRID_BITS)


def grid_sensitivity(sensitivity: float, sd: float, size: int) -> float:
    """L2 sensitivity of a value of `size` entries after rounding to the grid: at most D + g sqrt(size), rounded up."""
    _check_sensitivity(sensitivity)
    return _up(sensitivity + _up(grid_step(sd) * _up(math.sqrt(size))))


def sd_for(mu: float, sensitivity: float, size: int) -> float:
    """Standard deviation with which `release` is mu-GDP, the rounding to the grid included."""
    _check_sensitivity(sensitivity)
    rest = mu - _up(math.ldexp(_up(math.sqrt(size)), -GRID_BITS))
    if not 0 < rest < math.inf:
        lowest = math.sqrt(size) * 2.0**-GRID_BITS
        raise InputError(f"mu={mu} is not allowed for {size} entries: it must be finite and above {lowest:.2g}")
    return max(_up(_up(_up(sensitivity) / rest), 8), SMALLEST_SD)


def rounded_gaussian(words: Words, ratio: float, more: Callable[[], int]) -> Integers:
    """round(ratio * Phi^-1(U)) where U starts with the first 52 bits of a word and goes on with bits from `more`.

    Nearly every cell follows from those bits and a float; the others are settled with as many bits as they need.
    """
    exact = ratio * ndtri(_middle(words))
    steps = np.rint(exact)
    unsure = np.abs(exact - steps) > 0.5 - FAST_MARGIN * ratio
    unsure |= np.abs(exact) > FAST_REACH * ratio
    cells: Integers = steps.astype(np.int64)
    for i in np.flatnonzero(unsure):
        prefix = int(words[i]) >> (64 - PREFIX_BITS)
        low, high = _possible_cells(prefix, ratio)
        cells[i] = low if low == high else _settle(prefix, ratio, (low, high), more)
    return cells


def _possible_cells(prefix: int, ratio: float) -> tuple[int, int]:
    """First and last cell where ratio * Phi^-1(U) can lie, given the first bits of U."""
    ends = ndtri(np.ldexp([prefix, prefix + 1.0], -PREFIX_BITS))
    ends = np.clip(ends, -FARTHEST, FARTHEST)
    error = NDTRI_ERROR * ratio * (1 + np.abs(ends))
    low, high = np.rint(ratio * ends + error * [-1.0, 1.0])
    return int(low), int(high)


def _settle(prefix: int, ratio: float, cells: tuple[int, int], more: Callable[[], int]) -> int:
    """The cell of U among several, by bisection; every comparison draws bits until it is certain."""
    low, high = cells
    uniform = _Uniform(prefix, more)
    while low < high:
        middle = (low + high) // 2
        if uniform.is_below_end(middle, ratio):
            high = middle
        else:
            low = middle + 1
    return low


class _Uniform:
    """A uniform number in (0, 1) whose bits are drawn when they are needed."""

    def __init__(self, prefix: int, more: Callable[[], int]) -> None:
        self._value, self._bits, self._more = prefix, PREFIX_BITS, more
        self._extend()

    def is_below_end(self, cell: int, ratio: float) -> bool:
        """Whether it is below Phi((cell + 1/2) / ratio), where the cell ends."""
        while True:
            end = _scaled_cdf(cell, ratio, self._bits)
            if self._value + 1 < end:
                return True
            if self._value > end + 1:
                return False
            self._extend()

    def _extend(self) -> None:
        self._value, self._bits = self._value << 64 | self._more(), self._bits + 64


def _scaled_cdf(cell: int, ratio: float, bits: int) -> int:
    """Phi((cell + 1/2) / ratio) * 2^bits, rounded down, from 64 bits more."""
    with _EXACT_LOCK:
        _EXACT.prec = bits + 64
        return int(_EXACT.floor(_EXACT.ldexp(_EXACT.ncdf((_EXACT.mpf(cell) + 0.5) / ratio), bits)))


def _middle(words: Words) -> Vector:
    """Middle of the interval of the uniform numbers that start with the first 52 bits of each word."""
    odd = (words >> np.uint64(11)) | np.uint64(1)
    return odd.astype(np.float64) * 2.0**-53


def _to_grid(value: Vector, step: float) -> Integers:
    """The nearest multiples of the step, counted in steps, and at most 2^62 of them either way; NaN counts as 0.

    No value is refused: that it was would be seen, and the value is private. Holding an entry to the range brings two
    values no further apart than they were (docs/proofs/grid.md, theorem 1).
    """
    with np.errstate(over="ignore"):  # infinity is held to the range, too
        steps = np.rint(np.ldexp(value, 1 - math.frexp(step)[1]))
    return np.clip(np.where(np.isnan(steps), 0.0, steps), -LARGEST, LARGEST).astype(np.int64)


def _count(size: Shape) -> int:
    count = math.prod(size) if isinstance(size, tuple) else size
    if count < 0:
        raise InputError(f"size={size} is not allowed: it must be 0 or more")
    return count


def _check_sensitivity(sensitivity: float) -> None:
    if not 0 <= sensitivity < math.inf:
        raise InputError(f"sensitivity={sensitivity} is not allowed: it must be finite and 0 or more")


def _up(number: float, ulps: int = 1) -> float:
    """A number some floats above: no rounding may make a claim smaller."""
    return number + ulps * math.ulp(number)


# --- Noise whose density depends on its norm alone: proportional to exp(-rate |e|), in any number of dimensions


def norm_noise(source: NoiseSource, size: int, rate: float) -> Vector:
    """One vector of density proportional to exp(-rate |e|).

    Parameters
    ----------
    source : NoiseSource
    size : int
        Its number of entries, at least 1.
    rate : float
        How fast the density falls with the norm: the mean norm is size / rate.
    """
    if not 0 < rate < math.inf:
        raise InputError(f"rate={rate} is not allowed: it must be finite and above 0")
    if size < 1:
        raise InputError(f"size={size} is not allowed: it must be at least 1")
    uniform = source.uniform(size + 1)
    direction = ndtri(uniform[:size])
    norm = float(gammaincinv(size, uniform[size])) / rate
    return np.asarray(direction * (norm / float(np.linalg.norm(direction))))


def largest_norm(size: int, rate: float) -> float:
    """The longest vector that `norm_noise` can make: its norm comes from a uniform number of at most 1 - 2^-53."""
    return float(gammaincinv(size, 1.0 - 2.0**-53)) / rate * (1 + 1e-9)


# --- Labels under randomized response: each one kept or flipped once


_DIGITS = Context(prec=60)
_RAISE = Decimal("1." + 49 * "0" + "1")  # by 1e-50, far above the relative error of 60 digits
_LARGEST = 700  # from here on q is below 2^-64, the least probability of a coin


def randomize_labels(labels: Vector, epsilon: float, source: NoiseSource) -> Vector:
    """Flip each label with probability 1 / (1 + e^epsilon), independently.

    Parameters
    ----------
    labels : array of n
        -1 or +1.
    epsilon : float
        What each label is protected by, above 0.
    source : NoiseSource
        Where the coins come from; one with a seed protects nobody.

    Returns
    -------
    array of n
        Randomized labels. No label is flipped less often than with probability 1 / (1 + e^epsilon): all rounding goes
        to more flipping, and never beyond 1/2.

    Raises
    ------
    InputError
        For labels other than -1 and +1; the message never shows a label.
    """
    values = _binary(labels)
    flip = source.coin(_flip_probability(epsilon), values.size)
    return np.where(flip, -values, values)


def keep_probability(epsilon: float) -> float:
    """Probability with which a label is kept: e^epsilon / (1 + e^epsilon)."""
    return 1.0 / (1.0 + math.exp(-positive(epsilon, "epsilon")))


def debiased(labels: Vector, epsilon: float) -> Vector:
    """Unbiased estimate of each true label on the scale 0, 1 from its randomized form -1 or +1.

    It is (y01' - q) / (1 - 2q), outside [0, 1] by construction: for sums and averages, not for one row.
    """
    return np.asarray(0.5 + _binary(labels) / (2.0 * math.tanh(0.5 * positive(epsilon, "epsilon"))))


def label_noise(epsilon: float) -> float:
    """Variance of `debiased` around the true label: q (1 - q) / (1 - 2q)^2, that is, 1 / (2 sinh(epsilon / 2))^2."""
    half = 0.5 * positive(epsilon, "epsilon")
    odds = math.exp(-half) / -math.expm1(-2.0 * half)  # 1 / (2 sinh), without overflow
    return odds * odds


def _flip_probability(epsilon: float) -> float:
    """A float that is at least 1 / (1 + e^epsilon), and at most 1/2."""
    size = Decimal(min(positive(epsilon, "epsilon"), _LARGEST))
    exact = _DIGITS.multiply(_DIGITS.divide(1, _DIGITS.add(1, _DIGITS.exp(size))), _RAISE)
    near = float(exact)
    return min(near if Decimal(near) >= exact else math.nextafter(near, 1.0), 0.5)


def _binary(labels: Vector) -> Vector:
    """Labels as float64, each of them -1 or +1; messages never show one, since they are private."""
    values = np.asarray(labels, dtype=np.float64)
    if values.ndim != 1:
        raise InputError(f"labels have shape {values.shape}: give one for each row")
    bad = np.flatnonzero(np.abs(values) != 1)
    if bad.size:
        raise InputError(f"labels must be -1 or +1: that of row {bad[0] + 1} is neither; encode the two classes so")
    return values

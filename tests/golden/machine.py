"""What the last bits of floats depend on, besides the code."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

from threadpoolctl import threadpool_info

from tests.golden import adapter

COMPUTE = ("numpy", "scipy", "scikit-learn", "numba")


@cache
def fingerprint() -> dict[str, str]:
    """The processor, Python, and the packages and libraries that compute."""
    known = adapter.versions()
    return {
        "processor": _processor(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: known[name] for name in COMPUTE},
        "blas": ", ".join(sorted(_blas())),
    }


def _processor() -> str:
    """Its name and a digest of what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.system()} {platform.machine()}"
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    flags = " ".join(sorted((fields.get("flags") or fields.get("Features") or "").split()))
    return f"{fields.get('model name', platform.machine())} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"


def _blas() -> set[str]:
    import numpy.linalg  # noqa: F401
    import scipy.linalg  # noqa: F401

    found = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return {f"{one['internal_api']} {one['version']} {one.get('architecture', '')}".strip() for one in found}

"""The software that computed a run."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata
from types import MappingProxyType

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "dp-accounting", "cryptography")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute runs."""
    return dict(_found())


@cache
def _found() -> MappingProxyType[str, str]:
    from tacit import __version__

    found = {"tacit": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return MappingProxyType(found)

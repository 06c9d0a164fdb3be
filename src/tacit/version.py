"""The version of this package, and of what it runs on."""

from __future__ import annotations

__version__ = "0.1.0"


def version_lines() -> list[str]:
    """The versions that a bug report needs: of Tacit, Python, the system and every package that Tacit can use."""
    import platform
    import re
    from importlib import metadata

    stated = [re.match(r"[\w.-]+", one) for one in metadata.requires("tacit") or ()]
    names = sorted({name[0].lower() for name in stated if name is not None} - {"tacit"})
    lines = [f"tacit {__version__}", f"python {platform.python_version()}", f"system {platform.platform()}"]
    for name in names:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    return lines

"""Fill the page templates; what is put in is always escaped."""

from __future__ import annotations

from functools import cache
from typing import Any


def fill(template: str, **values: Any) -> str:
    """The page of a template of the package, as text."""
    return str(_environment().get_template(template).render(**values))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("tacit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

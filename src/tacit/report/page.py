"""Fill the page templates; what is put in is always escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

HOME = "tacit.report"


def fill(template: str, /, home: str = HOME, **values: Any) -> str:
    """The page of a template as text: of this package, or of another that builds on its shell."""
    return str(_environment(home).get_template(template).render(**values))


@cache
def _environment(home: str) -> Any:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys([home, HOME])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

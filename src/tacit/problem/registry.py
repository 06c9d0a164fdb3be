"""Finding a loss or a regularizer by the name a user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from tacit.errors import InputError

T = TypeVar("T")


def find(kind: str, name: object, known: Mapping[str, type[T]]) -> type[T]:
    """Class registered under a name.

    Parameters
    ----------
    kind : str
        What the name is of, as the user knows it: "loss", "regularizer".
    name : object
        What the user wrote.
    known : mapping of str to class

    Returns
    -------
    type

    Raises
    ------
    InputError
        Where the name is not registered; the message suggests the nearest and lists all.
    """
    if isinstance(name, str) and name in known:
        return known[name]
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5) if isinstance(name, str) else []
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"{kind}={name!r} is unknown: {hint}choose one of {', '.join(sorted(known))}")

"""A list of another party on its way through this one, which adds its key and puts the list into a secret order."""

from __future__ import annotations

import numpy as np

from tacit.alignment.elements import Elements, Positions, refuse_repeated, secret_order
from tacit.alignment.key import NotAPointError, SecretKey
from tacit.errors import RunError


class Passing:
    """One list, taken in pieces, given on in pieces in another order, and positions on their way back.

    Parameters
    ----------
    size : int
        Its number of elements.
    sender : str
        Who had it before.
    """

    def __init__(self, size: int, sender: str) -> None:
        self.size, self.sender = size, sender
        self._parts: list[Elements] = []
        self._taken = self._returned = 0
        self._order: Positions | None = None
        self._mixed: Elements | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether the whole list came, and was put into its new order."""
        return self._order is not None

    def take(self, start: int, elements: Elements, key: SecretKey) -> None:
        """Add the key to the next piece."""
        if start != self._taken or start + len(elements) > self.size:
            raise RunError(
                f"elements {start} to {start + len(elements)} came where {self._taken} of {self.size} were taken: "
                "start the alignment again"
            )
        try:
            self._parts.append(key.add_to(elements))
        except NotAPointError as error:
            raise RunError(f"{self.sender} sent an encrypted id that is no point of the curve") from error
        self._taken += len(elements)

    def mixed(self, start: int, stop: int) -> Elements:
        """A piece of the list in its new order, once all of it was taken."""
        if self._mixed is None:
            self._mix()
        assert self._mixed is not None
        return self._mixed[start:stop]

    def back(self, positions: Positions, total: int) -> Positions:
        """Where these elements, a piece of `total`, stood in the list as it came."""
        self._returned += len(positions)
        if self._order is None or self._returned > total:
            raise RunError(f"{self._returned} positions came back where at most {total} are due: start again")
        self._mixed = None
        return self._order[positions]

    def _mix(self) -> None:
        """Put the whole list into a secret order, once."""
        if self._taken < self.size or self._order is not None:
            raise RunError(f"the list was asked for when {self._taken} of {self.size} were taken: start again")
        whole = np.concatenate(self._parts)
        refuse_repeated(whole, self.sender)
        self._parts.clear()
        self._order = secret_order(self.size)
        self._mixed = whole[self._order]

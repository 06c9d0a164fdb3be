"""A request that a party refuses: the HTTP status, and one line for whoever asked."""

from __future__ import annotations

from tacit.errors import TacitError


class RefusedError(TacitError):
    """A request is refused.

    Parameters
    ----------
    status : int
        HTTP status.
    text : str
        Why, and the way out; never an id or a score.
    retry_after : int, optional
        Seconds after which the same request may be answered.
    """

    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.retry_after = status, retry_after

"""Questions that are asked again until they are answered, and done once: who asks numbers them.

A network may lose a question or its answer, bring it twice, or bring it late. The same number of the same caller is the
same question: its answer is given again, and what it asks for is not done again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from tacit.federation.protocol import Reason, Refused, encode

KEPT = 4  # answers for each caller; one asks for two things at once at most


class Once:
    """Does each numbered question of each caller once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, dict[int, Future[bytes]]] = {}
        self._newest: dict[str, int] = {}

    def do(self, caller: str, number: int, work: Callable[[], bytes]) -> bytes:
        """The answer of `work`; where the question came before, its answer, which may have to be waited for."""
        with self._lock:
            known = self._answers.setdefault(caller, {})
            if number in known:
                answer, new = known[number], False
            elif number <= self._newest.get(caller, 0) - KEPT:
                return encode(Refused(reason=Reason.OLD))  # nobody waits for its answer
            else:
                answer, new = known.setdefault(number, Future()), True
                self._newest[caller] = max(number, self._newest.get(caller, 0))
                for old in [one for one in known if one <= self._newest[caller] - KEPT]:
                    del known[old]
        if new:
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)
        return answer.result()

"""Jobs that train nothing: every site says that it is there, or carries numbers to see how long that takes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from nvflare.collab import collab

from tacit.federation.child import end_with_parent
from tacit.federation.kit import Kit
from tacit.files import write_json
from tacit.version import __version__

__all__ = ["Caller", "Echo", "Present", "Stopwatch"]

SECONDS = 60.0
TIMES = "times.json"


class Caller:
    """Asks every site, at the server."""

    def __init__(self) -> None:
        end_with_parent()

    @collab.main
    def run(self) -> dict[str, Any]:
        """Ask, and return the answers by site."""
        answers = dict(collab.clients(timeout=30).present())
        print(f"roll call: {sorted(answers.items())}", flush=True)
        return answers


class Present:
    """Answers, at a party."""

    def __init__(self) -> None:
        end_with_parent()

    @collab.publish
    def present(self) -> str:
        """Return the version, and whether the site's kit is known."""
        return f"{__version__} {'with' if os.environ.get('TACIT_KIT') else 'without'} kit"


class Stopwatch:
    """At the server: lets a site exchange numbers that mean nothing, and keeps the seconds of each round.

    Parameters
    ----------
    run : str
        Names the folder of the server's kit with the times.
    lead : str
        The site that asks.
    others : sequence of str
        The sites that it asks.
    rounds : sequence
        For each round its exchanges: the sizes of the arrays that go to each site, and of those that come back; or,
        between neighbours, who hands whom arrays of which sizes.
    neighbours : bool, default False
        Whether sites hand each other arrays, kept in step by the lead.
    """

    def __init__(
        self,
        run: str,
        lead: str,
        others: Sequence[str],
        rounds: Sequence[Sequence[Sequence[Any]]],
        neighbours: bool = False,
    ) -> None:
        self.run, self.lead = run, lead
        end_with_parent()
        self.plan = {"others": others, "rounds": rounds, "neighbours": neighbours}

    @collab.main
    def start(self) -> None:
        """Let the lead exchange, and write the times."""
        leading = collab.get_clients([self.lead])[0]
        times = leading(timeout=3_600.0).lead(**self.plan)
        folder = Kit.from_environment().jobs / self.run
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / TIMES, {"seconds": [float(value) for value in times]})


class Echo:
    """At a site: sends and takes arrays of given sizes as bytes, as runs do, and does nothing with them."""

    def __init__(self) -> None:
        end_with_parent()
        self.noise = np.random.default_rng(0)
        self.kept: dict[int, bytes] = {}

    @collab.publish
    def echo(self, arrays: list[Any], sizes: list[int]) -> list[Any]:
        """Answer with as many numbers as wanted."""
        return self._fresh(sizes)

    @collab.publish
    def play(self, handing: list[Any]) -> bool:
        """Hand each neighbour arrays of the sizes that are for it, at once."""
        coming = []
        for neighbour, sizes in handing:
            asked = collab.get_clients([neighbour])(timeout=SECONDS, blocking=False)
            coming.append(asked.put(arrays=self._fresh(sizes)))
        return all([done for _, done in queue] == [True] for queue in coming)

    @collab.publish
    def put(self, arrays: list[Any]) -> bool:
        """Take a neighbour's arrays."""
        return True

    @collab.publish
    def lead(
        self,
        others: list[str],
        rounds: list[list[Any]],
        neighbours: bool,
    ) -> list[float]:
        """Exchange round after round; the seconds of each."""
        site, times = collab.site_name, []
        for exchanges in rounds:
            began = time.perf_counter()
            if neighbours:
                self._in_step(site, others, exchanges)
            for sent, wanted in () if neighbours else exchanges:
                asked = collab.get_clients(others)(timeout=SECONDS)
                replies = asked.echo(arrays=self._fresh(sent), sizes=wanted)
                if len(list(replies)) != len(others):
                    raise RuntimeError(f"not every site answered: {sorted(replies.failures)}")
            times.append(time.perf_counter() - began)
        return times

    def _in_step(self, site: str, others: list[str], messages: list[Any]) -> None:
        """Let every site hand its neighbours arrays, at once."""
        handing = {name: [[to, sizes] for sender, to, sizes in messages if sender == name] for name in (site, *others)}
        coming = []
        for name in others:
            asked = collab.get_clients([name])(timeout=SECONDS, blocking=False)
            coming.append(asked.play(handing=handing[name]))
        done = [self.play(handing[site]), *(answer for queue in coming for _, answer in queue)]
        if done != [True] * (1 + len(others)):
            raise RuntimeError("not every site handed its arrays over")

    def _fresh(self, sizes: Sequence[int]) -> list[bytes]:
        """So many numbers each, which nothing could compress."""
        for size in sizes:
            if size not in self.kept:
                self.kept[size] = self.noise.normal(size=size).tobytes()
        return [self.kept[size] for size in sizes]

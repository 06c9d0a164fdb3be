"""Many small runs in little time, in an order that no scheduler decides."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from tacit.plan import from_job

THREADED, POOL = ("tacit.federation", "tacit.alignment"), "ThreadPoolExecutor"
PLANNERS = ("plan_job", "plan_nodes")


@contextmanager
def steady_pace(plans: dict[str, Any]) -> Iterator[None]:
    """Inside, sites ask each other one after the other, plans are made once, and no disk is waited for.

    Parameters
    ----------
    plans : dict
        Plans by what they are made from, which are a job and public sizes; kept from run to run.
    """
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith(THREADED) and hasattr(module, POOL):
                stack.enter_context(patch.object(module, POOL, OneByOne))
        for planner in PLANNERS:
            plain = getattr(from_job, planner)
            kept = _remembering(plain, plans)
            for name, module in list(sys.modules.items()):
                if name.startswith("tacit.") and getattr(module, planner, None) is plain:
                    stack.enter_context(patch.object(module, planner, kept))
        stack.enter_context(patch.object(os, "fsync", lambda descriptor: None))  # the folder does not outlive the audit
        yield


def _remembering(plain: Callable[..., Any], plans: dict[str, Any]) -> Callable[..., Any]:
    def plan(job: Any, *sizes: Any, **more: Any) -> Any:
        key = f"{plain.__name__} {job.to_toml('.')} {sizes!r} {sorted(more.items())!r}"
        if key not in plans:
            plans[key] = plain(job, *sizes, **more)
        return plans[key]

    return plan


class OneByOne:
    """A pool of no threads: what is submitted is done at once."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it, and keep what came of it."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except BaseException as error:  # a process that dies dies where the result is taken
            done.set_exception(error)
        return done

    def map(self, work: Callable[..., Any], *parts: Iterable[Any]) -> Iterator[Any]:
        """Do it for each, and yield what came of it."""
        waiting = [self.submit(work, *args) for args in zip(*parts, strict=False)]
        return (done.result() for done in waiting)

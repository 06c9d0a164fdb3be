"""A Dask cluster of one party: the connection, and work on it whose outcome does not depend on who did it when.

The only file that knows Dask. Functions go to the workers by their names, so that every worker needs this package.
"""

from __future__ import annotations

import ipaddress
import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import tacit
from tacit.data.wording import one_line, show
from tacit.errors import InputError, RunError, TacitError
from tacit.types import Vector

CONNECT_SECONDS = 20.0  # to reach the scheduler, and until a worker is there
ALONE_SECONDS = 60.0  # that a run waits for a worker when none is left
LOOK_SECONDS = 5.0  # between looks at whether one is
TERMS = 8  # that one sum adds: sums of sums, always of the same ones in the same order
TLS_FILES = ("ca.pem", "cert.pem", "key.pem")
MISSING = "Dask is not installed: pip install 'tacit[dask]'"


class ClusterGoneError(RunError):
    """The cluster does not answer, or has no workers any more."""


class ClusterDataError(InputError):
    """A worker cannot use the rows that it was to read."""


@dataclass(frozen=True)
class ClusterAddress:
    """Where a party's cluster is.

    Attributes
    ----------
    scheduler : str
        Address of its scheduler, "tls://HOST:PORT" or "tcp://HOST:PORT".
    tls : str or None
        Folder with ca.pem, cert.pem and key.pem, for tls://.
    insecure : bool
        Whether tcp:// may be used between machines.
    """

    scheduler: str
    tls: str | None = None
    insecure: bool = False

    def check(self) -> None:
        """Refuse an address that is none, or that nothing protects.

        Raises
        ------
        InputError
        """
        kind, host = self._parts()
        if kind == "tls":
            if self.tls is None:
                raise InputError(
                    f"dask {show(self.scheduler)}: tls:// needs the folder with {', '.join(TLS_FILES)}: "
                    "give --dask-tls FOLDER (dask_tls in site.toml)"
                )
            for name in TLS_FILES:
                if not Path(self.tls, name).is_file():
                    raise InputError(f"there is no {name} in {show(self.tls)}, which tls:// needs: put it there")
        elif not self.insecure and not _is_loopback(host):
            raise InputError(
                f"dask {show(self.scheduler)} is not encrypted, and whoever reaches it can run code there: use tls://, "
                "or say --dask-insecure (dask_insecure = true in site.toml) where the network is your own"
            )

    def _parts(self) -> tuple[str, str]:
        try:
            parts = urlsplit(self.scheduler)
            right = parts.scheme in ("tls", "tcp") and parts.hostname and parts.port and not parts.path
        except ValueError:
            right = False
        if not right:
            raise InputError(f"dask {show(self.scheduler)} is no address: write tls://HOST:PORT, or tcp://HOST:PORT")
        return parts.scheme, parts.hostname or ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Cluster:
    """A connection to a party's cluster; `connect` makes it."""

    def __init__(self, address: ClusterAddress, client: Any) -> None:
        self.address, self._client = address, client

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return bool(self._client.status == "running")

    def close(self) -> None:
        """Let go of the cluster, and of everything that it keeps for this process."""
        if _OPEN.get(self.address) is self:
            del _OPEN[self.address]
        self._client.close(timeout=2)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Have a function called on some worker; what was submitted before may be among its arguments."""
        with self._watched():
            return self._client.submit(function, *arguments, pure=False)

    def result(self, future: Any) -> Any:
        """Wait for the outcome; what a lost worker held is made again.

        Raises
        ------
        InputError, RunError
            As the function raised them; `ClusterGoneError` where the cluster is gone.
        """
        alone = 0.0
        while True:
            with self._watched():
                try:
                    return future.result(timeout=LOOK_SECONDS)
                except TimeoutError:
                    alone = 0.0 if self._client.nthreads() else alone + LOOK_SECONDS
            if alone >= ALONE_SECONDS:
                raise self._gone(f"no worker for {ALONE_SECONDS:g} s")

    def total(self, terms: Sequence[Any]) -> tuple[Vector, ...]:
        """Sum of tuples of arrays that were submitted, on the cluster; the order is that of the terms."""
        while len(terms) > 1:
            groups = [terms[start : start + TERMS] for start in range(0, len(terms), TERMS)]
            terms = [group[0] if len(group) == 1 else self.submit(add, *group) for group in groups]
        found: tuple[Vector, ...] = self.result(terms[0])
        return found

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn what the library raises into a line."""
        try:
            yield
        except TacitError:
            raise
        except (Exception, CancelledError) as error:
            raise self._gone(f"{type(error).__name__}: {one_line(error)}") from error

    def _gone(self, reason: str) -> ClusterGoneError:
        return ClusterGoneError(
            f"the Dask cluster at {self.address.scheduler} cannot go on ({reason[:200]}): see to it, then go on with "
            "--resume"
        )


def add(*terms: tuple[Vector, ...]) -> tuple[Vector, ...]:
    """Sum of tuples of arrays, position by position."""
    totals = [array.copy() for array in terms[0]]
    for term in terms[1:]:
        for total, array in zip(totals, term, strict=True):
            total += array
    return tuple(totals)


_OPEN: dict[ClusterAddress, Cluster] = {}


def connect(address: ClusterAddress) -> Cluster:
    """Connect to a cluster; a process keeps one connection for each address.

    Raises
    ------
    InputError
        For an address that cannot be used, and for workers with another version of this package.
    ClusterGoneError
        Where nobody answers, or there are no workers.
    """
    address.check()
    known = _OPEN.get(address)
    if known is not None and known.is_open:
        return known
    try:
        import dask
        import distributed
    except ImportError as error:
        raise InputError(MISSING) from error
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})  # vectors travel with their tasks
    _be_quiet()
    try:
        security = None if address.tls is None else _security(distributed, Path(address.tls))
        client = distributed.Client(address.scheduler, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:
        raise ClusterGoneError(
            f"cannot reach the Dask scheduler at {address.scheduler} ({one_line(error)[:200]}): start it, or fix the "
            "address"
        ) from error
    found = _OPEN[address] = Cluster(address, client)
    try:
        _check_workers(client, address)
    except BaseException:
        found.close()
        raise
    return found


def _check_workers(client: Any, address: ClusterAddress) -> None:
    """Refuse a cluster without workers, or with others than ours."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        versions = set(client.run(worker_version).values())
    except TimeoutError as error:
        raise ClusterGoneError(
            f"the Dask cluster at {address.scheduler} has no workers: start some, with dask worker {address.scheduler}"
        ) from error
    except Exception as error:
        raise InputError(
            f"the workers of the Dask cluster at {address.scheduler} cannot run tacit ({one_line(error)[:200]}): "
            f"install tacit {tacit.__version__} there, the same version as here"
        ) from error
    if versions != {tacit.__version__}:
        found = ", ".join(sorted(versions))
        raise InputError(f"the workers of the Dask cluster run tacit {found}: install {tacit.__version__} everywhere")


def worker_version() -> str:
    """Version of this package where it is called."""
    return tacit.__version__


def _security(distributed: Any, folder: Path) -> Any:
    """Certificates for both directions."""
    ca, cert, key = (str(folder / name) for name in TLS_FILES)
    return distributed.Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)


def _be_quiet() -> None:
    """Leave what goes wrong to our own line: the library says it in many, and again while it tries again."""
    for name in ("distributed", "distributed.client", "distributed.comm", "distributed.core", "distributed.batched"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

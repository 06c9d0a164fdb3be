"""A party's rows on a Dask cluster of its own: the connection, and rows that workers read, keep and multiply.

The outcome of work on the cluster does not depend on who did it when. This is the only file that knows Dask. Functions
go to the workers by their names, so that every worker needs this package.

Rows are read from Parquet files by the workers, kept there, and never here. They stay in the order of the files.
Vectors that go with them are in the order that the parties have in common, of which only this side knows; it picks for
each block the entries that belong to its rows.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tacit.columns.table import Table
from tacit.data.align import Rows
from tacit.data.load import PartySpec
from tacit.data.read import DAMAGED, arrow_table
from tacit.data.rows_on_disk import Numbers, multiply
from tacit.data.streamed_files import ParquetParty, floats
from tacit.errors import InputError, RunError, TacitError
from tacit.text import one_line, show
from tacit.types import Vector
from tacit.version import __version__

# --- A Dask cluster of one party: the connection, and work on it whose outcome does not depend on who did it when


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
        with suppress(TimeoutError):  # on a busy machine; the scheduler notices by itself that nobody is there
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
        alone, gathering = 0.0, self._gathering(future)
        while not wait([gathering], LOOK_SECONDS).done:
            with self._watched():
                alone = 0.0 if self._client.nthreads() else alone + LOOK_SECONDS
            if alone >= ALONE_SECONDS:
                gathering.cancel()
                raise self._gone(f"no worker for {ALONE_SECONDS:g} s")
        with self._watched():
            return gathering.result()

    def _gathering(self, future: Any) -> Future[Any]:
        """The outcome on its way here, asked for once.

        The time limit of Dask's own `Future.result` would cancel a transfer that began just then, and Dask hands a
        cancelled transfer to whoever asks next.
        """

        async def gather() -> Any:
            return await self._client.gather(future, asynchronous=True)

        with self._watched():
            return asyncio.run_coroutine_threadsafe(gather(), self._client.loop.asyncio_loop)

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
        except (Exception, asyncio.CancelledError) as error:
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
            f"install tacit {__version__} there, the same version as here"
        ) from error
    if versions != {__version__}:
        found = ", ".join(sorted(versions))
        raise InputError(f"the workers of the Dask cluster run tacit {found}: install {__version__} everywhere")


def worker_version() -> str:
    """Version of this package where it is called."""
    return __version__


def _security(distributed: Any, folder: Path) -> Any:
    """Certificates for both directions."""
    ca, cert, key = (str(folder / name) for name in TLS_FILES)
    return distributed.Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)


def _be_quiet() -> None:
    """Leave what goes wrong to our own line: the library says it in many, and again while it tries again."""
    for name in ("distributed", "distributed.client", "distributed.comm", "distributed.core", "distributed.batched"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


# --- A party's rows on a cluster: read from Parquet files by the workers, kept there, and never here


BLOCK_ROWS, BLOCK_BYTES = 1 << 16, 64 << 20  # of one block, at most
BATCH_ROWS = 1 << 14
OPTION = "--dask"


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of one file: `count` of its rows from `start`, the first of which is row `skip` of row group `group`.

    `groups` row groups are read for it.
    """

    file: ParquetParty
    dtype: str
    size: int
    group: int
    groups: int
    skip: int
    start: int
    count: int

    def read(self, kept: npt.NDArray[np.bool_] | None) -> Numbers:
        """The features of these rows; of all, or of those that are kept."""
        try:
            block = self._block()
        except InputError as error:
            raise ClusterDataError(str(error)) from error
        return block if kept is None else block[kept]

    def _block(self) -> Numbers:
        self._check_unchanged()
        block, done = np.empty((self.count, len(self.file.features)), self.dtype), 0
        for batch in self._batches():
            for position, column in enumerate(batch.columns):
                block[done : done + batch.num_rows, position] = floats(column)
            done += batch.num_rows
        if done < self.count:
            raise InputError(f"party {show(self.file.spec.name)}: {show(str(self.file.path))} ends early: train again")
        if not np.isfinite(block).all():
            raise self.file.not_finite(block, self.start)
        return block

    def _check_unchanged(self) -> None:
        """A worker that was lost has its rows read again, and they must be the same."""
        path = self.file.path
        if not path.is_file():
            raise InputError(
                f"party {show(self.file.spec.name)}: a worker of the Dask cluster has no file {show(str(path))}: "
                "put it where every worker has it by this path"
            )
        if os.stat(path).st_size != self.size:
            raise InputError(f"party {show(self.file.spec.name)}: {show(str(path))} is not as it was here: train again")

    def _batches(self) -> Iterator[Any]:
        """Batches of just these rows, columns in the order of the features."""
        names, skip, left = list(self.file.features), self.skip, self.count
        try:
            with self.file.open() as file:
                groups = list(range(self.group, self.group + self.groups))
                for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=names):
                    part = batch.select(names).slice(skip, left)
                    skip, left = max(0, skip - batch.num_rows), left - part.num_rows
                    yield part
                    if not left:
                        return
        except InputError:
            raise
        except DAMAGED as error:
            raise self.file.damaged(error) from error


class ClusterFile:
    """One party's Parquet file, or a folder of such files in the order of their names; only ids and labels are read."""

    def __init__(self, spec: PartySpec, folder: str | os.PathLike[str], label: str) -> None:
        place = Path(folder, spec.data).resolve()
        paths = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not paths:
            raise InputError(f"party {show(spec.name)}: the folder {show(str(place))} has no file *.parquet")
        if not paths[0].name.lower().endswith(".parquet"):
            raise InputError(
                f"party {show(spec.name)}: {OPTION} reads Parquet files, not {show(str(place))}: "
                f"save it as .parquet, or train without {OPTION}"
            )
        self.spec = spec
        self.files = [ParquetParty(replace(spec, data=str(path)), ".", label, OPTION) for path in paths]
        for file in self.files:
            if file.features != self.files[0].features:
                raise InputError(
                    f"party {show(spec.name)}: {show(file.path.name)} has other columns than "
                    f"{show(self.files[0].path.name)}: give all files in {show(str(place))} the same"
                )
        self.features = self.files[0].features
        self.rows = sum(file.rows for file in self.files)
        self.dtype = np.result_type(*(file.dtype for file in self.files))
        self.table = self._table()

    def _table(self) -> Table:
        """The ids and labels as a table, which has as many rows as the files."""
        names = list(self.spec.apart.values())
        parts = []
        for file in self.files:
            try:
                with file.open() as opened:
                    parts.append(opened.read(columns=names))
            except DAMAGED as error:
                raise file.damaged(error) from error
        try:
            data = pa.concat_tables(parts, promote_options="permissive") if names else parts[0].select([])
            data.validate(full=True)
        except DAMAGED as error:
            raise self.files[0].damaged(error) from error
        return arrow_table(data, self.files[0].path, self.spec.name, rows=self.rows)

    def pieces(self) -> Iterator[Piece]:
        """The rows in pieces: small row groups together, large ones cut; the same ones whatever the cluster."""
        most = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (len(self.features) * self.dtype.itemsize)))
        for file in self.files:
            size = os.stat(file.path).st_size
            with file.open() as opened:
                counts = [opened.metadata.row_group(g).num_rows for g in range(opened.metadata.num_row_groups)]
            start = 0
            for first, groups, rows in _together(counts, most):
                ends = np.linspace(0, rows, -(-rows // most) + 1).astype(int).tolist()
                for low, high in pairwise(ends):
                    yield Piece(file, self.dtype.str, size, first, groups, low, start + low, high - low)
                start += rows


def _together(counts: Sequence[int], most: int) -> Iterator[tuple[int, int, int]]:
    """Row groups side by side that make at most so many rows: the first, how many, and their rows."""
    first, rows = 0, 0
    for number, count in enumerate(counts):
        if rows and rows + count > most:
            yield first, number - first, rows
            first, rows = number, 0
        rows += count
    if rows:
        yield first, len(counts) - first, rows


class ClusterRows:
    """A dense n x d matrix in blocks on the workers of a cluster, of which no row is here.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy dtype
    sha256 : str
        Of the content and of the order of the rows.
    sums : array
        Sum of each column.
    """

    def __init__(self, cluster: Cluster, file: ClusterFile, rows: Rows | None = None) -> None:
        place = np.arange(file.rows) if rows is None else np.full(file.rows, -1)
        if rows is not None:
            place[rows] = np.arange(len(rows))
        kept, order = place >= 0, place[place >= 0]
        self.cluster, self.dtype = cluster, file.dtype
        self.shape = (len(order), len(file.features))
        self._order = None if np.array_equal(order, np.arange(len(order))) else order
        self._blocks, ends, start = [], [0], 0
        for piece in file.pieces():
            own = kept[start : start + piece.count]
            start += piece.count
            if own.any():
                self._blocks.append(cluster.submit(Piece.read, piece, None if own.all() else own))
                ends.append(ends[-1] + int(np.count_nonzero(own)))
        self._spans = [slice(low, high) for low, high in pairwise(ends)]
        self.sha256, self.sums = self._describe()

    def _describe(self) -> tuple[str, Vector]:
        """One pass: whatever is wrong with a value is said before anything is trained."""
        digest, sums = hashlib.sha256(), np.zeros(self.shape[1])
        described = [self.cluster.submit(describe, block) for block in self._blocks]
        for future in described:
            own, part = self.cluster.result(future)
            digest.update(own)
            sums += part
        if self._order is not None:
            digest.update(self._order.data)
        return digest.hexdigest(), sums

    @property
    def nbytes(self) -> int:
        """Bytes of it on this machine."""
        return 0

    def total(self, work: Callable[..., tuple[Vector, ...]], along: Sequence[Any], *common: Any) -> tuple[Vector, ...]:
        """Sum over the blocks of work(block, *along, *common).

        Of each array in `along` a block gets the entries of its rows; what is None there stays None.
        """
        terms = [
            self.cluster.submit(work, block, *(self._pick(array, span) for array in along), *common)
            for block, span in zip(self._blocks, self._spans, strict=True)
        ]
        return self.cluster.total(terms)

    def _pick(self, array: Any, span: slice) -> Any:
        if array is None:
            return None
        return np.ascontiguousarray(array[span] if self._order is None else array[self._order[span]])

    def __matmul__(self, x: Vector) -> Vector:
        """The product with a vector, in float64 and in the common order."""
        x, product = np.ascontiguousarray(x, dtype=np.float64), np.empty(self.shape[0])
        parts = [self.cluster.submit(times, block, x) for block in self._blocks]
        for part, span in zip(parts, self._spans, strict=True):
            product[span if self._order is None else self._order[span]] = self.cluster.result(part)
        return product


def describe(block: Numbers) -> tuple[bytes, Vector]:
    """Digest and column sums of a block."""
    return hashlib.sha256(block.data.cast("B")).digest(), block.sum(axis=0, dtype=np.float64)


def times(block: Numbers, x: Vector) -> Vector:
    """The product of a block with a vector."""
    product = np.empty(len(block))
    multiply(block, x, product)
    return product

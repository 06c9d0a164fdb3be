"""From files that may be larger than memory to shards whose rows stay on disk.

Of a file, the ids and the labels are held in memory, one column at a time; its features are read some rows at a time
and written to a scratch file (`rows_on_disk`, `sparse_on_disk`), in the order of the party with the labels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.columns.constants import Encoding, RunningMoments, encoding_of_moments
from tacit.columns.encoder import NumberColumn
from tacit.data.align import Counts
from tacit.data.load import JobData, PartySpec
from tacit.data.read import reader_of
from tacit.data.rows_on_disk import BLOCK_BYTES, Numbers, RowsOnDisk, put, scratch_file, write_rows
from tacit.data.streamed_files import Ids, LibsvmParty, ParquetParty, Places, match
from tacit.errors import InputError
from tacit.files import quote_path
from tacit.text import plural, show
from tacit.types import Shard

PartyFile = ParquetParty | LibsvmParty


def open_files(specs: Sequence[PartySpec], folder: str | os.PathLike[str] = ".") -> list[PartyFile]:
    """The files of all parties, of which only the descriptions have been read.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    label = next((spec.label for spec in specs if spec.label is not None), None)
    return [open_file(spec, folder, label or "") for spec in specs]


def open_file(spec: PartySpec, folder: str | os.PathLike[str], label: str) -> PartyFile:
    """One party's file; `label` is the label of the job, at whichever party."""
    path = Path(folder, spec.data)
    reader_of(path, spec.name)  # refuses what no reader knows
    name = path.name.lower()
    if name.removesuffix(".gz").endswith((".svm", ".libsvm")):
        return LibsvmParty(spec, folder, label)
    if name.endswith(".parquet"):
        return ParquetParty(spec, folder, label)
    raise InputError(
        f"party {show(spec.name)}: --memory reads Parquet and LIBSVM files, not {quote_path(path)}: "
        "save it as .parquet, or train without --memory"
    )


def stream_training_data(files: Sequence[PartyFile], scale: str = "none") -> JobData:
    """Match and check what the parties train on, and bring their rows to scratch files.

    Parameters
    ----------
    files : sequence of PartyFile
        One per party; exactly one names a label column, whose file's order the rows keep.
    scale : {"standard", "range", "none"}
        What is done to numbers, as `EncodeRules` has it; LIBSVM files stay as they are.

    Returns
    -------
    JobData
        Shards whose features are `RowsOnDisk`; `ids` are empty where rows were matched by id.

    Raises
    ------
    InputError
        For values that cannot be used, and where the disk has too little room; the message names the party.
    """
    holder = next(file for file in files if file.spec.label is not None)
    places = _places([holder, *(file for file in files if file is not holder)])
    labels, own = holder.labels(), places.rows[holder.spec.name]
    labels = labels if own is None else labels[own >= 0]
    done: list[RowsOnDisk] = []
    encodings: dict[str, Encoding] = {}
    try:
        for file in files:
            own = places.rows.pop(file.spec.name)
            if isinstance(file, LibsvmParty):
                done.append(file.write())
            else:
                rows, encodings[file.spec.name] = _bring(file, own, places.counts.kept, scale)
                done.append(rows)
    except BaseException:
        for rows in done:
            rows.close()
        raise
    shards = [Shard(file.spec.name, rows, file.features) for file, rows in zip(files, done, strict=True)]
    ids = None if holder.spec.id is None else np.zeros(0, dtype=np.int64)
    return JobData(shards, labels, ids, places.counts, encodings)


def _places(files: Sequence[PartyFile]) -> Places:
    """Where each file's rows go; the first file's order is kept."""
    named = [file for file in files if isinstance(file, ParquetParty) and file.spec.id is not None]  # LIBSVM has none
    if named and len(named) < len(files):
        without = next(file for file in files if file.spec.id is None)
        raise InputError(
            f"an id column is given for party {show(named[0].spec.name)} but not for party {show(without.spec.name)}: "
            "give one for every party, or for none to match rows by position"
        )
    if named:
        by_name = {file.spec.name: file for file in named}
        return match(list(by_name), lambda name: by_name[name].ids())
    if len({file.rows for file in files}) > 1:
        held = ", ".join(f"{show(file.spec.name)} has {plural(file.rows, 'row')}" for file in files)
        raise InputError(
            f"without ids every party needs the same rows in the same order, but party {held}: "
            "name an id column for each party"
        )
    names = [file.spec.name for file in files]
    return Places(dict.fromkeys(names), Counts(files[0].rows, dict.fromkeys(names, 0)))


# --- to the scratch file -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """Blocks of a party's rows, in the order of its file, as often as they are asked for."""

    party: str
    width: int
    dtype: np.dtype[Any]
    blocks: Callable[[], Iterator[Numbers]]


def _bring(file: ParquetParty, places: Ids | None, kept: int, scale: str) -> tuple[RowsOnDisk, Encoding]:
    """A party's rows in their places, encoded as in memory; the constants of a scale take one more reading before."""
    source = _Source(file.spec.name, len(file.features), file.dtype, file.blocks)
    seen = RunningMoments(source.width)
    if scale == "none":
        rows = _write(source, places, kept, seen)
        return rows, encoding_of_moments(file.features, file.unused, seen, scale)
    for block in _kept_rows(source, places):
        seen.add(block)
    encoding = encoding_of_moments(file.features, file.unused, seen, scale)
    columns = [column for column in encoding.encoder.columns if isinstance(column, NumberColumn)]
    scaled = replace(source, dtype=np.dtype(np.float64), blocks=lambda: _encoded(file.blocks(), columns))
    return _write(scaled, places, kept), encoding


def _encoded(blocks: Iterator[Numbers], columns: Sequence[NumberColumn]) -> Iterator[Numbers]:
    for block in blocks:
        wide = block.astype(np.float64)
        for position, column in enumerate(columns):
            wide[:, position] = column.encode(wide[:, position])
        yield wide


def _write(source: _Source, places: Ids | None, kept: int, seen: RunningMoments | None = None) -> RowsOnDisk:
    """A party's rows in their places; `seen` takes them in."""
    shape = (kept, source.width)
    if places is None or _in_order(places):
        return write_rows(_noted(_kept_rows(source, places), seen), shape, source.dtype, source.party)
    with _Buckets(source, places, kept) as buckets:
        return write_rows(_noted(buckets.blocks(), seen), shape, source.dtype, source.party)


def _noted(blocks: Iterator[Numbers], seen: RunningMoments | None) -> Iterator[Numbers]:
    for block in blocks:
        if seen is not None:
            seen.add(block)
        yield block


def _in_order(places: Ids) -> bool:
    """Whether the rows that are kept come in the order of their places."""
    kept = places[places >= 0]
    return bool(np.all(kept[1:] > kept[:-1]))


def _kept_rows(source: _Source, places: Ids | None) -> Iterator[Numbers]:
    start = 0
    for block in source.blocks():
        yield block if places is None else block[places[start : start + len(block)] >= 0]
        start += len(block)


class _Buckets:
    """Rows brought into another order: first to the range of rows they belong to, then, range by range, in order."""

    def __init__(self, source: _Source, places: Ids, kept: int) -> None:
        self.source, self.places, self.kept = source, places, kept
        self.row_bytes = source.width * source.dtype.itemsize
        self.rows = max(1, 8 * BLOCK_BYTES // self.row_bytes)  # of a range
        self.scratch = scratch_file(kept * self.row_bytes, source.party)

    def __enter__(self) -> _Buckets:
        try:
            self._scatter()
        except BaseException:
            self.scratch.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.scratch.close()

    def blocks(self) -> Iterator[Numbers]:
        """The rows in order."""
        for first in range(0, self.kept, self.rows):
            count = min(self.rows, self.kept - first)
            raw = np.empty((count, self.source.width), self.source.dtype)
            self.scratch.seek(first * self.row_bytes)
            if self.scratch.readinto(raw.data.cast("B")) < raw.nbytes:  # type: ignore[attr-defined]
                raise InputError(f"party {show(self.source.party)}: its scratch file was cut short: train again")
            arrived = self.places[(self.places >= first) & (self.places < first + count)]  # in the order they came in
            block = np.empty_like(raw)
            block[arrived - first] = raw
            yield block

    def _scatter(self) -> None:
        """Append each row to its range, in the order of the file."""
        ends = np.arange(0, self.kept, self.rows)
        start = 0
        for block in self.source.blocks():
            places = self.places[start : start + len(block)]
            start += len(block)
            kept = np.flatnonzero(places >= 0)
            ranges = places[kept] // self.rows
            order = np.argsort(ranges, kind="stable")
            numbers, firsts = np.unique(ranges[order], return_index=True)
            for number, rows in zip(numbers, np.split(kept[order], firsts[1:]), strict=True):
                self.scratch.seek(int(ends[number]) * self.row_bytes)
                put(self.scratch, block[rows], self.source.party)
                ends[number] += rows.size

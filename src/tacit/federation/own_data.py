"""A site's own rows, as a job wants them: read from its own file, and never another's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tacit.columns.constants import Encoding
from tacit.columns.raw import RawEncoder
from tacit.columns.table import Table
from tacit.data.align import Rows, text_ids
from tacit.data.cluster import Cluster, ClusterAddress, ClusterFile, ClusterRows, connect
from tacit.data.holdout import HeldOut, Holdout, Mask, cut_rows, held_rows, set_aside
from tacit.data.labels import Labels, encode_labels, file_labels, read_row_values
from tacit.data.load import PartySpec, feature_names, party_encoding, read_training_table
from tacit.data.nodes import load_nodes
from tacit.errors import InputError
from tacit.federation.protocol import Reason, RefusalError
from tacit.files import read_json, text_digest, write_json
from tacit.job import Job
from tacit.plan.terms import curve_columns, loss_of
from tacit.problem.losses import Loss
from tacit.run.checkpoint import fingerprint
from tacit.text import show
from tacit.types import Shard

SIGNS = ({0.0, 1.0}, {-1.0, 1.0})


@dataclass(frozen=True, eq=False)
class OwnFile:
    """One party's file in a feature split, before it is known which rows are common."""

    job: Job
    spec: PartySpec
    table: Table
    features: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return self.table.n_rows

    @property
    def ids(self) -> Any:
        """The ids as text, without blanks and repeats; None where rows are matched by position."""
        return None if self.spec.id is None else text_ids(self.table, self.spec.id)

    def check(self) -> None:
        """Encode all rows of a protected party once: what is wrong is found whichever rows turn out to be common.

        Raises
        ------
        InputError
        """
        if self.spec.name in self.job.protected:
            self.take(None)

    def take(self, rows: Rows | None, held: Mask | None = None) -> OwnRows:
        """The rows that all parties have, in the common order; None takes all as they are. Those `held` are kept out.

        What is learnt of the columns comes from the others alone.
        """
        chosen = np.arange(self.rows) if rows is None else rows
        learnt = chosen if held is None else chosen[~held]
        own = self._as_they_are(chosen, learnt) if self.job.grows_trees(self.spec.name) else self._coded(chosen, learnt)
        return (own if held is None else own.without(held)).weighted(self.job.model.class_weight)

    def _coded(self, chosen: Rows, learnt: Rows) -> OwnRows:
        """Columns as numbers."""
        encoding = party_encoding(
            self.table, self.spec, self.features, learnt, self.job.encode, self.spec.name in self.job.protected
        )
        if encoding is None:
            shard = Shard(self.spec.name, self.table.features(self.features)[chosen], self.features)
        else:
            encoder = encoding.encoder
            shard = Shard(
                self.spec.name, encoder.matrix(self.table, chosen), encoder.names, encoder.curves, encoder.widths
            )
        return OwnRows(shard, self._labels(chosen), encoding)

    def _as_they_are(self, rows: Rows, learnt: Rows) -> OwnRows:
        """Columns as trees take them."""
        raw = RawEncoder.stated(self.table, self.features, self.spec.known_columns(self.features), learnt)
        shard = Shard(self.spec.name, raw.matrix(self.table, rows), raw.names)
        return OwnRows(shard, self._labels(rows), raw=raw)

    def _labels(self, rows: Rows) -> Labels | None:
        if self.spec.label is None:
            return None
        values = file_labels(self.table.column(self.spec.label), party=self.spec.name)
        dropped, loss = len(values) - len(rows), loss_of(self.job)
        labels = encode_labels(values[rows], cast("Loss", loss), self.spec.name, self.spec.positive, dropped=dropped)
        loss.check_labels(labels.values)
        more = read_row_values(self.table, self.spec.row_columns).take(rows)
        return labels.with_rows(more)


@dataclass(frozen=True, eq=False)
class FileOnCluster(OwnFile):
    """The same, of a site whose own cluster reads and keeps its rows; here are ids and labels alone."""

    cluster: Cluster
    source: ClusterFile

    def check(self) -> None:
        """Rows on a cluster are not protected, and are checked there when they are used."""

    def take(self, rows: Rows | None, held: Mask | None = None) -> OwnRows:
        """The rows that all parties have, where they are; none are held out there."""
        chosen = np.arange(self.rows) if rows is None else rows
        features = ClusterRows(self.cluster, self.source, rows)
        own = OwnRows(Shard(self.spec.name, features, self.features), self._labels(chosen))
        return own.weighted(self.job.model.class_weight)


@dataclass(frozen=True, eq=False)
class OwnRows:
    """What a site trains on; labels where it holds them."""

    shard: Shard
    labels: Labels | None = None
    encoding: Encoding | None = None
    raw: RawEncoder | None = None  # how columns were read that trees take as they are
    held: HeldOut | None = None  # rows that are kept out of training; their labels where the site holds them

    def without(self, held: Mask, *, any_class: bool = False) -> OwnRows:
        """The same with some rows kept out of training; `any_class` where others have labels too.

        Raises
        ------
        InputError
            Where only labels of one class would be left to train on.
        """
        if self.labels is None:
            aside = HeldOut((cut_rows(self.shard, held),), np.zeros(0))
            return replace(self, shard=cut_rows(self.shard, ~held), held=aside)
        shards, left, aside = set_aside([self.shard], self.labels.values, [held], any_class=any_class)
        return replace(self, shard=shards[0], labels=replace(self.labels, values=left), held=aside)

    def weighted(self, class_weight: Any) -> OwnRows:
        """The same with the weights of rows and classes, at mean 1 over the rows that are trained on."""
        return self if self.labels is None else replace(self, labels=self.labels.weighted(class_weight))

    @property
    def held_count(self) -> int:
        """Rows that are kept out of training."""
        return 0 if self.held is None else self.held.shards[0].features.shape[0]

    @property
    def held_labels(self) -> Labels:
        """The labels of a site that holds them: of every node, and of the lead of a feature split.

        Raises
        ------
        RefusalError
            At any other site.
        """
        if self.labels is None:
            raise RefusalError(Reason.TURN)
        return self.labels

    def sizes(self, job: Job) -> tuple[int, int, int]:
        """Rows, columns, and those before encoding where curves of public constants bound the norm of a row, else 0.

        Raises
        ------
        InputError
            Where protected rows have curves beside numbers that nothing bounds.
        """
        name, (rows, columns) = self.shard.name, self.shard.features.shape
        known = {name: self.encoding} if self.encoding is not None and name in job.protected else {}
        return rows, columns, curve_columns(known, [name], job.privacy)[0]


def own_spec(job: Job, name: str, data: Path) -> PartySpec:
    """The job's words about this site, with the site's own file."""
    for spec in job.parties:
        if spec.name == name:
            return replace(spec, data=str(data))
    raise InputError(f"the job has no party {show(name)}: it is not for this organisation")


def open_file(job: Job, name: str, data: Path, dask: ClusterAddress | None = None) -> OwnFile:
    """Read a party's file of a feature split; where the site has a cluster, only the ids and labels."""
    spec = own_spec(job, name, data)
    label = next(party.label for party in job.parties if party.label is not None)
    if dask is not None:
        source = ClusterFile(spec, ".", label or "")
        return FileOnCluster(job, spec, source.table, source.features, connect(dask), source)
    table = read_training_table(spec, ".", protected=name in job.protected)
    return OwnFile(job, spec, table, feature_names(table, spec, label or ""))


def open_node(job: Job, name: str, data: Path) -> OwnRows:
    """Read a node's file of a sample split; no constant of the encoding is taken from its rows, as others lack them."""
    spec = own_spec(job, name, data)
    holdout = Holdout(job.holdout, job.seed or 0)
    read = load_nodes([spec], ".", job.encode, protected=True, stated=name in job.protected, holdout=holdout)
    if read.epsilons:
        raise InputError('labels that were randomized beforehand cannot be trained on with engine = "flare" yet')
    labels = _node_labels(job, name, read.labels[0]).with_rows(read.rows[0])
    own = OwnRows(read.shards[0], labels, read.encoding)
    if not job.holdout:
        return own
    held = held_rows(own.shard.features.shape[0], job.holdout, job.seed or 0, read.ids[0])
    return own.without(held, any_class=True)


def _node_labels(job: Job, name: str, values: npt.NDArray[Any]) -> Labels:
    """Labels of one node, which cannot know which classes others have: 0 and 1, -1 and 1, 0 to C - 1, or numbers."""
    loss = cast("Loss", loss_of(job))
    if loss.task != "classification":
        labels = encode_labels(values, loss, name)
        loss.check_labels(labels.values)
        return labels
    if loss.outputs > 1:
        return _node_classes(loss.outputs, name, values)
    found = set(np.unique(values).tolist()) if values.dtype.kind in "biuf" else {None}
    if not any(found <= signs for signs in SIGNS):
        raise InputError(
            f"party {show(name)}: between organisations the labels of a sample split are 0 and 1, or -1 and 1: "
            "write them so at every party"
        )
    classes = (-1, 1) if -1.0 in found else (0, 1)
    return Labels(np.where(np.asarray(values, dtype=np.float64) > 0, 1.0, -1.0), classes)


def _node_classes(count: int, name: str, values: npt.NDArray[Any]) -> Labels:
    """Labels of one node, of more than two classes, of which it may lack some: 0, 1, ... are the agreed list."""
    known = tuple(range(count))
    if values.dtype.kind not in "iuf" or not np.isin(values, known).all():
        raise InputError(
            f"party {show(name)}: between organisations the labels of a sample split with classes = {count} are the "
            f"numbers 0 to {count - 1}: write them so at every party"
        )
    return Labels(np.asarray(values, dtype=np.float64), known)


class UnchangedData:
    """Sees to it that a run goes on with the data that it began with: the same coins on changed rows would show them.

    Parameters
    ----------
    folder : Path
        Where the site keeps the run.
    own : OwnRows
        The data as they are now.
    begun : bool
        Whether something was kept of this run before.
    rows : str
        A fingerprint of which rows of the file these are, in their order. Other rows are refused whether or not they
        hold the same values: a lead that has ids matched again and moves rows would see whether these are alike.

    Raises
    ------
    RefusalError
        Where the data are not those that the run began with.
    """

    FILE = "data.json"  # whoever knows all but one value could find that one: its owner's alone, until the run is over

    def __init__(self, folder: Path, own: OwnRows, *, begun: bool, rows: str = "") -> None:
        labels = Labels(np.zeros(0)) if own.labels is None else own.labels
        self.path, self.record = folder / self.FILE, {**fingerprint([own.shard], labels), "rows": rows}
        if own.held is not None:
            self.record["held"] = fingerprint(own.held.shards, Labels(own.held.labels))
        plain = json.dumps(self.record, sort_keys=True)
        self.digest = text_digest(plain)
        known = read_json(self.path) if self.path.exists() else None
        if (known is None and begun) or (known is not None and known != json.loads(plain)):
            raise RefusalError(Reason.CHANGED, "the data file is not the one that this run began with: start a new run")

    def keep(self) -> None:
        """Write the fingerprint before anything leaves."""
        write_json(self.path, self.record, secret=True)

    @classmethod
    def forget(cls, folder: Path) -> None:
        """Delete the fingerprint of a run that is over."""
        (folder / cls.FILE).unlink(missing_ok=True)

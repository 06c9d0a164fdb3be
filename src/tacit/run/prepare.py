"""From a job and its files to a run that can be trained: both splits, rows in memory, on disk or on a cluster.

| split | rows | read by |
|---|---|---|
| features | in memory | `_in_memory`: matched by id, a part held out |
| features | on disk, where the job states `memory` | `_on_disk`: matched by id, scaled, multiplied in pieces |
| features | on a Dask cluster | `_on_cluster`: its workers read and keep them |
| samples | in memory | `_prepare_nodes`: each node's own, a part of each held out; labels may come randomized |
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tacit.columns.constants import Encoding
from tacit.columns.raw import RawEncoder
from tacit.columns.spec import LINEAR, SPLINE
from tacit.columns.words import constants
from tacit.data.align import Counts, RowMatching, align
from tacit.data.cluster import Cluster, ClusterAddress, ClusterFile, ClusterRows, connect
from tacit.data.holdout import HeldOut, set_aside
from tacit.data.labels import Labels, RowValues, check_labels, encode_labels
from tacit.data.load import JobData, MatchedFiles, load_labelled, match_files
from tacit.data.nodes import NodesData, load_nodes
from tacit.data.read import give_back_memory
from tacit.data.streamed import open_files, stream_training_data
from tacit.errors import InputError
from tacit.job import Job
from tacit.job.file import check_as_they_are, check_memory
from tacit.job.values import AMOUNT, bytes_of
from tacit.mechanisms import mechanism_of, names_for
from tacit.mechanisms.base import USUAL_ROUNDS
from tacit.plan import Plan, make_plan
from tacit.plan.memory import check_on_cluster, check_one_score, check_reading
from tacit.plan.request import CODED_ALPHA, TrainingRequest
from tacit.plan.terms import (
    auto_remarks,
    curve_columns,
    loss_of,
    trained_loss,
    tree_settings,
    with_row_norms,
    with_terms,
)
from tacit.privacy.certificate import Certificate
from tacit.problem.losses import Loss
from tacit.run.folder import PreparedRun
from tacit.text import listing, nearest, plural, show, size
from tacit.topologies import FeatureSplit, SampleSplit
from tacit.types import Shard, Vector

# --- From a job and public sizes to its plan: the same at every site


def plan_job(
    job: Job, rows: int, columns: tuple[int, ...], input_bytes: int, curve_columns: Sequence[int] = (), held: int = 0
) -> Plan:
    """The plan of a job whose columns are split, from its sizes.

    Parameters
    ----------
    job : Job
    rows : int
        Rows that are trained on.
    columns : tuple of int
        Encoded columns of each party.
    input_bytes : int
        What the parties' rows take in memory.
    curve_columns : sequence of int
        See `tacit.plan.terms.curve_columns`; empty where no party has curves.
    held : int
        Rows that are kept out of training.
    """
    names = tuple(spec.name for spec in job.parties)
    _check_mechanism(job)
    request = _request(job, job.model.method, curve_columns)
    return make_plan(request, FeatureSplit(names, rows, columns, job.holder, input_bytes, held=held))


def plan_nodes(
    job: Job,
    rows: tuple[int, ...],
    columns: int,
    epsilons: Mapping[str, Sequence[float] | Vector],
    curve_columns: Sequence[int] = (),
) -> Plan:
    """The plan of a job whose rows are split, from its sizes and from the epsilons of labels that came randomized."""
    _check_mechanism(job)
    given = {name: tuple(float(value) for value in own) for name, own in epsilons.items()}
    request = _request(job, method_of(job, randomized=bool(epsilons)), curve_columns)
    return make_plan(request, SampleSplit(job.make_graph(), rows, columns, label_epsilons=given))


def _check_mechanism(job: Job) -> None:
    """Refuse a mechanism that the split of a job does not have."""
    known = ("auto", *names_for(job.split))
    if job.privacy is not None and job.privacy.mechanism not in known:
        listed = ", ".join(f'"{name}"' for name in known)
        raise InputError(
            f"privacy.mechanism = {show(job.privacy.mechanism)} is not allowed: it must be one of {listed}"
        )


def _request(job: Job, method: str, curve_columns: Sequence[int]) -> TrainingRequest:
    """What a job asks for."""
    model, columns = job.model, curve_columns or [0] * len(job.parties)
    trees, coded = tree_settings(job), job.trees is not None and bool(job.protected)
    return TrainingRequest(
        loss=trained_loss(job),
        penalty=model.regularizer if trees is None else "l2" if coded else "none",
        alpha=CODED_ALPHA if coded else model.alpha,
        fit_intercept=coded if trees is not None else model.fit_intercept,  # trees have a constant of their own
        tol=job.tol,
        method=method,
        rho=model.rho,
        max_rounds=USUAL_ROUNDS if coded else job.rounds,
        privacy=with_row_norms(job.privacy, job.names, columns),
        options=job.options,
        published=model.published,
        seed=int(np.random.RandomState(job.seed or 0).randint(2**31 - 1)),  # as random_state of the estimators
        secure_aggregation=job.secure_aggregation,
        memory=None if job.memory is None else bytes_of(job.memory),
        holdout=job.holdout_words,
        evaluated=job.evaluates_privately,
        trees=trees,
    )


def method_of(job: Job, *, randomized: bool) -> str:
    """The method that the job names, or the one that answers what it asks."""
    method, known = job.model.method, ("auto", "none", *names_for(SampleSplit.split))
    if method not in known:
        raise InputError(
            f'model.method = {show(method)} is not for split = "samples"{nearest(method, known)}: '
            f"choose one of {', '.join(known)}"
        )
    if method != "auto":
        return method
    if job.privacy is None:
        return "none"
    return mechanism_of(job.privacy, SampleSplit.split, given_labels=randomized).name


# --- From a job and its files to a prepared run: both splits, rows in memory, on disk or on a cluster


FEW = 10  # one row in so many of the smallest file: ids that are written in two ways match here and there

Note = Callable[[str], None]  # gets a remark that a user should read, one line each


def no_notes(remark: str) -> None:
    """Pass over what would be said."""


def prepare(job: Job, *, cluster: Cluster | None = None, note: Note = no_notes) -> PreparedRun:
    """Read the data of a job, or leave them where they are, and plan its run.

    Parameters
    ----------
    job : Job
        Of either split.
    cluster : Cluster, optional
        Reads the rows and keeps them, see `cluster_for`.
    note : callable
        Gets remarks: that hardly any rows match, and where rows are kept.

    Raises
    ------
    InputError
        For files or columns that cannot be used, and for what cannot be run.
    """
    if job.chooses_terms:
        raise InputError('model.terms = "auto" is chosen by tacit train: write "linear" or "spline" here')
    prepared = _PREPARE[job.split](with_terms(job), cluster, note)
    for remark in auto_remarks(job, prepared.encodings):
        note(remark)
    return prepared


def prepare_codes(job: Job, *, cluster: Cluster | None = None, note: Note = no_notes) -> tuple[PreparedRun, ...]:
    """As `prepare`; of a job whose search is to choose between lines and curves both, of files that are read once.

    Lines are first. They are alone where no column has a curve: numbers of two values, categories, LIBSVM files.
    """
    if not job.chooses_terms:
        return (prepare(job, cluster=cluster, note=note),)
    job = with_terms(job)
    loss = cast("Loss", loss_of(job))
    files = match_job_files(job, lambda counts: _note_few(counts, note))
    lines, curves = [_encoded(job.with_terms(terms), loss, files) for terms in (LINEAR, SPLINE)]
    del files
    give_back_memory()
    bends = any(encoding.encoder.has_bends for encoding in curves.encodings.values())
    return (lines, curves) if bends else (lines,)


def prepare_variants(jobs: Sequence[Job], note: Note = no_notes) -> list[PreparedRun]:
    """Several jobs that differ in their model alone, of files that are read once, on the same rows in memory."""
    files = match_job_files(jobs[0], lambda counts: _note_few(counts, note))
    return [_encoded(with_terms(job), cast("Loss", loss_of(job)), files) for job in jobs]


def with_memory(job: Job, memory: str | None, name: str = "memory") -> Job:
    """The job with an amount of memory, where one is given; `name` is what the user gave it by."""
    if memory is None:
        return job
    try:
        job = replace(job, memory=AMOUNT.parse(memory))
    except ValueError as error:
        raise InputError(f"{name} {show(memory)} is not allowed: it must be {AMOUNT.allowed}") from error
    check_memory(job)
    return job


def cluster_for(job: Job, address: ClusterAddress | None, name: str = "dask") -> AbstractContextManager[Cluster | None]:
    """The cluster at an address, None without one; refuses a job that does not go with `name`, which gave it."""
    if address is None:
        return nullcontext()
    if job.engine == "flare":
        raise InputError(f'{name} is not for engine = "flare": each site names its own cluster, dask in its site.toml')
    if job.memory is not None:
        raise InputError(f"{name} and memory both keep rows elsewhere: leave one of them out")
    check_as_they_are(job, name)
    return connect(address)


def with_encoding(
    certificate: Certificate, encodings: Mapping[str, Encoding], *, shared: bool, by: str = "the job states"
) -> Certificate:
    """The certificate with what is true of the encoding (docs/proofs/encode.md).

    Parameters
    ----------
    certificate : Certificate
        What holds for the encoded rows.
    encodings : mapping of str to Encoding
        By party.
    shared : bool
        Whether all parties have the same constants, as where the rows are split.
    by : str
        Who states the constants that are public.
    """
    uncovered, assumed = constants(encodings, shared=shared, by=by)
    return replace(
        certificate,
        does_not_cover=(*certificate.does_not_cover, *uncovered),
        assumptions=(*certificate.assumptions, *assumed),
    )


def with_own_trees(certificate: Certificate, raw: Mapping[str, RawEncoder]) -> Certificate:
    """The certificate with what the parts of a model of trees hold; as it is where there are none."""
    if not raw:
        return certificate
    said = (
        f"the saved parts of the model of {', '.join(raw)}: the splits of trees, their numbers of rows and the "
        "categories come from the rows of the party, whose own part stays with it"
    )
    return replace(certificate, does_not_cover=(*certificate.does_not_cover, said))


# --- Different columns of the same rows ----------------------------------------------------------------


def _prepare_parties(job: Job, cluster: Cluster | None, note: Note) -> PreparedRun:
    """Prepare a job whose parties hold different columns, wherever the rows are to be kept."""
    loss = cast("Loss", loss_of(job))  # before files that may be large are read
    if cluster is not None:
        return _on_cluster(job, loss, cluster, note)
    return _in_memory(job, loss, note) if job.memory is None else _on_disk(job, loss, note)


def _in_memory(job: Job, loss: Loss, note: Note) -> PreparedRun:
    """Read and match all rows, and hold the job's part of them out."""
    prepared = _encoded(job, loss, match_job_files(job, lambda counts: _note_few(counts, note)))
    give_back_memory()
    return prepared


def _encoded(job: Job, loss: Loss, files: MatchedFiles) -> PreparedRun:
    """Encode the rows of files that were read, and hold the job's part of them out."""
    data = encode_job_data(job, files)
    labels, held = _labels_of_holder(job, loss, data).with_rows(data.rows), None
    shards: Sequence[Shard] = data.shards
    mask = files.held(job.holdout_rule)
    if mask is not None:
        shards, left, held = set_aside(data.shards, labels.values, [mask] * len(data.shards))
        labels = replace(labels, values=left)
    elif job.holds_out_files:
        held = _held_files(job, files, data, labels, loss)
    labels = labels.weighted(job.model.class_weight)
    columns = tuple(shard.features.shape[1] for shard in shards)
    taken = sum(_nbytes(shard.features) for shard in shards)
    curves, aside = curve_columns(data.encodings, job.names, job.privacy), 0 if held is None else held.rows
    plan = plan_job(job, len(labels.values), columns, taken, curves, aside)
    plan.problem.loss.check_labels(labels.values)
    matching = RowMatching(data.ids is not None, data.counts)
    return PreparedRun(job, plan, shards, labels, held, data.encodings, matching, data.raw)


def _held_files(job: Job, files: MatchedFiles, data: JobData, labels: Labels, loss: Loss) -> HeldOut:
    """Rows of files of their own to evaluate on, matched and encoded as those that are trained on."""
    specs = [replace(spec, features=names) for spec, names in zip(job.parties, files.names, strict=True)]
    encoders = [
        data.raw.get(name) or (data.encodings[name].encoder if name in data.encodings else None) for name in job.names
    ]
    paths = [job.folder / (spec.holdout_data or "") for spec in job.parties]
    new = load_labelled(specs, paths, encoders, labels.classes, loss)
    _refuse_overlap(data.ids, new.data.ids)
    return HeldOut(tuple(new.data.shards), new.labels_of(specs))


def _refuse_overlap(trained: Any, held: Any, party: str = "") -> None:
    """Refuse rows to evaluate on that are trained on too, where they have ids."""
    known = set() if trained is None or held is None else set(trained.tolist()) & set(held.tolist())
    if known:
        whose = f"party {show(party)}: " if party else ""
        raise InputError(
            f"{whose}{plural(len(known), 'row')} of holdout_data are trained on too, such as the one with id "
            f"{show(min(known, key=str))}: remove them from one of the files"
        )


def _on_disk(job: Job, loss: Loss, note: Note) -> PreparedRun:
    """Plan a job on rows that stay on disk, and bring them there."""
    files = open_files(job.parties, job.folder)
    columns = tuple(len(file.features) for file in files)
    least = min(file.rows for file in files)
    plan_job(job, least, columns, 0)  # what cannot be run is refused before anything is read
    for file in files:
        check_reading(bytes_of(job.memory or ""), file.reading_bytes, file.rows, columns)
    scale = job.encode.scale_of(False)
    wanted = sum(file.scratch_bytes(least, scaled=scale != "none") for file in files)
    note(f"keeping up to {size(wanted)} of rows in {tempfile.gettempdir()} while it trains")
    data = stream_training_data(files, scale)
    _note_few(data.counts, note)
    labels = _labels_of_holder(job, loss, data)
    plan = plan_job(job, len(labels.values), columns, 0)
    plan.problem.loss.check_labels(labels.values)
    matching = RowMatching(data.ids is not None, data.counts)
    return PreparedRun(job, plan, data.shards, labels, encodings=data.encodings, matching=matching)


def _on_cluster(job: Job, loss: Loss, cluster: Cluster, note: Note) -> PreparedRun:
    """Plan a job on rows that a cluster reads, and have them read."""
    holder = next(spec for spec in job.parties if spec.name == job.holder)
    files = [ClusterFile(spec, job.folder, holder.label or "") for spec in job.parties]
    matched = align([file.table for file in files], [spec.id for spec in job.parties])
    place = job.parties.index(holder)
    values = check_labels(files[place].table.column(holder.label or ""), party=holder.name)[matched.rows[place]]
    labels = encode_labels(values, loss, holder.name, holder.positive)
    plan = plan_job(job, len(labels.values), tuple(len(file.features) for file in files), 0)
    check_on_cluster(plan.recorded_method, private=plan.private is not None)
    check_one_score(plan.problem.loss, "--dask")
    plan.problem.loss.check_labels(labels.values)
    wanted = sum(file.rows * len(file.features) * file.dtype.itemsize for file in files)
    note(f"the workers at {cluster.address.scheduler} read up to {size(wanted)} of rows")
    shards = [
        Shard(file.spec.name, ClusterRows(cluster, file, rows), file.features)
        for file, rows in zip(files, matched.rows, strict=True)
    ]
    return PreparedRun(job, plan, shards, labels, matching=RowMatching(matched.ids is not None, matched.counts))


def _labels_of_holder(job: Job, loss: Loss, data: JobData) -> Labels:
    """The labels of the common rows, as the loss wants them."""
    positive = next(spec.positive for spec in job.parties if spec.name == job.holder)
    return encode_labels(data.labels, loss, job.holder, positive, dropped=data.counts.dropped[job.holder])


def _note_few(counts: Counts, note: Note) -> None:
    """Say so where fewer than a tenth of the rows of the smallest file were matched."""
    rows = {name: counts.kept + dropped for name, dropped in counts.dropped.items()}
    if FEW * counts.kept >= min(rows.values()):
        return
    parts = ", ".join(f"{counts.kept} of {count} at {show(name)}" for name, count in rows.items())
    note(f"hardly any rows match by id: {parts}: see that all parties write their ids in the same way")


def _nbytes(matrix: Any) -> int:
    if hasattr(matrix, "indptr"):
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return int(matrix.nbytes)


# --- Different rows with the same columns --------------------------------------------------------------


def _prepare_nodes(job: Job, cluster: Cluster | None, note: Note) -> PreparedRun:
    """Prepare a job whose parties hold different rows; refusals name the job's file."""
    with job.named_refusals():
        loss = cast("Loss", loss_of(job))  # before files that may be large are read
        data = load_job_nodes(job)
        labels = _labels_of_nodes(job, data, loss).with_rows(RowValues.together(data.rows))
        shards: Sequence[Shard] = data.shards
        epsilons, held = data.epsilons, None
        if job.holds_out_files:
            held = _held_node_files(job, data, labels, loss)
        elif job.holdout_words:
            shards, labels, epsilons, held = _hold_out(job, data, labels)
        labels = labels.weighted(job.model.class_weight)
        rows = tuple(shard.features.shape[0] for shard in shards)
        encodings = {} if data.encoding is None else dict.fromkeys(job.names, data.encoding)
        columns = curve_columns(encodings, job.names, job.privacy)
        plan = plan_nodes(job, rows, len(shards[0].columns), epsilons, columns)
        plan.problem.loss.check_labels(labels.values)
    return PreparedRun(job, plan, shards, labels, held, encodings)


def _hold_out(
    job: Job, data: NodesData, labels: Labels
) -> tuple[Sequence[Shard], Labels, Mapping[str, Vector], HeldOut]:
    """Hold rows of each node out, as the job says."""
    masks = [mask for mask in data.held if mask is not None]
    shards, values, held = set_aside(data.shards, labels.values, masks)
    left = {shard.name: ~mask for shard, mask in zip(shards, masks, strict=True)}
    epsilons = {name: of_node[left[name]] for name, of_node in data.epsilons.items()}
    known = np.concatenate([epsilons[name] for name in job.names]) if epsilons else None
    return shards, replace(labels, values=values, epsilons=known), epsilons, held


def _held_node_files(job: Job, data: NodesData, labels: Labels, loss: Loss) -> HeldOut:
    """Rows of each node's own file to evaluate on."""
    encoder = None if data.encoding is None else data.encoding.encoder
    names = data.shards[0].columns if encoder is None else encoder.sources
    found = []
    for spec, ids in zip(job.parties, data.ids, strict=True):
        own = replace(spec, id=None, features=names)
        rows = () if spec.id is None else (spec.id,)
        new = load_labelled([own], [job.folder / (spec.holdout_data or "")], [encoder], labels.classes, loss, rows)
        _refuse_overlap(ids, new.data.ids, spec.name)
        found.append((new.data.shards[0], new.labels_of([own])))
    return HeldOut(tuple(shard for shard, _ in found), np.concatenate([values for _, values in found]))


def labels_by_node(prepared: PreparedRun) -> list[Vector]:
    """Each node's labels."""
    ends = np.cumsum([shard.features.shape[0] for shard in prepared.shards])[:-1]
    return list(np.split(prepared.labels.values, ends))


def common_positive(job: Job) -> str | float | bool | None:
    """The label that is positive, where a party chooses it: it holds for all."""
    chosen = {(type(spec.positive), spec.positive): spec.positive for spec in job.parties if spec.positive is not None}
    if len(chosen) > 1:
        raise InputError(f"the parties choose different labels as positive, {listing(chosen.values())}: choose one")
    return next(iter(chosen.values()), None)


def _labels_of_nodes(job: Job, data: NodesData, loss: Loss) -> Labels:
    """Labels of all nodes, one after the other, as the loss wants them."""
    names, positive = job.names, common_positive(job)
    pairs = list(zip(data.labels, names, strict=True))
    if loss.task != "classification":
        parts = [encode_labels(values, loss, name, positive).values for values, name in pairs]
        return replace(encode_labels(data.labels[0], loss, names[0]), values=np.concatenate(parts))
    text = [name for values, name in pairs if values.dtype.kind in "OUS"]
    if text and len(text) < len(names):
        raise InputError(
            f"the labels of party {show(text[0])} are text, those of another are not: use the same for all"
        )
    encoded = encode_labels(np.concatenate(list(data.labels)), loss, "", positive)
    if not data.epsilons:
        return encoded
    return replace(encoded, epsilons=np.concatenate([data.epsilons[name] for name in names]))


_PREPARE: dict[str, Callable[[Job, Cluster | None, Note], PreparedRun]] = {
    "features": _prepare_parties,
    "samples": _prepare_nodes,
}


# --- The files of a job


def match_job_files(job: Job, matched: Callable[[Counts], None] | None = None) -> MatchedFiles:
    """Read and align the files of a job, before any column is encoded; `matched` gets the rows kept and dropped."""
    return match_files(job.parties, job.folder, job.protected, matched)


def encode_job_data(job: Job, files: MatchedFiles) -> JobData:
    """Encode the columns of files that were read and aligned, or take them as they are."""
    if job.trees is not None:
        return files.as_they_are(job.holdout_rule, job.encode, job.protected)
    return files.encoded(job.encode, job.protected, job.holdout_rule)


def load_job_nodes(job: Job) -> NodesData:
    """Read the data of a job with split = "samples"."""
    protected = bool(job.protected)
    return load_nodes(job.parties, job.folder, job.encode, protected=protected, holdout=job.holdout_rule)

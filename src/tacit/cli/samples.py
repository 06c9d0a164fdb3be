"""Jobs with split = "samples": from the job and its files to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.data.holdout import HeldOut
    from tacit.data.nodes import NodesData
    from tacit.job import Job
    from tacit.problem.losses import Loss
    from tacit.runtime.labels import Labels
    from tacit.runtime.store import Begun
    from tacit.types import Shard, Vector


def prepare_nodes(job: Job, file: str) -> Begun:
    """Read the data of a job and plan its run; refusals name the job's file."""
    from tacit.job import load_job_nodes
    from tacit.plan.from_job import plan_nodes
    from tacit.problem.losses import get_loss
    from tacit.runtime.store import Begun

    try:
        loss = get_loss(job.model.loss)  # before files that may be large are read
        data = load_job_nodes(job)
        labels, epsilons, held = (
            _encode(data.labels, data.epsilons, loss, job.names, common_positive(job)),
            data.epsilons,
            None,
        )
        shards: Sequence[Shard] = data.shards
        if job.holdout:
            shards, labels, epsilons, held = _hold_out(job, data, labels)
        rows = tuple(shard.features.shape[0] for shard in shards)
        plan = plan_nodes(job, rows, len(shards[0].columns), epsilons)
        plan.problem.loss.check_labels(labels.values)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    encodings = {} if data.encoding is None else dict.fromkeys(job.names, data.encoding)
    return Begun(job, plan, shards, labels, held, encodings)


def _hold_out(
    job: Job, data: NodesData, labels: Labels
) -> tuple[Sequence[Shard], Labels, Mapping[str, Vector], HeldOut]:
    """Hold the job's part of the rows of each node out."""
    from dataclasses import replace

    import numpy as np

    from tacit.data.holdout import held_rows, set_aside

    pairs = zip(data.shards, data.ids, strict=True)
    masks = [held_rows(shard.features.shape[0], job.holdout, job.seed or 0, ids) for shard, ids in pairs]
    shards, values, held = set_aside(data.shards, labels.values, masks)
    left = {shard.name: ~mask for shard, mask in zip(shards, masks, strict=True)}
    epsilons = {name: own[left[name]] for name, own in data.epsilons.items()}
    known = np.concatenate([epsilons[name] for name in job.names]) if epsilons else None
    return shards, replace(labels, values=values, epsilons=known), epsilons, held


def labels_by_node(begun: Begun) -> list[Vector]:
    """Each node's labels."""
    import numpy as np

    ends = np.cumsum([shard.features.shape[0] for shard in begun.shards])[:-1]
    return list(np.split(begun.labels.values, ends))


def common_positive(job: Job) -> str | float | bool | None:
    """The label that is positive, where a party chooses it: it holds for all."""
    from tacit.data.wording import listing

    chosen = {(type(spec.positive), spec.positive): spec.positive for spec in job.parties if spec.positive is not None}
    if len(chosen) > 1:
        raise InputError(f"the parties choose different labels as positive, {listing(chosen.values())}: choose one")
    return next(iter(chosen.values()), None)


def _encode(
    labels: Sequence[Any],
    epsilons: Mapping[str, Vector],
    loss: Loss,
    names: Sequence[str],
    positive: str | float | bool | None,
) -> Labels:
    """Labels of all nodes, one after the other, as the loss wants them."""
    from dataclasses import replace

    import numpy as np

    from tacit.data.wording import show
    from tacit.runtime.labels import encode_labels

    if loss.task != "classification":
        parts = [encode_labels(own, loss, name, positive).values for own, name in zip(labels, names, strict=True)]
        return replace(encode_labels(labels[0], loss, names[0]), values=np.concatenate(parts))
    kinds = {own.dtype.kind in "OUS" for own in labels}
    if len(kinds) > 1:
        text = next(name for own, name in zip(labels, names, strict=True) if own.dtype.kind in "OUS")
        raise InputError(f"the labels of party {show(text)} are text, those of another are not: use the same for all")
    encoded = encode_labels(np.concatenate(list(labels)), loss, "", positive)
    return encoded if not epsilons else replace(encoded, epsilons=np.concatenate([epsilons[name] for name in names]))

"""Parts of a model that stay with their owners: each site's on its own disk, the joint one at the lead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tacit.federation.own_data import OwnRows
from tacit.federation.protocol import Reason, RefusalError
from tacit.federation.site import OVER, Task
from tacit.files import read_json, write_json
from tacit.plan import Plan
from tacit.run.folder import RunFolder, SavedJoint, SavedPart
from tacit.run.graph import consensus_model
from tacit.run.node import Node
from tacit.run.prepare import with_encoding, with_own_trees
from tacit.run.result import PartyModel, SavedTrees, TreePart, with_versions

MASKS = "masks.json"


def write_part(folder: Path, model: PartyModel | TreePart, id_: str | None, own: OwnRows) -> None:
    """Write one party's part of the model as a run in one process does."""
    if isinstance(model, TreePart):
        assert own.raw is not None, "trees are grown on columns as they are"
        RunFolder(folder).write_part(SavedTrees(model, id_, own.raw))
        return
    encoder = None if own.encoding is None else own.encoding.encoder
    columns = {} if own.labels is None or id_ is None else own.labels.columns
    RunFolder(folder).write_part(SavedPart(model, id_, encoder, columns))


def write_whole(
    folder: Path, plan: Plan, model: PartyModel, own: OwnRows, node: Node, costs: Mapping[str, float] | None
) -> None:
    """Write a node's model of whole rows, with which it predicts at home."""
    whole = consensus_model(plan, (model,), model.coef, -model.offset, node)
    encoder, labels = None if own.encoding is None else own.encoding.encoder, own.held_labels
    names = plan.graph.names
    RunFolder(folder).write_joint(
        SavedJoint(plan.problem.loss, labels.classes, names, whole, encoder, costs=costs, columns=labels.columns)
    )


def write_about(folder: Path, task: Task, model: PartyModel | TreePart, own: OwnRows, plan: Plan, answers: int) -> None:
    """Whose part it is, who led, how often this site answered; and, without noise, how far its own scores spread."""
    spread = {} if plan.private is not None else own_spread(model, own)
    columns = np.ravel(getattr(plan.layout, "columns", 0)).tolist()  # public: of every party, or those that all share
    RunFolder(folder).write_about(task.name, task.lead, task.job.names, columns=columns, answers=answers, **spread)


def own_spread(model: PartyModel | TreePart, own: OwnRows) -> dict[str, float]:
    """The standard deviation of what this site's part adds to the score over its rows; where these are in memory."""
    features = own.shard.features
    if not (isinstance(features, np.ndarray) or sp.issparse(features)) or np.ndim(getattr(model, "coef", 0)) > 1:
        return {}
    deviation = float(np.std(model.score(features)))
    return {"deviation": deviation} if math.isfinite(deviation) else {}


def check_about(folder: Path, lead: str, parties: Sequence[str]) -> None:
    """Refuse predictions for anybody but who led the training, or among other parties.

    Raises
    ------
    RefusalError
    """
    about = RunFolder(folder).read_about() or {}
    if about.get("lead") != lead or sorted(about.get("parties", [])) != sorted(parties):
        raise RefusalError(Reason.NOT_TRAINED)


def write_certificate(folder: Path, plan: Plan, name: str, own: OwnRows, *, shared: bool) -> None:
    """What may be said about the privacy of the run, with the software that ran it and this site's own encoding."""
    encoded = {} if own.encoding is None else {name: own.encoding}
    used = () if own.raw is None else ("lightgbm",)
    certificate = with_encoding(with_versions(plan.certificate(), *used), encoded, shared=shared)
    RunFolder(folder).write_certificate(with_own_trees(certificate, {} if own.raw is None else {name: own.raw}))


def mark_over(folder: Path) -> None:
    """Write down that a run has ended, before its journal is deleted: nothing of it is done again.

    Raises
    ------
    RefusalError
        Where its part of the model is not on the disk.
    """
    if not RunFolder(folder).is_part:
        raise RefusalError(Reason.TURN)
    write_json(folder / OVER, {"over": True})


def write_masks(folder: Path, fingerprint: str, unchecked: Sequence[str]) -> None:
    """Add the fingerprint of the masks' keys to those of the run, which people can compare; none is ever replaced.

    `unchecked` are the parties whose keys nobody vouched for; who is in that list once stays there.
    """
    known, before = read_masks(folder)
    if fingerprint and known[-1:] != [fingerprint]:
        names = sorted({*before, *unchecked})
        write_json(folder / MASKS, {"fingerprints": [*known, fingerprint], "unchecked": names})


def read_masks(folder: Path) -> tuple[list[str], list[str]]:
    """All fingerprints of masks that a run has used here, in their order, and parties whose keys were not checked."""
    record = read_json(folder / MASKS) if (folder / MASKS).exists() else {}
    fingerprints, unchecked = ([str(one) for one in record.get(key, [])] for key in ("fingerprints", "unchecked"))
    return fingerprints, unchecked

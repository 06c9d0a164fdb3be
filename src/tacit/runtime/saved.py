"""The files of a saved model: one for each party, and one for what belongs to no single party."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.algorithms.rows import RowClip
from tacit.data.encode.encoder import Encoder
from tacit.data.encode.saved import to_record
from tacit.problem.losses import Loss, Modified
from tacit.runtime.files import write_json
from tacit.runtime.graph.run import GraphResult
from tacit.runtime.model import PartyModel
from tacit.runtime.result import RunResult
from tacit.types import Vector

FORMAT = 1
MODEL, JOINT, SAMPLES = "model", "joint", "samples"
ABOUT = "about.json"  # in the part of a run that one organisation has


def write_model(
    run: Path,
    result: RunResult | GraphResult,
    ids: Mapping[str, str | None],
    classes: Sequence[Any],
    encoders: Mapping[str, Encoder] | None = None,
) -> None:
    """Write the model of a run into its directory; `encoders` say how each party's columns were encoded."""
    folder = run / MODEL
    folder.mkdir(exist_ok=True)
    on_graph = isinstance(result, GraphResult)
    parties = result.nodes if isinstance(result, GraphResult) else result.parties
    schemas = {name: to_record(encoder) for name, encoder in (encoders or {}).items()}
    for party in parties:
        record = party_record(party, None if on_graph else ids[party.name])
        write_json(folder / f"{party.name}.json", {**record, "schema": schemas.get(party.name)})
    loss: Loss = result.plan.problem.loss
    loss = loss.inner if isinstance(loss, Modified) else loss  # a model of randomized labels serves the true ones
    joint = {
        "format": FORMAT,
        "loss": loss.name,
        "task": loss.task,
        "classes": list(classes),
        "parties": [party.name for party in parties],
        **(_consensus(result) if isinstance(result, GraphResult) else _sum(result)),
        **({"schema": schemas.get(parties[0].name), "ids": _named(ids)} if on_graph else {}),
    }
    write_json(folder / f"{JOINT}.json", joint)


def _named(ids: Mapping[str, str | None]) -> list[str]:
    """The id columns that the parties of a job name, each once."""
    return list(dict.fromkeys(name for name in ids.values() if name is not None))


def party_record(party: PartyModel, id_: str | None) -> dict[str, Any]:
    """One party's part as plain values."""
    return {
        "format": FORMAT,
        "party": party.name,
        "id": id_,
        "columns": list(party.columns),
        "coef": party.coef.tolist(),
        "offset": party.offset,
        "bend": party.bend,
        "clip": clip_record(party.clip),
    }


def clip_record(clip: RowClip | None) -> dict[str, Any] | None:
    """A clip as plain values."""
    if clip is None:
        return None
    if clip.centre is None:
        return {"norm": clip.norm, "centre": None, "radius": None}
    return {"norm": clip.norm, "centre": clip.centre.tolist(), "radius": clip.radius}


def _sum(result: RunResult) -> dict[str, Any]:
    """What is added to the parties' scores, and who may see predictions."""
    private = result.plan.private
    return {
        "constant": float(result.constant),
        "predictions_for": None if private is None else private.predictions_for,
    }


def _consensus(result: GraphResult) -> dict[str, Any]:
    """The model that all nodes share: the mean of theirs."""
    return whole_record(result.nodes[0].columns, result.coef, result.intercept, result.clip)


def whole_record(columns: Sequence[str], coef: Vector, constant: float, clip: RowClip | None) -> dict[str, Any]:
    """A model of whole rows as plain values."""
    return {
        "split": SAMPLES,
        "columns": list(columns),
        "coef": coef.tolist(),
        "constant": float(constant),
        "clip": clip_record(clip),
    }

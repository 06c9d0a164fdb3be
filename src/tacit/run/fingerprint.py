"""What must be the same when a run goes on: its job, its plan and its data, compared value by value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.columns.compact import CurveMatrix
from tacit.data.cluster import ClusterRows
from tacit.data.labels import Labels
from tacit.data.rows_on_disk import RowsOnDisk
from tacit.job import Job
from tacit.job.sections import ENCODE_KEYS, GRAPH_KEYS, OPTION_KEYS, PRIVACY_KEYS, SEARCH_KEYS
from tacit.job.sections import SECTION as OPTIONS
from tacit.text import show
from tacit.types import Shard


def fingerprint(shards: Sequence[Shard], labels: Labels) -> dict[str, Any]:
    """Shape and sha256 of every party's columns and of the labels: two data sets differ where these differ."""
    parties = {
        shard.name: {
            "shape": list(shard.features.shape),
            "columns": _sha256([np.frombuffer(json.dumps(shard.columns).encode(), np.uint8)]),
            "sha256": _digest(shard.features),
        }
        for shard in shards
    }
    known = [labels.values] if labels.epsilons is None else [labels.values, labels.epsilons]
    return {"parties": parties, "labels": _sha256(known), "classes": list(labels.classes)}


def job_values(job: Job) -> dict[str, Any]:
    """Every value of a job that shapes the result; paths may change, for the data's own fingerprint is compared."""
    values: dict[str, Any] = {f"model.{key}": value for key, value in asdict(job.model).items()}
    keys = ("split", "engine", "rounds", "tol", "seed", "secure_aggregation", "memory", "holdout")
    values |= {f"job.{key}": getattr(job, key) for key in keys}
    values |= {f"graph.{key}": job.graph and getattr(job.graph, key) for key in GRAPH_KEYS}
    values |= {f"encode.{key}": getattr(job.encode, key) for key in ENCODE_KEYS}
    values |= {f"search.{key}": job.search and getattr(job.search, key) for key in SEARCH_KEYS}
    values |= {f"privacy.{key}": job.privacy and getattr(job.privacy, key) for key in PRIVACY_KEYS}
    values |= {f"{OPTIONS}.{key}": job.options and getattr(job.options, key) for key in OPTION_KEYS}
    values["the number of parties"] = len(job.parties)
    for number, spec in enumerate(job.parties, start=1):
        of_party = ("name", "id", "label", "positive", "features", "columns")
        values |= {f"party {number}.{key}": getattr(spec, key) for key in of_party}
    return values


def first_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first value that is another, in words; empty where all are the same."""
    for key, value in new.items():
        if old.get(key) != value:
            return f"{key} is {show(value)}, it began with {show(old.get(key))}"
    return ""


def data_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Whose data are others than before, by two fingerprints; empty where all are the same."""
    parties = section(old, "parties")
    for name, print_ in new["parties"].items():
        if parties.get(name) != print_:
            return f"the data of party {show(name)} are not those it began with"
    same_classes = json.dumps(old.get("classes")) == json.dumps(new["classes"])  # as text: true is not 1
    same = old.get("labels") == new["labels"] and same_classes
    return "" if same else "the labels are not those it began with"


def section(record: dict[str, Any], key: str) -> dict[str, Any]:
    """A table in a record that was read; empty where there is none."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _digest(matrix: Any) -> str:
    return matrix.sha256 if isinstance(matrix, (RowsOnDisk, ClusterRows)) else _sha256(_arrays_of(matrix))


def _arrays_of(matrix: Any) -> list[npt.NDArray[Any]]:
    if isinstance(matrix, CurveMatrix):
        return matrix.arrays
    if sparse.issparse(matrix):
        return [matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)]
    return [matrix]


def _sha256(arrays: Sequence[npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

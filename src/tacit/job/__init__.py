"""Job files: what to train, on whose data, written in TOML.

| file | holds |
|---|---|
| file.py | `Job`, and what its file may hold by how the data are split; read and written |
| sections.py | every other section, such as [model], [privacy] and [[party]], and the keys of all of them |
| trees.py | the section [trees], and what does not go with trees |
| values.py | the kinds of value |
"""

from __future__ import annotations

from tacit.data.load import JobData, PartySpec, PredictionData, load_prediction_data
from tacit.data.nodes import NodesData
from tacit.job.file import (
    Job,
    read_job,
)
from tacit.job.sections import GraphSpec, ModelSection, SearchSpec

__all__ = [
    "GraphSpec",
    "Job",
    "JobData",
    "ModelSection",
    "NodesData",
    "PartySpec",
    "PredictionData",
    "SearchSpec",
    "load_prediction_data",
    "read_job",
]

"""Job files: what to train, on whose data, written in TOML.

| file | holds |
|---|---|
| file.py | `Job`, its sections and keys, read and written |
| privacy.py | the section [privacy] |
| options.py | the section [privacy.options] |
| graph.py | the section [graph] |
| encode.py | the section [encode], and what a party says about its columns |
| search.py | the section [search] |
| values.py | the kinds of value |
| parties.py | what the parties must be |
| write.py | values as TOML |
"""

from __future__ import annotations

from tacit.data.load import JobData, PartySpec, PredictionData, load_prediction_data
from tacit.data.nodes import NodesData
from tacit.job.file import Job, Model, load_job_data, load_job_nodes, read_job
from tacit.job.sections import GraphSpec, SearchSpec

__all__ = [
    "GraphSpec",
    "Job",
    "JobData",
    "Model",
    "NodesData",
    "PartySpec",
    "PredictionData",
    "SearchSpec",
    "load_job_data",
    "load_job_nodes",
    "load_prediction_data",
    "read_job",
]

"""Job files: what to train, on whose data, written in TOML.

| file | holds |
|---|---|
| file.py | `Job`, its sections and keys, read and written |
| privacy.py | the section [privacy] |
| values.py | the kinds of value |
| parties.py | what the parties must be |
| write.py | values as TOML |
"""

from __future__ import annotations

from tacit.data.load import JobData, PartySpec, PredictionData, load_prediction_data
from tacit.job.file import Job, Model, load_job_data, read_job

__all__ = [
    "Job",
    "JobData",
    "Model",
    "PartySpec",
    "PredictionData",
    "load_job_data",
    "load_prediction_data",
    "read_job",
]

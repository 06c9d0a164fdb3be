"""A finished run as it lies in its directory, read for its page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.files import damaged, read_json
from tacit.job import Job
from tacit.mechanisms import MECHANISMS
from tacit.mechanisms.base import Mechanism
from tacit.privacy.certificate import Certificate
from tacit.run.folder import PLAN, RunFolder
from tacit.run.predict import SavedModel, load_model
from tacit.types import Trace


@dataclass(frozen=True)
class SavedRun:
    """Everything that a page says of a run; `evaluation` is None where none was made."""

    path: Path
    job: Job
    plan: dict[str, Any]
    result: dict[str, Any]
    trace: Trace
    certificate: Certificate
    model: SavedModel
    evaluation: dict[str, Any] | None
    versions: dict[str, str]

    @property
    def on_graph(self) -> bool:
        """Whether the rows are split."""
        return self.job.split == "samples"

    @property
    def rows(self) -> int:
        """Rows that were trained on."""
        known = self.plan["rows"]
        return sum(known) if isinstance(known, list) else int(known)

    @property
    def model_is_covered(self) -> bool:
        """Whether numbers made from the model tell nothing that the certificate does not cover."""
        if not self.certificate.private:
            return True
        mechanism = self.mechanism
        return not self.job.model.published and (mechanism is None or mechanism.serves)

    @property
    def mechanism(self) -> Mechanism[Any] | None:
        """What added the noise; None where nothing did."""
        privacy = self.plan["privacy"]
        return None if not privacy else MECHANISMS.get(privacy.get("mechanism") or privacy.get("method"))

    def distances(self) -> list[float]:
        """Where the rows are split: how far each node's model is from the mean, relative to it."""
        joint = np.append(self.model.parties[0].coef, self.model.constant)
        found = []
        for name in self.job.names:
            file = RunFolder(self.path).part(name)
            record = read_json(file)
            try:
                own = np.array([*record["coef"], -record["offset"]], dtype=np.float64)
                found.append(float(np.linalg.norm(own - joint) / max(float(np.linalg.norm(joint)), 1e-300)))
            except (KeyError, TypeError, ValueError) as error:
                raise damaged(file, "it holds no model of a node") from error
        return found


def read_run(path: str | Path) -> SavedRun:
    """Read a finished run.

    Raises
    ------
    InputError
        Where there is no finished run, or one of its files is missing or damaged; the message names the file.
    """
    folder = RunFolder(path)
    model, job, certificate = load_model(folder.path), folder.read_job(), folder.read_certificate()
    plan, known = _plan(folder)
    trace = folder.read_trace()
    if not trace:
        raise damaged(folder.trace, "it holds no round")
    return SavedRun(
        path=folder.path,
        job=job,
        plan=plan,
        result=folder.read_result(),
        trace=trace,
        certificate=certificate,
        model=model,
        evaluation=folder.read_evaluation(),
        versions=known,
    )


def _plan(folder: RunFolder) -> tuple[dict[str, Any], dict[str, str]]:
    """The plan, and the versions of the packages."""
    record = folder.read_plan()
    plan, versions = record.get("plan"), record.get("versions")
    if not isinstance(plan, dict) or not isinstance(versions, dict):
        raise damaged(folder.path / PLAN, "it holds no plan with the versions of the packages")
    return plan, {name: str(version) for name, version in versions.items()}

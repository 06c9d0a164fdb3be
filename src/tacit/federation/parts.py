"""Parts of a model that stay with their owners: each site's on its own disk, the joint one at the lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.blocks.rows import RowClip
from tacit.columns.constants import Encoding
from tacit.columns.encoder import to_record
from tacit.federation.protocol import Reason, RefusalError
from tacit.federation.site import OVER
from tacit.files import read_json, write_json, write_text
from tacit.plan import Plan
from tacit.privacy.certificate import Certificate
from tacit.problem.losses import Modified
from tacit.run.drive import versions
from tacit.run.folder import ABOUT, CERTIFICATE, CERTIFICATE_TEXT, FORMAT, JOINT, MODEL, party_record, whole_record
from tacit.run.model import PartyModel
from tacit.run.prepare import with_encoding

MASKS = "masks.json"


def write_part(folder: Path, model: PartyModel, id_: str | None, encoding: Encoding | None) -> None:
    """Write one party's part of the model as a run in one process does."""
    (folder / MODEL).mkdir(exist_ok=True)
    schema = None if encoding is None else to_record(encoding.encoder)
    write_json(folder / MODEL / f"{model.name}.json", {**party_record(model, id_), "schema": schema})


def write_whole(folder: Path, plan: Plan, model: PartyModel, classes: Sequence[Any], encoding: Encoding | None) -> None:
    """Write a node's model of whole rows, with which it predicts at home."""
    job = plan.problem.loss
    loss = job.inner if isinstance(job, Modified) else job  # a model of randomized labels serves the true ones
    clip = None if plan.private is None else RowClip(plan.private.settings.row_norm)
    record = {
        "format": FORMAT,
        "loss": loss.name,
        "task": loss.task,
        "classes": list(classes),
        "parties": list(plan.graph.names),
        **whole_record(model.columns, model.coef, -model.offset, clip),
        "schema": None if encoding is None else to_record(encoding.encoder),
    }
    write_json(folder / MODEL / f"{JOINT}.json", record)


def write_about(folder: Path, lead: str, parties: Sequence[str]) -> None:
    """Keep who led a run and who took part: who may ask for predictions by its model."""
    write_json(folder / ABOUT, {"lead": lead, "parties": list(parties)})


def check_about(folder: Path, lead: str, parties: Sequence[str]) -> None:
    """Refuse predictions for anybody but who led the training, or among other parties.

    Raises
    ------
    RefusalError
    """
    about = read_json(folder / ABOUT) if (folder / ABOUT).is_file() else {}
    if about.get("lead") != lead or sorted(about.get("parties", [])) != sorted(parties):
        raise RefusalError(Reason.NOT_TRAINED)


def write_certificate(
    folder: Path, planned: Certificate, name: str, encoding: Encoding | None, *, shared: bool
) -> None:
    """What may be said about the privacy of the run, with the software that ran it and this site's own encoding."""
    own = {} if encoding is None else {name: encoding}
    certificate = with_encoding(replace(planned, versions=versions()), own, shared=shared)
    write_text(folder / CERTIFICATE, certificate.to_json() + "\n")
    write_text(folder / CERTIFICATE_TEXT, str(certificate) + "\n")


def mark_over(folder: Path) -> None:
    """Write down that a run has ended, before its journal is deleted: nothing of it is done again.

    Raises
    ------
    RefusalError
        Where its part of the model is not on the disk.
    """
    if not (folder / ABOUT).is_file():
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

"""What a job says of its model: the terms of its columns, its loss, its trees.

What curves take from a plan, and what a plan takes from curves, are public numbers both ways.

How fine the curves of protected rows are follows from the noise that is planned; the norm of their rows, which the
noise is made for, follows from the code. Neither looks at a row (docs/proofs/curves.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import cast

from tacit.columns.constants import Encoding
from tacit.columns.curves import CurveNoise, FourierColumn
from tacit.columns.spec import AUTO, LINEAR
from tacit.errors import InputError
from tacit.job import Job
from tacit.mechanisms import mechanism_of
from tacit.mechanisms.base import CURVES_OR_LINES
from tacit.plan.request import loss_beside_trees
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss, of_classes
from tacit.problem.losses.base import RowLoss
from tacit.problem.registry import LOSSES, get_loss
from tacit.problem.registry import make_loss as loss_with
from tacit.solvers.boosting import TreeLoss, TreeSettings
from tacit.solvers.boosting.losses import make_loss
from tacit.text import listing, show


def curve_noise(
    privacy: Privacy | None, loss: Loss, split: str, parties: Sequence[str], *, secure: bool | str
) -> CurveNoise | None:
    """The noise that the number of pairs of frequencies follows from; None where no row is protected."""
    if privacy is None or privacy.epsilon is None:
        return None
    mechanism = mechanism_of(privacy, split)
    mechanism.check_classes(loss)
    masked = mechanism.wants_masks(privacy, len(parties)) if secure == AUTO else bool(secure)
    return CurveNoise(mechanism.gradient_noise(privacy, loss, parties, secure=masked), mechanism.noise_at_nodes)


def with_terms(job: Job) -> Job:
    """The job with what the encoding of its columns needs to know of its plan.

    Where labels alone are protected, "auto" is lines: to choose takes the labels.
    """
    if job.trees is not None and not job.has_curves:
        return job
    if job.encode.terms == AUTO and job.privacy is not None and job.privacy.epsilon is None:
        job = job.with_terms(LINEAR)
    noise = curve_noise(job.privacy, seen_loss(job), job.split, job.names, secure=job.secure_aggregation)
    sharing = 1 if job.rows_are_split else len(job.parties)  # parties whose scores are summed
    return replace(job, encode=replace(job.encode, noise=noise, parties=sharing))


def auto_remarks(job: Job, encodings: Mapping[str, Encoding]) -> list[str]:
    """What terms = "auto" came to, where that is not curves: one line for each party with lines."""
    if job.model.terms != AUTO or job.privacy is None:
        return []
    if job.privacy.epsilon is None:
        return ['terms = "auto" is lines here: to choose takes the labels, and these are protected; write "spline"']
    return [
        f'{name}: its numbers are lines, as terms = "auto" makes curves of protected rows only where every number has '
        f"a range: give low and high to {listing(encoding.encoder.unbounded, 8)}"
        for name, encoding in encodings.items()
        if encoding.protected and encoding.encoder.unbounded and not encoding.encoder.has_public_curves
    ]


def curve_columns(
    encodings: Mapping[str, Encoding], names: Sequence[str], privacy: Privacy | None = None
) -> tuple[int, ...]:
    """For each party how many columns its rows have where curves of public constants bound their norm; 0 elsewhere.

    Parameters
    ----------
    encodings : mapping of str to Encoding
        By party.
    names : sequence of str
        The parties.
    privacy : Privacy, optional
        Where it names row_norm, nothing follows from curves.

    Raises
    ------
    InputError
        Where a protected party has curves beside numbers that nothing bounds.
    """
    if privacy is not None and privacy.row_norm is not None:
        return (0,) * len(names)
    return tuple(_bounded_columns(name, encodings.get(name)) for name in names)


def _bounded_columns(party: str, encoding: Encoding | None) -> int:
    if encoding is None or not encoding.protected or not encoding.encoder.has_public_curves:
        return 0
    loose = encoding.encoder.unbounded
    if loose:
        raise InputError(
            f"party {show(party)}: beside curves every number needs a range, as the norm of a row follows from them: "
            f"give low and high to {listing(loose, 8)}, or row_norm under [privacy]"
        )
    return len(encoding.encoder.columns)


def curves_of(encodings: Mapping[str, Encoding]) -> dict[str, dict[str, float]]:
    """For each party with curves of public constants their pairs of waves, and the norm of a row where it follows."""
    found: dict[str, dict[str, float]] = {}
    for name, encoding in encodings.items():
        pairs = [column.pairs for column in encoding.encoder.columns if isinstance(column, FourierColumn)]
        if encoding.protected and pairs:
            norm = {} if encoding.encoder.unbounded else {"row_norm": math.sqrt(len(encoding.encoder.columns))}
            found[name] = {"pairs": max(pairs), **norm}
    return found


def price_of_curves(encoding: Encoding) -> str:
    """What the curves of a protected party cost against lines, by the sizes alone.

    The noise in an entry of a gradient is the same whatever the columns are, so its norm grows as the square root of
    their number; where labels are randomized the rest of the noise does not grow, and the factor is less.
    """
    curves = sum(len(column.names) for column in encoding.encoder.columns)
    lines = sum(
        1 + column.missing if isinstance(column, FourierColumn) else len(column.names)
        for column in encoding.encoder.columns
    )
    return (
        f"{curves} encoded columns, where lines would have {lines}: noise in a gradient is up to "
        f"{math.sqrt(curves / lines):.2g} times as long, so if effects are straight, lines are the better choice; "
        f"{CURVES_OR_LINES}"
    )


def with_row_norms(privacy: Privacy | None, names: Sequence[str], columns: Sequence[int]) -> Privacy | None:
    """The request with the norm of rows that follows from curves, where it does not name one.

    Parameters
    ----------
    privacy : Privacy or None
    names : sequence of str
        The parties.
    columns : sequence of int
        For each of them what `curve_columns` says.
    """
    if privacy is None or privacy.row_norm is not None or not any(columns):
        return privacy
    norms = {name: float(count) ** 0.5 or 1.0 for name, count in zip(names, columns, strict=True)}
    common = set(norms.values())
    return replace(privacy, row_norm=common.pop() if len(common) == 1 else norms)


# --- The loss of a job, which linear models and trees have by the same key, and its trees


def loss_of(job: Job) -> Loss | TreeLoss:
    """The loss that a job names, with the numbers that it gives."""
    model = job.model
    if job.trees is None:
        return of_classes(loss_with(model.loss, **model.loss_settings), model.classes or 2)
    return make_loss(model.loss, model.classes or 2, 0.5 if model.quantile is None else model.quantile)


def trained_loss(job: Job) -> str | Loss:
    """The loss that is planned: of rows with offsets and weights where the job has them; that of trees by name."""
    if job.trees is not None:
        return job.model.loss
    loss = cast("Loss", loss_of(job))
    return RowLoss(loss, weighted=job.is_weighted) if job.has_row_values else loss


def seen_loss(job: Job) -> Loss:
    """The loss that protected parties fit: that of lines beside trees, where the job has them."""
    if job.trees is None or job.privacy is None:
        return get_loss(job.model.loss) if job.trees is not None else cast("Loss", loss_of(job))
    return loss_beside_trees(cast("TreeLoss", loss_of(job)), job.privacy)


def named_loss(name: str) -> Loss | TreeLoss:
    """A loss of either kind of model by its name, with its usual parameters: for what it is, not for its values."""
    return get_loss(name) if name in LOSSES else make_loss(name)


def tree_settings(job: Job) -> TreeSettings | None:
    """How the trees of a job are grown; None for a linear model."""
    if job.trees is None:
        return None
    return TreeSettings(loss=loss_of(job), tol=job.tol, **asdict(job.trees))  # type: ignore[arg-type]

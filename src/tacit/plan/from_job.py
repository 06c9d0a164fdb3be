"""From a job and public sizes to its plan: the same at every site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.errors import InputError
from tacit.job import Job
from tacit.job.values import bytes_of
from tacit.mechanisms import mechanism_of, names_for
from tacit.plan.make import Plan, make_plan
from tacit.plan.request import TrainingRequest
from tacit.text import nearest, show
from tacit.topologies import FeatureSplit, SampleSplit
from tacit.types import Vector


def plan_job(job: Job, rows: int, columns: tuple[int, ...], input_bytes: int) -> Plan:
    """The plan of a job whose columns are split, from its sizes."""
    names = tuple(spec.name for spec in job.parties)
    _check_mechanism(job)
    return make_plan(_request(job, job.model.method), FeatureSplit(names, rows, columns, job.holder, input_bytes))


def plan_nodes(job: Job, rows: tuple[int, ...], columns: int, epsilons: Mapping[str, Sequence[float] | Vector]) -> Plan:
    """The plan of a job whose rows are split, from its sizes and from the epsilons of labels that came randomized."""
    _check_mechanism(job)
    given = {name: tuple(float(value) for value in own) for name, own in epsilons.items()}
    request = _request(job, method_of(job, randomized=bool(epsilons)))
    return make_plan(request, SampleSplit(job.make_graph(), rows, columns, label_epsilons=given))


def _check_mechanism(job: Job) -> None:
    """Refuse a mechanism that the split of a job does not have."""
    known = ("auto", *names_for(job.split))
    if job.privacy is not None and job.privacy.mechanism not in known:
        listed = ", ".join(f'"{name}"' for name in known)
        raise InputError(
            f"privacy.mechanism = {show(job.privacy.mechanism)} is not allowed: it must be one of {listed}"
        )


def _request(job: Job, method: str) -> TrainingRequest:
    """What a job asks for."""
    model = job.model
    return TrainingRequest(
        loss=model.loss,
        penalty=model.penalty,
        alpha=model.alpha,
        fit_intercept=model.fit_intercept,
        tol=job.tol,
        method=method,
        rho=model.rho,
        max_rounds=job.rounds,
        privacy=job.privacy,
        options=job.options,
        published=model.published,
        seed=int(np.random.RandomState(job.seed or 0).randint(2**31 - 1)),  # as random_state of the estimators
        secure_aggregation=job.secure_aggregation,
        memory=None if job.memory is None else bytes_of(job.memory),
        holdout=job.holdout,
    )


def method_of(job: Job, *, randomized: bool) -> str:
    """The method that the job names, or the one that answers what it asks."""
    method, known = job.model.method, ("auto", "none", *names_for(SampleSplit.split))
    if method not in known:
        raise InputError(
            f'model.method = {show(method)} is not for split = "samples"{nearest(method, known)}: '
            f"choose one of {', '.join(known)}"
        )
    if method != "auto":
        return method
    if job.privacy is None:
        return "none"
    return mechanism_of(job.privacy, SampleSplit.split, given_labels=randomized).name

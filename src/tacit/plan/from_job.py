"""From a job and public sizes to its plan: the same at every site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tacit.errors import InputError
from tacit.job import Job
from tacit.job.values import bytes_of
from tacit.mechanisms.base import MEASURES
from tacit.plan.graph import METHODS as NODE_METHODS
from tacit.plan.graph import GraphPlan, make_graph_plan
from tacit.plan.make import Plan, make_plan
from tacit.text import nearest, show
from tacit.types import Vector

METHODS = ("auto", *NODE_METHODS)

AnyPlan = TypeVar("AnyPlan", Plan, GraphPlan)


def plan_job(job: Job, rows: int, columns: tuple[int, ...], input_bytes: int) -> Plan:
    """The plan of a job, from its sizes."""
    model = job.model
    plan = make_plan(
        loss=model.loss,
        penalty=model.penalty,
        alpha=model.alpha,
        fit_intercept=model.fit_intercept,
        method=model.method,
        rho=model.rho,
        max_rounds=job.rounds,
        tol=job.tol,
        privacy=job.privacy,
        party_names=tuple(spec.name for spec in job.parties),
        rows=rows,
        input_bytes=input_bytes,
        columns=columns,
        holder=job.holder,
        seed=int(np.random.RandomState(job.seed or 0).randint(2**31 - 1)),  # as random_state of the estimators
        secure_aggregation=job.secure_aggregation,
        memory=None if job.memory is None else bytes_of(job.memory),
    )
    return _with_holdout(plan, job.holdout)


def _with_holdout(plan: AnyPlan, holdout: float) -> AnyPlan:
    """The plan with the part of the rows that is held out, which will measure what it cannot know."""
    if plan.private is None or not holdout:
        return replace(plan, holdout=holdout)
    will = "the rows that are held out will measure it"
    outlook = tuple(line.replace(MEASURES, will) for line in plan.private.outlook)
    return replace(plan, holdout=holdout, private=replace(plan.private, outlook=outlook))


def plan_nodes(
    job: Job, rows: tuple[int, ...], columns: int, epsilons: Mapping[str, Sequence[float] | Vector]
) -> GraphPlan:
    """The plan of a job, from its sizes and from the epsilons of labels that came randomized."""
    model = job.model
    plan = make_graph_plan(
        loss=model.loss,
        penalty=model.penalty,
        alpha=model.alpha,
        fit_intercept=model.fit_intercept,
        method=method_of(job, randomized=bool(epsilons)),
        published=model.published,
        rho=model.rho,
        max_rounds=job.rounds,
        tol=job.tol,
        privacy=job.privacy,
        options=job.options,
        graph=job.make_graph(),
        rows=rows,
        columns=columns,
        seed=int(np.random.RandomState(job.seed or 0).randint(2**31 - 1)),
        secure_aggregation=job.secure_aggregation,
        label_epsilons={name: [float(value) for value in own] for name, own in epsilons.items()},
    )
    return _with_holdout(plan, job.holdout)


def method_of(job: Job, *, randomized: bool) -> str:
    """The method that the job names, or the one that answers what it asks."""
    method = job.model.method
    if method not in METHODS:
        raise InputError(
            f'model.method = {show(method)} is not for split = "samples"{nearest(method, METHODS)}: '
            f"choose one of {', '.join(METHODS)}"
        )
    if method != "auto":
        return method
    if job.privacy is None:
        return "none"
    return "pdml" if randomized or job.privacy.label_epsilon is not None else "gaussian"

"""What every mechanism must keep to, whatever it is: each check takes its name and a folder to write in."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tacit import load
from tacit.audit.attacks import BROKEN
from tacit.audit.auditor import Effort, audit
from tacit.audit.graph import audit_graph
from tacit.cli.main import main
from tacit.errors import InputError
from tacit.federation.budget import events_of
from tacit.federation.loopback import Loopback
from tacit.mechanisms import MECHANISMS
from tacit.plan import FeatureSplit, Plan, SampleSplit, TrainingRequest, make_plan
from tacit.privacy import accountant
from tacit.privacy.certificate import Certificate
from tacit.privacy.request import Privacy
from tacit.run.graph import GraphRun
from tacit.run.star import Run
from tacit.topologies import make_graph
from tacit.types import Shard

ROWS, COLUMNS = 40, 2
NAMES = ("bank", "shop", "phone")
FEW = Effort(pairs=20, runs=40, seed=1)
REQUESTS: tuple[dict[str, Any], ...] = (
    {"epsilon": 8.0},
    {"epsilon": 8.0, "label_epsilon": 2.0},
    {"epsilon": None, "label_epsilon": 2.0},
)
LAYOUTS = {
    FeatureSplit.split: FeatureSplit(NAMES, ROWS, (COLUMNS,) * 3),
    SampleSplit.split: SampleSplit(make_graph("ring", list(NAMES), 0), (ROWS,) * 3, COLUMNS),
}
GRAPHS = {FeatureSplit.split: "", SampleSplit.split: '[graph]\nkind = "ring"\n'}
AUDITS = {FeatureSplit.split: audit, SampleSplit.split: audit_graph}


def plan_of(name: str) -> Plan:
    """A small plan with the mechanism, for the first of some requests that it answers."""
    return next(_plans(name))


def _plans(name: str) -> Iterator[Plan]:
    for asked in REQUESTS:
        privacy = Privacy(**asked, mechanism=name if MECHANISMS[name].can_be_named else "auto")
        request = TrainingRequest("logistic", "l2", 0.05, fit_intercept=True, tol=1e-4, max_rounds=4, privacy=privacy)
        try:
            plan = make_plan(request, LAYOUTS[MECHANISMS[name].split])
        except InputError:
            continue
        if plan.private is not None and plan.private.mechanism.name == name:
            yield plan


# --- plans and certificates --------------------------------------------------------------------------


def check_plan(name: str, folder: Path) -> None:
    """A plan states its releases by those who take part, and its record names the mechanism and is plain data."""
    plan = plan_of(name)
    assert plan.private is not None
    assert set(plan.private.releases) <= {*plan.party_names, "coordinator"}
    assert plan.fixed_rounds == MECHANISMS[name].has_own_solver
    record = plan.record()
    assert json.loads(json.dumps(record)) == record
    assert name in (record["privacy"].get("mechanism"), record["privacy"].get("method"))


def check_certificate(name: str, folder: Path) -> None:
    """A claim costs no more than was asked, survives JSON, and less noise would cost more."""
    plan = plan_of(name)
    certificate = plan.certificate()
    again = Certificate.from_json(certificate.to_json())
    assert again.claims == certificate.claims
    target = certificate.target
    if certificate.private and target is not None and target.epsilon is not None:
        mains = certificate.main_claims
        assert mains
        assert all(claim.epsilon(target.delta) <= target.epsilon * (1 + 1e-9) for claim in mains)


def check_description(name: str, folder: Path) -> None:
    """What is told of a plan holds its words, its traffic and its claims."""
    plan = plan_of(name)
    found = plan.describe()
    assert found["mechanism"] == name
    assert found["in_words"].startswith(MECHANISMS[name].describe())
    assert json.loads(json.dumps(found)) == found
    assert " ".join(MECHANISMS[name].summary.split()[:3]) in str(plan)


def check_budget(name: str, folder: Path) -> None:
    """Every party can tell what a job costs it: a finite epsilon, or that nothing is proven."""
    plan = plan_of(name)
    for party in plan.party_names:
        for events in events_of(plan, party).values():
            assert events
            assert accountant.epsilon(events, 1e-5) > 0


# --- runs and audits ---------------------------------------------------------------------------------


def check_run(name: str, folder: Path) -> None:
    """A run ends after the planned rounds with finite coefficients."""
    plan, rng = plan_of(name), np.random.default_rng(0)
    tables = [rng.normal(size=(ROWS, COLUMNS)) / 2 for _ in NAMES]
    shards = [Shard(party, table, ("a", "b")) for party, table in zip(NAMES, tables, strict=True)]
    labels = [np.where(table[:, 0] > 0, 1.0, -1.0) for table in tables]
    runs: dict[str, Callable[[], Any]] = {
        FeatureSplit.split: lambda: Run(plan, shards, labels[0]).go(),
        SampleSplit.split: lambda: GraphRun(plan, shards, labels).go(),
    }
    result = runs[plan.layout.split]()
    assert len(result.trace) <= plan.most_rounds
    assert all(np.isfinite(part.coef).all() for part in result.model.parts)


def check_audit(name: str, folder: Path) -> None:
    """No attack breaks what is claimed."""
    plan = plan_of(name)
    found = AUDITS[plan.layout.split](plan, FEW)
    assert found.mechanism == name
    broken = [finding for finding in found.findings if finding.verdict == BROKEN]
    assert not broken, broken


# --- jobs --------------------------------------------------------------------------------------------


def _job(name: str, *, apart: bool) -> str:
    """A job with the mechanism, its files beside it or at the sites."""
    private = plan_of(name).private
    assert private is not None
    asked = {"epsilon": private.privacy.epsilon or '"none"', "label_epsilon": private.privacy.label_epsilon}
    section = "".join(f"{key} = {value}\n" for key, value in asked.items() if value is not None)
    named = f'mechanism = "{name}"\n' if MECHANISMS[name].can_be_named else ""
    engine, split = ("flare" if apart else "in-process"), MECHANISMS[name].split
    lines = [f'[job]\nname = "toy"\nengine = "{engine}"\nsplit = "{split}"\nrounds = 4\n[encode]\nscale = "none"\n']
    lines.append(f"{GRAPHS[split]}[model]\nalpha = 0.05\n[privacy]\n{section}{named}")
    for party in NAMES:
        data = "" if apart else f'data = "{party}.csv"\n'
        label = 'label = "y"\n' if party == NAMES[0] or split == SampleSplit.split else ""
        lines.append(f'[[party]]\nname = "{party}"\n{data}{label}')
    return "".join(lines)


def _files(name: str, folder: Path) -> dict[str, Path]:
    rng, found = np.random.default_rng(1), {}
    for party in NAMES:
        X = (rng.normal(size=(ROWS, COLUMNS)) / 2).round(6)
        labelled = party == NAMES[0] or MECHANISMS[name].split == SampleSplit.split
        columns = [f"{party}{j}" if MECHANISMS[name].split == FeatureSplit.split else f"x{j}" for j in range(COLUMNS)]
        found[party] = folder / f"{party}.csv"
        with open(found[party], "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow([*columns, *(["y"] if labelled else [])])
            lines.writerows([*row, *([int(row[0] > 0)] if labelled else [])] for row in X)
    return found


def check_job(name: str, folder: Path) -> None:
    """A job trains, and its page can be written: what was run, and whether its model is covered."""
    _files(name, folder)
    (folder / "job.toml").write_text(_job(name, apart=False))
    assert main(["train", str(folder / "job.toml"), "--out", str(folder / "run"), "--quiet"]) == 0
    run = load(folder / "run")
    assert run.mechanism is MECHANISMS[name]
    assert run.model_is_covered == (MECHANISMS[name].covers_model or not run.certificate.private)
    assert main(["report", str(folder / "run")]) == 0


def check_federation(name: str, folder: Path) -> None:
    """The same job between sites."""
    together = Loopback(_files(name, folder), folder / "sites")
    assert together.run(_job(name, apart=True)) >= 1


CHECKS: tuple[Callable[[str, Path], None], ...] = (
    check_plan,
    check_certificate,
    check_description,
    check_budget,
    check_run,
    check_audit,
    check_job,
    check_federation,
)

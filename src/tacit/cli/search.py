"""The search for alpha of `tacit train`: made once, kept in search.json, and told as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.cli.wording import duration, tell, traffic
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.job import Job
    from tacit.runtime.store import Begun, RunDirectory


def with_alpha(begun: Begun, directory: RunDirectory, *, quiet: bool) -> tuple[Begun, dict[str, Any] | None]:
    """What is to be trained with the alpha that the job's search takes, and the record of the search; None without one.

    A run that goes on takes the alpha that its search took.
    """
    from tacit.plan import GraphPlan

    plan = begun.plan
    if begun.job.search is None or isinstance(plan, GraphPlan):
        return begun, None
    record = directory.read_search()
    if record is None:
        record = _search(begun)
        if not quiet:
            print("\n".join(table(record)))
        if record["unfinished"]:
            fits = len(record["alphas"]) * record["folds"]
            tell(
                f"tacit: {record['unfinished']} of the {fits} fits of the search did not converge: "
                "raise rounds or tol, or scale the columns to similar size"
            )
        if record["remark"]:
            tell(f"tacit: {record['remark']}")
    return replace(begun, plan=replace(plan, problem=replace(plan.problem, alpha=record["alpha"]))), record


def _search(begun: Begun) -> dict[str, Any]:
    from tacit.plan import Plan
    from tacit.runtime.search import search_job

    assert begun.job.search is not None
    assert isinstance(begun.plan, Plan)
    return search_job(begun.plan, begun.shards, begun.labels, begun.job.search).record()


def table(record: dict[str, Any]) -> list[str]:
    """Every alpha with its loss and its rounds, the one taken marked."""
    lines = [f"{'alpha':>12}  {'loss of rows left out':>21}  {'rounds, by fold'}"]
    for alpha, loss, rounds in zip(record["alphas"], record["mean_losses"], record["rounds_by_fit"], strict=True):
        shown = "not finite" if loss is None else f"{loss:.6g}"
        taken = "  <- taken" if alpha == record["alpha"] else ""
        lines.append(f"{alpha:>12.4g}  {shown:>21}  {' '.join(map(str, rounds))}{taken}")
    return [*lines, ""]


def search_line(record: dict[str, Any]) -> str:
    """The search in a line of the summary."""
    return (
        f"{record['alpha']:.4g}, of {len(record['alphas'])} tried on {record['folds']} folds "
        f"({record['rule']}): {record['traffic']['rounds']} rounds, {duration(record['seconds'])}, "
        f"{traffic(record['traffic'])}"
    )


def refuse_search(job: Job, verb: str) -> None:
    """Refuse a job with [search] where a verb needs one alpha."""
    if job.search is not None:
        raise InputError(f"{verb} takes one alpha: remove [search], and give the model.alpha that it took")

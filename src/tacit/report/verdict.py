"""Whether the joint model is better than what the label holder, or a node, has without the others.

A verdict is measured, on rows that were held out, or it is not made. It goes by the mean difference of two models'
losses, row by row, and its standard error. That the joint model is better is said beyond two standard errors. That it
is worse than the label holder alone is said beyond one: who is warned in vain loses less than who is not warned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.mechanisms.base import is_provisional
from tacit.run.measures import TITLES, loss_title

WORSE, BETTER, SAME, NOT_COMPARED, NOTHING = "worse", "better", "same", "not compared", ""
SURE, WARN = 2.0, 1.0  # standard errors
HOW_TO_MEASURE = "Add holdout = 0.2 under [job] to measure it"
MOST_NAMES = 4


@dataclass(frozen=True)
class Verdict:
    """One of the kinds above, and a sentence for people; empty where there is nobody to compare with."""

    kind: str
    sentence: str


def verdict(record: Mapping[str, Any]) -> Verdict:
    """What an evaluation says about the use of the collaboration.

    Parameters
    ----------
    record : mapping
        As `evaluation.evaluate` makes it, and as evaluation.json has it.
    """
    parties = record.get("parties", [])
    if len(parties) < 2:
        return Verdict(NOTHING, "")
    return {"features": _of_parties, "samples": _of_nodes}[record["split"]](record)


def _of_parties(record: Mapping[str, Any]) -> Verdict:
    """The joint model against the label holder alone."""
    holder = record["holder"]
    if not record["held_out"] or not record["models"]:
        return _not_compared(record, f"{holder} alone")
    own = next((m for m in record["models"] if m["kind"] == "alone" and m["party"] == holder), None)
    against = {} if own is None else own.get("joint_against_it", {})
    if not against:
        return Verdict(NOT_COMPARED, f"not compared with {holder} alone: {_reason(record)}")
    kind = kind_of(against, WARN)
    sure = "" if kind_of(against) == kind else ", by more than one standard error though not by two,"
    text = {
        WORSE: f"the joint model is WORSE than {holder} alone{sure}",
        BETTER: f"the joint model is better than {holder} alone",
        SAME: f"the joint model and {holder} alone cannot be told apart",
    }[kind]
    text += f" on {record['rows']['evaluated']:,} held-out rows: {_figures(record, own or {}, against)}"
    return Verdict(kind, f"{text}. {_what_to_do(record, holder)}" if kind == WORSE else text)


def still_true(record: Mapping[str, Any], outlook: Sequence[str]) -> list[str]:
    """The sentences of an outlook that are still true: without estimates where the use of the run was measured."""
    measured = verdict(record).kind in (WORSE, BETTER, SAME)
    return [line for line in outlook if not (measured and is_provisional(line))]


def kind_of(against: Mapping[str, float], warn: float = SURE) -> str:
    """Worse (beyond `warn` standard errors), better or the same, by the mean difference of the losses."""
    difference, error = against["difference"], against["error"]
    if difference > warn * error:
        return WORSE
    return BETTER if -difference > SURE * error else SAME


def _figures(record: Mapping[str, Any], own: Mapping[str, Any], against: Mapping[str, float]) -> str:
    """Loss of both, the difference with its error, and AUC beside, which may say something else."""
    text = (
        f"{loss_title(record['loss'])} {against['joint']:.4g} against {against['other']:.4g} "
        f"(difference {against['difference']:+.2g}, standard error {against['error']:.2g})"
    )
    pair = [model["measures"].get("auc") for model in (record["models"][0], own)]
    if None in pair:
        return text
    error = record["models"][0].get("errors", {}).get("auc")
    noise = "" if error is None else f" (standard error {error:.2g})"
    return f"{text}, {TITLES['auc']} {pair[0]:.4g}{noise} against {pair[1]:.4g}"


def _what_to_do(record: Mapping[str, Any], holder: str) -> str:
    if record["private"]:
        return (
            f"Use {holder} alone, or more rows, fewer columns, a larger epsilon, a row_norm nearer to the real rows, "
            f"or a larger alpha than {record['alpha']:.4g}"
        )
    if record["searched"]:
        return f"Its alpha was chosen by [search]: the columns of the others may not help, so {holder} alone may do"
    return (
        "Choose the penalty by validation, with [search] in the job, or give a larger alpha than "
        f"{record['alpha']:.4g} under [model]"
    )


def _not_compared(record: Mapping[str, Any], whom: str) -> Verdict:
    """Without rows that were held out, or where nothing may be evaluated."""
    if record["models"] or not record["held_out"]:
        may = not record["notes"] or record["models"] or "holdout" in record["notes"][0]
        how = f"no rows were held out. {HOW_TO_MEASURE}" if may else _lower(record["notes"][0])
        return Verdict(NOT_COMPARED, f"not compared with {whom} on new rows: {how}")
    return Verdict(NOT_COMPARED, f"not compared with {whom}: {_reason(record)}")


def _reason(record: Mapping[str, Any]) -> str:
    """The first of the notes that says why."""
    why = next((note for note in record["notes"] if "compare" in note or "evaluated" in note), "")
    return _lower(why) if why else "its loss is not finite there, or there are too few rows"


def _lower(note: str) -> str:
    return (note[0].lower() + note[1:]).rstrip(".")


# --- other rows --------------------------------------------------------------------------------------


def _of_nodes(record: Mapping[str, Any]) -> Verdict:
    """At how many nodes the joint model is worse than the node's own, beyond the error of the measurement."""
    if not record["held_out"] or not record["models"]:
        return _not_compared(record, "the nodes' own models")
    kinds = {
        node["name"]: kind_of(node["joint_against_it"]) for node in record["nodes"] if node.get("joint_against_it")
    }
    if not kinds:
        return Verdict(NOT_COMPARED, f"not compared with the nodes' own models: {_reason(record)}")
    by_kind = {kind: [name for name, own in kinds.items() if own == kind] for kind in (WORSE, BETTER, SAME)}
    worse, better, same = (by_kind[kind] for kind in (WORSE, BETTER, SAME))
    measured = f"by {loss_title(record['loss'])} on each node's held-out rows"
    parts = [
        f"better than the node's own at {len(better)} of {len(kinds)} nodes",
        f"WORSE at {len(worse)}{_named(worse)}" if worse else "worse at none",
        f"not to be told apart from it at {len(same)}",
    ]
    text = f"the joint model is {', '.join(parts)}, {measured}"
    if not worse:
        return Verdict(BETTER if better else SAME, text)
    more = "a larger epsilon or more rows" if record["private"] else f"a larger alpha than {record['alpha']:.4g}"
    return Verdict(WORSE, f"{text}. Try {more}; {_named(worse).strip(' ()')} may do better alone")


def _named(names: Sequence[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMES])
    return f" ({shown})" if len(names) <= MOST_NAMES else f" ({shown} and {len(names) - MOST_NAMES} more)"

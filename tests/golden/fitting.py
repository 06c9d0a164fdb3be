"""What a fit leaves: its plan, its messages, its certificate, its trace and its model."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from typing import Any

import numpy as np

from tests.golden import adapter, values

Record = dict[str, Any]
APART = ("certificate_", "trace_", "graph_", "search_")  # recorded as what they are
MOST_PLANS, IN_FULL = 1, 6


def fitted(model: Any, X: Any, y: Any, new: Any, **more: Any) -> Record:
    """Fit and record."""
    with adapter.watched() as seen, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # some name mechanisms as they were named when the records were made, which is taken for one more release
        warnings.filterwarnings("ignore", "method=.* names a mechanism", FutureWarning)
        model.fit(X, y, **more)
    told = [f"{one.category.__name__}: {one.message}" for one in caught]
    certificate = values.plain(json.loads(model.certificate_.to_json()))
    return {
        "plans": len(seen.plans),
        "plan": [_plan(plan, certificate) for plan in seen.plans[-MOST_PLANS:]],
        "certificate": certificate,
        "certificate text": values.of_text(str(model.certificate_), most=0),
        "warnings": values.plain(told),
        "model": _model(model, new),
        "trace": values.columns([asdict(row) for row in model.trace_]),
        "transcript": transcript(seen),
    }


def transcript(seen: adapter.Watched) -> list[Any]:
    """Every message: the line of its head, and its arrays in short, or to whom the same was sent just before.

    In a long run the arrays of a message after the first ones are summed up together.
    """
    told: list[Any] = []
    before: dict[tuple[Any, ...], tuple[str, Any]] = {}
    for number, message in enumerate(seen.messages):
        head, receiver = f"{message['round']} {message['kind']}: {message['sender']}", message.get("receiver", "")
        arrays = values.plain(message["arrays"]) if number < IN_FULL else values.together(message["arrays"])
        first, same = before.setdefault((head, receiver == ""), (receiver, arrays))
        again = receiver != first and same == arrays
        told.append([f"{head} to {receiver}" if receiver else head, f"as to {first}" if again else arrays])
    return told


def _plan(plan: Any, certificate: Record) -> Record:
    """A plan, but for what the certificate repeats; jobs record in full how it is printed."""
    known = adapter.plan_values(plan)
    said = values.plain(known)
    for key, item in said["describe"].items():
        if isinstance(item, list) and item and certificate.get(key) == item:
            said["describe"][key] = "as in the certificate"
    return {**said, "text": values.of_text(known["text"], most=0)}


def _model(model: Any, new: Any) -> Record:
    """Whatever the estimator shows after a fit, and its predictions."""
    found = {name: item for name, item in vars(model).items() if name.endswith("_") and name not in APART}
    record = {name: values.plain(found[name]) for name in sorted(found)}
    for name in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, name):
            record[name] = values.plain(np.asarray(getattr(model, name)(new)))
    if hasattr(model, "graph_"):
        record["edges"] = values.plain([list(edge) for edge in model.graph_.edges])
    return record

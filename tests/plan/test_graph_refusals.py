"""Every registered loss and penalty in the sample split: planned, or refused in a line that names what is possible."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tacit.errors import InputError
from tacit.plan import Plan
from tacit.privacy.request import Privacy
from tacit.problem.registry import LOSSES, REGULARIZERS
from tacit.topologies import make_graph
from tests.plans import sample_plan

REQUESTS: dict[str, Privacy | None] = {
    "none": None,
    "dual": Privacy(epsilon=2.0),
    "primal": Privacy(epsilon=2.0),
    "pdml": Privacy(epsilon=2.0, label_epsilon=1.0),
}
SOLVED = {name for name, loss in LOSSES.items() if loss.convex and loss.smooth}
BOUNDED = {"huber", "logistic"}


def plan(method: str, loss: str = "logistic", penalty: str = "l2") -> Plan:
    chosen: dict[str, Any] = {"alpha": 0.1, "fit_intercept": True, "published": False, "rho": "auto", "tol": 1e-6}
    return sample_plan(
        **chosen, loss=loss, penalty=penalty, method=method, max_rounds=20, privacy=REQUESTS[method],
        graph=make_graph("ring", 3), rows=(40, 40, 40), columns=2,
    )  # fmt: skip


def refusal(method: str, **choice: str) -> str:
    """What is said against a choice; nothing where it is planned."""
    said = ""
    try:
        plan(method, **choice)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert not said or next(iter(choice.values())) in said
    return said


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_losses(method: str, loss: str) -> None:
    said = refusal(method, loss=loss)
    possible = {"none": SOLVED, "pdml": {"logistic"}}.get(method, BOUNDED)
    assert (said == "") == (loss in possible)
    if said:
        ways = re.findall(r"'(\w+)'", said[said.rindex("use ") :])
        own = next((way for way in ways if way in REQUESTS), method)  # it may name another method, too
        losses = [way for way in ways if way in LOSSES]
        assert losses
        for way in losses:
            assert (LOSSES[way].task == "classification") == (LOSSES[loss].task == "classification")
            assert refusal(own, loss=way) == ""


@pytest.mark.parametrize("method", REQUESTS)
@pytest.mark.parametrize("penalty", REGULARIZERS)
def test_penalties(method: str, penalty: str) -> None:
    said = refusal(method, penalty=penalty)
    assert (said == "") == (penalty in ("l2", "none"))
    if said:
        assert re.search(r"use ['\"]l2['\"] or ['\"]none['\"]", said)
        assert refusal(method, penalty="l2") == ""

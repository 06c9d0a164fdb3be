"""One small plan of every mechanism of both splits, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tacit import Privacy
from tacit.plan import Plan
from tacit.topologies import make_graph
from tests.plans import feature_plan as make_features
from tests.plans import sample_plan

NODES = ["n1", "n2", "n3"]


def feature_plan(*, secure: bool = False, holdout: str = "", **privacy: Any) -> Plan:
    """Three parties with four columns each."""
    plan = make_features(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, method="auto", rho="auto", max_rounds=10,
        tol=1e-4, privacy=Privacy(**privacy), party_names=("a", "b", "c"), rows=500, input_bytes=0, columns=(4, 4, 4),
        secure_aggregation=secure,
    )  # fmt: skip
    return replace(plan, holdout=holdout)


def node_plan(
    method: str,
    *,
    secure: bool = False,
    holdout: str = "",
    published: bool = False,
    given: bool = False,
    private: bool = True,
    **privacy: Any,
) -> Plan:
    """Three nodes on a star with a hundred rows each; `given` labels were randomized by their contributors."""
    plan = sample_plan(
        loss="logistic", penalty="l2", alpha=1e-2, fit_intercept=method == "gaussian", method=method,
        published=published, rho="auto", max_rounds=5, tol=0.0, privacy=Privacy(**privacy) if private else None,
        graph=make_graph("star", NODES, 0), rows=(100, 100, 100), columns=4, secure_aggregation=secure,
        label_epsilons=dict.fromkeys(NODES, [1.0] * 100) if given else None,
    )  # fmt: skip
    return replace(plan, holdout=holdout)


def given_plan(holdout: str = "") -> Plan:
    """A run without noise on labels that were randomized before."""
    return node_plan("none", holdout=holdout, given=True, private=False)


PRIVATE: dict[str, Callable[..., Plan]] = {
    "others": lambda **more: feature_plan(epsilon=1, **more),
    "others, labels": lambda **more: feature_plan(epsilon=1, label_epsilon=1, **more),
    "refit": lambda **more: feature_plan(epsilon=1, refit=True, **more),
    "everyone": lambda **more: feature_plan(epsilon=1, protect="everyone", **more),
    "label holder": lambda **more: feature_plan(epsilon=1, protect="everyone", predictions="label-holder", **more),
    "person": lambda **more: feature_plan(epsilon=1, unit="person", **more),
    "labels alone": lambda **more: feature_plan(epsilon=None, label_epsilon=1, **more),
    "shares": lambda **more: feature_plan(epsilon=8, mechanism="shares", label_epsilon=1, **more),
    "shares, masks": lambda **more: feature_plan(epsilon=8, mechanism="shares", honest=2, secure=True, **more),
    "gaussian": lambda **more: node_plan("gaussian", epsilon=1, **more),
    "gaussian, masks": lambda **more: node_plan("gaussian", epsilon=1, secure=True, **more),
    "gaussian, person": lambda **more: node_plan("gaussian", epsilon=1, unit="person", **more),
    "dual": lambda **more: node_plan("dual", epsilon=1, **more),
    "dual, published": lambda **more: node_plan("dual", epsilon=1, published=True, **more),
    "primal": lambda **more: node_plan("primal", epsilon=1, **more),
    "pdml": lambda **more: node_plan("pdml", epsilon=1, label_epsilon=1, **more),
    "pdml, labels": lambda **more: node_plan("pdml", epsilon=None, label_epsilon=1, **more),
    "given labels": lambda **more: given_plan(**more),
}
"""Plans that prove something."""

NOT_PRIVATE: dict[str, Callable[..., Plan]] = {
    "published": lambda **more: feature_plan(epsilon=1, mechanism="published", **more),
    "primal, published": lambda **more: node_plan("primal", epsilon=1, published=True, **more),
}
"""Plans whose certificate says that it proves nothing."""

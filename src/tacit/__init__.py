"""Train one model together without sharing data, by ADMM, and get a privacy certificate that can be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.version import __version__

if TYPE_CHECKING:
    from tacit.data.partition import PartyTables, survival_rows
    from tacit.errors import InputError, RunError, TacitError
    from tacit.estimators.baselines import alone, pooled
    from tacit.estimators.boosting import VerticalBoostingClassifier, VerticalBoostingRegressor
    from tacit.estimators.fitted import load
    from tacit.estimators.horizontal import HorizontalClassifier, HorizontalRegressor
    from tacit.estimators.vertical import VerticalClassifier, VerticalRegressor
    from tacit.estimators.vertical_cv import VerticalClassifierCV, VerticalRegressorCV
    from tacit.privacy.request import PaperOptions, Privacy
    from tacit.report.displays import ContributionDisplay, ConvergenceDisplay, CurvesDisplay, PrivacyDisplay
    from tacit.training import run_job

_HOMES = {
    "ContributionDisplay": "tacit.report.displays",
    "ConvergenceDisplay": "tacit.report.displays",
    "CurvesDisplay": "tacit.report.displays",
    "HorizontalClassifier": "tacit.estimators.horizontal",
    "HorizontalRegressor": "tacit.estimators.horizontal",
    "InputError": "tacit.errors",
    "PaperOptions": "tacit.privacy.request",
    "PartyTables": "tacit.data.partition",
    "Privacy": "tacit.privacy.request",
    "PrivacyDisplay": "tacit.report.displays",
    "RunError": "tacit.errors",
    "TacitError": "tacit.errors",
    "VerticalBoostingClassifier": "tacit.estimators.boosting",
    "VerticalBoostingRegressor": "tacit.estimators.boosting",
    "VerticalClassifier": "tacit.estimators.vertical",
    "VerticalClassifierCV": "tacit.estimators.vertical_cv",
    "VerticalRegressor": "tacit.estimators.vertical",
    "VerticalRegressorCV": "tacit.estimators.vertical_cv",
    "alone": "tacit.estimators.baselines",
    "load": "tacit.estimators.fitted",
    "pooled": "tacit.estimators.baselines",
    "run_job": "tacit.training",
    "survival_rows": "tacit.data.partition",
}

__all__ = [
    "ContributionDisplay",
    "ConvergenceDisplay",
    "CurvesDisplay",
    "HorizontalClassifier",
    "HorizontalRegressor",
    "InputError",
    "PaperOptions",
    "PartyTables",
    "Privacy",
    "PrivacyDisplay",
    "RunError",
    "TacitError",
    "VerticalBoostingClassifier",
    "VerticalBoostingRegressor",
    "VerticalClassifier",
    "VerticalClassifierCV",
    "VerticalRegressor",
    "VerticalRegressorCV",
    "__version__",
    "alone",
    "load",
    "pooled",
    "run_job",
    "survival_rows",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import tacit` costs nothing."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

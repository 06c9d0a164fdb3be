"""Data and oracles that several tests share."""

from __future__ import annotations

import functools
import gc
import os
from typing import Any

import numpy as np
import pytest

from tacit.errors import InputError
from tests import schedule, workers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-seconds", action="store_true", help="write what each file took to tests/seconds.json")
    parser.addoption("--workers", type=int, default=0, help="run the tests in so many processes at once")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-seconds"):
        config.pluginmanager.register(schedule.Stopwatch(), "stopwatch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    schedule.mark_slow(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and tests stay to the end: the collector need not look at their million objects again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.getoption("--workers")
    if not count or session.testsfailed or session.config.option.collectonly:
        return None  # in one process alone, tests run in the order in which they are written
    first, others = schedule.compile_first(schedule.groups_of(session.items))
    workers.run_groups(session, first, 1)
    workers.run_groups(session, others, count)
    return True


@pytest.fixture(scope="session", autouse=True)
def home_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what organisations own away from the home of whoever runs the tests."""
    os.environ["TACIT_HOME"] = str(tmp_path_factory.mktemp("home"))


def correlated(task: str, *, rows: int = 200, columns: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Blocks that share three strong directions, every tenth column constant, some binary: hard for Jacobi steps."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, columns)) + 0.3 * rng.normal(size=(rows, columns))
    X[:, ::10] = 1.0
    X[:, 5::10] = X[:, 5::10] > 0
    X /= np.sqrt(columns)
    score = 1.5 * X @ rng.normal(size=columns)
    if task == "classification":
        return X, np.where(score + np.std(score) * rng.normal(size=rows) > 0, 1.0, -1.0)
    if task == "amounts":  # none of them 0
        return X, rng.gamma(2.0, np.exp(np.clip(score, -3, 2)) / 2)
    if task == "counts":
        return X, rng.poisson(np.exp(np.clip(score, -3, 2))).astype(float)
    return X, score + rng.normal(size=rows) + 3.0 * (rng.random(rows) < 0.05)


def real_data(loader):
    """The data set, or a skip that says why."""
    if not os.environ.get("TACIT_DATA"):
        pytest.skip("needs the public data sets: set TACIT_DATA to their folder")
    try:
        return loader()
    except InputError as error:
        pytest.skip(f"needs the public data sets: {error}")


@pytest.fixture
def usual_class_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn's check of class weights runs at the default tol: its weights differ by ten millions, and at the tol
    that other checks need a graph takes thousands of rounds."""
    from sklearn.utils import estimator_checks

    check = estimator_checks.check_class_weight_classifiers

    @functools.wraps(check)
    def at_the_default(name: str, estimator: Any) -> None:
        check(name, estimator.set_params(tol=type(estimator)().tol))

    monkeypatch.setattr(estimator_checks, "check_class_weight_classifiers", at_the_default)

"""XGBoost's own vertical training beside the joint run: two processes and its federated server, every byte counted.

It is what NVIDIA FLARE's vertical XGBoost wraps, without FLARE's transport and without encryption. Its model is that of
XGBoost on all columns, and may use columns of both parties in one tree. Needs the full wheel, `pip install xgboost`
(132 MB); in `xgboost-cpu` the plugin is not compiled.
"""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench import tree_peers as peers
from bench.curve_sets import SETS, missing
from bench.row import Row
from bench.trees import adult, held_of

TITLE = "vertical XGBoost by its federated plugin: loss, trees, bytes"
ONLY_WHEN_NAMED = True
TREES, QUICK_TREES, PATIENCE = 2000, 5, 50
COUNTED_TREES = 10  # of the run between processes: its bytes are the same for each tree
HOST = "127.0.0.1"
PARAMS: dict[str, Any] = {
    "objective": "binary:logistic", "eval_metric": "logloss", "eta": 0.08, "max_leaves": 15, "max_depth": 0,
    "grow_policy": "lossguide", "reg_lambda": 5.0, "tree_method": "hist", "nthread": 1,
}  # fmt: skip


def run(quick: bool = False) -> list[Row]:
    """Adult between two parties: XGBoost on all columns, and the same trees between two processes."""
    why = missing(SETS["adult"]) or _absent()
    if why:
        return [Row("vertical XGBoost", f"skipped: {why}")]
    import xgboost

    task, most = adult(2, 0), QUICK_TREES if quick else COUNTED_TREES
    held = held_of(len(task.cut.y), 0)
    X, X_test, _ = peers.as_numbers(task.cut.train, task.cut.test)
    y, place = (task.cut.y > 0).astype(float), {name: j for j, name in enumerate(task.cut.train)}
    fitted, judged = xgboost.DMatrix(X[~held], y[~held]), xgboost.DMatrix(X[held], y[held])
    whole = xgboost.train(
        PARAMS, fitted, TREES, evals=[(judged, "held")], early_stopping_rounds=PATIENCE, verbose_eval=False
    )
    best = whole.best_iteration + 1
    loss = task.loss(whole.predict(xgboost.DMatrix(X_test), iteration_range=(0, best)), task.cut.y_test)
    few = whole.predict(xgboost.DMatrix(X_test), iteration_range=(0, most))
    columns = [[place[name] for name in own] for own in task.groups.values()]
    parts = [(X[~held][:, own], y[~held], X_test[:, own]) for own in columns]
    apart, sent, spent = between_processes(parts, most)
    differ = float(np.abs(apart - few).max())
    return [
        Row("adult: XGBoost, all columns, log loss", f"{loss:.4f} with {best} trees", loss),
        Row(f"adult: vertical XGBoost, {most} trees: largest difference of a probability", f"{differ:.1e}", differ),
        Row("adult: vertical XGBoost, bytes for each tree", f"{sent / most / 1e6:.2f} MB", sent / most),
        Row("adult: vertical XGBoost, seconds for each tree", f"{spent / most:.2f} (with the start of processes)"),
    ]


def _absent() -> str:
    """Why it cannot run; empty where it can."""
    if find_spec("xgboost") is None:
        return "xgboost is not installed"
    import xgboost

    return "" if xgboost.build_info().get("USE_FEDERATED") else "this build of xgboost has no federated plugin"


def between_processes(parts: list[Any], trees: int) -> tuple[Any, int, float]:
    """Predictions of a model that two processes train together, the bytes that travelled, and seconds."""
    context = multiprocessing.get_context("spawn")
    server_port, port = _free_port(), _free_port()
    server = context.Process(target=_serve, args=(server_port,), daemon=True)
    server.start()
    _wait_for(server_port)
    proxy, answers, start = _Proxy(port, server_port), context.Queue(), time.perf_counter()
    workers = [context.Process(target=_work, args=(k, port, *own, trees, answers)) for k, own in enumerate(parts)]
    for worker in workers:
        worker.start()
    found = dict(answers.get(timeout=900) for _ in workers)
    spent = time.perf_counter() - start
    for worker in workers:
        worker.join()
    server.terminate()
    return found[0], proxy.carried, spent


def _serve(port: int) -> None:
    from xgboost import federated

    federated.run_federated_server(n_workers=2, port=port, blocking=True)


def _work(rank: int, port: int, X: Any, y: Any, X_test: Any, trees: int, answers: Any) -> None:
    """One party; the first alone has labels."""
    import xgboost

    where = {"federated_server_address": f"{HOST}:{port}", "federated_world_size": 2, "federated_rank": rank}
    with xgboost.collective.CommunicatorContext(dmlc_communicator="federated", **where):
        split = xgboost.core.DataSplitMode.COL
        data = xgboost.DMatrix(X, y if rank == 0 else None, data_split_mode=split)
        model = xgboost.train(PARAMS, data, trees)
        answers.put((rank, model.predict(xgboost.DMatrix(X_test, data_split_mode=split))))


class _Proxy:
    """Carries what passes between the workers and the server, and counts it."""

    def __init__(self, port: int, target: int) -> None:
        self.carried, self.target = 0, target
        self.listener = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection((HOST, self.target))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while content := one.recv(2**16):
                self.carried += len(content)
                other.sendall(content)
        except OSError:  # the other end is gone
            return


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as one:
        return int(one.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the federated server of XGBoost did not start")

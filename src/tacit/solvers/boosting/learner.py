"""One party's trees: grown in blocks by LightGBM, kept as plain numbers, with the step of each block.

A block is grown by a booster of its own on one Dataset that lives for the whole run. Nothing of a block depends on the
blocks before it but the margin, so that a run that goes on from a checkpoint grows the same trees to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.columns.raw import RawTable
from tacit.errors import InputError
from tacit.solvers.boosting.losses import QuantileTrees, TreeLoss, leaf_quantiles
from tacit.solvers.boosting.model import TreeModel, lightgbm, packed, unpacked
from tacit.solvers.boosting.settings import TreeSettings
from tacit.types import Arrays, Vector

FEW_ROWS = 100  # below this a cell of its own is enough for a bin
PENDING = "pending"
STEPS = "block_steps"


class TreeLearner:
    """Grows blocks of trees on one party's columns, and adds up those that are kept.

    Parameters
    ----------
    table : RawTable
    held : boolean array
        Rows that no tree is fitted on.
    settings : TreeSettings
    seed : int
        Of the sample of rows from which LightGBM takes bins, where there are very many.
    weights : array or None
        What each row counts for.
    groups : list of lists of int, optional
        Columns that may be in one tree together.
    """

    def __init__(
        self,
        table: RawTable,
        held: Any,
        settings: TreeSettings,
        seed: int,
        weights: Vector | None = None,
        groups: list[list[int]] | None = None,
    ) -> None:
        self.loss: TreeLoss = settings.loss
        self.rate = settings.learning_rate
        self.features, self.rows = table.d, table.n
        self.fitted, self.held = np.flatnonzero(~held), np.flatnonzero(held)
        # of mean 1, so that l2_regularization and the least curvature of a leaf mean what they mean without weights
        self.weights = None if weights is None else weights[self.fitted] / weights[self.fitted].mean()
        self.threads = settings.threads
        # leaves of rows are looked up in their cells
        self.values = np.ascontiguousarray(table.values) if self.loss.kinked else None
        self.params = _params(table, settings, len(self.fitted), seed)
        if groups is not None:
            self.params["interaction_constraints"] = groups
        _check_varies(table)
        self._make_data(table)
        self.blocks: list[tuple[float, TreeModel]] = []
        self.pending: TreeModel | None = None

    def _make_data(self, table: RawTable) -> None:
        package = lightgbm()
        categorical = list(table.categorical) or "auto"
        values = np.asarray(table.values)
        whole = package.Dataset(values, np.zeros(table.n), categorical_feature=categorical, params=self.params)
        self.data = whole.construct()
        self.validation = None
        if self.held.size:
            self.data = whole.subset(self.fitted, params=self.params).construct()
            self.validation = whole.subset(self.held, params=self.params).construct()
        try:
            self._booster()
        except package.basic.LightGBMError as error:
            raise InputError(
                f"party {table.party!r}: no column varies enough for a split: give it other columns, or leave it out"
            ) from error

    def _booster(self) -> Any:
        booster = lightgbm().Booster(self.params, self.data)
        if self.validation is not None:
            booster.add_valid(self.validation, "held")
        return booster

    # --- growing --------------------------------------------------------------------------------------

    def grow(self, margin: Vector, labels: Vector, trees: int) -> Vector:
        """Grow a block at this margin of the fitted rows; return what it adds to every row.

        What it adds is rounded to float32, as it travels.
        """
        assert self.pending is None, "the last block has no step yet"
        booster = self._booster()
        grow = self._grow_kinked if self.loss.kinked else self._grow_smooth
        added, self.pending = grow(booster, margin, labels, trees)
        result = np.empty((self.rows, *added.shape[1:]))
        result[self.fitted], result[self.held] = added[: len(self.fitted)], added[len(self.fitted) :]
        with np.errstate(over="ignore"):
            return result.astype(np.float32).astype(np.float64)

    def _slopes(self, z: Vector, labels: Vector) -> tuple[Vector, Vector]:
        slope, curvature = self.loss.slopes(z, labels)
        if self.weights is None:
            return slope, curvature
        weights = self.weights if z.ndim == 1 else self.weights[:, None]
        return weights * slope, weights * curvature

    def _grow_smooth(self, booster: Any, margin: Vector, labels: Vector, trees: int) -> tuple[Vector, TreeModel]:
        """Slopes at the margin plus what the block's trees add so far."""
        for _ in range(trees):
            if booster.update(fobj=lambda own, _: self._slopes(margin + own, labels)):
                break  # no split is left
        return _scores(booster), _grown(booster, self.features)

    def _grow_kinked(self, booster: Any, margin: Vector, labels: Vector, trees: int) -> tuple[Vector, TreeModel]:
        """A tree's shape from the slopes, its leaves from the quantiles of the residuals."""
        assert isinstance(self.loss, QuantileTrees)
        assert self.values is not None
        n, order = len(self.fitted), np.concatenate([self.fitted, self.held])
        added, leaves = np.zeros(len(order)), []
        for number in range(trees):
            if booster.update(fobj=lambda *_: self._slopes(margin + added[:n], labels)):  # noqa: B023
                break
            leaf = booster.predict(
                self.values, pred_leaf=True, start_iteration=number, num_iteration=1, num_threads=self.threads
            )
            leaf = leaf.ravel().astype(np.int64)[order]
            residual = labels - margin - added[:n]
            out = self.rate * leaf_quantiles(residual, leaf[:n], leaf.max() + 1, self.loss.level, self.weights)
            leaves.append(out)
            added = added + out[leaf]
        grown = _grown(booster, self.features)
        changed = [
            tree.with_leaves(np.resize(np.append(out, np.zeros(tree.leaves)), tree.leaves))
            for tree, out in zip(grown.trees, leaves, strict=False)
        ]
        return added, TreeModel(self.features, 1, tuple(changed))

    # --- what is kept ---------------------------------------------------------------------------------

    def settle(self, step: float) -> None:
        """Keep the last block with this step, or drop it where the step is 0."""
        if self.pending is not None and step > 0 and self.pending.trees:
            self.blocks.append((step, self.pending))
        self.pending = None

    @property
    def model(self) -> TreeModel:
        """The trees that were kept."""
        return TreeModel.joined(self.blocks, self.features, self.loss.outputs)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        state = {STEPS: np.array([step for step, _ in self.blocks])}
        state |= {f"block.{number}": packed(block.text) for number, (_, block) in enumerate(self.blocks)}
        return state | ({} if self.pending is None else {PENDING: packed(self.pending.text)})

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        steps = state[STEPS].tolist()
        texts = [unpacked(state[f"block.{number}"]) for number in range(len(steps))]
        self.blocks = [(step, TreeModel.read(text, self.features)) for step, text in zip(steps, texts, strict=True)]
        self.pending = TreeModel.read(unpacked(state[PENDING]), self.features) if PENDING in state else None


def _params(table: RawTable, settings: TreeSettings, fitted: int, seed: int) -> dict[str, Any]:
    """LightGBM's parameters; those that make runs repeatable among them."""
    params = {
        "objective": "none",
        "num_class": settings.loss.outputs,
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.max_leaf_nodes,
        "max_depth": -1 if settings.max_depth is None else settings.max_depth,
        "min_data_in_leaf": settings.least_leaf(fitted),
        "lambda_l2": settings.l2_regularization,
        "max_bin": settings.max_bins,
        "min_data_in_bin": 3 if fitted >= FEW_ROWS else 1,
        "min_data_per_group": int(np.clip(fitted // 25, 5, 100)),
        "feature_pre_filter": False,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": settings.threads,
        "seed": seed % 2**31,
        "verbosity": -1,
    }
    return params | ({"monotone_constraints": list(table.monotone)} if any(table.monotone) else {})


def _check_varies(table: RawTable) -> None:
    """Refuse a party whose columns are all constant: LightGBM aborts on them."""
    for place in range(table.d):
        cells = table.values[:, place]
        first = cells[0]
        same = np.isnan(cells).all() if np.isnan(first) else bool((cells == first).all())
        if not same:
            return
    raise InputError(
        f"party {table.party!r}: every column is constant or blank, so that no tree can split: give it other columns, "
        "or leave this party out"
    )


def _scores(booster: Any) -> Vector:
    """What the block adds: fitted rows, then those held out."""
    seen: list[Vector] = []

    def see(scores: Vector, _: Any) -> tuple[str, float, bool]:
        seen.append(np.array(scores))
        return "scores", 0.0, False

    booster.eval_train(see)
    booster.eval_valid(see)
    return np.concatenate(seen)


def _grown(booster: Any, features: int) -> TreeModel:
    """The booster's trees; a block whose first tree found no split has none."""
    model = TreeModel.read(booster.model_to_string(), features)
    return model if any(tree.leaves > 1 for tree in model.trees) else TreeModel(features, model.outputs)

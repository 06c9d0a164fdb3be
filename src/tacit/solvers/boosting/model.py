"""A party's trees as text: read strictly, written in one way, and used through LightGBM.

The text is that of LightGBM's models. One from outside is untrusted: every line is read here into numbers, which are
checked before LightGBM sees anything, and what LightGBM gets is written anew from these numbers. A tree is checked to
be one: each inner node and each leaf has exactly one parent, so that no row can walk in circles or out of an array.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError
from tacit.types import Vector

Whole = npt.NDArray[np.int64]

LONGEST = 200_000_000  # characters of a text
MOST_FEATURES = 1_000_000
MOST_OUTPUTS = 10_000
MOST_LEAVES = 131_072
VERSION = "v4"
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?")
THRESHOLD = re.compile(rf"inf|{NUMBER.pattern}")  # every number below infinity is on one side, blanks on the other
WHOLE = re.compile(r"-?\d{1,18}")
CATEGORICAL = 1  # bit of decision_type; the others say where zeros and blanks go
MANY_ROWS = 100_000
WORD = 32  # categories in a word of a set


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: inner nodes 0 .. L - 2, leaves 0 .. L - 1; a child c below 0 is the leaf -c - 1."""

    split_feature: Whole
    split_gain: Vector
    threshold: Vector
    decision_type: Whole
    left_child: Whole
    right_child: Whole
    leaf_value: Vector
    leaf_weight: Vector
    leaf_count: Whole
    internal_value: Vector
    internal_weight: Vector
    internal_count: Whole
    cat_boundaries: Whole
    cat_threshold: Whole

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int(self.leaf_value.size)

    def with_leaves(self, values: Vector) -> Tree:
        """The same tree with other leaves."""
        return replace(self, leaf_value=values)

    def times(self, step: float) -> Tree:
        """The tree with all it adds multiplied by a step."""
        return replace(self, leaf_value=step * self.leaf_value, internal_value=step * self.internal_value)


PER_SPLIT = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
PER_INNER = ("internal_value", "internal_weight", "internal_count")
PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
WHOLE_KEYS = frozenset({"split_feature", "decision_type", "left_child", "right_child", "leaf_count", "internal_count"})
CATEGORY_KEYS = ("cat_boundaries", "cat_threshold")
TREE_KEYS = frozenset(
    {"num_leaves", "num_cat", *PER_SPLIT, *PER_LEAF, *PER_INNER, *CATEGORY_KEYS, "is_linear", "shrinkage"}
)
HEADER_KEYS = frozenset(
    {"version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"}
    | {"feature_names", "feature_infos", "monotone_constraints", "tree_sizes"}
)


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Trees of one party; of several outputs, tree i belongs to output i modulo their number.

    Attributes
    ----------
    features : int
        Columns of the party.
    outputs : int
        Numbers of a score: 1, or one for each class.
    trees : tuple of Tree
    """

    features: int
    outputs: int = 1
    trees: tuple[Tree, ...] = ()

    @classmethod
    def read(cls, text: str, features: int | None = None) -> TreeModel:
        """The model of a text.

        Raises
        ------
        InputError
            Where the text is damaged, or not that of a model for so many columns.
        """
        model = _read(text)
        if features is not None and model.features != features:
            raise _damaged(f"it is for {model.features} columns, not {features}")
        return model

    @classmethod
    def joined(cls, blocks: Iterable[tuple[float, TreeModel]], features: int, outputs: int) -> TreeModel:
        """Blocks of trees one after the other, each multiplied by its step."""
        trees = [tree.times(step) for step, block in blocks for tree in block.trees]
        return cls(features, outputs, tuple(trees))

    @cached_property
    def text(self) -> str:
        """The model as LightGBM reads it; without names, ranges or parameters of training."""
        trees = [f"Tree={number}\n{_tree_text(tree)}\n\n" for number, tree in enumerate(self.trees)]
        header = {
            "version": VERSION,
            "num_class": self.outputs,
            "num_tree_per_iteration": self.outputs,
            "label_index": 0,
            "max_feature_idx": self.features - 1,
            "feature_names": " ".join(f"Column_{place}" for place in range(self.features)),
            "feature_infos": " ".join(["none"] * self.features),
            "tree_sizes": " ".join(str(len(tree)) for tree in trees),
        }
        lines = "\n".join(f"{key}={value}" for key, value in header.items())
        return f"tree\n{lines}\n\n{''.join(trees)}end of trees\n"

    @cached_property
    def booster(self) -> Any:
        """The model in LightGBM."""
        return lightgbm().Booster(model_str=self.text)

    def __getstate__(self) -> dict[str, Any]:
        """Without what LightGBM holds."""
        return {"features": self.features, "outputs": self.outputs, "trees": self.trees}

    def score(self, values: npt.NDArray[Any]) -> Vector:
        """What the trees add to each row: one number, or one for each output."""
        if not self.trees:
            return np.zeros(len(values) if self.outputs == 1 else (len(values), self.outputs))
        return np.asarray(self.booster.predict(values, raw_score=True, num_threads=_threads(values)), dtype=np.float64)

    @property
    def average(self) -> Any:
        """What the trees add in the mean to the rows that they were grown on: one number, or one for each output."""
        total = np.zeros(self.outputs)
        for place, tree in enumerate(self.trees):
            weights = tree.leaf_count if tree.leaf_count.sum() else np.ones(tree.leaves)
            total[place % self.outputs] += np.average(tree.leaf_value, weights=weights)
        return total if self.outputs > 1 else float(total[0])

    def contributions(self, values: npt.NDArray[Any]) -> Vector:
        """What each column adds (TreeSHAP), and last the mean over the fitted rows; a row sums to its score.

        Of shape (rows, columns + 1), or (rows, outputs, columns + 1).
        """
        rows, width = len(values), self.features + 1
        shape = (rows, width) if self.outputs == 1 else (rows, self.outputs, width)
        if not self.trees:
            return np.zeros(shape)
        found = self.booster.predict(values, pred_contrib=True, num_threads=_threads(values))
        return np.asarray(found, dtype=np.float64).reshape(shape)


def _threads(values: npt.NDArray[Any]) -> int:
    """Threads that pay for scoring these rows, 0 for all: waking them costs more than few rows do."""
    return 1 if len(values) < MANY_ROWS else 0


def lightgbm() -> Any:
    """The package that grows trees, which is an extra.

    Raises
    ------
    InputError
        Where it is not installed, or lacks a library of the system.
    """
    try:
        import lightgbm as package
    except ImportError as error:
        raise InputError(
            "boosted trees need the package lightgbm: install it with pip install 'tacit[trees]'"
        ) from error
    except OSError as error:
        raise InputError(
            f"lightgbm cannot be loaded ({error}): it needs the OpenMP library libgomp.so.1 (Debian: libgomp1)"
        ) from error
    return package


def lightgbm_version() -> str:
    """The version of the package; empty where it is not installed, or lacks a library of the system."""
    try:
        return str(lightgbm().__version__)
    except InputError:
        return ""


# --- writing -----------------------------------------------------------------------------------------


def _tree_text(tree: Tree) -> str:
    categories = CATEGORY_KEYS if tree.cat_threshold.size else ()
    lines = [f"num_leaves={tree.leaves}", f"num_cat={max(tree.cat_boundaries.size - 1, 0)}"]
    for key in (*PER_SPLIT, *categories, *PER_LEAF, *PER_INNER):
        lines.append(f"{key}={' '.join(map(repr, getattr(tree, key).tolist()))}")
    return "\n".join([*lines, "is_linear=0", "shrinkage=1", ""])


# --- reading -----------------------------------------------------------------------------------------


def _damaged(why: str) -> InputError:
    return InputError(f"a text of trees is damaged, or not LightGBM's of version {VERSION}: {why}")


def _read(text: str) -> TreeModel:
    if not isinstance(text, str) or len(text) > LONGEST or not text.isascii() or not text.startswith("tree\n"):
        raise _damaged("it does not begin as one")
    body, end, _ = text.partition("\nend of trees\n")
    if not end:
        raise _damaged("it has no end")
    pieces = re.split(r"^Tree=(\d{1,9})\n", body.removeprefix("tree\n") + "\n", flags=re.MULTILINE)
    header = _entries(pieces[0], HEADER_KEYS)
    outputs = _size(header, "num_class", MOST_OUTPUTS)
    features = _size(header, "max_feature_idx", MOST_FEATURES, least=0) + 1
    if header.get("version") != VERSION or _size(header, "num_tree_per_iteration", MOST_OUTPUTS) != outputs:
        raise _damaged("its header is of another kind of model")
    numbers, texts = pieces[1::2], pieces[2::2]
    if [int(number) for number in numbers] != list(range(len(numbers))) or len(numbers) % outputs:
        raise _damaged("a tree is missing")
    return TreeModel(features, outputs, tuple(_read_tree(piece, features) for piece in texts))


def _entries(text: str, known: frozenset[str]) -> dict[str, str]:
    """Lines of key=value, each key known and given once."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if not line:
            continue
        key, equals, value = line.partition("=")
        if not equals or key not in known or key in found:
            raise _damaged(f"it has the line {line[:40]!r}")
        found[key] = value
    return found


def _size(entries: dict[str, str], key: str, most: int, least: int = 1) -> int:
    text = entries.get(key, "")
    if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
        raise _damaged(f"{key} is {text[:40]!r}")
    return int(text)


def _read_tree(text: str, features: int) -> Tree:
    entries = _entries(text, TREE_KEYS)
    leaves = _size(entries, "num_leaves", MOST_LEAVES)
    sets = _size(entries, "num_cat", MOST_LEAVES, least=0)
    if entries.get("is_linear", "0") != "0":
        raise _damaged("a tree has linear leaves")
    columns = {key: _column(entries, key, leaves - 1) for key in (*PER_SPLIT, *PER_INNER)}
    columns |= {key: _column(entries, key, leaves) for key in PER_LEAF}
    columns |= _read_sets(entries, sets)
    tree = Tree(**columns)
    _check_splits(tree, features, sets)
    _check_shape(tree)
    return tree


def _column(entries: dict[str, str], key: str, count: int) -> npt.NDArray[Any]:
    """Finite numbers, as many as there must be; a threshold may be infinite."""
    texts = entries.get(key, "").split(" ") if entries.get(key) else []
    pattern = WHOLE if key in WHOLE_KEYS or key in CATEGORY_KEYS else THRESHOLD if key == "threshold" else NUMBER
    if len(texts) != count or not all(map(pattern.fullmatch, texts)):
        raise _damaged(f"{key} has not {count} numbers")
    if pattern is WHOLE:
        return np.array([int(text) for text in texts], dtype=np.int64)
    numbers = np.array([float(text) for text in texts], dtype=np.float64)
    if not np.isfinite(numbers if key != "threshold" else numbers[numbers != np.inf]).all():
        raise _damaged(f"{key} has a number that is too large")
    return numbers


def _read_sets(entries: dict[str, str], sets: int) -> dict[str, npt.NDArray[Any]]:
    """Sets of categories: boundaries in an array of words of 32 bits."""
    empty = np.zeros(0, dtype=np.int64)
    if not sets:
        if any(key in entries for key in CATEGORY_KEYS):
            raise _damaged("a tree without categories has sets of them")
        return dict.fromkeys(CATEGORY_KEYS, empty)
    boundaries = _column(entries, "cat_boundaries", sets + 1)
    if boundaries[0] != 0 or (np.diff(boundaries) < 1).any() or boundaries[-1] > MOST_FEATURES:
        raise _damaged("cat_boundaries do not rise from 0")
    words = _column(entries, "cat_threshold", int(boundaries[-1]))
    if (words < 0).any() or (words >= 2**WORD).any():
        raise _damaged("cat_threshold has a word of more than 32 bits")
    return {"cat_boundaries": boundaries, "cat_threshold": words}


def _check_splits(tree: Tree, features: int, sets: int) -> None:
    if (tree.split_feature < 0).any() or (tree.split_feature >= features).any():
        raise _damaged("a split is on a column that is not there")
    if (tree.decision_type < 0).any() or (tree.decision_type > 15).any():
        raise _damaged("a decision_type is unknown")
    places = tree.threshold[(tree.decision_type & CATEGORICAL) > 0]
    if (places != np.floor(places)).any() or (places < 0).any() or (places >= sets).any():
        raise _damaged("a split is on a set of categories that is not there")
    if (tree.leaf_count < 0).any() or (tree.internal_count < 0).any():
        raise _damaged("a count is below 0")


def _check_shape(tree: Tree) -> None:
    """Every inner node but the first, and every leaf, is the child of one node that comes before it."""
    children = np.concatenate([tree.left_child, tree.right_child])
    inner = tree.leaves - 1
    wanted = np.concatenate([np.arange(1, inner), -1 - np.arange(tree.leaves)]) if inner else np.zeros(0)
    if not np.array_equal(np.sort(children), np.sort(wanted)):
        raise _damaged("its nodes are no tree")
    parents = np.tile(np.arange(inner), 2)
    if (children[children > 0] <= parents[children > 0]).any():
        raise _damaged("its nodes are no tree")


# --- as numbers, for checkpoints, which hold arrays of float64 alone -----------------------------------

BYTES = 6  # of a text in one number: whole numbers below 2**48 are exact


def packed(text: str) -> Vector:
    """A text as numbers; the first one is its length."""
    raw = text.encode("ascii")
    padded = np.frombuffer(raw.ljust(-len(raw) % BYTES + len(raw), b"\0"), np.uint8).reshape(-1, BYTES)
    return np.concatenate([[float(len(raw))], padded.astype(np.float64) @ 256.0 ** np.arange(BYTES)])


def unpacked(numbers: Vector) -> str:
    """The text again."""
    words = numbers[1:].astype(np.uint64)
    raw = ((words[:, None] >> np.arange(0, 8 * BYTES, 8, dtype=np.uint64)) & np.uint64(255)).astype(np.uint8)
    return raw.tobytes()[: int(numbers[0])].decode("ascii")

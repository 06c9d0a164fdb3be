"""Jobs of boosted trees: the section [trees], and what does not go with kind = "trees"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.data.load import PartySpec
from tacit.errors import InputError
from tacit.job.values import Kind, number_between, whole_number
from tacit.privacy.request import CAN_LEAVE_OUT_HOLDER, Privacy
from tacit.text import show

LINEAR_MODEL, TREES = "linear", "trees"
MODEL_KINDS = (LINEAR_MODEL, TREES)
TREE_LOSSES = ("logistic", "softmax", "squared", "poisson", "gamma", "quantile")
TREE_DEFAULTS: dict[str, Any] = {"rounds": 15, "tol": 3e-4}  # of [job]
MODEL_KEYS = frozenset({"kind", "loss", "quantile", "classes", "costs"})  # of [model] that trees have
COLUMN_KEYS = frozenset({"name", "kind", "values", "optional"})  # what trees use of a statement about a column


@dataclass(frozen=True)
class TreesSection:
    """The section [trees]: the arguments of the boosting estimators, under the same names.

    Attributes
    ----------
    learning_rate : float
        How much of what a tree would add is added.
    max_leaf_nodes : int
        Leaves of a tree at most.
    max_depth : int or None
        Splits from the top of a tree to a leaf at most; None for any number.
    min_samples_leaf : int or None
        Rows of a leaf at least. None is a fiftieth of the fitted rows, at least 5 and at most 40.
    l2_regularization : float
        Pulls the values of leaves towards 0.
    max_bins : int
        Different values of a number that a split can tell apart, at most.
    validation_fraction : float
        Part of the trained rows on which no tree is grown: how much of each party's trees is kept is chosen on them,
        and when to stop. With 0 that is chosen on all rows. Rows of `job.holdout` are others: nothing is chosen on
        them.
    n_iter_no_change : int
        Rounds without a lower loss on these rows, after which the run ends.
    min_gain_se : float
        A party adds nothing until its gain on these rows was once larger than so many standard errors: with 2.5 a
        party of noise adds nothing, and a weak one may add nothing either.
    """

    learning_rate: float = 0.08
    max_leaf_nodes: int = 15
    max_depth: int | None = None
    min_samples_leaf: int | None = None
    l2_regularization: float = 5.0
    max_bins: int = 255
    validation_fraction: float = 0.15
    n_iter_no_change: int = 3
    min_gain_se: float = 0.0


TREES_KEYS: dict[str, Kind] = {
    "learning_rate": number_between(0, 1, above=True),
    "max_leaf_nodes": whole_number(2, 131_072),
    "max_depth": whole_number(1, 10**6),
    "min_samples_leaf": whole_number(1, 10**9),
    "l2_regularization": number_between(0, 1e12),
    "max_bins": whole_number(2, 65_535),
    "validation_fraction": number_between(0, 0.9),
    "n_iter_no_change": whole_number(1, 10**6),
    "min_gain_se": number_between(0, 1e6),
}
CLASSES = whole_number(3, 1000)
QUANTILE = number_between(0, 1, above=True, below=True)

# Keys and sections that trees have no use for, each with what to do about it.
_MODEL = {
    "penalty": "they have l2_regularization in [trees]",
    "alpha": "they have l2_regularization in [trees]",
    "fit_intercept": "they always have a constant",
    "method": "they have one method",
    "rho": "they have one method",
    "published": "no paper has them",
    "terms": "they bend by themselves",
    "power": "they have no Tweedie loss",
    "dispersion": "they have no negative binomial loss",
    "class_weight": "all their rows count the same",
    "l1_ratio": "they have l2_regularization in [trees]",
}
_SECTIONS = {
    "search": "there is no alpha to choose: remove [search]",
}
_ENCODE = "they take columns as they are: text as categories, blanks as blanks, numbers unscaled"


def refuse_for_trees(document: Mapping[str, Any], model: Mapping[str, Any], encode: Mapping[str, Any]) -> None:
    """Refuse what a file says that trees have no use for; `model` and `encode` are sections as parsed.

    Raises
    ------
    InputError
        With one line that names the key and the way out.
    """
    for key, why in _MODEL.items():
        if key in model:
            raise InputError(f"model.{key} is not for trees: {why}; remove it")
    for section, fix in _SECTIONS.items():
        if section in document:
            raise InputError(f"[{section}] does not go with trees: {fix}")
    for key in encode:
        if key != "codebook" and not (key == "pairs" and _protects_rows(document)):  # which become curves
            raise InputError(f"encode.{key} is not for trees: {_ENCODE}; remove it")
    if model.get("loss", "logistic") not in TREE_LOSSES:
        listed = ", ".join(f'"{name}"' for name in TREE_LOSSES)
        raise InputError(f"model.loss = {show(model['loss'])} is not for trees: choose one of {listed}")
    if "quantile" in model and model.get("loss") != "quantile":
        raise InputError('model.quantile is for loss = "quantile": write that loss, or remove it')
    if "classes" in model and model.get("loss") != "softmax":
        raise InputError('model.classes is for loss = "softmax": write that loss, or remove it')
    if model.get("loss") == "softmax" and "classes" not in model:
        raise InputError('loss = "softmax" needs classes = how many labels there are; for two write "logistic"')


def _protects_rows(document: Mapping[str, Any]) -> bool:
    """Whether a job asks for privacy of rows, and not of labels alone."""
    privacy = document.get("privacy")
    return isinstance(privacy, dict) and privacy.get("epsilon") != "none"


def refuse_trees_keys(document: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Refuse what trees alone have in a job of a linear model."""
    if "trees" in document:
        raise InputError('[trees] is for kind = "trees": write that under [model], or remove [trees]')
    if "classes" in model and model.get("loss", "logistic") != "logistic":
        raise InputError('model.classes is for loss = "logistic", or for trees with "softmax": write one, or remove it')


def check_tree_privacy(privacy: Privacy | None) -> None:
    """Refuse a guarantee that trees cannot give.

    Raises
    ------
    InputError
        With one line that names the key and the way out.
    """
    if privacy is None or privacy.epsilon is None:
        return
    if privacy.mechanism not in CAN_LEAVE_OUT_HOLDER:
        raise InputError(
            f"privacy.mechanism = {show(privacy.mechanism)} does not go with trees, which the label holder grows "
            'beside private fits of the others: leave it out, or write kind = "linear"'
        )
    if not privacy.spares_holder:
        raise InputError(
            f"privacy.protect = {show(privacy.protect)} does not go with trees, which the label holder grows on its "
            'own rows without noise: leave it out, or write kind = "linear"'
        )


def check_tree_parties(parties: Sequence[PartySpec], protected: Collection[str]) -> None:
    """Refuse statements about columns that trees have no use for; entries of a code book may make any.

    Columns of `protected` parties become curves by what is stated of them, as in a linear job.
    """
    for party in parties:
        if party.row_columns:
            role = next(iter(party.row_columns))
            raise InputError(
                f"party {show(party.name)}: {role} is not for trees, whose rows all count the same: remove it"
            )
        if party.width is not None or party.data.endswith((".svm", ".libsvm")):
            raise InputError(f"party {show(party.name)}: trees need named columns: give a CSV or Parquet file")
        for column in () if party.name in protected else party.columns:
            unused = [] if column.optional else [key for key, value in vars(column).items() if value is not None]
            for key in unused:
                if key not in COLUMN_KEYS:
                    raise InputError(
                        f"party {show(party.name)}: {key} of column {show(column.name)} is not for trees, which use "
                        "kind and values alone: remove it"
                    )

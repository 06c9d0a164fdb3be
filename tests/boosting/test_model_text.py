"""A model's text: it means what LightGBM means by it, and one from outside cannot do harm."""

from __future__ import annotations

import pickle
import random

import lightgbm as lgb
import numpy as np
import pytest

from tacit.errors import InputError
from tacit.solvers.boosting.model import TreeModel, packed, unpacked


@pytest.fixture(scope="module")
def grown() -> tuple[str, np.ndarray, np.ndarray]:
    """LightGBM's own text of trees with numbers, blanks and categories, rows, and its scores of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    X[:, 2] = rng.integers(0, 40, 800)
    X[rng.random((800, 4)) < 0.1] = np.nan
    X[:, 2] = np.where(np.isnan(X[:, 2]), np.nan, np.round(X[:, 2]))
    y = np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1]) + np.sin(np.nan_to_num(X[:, 2]))
    params = {"objective": "regression", "verbosity": -1, "num_leaves": 8, "min_data_per_group": 5, "num_threads": 1}
    data = lgb.Dataset(X, y, categorical_feature=[2], params=params)
    booster = lgb.train({**params, "boost_from_average": False}, data, 20)
    return booster.model_to_string(), X, booster.predict(X, raw_score=True, num_threads=1)


def text_of(grown: tuple[str, np.ndarray, np.ndarray]) -> str:
    return TreeModel.read(grown[0].replace("objective=regression\n", "")).text


def test_a_text_that_was_read_and_written_scores_as_before(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    text, X, scores = grown
    model = TreeModel.read(text, features=4)
    assert "cat_threshold" in model.text
    np.testing.assert_array_equal(model.score(X), scores)
    assert TreeModel.read(model.text).text == model.text
    np.testing.assert_allclose(model.contributions(X).sum(axis=1), scores, atol=1e-10)


def test_an_unknown_category_counts_as_a_blank(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    model = TreeModel.read(grown[0])
    rows = grown[1][:50].copy()
    blank, unknown, negative = rows.copy(), rows.copy(), rows.copy()
    blank[:, 2], unknown[:, 2], negative[:, 2] = np.nan, 4711, -3
    np.testing.assert_array_equal(model.score(unknown), model.score(blank))
    np.testing.assert_array_equal(model.score(negative), model.score(blank))


def test_steps_scale_what_trees_add(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    model = TreeModel.read(grown[0])
    joined = TreeModel.joined([(0.25, model), (0.5, model)], 4, 1)
    np.testing.assert_allclose(joined.score(grown[1]), 0.75 * grown[2], atol=1e-12)
    assert len(joined.trees) == 2 * len(model.trees)


def test_a_model_without_trees() -> None:
    model = TreeModel.read(TreeModel(3, 2).text, features=3)
    assert model.score(np.zeros((5, 3))).tolist() == [[0.0, 0.0]] * 5
    assert model.contributions(np.zeros((5, 3))).shape == (5, 2, 4)


def test_texts_as_numbers(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    for text in ("", "tree", grown[0], TreeModel.read(grown[0]).text):
        assert unpacked(packed(text)) == text


def test_a_model_can_be_copied(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    model = TreeModel.read(grown[0])
    scores = model.score(grown[1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score(grown[1]), scores)


DAMAGES = [
    ("tree\n", "treo\n"),
    ("version=v4", "version=v3"),
    ("end of trees", "end of forest"),
    ("num_class=1", "num_class=2"),
    ("num_class=1", "num_class=99999999"),
    ("max_feature_idx=3", "max_feature_idx=0"),
    ("max_feature_idx=3", "max_feature_idx=-1"),
    ("Tree=1\n", "Tree=7\n"),
    ("num_leaves=8", "num_leaves=9"),
    ("num_leaves=8", "num_leaves=7000000"),
    ("left_child=", "left_child=99 "),
    ("left_child=1", "left_child=0"),
    ("right_child=", "right_child=-400 "),
    ("split_feature=", "split_feature=1e3 "),
    ("is_linear=0", "is_linear=1"),
    ("leaf_value=", "leaf_value=nan "),
    ("leaf_value=", "leaf_value=1e999 "),
    ("shrinkage=", "grow=1\nshrinkage="),
    ("num_cat=1", "num_cat=2"),
    ("cat_boundaries=0 ", "cat_boundaries=5 "),
    ("cat_threshold=", "cat_threshold=99999999999 "),
    ("leaf_count=", "leaf_count=-"),
]


@pytest.mark.parametrize(("part", "other"), DAMAGES)
def test_damaged_texts_are_one_clear_line(grown: tuple[str, np.ndarray, np.ndarray], part: str, other: str) -> None:
    text = text_of(grown)
    assert part in text, part
    with pytest.raises(InputError, match="a text of trees is damaged, or not LightGBM's of version v4: ") as caught:
        TreeModel.read(text.replace(part, other, 1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "tree\n", '{"name": "tree"}', "\x00" * 100, "tree\n" + "Tree=0\n" * 1000, "träe\n"]
)
def test_foreign_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="a text of trees is damaged"):
        TreeModel.read(text)


def test_a_text_for_other_columns_is_refused(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    with pytest.raises(InputError, match="it is for 4 columns, not 5"):
        TreeModel.read(grown[0], features=5)


def test_nodes_that_form_a_circle_are_refused() -> None:
    """LightGBM would walk in it for ever."""
    tree = (
        "num_leaves=3\nnum_cat=0\nsplit_feature=0 0\nsplit_gain=1 1\nthreshold=0.5 0.7\ndecision_type=2 2\n"
        "left_child={left}\nright_child={right}\nleaf_value=1 2 3\nleaf_weight=1 1 1\nleaf_count=1 1 1\n"
        "internal_value=0 0\ninternal_weight=1 1\ninternal_count=3 2\nis_linear=0\nshrinkage=1\n"
    )
    header = TreeModel(1).text.removesuffix("end of trees\n").replace("tree_sizes=", "tree_sizes=1")

    def text(left: str, right: str) -> str:
        return f"{header}Tree=0\n{tree.format(left=left, right=right)}\n\nend of trees\n"

    assert TreeModel.read(text("1 -1", "-3 -2")).trees[0].leaves == 3
    for left, right in (("1 1", "-3 -2"), ("1 -1", "-3 -1"), ("0 -1", "-3 -2"), ("1 -1", "-3 -4"), ("-1 1", "-3 -2")):
        with pytest.raises(InputError, match="its nodes are no tree"):
            TreeModel.read(text(left, right))


def test_random_damage_is_refused_or_harmless(grown: tuple[str, np.ndarray, np.ndarray]) -> None:
    """Whatever passes scores rows with finite numbers; LightGBM never sees what did not pass."""
    text, X = text_of(grown), grown[1][:20]
    draw = random.Random(0)
    refused = 0
    for _ in range(400):
        letters = list(text)
        for _ in range(draw.choice((1, 1, 3))):
            letters[draw.randrange(len(letters))] = draw.choice("0123456789-.e =\nan")
        try:
            scores = TreeModel.read("".join(letters), features=4).score(X)
        except InputError:
            refused += 1
        else:
            assert np.isfinite(scores).all()
    assert 50 < refused < 400

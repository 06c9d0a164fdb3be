"""A trained model for whoever has no Tacit: plain values, a plain-Python scorer, ONNX, and skops.

`plain_model` writes a model, or the parts of some parties, as plain values: lists, texts and numbers. `plain_scorer.py`
says what they mean, and everything here is made of them, so that all forms are the same function.
"""

from __future__ import annotations

import inspect
import json
import math
import pprint
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tacit.columns.curves import FourierColumn, SplineColumn
from tacit.columns.encoder import BucketColumn, CategoryColumn, Column, Encoder, NumberColumn
from tacit.columns.raw import RawColumn, RawEncoder
from tacit.columns.spec import CATEGORY, DATE
from tacit.errors import InputError
from tacit.files import quote_path, write_atomically, write_text
from tacit.plan.terms import named_loss
from tacit.run import plain_scorer
from tacit.run.predict import SavedModel
from tacit.run.result import PartyModel, TreePart
from tacit.solvers.boosting.model import CATEGORICAL, WORD, Tree
from tacit.text import listing, show
from tacit.version import __version__

FORMS = ("python", "onnx", "skops")
ENDINGS = {".py": "python", ".onnx": "onnx", ".skops": "skops"}
DEFAULT_LEFT = 2  # bit of decision_type; the next two say what counts as a blank
BLANKS = ("number", "zero", "blank")
OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 9
Values = dict[str, Any]


def export(model: SavedModel, path: Path, form: str, parties: Collection[str] | None = None) -> None:
    """Write a model in a form that needs no Tacit (python, onnx), or no pickle (skops).

    Raises
    ------
    InputError
        For an unknown form or party, a model that the form cannot hold, and where a library is missing.
    """
    if form not in FORMS:
        raise InputError(f"{show(form)} is no form of a model: choose one of {', '.join(FORMS)}")
    values = plain_model(model, parties)
    if form == "python":
        write_text(path, scorer_source(values))
    else:
        content = onnx_bytes(values) if form == "onnx" else skops_bytes(values)
        write_atomically(path, lambda file: file.write(content))


def form_of(path: str | Path) -> str:
    """The form that the name of a file asks for.

    Raises
    ------
    InputError
        For another ending.
    """
    ending = Path(path).suffix
    if ending not in ENDINGS:
        raise InputError(f"{quote_path(path)} says no form: use a name that ends in {', '.join(ENDINGS)}")
    return ENDINGS[ending]


# --- plain values ------------------------------------------------------------------------------------------


def plain_model(model: SavedModel, parties: Collection[str] | None = None) -> Values:
    """The model as plain values; with `parties`, their parts alone, whose scores are a part of the whole score.

    Raises
    ------
    InputError
        For a party that has no part here, and where two parties have a column of the same name.
    """
    known = [part.name for part in model.parties]
    for name in parties or ():
        if name not in known:
            raise InputError(f"the run has no part of {show(name)}: choose one of {listing(model.names or known)}")
    encoders = model.encoders or (None,) * len(known)
    chosen = [
        (part, encoder)
        for part, encoder in zip(model.parties, encoders, strict=True)
        if parties is None or part.name in parties
    ]
    whole = len(chosen) == len(known) and not model.has_trees_elsewhere and len(known) in (1, len(model.names))
    parts = [_part(part, encoder) for part, encoder in chosen]
    _check_columns(parts)
    roles = {role: name for part, _ in chosen for role, name in getattr(part, "row_columns", {}).items()}
    return {
        "made_by": f"tacit {__version__}",
        "task": model.task,
        "loss": model.loss,
        "log_odds": bool(model.task == "classification" and named_loss(model.loss).log_odds),
        "classes": [_plain(value) for value in model.classes],
        "threshold": model.threshold,
        "whole": whole,
        "constant": _list(model.constant) if whole else [0.0] * model.outputs,
        "row_columns": [[role, name] for role, name in roles.items()],
        "parts": parts,
    }


def _check_columns(parts: Sequence[Values]) -> None:
    seen: dict[str, str] = {}
    for part in parts:
        for column in part["columns"]:
            other = seen.setdefault(column["name"], part["party"])
            if other != part["party"]:
                raise InputError(
                    f"{show(other)} and {show(part['party'])} both have a column {show(column['name'])}: export the "
                    "parties one by one with --party"
                )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _list(values: Any) -> list[float]:
    return [float(value) for value in np.atleast_1d(values)]


def _part(part: PartyModel | TreePart, encoder: Encoder | RawEncoder | None) -> Values:
    """One party's part: linear in what its columns become, or trees on its columns."""
    own: Values = {"party": part.name, "bend": part.bend, "trees": None, "coef": None, "clip": None}
    if isinstance(part, TreePart):
        assert isinstance(encoder, RawEncoder)
        offset = [part.offset] * part.outputs
        trees = [_tree(tree) for tree in part.model.trees]
        return own | {"columns": [_raw(column) for column in encoder.columns], "offset": offset, "trees": trees}
    assert not isinstance(encoder, RawEncoder)
    columns = [{"kind": "plain", "name": name} for name in part.columns] if encoder is None else []
    columns += [] if encoder is None else [_column(column) for column in encoder.columns]
    clip = None
    if part.clip is not None:
        centre = None if part.clip.centre is None else _list(part.clip.centre)
        clip = {"norm": part.clip.norm, "centre": centre, "radius": part.clip.radius if centre else None}
    coef = [_list(row) for row in np.atleast_2d(part.coef)]
    return own | {"columns": columns, "coef": coef, "offset": _list(part.offset), "clip": clip}


def _column(column: Column) -> Values:
    """What a column becomes, by constants alone."""
    values = {key: value for key, value in asdict(column).items() if key != "source"}
    match column:
        case NumberColumn():
            return {"kind": "number", **values}
        case CategoryColumn():
            return {"kind": "category", **values, "values": list(column.values)}
        case BucketColumn():
            return {"kind": "buckets", **values}
        case FourierColumn() if column.used_exact:
            raise InputError(
                f"column {show(column.name)} has buckets of exact values (repeats = true), which no other form has "
                "yet: predict with Tacit, or train without repeats"
            )
        case FourierColumn():
            kept = {key: values[key] for key in ("name", "low", "high", "log", "missing", "days")}
            return {"kind": "fourier", **kept, "heights": _list(column.heights) if column.used_pairs else []}
        case SplineColumn():
            kept = {key: values[key] for key in ("name", "unit", "missing", "days")}
            shapes = [_list(row) for row in column.shapes]
            knots, spikes = list(column.knots), list(column.spikes)
            return {"kind": "spline", **kept, "knots": knots, "spikes": spikes, "shapes": shapes}


def _raw(column: RawColumn) -> Values:
    values = list(column.categories) if column.kind == CATEGORY else None
    return {"kind": "raw", "name": column.name, "days": column.kind == DATE, "values": values}


def _tree(tree: Tree) -> Values:
    """A tree as (place of the column, rule, left, right) for each inner node, and the values of its leaves."""
    splits = zip(*(getattr(tree, key).tolist() for key in _SPLITS), strict=True)
    nodes = [[place, _rule(tree, threshold, kind), left, right] for place, threshold, kind, left, right in splits]
    return {"nodes": nodes, "leaves": _list(tree.leaf_value)}


_SPLITS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


def _rule(tree: Tree, threshold: float, kind: int) -> Values:
    if kind & CATEGORICAL:
        start, stop = tree.cat_boundaries[int(threshold)], tree.cat_boundaries[int(threshold) + 1]
        words = tree.cat_threshold[start:stop].tolist()
        held = [WORD * at + bit for at, word in enumerate(words) for bit in range(WORD) if int(word) >> bit & 1]
        return {"categories": held}
    plain: float | str = threshold if math.isfinite(threshold) else "inf"
    return {"threshold": plain, "blanks": BLANKS[kind >> 2 & 3], "blanks_left": bool(kind & DEFAULT_LEFT)}


# --- a scorer of one file ------------------------------------------------------------------------------------


def scorer_source(values: Values) -> str:
    """A file of plain Python, with the model in it, that needs nothing but Python."""
    source = inspect.getsource(plain_scorer)
    empty = "MODEL: dict[str, Any] = {}\n"
    assert source.count(empty) == 1
    written = pprint.pformat(values, width=118, sort_dicts=False, compact=True)
    return source.replace(empty, f"MODEL: dict[str, Any] = (\n{written}\n)\n")


# --- skops ---------------------------------------------------------------------------------------------------


class HandedOverModel:
    """A model of plain values, as `skops.io.load` gives it back; it is loaded without running anything of the file.

    Attributes
    ----------
    values : dict
        Texts, lists and numbers, see `plain_scorer.py`.
    """

    def __init__(self, values: Values) -> None:
        self.values = values

    def decision_function(self, X: Any) -> Any:
        """The score of each row: an array, with a column for each of several classes."""
        return np.array([plain_scorer.score(row, self.values) for row in _rows(X)])

    def predict(self, X: Any) -> Any:
        """What the whole model predicts of each row; of a part of a model its scores."""
        told = [plain_scorer.predict(row, self.values) for row in _rows(X)]
        return np.array([one.get("prediction", one["score"]) for one in told])

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, in the order of `values["classes"]`."""
        told = [plain_scorer.predict(row, self.values) for row in _rows(X)]
        if not all("probability" in one for one in told):
            raise InputError("this model has no probabilities, or is a part of one: use decision_function")
        found = np.array([one["probability"] for one in told])
        return found if found.ndim == 2 else np.column_stack([1 - found, found])


def _rows(X: Any) -> list[dict[str, Any]]:
    """Rows of a data frame, or a list of dictionaries."""
    return list(X.to_dict("records")) if hasattr(X, "to_dict") else [dict(row) for row in X]


def skops_bytes(values: Values) -> bytes:
    """The model in the format of skops, which needs no pickle."""
    try:
        import skops.io
    except ImportError as error:
        raise InputError("this form needs skops, which is not installed: pip install 'tacit[export]'") from error
    content: bytes = skops.io.dumps(HandedOverModel(values))
    return content


# --- ONNX ----------------------------------------------------------------------------------------------------


def onnx_bytes(values: Values) -> bytes:
    """The model as an ONNX graph: one input for each column, and what comes of them in double precision.

    Numbers are double tensors of shape (rows, 1) with NaN for blanks, dates are days since 1970-01-01, categories are
    texts with "" for blanks. The outputs are `score`, and of a whole model `probability` or `prediction` besides.
    """
    try:
        import onnx
    except ImportError as error:
        raise InputError("this form needs onnx, which is not installed: pip install 'tacit[export]'") from error
    graph = _Graph()
    scores = [_part_graph(graph, part) for part in values["parts"]]
    total = graph.number([values["constant"]])
    for one in scores:
        total = graph("Add", total, one)
    for role, name in values["row_columns"]:
        given = graph.input(name, text=False)
        total = graph("Add", total, graph("Log", given) if role == "exposure" else given)
    outputs = {"score": total} | _predicted(graph, values, total)
    made = onnx.helper.make_model(
        graph.made(outputs, len(values["constant"])),
        opset_imports=[onnx.helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
        ir_version=IR_VERSION,
        producer_name="tacit",
        producer_version=__version__,
    )
    about = {key: values[key] for key in ("task", "loss", "classes", "threshold", "whole")}
    onnx.helper.set_model_props(made, {"tacit": json.dumps(about)})
    onnx.checker.check_model(made)
    content: bytes = made.SerializeToString()
    return content


def _predicted(graph: _Graph, values: Values, score: str) -> dict[str, str]:
    if not values["whole"] or values["task"] == "regression":
        return {}
    if values["task"] == "counts":
        return {"prediction": graph("Exp", score)}
    if len(values["constant"]) > 1:
        return {"probability": graph("Softmax", score, axis=1)}
    return {"probability": graph("Sigmoid", score)} if values["log_odds"] else {}


class _Graph:
    """Nodes of an ONNX graph as they are added; a value is known by its name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: dict[str, bool] = {}
        self.constants: list[Any] = []

    def __call__(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], domain=domain, **attributes))
        return name

    def input(self, name: str, *, text: bool) -> str:
        """The input of a column."""
        self.inputs[name] = text
        return name

    def constant(self, values: Any) -> str:
        """An array that is part of the graph."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def number(self, value: Any) -> str:
        """A number, or an array of them."""
        return self.constant(np.asarray(value, dtype=np.float64))

    def whole(self, value: Any) -> str:
        """A whole number, or an array of them."""
        return self.constant(np.asarray(value, dtype=np.int64))

    def double(self, name: str) -> str:
        """What is true or false, or a whole number, as a number."""
        from onnx import TensorProto

        return self("Cast", name, to=TensorProto.DOUBLE)

    def clip(self, name: str, low: float, high: float) -> str:
        """Numbers held between two ends."""
        return self("Min", self("Max", name, self.number(low)), self.number(high))

    def made(self, outputs: Mapping[str, str], wide: int) -> Any:
        """The whole graph."""
        from onnx import TensorProto, helper

        for name, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        kinds = {True: TensorProto.STRING, False: TensorProto.DOUBLE}
        given = [helper.make_tensor_value_info(name, kinds[text], ["rows", 1]) for name, text in self.inputs.items()]
        told = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows", wide]) for name in outputs]
        return helper.make_graph(self.nodes, "tacit", given, told, self.constants)


def _part_graph(graph: _Graph, part: Values) -> str:
    """What one party's part adds to the score."""
    if part["trees"] is not None:
        score = graph("Sub", _forest(graph, part), graph.number([part["offset"]]))
    else:
        numbers = graph("Concat", *(_ONNX[column["kind"]](graph, column) for column in part["columns"]), axis=1)
        if part["clip"] is not None:
            numbers = _clip_rows(graph, part["clip"], numbers, len(part["coef"][0]))
        score = graph("MatMul", numbers, graph.number(np.transpose(part["coef"])))
        score = graph("Sub", score, graph.number([part["offset"]]))
    if not part["bend"]:
        return score
    bent = graph.clip(score, -plain_scorer.SCORE_CLIP, plain_scorer.SCORE_CLIP)
    return graph("Add", score, graph("Mul", graph.number(part["bend"]), bent))


def _clip_rows(graph: _Graph, clip: Values, row: str, width: int) -> str:
    """Rows shrunk to a norm, and then to a radius around a centre."""
    unsure = (width + 16) * 2.0**-52
    axis = graph.whole([1])

    def within(limit: float, squares: str) -> str:
        long = graph("Mul", graph.number(1 + unsure), graph("Sqrt", squares))
        return graph("Div", graph.number(limit), graph("Max", graph.number(limit), long))

    squares = graph("ReduceSum", graph("Mul", row, row), axis)
    kept = graph("Less", squares, graph.number((plain_scorer.LONGEST * clip["norm"]) ** 2))
    row = graph("Where", kept, row, graph.number(0.0))
    squares = graph("Where", kept, squares, graph.number(0.0))
    row = graph("Mul", row, within(clip["norm"], squares))
    if clip["centre"] is None:
        return row
    centre = graph.number([clip["centre"]])
    away = graph("Sub", row, centre)
    far = graph("ReduceSum", graph("Mul", away, away), axis)
    around = graph("ReduceSum", graph("Mul", row, row), axis)
    size = graph.number(float(np.dot(clip["centre"], clip["centre"])))
    rounding = graph("Mul", graph.number(unsure), graph("Add", around, size))
    factor = within(clip["radius"], graph("Add", far, rounding))
    return graph("Add", centre, graph("Mul", factor, away))


def _onnx_plain(graph: _Graph, column: Values) -> str:
    return graph.input(column["name"], text=False)


def _blank(graph: _Graph, cells: str) -> str:
    return graph("IsNaN", cells)


def _onnx_number(graph: _Graph, column: Values) -> str:
    cells = graph.input(column["name"], text=False)
    blank = _blank(graph, cells)
    value = graph("Where", blank, graph.number(column["fill"]), cells)
    bounded = column["low"] is not None and column["high"] is not None
    if bounded:
        value = graph.clip(value, column["low"], column["high"])
    if column["centre"] != 0.0 or column["divisor"] != 1.0:
        value = graph("Sub", graph("Mul", value, graph.number(0.5)), graph.number(column["centre"] / 2))
        value = graph("Mul", graph("Div", value, graph.number(column["divisor"])), graph.number(2.0))
        value = graph.clip(value, -1.0, 1.0) if bounded else value
    return graph("Concat", value, graph.double(blank), axis=1) if column["missing"] else value


def _place_of(graph: _Graph, column: Values, keys: Mapping[str, int], other: int) -> str:
    """The number of a text, of shape (rows,)."""
    cells = graph.input(column["name"], text=True)
    texts = list(keys)
    found = graph(
        "LabelEncoder",
        cells,
        domain="ai.onnx.ml",
        keys_strings=texts,
        values_int64s=[keys[text] for text in texts],
        default_int64=other,
    )
    return graph("Reshape", found, graph.whole([-1]))


def _onnx_category(graph: _Graph, column: Values) -> str:
    values = column["values"]
    blank = len(values) + 1 if column["missing"] else len(values)
    keys = {text: place for place, text in enumerate(values)} | {"": blank, "missing": blank}
    heights = column["height"] * np.eye(len(values) + 1 + column["missing"])
    return graph("Gather", graph.number(heights), _place_of(graph, column, keys, len(values)), axis=0)


def _onnx_buckets(graph: _Graph, column: Values) -> str:
    raise InputError(f"column {show(column['name'])} is hashed into buckets, which ONNX cannot do: use --to python")


def _way(graph: _Graph, value: str, low: str, high: str) -> str:
    half = graph.number(0.5)
    value, low, high = (graph("Mul", one, half) for one in (value, low, high))
    return graph("Div", graph("Sub", value, low), graph("Sub", high, low))


def _onnx_fourier(graph: _Graph, column: Values) -> str:
    low, high, heights = column["low"], column["high"], np.array(column["heights"])
    cells = graph.input(column["name"], text=False)
    blank = _blank(graph, cells)
    value = graph.clip(graph("Where", blank, graph.number(low / 2 + high / 2), cells), low, high)
    place = _way(graph, value, graph.number(low), graph.number(high))
    if column["log"]:  # asinh, which runtimes have for single precision alone
        long = graph("Mul", place, graph.number(plain_scorer.STEPS))
        root = graph("Sqrt", graph("Add", graph("Mul", long, long), graph.number(1.0)))
        place = graph("Div", graph("Log", graph("Add", long, root)), graph.number(math.asinh(plain_scorer.STEPS)))
    if heights.size:
        angles = graph("Mul", place, graph.number([np.pi * np.arange(1, heights.size + 1)]))
        waves = [graph("Mul", graph(wave, angles), graph.number([heights])) for wave in ("Cos", "Sin")]
        code = graph("Concat", *waves, axis=1)
    else:
        code = graph("Sub", graph("Mul", place, graph.number(2.0)), graph.number(1.0))
    if not column["missing"]:
        return code
    return graph("Concat", graph("Where", blank, graph.number(0.0), code), graph.double(blank), axis=1)


def _onnx_spline(graph: _Graph, column: Values) -> str:
    knots, shapes = np.array(column["knots"]), np.array(column["shapes"])
    cells = graph.input(column["name"], text=False)
    blank = _blank(graph, cells)
    value = graph.clip(graph("Where", blank, graph.number(knots[0]), cells), knots[0], knots[-1])
    if len(knots) == 1:
        curve = graph("Add", graph("Mul", value, graph.number(0.0)), graph.number([shapes[0]]))
    else:
        reached = graph.double(graph("GreaterOrEqual", value, graph.number([knots])))
        from onnx import TensorProto

        count = graph("Cast", graph("ReduceSum", reached, graph.whole([1]), keepdims=0), to=TensorProto.INT64)
        below = graph("Min", graph("Sub", count, graph.whole(1)), graph.whole(len(knots) - 2))
        above = graph("Add", below, graph.whole(1))
        ends = [graph("Gather", graph.number(knots[:, None]), at, axis=0) for at in (below, above)]
        part = _way(graph, value, *ends)
        low, high = (graph("Gather", graph.number(shapes), at, axis=0) for at in (below, above))
        left = graph("Mul", graph("Sub", graph.number(1.0), part), low)
        curve = graph("Add", left, graph("Mul", part, high))
    if column["spikes"]:
        spikes = graph.double(graph("Equal", value, graph.number([column["spikes"]])))
        curve = graph("Concat", curve, spikes, axis=1)
    curve = graph("Where", blank, graph.number(0.0), curve)
    curve = graph("Concat", curve, graph.double(blank), axis=1) if column["missing"] else curve
    return graph("Mul", curve, graph.number(column["unit"]))


_ONNX = {
    "plain": _onnx_plain,
    "number": _onnx_number,
    "category": _onnx_category,
    "buckets": _onnx_buckets,
    "fourier": _onnx_fourier,
    "spline": _onnx_spline,
}


def _forest(graph: _Graph, part: Values) -> str:
    """All trees: a set of categories is a column of its own, which is 0 where the category of a row is in the set."""
    columns, outputs = part["columns"], len(part["offset"])
    texts = {
        place: _place_of(graph, column, {text: k for k, text in enumerate(column["values"])}, len(column["values"]))
        for place, column in enumerate(columns)
        if column["values"] is not None
    }
    given = [
        _as_column(graph, texts[place]) if place in texts else graph.input(column["name"], text=False)
        for place, column in enumerate(columns)
    ]
    sets: dict[tuple[int, tuple[int, ...]], int] = {}
    for tree in part["trees"]:
        for place, rule, _, _ in tree["nodes"]:
            if "categories" in rule:
                sets.setdefault((place, tuple(rule["categories"])), len(columns) + len(sets))
    for place, held in sets:
        table = np.ones((len(columns[place]["values"]) + 1, 1))
        table[[code for code in held if code < len(table) - 1]] = 0.0
        given.append(graph("Gather", graph.number(table), texts[place], axis=0))
    row = graph("Concat", *given, axis=1) if len(given) > 1 else given[0]
    if not part["trees"]:
        zero = graph("Mul", graph("ReduceSum", graph.double(graph("IsNaN", row)), graph.whole([1])), graph.number(0.0))
        return graph("Add", zero, graph.number([[0.0] * outputs]))
    return _ensemble(graph, part["trees"], sets, row, outputs)


def _as_column(graph: _Graph, codes: str) -> str:
    return graph.double(graph("Reshape", codes, graph.whole([-1, 1])))


def _ensemble(graph: _Graph, trees: Sequence[Values], sets: Mapping[Any, int], row: str, outputs: int) -> str:
    """The node of all trees, inner nodes and leaves one after the other."""
    from onnx import numpy_helper

    names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
    leaves: dict[str, list[Any]] = {f"target_{name}": [] for name in ("treeids", "nodeids", "ids")}
    thresholds, weights = [], []
    for number, tree in enumerate(trees):
        inner = len(tree["nodes"])
        for at, (place, rule, left, right) in enumerate(tree["nodes"]):
            column, threshold, blanks = _onnx_rule(place, rule, sets)
            children = [child if child >= 0 else inner - 1 - child for child in (left, right)]
            for values, one in zip(nodes.values(), (number, at, column, "BRANCH_LEQ", *children, blanks), strict=True):
                values.append(one)
            thresholds.append(threshold)
        for at, weight in enumerate(tree["leaves"]):
            for values, one in zip(nodes.values(), (number, inner + at, 0, "LEAF", 0, 0, 0), strict=True):
                values.append(one)
            thresholds.append(0.0)
            for values, one in zip(leaves.values(), (number, inner + at, number % outputs), strict=True):
                values.append(one)
            weights.append(weight)
    sums = graph(
        "TreeEnsembleRegressor",
        row,
        domain="ai.onnx.ml",
        n_targets=outputs,
        nodes_values_as_tensor=numpy_helper.from_array(np.array(thresholds), "thresholds"),
        target_weights_as_tensor=numpy_helper.from_array(np.array(weights), "weights"),
        **nodes,
        **leaves,
    )
    return graph.double(sums)  # added up in double precision, but told in single


def _onnx_rule(place: int, rule: Values, sets: Mapping[Any, int]) -> tuple[int, float, int]:
    """The column, the threshold up to which a row goes left, and whether a blank does."""
    if "categories" in rule:  # the column is 0 in the set, and up to the threshold goes left
        return sets[place, tuple(rule["categories"])], 0.5, 0
    if rule["blanks"] == "zero":
        raise InputError("trees that take zeros for blanks cannot be written as ONNX: use --to python")
    threshold = float(rule["threshold"])
    left = rule["blanks_left"] if rule["blanks"] == "blank" else threshold >= 0.0
    return place, threshold if math.isfinite(threshold) else float(np.finfo(np.float64).max), int(left)

"""`tacit explain`: a prediction as a sum of the parties' contributions."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.text import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.columns.words import Cell
    from tacit.data.load import PredictionData
    from tacit.run.explain import Share
    from tacit.run.predict import Predictions, SavedModel

DESCRIPTION = """\
Explain the prediction of one row: the constant, what each party adds to or
subtracts from the score, and the prediction.

Columns are shown for one party only, with --party: each with its value in the
file and what it adds to the score (--json also has the encoded parts). Together
with the party's own constant they sum to its part. Where the parties hold
different rows (split = "samples"), the model is common to all, and its columns
are shown.

With more than two classes each has a score of its own: that of the predicted
class is taken apart, or that of --class."""
EPILOG = """\
examples:
  tacit explain runs/credit bank.csv shop.csv --id c0042
  tacit explain runs/credit bank.csv shop.csv --row 3 --party bank
  tacit explain runs/hospitals new-patients.csv --json"""
BAR = 24  # characters of the longest bar
NAME = 48  # characters of the longest name
SAID = ("predictions", "the row that is asked about")  # how sentences of a certificate begin that are about these


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument("data", metavar="DATA", nargs="+", help="files of rows, as for tacit predict")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--id", metavar="ID", help="the row with this id")
    which.add_argument("--row", metavar="N", type=int, help="the Nth row that tacit predict writes (default: 1)")
    parser.add_argument("--party", metavar="NAME", help="show the columns of this party")
    parser.add_argument("--class", dest="label", metavar="NAME", help="of several the class (default: the predicted)")
    parser.add_argument("--top", metavar="N", type=int, default=10, help="number of columns to show (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Predict one row and take its score apart."""
    from tacit.cli.predict import match_paths
    from tacit.run.explain import explain, with_offset
    from tacit.run.predict import load_model, load_rows, part_offsets, predict

    if options.top < 1:
        raise InputError(f"--top {options.top} is not allowed: it must be a whole number of at least 1")
    model = load_model(options.directory)
    names = [part.name for part in model.parties]
    whole = is_of_rows(options.directory)
    _check_party(options.party, names, whole)
    data = load_rows(model, match_paths(options.data, names))
    row = find_row(data, options.id, options.row)
    predictions = predict(model, data)
    output = find_class(model, options.label, predictions.prediction[row])
    shares = explain(model, data.shards, row, output)
    places = zip(shares, model.parties, data.tables, data.rows, strict=True)
    shares = [with_offset(share, _at(part_offsets(part, table, rows), row)) for share, part, table, rows in places]
    for line in warnings(options.directory, model):
        tell(f"tacit: {line}")
    shown = names[0] if whole else options.party
    cells = None if shown is None else find_cells(model, data, names.index(shown), row)
    record = make_record(model, predictions, row, output, shares, shown, options.top, cells)
    print(json.dumps(record, indent=2, ensure_ascii=False) if options.json else "\n".join(text(record, whole)))
    return 0


def _at(offsets: Any, row: int) -> float:
    """The offset of one row; one number stands for all rows."""
    import numpy as np

    return float(offsets if np.ndim(offsets) == 0 else offsets[row])


def is_of_rows(run: str) -> bool:
    """Whether the model is one of whole rows."""
    from tacit.files import read_json
    from tacit.run.folder import JOINT, MODEL, SAMPLES

    return read_json(Path(run) / MODEL / f"{JOINT}.json").get("split") == SAMPLES


def _check_party(party: str | None, names: list[str], whole: bool) -> None:
    from tacit.text import listing, nearest, show

    if party is None:
        return
    if whole:
        raise InputError("--party is not used here: all parties share the columns of this model, so leave it out")
    if party not in names:
        raise InputError(f"there is no party {show(party)}{nearest(party, names)}: the parties are {listing(names)}")


def find_row(data: PredictionData, id_: str | None, row: int | None) -> int:
    """The number of the asked row, from 0."""
    from tacit.text import nearest, plural, show

    count = data.shards[0].features.shape[0]
    if id_ is not None:
        if data.ids is None:
            raise InputError("--id is not used here: these rows have no id column; give --row, from 1 on")
        found = [number for number, own in enumerate(data.ids.tolist()) if str(own) == id_.strip()]
        if not found:
            where = " at every party" if len(data.shards) > 1 else ""
            near = nearest(id_.strip(), [str(own) for own in data.ids.tolist()])
            raise InputError(f"no row has the id {show(id_)}{where}{near}: there are {plural(count, 'row')}")
        if len(found) > 1:
            rows = ", ".join(str(number + 1) for number in found[:3])
            raise InputError(f"{len(found)} rows have the id {show(id_)}: give --row, such as {rows}")
        return found[0]
    number = 1 if row is None else row
    if not 1 <= number <= count:
        raise InputError(f"--row {number} is not allowed: there are {plural(count, 'row')}, counted from 1")
    return number - 1


def find_class(model: SavedModel, label: str | None, predicted: Any) -> int:
    """The place of the class whose score is taken apart; 0 where a score is one number."""
    from tacit.text import listing, nearest, show

    names = [str(name) for name in model.classes]
    if model.outputs == 1 and label is not None:
        raise InputError("--class is for models of more than two classes, and a score of this one is one number")
    if model.outputs == 1:
        return 0
    if label is not None and label not in names:
        raise InputError(f"there is no class {show(label)}{nearest(label, names)}: the classes are {listing(names)}")
    return names.index(str(predicted) if label is None else label)


def find_cells(model: SavedModel, data: PredictionData, party: int, row: int) -> tuple[Cell, ...] | None:
    """The asked row in the file of one party; None where its columns were not encoded."""
    from tacit.columns.words import raw_cells

    encoder = model.encoders[party] if model.encoders else None
    return None if encoder is None else raw_cells(encoder, data.tables[party], int(data.rows[party][row]))


def warnings(run: str, model: SavedModel) -> list[str]:
    """What a private run's certificate does not cover about predictions, a line each."""
    from tacit.files import damaged
    from tacit.privacy.certificate import Certificate
    from tacit.run.folder import CERTIFICATE

    file = Path(run) / CERTIFICATE
    try:
        certificate = Certificate.from_json(file.read_bytes())
    except (OSError, InputError) as error:
        raise damaged(file, str(error)) from error
    if not certificate.private:
        return []
    lines = ["the certificate covers training, not this row: what is shown of it is exact, whoever reads it learns it"]
    if model.predictions_for is not None:
        lines.append(f"this must stay with {model.predictions_for}, whose exact fit it uses")
    return lines + [f"not covered: {line}" for line in certificate.does_not_cover if line.startswith(SAID)]


def make_record(
    model: SavedModel,
    predictions: Predictions,
    row: int,
    output: int,
    shares: list[Share],
    party: str | None,
    top: int,
    cells: Sequence[Cell] | None,
) -> dict[str, Any]:
    """The explanation as plain values; columns of `party` alone."""
    probability, classes = predictions.probability, model.classes
    several = model.outputs > 1
    record: dict[str, Any] = {
        "row": row + 1,
        "id": None if predictions.ids is None else predictions.ids.tolist()[row],
        "id_column": None if predictions.ids is None else predictions.id_column,
        "constant": _number(model.constant, output),
        "parties": [{"party": share.party, "adds": share.score} for share in shares],
        "score": _number(predictions.score[row], output),
        "prediction": predictions.prediction[row],
        "probability": None if probability is None else _number(probability[row], output),
        "positive": classes[output if several else 1] if classes else None,
        **({"class": classes[output]} if several else {}),
    }
    own = next((share for share in shares if share.party == party), None)
    if own is not None:
        columns = own.by_column(cells)
        largest = columns[:top]
        others = own.score - own.rest - sum(column["adds"] for column in largest)
        record["view"] = {
            "party": own.party,
            "columns": largest,
            "other_columns": len(columns) - len(largest),
            "other_columns_add": others if len(largest) < len(columns) else 0.0,
            "own_constant": own.rest,
        }
    return record


def _number(values: Any, output: int) -> float:
    """One of the numbers of a score, which may be the only one."""
    return float(values[output] if getattr(values, "ndim", 0) else values)


# --- in words ----------------------------------------------------------------------------------------


def text(record: dict[str, Any], whole: bool) -> list[str]:
    """The explanation for people."""
    who = f"row {record['row']}" if record["id"] is None else f"{record['id_column']} {record['id']}"
    lines = [who, ""]
    if not whole:
        lines += _bars([("constant", record["constant"]), *((one["party"], one["adds"]) for one in record["parties"])])
    else:
        view = record["view"]  # of whole rows there is one constant
        lines += _bars(
            [("constant", record["constant"] + view["own_constant"]), *_columns(view | {"own_constant": 0.0})]
        )
    of = f" of {record['class']}" if "class" in record else ""
    lines += ["", f"score{of} {record['score']:.4g}: {_meaning(record)}"]
    if not whole and "view" in record:
        view = record["view"]
        lines += ["", f"the part of {view['party']}, column by column:"]
        lines += _bars(_columns(view))
    return lines


def _columns(view: dict[str, Any]) -> list[tuple[str, float]]:
    rows = [(one["words"], one["adds"]) for one in view["columns"]]
    if view["other_columns"]:
        rows.append((f"{view['other_columns']} other columns", view["other_columns_add"]))
    if view["own_constant"]:
        rows.append((f"constant of {view['party']}", view["own_constant"]))
    return rows


def _meaning(record: dict[str, Any]) -> str:
    if record["positive"] is None:
        return f"predicted {record['prediction']:.4g}"
    text = f"predicted {record['prediction']}"
    if record["probability"] is None:
        return text
    return f"{text}; probability of {record['positive']} {record['probability']:.4g}"


def _bars(rows: list[tuple[str, float]]) -> list[str]:
    """Signed numbers with bars as long as they are large."""
    names = [name if len(name) <= NAME else f"{name[: NAME - 3]}..." for name, _ in rows]
    width = max(len(name) for name in names)
    most = max(abs(value) for _, value in rows) or 1.0
    drawn = [("+" if value > 0 else "-") * round(BAR * abs(value) / most) for _, value in rows]
    return [
        f"  {name:<{width}}  {value:>+10.4f}  {bar}".rstrip()
        for name, (_, value), bar in zip(names, rows, drawn, strict=True)
    ]

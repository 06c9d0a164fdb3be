"""Changed files of saved models: refused in one line, or the model is what the files say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.load import load_prediction_data
from tacit.run.predict import SavedModel, load_model, predict
from tests.fuzz.budget import SHARDS, bounded_memory, refusal, seeds
from tests.fuzz.mutate import Mutator
from tests.fuzz.runs import KINDS, Trained, trained


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_changed_model_is_refused_or_is_what_it_says(shard: int, tmp_path: Path) -> None:
    base = {kind: trained(kind) for kind in KINDS}
    for kind, run in base.items():
        shutil.copytree(run.run, tmp_path / kind)
    used = 0
    with bounded_memory():
        for seed in seeds("models", shard):
            mutator = Mutator(seed)
            run = base[mutator.random.choice(KINDS)]
            files = {name: content for name, content in run.files().items() if _is_read(name)}
            name = mutator.random.choice([*(n for n in files if n.startswith("model")), *files])
            path = tmp_path / run.kind / name
            path.write_bytes(mutator.json(files[name]))
            model, _ = refusal(lambda run=run: load_model(tmp_path / run.kind))
            if model is not None:
                used += 1
                _check(model, run, tmp_path / run.kind, seed)
            path.write_bytes(files[name])
    assert used > len(seeds("models", shard)) / 20


def _is_read(name: str) -> bool:
    return name.startswith("model") or name in ("result.json", "certificate.json")


def _check(model: SavedModel, run: Trained, folder: Path, seed: int) -> None:
    """Coefficients, columns and classes are those of the files; new rows are refused, or their scores are finite."""
    joint = json.loads((folder / "model" / "joint.json").read_bytes())
    assert model.constant == joint["constant"], seed
    assert list(model.classes) == joint["classes"], seed
    for part in model.parties:
        record = joint if run.kind == "samples" else json.loads((folder / "model" / f"{part.name}.json").read_bytes())
        assert part.coef.tolist() == record["coef"], seed
        assert list(part.columns) == record["columns"], seed
        assert part.offset == record.get("offset", 0.0), seed
    paths = [run.folder / name for name in run.data]
    if len(paths) == len(model.parties):
        predictions, _ = refusal(lambda: predict(model, load_prediction_data(model.specs, paths, model.encoders)))
        if predictions is not None:
            _check_scores(predictions, model, run, seed)


def _check_scores(predictions: Any, model: SavedModel, run: Trained, seed: int) -> None:
    """Finite, and classes by the sign of the score; the same as before where the model is the same."""
    assert np.all(np.isfinite(predictions.score)), seed
    assert predictions.prediction == [model.classes[int(score > 0)] for score in predictions.score], seed
    original = load_model(run.run)
    same = all(
        np.array_equal(one.coef, two.coef)
        and (one.offset, one.bend, one.columns) == (two.offset, two.bend, two.columns)
        for one, two in zip(model.parties, original.parties, strict=True)
    )
    clips = [[repr(part.clip) for part in own.parties] for own in (model, original)]
    if same and clips[0] == clips[1] and model.encoders == original.encoders and model.constant == original.constant:
        paths = [run.folder / name for name in run.data]
        before = predict(original, load_prediction_data(original.specs, paths, original.encoders))
        np.testing.assert_array_equal(predictions.score, before.score)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_given_twice_is_refused(kind: str, tmp_path: Path) -> None:
    run = trained(kind)
    shutil.copytree(run.run, tmp_path / "run")
    path = tmp_path / "run" / "model" / "joint.json"
    text = path.read_text()
    path.write_text(text[: text.rindex("}")] + ', "constant": 5}')
    _, refused = refusal(lambda: load_model(tmp_path / "run"))
    assert 'the field "constant" is given twice' in refused

"""One party's trees in the folder of a run: model/PARTY.json says which columns, model/PARTY.txt has LightGBM's text.

Both may come from elsewhere, and are read without trust: the text by `TreeModel.read`, which checks every number before
LightGBM sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.columns.raw import RawEncoder
from tacit.errors import InputError
from tacit.files import damaged, write_text
from tacit.job.trees import TREES
from tacit.run.result import TreePart
from tacit.solvers.boosting.model import LONGEST, TreeModel
from tacit.text import one_line


@dataclass(frozen=True)
class SavedTrees:
    """One party's part of a model of trees: its id column, and how its columns are read."""

    part: TreePart
    id: str | None
    encoder: RawEncoder

    def record(self) -> dict[str, Any]:
        """What model/PARTY.json holds, beside its format."""
        return {
            "kind": TREES,
            "party": self.part.name,
            "id": self.id,
            "trees": len(self.part.model.trees),
            **({"outputs": self.part.model.outputs} if self.part.model.outputs > 1 else {}),
            "offset": self.part.offset,
            "bend": self.part.bend,
            "schema": self.encoder.record(),
        }

    def write_text(self, file: Path) -> None:
        """Write the trees beside that file."""
        write_text(text_file(file), self.part.text)


def text_file(file: Path) -> Path:
    """Where the trees are that belong to a file of a part."""
    return file.with_name(f"{file.name.removesuffix('.json')}.txt")


def read_trees(file: Path, record: dict[str, Any], name: str) -> tuple[TreePart, RawEncoder]:
    """The trees of a party and how its columns are read, from its record and the text beside it.

    Raises
    ------
    InputError
        Where a file is missing or damaged, or the two do not fit each other; the message names the file.
    """
    try:
        encoder = RawEncoder.from_record(record.get("schema"))
    except InputError as error:
        raise damaged(file, str(error)) from error
    path = text_file(file)
    try:
        if path.stat().st_size > LONGEST:
            raise damaged(path, f"it is longer than {LONGEST:,} characters")
        model = TreeModel.read(path.read_text(encoding="ascii"), len(encoder.columns))
    except FileNotFoundError as error:
        raise damaged(path, "it is missing, and holds the trees of this party") from error
    except (OSError, ValueError, InputError) as error:
        raise damaged(path, one_line(error)) from error
    if model.outputs != record.get("outputs", 1) or len(model.trees) != record.get("trees"):
        raise damaged(path, f"it has not the trees that {file.name} speaks of")
    return TreePart(name, encoder.names, model), encoder

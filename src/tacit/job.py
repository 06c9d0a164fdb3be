"""Job files: what to train, on whose data, written in TOML.

[job]      name, split, engine, rounds, tol, seed, secure_aggregation
[model]    loss, penalty, alpha, fit_intercept, method, rho
[[party]]  name, data, id, label, features
"""

from __future__ import annotations

import math
import os
import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.data.load import JobData, PartySpec, PredictionData, load_prediction_data, load_training_data
from tacit.data.wording import listing, nearest, one_line, show
from tacit.errors import InputError

__all__ = [
    "Job",
    "JobData",
    "Model",
    "PartySpec",
    "PredictionData",
    "load_job_data",
    "load_prediction_data",
    "read_job",
]


@dataclass(frozen=True)
class Model:
    """The section [model]: the arguments of the estimators, under the same names."""

    loss: str = "logistic"
    penalty: str = "l2"
    alpha: float = 1e-4
    fit_intercept: bool = True
    method: str = "auto"
    rho: float | str = "auto"


@dataclass(frozen=True)
class Job:
    """A job file.

    Attributes
    ----------
    name : str
        The job's name; the stem of the file's name where the file gives none.
    parties : tuple of PartySpec
        The parties, at least one; exactly one has the label.
    model : Model
        What is trained.
    split : str
        "features": the parties hold different columns of the same rows.
    engine : str
        Where it runs.
    rounds : int
        The largest number of rounds.
    tol : float
        Tolerance of the stopping rule.
    seed : int or None
        Seed of starts, never of private noise.
    secure_aggregation : bool
        Whether the parties' numbers travel under masks, so that only their sum can be read.
    folder : Path
        Folder that the relative paths of the parties start from; not part of the file.
    """

    name: str
    parties: tuple[PartySpec, ...]
    model: Model = field(default_factory=Model)
    split: str = "features"
    engine: str = "in-process"
    rounds: int = 200
    tol: float = 1e-4
    seed: int | None = None
    secure_aggregation: bool = False
    folder: Path = Path(".")

    def to_toml(self, folder: str | os.PathLike[str] | None = None) -> str:
        """Return the job as TOML, with the defaults spelled out.

        Parameters
        ----------
        folder : path, optional
            The folder the text will be saved in, when it is not the job's own: relative paths of
            data are rewritten so that they still lead to the files.

        Returns
        -------
        str
            A text that `read_job` reads back as the same job.
        """
        lines: list[str | None] = ["[job]"]
        lines += [_assignment(key, getattr(self, key)) for key in _KEYS["job"]]
        lines += ["", "[model]"]
        lines += [_assignment(key, getattr(self.model, key)) for key in _KEYS["model"]]
        for party in self.parties:
            values = {key: getattr(party, key) for key in _KEYS["party"]}
            if folder is not None:
                values["data"] = self._moved(party.data, Path(folder))
            lines += ["", "[[party]]"]
            lines += [_assignment(key, value) for key, value in values.items()]
        return "\n".join(line for line in lines if line is not None) + "\n"

    def _moved(self, data: str, folder: Path) -> str:
        """Return a path of data as seen from another folder."""
        if os.path.isabs(data):
            return data
        return Path(os.path.relpath(self.folder / data, folder)).as_posix()


def read_job(path: str | os.PathLike[str]) -> Job:
    """Read a job file; the data files are not opened.

    Parameters
    ----------
    path : path
        A TOML file.

    Returns
    -------
    Job
        The job, with defaults filled in.

    Raises
    ------
    InputError
        For a file that cannot be read, an unknown section or key, or a value that is not allowed.
    """
    path = Path(path)
    try:
        return _job(_document(path), path)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error


def load_job_data(job: Job) -> JobData:
    """Read and align the data of a job.

    Parameters
    ----------
    job : Job
        A job with split = "features".

    Returns
    -------
    JobData
        One shard per party, the labels as in the file, the ids, and the rows kept and dropped.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    return load_training_data(job.parties, job.folder)


# --- values -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """A kind of value: `parse` returns the value, or raises ValueError when it is not `allowed`."""

    allowed: str
    parse: Callable[[Any], Any]


def _need(condition: bool) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError


def _text(value: Any) -> str:
    """Parse text that is not empty."""
    _need(isinstance(value, str) and value != "")
    return str(value)


def _truth(value: Any) -> bool:
    """Parse true or false."""
    _need(isinstance(value, bool))
    return bool(value)


def _whole(value: Any, least: int, most: int) -> int:
    """Parse a whole number from `least` to `most`; true is not 1."""
    _need(isinstance(value, int) and not isinstance(value, bool) and least <= value <= most)
    return int(value)


def _number(value: Any) -> float:
    """Parse a finite number not below 0."""
    _need(isinstance(value, (int, float)) and not isinstance(value, bool))
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError from error
    _need(math.isfinite(number) and number >= 0)
    return number


def _rho(value: Any) -> float | str:
    """Parse a number above 0 or "auto"."""
    if value == "auto":
        return "auto"
    number = _number(value)
    _need(number > 0)
    return number


def _names(value: Any) -> tuple[str, ...]:
    """Parse a list of different names."""
    _need(isinstance(value, list) and len(value) > 0)
    names = tuple(_text(item) for item in value)
    _need(len(set(names)) == len(names))
    return names


_TEXT = _Kind("text in quotes, not empty", _text)
_TRUTH = _Kind("true or false", _truth)
_NUMBER = _Kind("a number, 0 or above", _number)
_SEEDS = 2**32 - 1  # what numpy takes as a seed
_KEYS: dict[str, dict[str, _Kind]] = {
    "job": {
        "name": _TEXT,
        "split": _TEXT,
        "engine": _TEXT,
        "rounds": _Kind("a whole number from 1 to a billion", lambda value: _whole(value, 1, 10**9)),
        "tol": _NUMBER,
        "seed": _Kind(f"a whole number from 0 to {_SEEDS}", lambda value: _whole(value, 0, _SEEDS)),
        "secure_aggregation": _TRUTH,
    },
    "model": {
        "loss": _TEXT,
        "penalty": _TEXT,
        "alpha": _NUMBER,
        "fit_intercept": _TRUTH,
        "method": _TEXT,
        "rho": _Kind('a number above 0, or "auto"', _rho),
    },
    "party": {
        "name": _TEXT,
        "data": _TEXT,
        "id": _TEXT,
        "label": _TEXT,
        "features": _Kind("a list of column names in quotes, none twice, not empty", _names),
    },
}
_SECTIONS = ("job", "model", "privacy", "party", "graph")


# --- reading ------------------------------------------------------------------------------------


def _document(path: Path) -> dict[str, Any]:
    """Parse the TOML file."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"there is no job file {show(str(path))}: mend the path") from error
    except OSError as error:
        raise InputError(f"cannot open the job file: {one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the file is not UTF-8 text ({one_line(error)}): save it as UTF-8") from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, which says the line, is a ValueError
        raise InputError(f"the file is not valid TOML: {one_line(error)}") from error


def _job(document: Mapping[str, Any], path: Path) -> Job:
    """Build the job from the parsed file."""
    for name in document:
        if name not in _SECTIONS:
            allowed = listing(_SECTIONS)
            raise InputError(f"unknown section {show(name)}{nearest(name, _SECTIONS)}: allowed are {allowed}")
    top = _section(document.get("job", {}), "job")
    _check_split(top.get("split", "features"))
    _check_privacy(document)
    if "graph" in document:
        raise InputError('[graph] is not used with split = "features": remove it')
    model = Model(**_section(document.get("model", {}), "model"))
    parties = _parties(document.get("party", []))
    return Job(**{"name": path.stem, **top}, model=model, parties=parties, folder=path.parent)


def _section(values: Any, section: str, number: int | None = None) -> dict[str, Any]:
    """Check the keys and the values of one section; `number` counts the parties from 1."""
    place = section if number is None else f"{section} {number}"
    if not isinstance(values, dict):
        raise InputError(f"{place} = {show(values)} is not allowed: it must be a section, [{section}]")
    allowed = _KEYS[section]
    parsed = {}
    for key, value in values.items():
        if key not in allowed:
            hint = nearest(key, list(allowed))
            raise InputError(f"unknown key {show(f'{place}.{key}')}{hint}: allowed are {listing(allowed)}")
        try:
            parsed[key] = allowed[key].parse(value)
        except ValueError as error:
            must = allowed[key].allowed
            raise InputError(f"{place}.{key} = {show(value)} is not allowed: it must be {must}") from error
    return parsed


def _check_split(split: str) -> None:
    """Refuse the splits that this version does not train."""
    if split == "samples":
        raise InputError('job.split = "samples" is not available yet: this version trains split = "features"')
    if split != "features":
        raise InputError(f'job.split = {show(split)} is not allowed: it must be "features"')


def _check_privacy(document: Mapping[str, Any]) -> None:
    """Refuse a request for privacy, which must never be dropped in silence."""
    if "privacy" in document:
        raise InputError(
            "privacy is not available in this version: remove [privacy] to train without it, "
            "and the certificate will say so"
        )


def _parties(values: Any) -> tuple[PartySpec, ...]:
    """Read the parties and check them against each other."""
    if isinstance(values, dict):
        raise InputError("[party] has single brackets: write [[party]] above each party")
    if not isinstance(values, list) or not values:
        raise InputError("there is no party: add a [[party]] section for each, with name and data")
    parties = tuple(_party(value, number) for number, value in enumerate(values, start=1))
    _check_unique(parties)
    _check_label(parties)
    return parties


def _party(values: Any, number: int) -> PartySpec:
    """Read one party."""
    parsed = _section(values, "party", number)
    for key in ("name", "data"):
        if key not in parsed:
            raise InputError(f"party {number} has no {key}: add {key} = ...")
    spec = PartySpec(**parsed)
    _check_name(spec.name, number)
    if spec.id is not None and spec.id == spec.label:
        raise InputError(f"party {show(spec.name)}: {show(spec.id)} is both id and label: they must differ")
    for role, column in (("id", spec.id), ("label", spec.label)):
        if column is not None and column in (spec.features or ()):
            raise InputError(
                f"party {show(spec.name)}: the {role} {show(column)} is among its features: remove it there"
            )
    return spec


_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def _check_name(name: str, number: int) -> None:
    """Refuse a name that some file system would refuse, as each party gets a file of its name."""
    plain = re.fullmatch(r"\w([\w. -]*[\w-])?", name) and not _RESERVED.fullmatch(name)
    if not plain or len(name.encode("utf-8")) > 100:
        raise InputError(
            f"party {number}.name = {show(name)} is not allowed: it names a file, so use at most 100 "
            "letters, digits, spaces or . _ - and begin and end with a letter or digit"
        )


def _check_unique(parties: Sequence[PartySpec]) -> None:
    """Refuse two parties of one name, also where only a file system would take them for one."""
    seen: dict[str, str] = {}
    for party in parties:
        key = unicodedata.normalize("NFKC", party.name).casefold()
        if key in seen:
            raise InputError(f"two parties are named {show(seen[key])} and {show(party.name)}: give each its own name")
        seen[key] = party.name


def _check_label(parties: Sequence[PartySpec]) -> None:
    """Refuse all but one party with labels."""
    holders = [party.name for party in parties if party.label is not None]
    if not holders:
        names = listing(party.name for party in parties)
        raise InputError(f"no party has the label (parties: {names}): give one of them label = its column")
    if len(holders) > 1:
        raise InputError(f"parties {listing(holders)} both have a label: exactly one party may")


# --- writing ------------------------------------------------------------------------------------


def _assignment(key: str, value: Any) -> str | None:
    """Return 'key = value' in TOML, or None for a value that is not given."""
    return None if value is None else f"{key} = {_literal(value)}"


def _literal(value: Any) -> str:
    """Write one of the few kinds of value that a job has."""
    if isinstance(value, str):
        return '"' + "".join(_escaped(character) for character in value) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return repr(value)


def _escaped(character: str) -> str:
    """Escape what TOML does not allow inside double quotes."""
    if character in '"\\':
        return "\\" + character
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character

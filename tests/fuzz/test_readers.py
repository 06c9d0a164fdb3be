"""Changed bytes from outside: refused in one line or taken; no code, no crash, no hang, no memory without bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="needs tacit[flare]")

from nvflare.fuel.utils import fobs
from nvflare.fuel.utils.fobs import fobs as packing
from nvflare.fuel.utils.fobs import lobs

from tacit.errors import TacitError
from tacit.federation.flare_policy import read_only_plain
from tacit.federation.flare_settings import MESSAGE_TYPES
from tests.fuzz.budget import bounded_memory, limited, refusal, share
from tests.fuzz.mutate import Mutator
from tests.fuzz.readers import EVIL, Reader, readers

CODE = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class", "socket.connect")
_watched: list[str] | None = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and (event in CODE or (event == "exec" and arguments[0].co_filename.startswith("<"))):
        _watched.append(event)


sys.addaudithook(_hear)  # which cannot be taken away again: it listens only where `no_code` says so


@contextmanager
def no_code() -> Iterator[None]:
    """Fail where a program is started, text is executed, an object is unpickled, or a connection is made."""
    global _watched
    _watched = []
    try:
        yield
        assert _watched == []
    finally:
        _watched = None


@pytest.fixture(autouse=True)
def plain_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLARE's reader as every process of a site has it; given back afterwards."""
    for module, name in ((packing, "Packer"), (lobs, "get_datum_dir"), (lobs, "get_dot_handler")):
        monkeypatch.setattr(module, name, getattr(module, name))
    read_only_plain(MESSAGE_TYPES)


@pytest.fixture(scope="module")
def all_readers(tmp_path_factory: pytest.TempPathFactory) -> list[Reader]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_HOME", str(tmp_path_factory.mktemp("home")))
        return readers(tmp_path_factory.mktemp("readers"))


def test_every_reader_takes_what_is_whole(all_readers: list[Reader]) -> None:
    assert len(all_readers) >= 24
    for reader in all_readers:
        for example in reader.examples if reader.takes_all else ():
            assert reader.read(example) is not None, reader.name


def test_changed_bytes_are_refused_in_one_line_or_taken(all_readers: list[Reader]) -> None:
    refused = dict.fromkeys((reader.name for reader in all_readers), 0)
    each, failed = share("readers") // len(all_readers) + 1, []
    with bounded_memory():
        for number, reader in enumerate(all_readers):
            for seed in range(each):
                mutator = Mutator(1_000_003 * number + seed)
                content = reader.change(mutator, mutator.random.choice(reader.examples))
                try:
                    with no_code():
                        refused[reader.name] += _refuses(reader, content)
                except Exception as error:
                    failed.append(f"{reader.name}, seed {seed}: {type(error).__name__}: {error!s:.300}")
                    break
    assert failed == []
    assert [name for name, count in refused.items() if not count] == ["traces"]  # of which the whole lines are read
    print(f"{each * len(all_readers)} changed inputs, refused of {each} each: {refused}")


def _refuses(reader: Reader, content: bytes) -> bool:
    if not reader.may_raise:
        return bool(refusal(lambda: reader.read(content))[1])
    with limited():
        try:
            reader.read(content)
        except (TacitError, *reader.may_raise):
            return True
    return False


# --- FLARE's messages hold plain data and its own records of jobs, and nothing else --------------------


@pytest.mark.parametrize("value", EVIL[:5], ids=lambda value: str(value["__fobs_type__"]))
def test_a_message_with_another_class_is_not_read(value: dict[str, Any]) -> None:
    before = set(sys.modules)
    with no_code(), pytest.raises(ValueError, match="which is not read here"):
        fobs.loads(fobs.dumps({"kwargs": [value]}))
    assert set(sys.modules) == before


def test_every_class_that_flare_knows_is_refused_unless_it_is_listed() -> None:
    """Also those that a module registered by itself, which FLARE trusts."""
    from nvflare.app_common.decomposers import common_decomposers, numpy_decomposers
    from nvflare.fuel.utils.fobs.builtin_decomposers import BUILTIN_TYPES
    from nvflare.private.fed.utils.decomposers import private_decomposers

    for module in (common_decomposers, numpy_decomposers, private_decomposers):
        module.register()
    known = {*packing._decomposers, *BUILTIN_TYPES} - set(MESSAGE_TYPES)
    assert len(known) > 30
    for name in known:
        with pytest.raises(ValueError, match="which is not read here"):
            fobs.loads(fobs.dumps({"__fobs_type__": name, "__fobs_data__": {}}))


def test_the_listed_classes_have_no_code_of_their_own_to_run() -> None:
    """Objects are filled with what the message says; of the listed ones FLARE reads headers and bodies alone."""
    made = {name: packing._decomposers.get(name) for name in MESSAGE_TYPES}
    assert {type(one).__name__ for one in made.values() if one is not None} <= {
        *("TupleDecomposer", "DataClassDecomposer", "ContextDecomposer", "DictDecomposer", "EnumTypeDecomposer"),
    }


@pytest.mark.parametrize(
    ("marker", "dot", "said"), [(103, 0, "is not stored here"), (102, 1, "is not fetched from here")]
)
def test_a_message_cannot_store_a_file_or_have_something_fetched(
    marker: int, dot: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobs, "DEFAULT_DATUM_DIR", str(tmp_path / "datums"))
    part = bytes([marker, dot]) + (20).to_bytes(8, "big") + bytes(16) + b"evil"
    with pytest.raises(ValueError, match=said):
        fobs.loads(fobs.dumps({"a": 1}) + part)
    assert list(tmp_path.iterdir()) == []


def test_large_parts_of_a_message_are_read() -> None:
    content = b"x" * 20_000_000  # which FLARE puts beside the message
    assert fobs.loads(fobs.dumps({"content": content})) == {"content": content}

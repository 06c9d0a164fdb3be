"""Every reader of bytes that somebody else may have made, with whole examples to spoil.

| bytes | who may have made them | reader |
|---|---|---|
| FLARE's messages (FOBS) | the server, and anybody with a kit | `fobs.loads` under `flare_policy.read_only_plain` |
| FLARE's jobs | the server | `flare_policy.JobCheck` |
| requests and replies between sites | a party with other software | `protocol.decode_request`, `decode_reply` |
| sealed requests | anybody with a kit | `flare.as_request`, `Channel.answer` |
| cards of public keys | anybody with a kit | `identity.read_chain` |
| a job, a request for predictions | the party that leads | `site.read_text`, `score_handler.read_request` |
| lists and positions of a private alignment | a party with other software | `Aligner.answer` |
| kits, a federation's file | who made them | `Kit.open`, `Federation.read` |
| a party's trees | who hands over a run | `TreeModel.read` |
| signatures of certificates | anybody | `Signature.read`, `Signature.problem` |
| checkpoints, journals, alignments | who hands over a folder | `RunFolder.restore`, `VersionedArrays`, `Alignment` |
| traces | who hands over a run | `read_trace` |
| Parquet and Excel files | who hands over a table | `read_table` |
| requests to a service, and its answers | who reaches it; a party that answers | the models of `service/wire.py` |
| identities of peers | who hands over the file | `read_peers` |

CSV and LIBSVM files, job files, saved models and certificates have tests of their own beside this file.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ValidationError

from tacit.alignment import Aligner, Alignment, align_here
from tacit.data.read import read_table
from tacit.errors import RunError
from tacit.federation.channel import Channel, SealedRequest
from tacit.federation.identity import OwnKeys, read_chain
from tacit.federation.journal import VersionedArrays
from tacit.federation.kit import Kit
from tacit.federation.project import Federation
from tacit.federation.protocol import Step, decode_reply, decode_request
from tacit.federation.score_handler import read_request
from tacit.federation.site import read_text
from tacit.files import read_json
from tacit.privacy.verify import Signature, sign
from tacit.records import load
from tacit.run.checkpoint import read_trace
from tacit.run.folder import RunFolder
from tacit.service import wire
from tacit.service.identity import read_peers
from tacit.solvers.boosting.model import TreeModel
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback
from tests.fuzz.mutate import VALUES, Mutator
from tests.fuzz.runs import trained
from tests.hostile.parties import made

Change = Callable[[Mutator, bytes], bytes]
EVIL = [
    *(
        {"__fobs_type__": name, "__fobs_data__": {"data": {"x": 1}}, "__fobs_dc__": decomposer}
        for name, decomposer in [
            ("os.system", "nvflare.fuel.utils.fobs.decomposer.DataClassDecomposer"),
            ("subprocess.Popen", "nvflare.fuel.utils.fobs.decomposer.DataClassDecomposer"),
            ("argparse.Namespace", "nvflare.fuel.utils.fobs.decomposer.DataClassDecomposer"),
            (
                "nvflare.apis.workspace.Workspace",
                "nvflare.apis.utils.decomposers.flare_decomposers.WorkspaceDecomposer",
            ),
            ("numpy.ndarray", "nvflare.app_common.decomposers.numpy_decomposers.NumpyArrayDecomposer"),
            ("nvflare.apis.fl_context.FLContext", "cma_decomposer.CMAOptionsDecomposer"),
            ("nvflare.apis.shareable.Shareable", ""),
        ]
    ),
    *({"__fobs_type__": name} for name in ("tuple", "xgboost.core.DataSplitMode", "", None, 3, [], {"a": 1})),
]


@dataclass(frozen=True)
class Reader:
    """One reader: whole examples, how they are spoiled, what reads them, and what it may raise besides a refusal."""

    name: str
    examples: list[bytes]
    change: Change
    read: Callable[[bytes], Any]
    may_raise: tuple[type[Exception], ...] = ()
    takes_all: bool = True  # whether every example is taken by itself, out of any order


def bits(mutator: Mutator, content: bytes) -> bytes:
    """Change bytes."""
    return mutator.content(content)


def texts(mutator: Mutator, content: bytes) -> bytes:
    """Change bytes of a text, or nest brackets without end."""
    if mutator.random.randrange(20):
        return mutator.content(content)
    depth = 10 ** mutator.random.randint(2, 5)
    return content + b"\nx = " + b"[" * depth


def jsons(mutator: Mutator, content: bytes) -> bytes:
    """Change a JSON record."""
    return mutator.json(content)


def packed(mutator: Mutator, content: bytes, start: int = 1, values: list[Any] = VALUES) -> bytes:
    """Change values inside msgpack that begins at a place, or bytes."""
    if mutator.random.randrange(3):
        try:
            record = mutator.record(msgspec.msgpack.decode(content[start:]), values=values)
            return content[:start] + msgspec.msgpack.encode(record)
        except (OverflowError, UnicodeEncodeError, TypeError, RecursionError):
            pass
    return mutator.content(content)


def fobs_message(mutator: Mutator, content: bytes) -> bytes:
    """Change a message of FLARE: what it holds, its bytes, or the parts after it (texts, bytes, files, references)."""
    if mutator.random.randrange(4) == 0:
        return content + _datum(mutator.random)
    changed = packed(mutator, content, start=10, values=[*VALUES, *EVIL, *EVIL])
    return changed[:2] + (len(changed) - 10).to_bytes(8, "big") + changed[10:] if len(changed) > 10 else changed


def _datum(random: Random) -> bytes:
    """A part of a message: its marker, what handles it, its length, its id and its content."""
    body = random.randbytes(random.choice([0, 1, 40]))
    length = random.choice([16 + len(body), 16, 15, 0, 2**63, 2**40])
    return bytes([random.choice([100, 101, 102, 103, 104]), random.choice([0, 0, 1, 2, 3, 255])]) + (
        length.to_bytes(8, "big") + random.randbytes(16) + body
    )


# --- between sites -------------------------------------------------------------------------------------


def carried(place: Path) -> Loopback:
    """What sites said to each other in a run."""
    files = star.write_files(place)
    loop = Loopback(files, place / "sites")
    loop.run(star.job_text(files, "flare", top="secure_aggregation = true"))
    return loop


def read_step(step: Step) -> Step:
    """Take a message as its receiver does: every array of it is made."""
    if (message := getattr(step, "message", None)) is not None:
        message.message("shop", singles=True)
    for numbers in (getattr(step, name, None) for name in ("elements", "positions")):
        if numbers is not None:
            numbers.array()
    return step


def between_sites(place: Path) -> Iterator[Reader]:
    """Requests, replies, sealed messages, cards, jobs and lists of ids."""
    loop = carried(place / "loop")
    by_kind = {type(one.asked): one for one in loop.carried}
    requests = [one.request for one in by_kind.values()]
    yield Reader("requests between sites", requests, packed, lambda b: read_step(decode_request(b)))
    asked = {one.reply: one.asked for one in by_kind.values()}

    def any_reply(content: bytes) -> Any:
        found = [step for reply, step in asked.items() if reply[:1] == content[:1]]
        return read_step(decode_reply(content, found[0] if found else next(iter(asked.values()))))

    yield Reader("replies between sites", list(asked), packed, any_reply)
    job = next(one.asked.job for one in loop.carried if hasattr(one.asked, "job"))
    yield Reader("a job from elsewhere", [job.encode()], texts, lambda b: read_text(b.decode("utf-8", "replace")))
    wanted = b'[predict]\nrun = "run-00000001"\nparties = ["bank", "shop"]\n'
    yield Reader("a request for predictions", [wanted], texts, lambda b: read_request(b.decode("utf-8", "replace")))
    yield aligning()


def aligning() -> Reader:
    """Questions of an alignment: a whole conversation is had, and one question of it is changed."""
    ids = {"bank": ["a", "b", "c"], "shop": ["b", "c", "d"]}
    said: list[bytes] = []

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray) else value

    class Listening(Aligner):
        def answer(self, step: str, payload: Any) -> dict[str, Any]:
            said.append(json.dumps([step, {key: plain(value) for key, value in payload.items()}]).encode())
            return super().answer(step, payload)

    align_here([Listening(name, own, list(ids)) for name, own in ids.items()])
    types = {"elements": np.uint8, "positions": np.int64}

    def read(content: bytes) -> Any:
        question = json.loads(content)
        if not (isinstance(question, list) and [type(one) for one in question] == [str, dict]):
            return None  # the protocol, which has read it before, lets nothing else through
        payload = {}
        for key, value in question[1].items():
            try:
                payload[key] = np.array(value, dtype=types[key]) if key in types else value
            except (ValueError, TypeError, OverflowError):
                payload[key] = value
        party = Aligner("bank", ids["bank"], list(ids))
        party.answer("list", {"owner": "bank", "start": 0, "stop": 3})
        return party.answer(question[0], payload)

    def change(mutator: Mutator, content: bytes) -> bytes:
        return json.dumps(mutator.record(json.loads(content))).encode()

    return Reader("questions of an alignment", said, change, read, takes_all=False)


def sealed(place: Path, kits: list[Kit]) -> Iterator[Reader]:
    """Requests under a seal, and the cards of who seals."""
    from tacit.federation.flare import as_request

    bank, shop = (OwnKeys.of(kit) for kit in kits)
    cards = {own.card.name: own.card for own in (bank, shop)}
    ask, answer = (Channel(own, cards.get, "run-00000001", 1) for own in (bank, shop))
    line = ask.line("shop", answer.process)
    fields = ("sender", "process", "start", "number", "floor", "salt", "content")

    def example() -> bytes:
        request: SealedRequest = line.seal(b"hello")
        values = [request.sender, request.process, request.start, request.number, request.floor, *request.sealed]
        return b"\x00" + msgspec.msgpack.encode(dict(zip(fields, values, strict=True)))

    def read(content: bytes) -> Any:
        try:
            record = msgspec.msgpack.decode(content[1:])
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None  # FLARE's reader refuses it
        if not isinstance(record, dict) or set(record) != set(fields):
            return None  # FLARE calls nothing with other arguments
        return answer.answer(as_request(**record), lambda plain, sender: plain)

    yield Reader("sealed requests", [example() for _ in range(4)], packed, read)
    yield Reader("cards", [json.dumps(bank.cards()).encode()], jsons, _plain_json(read_chain))


def _plain_json(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """What reads a value that FLARE has read before."""

    def whole(content: bytes) -> Any:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            return None
        return read(value)

    return whole


# --- FLARE ---------------------------------------------------------------------------------------------


def of_flare(place: Path) -> Iterator[Reader]:
    """Messages as FLARE packs them, and jobs as it lays them down."""
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable
    from nvflare.apis.utils.decomposers import flare_decomposers
    from nvflare.fuel.utils import fobs
    from nvflare.private.admin_defs import Message

    from tacit.federation.flare_policy import JobCheck
    from tacit.federation.flare_settings import ALLOWED_CLASSES

    flare_decomposers.register()
    task = Shareable()
    task.update({"method_name": "take", "args": ("bank", b"\x01" * 40, 7), "kwargs": {"number": 3, "content": b"x"}})
    context = FLContext()
    context.set_prop("run", "x", private=False)
    task["__peer_ctx__"] = context
    messages = [fobs.dumps(value) for value in (task, {"a": [1, 2.5, None, ("x", {"y": b"z"})]}, Message("t", "body"))]
    yield Reader("messages of FLARE", messages, fobs_message, fobs.loads, (Exception,))  # which FLARE catches and logs
    config = place / "app" / "config"
    config.mkdir(parents=True)
    component = {"id": "member", "path": "tacit.federation.flare.Member", "args": {"run": "x"}}
    settings = json.dumps({"format_version": 2, "executors": [], "components": [component]}).encode()
    check = JobCheck(ALLOWED_CLASSES)

    def read(content: bytes) -> Any:
        (config / "config_fed_client.json").write_bytes(content)
        refused, _ = check.validate(str(config.parent))
        if refused:
            raise RunError(refused)
        return json.loads(content)

    yield Reader("jobs of FLARE", [settings], jsons, read)


# --- files ---------------------------------------------------------------------------------------------


def in_file(path: Path, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """What reads bytes from a file."""

    def whole(content: bytes) -> Any:
        path.write_bytes(content)
        return read(path)

    return whole


def of_kits(place: Path, kits: list[Kit]) -> Iterator[Reader]:
    """A kit's own page, its root certificate, and the file from which kits are made."""
    kit = kits[0].path
    for name in ("tacit.toml", "flare/startup/rootCA.pem"):
        file = kit / name
        whole = file.read_bytes()

        def read(content: bytes, file: Path = file, whole: bytes = whole) -> Any:
            file.write_bytes(content)
            try:
                return Kit.open(kit)
            finally:
                file.write_bytes(whole)

        yield Reader(f"a kit's {file.name}", [whole], texts, read)
    page = place / "federation.toml"
    Federation("credit", "bank", "localhost", ("bank", "shop"), 8002).write(page)
    yield Reader("a federation's file", [page.read_bytes()], texts, in_file(page, Federation.read))
    peers = place / "peers.toml"
    peers.write_text('[peers]\nbank = "' + "A" * 43 + '="\n')
    yield Reader("identities of peers", [peers.read_bytes()], texts, in_file(peers, read_peers))


def of_runs(place: Path) -> Iterator[Reader]:
    """Trees, signatures, traces, checkpoints, journals and alignments."""
    yield Reader("a party's trees", [trees()], bits, lambda b: _used(TreeModel.read(b.decode("ascii", "replace"))))
    certificate = trained("private").files()["certificate.json"]
    signed = json.dumps(sign(Ed25519PrivateKey.generate(), "bank", certificate).record()).encode()
    yield Reader("signatures", [signed], jsons, lambda b: Signature.read(load(b)).problem(certificate))
    run = trained("features")
    yield Reader("traces", [run.files()["trace.jsonl"]], bits, in_file(place / "trace.jsonl", read_trace))
    yield Reader("records of runs", [run.files()["result.json"]], jsons, in_file(place / "result.json", read_json))
    folder = RunFolder(place / "run")
    folder.path.mkdir()
    yield Reader("checkpoints", [_checkpoint()], bits, in_file(folder.checkpoint, lambda _: folder.restore(_Anybody())))
    journal = VersionedArrays(place / "journal", 2)
    journal.put(1, {"a": np.arange(5.0), "b": np.arange(3, dtype=np.uint64)}, {"round": 1})
    step = journal.folder / "step-000000001.npz"
    yield Reader("journals", [step.read_bytes()], bits, in_file(step, lambda _: journal.get(1)))
    rows = Alignment("bank", ("bank", "shop"), "run", 9, "f" * 64, np.array([1, 5, 2]))
    rows.write(place / "rows.npz")
    file = place / "rows.npz"
    yield Reader("alignments", [file.read_bytes()], bits, in_file(file, Alignment.read))


class _Anybody:
    """A session that takes every state."""

    def restore(self, states: Any, state: Any) -> None:
        """Look at all of it."""
        assert all(np.isfinite(a).size == a.size for arrays in states.values() for a in arrays.values())


def _checkpoint() -> bytes:
    loop = {"exchange": 3, "rounds": 0, "converged": False, "seconds": 0.5, "bytes_down": 8, "bytes_up": 8, "note": ""}
    file = io.BytesIO()
    record = np.frombuffer(json.dumps(loop).encode(), np.uint8)
    np.savez(file, **{"loop": record, "trace": np.zeros((0, 11)), "state/bank/x": np.arange(4.0)})  # type: ignore[arg-type]
    return file.getvalue()


def trees() -> bytes:
    """LightGBM's text of a small model with a column of categories."""
    import lightgbm

    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=(200, 2)), rng.integers(0, 5, 200)])
    data = lightgbm.Dataset(x, x[:, 0] + (x[:, 2] == 2), categorical_feature=[2])
    options = {"num_leaves": 5, "min_data_in_leaf": 5, "verbose": -1, "objective": "regression"}
    return TreeModel.read(lightgbm.train(options, data, 3).model_to_string()).text.encode()


def _used(model: TreeModel) -> Any:
    """What a model gives; a text that is taken must not end the process."""
    return model.score(np.zeros((3, model.features))) if model.features < 1000 else None


def of_tables(place: Path) -> Iterator[Reader]:
    """Parquet and Excel."""
    import openpyxl

    table = pa.table({"id": ["a", "b", "c"], "x": [1.5, None, 3.0], "when": pa.array([1, 2, 3], pa.timestamp("s"))})
    for style in ("none", "snappy", "zstd"):
        pq.write_table(table, place / f"{style}.parquet", compression=style)
    parquet = [(place / f"{style}.parquet").read_bytes() for style in ("none", "snappy", "zstd")]

    def read(path: Path) -> Any:
        return read_table(path, party="bank")

    yield Reader("Parquet files", parquet, bits, in_file(place / "t.parquet", read))
    book = openpyxl.Workbook()
    for row in (["id", "x"], ["a", 1.5], ["b", 2]):
        book.active.append(row)
    book.save(place / "t.xlsx")
    yield Reader("Excel files", [(place / "t.xlsx").read_bytes()], bits, in_file(place / "t.xlsx", read))


def of_service() -> Iterator[Reader]:
    """Bodies of requests and answers, by the models that FastAPI and the asking side read them with."""
    session, key = "s" * 24, {"party": "bank", "key": "A" * 43 + "=", "signature": "A" * 86 + "=="}
    bodies: list[tuple[type[BaseModel], dict[str, Any]]] = [
        (wire.OpenSession, {"session": session, "parties": ["bank", "shop"]}),
        (wire.PassKeys, {"keys": [key, key]}),
        (wire.AskScores, {"session": session, "number": 3, "ids": ["a", "b"]}),
        (wire.ScoresReply, {"party": "bank", "number": 3, "scores": [0.5, 1.5]}),
        (wire.SessionKey, key),
    ]
    for kind, body in bodies:
        yield Reader(
            f"{kind.__name__} of the service",
            [json.dumps(body).encode()],
            jsons,
            kind.model_validate_json,
            (ValidationError,),
        )


def readers(place: Path) -> list[Reader]:
    """All of them, with examples made in a folder."""
    for name in ("loop", "flare", "runs", "tables"):
        (place / name).mkdir()
    shutil.copytree(made(), place / "kits")
    kits = [Kit.open(place / "kits" / name) for name in ("bank", "shop")]
    return [
        *of_flare(place / "flare"),
        *between_sites(place),
        *sealed(place, kits),
        *of_kits(place / "kits", kits),
        *of_runs(place / "runs"),
        *of_tables(place / "tables"),
        *of_service(),
    ]

"""One whole run with everything that leaves it taken down: by the command line, or between sites."""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from tacit.audit.harness.recording import MESSAGES, Recording, add_files
from tacit.audit.harness.tape import Tape, fixed_coins, on_tape, steady_pace
from tacit.audit.harness.world import World
from tacit.errors import FaultError
from tacit.federation.kit import Kit
from tacit.federation.loopback import Loopback
from tacit.federation.protocol import Answered, Scores, Step, encode
from tacit.federation.releases import log_step
from tacit.federation.score_handler import PredictionRequest
from tacit.run import door
from tacit.types import Message

# --- Sites in one process: what they ask of each other is taken down, and they die when they are told to


MOST_LIVES = 400


class KilledError(BaseException):
    """A process died; nobody in it can catch that."""


class Carrier(Loopback):
    """Carries what sites ask of each other, and takes it down.

    Parameters
    ----------
    files : mapping of str to Path
        Each site's own file.
    folder : Path
    record : Recording
    victim : str or None
        All processes are killed whenever this site has done a step for the first time, before its reply arrives, and
        whenever another site has done one for it.
    """

    def __init__(self, files: Mapping[str, Path], folder: Path, record: Recording, victim: str | None = None) -> None:
        super().__init__(files, folder)
        self.record, self.victim = record, victim
        self.seen: set[tuple[str, ...]] = set()

    def _carry(self, caller: str, name: str, request: Step) -> Step:
        step, size = type(request).__name__, len(encode(request))
        self.record.add(f"request {caller} -> {name}", step, {"": request, "bytes": size})
        reply = super()._carry(caller, name, request)
        answered = len(self.carried[-1].reply)
        self.record.add(f"reply {name} -> {caller}", step, {"": _covered(reply, request), "bytes": answered})
        own = cast("Kit", SimpleNamespace(logs=self.folder / f"{name}-logs"))
        log_step(own, "", request, reply, caller, size, answered, 0.0)
        self._perhaps_kill(caller, name, request)
        return reply

    def _perhaps_kill(self, caller: str, name: str, request: Step) -> None:
        if self.victim not in (caller, name):
            return
        message: Any = getattr(request, "message", request)
        key = (
            caller,
            name,
            type(request).__name__,
            str(getattr(message, "round", "")),
        )  # matching: once, it has few tries
        if key not in self.seen:
            self.seen.add(key)
            raise KilledError

    def live(self, text: str, run: str) -> int:
        """Lead the job where it is led, from the start again as often as processes are killed; the number of rounds."""
        for _ in range(MOST_LIVES):
            try:
                return self.run(text, run)
            except KilledError:
                self.record.life += 1
                self.restart()
        raise FaultError(f"the run did not end in {MOST_LIVES} lives")


def _covered(reply: Step, request: Step) -> Any:
    """A reply, without scores: these are exact functions of rows, and no claim covers them."""
    if not isinstance(request, Scores) or not isinstance(reply, Answered):
        return reply
    arrays = reply.message.arrays
    return {"kind": reply.message.kind, "arrays": {name: (one.kind, one.shape) for name, one in arrays.items()}}


# --- One whole run with everything that leaves it taken down: by the command line, or between sites


Command = Callable[[Sequence[str]], int]
RUN, PREDICTION = "run-00000001", "predict-00000001"
LOCKS = ("lock", "run.lock")
SCORES = ("scores.sent", "predictions.csv")  # covered by no claim
PROBLEM = "problem.txt"  # what is wrong with an organisation's data, which it alone is told
MOST_INTERRUPTS = 60
PLANS: dict[str, Any] = {}  # a plan is made from a job and from public sizes: the same for the same words


def play_sites(
    world: World,
    folder: Path,
    tape: Tape,
    seed: int,
    *,
    restarts: bool,
    owned: Sequence[str],
    predict: bool = False,
) -> Recording:
    """A run between sites.

    Parameters
    ----------
    world : World
    folder : Path
        Made anew.
    tape : Tape
    seed : int
        Of all coins.
    restarts : bool
        Whether all processes die after every step of the protected party.
    owned : sequence of str
        Names of files that belong to the protected party and are covered by no claim.
    predict : bool
        Whether a joint prediction follows; the scores themselves are left out, as no claim covers them.
    """
    record = Recording()
    with _recorded(record, tape, seed, folder):
        world.write(folder / "data")
        party = _party(world, tape)
        sites = folder / "sites"
        carrier = Carrier(world.files(folder / "data"), sites, record, party if restarts else None)
        try:
            record.add("outcome", "training", carrier.live(world.text(), RUN))
            if predict:
                request = PredictionRequest(RUN, world.job.names).to_toml()
                record.predicting, carrier.victim = True, None  # scores are answered once: after a restart, not again
                record.add("outcome", "prediction", carrier.live(request, PREDICTION))
        except Exception as error:
            record.add("outcome", "", f"{type(error).__name__}: {error}")
    for name in world.job.names:
        mine = (*owned, PROBLEM) if name == party else ()
        add_files(record, sites / name, name, lambda file, mine=mine: _left_out(file, mine))
        add_files(record, sites / f"{name}-logs", name)
    shutil.rmtree(folder)
    return record


def play_commands(
    world: World,
    folder: Path,
    tape: Tape,
    seed: int,
    *,
    restarts: bool,
    owned: Sequence[str],
    command: Command,
    report: bool = False,
) -> Recording:
    """Plan, train and, where asked, report by the command line, in this process; else as `play_sites`."""
    record = Recording()
    job, out = folder / "data" / "job.toml", folder / "run"
    train = ["train", str(job), "--out", str(out), "--checkpoint-every", "0"]
    with _recorded(record, tape, seed, folder), patch("time.perf_counter", lambda: 0.0):
        world.write(folder / "data")
        tell = _printer(record, command)
        if restarts:
            _train_interrupted(record, train, tell)
        else:
            tell("plan", ["plan", str(job)])
            tell("plan --json", ["plan", str(job), "--json"])
            tell("train", train)
        if report:
            tell("report", ["report", str(out)])
    add_files(record, out, "the run", lambda file: _left_out(file, owned))
    shutil.rmtree(folder)
    return record


def _party(world: World, tape: Tape) -> str:
    return tape.owner if tape.owner in world.job.names else world.job.holder


def _left_out(file: str, owned: Sequence[str]) -> bool:
    name = file.split("/")[-1]
    return name in (*LOCKS, *SCORES) or any(file.endswith(one) for one in owned)


def _train_interrupted(record: Recording, train: Sequence[str], tell: Callable[[str, Sequence[str]], int]) -> None:
    """Train, interrupted after every message that is sent for the first time, and go on each time."""
    leave, sent = door.leave, 0

    for life in range(MOST_INTERRUPTS):
        count = 0
        record.life = life

        def interrupting(*args: Any, life: int = life, **kwargs: Any) -> Message:
            nonlocal count, sent
            message = leave(*args, **kwargs)
            count += 1
            if count > life + 1:
                raise KeyboardInterrupt
            return message

        with patch.object(door, "leave", interrupting):
            code = tell(f"train, life {life + 1}", [*train, *(["--resume"] if life else [])])
        if code != 130:
            return


def _printer(record: Recording, command: Command) -> Callable[[str, Sequence[str]], int]:
    """What runs a command and takes down what it prints and its exit code."""

    def tell(step: str, words: Sequence[str]) -> int:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command(words)
        record.add("exit code", step, code)
        record.add("printed", step, out.getvalue().splitlines())
        record.add("printed as errors", step, err.getvalue().splitlines())
        return code

    return tell


@contextmanager
def _recorded(record: Recording, tape: Tape, seed: int, folder: Path) -> Iterator[None]:
    """Fixed coins, releases on tape, and messages, logs and warnings taken down."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    logs = _Logs()
    with ExitStack() as stack:
        stack.enter_context(fixed_coins(seed))
        stack.enter_context(steady_pace(PLANS))
        stack.enter_context(on_tape(tape))
        stack.enter_context(patch.object(door, "leave", _listening(record)))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(logs.listening())
        yield
    for line in sorted(logs.lines):
        record.add("log", "", line)
    for line in sorted({f"{one.category.__name__}: {one.message}" for one in caught if _told(one)}):
        record.add("warnings", "", line)


def _told(warning: warnings.WarningMessage) -> bool:
    """Whether a warning would be shown to a user."""
    return not issubclass(warning.category, (DeprecationWarning, PendingDeprecationWarning, ResourceWarning))


def _listening(record: Recording) -> Any:
    leave = door.leave

    def listened(*args: Any, **kwargs: Any) -> Message:
        message = leave(*args, **kwargs)
        arrays = dict(message.arrays)
        sent = {name: np.zeros_like(array) for name, array in arrays.items()} if record.predicting else arrays
        said = {"kind": message.kind, "arrays": sent}
        record.add(f"{MESSAGES}{message.sender}", f"{message.kind} {message.round}", said)
        return message

    return listened


class _Logs(logging.Handler):
    """What is logged, as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        error = "" if not record.exc_info or record.exc_info[1] is None else f" {record.exc_info[1]!r}"
        self.lines.append(f"{record.name} {record.levelname} {record.getMessage()}{error}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the package, whatever level is set, and to whatever others log as shown by default."""
        own, root = logging.getLogger("tacit"), logging.getLogger()
        level, spread = own.level, own.propagate
        own.setLevel(logging.DEBUG)
        own.propagate = False
        own.addHandler(self)
        root.addHandler(self)
        try:
            yield
        finally:
            own.removeHandler(self)
            root.removeHandler(self)
            own.setLevel(level)
            own.propagate = spread

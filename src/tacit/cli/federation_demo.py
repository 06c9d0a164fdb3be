"""`tacit federation demo`: three organisations and their server on this machine, from sample files to predictions.

Every step is a command of its own, as people would type it, in a folder of its own; what was typed and what came is
kept there. What is started ends with the demo, also where it fails or is stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tacit.data.samples import BANK, ID, JOB_FILE, LABEL, PARTIES, SHOP, TRUTH
from tacit.errors import InputError, RunError
from tacit.text import command, listing, plain

if TYPE_CHECKING:
    from tacit.federation.kit import Kit

NAME, KITS, HOMES, SCREENS = "credit", "credit", "home", "screens"
COMMANDS, README = "commands.txt", "README.txt"
LOOK_EVERY = 0.2
ENDING = 60.0  # seconds for a process to end by itself once it is told
FOLLOWING = 12.0  # seconds between two lines while something takes long
LAST = {"training": 4, "prediction": 1}  # lines of a screen that are shown
CALL = 120.0  # seconds for a command that ends by itself at once

Say = Callable[[str], None]


def run_demo(folder: Path, minutes: float) -> None:
    """Run the demo in a folder that is empty or not there yet.

    Raises
    ------
    InputError
        Where the folder holds something, or FLARE is missing.
    RunError
        Where a command fails, or the time is over; what it printed is in the folder.
    """
    from tacit.federation.project import require_flare

    require_flare()
    if not 0 < minutes < 1e4:
        raise InputError(f"--minutes {minutes:g} is not allowed: give a number above 0")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds something already: give another folder with --out, or remove it")
    (folder / SCREENS).mkdir(parents=True)
    (folder / HOMES).mkdir(mode=0o700)
    demo = Demo(folder.resolve(), folder, minutes)
    with _ended_by_sigterm(), demo.ending():
        demo.go()


@dataclass
class DemoTerminal:
    """A command that stays in the foreground of a terminal of its own."""

    text: str
    screen: Path
    process: subprocess.Popen[bytes]

    def printed(self) -> str:
        """What stands on its screen."""
        return self.screen.read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        """Tell it to end, and wait; kill it where it does not."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Demo:
    """The demo in its folder.

    Attributes
    ----------
    folder, shown : Path
        The folder, whole and as the user named it.
    minutes : float
        After which it gives up.
    """

    folder: Path
    shown: Path
    minutes: float
    terminals: dict[str, DemoTerminal] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    # --- the steps -------------------------------------------------------------------------------------

    def go(self) -> None:
        """All steps, in the order in which organisations would do them."""
        self.say(f"three organisations and a server, all on this machine, in {self.shown}")
        self.files()
        self.start()
        self.train()
        self.predict()
        self.look()
        self.finish()

    def files(self) -> None:
        """Sample files, and the kits."""
        self.note(f'in an empty folder, and in each terminal first: export TACIT_HOME="$PWD/{HOMES}"')
        self.step("sample files of a bank, a shop and a phone company")
        self.call("federation", "samples", "--out", ".")
        self.step(f"the bank makes a kit for each: {BANK} runs the server too")
        host = ("--server", BANK, "--host", "localhost", "--port", str(_free_port()))
        named = [word for name in PARTIES for word in ("--party", name)]
        self.call("federation", "init", "--name", NAME, *host, *named, "--out", KITS)

    def start(self) -> None:
        """The server and the three sites, each in a terminal of its own."""
        self.step("the server and three sites start, each in a terminal of its own")
        self.open("serve", f"{KITS}/server")
        for name in PARTIES:
            self.open("join", f"{KITS}/{name}", "--data", f"{name}.csv", "--predict", f"{name}-new.csv")
        for text, terminal in self.terminals.items():
            self.wait(lambda one=terminal: "ready:" in one.printed(), f"{text} to be ready", terminal)  # type: ignore[misc]
        self.say("all are connected")

    def train(self) -> None:
        """The job, keys compared, consent in two stages, training."""
        self.step("the bank hands the job in")
        job = self.open("train", JOB_FILE, "--kit", f"{KITS}/server")
        self.step("keys arrive with the first job; each is compared with what its owner shows, then confirmed")
        for name in PARTIES:
            self.confirm(name, job)
        self.step("every organisation is asked: may ids be matched, and sizes be told?")
        self.consent(job, shown=True)
        self.step("every organisation is asked: may this training take place?")
        self.consent(job, shown=True)
        self.end_of(job, "training")

    def predict(self) -> None:
        """Predictions of people nobody trained on."""
        self.step("the bank asks for predictions of new people; each organisation scores its own columns")
        job = self.open("predict", NAME, "--kit", f"{KITS}/server")
        self.consent(job, shown=False)
        self.consent(job, shown=False)
        self.end_of(job, "prediction")
        self.measure()

    def look(self) -> None:
        """What each organisation has afterwards: its status and its page."""
        self.step("every organisation looks at its own part: status and report")
        for name in PARTIES:
            self.call("status", f"{KITS}/{name}")
            self.call("report", f"{KITS}/{name}", "--out", f"report-{name}.html")

    def finish(self) -> None:
        """End what runs, and say what to look at."""
        self.step("the sites and the server are ended")
        self.end_all()
        lines = [
            *(f"report-{name}.html   what {name} may know of the run" for name in PARTIES),
            f"{HOMES}/{NAME}-*/{BANK}/jobs/   runs: the model's part, certificate.txt, predictions.csv",
            f"{COMMANDS}   every command, to repeat by hand in another folder",
            f"{SCREENS}/   what each terminal showed",
        ]
        (self.folder / README).write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.say(f"done; in {self.shown}:")
        for line in lines:
            print(f"         {line}")

    # --- parts of steps --------------------------------------------------------------------------------

    def confirm(self, name: str, job: DemoTerminal) -> None:
        """Compare every fingerprint that came with what its owner shows, and confirm it."""
        from tacit.federation.identity import OwnKeys
        from tacit.federation.members import Members

        others = [other for other in PARTIES if other != name]
        members = Members(self.kit(name))
        self.wait(lambda: {card.name for card in members.unconfirmed()} >= set(others), f"keys at {name}", job)
        for other in others:
            seen = next(card for card in members.unconfirmed() if card.name == other)
            if seen.fingerprint != OwnKeys.of(self.kit(other)).card.fingerprint:
                raise RunError(f"{name} sees another fingerprint of {other} than {other} shows: somebody is between")
        self.call("federation", "members", f"{KITS}/{name}", "--confirm", *others, "--yes")

    def consent(self, job: DemoTerminal, *, shown: bool) -> None:
        """Show what each organisation is asked, and say yes for it: the lead first, as it is asked first."""
        from tacit.federation.questions import questions

        for name in PARTIES:
            home = self.kit(name).home
            self.wait(lambda home=home: bool(questions(home)), f"the question to {name}", job)  # type: ignore[misc]
            text = self.call("accept", f"{KITS}/{name}", "--show")
            if shown and name == SHOP:
                for line in text.splitlines():
                    print(plain(f"         | {line}"))
            self.call("accept", f"{KITS}/{name}", "--yes")
            self.say(f"{name}: shown, and accepted automatically, as this is a demo")

    def end_of(self, job: DemoTerminal, what: str) -> None:
        """Wait until a command in a terminal ends well, and show its last line."""
        self.wait(lambda: job.process.poll() is not None, f"the {what}", None)
        if job.process.returncode != 0:
            raise self.failed(job)
        del self.terminals[job.text]
        for line in job.printed().strip().splitlines()[-LAST[what] :]:
            self.say(line)

    def measure(self) -> None:
        """What became of the new people, against what was predicted."""
        import pandas as pd
        from sklearn.metrics import roc_auc_score

        file = next(self.kit(BANK).jobs.glob("predict-*/predictions.csv"))
        predicted = pd.read_csv(file, index_col=0)
        truth = pd.read_csv(self.folder / TRUTH).set_index(ID)[LABEL].reindex(predicted.index)
        right = float((predicted["prediction"] == truth).mean())
        auc = float(roc_auc_score(truth == "yes", predicted["probability"]))
        always = float(max((truth == "no").mean(), (truth == "yes").mean()))
        self.say(
            f"{len(truth):,} new people predicted: AUC {auc:.3f}, {right:.0%} right "
            f"(always the same answer: {always:.0%})"
        )
        self.say("no file left its owner; but this job adds no noise: it is NOT differentially private")

    def kit(self, name: str) -> Kit:
        """The kit of an organisation."""
        from tacit.federation.kit import Kit

        return Kit.open(self.folder / KITS / name)

    # --- commands --------------------------------------------------------------------------------------

    def call(self, *words: str) -> str:
        """A command that ends at once; what it prints.

        Raises
        ------
        RunError
            Where it fails, or takes too long.
        """
        text = self.type(words)
        screen = self.screen(words)
        try:
            done = subprocess.run(
                _tacit(words), cwd=self.folder, env=self.environment, capture_output=True, timeout=CALL, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"{text} did not end within {CALL:.0f} s: see {self.shown}") from error
        with screen.open("ab") as file:
            file.write(done.stdout + done.stderr)
        if done.returncode != 0:
            raise RunError(f"{text} failed: {_last_line(done.stderr.decode(errors='replace'))}")
        return done.stdout.decode(errors="replace")

    def open(self, *words: str) -> DemoTerminal:
        """A command in a terminal of its own."""
        text, screen = self.type(words, "in a terminal of its own"), self.screen(words)
        with screen.open("wb") as out:
            process = subprocess.Popen(
                _tacit(words),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C comes here alone, and is passed on in order
            )
        self.terminals[text] = DemoTerminal(text, screen, process)
        return self.terminals[text]

    def type(self, words: Sequence[str], remark: str = "") -> str:
        """Write a command down, and show it."""
        text = command("tacit", *words)
        self.note(f"{text}{f'    # {remark}' if remark else ''}")
        print(plain(f"         $ {text}"))
        sys.stdout.flush()
        return text

    def screen(self, words: Sequence[str]) -> Path:
        """Where the output of a command is kept: of one verb and organisation in one file."""
        about = [word.removeprefix(f"{KITS}/") for word in words if "/" in word and not word.startswith(".")][:1]
        return self.folder / SCREENS / ("-".join([words[0], *about]) + ".txt")

    @property
    def environment(self) -> dict[str, str]:
        """Of every command: its homes are in the folder, and numerical libraries use one thread each."""
        return {**os.environ, "TACIT_HOME": str(self.folder / HOMES), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

    # --- waiting and ending ----------------------------------------------------------------------------

    def wait(self, true: Callable[[], bool], what: str, needs: DemoTerminal | None) -> None:
        """Come back once something is true; say from time to time what is waited for.

        Raises
        ------
        RunError
            Where a terminal that it needs has ended, or the time is over.
        """
        told = time.monotonic()
        while not true():
            if time.monotonic() - self.began > 60 * self.minutes:
                raise RunError(
                    f"waited for {what}, and {self.minutes:g} minutes are over: see {self.shown / SCREENS}, or give "
                    "more --minutes"
                )
            gone = [one for one in self.terminals.values() if one.process.poll() is not None]
            if needs is not None and needs.process.poll() is not None:
                raise self.failed(needs)
            if gone and needs is None and any(one.text.split()[1] in ("serve", "join") for one in gone):
                raise self.failed(gone[0])
            if time.monotonic() - told > FOLLOWING:
                told = time.monotonic()
                self.say(f"waiting for {what}")
            time.sleep(LOOK_EVERY)

    def failed(self, terminal: DemoTerminal) -> RunError:
        """What to say of a command that ended before its time."""
        return RunError(f"{terminal.text} ended early: {_last_line(terminal.printed())} (see {self.shown / SCREENS})")

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """With the homes in the folder; whatever happens, what was started is ended, and what was typed is kept."""
        before = os.environ.get("TACIT_HOME")
        os.environ["TACIT_HOME"] = str(self.folder / HOMES)
        try:
            yield
        except BaseException:
            self.say("ending what was started")
            raise
        finally:
            self.end_all()
            (self.folder / COMMANDS).write_text("\n".join(self.typed) + "\n", encoding="utf-8")
            os.environ.pop("TACIT_HOME", None)
            if before is not None:
                os.environ["TACIT_HOME"] = before

    def end_all(self) -> None:
        """End every terminal, the last one first; a second Ctrl-C does not stop this."""
        with _ignored_signals():
            for terminal in self.terminals.values():  # all are told at once
                if terminal.process.poll() is None:
                    terminal.process.terminate()
            while self.terminals:
                self.terminals.popitem()[1].end()

    # --- what is said ----------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """A line with the seconds since the beginning."""
        print(plain(f"{time.monotonic() - self.began:5.0f} s  {line}"))
        sys.stdout.flush()

    def step(self, title: str) -> None:
        """The beginning of a step, on the screen and among the commands."""
        self.typed += ["", f"# {title}"]
        self.say(title)

    def note(self, line: str) -> None:
        """A line among the commands."""
        self.typed.append(line)


def _tacit(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tacit.cli.main", *words]


def _last_line(text: str) -> str:
    return listing(text.strip().splitlines()[-1:] or ["it printed nothing"])


def _free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does."""

    def handle(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt("stopped")

    with _handled({signal.SIGTERM: handle}):
        yield


@contextlib.contextmanager
def _ignored_signals() -> Iterator[None]:
    with _handled(dict.fromkeys((signal.SIGINT, signal.SIGTERM), signal.SIG_IGN)):
        yield


@contextlib.contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    """Other handlers of signals for a while, where this is the main thread."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

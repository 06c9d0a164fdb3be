"""A feature split between sites is the run of one process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.errors import RunError
from tacit.federation.budget import BudgetBook, events_of
from tacit.federation.protocol import Answer, Answered, Numbers, Packet, Reason, Refused, Step, encode
from tacit.federation.site import QUESTIONS, AllowAll, MatchingLimits
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

ROWS = 150


def write_files(folder: Path, parties: int = 3, seed: int = 0) -> dict[str, Path]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(ROWS, 2 * parties))
    labels = (features @ rng.normal(size=2 * parties) + rng.normal(size=ROWS) > 0).astype(int)
    files = {}
    for k in range(parties):
        name = f"party{k}"
        path = files[name] = folder / f"{name}.csv"
        columns = {f"x{k}a": features[:, 2 * k], f"x{k}b": features[:, 2 * k + 1]}
        if k == 0:
            columns["y"] = labels
        lines = [",".join(columns)] + [
            ",".join(repr(float(v)) for v in row) for row in zip(*columns.values(), strict=True)
        ]
        path.write_text("\n".join(lines) + "\n")
    return files


def curves(privacy: str = "", more: str = "") -> dict[str, str]:
    """Curves of all numbers, with the ranges that they need where they are protected."""
    own = [
        f"[party.columns]\nx{k}a = {{ low = -2, high = 2{more} }}\nx{k}b = {{ low = -3, high = 3 }}" for k in range(4)
    ]
    return {"model": 'terms = "spline"', "extra": privacy, "own": "|".join(own)}


def job_text(
    files: dict[str, Path], engine: str, extra: str = "", top: str = "", model: str = "", own: str = ""
) -> str:
    """The job of these files; `own` is what it says of each party's columns, one after the other."""
    said = own.split("|") if own else [""] * len(files)
    lines = ["[job]", f'name = "joint"\nengine = "{engine}"', top, "[model]", model, extra]
    for k, (name, path) in enumerate(files.items()):
        lines += ["[[party]]", f'name = "{name}"']
        lines += [] if engine == "flare" else [f'data = "{path}"']
        lines += ['label = "y"', said[k]] if k == 0 else [said[k]]
    return "\n".join(lines) + "\n"


def in_process(tmp_path: Path, files: dict[str, Path], **parts: str) -> Path:
    job = tmp_path / "job.toml"
    job.write_text(job_text(files, "in-process", **parts))
    assert main(["train", str(job), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    return tmp_path / "one"


def coef(folder: Path, name: str) -> np.ndarray:
    record = json.loads((folder / "model" / f"{name}.json").read_text())
    return np.array([*record["coef"], record["offset"]])


def trace(folder: Path) -> list[dict]:
    rows = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


CASES = {
    "plain": {},
    "sgd": {"model": 'method = "sgd"', "top": "rounds = 3\ntol = 1e-14"},
    "masks": {"top": "secure_aggregation = true"},
    "l1": {"model": 'penalty = "l1"\nalpha = 0.01'},
    "hinge": {"model": 'loss = "hinge"\nalpha = 0.01'},
    "averaged": {"model": 'method = "averaged"'},
    "private": {"extra": "[privacy]\nepsilon = 2\nnoise_seed = 5\n[encode]\nscale = 'none'"},
    "private shares": {
        "extra": "[privacy]\nepsilon = 2\nnoise_seed = 5\nmechanism = 'shares'\n[encode]\nscale = 'none'"
    },
    "label private": {"extra": "[privacy]\nlabel_epsilon = 2\nnoise_seed = 5"},
    "curves": curves(),
    "curves, private": curves("[privacy]\nepsilon = 2\nnoise_seed = 5"),
    "curves, exact values": curves("[privacy]\nepsilon = 500\nnoise_seed = 5", ", repeats = true"),
    "curves, everyone": curves('[privacy]\nepsilon = 2\nnoise_seed = 5\nprotect = "everyone"'),
    "curves, private shares": curves("[privacy]\nepsilon = 2\nnoise_seed = 5\nmechanism = 'shares'"),
    "curves, labels": curves("[privacy]\nlabel_epsilon = 2\nnoise_seed = 5"),
}


@pytest.mark.parametrize("parts", CASES.values(), ids=CASES)
def test_sites_train_the_model_of_one_process(tmp_path: Path, parts: dict[str, str]) -> None:
    files = write_files(tmp_path)
    one = in_process(tmp_path, files, **parts)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", **parts))
    for name in files:
        folder = tmp_path / "sites" / name / "run-00000001"
        np.testing.assert_allclose(coef(folder, name), coef(one, name), rtol=0, atol=1e-12)
    lead = tmp_path / "sites" / "party0" / "run-00000001"
    joint, known = (json.loads((f / "model" / "joint.json").read_text()) for f in (lead, one))
    assert joint == known
    rows, known_rows = (
        [
            {k: v for k, v in json.loads(line).items() if k != "seconds"}
            for line in (f / "trace.jsonl").read_text().splitlines()
        ]
        for f in (lead, one)
    )
    assert rows == known_rows


class KilledError(Exception):
    """A process died."""


WHO = (None, "party0", "party1")  # who is started anew; None for everybody


def run_to_the_end(loop: Loopback, text: str, kill_at: int, before: bool, who: str | None) -> int:
    """Run; at the `kill_at`-th call the network breaks, and `who` (or everybody) is started anew. Returns the calls."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == kill_at:
            raise KilledError

    loop.disturb, loop.after = (count, lambda *_: None) if before else (lambda *_: None, count)
    for _ in range(2):
        try:
            loop.run(text)
            break
        except KilledError:
            loop.restart(*([who] if who else []))
    return calls


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("parts", ["plain", "masks", "private", "private shares", "l1", "sgd"])
def test_a_run_that_was_killed_anywhere_ends_with_the_same_model(tmp_path: Path, parts: str, who: str | None) -> None:
    """At every point before a call is handled and after it, in turn: so that all three who die cover both at each."""
    files = write_files(tmp_path)
    text = job_text(files, "flare", **CASES[parts])
    calm = Loopback(files, tmp_path / "calm")
    total = run_to_the_end(calm, text, -1, True, None)
    model = {name: coef(tmp_path / "calm" / name / "run-00000001", name) for name in files}
    points = sorted({2, 7, 8, *np.linspace(9, total, 5, dtype=int).tolist()})
    for number, point in enumerate(points):
        before, folder = bool((number + WHO.index(who)) % 2), tmp_path / str(point)
        run_to_the_end(Loopback(files, folder), text, point, before, who)
        for name in files:
            np.testing.assert_array_equal(coef(folder / name / "run-00000001", name), model[name])


class Counting(AllowAll):
    """A gate that records what is released."""

    limits = MatchingLimits(least_common=1)

    def __init__(self) -> None:
        self.seen: dict[int, set[str]] = {}
        self.calls: list[int] = []

    def allow(self, *_: object, **__: object) -> None:
        pass

    allow_job = allow_preparing = allow_scores = allow

    def released(self, run: str, number: int, digest: str) -> None:
        self.seen.setdefault(number, set()).add(digest)
        self.calls.append(number)


def test_nothing_is_released_twice_and_answers_are_sent_again_as_they_were(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", **CASES["private shares"]).replace("noise_seed = 5\n", "")
    gates = {name: Counting() for name in files}
    loop = Loopback(files, tmp_path / "sites", gates)
    run_to_the_end(loop, text, 10, False, None)
    answers: dict[tuple[str, int], set[bytes]] = {}
    for one in loop.carried:
        if isinstance(one.asked, Answer):
            answers.setdefault((one.name, one.asked.message.round), set()).add(one.reply)
    again = [one for one in loop.carried if isinstance(one.asked, Answer) and one.asked.message.round == 1]
    assert len(again) > 2, "no answer was asked for twice"
    assert all(len(sent) == 1 for sent in answers.values())
    assert all(len(digests) == 1 for gate in gates.values() for digests in gate.seen.values())
    assert gates["party1"].seen


def lie(loop: Loopback, change: object) -> None:
    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if (
            name == "party2"
            and isinstance(reply, Answered)
            and (reply.message.kind, reply.message.round) == ("step", 2)
        ):
            change(reply.message)

    loop.after = after


def share(*values: float, size: int = ROWS) -> Numbers:
    return Numbers.of(np.resize(np.array(values), size))


LIES = {
    "nan": lambda m: m.arrays.update(share=share(np.nan)),
    "huge": lambda m: m.arrays.update(share=share(1e200)),
    "short": lambda m: m.arrays.update(share=share(0.0, size=ROWS - 1)),
    "old": lambda m: setattr(m, "round", 1),
    "missing": lambda m: m.arrays.pop("share"),
    "more": lambda m: m.arrays.update(more=share(0.0, size=1)),
    "words": lambda m: m.arrays.update(share=Numbers.of(np.zeros(ROWS, dtype=np.uint64))),
    "bytes": lambda m: m.arrays.update(share=Numbers.of(np.zeros(ROWS, dtype=np.uint8))),
    "cut": lambda m: m.arrays.update(share=Numbers("f8", [ROWS], b"")),
    "other kind": lambda m: setattr(m, "kind", "start"),
}


@pytest.mark.parametrize("change", LIES.values(), ids=LIES)
def test_a_party_that_sends_nonsense_is_named_and_the_run_can_go_on(tmp_path: Path, change: object) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare")
    loop = Loopback(files, tmp_path / "sites")
    lie(loop, change)
    with pytest.raises(RunError, match="party2"):
        loop.run(text)
    loop.after = lambda *_: None
    loop.restart()
    loop.run(text)
    calm = Loopback(files, tmp_path / "calm")
    calm.run(text)
    name = "party1"
    got, wanted = (coef(tmp_path / where / name / "run-00000001", name) for where in ("sites", "calm"))
    np.testing.assert_array_equal(got, wanted)


def test_another_question_under_an_old_number_is_not_answered(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.round == 4:
            raise KilledError

    loop.disturb = stop
    with pytest.raises(KilledError):
        loop.run(job_text(files, "flare"))
    last = max((one.asked.message for one in loop.carried if isinstance(one.asked, Answer)), key=lambda m: m.round)
    site = loop.sites["party1"]
    changed = Packet(last.round, last.kind, {k: Numbers.of(v.array() + 1.0) for k, v in last.arrays.items()})
    assert site.handle(Answer(message=changed), "party0") == Refused(reason=Reason.SECOND)
    old = Packet(1, last.kind, last.arrays)
    assert site.handle(Answer(message=old), "party0") == Refused(reason=Reason.OLD)
    assert site.handle(Answer(message=last), "party2") == Refused(reason=Reason.NOT_LEAD)
    assert isinstance(site.handle(Answer(message=last), "party0"), Answered)


@pytest.mark.parametrize("parts", ["plain", "masks"])
def test_a_message_that_comes_twice_gets_the_same_bytes(tmp_path: Path, parts: str) -> None:
    files = write_files(tmp_path)
    loop, again = Loopback(files, tmp_path / "sites"), []

    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if isinstance(reply, Answered) and reply.message.kind == "step":
            again.append(encode(loop.sites[name].handle(request, caller)) == encode(reply))

    loop.after = after
    loop.run(job_text(files, "flare", **CASES[parts]))
    assert again
    assert all(again)
    one = in_process(tmp_path, files, **CASES[parts])
    np.testing.assert_allclose(coef(tmp_path / "sites/party1/run-00000001", "party1"), coef(one, "party1"), atol=1e-12)


class Book(AllowAll):
    """A gate with a real book of releases."""

    limits = MatchingLimits(least_common=1)

    def __init__(self, path: Path, party: str) -> None:
        self.path, self.party = path, party
        path.parent.mkdir(parents=True)

    def book(self) -> BudgetBook:
        return BudgetBook(self.path, {}, self.party, allow_not_private=True)

    def allow(self, run: str, job: object, plan: object, party: str, bound: object) -> None:
        self.book().reserve(run, events_of(plan, party))

    def allow_job(self, *_: object, **__: object) -> None:
        pass

    allow_preparing = allow_scores = allow_job

    def released(self, run: str, number: int, digest: str) -> None:
        self.book().released(run, number, digest)

    def last_release(self, run: str) -> int:
        return max((number for _, number in self.book().releases() if number < QUESTIONS), default=-1)


def test_a_site_that_lost_its_journal_gives_no_second_answer(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", **CASES["private shares"]).replace("noise_seed = 5\n", "")
    gates = {name: Book(tmp_path / "books" / name / "ledger.json", name) for name in files}
    loop = Loopback(files, tmp_path / "sites", gates)

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.round == 1 and name == "party2":
            raise KilledError

    loop.disturb = stop
    with pytest.raises(KilledError):
        loop.run(text)
    loop.disturb = lambda *_: None
    first = gates["party1"].book().releases()
    assert first
    shutil.rmtree(tmp_path / "sites/party1/run-00000001/journal")  # with it went the key of the noise
    loop.restart()
    with pytest.raises(RunError, match="party 'party1': it lost what it had written in this run: start a new run"):
        loop.run(text)
    journal = tmp_path / "sites/party1/run-00000001/journal"
    assert not [path for path in journal.rglob("*") if path.is_file()]  # nothing was computed
    assert gates["party1"].book().releases() == first


def test_a_release_is_taken_down_also_where_the_site_died_in_between(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    gates = {name: Book(tmp_path / "books" / name / "ledger.json", name) for name in files}
    loop, calls = Loopback(files, tmp_path / "sites", gates), []

    def die(run: str, number: int, digest: str) -> None:
        calls.append(number)
        if len(calls) == 2:
            raise KilledError("after the journal, before the book")
        Book.released(gates["party1"], run, number, digest)

    gates["party1"].released = die
    with pytest.raises(RunError, match="party1"):
        loop.run(job_text(files, "flare"))
    loop.restart()
    loop.run(job_text(files, "flare"))
    numbers = sorted(number for _, number in gates["party1"].book().releases())
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_lead_that_lost_its_state_does_not_randomize_labels_again(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", **CASES["label private"]).replace("noise_seed = 5", "")
    gates = {name: Book(tmp_path / "books" / name / "ledger.json", name) for name in files}
    loop = Loopback(files, tmp_path / "sites", gates)

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and name == "party2":
            raise KilledError

    loop.disturb = stop
    with pytest.raises(KilledError):
        loop.run(text)
    loop.disturb = lambda *_: None
    before = len(loop.carried)
    shutil.rmtree(tmp_path / "sites/party0/run-00000001/lead")  # with it went the labels as they were randomized
    loop.restart()
    with pytest.raises(RunError, match="left before with other content"):
        loop.run(text)
    assert any(isinstance(one.asked, Answer) for one in loop.carried[:before])
    assert not any(isinstance(one.asked, Answer) for one in loop.carried[before:])

"""What a party is shown, and its answer: asked, remembered, refused, too late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tacit.cli.main import main
from tacit.errors import InputError, RunError
from tacit.federation import consent
from tacit.federation.budget import BudgetBook, Limit, Standing, events_of
from tacit.federation.consent import Consent, describe, digest_of
from tacit.federation.questions import answer_pending, questions, read_policy
from tacit.job import Job, read_job
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.certificate import up
from tacit.run.prepare import plan_job

JOB = """
[job]
name = "credit"
[privacy]
epsilon = 1
delta = 1e-6
[[party]]
name = "bank"
data = "bank.csv"
id = "customer"
label = "default"
[[party]]
name = "phone"
data = "phone.csv"
id = "customer"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consent, "POLL", 0.01)


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Job, Plan]:
    (tmp_path / "credit.toml").write_text(JOB)
    job = read_job(tmp_path / "credit.toml")
    return job, plan_job(job, 50_000, (12, 30), 8 * 50_000 * 42)


def book(folder: Path, epsilon: float = 3.0) -> BudgetBook:
    return BudgetBook(folder / "ledger.json", {"record": Limit(epsilon, 1e-6)}, "phone")


def standing(*, fits: bool = True, private: bool = True) -> Standing:
    return Standing("record", Limit(3.0), 0.0, 1.0, 0.0, 0.2, fits, private)


def _say(answer: bool, name: str, lines: object) -> bool:
    return answer


def meanwhile(kit: Path, act: Callable[[], object]) -> threading.Thread:
    """Somebody at the party, who acts once a job waits."""

    def watch() -> None:
        until = time.monotonic() + 20
        while not questions(kit) and time.monotonic() < until:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


# --- what is shown -------------------------------------------------------------------------------------


def test_a_party_sees_with_whom_what_leaves_to_whom_and_what_it_costs(
    tmp_path: Path, planned: tuple[Job, Plan]
) -> None:
    job, plan = planned
    own = book(tmp_path)
    own.reserve("earlier", events_of(plan, "phone"))
    text = " ".join(" ".join(describe(job, plan, "phone", own)).split())
    both = accountant.epsilon(events_of(plan, "phone")["record"] * 2, 1e-6)
    traffic = plan.describe()["traffic"]["parties"]["phone"]
    for said in (
        "job credit with bank model logistic loss, l2 penalty, alpha 0.0001; each protected party fits once",
        "you send the outcome of one private fit",
        f"to bank size {traffic['bytes_up']} B in the whole job",
        "rounds 2, fixed beforehand",
        "each record of phone: epsilon 1 at delta 1e-06 (replace-one), against anyone",
        "epsilon 3 at delta 1e-06 over all jobs; spent before: epsilon 1, 13.4 % of the budget",
        f"with this job: epsilon {up(both)}, 26.8 %; 73.2 % would remain",
        plan.certificate().does_not_cover[0],
        plan.certificate().assumptions[0],
    ):
        assert said in text
    again = " ".join(" ".join(describe(job, plan, "phone", own, "earlier")).split())
    assert "spent before: epsilon 0, 0 % of the budget" in again  # a job that goes on counts once


def test_a_party_that_is_not_protected_is_told_so(tmp_path: Path, planned: tuple[Job, Plan]) -> None:
    text = " ".join(" ".join(describe(*planned, "bank", book(tmp_path))).split())
    assert "without noise, and the labels to phone" in text
    assert "nothing is proven for your data" in text
    assert "proves nothing for each record of yours, so its epsilon is infinite: it is refused" in text
    free = BudgetBook(tmp_path / "ledger.json", {}, "bank")
    assert "you have set none" in " ".join(describe(*planned, "bank", free))


def test_a_job_that_does_not_fit_is_shown_as_refused(tmp_path: Path, planned: tuple[Job, Plan]) -> None:
    text = " ".join(" ".join(describe(*planned, "phone", book(tmp_path, 0.5))).split())
    assert "with this job: epsilon 1, which does not fit: it is refused" in text


def test_nodes_of_a_graph_send_to_their_neighbours(tmp_path: Path) -> None:
    from tacit.run.prepare import plan_nodes

    parties = "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nlabel = "ill"\n' for name in "abcd")
    (tmp_path / "wards.toml").write_text(
        '[job]\nsplit = "samples"\n[graph]\nkind = "ring"\n[model]\nmethod = "gaussian"\nalpha = 1e-2\n'
        "[privacy]\nepsilon = 2\ndelta = 1e-6\n" + parties
    )
    job = read_job(tmp_path / "wards.toml")
    plan = plan_nodes(job, (4000,) * 4, 3, {})
    text = " ".join(" ".join(describe(job, plan, "a", book(tmp_path))).split())
    assert " to b, d size " in text
    assert "each record of a: epsilon 2 at delta 1e-06" in text


# --- the answer ----------------------------------------------------------------------------------------


def test_a_question_waits_and_is_answered_once(tmp_path: Path) -> None:
    asked: list[tuple[str, list[str]]] = []

    def ask(name: str, lines: object) -> bool:
        assert isinstance(lines, tuple)
        asked.append((name, list(lines)))
        return True

    waiting = Consent(tmp_path / "jobs" / "credit", "phone", seconds=20)
    somebody = meanwhile(tmp_path, lambda: answer_pending(tmp_path, ask))
    waiting.obtain("d1", ["line 1", "line 2"], [standing()])
    somebody.join()
    assert asked == [("credit", ["line 1", "line 2"])]
    assert questions(tmp_path) == []
    Consent(tmp_path / "jobs" / "credit", "phone", seconds=0).obtain("d1", [], [])  # it goes on: not asked again
    with pytest.raises(RunError, match="phone did not answer within 0 seconds"):
        Consent(tmp_path / "jobs" / "credit", "phone", seconds=0).obtain("d2", [], [])  # another job
    assert questions(tmp_path) == []  # nobody waits any more


def test_a_refusal_names_the_party_and_may_be_changed_later(tmp_path: Path) -> None:
    waiting = Consent(tmp_path / "jobs" / "credit", "phone", seconds=20)
    for accepted in (False, True):
        somebody = meanwhile(tmp_path, partial(answer_pending, tmp_path, partial(_say, accepted)))
        if accepted:
            waiting.obtain("d1", ["line"], [])
        else:
            with pytest.raises(RunError, match="phone refused: it was asked"):
                waiting.obtain("d1", ["line"], [])
        somebody.join()


def test_an_answer_to_another_question_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "credit"
    folder.mkdir(parents=True)
    (folder / "accepted.json").write_text('{"digests": ["d0"]}')
    with pytest.raises(RunError, match="did not answer"):
        Consent(folder, "phone", seconds=0.05).obtain("d1", ["line"], [])


def test_the_digest_is_of_the_text_and_the_sizes() -> None:
    assert digest_of("a", {"x": 1, "y": 2}) == digest_of("a", {"y": 2, "x": 1})
    assert len({digest_of("a", {"x": 1}), digest_of("b", {"x": 1}), digest_of("a", {"x": 2})}) == 3


def test_policies(tmp_path: Path) -> None:
    assert read_policy({}) == "ask"
    with pytest.raises(InputError, match="accept='sometimes'"):
        read_policy({"accept": "sometimes"})
    folder = tmp_path / "jobs" / "credit"
    with pytest.raises(RunError, match='phone takes part in no job: accept = "never"'):
        Consent(folder, "phone", "never").obtain("d", [], [standing()])
    Consent(folder, "phone", "always").obtain("d", [], [])
    within = Consent(folder, "phone", "within-budget")
    within.obtain("d", [], [standing()])
    for wrong in (standing(fits=False), standing(private=False)):
        with pytest.raises(RunError, match="phone refused: the job does not fit its budget of epsilon 3"):
            within.obtain("d", [], [standing(), wrong])
    with pytest.raises(RunError, match="needs \\[budget\\]"):
        within.obtain("d", [], [])


# --- the verb ------------------------------------------------------------------------------------------


def test_the_verb_shows_and_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = Consent(tmp_path / "jobs" / "credit", "phone", seconds=20)
    somebody = meanwhile(
        tmp_path, lambda: (main(["accept", str(tmp_path), "--show"]), main(["accept", str(tmp_path), "--yes"]))
    )
    waiting.obtain("d1", ["what leaves"], [])
    somebody.join()
    shown = "run          credit\nwhat leaves\n\n"
    assert capsys.readouterr().out == f"{shown}{shown}accepted: credit\n"
    somebody = meanwhile(tmp_path, lambda: main(["accept", str(tmp_path), "--refuse"]))
    with pytest.raises(RunError, match="phone refused"):
        waiting.obtain("d2", ["what leaves"], [])
    somebody.join()
    assert "refused: credit" in capsys.readouterr().out


def ended(_: str) -> str:
    raise EOFError


def test_the_verb_asks_at_a_terminal_and_refuses_what_it_cannot_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["accept", str(tmp_path / "none")]) == 2
    assert "there is no kit" in capsys.readouterr().err
    assert main(["accept", str(tmp_path)]) == 2
    assert "no run waits for an answer" in capsys.readouterr().err
    for name in ("one", "two"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
        (tmp_path / "jobs" / name / "pending.json").write_text(f'{{"digest": "{name}", "lines": ["{name}"]}}')
    assert main(["accept", str(tmp_path)]) == 2
    assert 'several runs wait ("one", "two"): name one with --job' in capsys.readouterr().err
    assert main(["accept", str(tmp_path), "--job", "two"]) == 2
    assert "there is no terminal to ask at: give --yes if somebody has read it" in capsys.readouterr().err
    assert main(["accept", str(tmp_path), "--job", "two", "--yes"]) == 0
    assert [question.digest for question in questions(tmp_path)] == ["one"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", ended)
    assert main(["accept", str(tmp_path)]) == 2
    assert "nothing was answered: the run still waits" in capsys.readouterr().err
    said = iter(["", "maybe", "no"])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    assert main(["accept", str(tmp_path)]) == 0
    assert "refused: one" in capsys.readouterr().out
    assert list(said) == []
    (tmp_path / "jobs" / "one" / "pending.json").write_text("{")
    assert main(["accept", str(tmp_path)]) == 2
    assert "cannot read the question" in capsys.readouterr().err

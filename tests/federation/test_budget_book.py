"""A party's budget over jobs: the limit, restarts, processes at once, damage, and releases that occur once."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tacit.errors import InputError, RunError
from tacit.federation.budget import BudgetBook, Limit, read_limits
from tacit.privacy import accountant
from tacit.privacy.events import UNITS, Event, GaussianRelease, NotPrivate, RandomizedResponse

LIMIT = Limit(3.0, 1e-6)
MU = accountant.gdp_mu(3.0, 1e-6)


def spending(*events: Event, **others: tuple[Event, ...]) -> dict[str, tuple[Event, ...]]:
    return {unit: others.get(unit, events) for unit in UNITS}


def gaussian(part: float) -> dict[str, tuple[Event, ...]]:
    """Releases that take a part of the whole budget."""
    return spending(GaussianRelease(MU * part**0.5, 1.0, party="phone"))


def book(folder: Path, limit: Limit = LIMIT, **options: bool) -> BudgetBook:
    return BudgetBook(folder / "ledger.json", {"record": limit}, "phone", **options)


# --- the limit ---------------------------------------------------------------------------------------


def test_jobs_are_taken_until_the_budget_is_spent(tmp_path: Path) -> None:
    for name in "abc":
        assert book(tmp_path).reserve(name, gaussian(0.3))
    with pytest.raises(RunError, match=r"phone: .* the budget of epsilon 3 .* 90 % is spent, .* 120 %"):
        book(tmp_path).reserve("d", gaussian(0.3))
    assert book(tmp_path).jobs() == ("a", "b", "c")
    assert book(tmp_path).reserve("e", gaussian(0.0999))
    assert not book(tmp_path).standings(gaussian(0.001))[0].fits


def test_epsilons_are_composed_and_not_added(tmp_path: Path) -> None:
    one = accountant.epsilon(gaussian(0.3)["record"], 1e-6)
    book(tmp_path).reserve("a", gaussian(0.3))
    (standing,) = book(tmp_path).standings(gaussian(0.3))
    after = standing.after
    assert after == pytest.approx(accountant.gaussian_epsilon(MU * 0.6**0.5, 1e-6), rel=1e-9)
    assert after < 1.7 * one


def test_a_job_of_the_size_of_the_budget_fits_and_nothing_after_it(tmp_path: Path) -> None:
    book(tmp_path).reserve("all", gaussian(1.0))
    with pytest.raises(RunError, match="does not fit"):
        book(tmp_path).reserve("more", gaussian(1e-4))


def test_the_budget_of_another_unit_is_its_own(tmp_path: Path) -> None:
    both = BudgetBook(tmp_path / "ledger.json", {"label": Limit(1.0, 0.0), "record": LIMIT}, "bank")
    job = spending(*gaussian(0.2)["record"], label=(RandomizedResponse(0.6, unit="label"),))
    both.reserve("a", job)
    with pytest.raises(RunError, match="for each label"):
        both.reserve("b", job)
    assert {one.unit: one.after for one in both.standings(job, "a")} == {
        "label": 0.6,
        "record": pytest.approx(1.244, abs=0.01),
    }


def test_the_scale_is_kept_from_the_first_job(tmp_path: Path) -> None:
    response = spending(RandomizedResponse(1.0))
    book(tmp_path).reserve("a", response)
    scale = json.loads((tmp_path / "ledger.json").read_text())["scales"]["record"]
    assert scale["kind"] == "renyi"
    book(tmp_path).reserve("b", gaussian(0.1))
    assert json.loads((tmp_path / "ledger.json").read_text())["scales"]["record"] == scale
    assert book(tmp_path).standings(response, "b")[0].share_after < book(tmp_path).standings(response)[0].share_after


def test_neighbours_of_another_kind_do_not_add_up(tmp_path: Path) -> None:
    book(tmp_path).reserve("a", gaussian(0.1))
    with pytest.raises(RunError, match='ask for neighbours = "replace-one"'):
        book(tmp_path).reserve("b", spending(GaussianRelease(0.1, 1.0, neighbours="zero-out")))


# --- without privacy ---------------------------------------------------------------------------------


def test_a_job_without_privacy_is_refused_unless_allowed(tmp_path: Path) -> None:
    nothing = spending(NotPrivate("rows leave without noise"))
    with pytest.raises(RunError, match=r"rows leave without noise.*allow_not_private = true"):
        book(tmp_path).reserve("a", nothing)
    assert book(tmp_path).jobs() == ()
    allowing = book(tmp_path, allow_not_private=True)
    allowing.reserve("a", nothing)
    allowing.reserve("b", gaussian(0.5))  # the budget is for the jobs that prove something
    assert allowing.standings(gaussian(0.2))[0].share_before == pytest.approx(0.5)
    with pytest.raises(RunError, match="does not fit"):
        allowing.reserve("c", gaussian(0.6))


def test_without_a_budget_all_is_recorded_and_counts_once_there_is_one(tmp_path: Path) -> None:
    free = BudgetBook(tmp_path / "ledger.json", {}, "phone")
    free.reserve("a", gaussian(0.9))
    free.reserve("b", spending(NotPrivate("no noise")))
    assert free.standings(gaussian(0.2)) == []
    with pytest.raises(RunError, match="90 % is spent"):
        book(tmp_path).reserve("c", gaussian(0.2))


def test_limits_are_read_from_the_settings() -> None:
    assert read_limits({}) == ({}, False)
    section = {"epsilon": 3, "delta": 1e-7, "unit": "label", "allow_not_private": True}
    assert read_limits({"budget": section}) == ({"label": Limit(3, 1e-7)}, True)
    for wrong, said in (
        ({"epsilon": 0}, "budget.epsilon=0"),
        ({"epsilon": 1, "delta": 1}, "budget.delta=1"),
        ({"epsilon": 1, "unit": "row"}, "budget.unit='row'"),
        ({"epsilom": 1}, "budget.epsilom is unknown"),
        ({"delta": 1e-6}, "no epsilon"),
        ({"epsilon": 1, "allow_not_private": 1}, "true or false"),
    ):
        with pytest.raises(InputError, match=said):
            read_limits({"budget": wrong})


# --- restarts and what is given back ------------------------------------------------------------------


def test_the_same_job_counts_once_and_with_other_events_is_refused(tmp_path: Path) -> None:
    assert book(tmp_path).reserve("a", gaussian(0.7))
    assert not book(tmp_path).reserve("a", gaussian(0.7))
    assert book(tmp_path).standings(gaussian(0.7), "a")[0].fits
    with pytest.raises(RunError, match="with other releases"):
        book(tmp_path).reserve("a", gaussian(0.1))
    assert book(tmp_path).standings(gaussian(0.1))[0].share_before == pytest.approx(0.7)


def test_only_a_job_of_which_nothing_left_gives_its_part_back(tmp_path: Path) -> None:
    kept = book(tmp_path)
    kept.reserve("a", gaussian(0.7))
    assert kept.cancel("a")
    assert not kept.cancel("a")
    kept.reserve("b", gaussian(0.7))
    kept.released("b", 0, "digest")
    with pytest.raises(RunError, match="has released 1 time: that stays spent"):
        book(tmp_path).cancel("b")
    with pytest.raises(RunError, match="does not fit"):
        book(tmp_path).reserve("c", gaussian(0.7))


# --- processes at once --------------------------------------------------------------------------------


def _reserve(folder: Path, name: str, part: float, together: Barrier, answers: multiprocessing.Queue[bool]) -> None:
    together.wait()
    try:
        book(folder).reserve(name, gaussian(part))
        answers.put(True)
    except RunError:
        answers.put(False)


def processes() -> ForkServerContext:
    """Processes that have imported this module already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def test_of_several_processes_that_ask_at_once_as_many_are_accepted_as_fit(tmp_path: Path) -> None:
    context = processes()
    count = 4
    together, answers = context.Barrier(count), context.Queue()
    asking = [
        context.Process(target=_reserve, args=(tmp_path, f"job {number}", 0.4, together, answers))
        for number in range(count)
    ]
    for process in asking:
        process.start()
    found = [answers.get(timeout=120) for _ in asking]
    for process in asking:
        process.join()
    assert sorted(found) == [False] * 2 + [True] * 2
    assert len(book(tmp_path).jobs()) == 2


def _release(folder: Path, digest: str, together: Barrier, answers: multiprocessing.Queue[str]) -> None:
    together.wait()
    try:
        answers.put(str(book(folder).released("a", 7, digest)))
    except RunError:
        answers.put("refused")


def test_of_processes_that_release_under_one_number_one_does(tmp_path: Path) -> None:
    book(tmp_path).reserve("a", gaussian(0.1))
    context = processes()
    together, answers = context.Barrier(3), context.Queue()
    asking = [context.Process(target=_release, args=(tmp_path, d, together, answers)) for d in ("x", "x", "x")]
    for process in asking:
        process.start()
    found = sorted(answers.get(timeout=120) for _ in asking)
    for process in asking:
        process.join()
    assert found == ["False", "False", "True"]
    assert len((tmp_path / "releases.jsonl").read_text().splitlines()) == 1


# --- releases -----------------------------------------------------------------------------------------


def test_each_release_is_recorded_once(tmp_path: Path) -> None:
    one = book(tmp_path)
    with pytest.raises(RunError, match="has reserved nothing"):
        one.released("a", 0, "x")
    one.reserve("a", gaussian(0.1))
    one.reserve("b", gaussian(0.1))
    assert one.released("a", 0, "x")
    assert one.released("a", 1, "y")
    assert one.released("b", 0, "z")
    for again in (one, book(tmp_path)):  # a restart, too
        assert not again.released("a", 0, "x")
        with pytest.raises(RunError, match='release 0 of job "a" left before with other content'):
            again.released("a", 0, "other")
    assert book(tmp_path).releases() == {("a", 0): "x", ("a", 1): "y", ("b", 0): "z"}
    assert len((tmp_path / "releases.jsonl").read_text().splitlines()) == 3


def test_a_line_that_a_crash_cut_off_is_dropped(tmp_path: Path) -> None:
    book(tmp_path).reserve("a", gaussian(0.1))
    book(tmp_path).released("a", 0, "x")
    path = tmp_path / "releases.jsonl"
    path.write_text(path.read_text() + '{"job": "a", "rele')
    assert book(tmp_path).releases() == {("a", 0): "x"}
    assert book(tmp_path).released("a", 1, "y")
    assert book(tmp_path).releases() == {("a", 0): "x", ("a", 1): "y"}


@pytest.mark.parametrize("line", ["nonsense", '{"job": "a", "release": 0, "digest": "x"}', '{"job": "a"}', "[1]"])
def test_a_changed_journal_is_refused(tmp_path: Path, line: str) -> None:
    book(tmp_path).reserve("a", gaussian(0.1))
    book(tmp_path).released("a", 0, "x")
    path = tmp_path / "releases.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match=r"line 2 of .*releases.jsonl was changed"):
        book(tmp_path).released("a", 1, "y")


def test_a_journal_that_lost_lines_while_it_is_used_is_refused(tmp_path: Path) -> None:
    one = book(tmp_path)
    one.reserve("a", gaussian(0.1))
    one.released("a", 0, "x")
    (tmp_path / "releases.jsonl").write_text("")
    with pytest.raises(InputError, match="shorter than it was"):
        one.released("a", 1, "y")
    (tmp_path / "releases.jsonl").unlink()
    with pytest.raises(InputError, match="is missing"):
        one.released("a", 1, "y")
    with pytest.raises(InputError, match=r'releases\.jsonl beside it has lost the releases of job "a"'):
        book(tmp_path).cancel("a")  # after a restart, too


# --- the file -----------------------------------------------------------------------------------------


def test_nobody_else_can_read_the_files(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        book(tmp_path).reserve("a", gaussian(0.1))
        book(tmp_path).released("a", 0, "x")
        book(tmp_path).released("a", 1, "x")
    finally:
        os.umask(mask)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert len(list(tmp_path.iterdir())) == 3


def _forget_half(text: str) -> str:
    return text[: len(text) // 2]


def _less_noise_spent(text: str) -> str:
    record = json.loads(text)
    record["jobs"]["a"]["record"][0]["noise"] = 100.0
    return json.dumps(record)


@pytest.mark.parametrize(
    "harm",
    [
        _forget_half,
        _less_noise_spent,
        lambda text: "",
        lambda text: "{}",
        lambda text: "[]",
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"phone"', '"shop"'),
    ],
)
def test_damage_is_refused_and_never_taken_for_an_empty_ledger(tmp_path: Path, harm: object) -> None:
    book(tmp_path).reserve("a", gaussian(0.9))
    path = tmp_path / "ledger.json"
    assert callable(harm)
    path.write_text(harm(path.read_text()))
    before = path.read_text()
    for use in (
        lambda: book(tmp_path).reserve("b", gaussian(0.9)),
        lambda: book(tmp_path).standings(gaussian(0.1)),
        lambda: book(tmp_path).cancel("a"),
        lambda: book(tmp_path).released("a", 0, "x"),
    ):
        with pytest.raises(InputError, match=r"phone: cannot use the budget ledger .*ledger.json.*no job is taken"):
            use()
    assert path.read_text() == before


def test_a_ledger_that_is_gone_is_not_a_new_one(tmp_path: Path) -> None:
    book(tmp_path).reserve("a", gaussian(0.9))
    (tmp_path / "ledger.json").unlink()
    with pytest.raises(InputError, match="it is missing, though jobs were taken before"):
        book(tmp_path).reserve("b", gaussian(0.9))


def test_an_older_copy_that_does_not_know_what_was_released_is_refused(tmp_path: Path) -> None:
    book(tmp_path).reserve("a", gaussian(0.1))
    older = (tmp_path / "ledger.json").read_text()
    book(tmp_path).reserve("b", gaussian(0.7))
    book(tmp_path).released("b", 0, "x")
    (tmp_path / "ledger.json").write_text(older)
    with pytest.raises(InputError, match='job "b" has released, and is not in it'):
        book(tmp_path).reserve("c", gaussian(0.7))

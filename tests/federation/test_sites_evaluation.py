"""Rows are held out between sites as in one process, and the joint model is evaluated on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.data.holdout import CommonKey
from tacit.errors import RunError, TacitError
from tacit.federation.budget import BudgetBook, Limit, events_of
from tacit.federation.consent import describe
from tacit.federation.matching import HoldoutNumber
from tacit.federation.party_handler import EVALUATED
from tacit.federation.protocol import (
    Answer,
    Begin,
    Done,
    End,
    Keys,
    Numbers,
    Reason,
    RefusalError,
    Refused,
    Scores,
    Settle,
    Shape,
    Tell,
    Try,
)
from tacit.federation.site import AllowAll, read_text
from tacit.privacy import accountant
from tacit.report.verdict import verdict
from tacit.run.prepare import plan_job
from tests.federation import test_sites_aligned, test_sites_graph
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import Counting, coef, in_process, job_text, write_files

RUN = "run-00000001"
HELD = "holdout = 0.3\nseed = 3"


def figures(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "evaluation.json").read_text())


def by_kind(record: dict[str, Any]) -> dict[str, Any]:
    return {f"{model['kind']} {model['party']}".strip(): model for model in record["models"]}


CASES = {
    "plain": {"top": HELD},
    "masks": {"top": f"{HELD}\nsecure_aggregation = true"},
    "squared": {"top": HELD, "model": 'loss = "squared"'},
    "curves": {"top": HELD, "model": 'terms = "spline"'},
    "class weights": {"top": HELD, "model": 'class_weight = "balanced"'},
    "offset": {"top": HELD, "own": 'offset = "x0b"||'},
    "quantile": {"top": HELD, "model": 'loss = "quantile"\nquantile = 0.8\nalpha = 0.1'},
    "label private": {"top": HELD, "extra": '[privacy]\nepsilon = "none"\nlabel_epsilon = 2\nnoise_seed = 5'},
}


@pytest.mark.parametrize("case", CASES)
def test_sites_hold_out_and_evaluate_as_one_process(tmp_path: Path, case: str) -> None:
    files, parts = write_files(tmp_path), CASES[case]
    one = in_process(tmp_path, files, **parts)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", **parts))
    for name in files:
        np.testing.assert_allclose(coef(tmp_path / "sites" / name / RUN, name), coef(one, name), rtol=0, atol=1e-12)
    known, lead = figures(one), figures(tmp_path / "sites" / "party0" / RUN)
    assert lead["rows"] == known["rows"], lead["notes"]
    assert lead["rows"]["evaluated"] == 45
    wanted, got = by_kind(known), by_kind(lead)
    assert set(got) == {"joint", "alone party0"}
    for model in got:
        close = pytest.approx(wanted[model]["measures"], abs=1e-9)
        assert got[model]["measures"] == close
    shared = figures(tmp_path / "sites" / "party1" / RUN)
    if case == "label private":
        assert shared["models"] == []
        return
    told = by_kind(shared)
    assert set(told) == {"joint", "alone party0"}
    for model in told:
        assert told[model]["measures"].items() <= got[model]["measures"].items()
    assert told["alone party0"]["joint_against_it"] == got["alone party0"]["joint_against_it"]
    assert shared["told_by"] == "party0"


# --- which rows: nobody chooses ------------------------------------------------------------------------


def held_out(loop: Loopback, name: str) -> np.ndarray:
    return np.flatnonzero(loop.sites[name].handler.held)  # type: ignore[union-attr]


def stopped_at(loop: Loopback, kind: type) -> None:
    """Break the network when the first request of a kind is on its way."""

    def stop(caller: str, name: str, request: Any) -> None:
        if isinstance(request, kind):
            raise ConnectionError

    loop.disturb = stop


def test_without_a_seed_all_sites_make_the_key_together(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", top="holdout = 0.3")
    chosen = set()
    for number in range(2):
        loop = Loopback(files, tmp_path / str(number))
        stopped_at(loop, Begin)
        with pytest.raises(ConnectionError):
            loop.run(text)
        rows = [tuple(held_out(loop, name)) for name in files]
        assert len(rows[0]) == 45
        assert len(set(rows)) == 1
        chosen.add(rows[0])
        loop.disturb = lambda *_: None
        loop.restart()
        loop.run(text)  # it goes on with the same rows, or else it would be refused: data.json has them
    assert len(chosen) == 2, "two runs held out the same rows"


def test_rows_matched_by_id_are_held_out_as_in_one_process(tmp_path: Path) -> None:
    """Whatever the order of the files, and of the rows after private matching."""
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    files = test_sites_aligned.write_files(tmp_path)
    texts = {
        engine: test_sites_aligned.job_text(files, engine).replace("[job]", f"[job]\n{HELD}", 1)
        for engine in ("in-process", "flare")
    }
    (tmp_path / "job.toml").write_text(texts["in-process"])
    assert main(["train", str(tmp_path / "job.toml"), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    Loopback(files, tmp_path / "sites").run(texts["flare"])
    for name in files:
        found = coef(tmp_path / "sites" / name / RUN, name)
        np.testing.assert_allclose(found, coef(tmp_path / "one", name), rtol=0, atol=1e-12)
    lead, known = figures(tmp_path / "sites" / "bank" / RUN), figures(tmp_path / "one")
    assert lead["rows"] == known["rows"]
    assert lead["models"][0]["measures"] == pytest.approx(known["models"][0]["measures"], abs=1e-12)


def test_a_lead_cannot_choose_its_number_after_it_has_seen_the_others(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", top="holdout = 0.3")
    loop = Loopback(files, tmp_path / "sites")
    other = CommonKey.draw("a")

    def lie(caller: str, name: str, request: Any) -> None:
        if isinstance(request, Shape) and name == "party1":
            request.numbers["party0"] = other

    loop.disturb = lie
    with pytest.raises(RunError, match="it was sent a message that it cannot use"):
        loop.run(text)


def test_a_number_is_not_shown_for_other_fingerprints_nor_are_ids_matched_again(tmp_path: Path) -> None:
    names = ("a", "b")
    number = HoldoutNumber(tmp_path, "a", names)
    bound = {"a": number.fingerprint, "b": CommonKey.bind(CommonKey.draw("a"))}
    with pytest.raises(RefusalError):
        number.show({"a": number.fingerprint})
    with pytest.raises(RefusalError):
        number.show({**bound, "a": bound["b"]})
    assert not number.shown
    shown = number.show(bound)
    again = HoldoutNumber(tmp_path, "a", names)
    assert again.shown
    assert again.show(bound) == shown
    with pytest.raises(RefusalError):
        again.show({**bound, "b": CommonKey.bind(CommonKey.draw("a"))})


# --- who lies, withholds or dies -----------------------------------------------------------------------


def test_a_party_that_sends_no_scores_costs_the_figures_and_not_the_model(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", top=HELD)
    for number, wrong in enumerate(([np.nan] * 45, [1.0], [1e200] * 45, None)):
        loop = Loopback(files, tmp_path / str(number))

        def lie(caller: str, name: str, request: Any, reply: Any, wrong: Any = wrong) -> None:
            if isinstance(request, Scores) and name == "party1" and wrong is not None:
                reply.message.arrays["share"] = Numbers.of(np.array(wrong))

        loop.after = lie
        if wrong is None:
            loop.sites["party1"].authorizer = Withholding()
        loop.run(text)
        lead = figures(tmp_path / str(number) / "party0" / RUN)
        assert lead["models"] == []
        assert "party1" in lead["notes"][0]
        assert (tmp_path / str(number) / "party1" / RUN / "model" / "party1.json").exists()
        assert figures(tmp_path / str(number) / "party2" / RUN)["models"] == []


class Withholding(AllowAll):
    """Takes part in training, and lets no scores of rows held out leave."""

    def released(self, run: str, number: int, digest: str) -> None:
        if number == EVALUATED:
            raise RefusalError(Reason.NOT_AGREED)


@pytest.mark.parametrize("masks", [False, True])
def test_a_run_killed_around_its_evaluation_ends_with_the_same_figures(tmp_path: Path, masks: bool) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", **CASES["masks" if masks else "plain"])
    Loopback(files, tmp_path / "calm").run(text)
    known = [figures(tmp_path / "calm" / name / RUN) for name in files]
    for number, (kind, before) in enumerate([(Scores, True), (Scores, False), (Tell, True), (Tell, False)]):
        loop, killed = Loopback(files, tmp_path / str(number)), [0]

        def kill(caller: str, name: str, request: Any, *_: Any, kind: type = kind, killed: list = killed) -> None:
            if isinstance(request, kind):
                killed[0] += 1
                if killed[0] == 2:
                    raise ConnectionError

        loop.disturb, loop.after = (kill, lambda *_: None) if before else (lambda *_: None, kill)
        with pytest.raises(ConnectionError):
            loop.run(text)
        loop.restart()
        loop.run(text)
        found = [figures(tmp_path / str(number) / name / RUN) for name in files]
        for one, other in zip(found, known, strict=True):
            assert by_kind(one).keys() == by_kind(other).keys()
            for model in by_kind(one):
                assert by_kind(one)[model]["measures"] == pytest.approx(by_kind(other)[model]["measures"], abs=1e-9)


def test_scores_do_not_leave_before_the_training_is_over_nor_without_a_holdout(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    for number, top in enumerate((HELD, "")):
        loop = Loopback(files, tmp_path / str(number))
        stopped_at(loop, End)
        with pytest.raises(ConnectionError):
            loop.run(job_text(files, "flare", top=top))
        for request in (Scores(), Keys()):
            assert isinstance(loop.sites["party1"].handle(request, "party0"), Refused)


def test_small_holdouts(tmp_path: Path) -> None:
    """One row, rows of one class: figures that exist, and no crash."""
    files = write_files(tmp_path)
    for number, part in enumerate((0.004, 0.01)):
        loop = Loopback(files, tmp_path / str(number))
        loop.run(job_text(files, "flare", top=f"holdout = {part}\nseed = 3"))
        lead = figures(tmp_path / str(number) / "party0" / RUN)
        assert lead["rows"]["evaluated"] in (1, 2)
        assert "accuracy" in by_kind(lead)["joint"]["measures"]
        assert verdict(lead).sentence
        assert verdict(figures(tmp_path / str(number) / "party1" / RUN)).sentence


# --- with privacy: a planned release -------------------------------------------------------------------

PRIVATE = "[privacy]\nepsilon = 2\nnoise_seed = 5\n[encode]\nscale = 'none'"


def test_a_private_evaluation_is_the_same_in_one_process_and_between_sites(tmp_path: Path) -> None:
    files = write_files(tmp_path, 2)
    parts = {"top": f'{HELD}\nevaluation = "private"', "extra": PRIVATE}
    one = in_process(tmp_path, files, **parts)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", **parts))
    for name in files:
        np.testing.assert_allclose(coef(tmp_path / "sites" / name / RUN, name), coef(one, name), rtol=0, atol=1e-12)
    known, lead = figures(one), figures(tmp_path / "sites" / "party0" / RUN)
    assert known["released"]
    assert known["rows"] == lead["rows"]
    for model in ("joint", "alone party0"):
        assert by_kind(lead)[model]["measures"] == pytest.approx(by_kind(known)[model]["measures"], abs=1e-9)
    assert by_kind(lead)["joint"]["errors"].keys() == {"auc", "accuracy", "log_loss"}
    assert "shares" not in lead
    told = by_kind(figures(tmp_path / "sites" / "party1" / RUN))
    assert told["joint"]["measures"].items() <= by_kind(lead)["joint"]["measures"].items()
    assert told["joint"]["errors"]
    certificates = [json.loads((f / "certificate.json").read_text()) for f in (one, tmp_path / "sites/party1" / RUN)]
    assert certificates[0]["claims"] == certificates[1]["claims"]
    assert [claim.get("rows") for claim in certificates[0]["claims"]] == [None, "held out"]
    assert "standard error" in verdict(lead).sentence


def test_a_private_evaluation_is_released_once_whoever_dies(tmp_path: Path) -> None:
    files = write_files(tmp_path, 2)
    text = job_text(files, "flare", top=HELD, extra=PRIVATE.replace("noise_seed = 5\n", ""))
    for number, before in enumerate((True, False)):
        gates = {name: Counting() for name in files}
        loop, due = Loopback(files, tmp_path / str(number), gates), [True]

        def kill(caller: str, name: str, request: Any, *_: Any, due: list[bool] = due) -> None:
            if isinstance(request, Answer) and request.message.round == 3 and due[0]:
                due[0] = False
                raise ConnectionError

        loop.disturb, loop.after = (kill, lambda *_: None) if before else (lambda *_: None, kill)
        with pytest.raises(ConnectionError):
            loop.run(text)
        loop.restart()
        loop.run(text)
        sent = [one.reply for one in loop.carried if isinstance(one.asked, Answer) and one.asked.message.round == 3]
        assert len(sent) == 2 - before
        assert len(set(sent)) == 1, "two evaluations with different noise left"
        assert all(len(digests) == 1 for gate in gates.values() for digests in gate.seen.values())
        assert set(gates["party1"].seen) >= {1, 2, 3}
        assert figures(tmp_path / str(number) / "party0" / RUN)["released"]


def test_a_private_evaluation_of_one_row(tmp_path: Path) -> None:
    files = write_files(tmp_path, 2)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", top="holdout = 0.004\nseed = 3", extra=PRIVATE))
    lead = figures(tmp_path / "sites" / "party0" / RUN)
    assert lead["rows"]["evaluated"] == 1
    assert by_kind(lead)["alone party0"]["joint_against_it"] == {}
    assert "not compared" in verdict(lead).sentence


def test_scores_of_protected_rows_are_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path, 2)
    loop = Loopback(files, tmp_path / "sites")
    stopped_at(loop, Tell)
    with pytest.raises(ConnectionError):
        loop.run(job_text(files, "flare", top=HELD, extra=PRIVATE))
    for request in (Scores(), Keys()):
        reply = loop.sites["party1"].handle(request, "party0")
        assert isinstance(reply, Refused)
        assert reply.reason == Reason.NOT_AGREED


def test_the_budget_counts_a_row_once_and_people_are_told(tmp_path: Path) -> None:
    """A row is trained on or held out: the ledger takes what one of both spends, and the question says it all."""
    files = write_files(tmp_path, 2)
    extra = PRIVATE.replace("noise_seed = 5\n", "")
    job = read_text(job_text(files, "flare", top=HELD, extra=extra))
    plan = plan_job(job, 105, (2, 2), 0, (), 45)
    without = replace(job, holdout=0.0)
    assert accountant.epsilon(events_of(plan, "party1")["record"], 1e-6) == pytest.approx(
        accountant.epsilon(events_of(plan_job(without, 105, (2, 2), 0), "party1")["record"], 1e-6)
    )
    book = BudgetBook(tmp_path / "ledger.json", {"record": Limit(3.0)}, "party1")
    shown = " ".join(" ".join(describe(job, plan, "party1", book)).split())
    assert "two sums and a histogram of these rows, with noise, go to party0" in shown
    assert "each record of party1 that was held out: epsilon 2" in shown
    shown = " ".join(" ".join(describe(job, plan, "party0", book)).split())
    assert "the label and two scores of each of these rows go to the other party, without noise" in shown
    open_job = read_text(job_text(files, "flare", top=HELD))
    shown = " ".join(" ".join(describe(open_job, plan_job(open_job, 105, (2, 2), 0, (), 45), "party1", book)).split())
    assert "45 rows, chosen by position and the seed of the job (3), held out" in shown
    assert "your score of each of these rows goes to party0, without noise, once" in shown


# --- the sample split: every node for itself -----------------------------------------------------------


@pytest.mark.parametrize("privacy", ["", test_sites_graph.PRIVATE], ids=["plain", "private"])
def test_every_node_holds_out_and_evaluates_for_itself(tmp_path: Path, privacy: str) -> None:
    files = test_sites_graph.write_files(tmp_path)
    texts = {
        engine: test_sites_graph.job_text(files, engine, extra=privacy, top="holdout = 0.25\nseed = 2")
        for engine in ("in-process", "flare")
    }
    (tmp_path / "job.toml").write_text(texts["in-process"])
    assert main(["train", str(tmp_path / "job.toml"), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    loop = Loopback(files, tmp_path / "sites")
    loop.run(texts["flare"])
    known = {node["name"]: node for node in figures(tmp_path / "one")["nodes"]}
    for name in files:
        folder = tmp_path / "sites" / name / RUN
        np.testing.assert_allclose(coef(folder, name), coef(tmp_path / "one", name), rtol=0, atol=1e-12)
        record = figures(folder)
        (own,) = record["nodes"]
        assert own["name"] == name
        for key in ("trained", "evaluated"):
            assert own[key] == known[name][key]
        for model in ("joint", "alone"):
            assert own[model] == pytest.approx(known[name][model], abs=1e-6)
        assert verdict(record).sentence
    sent = {type(one.asked).__name__ for one in loop.carried}
    assert not sent & {"Scores", "Tell", "Reveal"}, "a figure left a node"


# --- the search for alpha ------------------------------------------------------------------------------

SEARCH = {"extra": "[search]\nalphas = [1, 0.1, 0.01, 0.001]\nfolds = 3"}
SEARCHES = {
    "plain": SEARCH,
    "masks, held out": {**SEARCH, "top": f"{HELD}\nsecure_aggregation = true"},
    "curves, held out": {**SEARCH, "top": HELD, "model": 'terms = "spline"'},
}


def searched(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "search.json").read_text())


@pytest.mark.parametrize("case", SEARCHES)
def test_sites_search_as_one_process(tmp_path: Path, case: str) -> None:
    files, parts = write_files(tmp_path), SEARCHES[case]
    one = in_process(tmp_path, files, **parts)
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", **parts))
    found, known = searched(tmp_path / "sites" / "party0" / RUN), searched(one)
    assert found["alpha"] == known["alpha"]
    np.testing.assert_allclose(found["losses"], known["losses"], rtol=0, atol=1e-9)
    assert found["rounds_by_fit"] == known["rounds_by_fit"]
    for name in files:
        np.testing.assert_allclose(coef(tmp_path / "sites" / name / RUN, name), coef(one, name), rtol=0, atol=1e-9)
    if "top" in parts:
        lead = by_kind(figures(tmp_path / "sites" / "party0" / RUN))
        for model in lead:
            assert lead[model]["measures"] == pytest.approx(by_kind(figures(one))[model]["measures"], abs=1e-8)
            assert lead[model]["alpha"] == by_kind(figures(one))[model]["alpha"]


def test_a_search_that_is_killed_goes_on_with_the_folds_that_are_not_done(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", **SEARCH)
    calm = Loopback(files, tmp_path / "calm")
    calm.run(text)
    tries = sum(isinstance(one.asked, Try) for one in calm.carried)
    known = searched(tmp_path / "calm" / "party0" / RUN)
    for number, (kind, count) in enumerate([(Try, 7), (Try, 12), (Settle, 1), (Settle, 2), (Answer, 40), (End, 1)]):
        loop, seen = Loopback(files, tmp_path / str(number)), [0]

        def kill(
            caller: str, name: str, request: Any, kind: type = kind, count: int = count, seen: list = seen
        ) -> None:
            seen[0] += isinstance(request, kind)
            if seen[0] == count and isinstance(request, kind):
                raise ConnectionError

        loop.disturb = kill
        with pytest.raises(ConnectionError):
            loop.run(text)
        loop.restart()
        done = sum(isinstance(one.asked, Try) for one in loop.carried)
        loop.run(text)
        again = sum(isinstance(one.asked, Try) for one in loop.carried) - done
        fold = tries // 3
        assert again == tries - fold * (done // fold), "a fold that was done was made again"
        assert {**searched(tmp_path / str(number) / "party0" / RUN), "seconds": 0} == {**known, "seconds": 0}
        assert not (tmp_path / str(number) / "party0" / RUN / "folds.json").exists()
        for name in files:
            np.testing.assert_array_equal(
                coef(tmp_path / str(number) / name / RUN, name), coef(tmp_path / "calm" / name / RUN, name)
            )


def test_a_lead_tries_no_other_alpha_and_none_after_the_search(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    stopped_at(loop, Try)
    with pytest.raises(ConnectionError):
        loop.run(job_text(files, "flare", **SEARCH))
    site, marks = loop.sites["party1"], np.ones(150, dtype=np.uint8)
    for wrong in (
        Try(alpha=0.5, seen=Numbers.of(marks)),
        Try(alpha=0.1, seen=Numbers.of(marks[:3])),
        Try(alpha=0.1, seen=Numbers.of(0 * marks)),
        Try(alpha=0.1, seen=Numbers.of(3 * marks)),
        Try(alpha=0.1),
        Settle(alpha=0.5),
    ):
        assert isinstance(site.handle(wrong, "party0"), Refused)
    assert isinstance(site.handle(Settle(alpha=0.1), "party0"), Done)
    for wrong in (Settle(alpha=0.01), Try(alpha=0.1, seen=Numbers.of(marks))):
        assert isinstance(site.handle(wrong, "party0"), Refused)


def test_a_search_with_a_method_that_cannot_follow_is_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    with pytest.raises(TacitError, match=r"\[search\] between organisations needs a method that follows alpha"):
        Loopback(files, tmp_path / "sites").run(job_text(files, "flare", model='loss = "hinge"', **SEARCH))

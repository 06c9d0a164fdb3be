"""Attacks before consent, and beyond what was consented to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.alignment import Aligner
from tacit.errors import InputError, RunError
from tacit.federation import consent
from tacit.federation.consent import KitAuthorizer, read_matching
from tacit.federation.kit import Kit
from tacit.federation.protocol import (
    REQUESTS,
    Answer,
    Begin,
    Match,
    Matched,
    Numbers,
    Open,
    Prepare,
    Reason,
    RefusalError,
    Refused,
    Shape,
    Step,
    encode,
)
from tacit.federation.questions import answer_pending, questions
from tacit.federation.site import AllowAll, MatchingLimits
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_aligned import job_text, write_files
from tests.hostile.parties import copied_kits

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
RUN = "run-00000001"


@dataclass
class Says(AllowAll):
    """A gate that writes down what it is asked, and refuses one stage."""

    no: str = ""
    limits: MatchingLimits = field(default_factory=lambda: MatchingLimits(least_common=1))  # type: ignore[misc]
    asked: list[tuple[str, object]] = field(default_factory=list)

    def _asked(self, stage: str, what: object) -> None:
        self.asked.append((stage, what))
        if stage == self.no:
            raise RefusalError(Reason.NEVER if stage == "job" else Reason.REFUSED)

    def allow_job(self) -> None:
        self._asked("job", None)

    def allow_preparing(self, run: str, party: str, others: object, lines: object, job: str) -> None:
        self._asked("prepare", lines)

    def allow(self, run: str, job: object, plan: object, party: str, bound: object) -> None:
        self._asked("train", bound)

    def allow_scores(self, run: str, party: str, lines: object, bound: object) -> None:
        self._asked("predict", bound)


def opening(files: dict[str, Path]) -> Open:
    return Open(run=RUN, job=job_text(files, "flare"), version=tacit.__version__)


def every_request(files: dict[str, Path]) -> Iterator[Step]:
    """One of each request that can be made without fields, and those that ask about ids."""
    yield opening(files)
    for kind in REQUESTS:
        if not [name for name in kind.__struct_fields__ if name != "scale"]:
            yield kind()
    yield Match(step="size")
    yield Begin(rows=[1], columns=[1, 1, 1], plan="")


def test_never_answers_nothing_but_no_whatever_the_data_are(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    missing = {**files, "shop": tmp_path / "there is no such file.csv"}
    for held in (files, missing):
        loop = Loopback(held, tmp_path / str(len(held)), {"shop": Says(no="job")})
        site = loop.sites["shop"]
        assert site.handle(opening(files), "bank") == Refused(reason=Reason.NEVER)
        replies = [site.handle(request, "bank") for request in every_request(files)]
        assert replies == [Refused(reason=Reason.NEVER)] * len(replies)


def test_nothing_about_ids_or_sizes_is_said_before_the_first_consent(tmp_path: Path) -> None:
    """A member that brings guessed ids learns nothing: matching begins after a yes, and opening reads no file."""
    files, said = write_files(tmp_path), []
    other = tmp_path / "other.csv"
    other.write_text("customer,x\nc1,2.0\n")
    for held in (files["shop"], other, tmp_path / "missing.csv"):
        loop = Loopback({**files, "shop": held}, tmp_path / held.stem, {"shop": Says(no="prepare")})
        site = loop.sites["shop"]
        said.append([encode(site.handle(request, "bank")) for request in every_request(files)])
        assert not (tmp_path / held.stem / "shop" / RUN / "matching.json").exists()
    assert said[0] == said[1] == said[2]
    assert encode(Refused(reason=Reason.REFUSED)) in said[0]


def test_a_job_asks_in_stages_and_each_stage_is_bound_to_what_it_depends_on(tmp_path: Path) -> None:
    files, gate = write_files(tmp_path), Says()
    Loopback(files, tmp_path / "sites", {"shop": gate}).run(job_text(files, "flare"))
    assert [stage for stage, _ in gate.asked if stage != "job"] == ["prepare", "train"]
    lines = "\n".join(next(what for stage, what in gate.asked if stage == "prepare"))  # type: ignore[arg-type]
    for words in ("with         bank, phone", '"customer"', "at most", "common to all"):
        assert words in lines
    bound = dict(gate.asked)["train"]
    assert set(bound) == {"data", "rows"}  # type: ignore[call-overload]
    changed = Says()
    header, *held = files["shop"].read_text().split()
    files["shop"].write_text("\n".join([header, *(f"{line}1" for line in held)]) + "\n")
    Loopback(files, tmp_path / "changed", {"shop": changed}).run(job_text(files, "flare"))
    assert dict(changed.asked)["train"] != bound


def test_no_training_on_fewer_rows_than_allowed(tmp_path: Path) -> None:
    """One common id, and a range around a value: one person's cell would be read from one number."""
    files = write_files(tmp_path)
    one = files["bank"].read_text().splitlines()
    files["bank"].write_text("\n".join(one[:3]) + "\n")
    gate = Says(limits=MatchingLimits(least_common=20))
    loop = Loopback(files, tmp_path / "sites", {"shop": gate})
    with pytest.raises(RunError, match="'shop': fewer rows are common to all parties than it allows"):
        loop.run(job_text(files, "flare"))
    assert not [one for one in loop.carried if isinstance(one.asked, Shape | Answer)]
    assert [stage for stage, _ in gate.asked if stage != "job"] == ["prepare"]


def test_a_lead_that_compares_falsely_cannot_choose_few_rows_either(tmp_path: Path) -> None:
    """What counts is how many of the party's own rows it is told to use, not what the lead claims to have found."""
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites", {"shop": Says(limits=MatchingLimits(least_common=20))})
    site = loop.sites["shop"]
    for request in (opening(files), Prepare(), Match(step="size")):
        site.handle(request, "bank")
    one = Numbers.of(np.array([4], dtype=np.int64))
    few = Match(step="rows", run="0123456789abcdef", total=1, positions=one)
    assert site.handle(few, "bank") == Refused(reason=Reason.FEW_ROWS)
    assert site.handle(Shape(), "bank") == Refused(reason=Reason.TURN)


@pytest.mark.parametrize("brought", ["nothing", "its own list", "all but one list", "a short list"])
def test_no_rows_are_taken_as_common_before_every_list_was_compared(tmp_path: Path, brought: str) -> None:
    """Else a lead chooses rows without an id and without a try: it learns sizes of as many sets of them as it likes."""
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites", {"shop": Says()})
    site = loop.sites["shop"]
    for request in (opening(files), Prepare(), Match(step="size")):
        site.handle(request, "bank")
    if brought != "nothing":
        made = site.handle(Match(step="list", start=0, stop=75), "bank")
        assert isinstance(made, Matched)
    if brought in ("all but one list", "a short list"):
        lists = {"bank": 75} if brought == "all but one list" else {"bank": 75, "phone": 30}
        for owner, size in lists.items():
            elements = Aligner(owner, [f"{owner}{k}" for k in range(size)], ("bank", "shop", "phone")).answer(
                "list", {"start": 0, "stop": size}
            )["elements"]
            add = Match(step="add", owner=owner, size=size, start=0, stop=size, elements=Numbers.of(elements))
            assert site.handle(add, "bank") == Matched()
            assert isinstance(site.handle(Match(step="mixed", owner=owner, start=0, stop=size), "bank"), Matched)
    chosen = Numbers.of(np.arange(31, dtype=np.int64))
    rows = Match(step="rows", run="0123456789abcdef", total=31, positions=chosen)
    assert site.handle(rows, "bank") == Refused(reason=Reason.MESSAGE)
    assert site.handle(Shape(), "bank") == Refused(reason=Reason.TURN)


def test_more_ids_than_agreed_are_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites", {"shop": Says(limits=MatchingLimits(most_ids=74, least_common=1))})
    with pytest.raises(RunError, match="'shop': a party brings more ids than it allows"):
        loop.run(job_text(files, "flare"))


def test_ids_are_matched_as_often_as_agreed_and_not_once_more(tmp_path: Path) -> None:
    """A lead that begins anew again and again would test as many ids as it likes under one consent."""
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites", {"shop": Says(limits=MatchingLimits(least_common=1, tries=3))})
    site = loop.sites["shop"]
    for _ in range(3):
        site.handle(opening(files), "bank")
        site.handle(Prepare(), "bank")
        for _ in range(4):  # asking for sizes alone uses nothing up: an honest lead may have to begin anew
            assert site.handle(Match(step="size"), "bank").size == 75  # type: ignore[attr-defined]
        last = site.handle(Match(step="list", start=0, stop=10), "bank")
        assert isinstance(last, Matched)
        loop.restart("shop")
        site = loop.sites["shop"]
    site.handle(opening(files), "bank")
    site.handle(Prepare(), "bank")
    assert site.handle(Match(step="size"), "bank") == Refused(reason=Reason.TRIES)
    assert site.handle(Match(step="list", start=0, stop=10), "bank") == last  # the last try goes on, with its key


BLANKS = """
[job]
name = "blanks"
engine = "flare"
[privacy]
epsilon = 1
[[party]]
name = "bank"
id = "customer"
label = "y"
[[party]]
name = "shop"
id = "customer"
[party.columns]
x = { low = 0, high = 1 }
"""


def test_a_cell_that_cannot_be_used_is_told_alike_whichever_rows_are_common(tmp_path: Path) -> None:
    """The file of a protected party is checked whole: a refusal does not tell about the one row that was matched."""
    rng = np.random.default_rng(2)
    said = {}
    for bad in (3, 47):  # of the rows c0..c59 of shop, bank has the first thirty
        folder = tmp_path / str(bad)
        folder.mkdir()
        files = {"bank": folder / "bank.csv", "shop": folder / "shop.csv"}
        rows = [f"c{i},{float(rng.normal())!r},{i % 2}" for i in range(30)]
        files["bank"].write_text("\n".join(["customer,z,y", *rows]) + "\n")
        cells = ["not a number" if i == bad else repr(i / 60) for i in range(60)]
        files["shop"].write_text("\n".join(["customer,x", *(f"c{i},{x}" for i, x in enumerate(cells))]) + "\n")
        loop = Loopback(files, folder / "sites")
        with pytest.raises(RunError, match="'shop': it stopped; tacit status there says why"):
            loop.run(BLANKS)
        said[bad] = [one.reply for one in loop.carried if one.name == "shop"]
        assert (folder / "sites/shop" / RUN / "problem.txt").read_text()
    assert said[3] == said[47]


# --- the organisation's own settings ---------------------------------------------------------------------


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Kit]:
    monkeypatch.setattr(consent, "POLL", 0.01)
    shop = copied_kits(tmp_path)["shop"]
    shop.make_home()

    def make(**settings: object) -> Kit:
        monkeypatch.setattr(Kit, "settings", lambda self: dict(settings))
        return shop

    return make


def test_a_budget_alone_lets_no_ids_be_matched_unasked(
    kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consent.Consent, "seconds", 0.0)
    monkeypatch.setattr(consent.Consent.__init__, "__defaults__", ("ask", 0.0))
    gate = KitAuthorizer(kit(accept="within-budget", budget={"epsilon": 3.0}))
    for job in ("with privacy", "without"):  # whatever the job claims: what it tells before its plan is in no budget
        with pytest.raises(RefusalError, match="did not answer"):
            gate.allow_preparing(RUN, "shop", ["bank"], ["sizes"], job)
    friend = KitAuthorizer(kit(accept="within-budget", budget={"epsilon": 3.0}, matching={"without_asking": ["bank"]}))
    friend.allow_preparing(RUN, "shop", ["bank"], ["ids"], "a job")
    with pytest.raises(RefusalError, match="did not answer"):
        friend.allow_preparing(RUN, "shop", ["bank", "phone"], ["ids"], "a job")


def test_a_yes_to_one_stage_is_no_yes_to_another_and_both_are_remembered(kit: Callable[..., Kit]) -> None:
    gate = KitAuthorizer(kit(accept="ask"))
    answered: list[str] = []
    stop = threading.Event()

    def somebody() -> None:
        while not stop.is_set():
            answer_pending(gate.kit.jobs.parent, lambda name, lines: answered.append(lines[0]) or True)
            time.sleep(0.01)

    thread = threading.Thread(target=somebody)
    thread.start()
    try:
        for _ in range(2):  # a run that goes on does not ask again
            gate.allow_preparing(RUN, "shop", ["bank"], ["ids"], "a job")
            gate.allow_scores(RUN, "shop", ["scores"], {"rows": "1", "part": "2"})
        gate.allow_scores(RUN, "shop", ["scores"], {"rows": "3", "part": "2"})  # the same lines, another order of rows
        gate.allow_preparing(RUN, "shop", ["bank"], ["ids"], "another job")  # the same lines, another job
    finally:
        stop.set()
        thread.join()
    assert answered == ["ids", "scores", "scores", "ids"]


def test_settings_of_matching_are_read_and_checked() -> None:
    limits, friends = read_matching({"matching": {"least_common": 500, "without_asking": ["bank"]}})
    assert (limits.least_common, limits.tries, friends) == (500, 5, {"bank"})
    assert read_matching({}) == (MatchingLimits(), frozenset())
    for wrong in ({"least": 3}, {"tries": 0}, {"most_ids": "many"}, {"without_asking": "bank"}):
        with pytest.raises(InputError, match="matching"):
            read_matching({"matching": wrong})


def test_what_is_shown_holds_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "x").mkdir(parents=True)
    (tmp_path / "jobs" / "x" / "pending.json").write_text(
        '{"digest": "d", "lines": ["job \\u001b]0;owned\\u0007 \\u202e"]}'
    )
    (question,) = questions(tmp_path)
    assert question.lines == ("job ?]0;owned? ?",)


def test_the_real_gate_answers_nothing_but_no_under_never(kit: Callable[..., Kit], tmp_path: Path) -> None:
    folder = tmp_path / "never"
    folder.mkdir()
    files = write_files(folder)
    loop = Loopback(files, folder / "sites", {"shop": KitAuthorizer(kit(accept="never"))})
    replies = [loop.sites["shop"].handle(request, "bank") for request in every_request(files)]
    assert replies == [Refused(reason=Reason.NEVER)] * len(replies)

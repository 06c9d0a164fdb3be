"""Attacks on what sites say to each other: a member with modified software asks for whatever it likes."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from msgspec import Struct

import tacit
from tacit.errors import RunError
from tacit.federation.loopback import Carried
from tacit.federation.protocol import (
    ORIGINS,
    REPLIES,
    REQUESTS,
    SMALL,
    Answer,
    Answered,
    Begin,
    Done,
    End,
    Forget,
    Numbers,
    Open,
    Opened,
    Origin,
    Packet,
    Play,
    Played,
    Prepare,
    Prepared,
    Put,
    Reason,
    Refused,
    Shape,
    Shaped,
    Step,
    decode_reply,
    decode_request,
    encode,
    origins,
)
from tests.federation import test_sites_graph as graph
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

RUN = "run-00000001"


# --- every field that can leave has a reason -----------------------------------------------------------


def test_every_field_of_every_message_says_why_it_may_leave() -> None:
    assert set(REPLIES) == set(REQUESTS)
    for kind in (*REQUESTS, *REPLIES.values()):
        assert set(ORIGINS[kind]) == set(kind.__struct_fields__)
        assert all(isinstance(origin, Origin) for origin in ORIGINS[kind].values())


def test_a_field_without_a_reason_cannot_be_sent() -> None:
    class Leaking(Shaped):
        bytes: int = 0

    with pytest.raises(TypeError, match=r"Leaking\.bytes does not say why"):
        origins(Leaking)
    with pytest.raises(TypeError, match="Leaking is no message of the protocol"):
        encode(Leaking(rows=1, columns=1, bytes=7))

    class Unsaid(Struct):
        note: Annotated[str, "no origin"]

    with pytest.raises(TypeError, match=r"Unsaid\.note"):
        origins(Unsaid)


def test_sizes_that_leave_are_rows_and_columns_alone() -> None:
    """The number of bytes of a sparse matrix is the number of its non-zeros, which is data."""
    assert set(ORIGINS[Shaped]) == {"rows", "columns", "curve_columns"}
    assert set(ORIGINS[Prepared]) == {"matched", "rows", "columns", "names", "bound"}


# --- item 1: nothing about non-zeros leaves --------------------------------------------------------------


def sparse_files(folder: Path, extra: bool) -> dict[str, Path]:
    """Two parties; one row of the second has one non-zero more."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = {"bank": [], "shop": []}
    for i in range(60):
        label = int(rng.normal() > 0)
        lines["bank"].append(f"{label} 1:{float(rng.normal())!r} 2:1.0")
        more = " 2:0.5" if extra and i == 7 else ""
        lines["shop"].append(f"0 1:{float(rng.normal())!r}{more} 3:1.0")
    files = {}
    for name, content in lines.items():
        files[name] = folder / f"{name}.svm"
        files[name].write_text("\n".join(content) + "\n")
    return files


SPARSE = """
[job]
name = "sparse"
engine = "flare"
[privacy]
epsilon = 1
noise_seed = 4
[encode]
scale = "none"
[[party]]
name = "bank"
label = "label"
[[party]]
name = "shop"
width = 3
"""


def replies_of(loop: Loopback, name: str, *kinds: type[Step]) -> list[bytes]:
    return [one.reply for one in loop.carried if one.name == name and isinstance(one.asked, kinds)]


def test_replies_before_the_first_release_do_not_know_how_many_entries_are_zero(tmp_path: Path) -> None:
    said = []
    for extra in (False, True):
        folder = tmp_path / str(extra)
        loop = Loopback(sparse_files(folder, extra), folder / "sites")
        loop.run(SPARSE)
        said.append(replies_of(loop, "shop", Open, Prepare, Shape, Begin))
        shaped = [one.answered for one in loop.carried if isinstance(one.asked, Shape)]
        assert shaped == [Shaped(rows=60, columns=3)]
    assert len(said[0]) == 4
    assert said[0] == said[1]


# --- item 2: no residual in a private run ----------------------------------------------------------------

PRIVATE = {
    name: {"extra": f'{graph.PRIVATE}\n[model]\nmethod = "{name}"', "top": "rounds = 2"}
    for name in ("dual", "primal", "pdml")
} | {"gaussian": {"extra": graph.PRIVATE, "top": "rounds = 6"}}
PRIVATE["pdml"]["extra"] = PRIVATE["pdml"]["extra"].replace("epsilon = 4", "epsilon = 4\nlabel_epsilon = 2")


@pytest.mark.parametrize("parts", PRIVATE)
def test_nothing_but_the_end_of_a_round_is_said_of_a_private_round(tmp_path: Path, parts: str) -> None:
    files = graph.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(graph.job_text(files, "flare", **PRIVATE[parts]))
    played = [one.answered for one in loop.carried if isinstance(one.asked, Play)]
    assert played
    assert all(isinstance(reply, Played) and reply.residual is None for reply in played)
    rows = (tmp_path / "sites/node0" / RUN / "trace.jsonl").read_text().splitlines()
    assert rows
    assert all('"dual": "nan"' in row for row in rows)


# --- item 3: a party owns its part of the model ----------------------------------------------------------

GRAM = {"extra": "[privacy]\nepsilon = 1\nnoise_seed = 5\n[encode]\nscale = 'none'"}


def test_the_lead_cannot_set_coefficients(tmp_path: Path) -> None:
    """What `end` carries is one bounded number that the plan names, and nothing that could hold coefficients."""
    assert set(End.__struct_fields__) == {"scale"}
    files = star.write_files(tmp_path)
    loop, refused = Loopback(files, tmp_path / "sites"), []

    def before(caller: str, name: str, request: Step) -> None:
        if isinstance(request, End) and not refused:
            for scale in (1e8, -1.0, 0.0, math.nan, math.inf):
                refused.append(loop.sites["party1"].handle(End(scale=scale), "party0"))

    loop.disturb = before
    loop.run(star.job_text(files, "flare", **GRAM))
    assert refused == [Refused(reason=Reason.STOPPED)] * 5
    one = star.in_process(tmp_path, files, **GRAM)
    for name in files:
        np.testing.assert_array_equal(star.coef(tmp_path / "sites" / name / RUN, name), star.coef(one, name))


def test_the_scale_of_a_regression_is_the_only_number_of_a_part_that_the_lead_sets(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    parts = {**GRAM, "model": 'loss = "squared"\nalpha = 0.01'}
    loop = Loopback(files, tmp_path / "sites")
    loop.run(star.job_text(files, "flare", **parts))
    one = star.in_process(tmp_path, files, **parts)
    for name in files:
        np.testing.assert_array_equal(star.coef(tmp_path / "sites" / name / RUN, name), star.coef(one, name))
    ends = [one.asked for one in loop.carried if isinstance(one.asked, End)]
    assert {end.scale != 1.0 for end in ends} == {True}


# --- a member that is not the lead ------------------------------------------------------------------------


def test_no_member_opens_its_own_job_in_the_middle_of_a_run(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    text = star.job_text(files, "flare")
    own = text.replace('label = "y"\n', "").replace('name = "party2"', 'name = "party2"\nlabel = "x2a"')
    loop, refused = Loopback(files, tmp_path / "sites"), []

    def before(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and not refused:
            opening = Open(run="run-00000666", job=own, version=tacit.__version__)
            refused.append(loop.sites["party1"].handle(opening, "party2"))
            refused.append(loop.sites["party1"].handle(Shape(), "party2"))

    loop.disturb = before
    loop.run(text)
    assert refused == [Refused(reason=Reason.BUSY), Refused(reason=Reason.NOT_LEAD)]
    assert not (tmp_path / "sites/party1/run-00000666").exists()


def test_a_job_is_opened_by_its_own_lead_alone(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    opening = Open(run=RUN, job=star.job_text(files, "flare"), version=tacit.__version__)
    assert loop.sites["party1"].handle(opening, "party2") == Refused(reason=Reason.NOT_LEAD)
    for text in ("", "x", "[job]\nname = 1", "[predict]\nrun = 1"):
        bad = Open(run=RUN, job=text, version=tacit.__version__)
        assert loop.sites["party1"].handle(bad, "party0") == Refused(reason=Reason.JOB)
    assert not (tmp_path / "sites/party1" / RUN).exists()


def test_a_neighbour_cannot_replace_a_message_it_has_sent(tmp_path: Path) -> None:
    files = graph.write_files(tmp_path)
    loop, replies = Loopback(files, tmp_path / "sites"), []

    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if isinstance(request, Put) and not replies:
            changed = {key: Numbers.of(one.array() - 1.0) for key, one in request.message.arrays.items()}
            second = Put(message=Packet(request.message.round, request.message.kind, changed))
            huge = Put(message=Packet(request.message.round, "step", {"model": Numbers.of(np.array([1e200]))}))
            replies.extend(loop.sites[name].handle(one, caller) for one in (request, second, huge, request))

    loop.after = after
    loop.run(graph.job_text(files, "flare", **graph.CASES["plain"]))
    second, huge = Refused(reason=Reason.SECOND), Refused(reason=Reason.MESSAGE)
    assert replies == [Done(), second, huge, Done()]


STEPS = [Prepare(), Shape(), Begin(rows=[1], columns=[1], plan=""), Play(round=1), End()]


@pytest.mark.parametrize("step", STEPS, ids=[type(step).__name__ for step in STEPS])
def test_steps_out_of_turn_get_a_constant(tmp_path: Path, step: Step) -> None:
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    site = loop.sites["party1"]
    assert not isinstance(site.handle(step, "party0"), Shaped | Answered)
    site.handle(Open(run=RUN, job=star.job_text(files, "flare"), version=tacit.__version__), "party0")
    reply = site.handle(step, "party0")
    assert reply == (Prepared() if isinstance(step, Prepare) else Refused(reason=Reason.TURN))


# --- a run is one lead's and one job's -----------------------------------------------------------------------


def test_a_run_is_opened_with_the_job_that_was_agreed_to_and_no_other(tmp_path: Path) -> None:
    """One yes to a private job would otherwise serve for as many exact questions about sizes as a lead can think of."""
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    site, text = loop.sites["party1"], star.job_text(files, "flare", **GRAM)
    assert site.handle(Open(run=RUN, job=text, version=tacit.__version__), "party0") == Opened()
    assert site.handle(Prepare(), "party0") == Prepared()
    for restart in (False, True):
        if restart:
            loop.restart("party1")
            site = loop.sites["party1"]
        changed = Open(run=RUN, job=text.replace("epsilon = 1", "epsilon = 9"), version=tacit.__version__)
        assert site.handle(changed, "party0") == Refused(reason=Reason.OTHER_JOB)
        assert site.handle(Open(run=RUN, job=text, version=tacit.__version__), "party0") == Opened()


def test_nobody_deletes_the_journal_of_anothers_run_or_of_one_that_goes_on(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    text = star.job_text(files, "flare")
    own = text.replace('label = "y"\n', "").replace('name = "party2"', 'name = "party2"\nlabel = "x2a"')
    loop, said = Loopback(files, tmp_path / "sites"), []

    def before(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.round == 3 and not said:
            said.append(loop.sites["party1"].handle(Forget(), "party0"))  # too soon, by the lead itself
            loop.restart("party1")
            said.append(loop.sites["party1"].handle(Open(run=RUN, job=own, version=tacit.__version__), "party2"))
            raise ConnectionError

    loop.disturb = before
    with pytest.raises(ConnectionError):
        loop.run(text)
    assert said == [Refused(reason=Reason.TURN), Refused(reason=Reason.OTHER_JOB)]
    loop.restart()
    assert loop.run(text) > 3


def test_the_scale_of_a_part_is_set_once(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    loop, said = Loopback(files, tmp_path / "sites"), []

    def before(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Forget) and not said:
            said.extend(loop.sites["party1"].handle(End(scale=s), "party0") for s in (scale(loop), 2.0, 1e9))

    loop.disturb = before
    loop.run(star.job_text(files, "flare", **{**GRAM, "model": 'loss = "squared"\nalpha = 0.01'}))
    assert said == [Done(), Refused(reason=Reason.SECOND), Refused(reason=Reason.SECOND)]


def scale(loop: Loopback) -> float:
    return next(one.asked.scale for one in loop.carried if isinstance(one.asked, End))


def test_a_stranger_to_the_run_writes_no_problem_into_it(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    site = loop.sites["party1"]
    site.handle(Open(run=RUN, job=star.job_text(files, "flare"), version=tacit.__version__), "party0")
    site.handle(Open(run="run-00000777", job="x = 'call this number'", version=tacit.__version__), "party2")
    assert not (tmp_path / "sites/party1" / RUN / "problem.txt").exists()


# --- bytes that anybody may have made ----------------------------------------------------------------------


def recorded(tmp_path: Path) -> list[Carried]:
    files = graph.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "graph")
    loop.run(graph.job_text(files, "flare", **graph.CASES["masked star"]))
    files = star.write_files(tmp_path)
    other = Loopback(files, tmp_path / "star")
    other.run(star.job_text(files, "flare", **star.CASES["masks"]))
    return [*loop.carried, *other.carried]


def mutated(content: bytes, rng: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(found)) if found else 0
        match rng.randrange(4):
            case 0 if found:
                found[place] = rng.randrange(256)
            case 1:
                del found[place : place + rng.randint(1, 9)]
            case 2:
                found[place:place] = rng.randbytes(rng.randint(1, 9))
            case _:
                found = found[:place]
    return bytes(found)


def test_ten_thousand_mutated_messages_are_read_or_refused(tmp_path: Path) -> None:
    carried, rng = recorded(tmp_path), random.Random(1)
    kinds = {type(one.asked): one for one in carried}
    read = refused = 0
    for number in range(10_000):
        one = list(kinds.values())[number % len(kinds)]
        for content, decode in (
            (one.request, decode_request),
            (one.reply, lambda c, one=one: decode_reply(c, one.asked)),
        ):
            try:
                found = decode(mutated(content, rng))
            except RunError:
                refused += 1
            else:
                assert type(found) in ORIGINS
                read += 1
    assert refused > 5_000
    assert read > 100


def test_size_and_depth_are_checked_before_parsing() -> None:
    with pytest.raises(RunError, match="more than"):
        decode_request(encode(Prepare()) + b"\0" * SMALL)
    with pytest.raises(RunError, match="cannot be read"):
        decode_request(encode(Prepare())[:1] + b"\x91" * 60_000)
    for content in (b"", b"\xff", "text", None, encode(Prepared())):
        with pytest.raises(RunError, match="not one of those that are due"):
            decode_request(content)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="not one of those that are due"):
        decode_reply(encode(Done()), Shape())


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (Numbers("f8", [2], b"\0" * 15), "bytes"),
        (Numbers("f8", [2**40, 2**40], b""), "bytes"),
        (Numbers.of(np.array([np.nan])), "NaN"),
        (Numbers.of(np.array([1e101])), "beyond"),
        (Numbers.of(np.array([-np.inf])), "infinite"),
    ],
)
def test_what_is_no_array_is_refused(numbers: Numbers, words: str) -> None:
    with pytest.raises(RunError, match=words):
        numbers.array()
    with pytest.raises(RunError, match="'shop' sent 'share'"):
        Packet(1, "step", {"share": numbers}).message("shop")


@pytest.mark.parametrize("kind", ["f8", "u8", "i8", "u1", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 2), (0, 4)])
def test_arrays_come_back_as_they_were(kind: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, size=shape).astype(kind)
    back = Numbers.of(array).array()
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.flags.writeable


def test_objects_do_not_travel() -> None:
    with pytest.raises(RunError, match="object"):
        Numbers.of(np.array([None]))

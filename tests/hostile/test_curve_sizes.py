"""Numbers of columns before encoding, which norms of rows follow from: lies about them, and curves that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.errors import InputError, RunError
from tacit.federation.party_handler import make_star_plan
from tacit.federation.protocol import (
    Answer,
    Begin,
    PartyRefusedError,
    Reason,
    Shape,
    Shaped,
    Step,
    decode_reply,
    decode_request,
    encode,
)
from tacit.federation.site import AllowAll, Task, plan_print, read_text
from tests.federation import test_sites_graph as graph
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

RUN = "run-00000001"
PRIVATE = star.curves("[privacy]\nepsilon = 2\nnoise_seed = 5")


def job_of(files: dict[str, Path]) -> str:
    return star.job_text(files, "flare", **PRIVATE)


def begin_told(loop: Loopback, lie: Callable[[list[int]], list[int]]) -> None:
    """Let the lead tell the others another list of numbers, with the plan that it gives."""
    lead = loop.sites["party0"]
    honest = lead.ask

    def ask(names: list[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Begin):
            told = lie(list(request.curve_columns))
            task = lead.handler.task
            full = [*told, *[0] * 3][:3]
            plan = make_star_plan(task, request.rows[0], tuple(request.columns), full)
            request = Begin(rows=request.rows, columns=request.columns, curve_columns=told, plan=plan_print(plan))
        return honest(names, request)

    lead.ask = ask


def test_each_party_says_how_many_columns_bound_its_rows(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_of(files))
    said = {one.name: one.answered.curve_columns for one in loop.carried if isinstance(one.asked, Shape)}
    assert said == {"party1": 2, "party2": 2}
    told = [one.asked.curve_columns for one in loop.carried if isinstance(one.asked, Begin)]
    assert told == [[0, 2, 2]] * 2  # nobody protects the rows of the label holder


@pytest.mark.parametrize(
    "lie",
    [
        lambda own: [own[0], 1, own[2]],
        lambda own: [own[0], 0, own[2]],
        lambda own: [own[0], 10**12, own[2]],
        lambda own: [],
        lambda own: own[:2],
        lambda own: [*own, 2],
    ],
    ids=["smaller", "none", "huge", "no list", "a short list", "a long list"],
)
def test_a_party_that_is_told_another_number_of_its_columns_refuses(
    tmp_path: Path, lie: Callable[[list[int]], list[int]]
) -> None:
    """A smaller one would clip its rows, a larger one would drown them in noise; it knows its own."""
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    begin_told(loop, lie)
    with pytest.raises(PartyRefusedError) as refused:
        loop.run(job_of(files))
    assert refused.value.reason == Reason.SIZES
    assert not [one for one in loop.carried if isinstance(one.asked, Answer)]


def test_a_lie_about_another_party_changes_nothing_for_this_one(tmp_path: Path) -> None:
    """What a party claims and releases does not depend on the norms of others."""
    files = star.write_files(tmp_path)
    task = Task(RUN, read_text(job_of(files)), "party1", Path(), Path(), "party0", AllowAll())
    plans = [make_star_plan(task, star.ROWS, (3, 8, 8), (0, 2, other)) for other in (0, 1, 2, 10**12)]
    for plan in plans:
        assert plan.private.releases["party1"] == plans[0].private.releases["party1"]
        own, first = ([one for one in p.certificate().claims if one.party == "party1"] for p in (plan, plans[0]))
        assert own == first
        assert own
    assert len({plan_print(plan) for plan in plans}) > 1  # and parties that were told different things have other plans


def test_a_party_that_lies_about_itself_stops(tmp_path: Path) -> None:
    files = star.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")

    def lie(caller: str, name: str, request: Step, reply: Step) -> None:
        if isinstance(reply, Shaped) and name == "party1":
            reply.curve_columns = 7

    loop.after = lie
    with pytest.raises(PartyRefusedError) as refused:
        loop.run(job_of(files))
    assert (refused.value.party, refused.value.reason) == ("party1", Reason.SIZES)


@pytest.mark.parametrize("number", [-1, 1.5, True, None, "2", [2], 10**13])
def test_what_is_no_count_does_not_arrive(number: object) -> None:
    good = encode(Shaped(rows=1, columns=1, curve_columns=2))
    assert decode_reply(good, Shape()) == Shaped(rows=1, columns=1, curve_columns=2)
    with pytest.raises(RunError):
        decode_reply(encode(Shaped(rows=1, columns=1, curve_columns=number)), Shape())
    with pytest.raises(RunError):
        decode_request(encode(Begin(rows=[1], columns=[1], plan="", curve_columns=[number])))


# --- curves that sites cannot make together -------------------------------------------------------------


@pytest.mark.parametrize("privacy", ["", "[privacy]\nepsilon = 2"])
def test_a_choice_between_lines_and_curves_is_refused_before_anybody_is_asked(tmp_path: Path, privacy: str) -> None:
    text = star.job_text(star.write_files(tmp_path), "flare", model='terms = "auto"', extra=privacy)
    with pytest.raises(InputError, match=r'terms = "auto".* engine = "flare".*: write "linear" or|write "spline" for'):
        read_text(text)


@pytest.mark.parametrize("privacy", [graph.PRIVATE, ""])
def test_nodes_need_the_number_of_pairs(tmp_path: Path, privacy: str) -> None:
    """Each encodes before it knows how many rows there are in all."""
    files = graph.write_files(tmp_path)
    with pytest.raises(InputError, match=r"give pairs = \.\.\. under \[encode\]: tacit plan prints the number"):
        read_text(graph.job_text(files, "flare", extra=privacy + graph.CURVES))
    job = read_text(graph.job_text(files, "flare", extra=privacy + graph.CURVES, encode="pairs = 3"))
    assert job.encode.pairs == 3


def test_nodes_without_privacy_have_curves_of_public_constants(tmp_path: Path) -> None:
    files = graph.write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    parts = {"top": "rounds = 3", "extra": graph.CURVES, "encode": "pairs = 3"}
    assert loop.run(graph.job_text(files, "flare", **parts)) == 3


def test_numbers_without_a_range_beside_curves_are_refused_at_their_own_site(tmp_path: Path) -> None:
    """The reason, which names columns, stays there; a stated row_norm is enough."""
    files = star.write_files(tmp_path)
    own = "|[party.columns]\nx1a = { term = 'spline', low = -2, high = 2 }|"
    for norm, works in (("", False), ("row_norm = 2", True)):
        privacy = f"[privacy]\nepsilon = 2\n{norm}\n[encode]\nscale = 'none'"
        loop = Loopback(files, tmp_path / f"sites{works}")
        text = star.job_text(files, "flare", extra=privacy, own=own)
        if works:
            assert loop.run(text) > 0
            continue
        with pytest.raises(PartyRefusedError) as refused:
            loop.run(text)
        assert (refused.value.party, refused.value.reason) == ("party1", Reason.STOPPED)

"""A lead that has ids matched again in a private run, and moves rows, learns nothing of what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.federation.leads import align_sites, ask_all
from tacit.federation.party_handler import PartyHandler, make_star_plan
from tacit.federation.protocol import (
    Begin,
    Begun,
    Match,
    Matched,
    Numbers,
    Open,
    Opened,
    Prepare,
    Prepared,
    Reason,
    Refused,
    Shape,
    Shaped,
    Step,
)
from tacit.federation.site import Site, plan_print
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
ROWS, KNOWN, WANTED = 30, 7, 9  # a row that the lead knows, and one that it wants to know
NAMES = ("bank", "shop")
JOB = """
[job]
engine = "flare"
[privacy]
epsilon = 0.5
[[party]]
name = "bank"
id = "customer"
label = "y"
[[party]]
name = "shop"
id = "customer"
columns = { ill = { low = 0, high = 1 } }
"""


def write_files(folder: Path, ill: int) -> dict[str, Path]:
    folder.mkdir()
    held = [k % 2 for k in range(ROWS)]
    held[KNOWN], held[WANTED] = 0, ill
    lines = {"bank": ["customer,x,y"], "shop": ["customer,ill"]}
    for k in range(ROWS):
        lines["bank"].append(f"c{k},{k % 5},{k % 2}")
        lines["shop"].append(f"c{k},{held[k]}")
    lines["shop"].append(f"c{ROWS},0")  # a stranger to the bank
    for name, text in lines.items():
        (folder / f"{name}.csv").write_text("\n".join(text) + "\n")
    return {name: folder / f"{name}.csv" for name in lines}


def match(lead: Site, order: Sequence[int], *, stranger: bool = False) -> None:
    """Match ids, and tell the other party that the rows of the lead are common in this order.

    With `stranger` the party is told of a row that the lead does not have, in place of the wanted one.
    """
    honest, kept = lead.ask, dict[str, Numbers | None]()

    def waits(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Match) and request.step == "rows":
            kept[request.run] = request.positions
            return {names[0]: Matched()}
        return honest(names, request)

    lead.ask = waits
    align_sites(lead, NAMES, dict.fromkeys(NAMES, Prepared()))
    lead.ask = honest
    handler = lead.handler
    assert isinstance(handler, PartyHandler)
    assert handler.matching is not None
    place = np.argsort(handler.matching.rows)  # of each row of the lead in the common order
    ((run, positions),) = kept.items()
    assert positions is not None
    moved = positions.array()[place[list(order)]]
    if stranger:
        (moved[WANTED],) = set(range(ROWS + 1)) - set(moved.tolist())
    told = Match(step="rows", run=run, total=ROWS, positions=Numbers.of(moved))
    assert honest(["shop"], told) == {"shop": Matched()}


def begin(lead: Site) -> Step:
    handler = lead.handler
    assert isinstance(handler, PartyHandler)
    columns = tuple(shape.columns for shape in ask_all(lead, NAMES, Shape(), Shaped).values())
    plan, curves = make_star_plan(handler.task, ROWS, columns), [0] * len(columns)
    sizes = Begin(rows=[ROWS], columns=list(columns), curve_columns=curves, plan=plan_print(plan))
    return lead.ask(["shop"], sizes)["shop"]


@pytest.mark.parametrize("ill", [0, 1])
def test_rows_that_are_moved_in_a_run_do_not_show_whether_they_are_alike(tmp_path: Path, ill: int) -> None:
    """The attack: the party refused changed data, and took moved rows for changed ones only where they differed."""
    loop = Loopback(write_files(tmp_path / "files", ill), tmp_path / "sites")
    lead = loop.sites["bank"]
    ask_all(lead, NAMES, Open(run="run-00000001", job=JOB, version=tacit.__version__), Opened)
    ask_all(lead, NAMES, Prepare(), Prepared)
    order = list(range(ROWS))
    match(lead, order)
    assert isinstance(begin(lead), Begun)
    order[KNOWN], order[WANTED] = WANTED, KNOWN
    match(lead, order)
    assert isinstance(begin(lead), Begun), "each party puts its rows in the order of their ids"
    match(lead, order, stranger=True)
    assert begin(lead) == Refused(reason=Reason.CHANGED)
    match(lead, list(range(ROWS)))  # the same rows as at first
    assert isinstance(begin(lead), Begun)

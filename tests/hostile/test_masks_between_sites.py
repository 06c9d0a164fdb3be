"""A lead that tells parties different jobs, or passes false keys on, between sites with masks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.federation.party_handler import make_star_plan
from tacit.federation.protocol import Answer, Begin, Match, Open, Step
from tacit.federation.site import AllowAll, Task, plan_print, read_text
from tests.federation import test_sites_aligned as aligned
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

RUN = "run-00000001"


def equivocate(loop: Loopback, told: str, victim: str) -> None:
    """Let the lead tell everybody but the victim another job, with the fingerprint of its plan."""
    lead = loop.sites["party0"]
    honest = lead.ask
    task = Task(RUN, read_text(told), "party0", Path(), Path(), "party0", AllowAll())

    def ask(names: Sequence[str], request: Step) -> dict[str, Step]:
        replies: dict[str, Step] = {}
        for name in names:
            sent = request
            if name != victim and isinstance(sent, Open):
                sent = Open(run=sent.run, job=told, version=sent.version)
            elif name != victim and isinstance(sent, Begin):
                plan = make_star_plan(task, sent.rows[0], tuple(sent.columns))
                sizes = {"rows": sent.rows, "columns": sent.columns, "curve_columns": sent.curve_columns}
                sent = Begin(**sizes, plan=plan_print(plan))
            replies |= honest([name], sent)
        return replies

    lead.ask = ask


def private(files: dict[str, Path], epsilon: float) -> str:
    privacy = f"[privacy]\nepsilon = {epsilon}\nmechanism = 'shares'\nhonest = 3\n[encode]\nscale = 'none'"
    return star.job_text(files, "flare", top="secure_aggregation = true", extra=privacy)


def test_parties_that_were_told_different_epsilons_give_noise(tmp_path: Path) -> None:
    """Each adds a part of the noise: where the others add next to none, the victim's own part is not enough."""
    files = star.write_files(tmp_path, parties=4)
    loop = Loopback(files, tmp_path / "sites")
    equivocate(loop, private(files, 100_000), "party1")
    with pytest.raises(RunError, match=r"masks|sum|cancel"):
        loop.run(private(files, 1))
    calm = Loopback(files, tmp_path / "calm")
    assert calm.run(private(files, 1)) > 0


def test_parties_that_were_told_different_jobs_give_noise(tmp_path: Path) -> None:
    """With alpha = 1e9 a party adds nothing: the sum over it and the victim would be the victim's vector."""
    files = star.write_files(tmp_path)
    top = "secure_aggregation = true\nrounds = 2"
    loop = Loopback(files, tmp_path / "sites")
    equivocate(loop, star.job_text(files, "flare", top=top, model="alpha = 1e9"), "party1")
    with pytest.raises(RunError, match=r"masks|sum|cancel"):
        loop.run(star.job_text(files, "flare", top=top))


def test_every_fingerprint_of_masks_is_kept(tmp_path: Path) -> None:
    """A lead that passed false keys on once, and the true ones after a restart, is still found by comparing."""
    files = star.write_files(tmp_path)
    text = star.job_text(files, "flare", **star.CASES["masks"])
    loop = Loopback(files, tmp_path / "sites")

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.kind == "step" and request.message.round == 2:
            raise ConnectionError

    loop.disturb = stop
    with pytest.raises(ConnectionError):
        loop.run(text)
    loop.disturb = lambda *_: None
    loop.restart()
    loop.run(text)
    kept = [json.loads((tmp_path / "sites" / name / RUN / "masks.json").read_text())["fingerprints"] for name in files]
    assert kept[0] == kept[1] == kept[2]
    assert len(set(kept[0])) == 2


@pytest.mark.parametrize("late", [False, True])
def test_parties_that_were_told_different_rows_give_noise(tmp_path: Path, late: bool) -> None:
    """Of two runs with the rows of one party in different orders, the difference would be about this party alone."""
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    files = aligned.write_files(tmp_path)
    text = aligned.job_text(files, "flare").replace("[job]", "[job]\nsecure_aggregation = true\nrounds = 2")
    loop = Loopback(files, tmp_path / "sites")
    lead = loop.sites["bank"]
    honest, victim = lead.ask, "phone"

    def lying(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Match) and request.step == "rows" and names == [victim]:
            assert request.positions is not None
            moved = aligned.with_a_stranger(request.positions)
            return honest(names, Match(step="rows", run=request.run, total=request.total, positions=moved))
        if late and isinstance(request, Begin):  # the truth at last, after the rows were taken
            match_again(loop, victim)
        return honest(names, request)

    lead.ask = lying
    with pytest.raises(RunError, match=r"masks|sum|cancel"):
        loop.run(text)
    calm = Loopback(files, tmp_path / "calm")
    assert calm.run(text) == 2


def match_again(loop: Loopback, victim: str) -> None:
    """Let the victim have matched once more, and have been told the truth then."""
    matching = loop.sites[victim].handler.matching  # type: ignore[union-attr]
    matching.found = replace(matching.found, rows=np.roll(matching.found.rows, 1))

"""The driver sees a run through: what interrupts it is tried again, what refuses it ends it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import RunError
from tacit.federation import driver as driver_module
from tacit.federation.driver import Driver
from tacit.federation.flare_settings import write_admin
from tacit.federation.kit import Kit
from tacit.federation.progress import write_fault, write_outcome, write_progress

PARTIES = ("bank", "shop")


class FakeAdmin:
    """A server on which every job that is handed in does the next thing of a list."""

    def __init__(self, folder: Path, plot: list[Callable[[Path], None]], left: tuple[str, ...] = ()) -> None:
        self.folder, self.plot = folder, plot
        self.open, self.at = list(left), {number: set(PARTIES) for number in left}
        self.submitted, self.aborted = 0, []

    def system(self) -> tuple[float, dict[str, float]]:
        return 1.0, dict.fromkeys(PARTIES, 0.0)

    def submit(self, folder: Path) -> str:
        assert (folder / "meta.json").is_file()
        self.submitted += 1
        number = f"job{self.submitted}"
        self.open.append(number)
        self.at[number] = set(PARTIES)
        self.plot.pop(0)(self.folder)
        return number

    def unfinished(self, run: str) -> list[str]:
        return list(self.open)

    def status(self, number: str) -> str:
        return "RUNNING"

    def without(self, number: str, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name not in self.at[number]]

    def tidy(self) -> None:
        self.tidied = True

    def abort(self, number: str) -> None:
        self.aborted.append(number)
        if number in self.open:
            self.open.remove(number)


@pytest.fixture
def run(kit: Callable[[str], Kit], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, FakeAdmin, list[str]]]:
    """Run a driver against a fake server; how the run ended, the server, and what the driver said."""
    monkeypatch.setattr(driver_module, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(driver_module, "LONGEST_PAUSE", 0.01)

    def go(
        *plot: Callable[[Path], None], left: tuple[str, ...] = (), patience: float = 60.0, status: Any = None
    ) -> Any:
        server, said = kit("server"), []
        folder = server.jobs / "run-00000001"
        folder.mkdir(parents=True)
        admin = FakeAdmin(folder, list(plot), left)
        driver = Driver(server, "run-00000001", "", PARTIES, "bank", said.append, lambda *_: None, patience)
        monkeypatch.setattr(driver, "_admin", lambda: nullcontext(admin))
        if status is not None:
            admin.status = lambda number: status(folder)  # type: ignore[method-assign]
        if left and not plot:
            admin.status = lambda number: write_outcome(folder, {"done": {"rounds": 3}}) or "RUNNING"  # type: ignore
        return driver.go(), admin, said

    return go


def ends(folder: Path) -> None:
    write_outcome(folder, {"done": {"rounds": 7}})


def test_a_fault_is_tried_again_and_told(run: Callable[..., Any]) -> None:
    full = "party 'shop': cannot write: No space left on device"
    outcome, admin, said = run(*[lambda folder: write_fault(folder, full)] * 2, ends)
    assert outcome["rounds"] == 7
    assert admin.submitted == 3
    assert admin.aborted == ["job1", "job2"]
    assert all(line.startswith(full) for line in said)
    assert len(said) == 2


def test_whom_a_run_waits_for_is_said_once(run: Callable[..., Any]) -> None:
    def status(folder: Path) -> str:
        looks.append(folder)
        answers = len(looks) > 20
        write_progress(folder, 3, 1.0, {"shop": (17.0 + len(looks), answers, "an answer")})
        if len(looks) > 40:
            ends(folder)
        return "RUNNING"

    looks: list[Path] = []
    outcome, _, said = run(lambda folder: None, status=status)
    assert outcome["rounds"] == 7
    first, second = said
    assert first.startswith("waiting for 'shop' for ")
    assert "its process does not answer: look there with tacit status KIT" in first
    assert "it is computing, or a person must answer: run tacit status KIT there and at 'bank'" in second


def test_a_lead_that_says_nothing_is_named(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "SILENCE", 0.2)

    def status(folder: Path) -> str:
        looks.append(folder)
        if len(looks) > 60:
            ends(folder)
        return "RUNNING"

    looks: list[Path] = []
    _, _, said = run(lambda folder: write_progress(folder, 3, 1.0), status=status)
    assert len(said) == 1
    assert said[0].startswith("nothing was heard of 'bank', which leads, for 0 s: look there with tacit status KIT")


def test_a_refusal_ends_the_run(run: Callable[..., Any]) -> None:
    outcome, admin, said = run(lambda folder: write_outcome(folder, {"refused": "shop refused"}), ends)
    assert (outcome["refused"], admin.submitted, said) == ("shop refused", 1, [])


def test_a_job_that_still_runs_is_looked_after_and_not_handed_in_again(run: Callable[..., Any]) -> None:
    outcome, admin, _ = run(left=("old",))
    assert (outcome["rounds"], admin.submitted, admin.aborted) == (3, 0, [])


def test_of_jobs_that_were_left_one_goes_on_at_most(run: Callable[..., Any]) -> None:
    _, admin, _ = run(left=("old", "older"))
    assert (admin.submitted, admin.aborted) == (0, ["older"])


def test_a_job_goes_on_while_the_server_does_not_answer_for_a_while(run: Callable[..., Any]) -> None:
    answers = iter([RunError("the server does not answer"), None, None])

    def status(folder: Path) -> str:
        answer = next(answers)
        if answer is not None:
            raise answer
        ends(folder)
        return "RUNNING"

    outcome, admin, said = run(lambda folder: None, status=status)
    assert (outcome["rounds"], admin.submitted, admin.aborted) == (7, 1, [])
    assert said == ["the server does not answer: going on in 0 s"]


def test_it_gives_up_after_its_patience(run: Callable[..., Any]) -> None:
    with pytest.raises(RunError, match=r"nothing went on for 0 s .disk full.: go on later with --resume"):
        run(lambda folder: write_fault(folder, "disk full"), patience=0.0)


def test_a_session_takes_no_settings_from_the_folder_a_user_is_in(
    kit: Callable[[str], Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLARE walks through all folders below, which takes a second where there are many, and believes what it finds."""
    from nvflare.fuel.f3.comm_config import CommConfigurator
    from nvflare.fuel.utils.config_service import ConfigService

    from tacit.federation import flare

    (tmp_path / "work" / "below").mkdir(parents=True)
    (tmp_path / "work" / "below" / "comm_config.json").write_text('{"allow_adhoc_conns": true}')
    monkeypatch.chdir(tmp_path / "work")
    found: list[object] = []
    monkeypatch.setattr(flare, "new_secure_session", lambda *_, **__: found.append(CommConfigurator().get_config()))
    server = kit("server")
    write_admin(server)
    ConfigService.reset()
    try:
        CommConfigurator.reset()
        flare.AdminSession(server)
        assert found == [None]
    finally:
        ConfigService.reset()
        CommConfigurator.reset()

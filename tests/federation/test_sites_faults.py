"""A site whose disk is full interrupts a run, which then goes on; nobody refused it, and nothing is released twice."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import FaultError, RunError
from tacit.federation import journal as shelf_module
from tacit.federation.protocol import Answered, Interrupted, Reason, Refused, Shape
from tacit.federation.site import RunLock
from tests.federation.loopback import Loopback
from tests.federation.test_sites_star import CASES, Counting, coef, job_text, write_files

RUN = "run-00000001"


class FullDisk:
    """Stands for the writing of files: refuses the nth of one party."""

    def __init__(self, real: Callable[..., None], party: str, at: int) -> None:
        self.real, self.party, self.left = real, party, at

    def __call__(self, path: Path, write: object, **options: bool) -> None:
        if f"/{self.party}/" in str(path) and "/journal/" in str(path):
            self.left -= 1
            if self.left == 0:
                raise FaultError(f"cannot write {path}") from OSError(errno.ENOSPC, "No space left on device")
        self.real(path, write, **options)


@pytest.mark.parametrize("party", ["party0", "party2"])
@pytest.mark.parametrize("parts", ["plain", "masks", "private shares"])
def test_a_full_disk_interrupts_and_the_run_goes_on_to_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: str, party: str
) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", **CASES[parts])
    Loopback(files, tmp_path / "calm").run(text)
    real = shelf_module.write_atomically
    for at in (1, 2):
        loop = Loopback(files, tmp_path / f"sites{at}")
        monkeypatch.setattr(shelf_module, "write_atomically", FullDisk(real, party, at))
        with pytest.raises(FaultError, match=f"party '{party}': its disk refused to write"):
            loop.run(text)
        assert loop.sites[party].handle(Shape(), "party0") == Interrupted(reason=Reason.NOT_OPEN)
        loop.run(text)  # the same processes go on
        for name in files:
            got, wanted = (coef(tmp_path / where / name / RUN, name) for where in (f"sites{at}", "calm"))
            np.testing.assert_array_equal(got, wanted)


class Failing(Counting):
    """A gate that cannot take the second release down at first."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = True

    def released(self, run: str, number: int, digest: str) -> None:
        if number == 2 and self.fails:
            self.fails = False
            raise FaultError("cannot write releases.jsonl")
        super().released(run, number, digest)


def test_a_release_that_could_not_be_taken_down_is_taken_down_before_it_leaves(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    gate = Failing()
    loop = Loopback(files, tmp_path / "sites", {"party1": gate})
    text = job_text(files, "flare")
    with pytest.raises(FaultError, match="party1"):
        loop.run(text)
    sent = [one.answered for one in loop.carried if one.name == "party1" and isinstance(one.answered, Answered)]
    assert [reply.message.round for reply in sent] == [1]
    assert list(gate.seen) == [1]
    loop.restart()
    loop.run(text)
    assert sorted(gate.seen) == list(range(1, len(gate.seen) + 1))
    assert all(len(digests) == 1 for digests in gate.seen.values())


def test_a_refusal_outweighs_a_fault(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    said_by = {"party1": Interrupted(reason=Reason.DISK), "party2": Refused(reason=Reason.REFUSED)}
    for name, said in said_by.items():
        loop.sites[name].handle = lambda *_, said=said: said  # type: ignore[method-assign]
    with pytest.raises(RunError, match="party 'party2': it was asked") as caught:
        loop.run(job_text(files, "flare"))
    assert not isinstance(caught.value, FaultError)


def test_one_process_of_a_site_works_on_a_run(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    folder = tmp_path / "sites" / "party1" / RUN
    folder.mkdir(parents=True)
    hold = "import sys; from pathlib import Path; from tacit.federation.site import RunLock\n"
    hold += "held = RunLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FaultError, match="another process there still works on this run"):
            loop.run(job_text(files, "flare"))
        with pytest.raises(FaultError):
            RunLock(folder)
        other.kill()
    loop.run(job_text(files, "flare"))
    assert (folder / "model" / "party1.json").is_file()

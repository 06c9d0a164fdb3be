"""Files with other rows in another order: a joint job aligns them privately, and trains what a plain join would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.errors import RunError
from tacit.federation.protocol import Answer, Begin, Match, Step
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import coef

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")


def write_files(folder: Path) -> dict[str, Path]:
    rng = np.random.default_rng(1)
    files, scores = {}, {}
    for k, name in enumerate(("bank", "shop", "phone")):
        ids = rng.permutation(90)[:75]
        values = rng.normal(size=75)
        lines = ["customer,x" + (",y" if k == 0 else "")]
        for i, x in zip(ids, values, strict=True):
            scores.setdefault(i, 0.0)
            lines.append(f"c{i},{float(x)!r}" + (f",{int(x + rng.normal() > 0)}" if k == 0 else ""))
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join(lines) + "\n")
    return files


def job_text(files: dict[str, Path], engine: str) -> str:
    lines = [f'[job]\nengine = "{engine}"']
    for k, (name, path) in enumerate(files.items()):
        lines.append(f'[[party]]\nname = "{name}"\nid = "customer"' + ('\nlabel = "y"' if k == 0 else ""))
        lines += [] if engine == "flare" else [f'data = "{path}"']
    return "\n".join(lines) + "\n"


def test_a_joint_job_trains_on_the_common_rows(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    job = tmp_path / "job.toml"
    job.write_text(job_text(files, "in-process"))
    assert main(["train", str(job), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare"))
    for name in files:
        got = coef(tmp_path / "sites" / name / "run-00000001", name)
        np.testing.assert_allclose(got, coef(tmp_path / "one", name), rtol=0, atol=1e-10)


def test_a_run_that_goes_on_is_not_aligned_again(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.round == 2:
            raise ConnectionError

    loop.disturb = stop
    with pytest.raises(ConnectionError):
        loop.run(job_text(files, "flare"))
    loop.disturb = lambda *_: None
    loop.restart()
    before = len(loop.carried)
    loop.run(job_text(files, "flare"))
    assert any(isinstance(one.asked, Match) for one in loop.carried[:before])
    assert not any(isinstance(one.asked, Match) for one in loop.carried[before:])


def test_a_broken_alignment_begins_again_and_a_changed_file_is_noticed(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop, seen = Loopback(files, tmp_path / "sites"), []

    def stop(caller: str, name: str, request: Step) -> None:
        seen.append(type(request))
        if seen.count(Match) == 15:
            raise ConnectionError

    loop.disturb = stop
    with pytest.raises(ConnectionError):
        loop.run(job_text(files, "flare"))
    loop.disturb = lambda caller, name, request: 1 / 0 if isinstance(request, Begin) else None
    loop.restart()
    with pytest.raises(ZeroDivisionError):
        loop.run(job_text(files, "flare"))
    files["shop"].write_text(files["shop"].read_text().replace("\nc", "\nd", 1))
    loop.restart()
    with pytest.raises(RunError, match="shop"):
        loop.run(job_text(files, "flare"))


def test_what_is_wrong_with_data_stays_with_its_owner(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = files["shop"].read_text().splitlines()
    files["shop"].write_text("\n".join([*text, text[1].replace("c", "c", 1), "c777,0"]) + "\n")
    repeated = text[1].split(",")[0]
    loop = Loopback(files, tmp_path / "sites")
    with pytest.raises(RunError, match="'shop': it stopped; tacit status there says why") as caught:
        loop.run(job_text(files, "flare"))
    assert repeated not in str(caught.value)
    assert repeated in (tmp_path / "sites/shop/run-00000001/problem.txt").read_text()

"""Files with other rows in another order: a joint job aligns them privately, and trains what a plain join would."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tacit.alignment import Alignment, align
from tacit.cli.main import main
from tacit.errors import RunError
from tacit.federation.protocol import Answer, Match, Numbers, Shape, Step
from tacit.files import read_json
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import coef

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")


OWN_ROWS = 75  # of each party


def write_files(folder: Path) -> dict[str, Path]:
    rng = np.random.default_rng(1)
    files, scores = {}, {}
    for k, name in enumerate(("bank", "shop", "phone")):
        ids = rng.permutation(90)[:OWN_ROWS]
        values = rng.normal(size=OWN_ROWS)
        lines = ["customer,x" + (",y" if k == 0 else "")]
        for i, x in zip(ids, values, strict=True):
            scores.setdefault(i, 0.0)
            lines.append(f"c{i},{float(x)!r}" + (f",{int(x + rng.normal() > 0)}" if k == 0 else ""))
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join(lines) + "\n")
    return files


def with_a_stranger(positions: Numbers) -> Numbers:
    """Places of common rows in a party's list, one of them replaced by that of a row that is not common."""
    moved = positions.array().copy()
    moved[0] = min(set(range(OWN_ROWS)) - set(moved.tolist()))
    return Numbers.of(moved)


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
        np.testing.assert_array_equal(got, coef(tmp_path / "one", name))


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


class DiedError(Exception):
    """A process was killed."""


def matched(loop: Loopback, text: str) -> list[Match]:
    """Run until the sites say how many rows they have; what was asked about ids."""
    before = len(loop.carried)

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Shape):
            raise DiedError

    loop.disturb = stop
    with pytest.raises(DiedError):
        loop.run(text)
    return [one.asked for one in loop.carried[before:] if isinstance(one.asked, Match)]


def rows(loop: Loopback, name: str) -> np.ndarray:
    return Alignment.read(loop.folder / name / "run-00000001" / "alignment.npz").rows


def common(loop: Loopback, files: dict[str, Path]) -> list[list[str]]:
    """The ids of the common rows at each site, in their order."""
    held = {name: [line.split(",")[0] for line in path.read_text().split()[1:]] for name, path in files.items()}
    return [[held[name][row] for row in rows(loop, name)] for name in files]


@pytest.mark.parametrize("before", [True, False])
def test_matching_killed_anywhere_goes_on_and_ends_with_the_plain_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """Everybody dies, before or after a site answered: no key is drawn again, and only the last pieces come again."""
    monkeypatch.setattr("tacit.federation.leads.align", partial(align, chunk=20))
    files = write_files(tmp_path)
    text = job_text(files, "flare")
    calm = Loopback(files, tmp_path / "calm")
    asked = len(matched(calm, text))
    join = set.intersection(*({line.split(",")[0] for line in p.read_text().split()[1:]} for p in files.values()))
    assert asked > 40
    for number in range(1, asked, 5):
        loop, seen = Loopback(files, tmp_path / f"{number}"), [0]

        def kill(caller: str, name: str, request: Step, *_: object, at: int = number, seen: list = seen) -> None:
            seen[0] += isinstance(request, Match)
            if isinstance(request, Match) and seen[0] == at:
                raise DiedError

        loop.disturb, loop.after = (kill, lambda *_: None) if before else (lambda *_: None, kill)
        with pytest.raises(DiedError):
            loop.run(text)
        done, loop.after = len(loop.carried), lambda *_: None
        loop.restart()
        again = matched(loop, text)
        assert len(again) <= asked - sum(isinstance(one.asked, Match) for one in loop.carried[:done]) + len(files)
        first, *others = common(loop, files)
        assert set(first) == join
        assert all(other == first for other in others)
        for name in files:
            folder = loop.folder / name / "run-00000001"
            assert read_json(folder / "matching.json") == {"tries": 1}
            assert not list((folder / "matching-state").glob("*"))
            assert not (folder / "matching-answers").exists()


def test_matching_begins_anew_where_a_site_lost_its_part_or_has_other_ids(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare")
    for number, lost in enumerate((True, False)):
        loop, seen = Loopback(files, tmp_path / str(number)), []

        def stop(caller: str, name: str, request: Step, seen: list = seen) -> None:
            seen.append(type(request))
            if seen.count(Match) == 8:
                raise DiedError

        loop.disturb = stop
        with pytest.raises(DiedError):
            loop.run(text)
        folder = loop.folder / "shop" / "run-00000001" / "matching-state"
        assert list(folder.glob("*"))
        assert all(oct(path.stat().st_mode)[-3:] == "600" for path in folder.glob("*"))  # the key is in it
        if lost:
            shutil.rmtree(folder)
        else:
            files["shop"].write_text(files["shop"].read_text().replace("\nc", "\nd", 1))
        loop.restart()
        assert any(one.step == "size" for one in matched(loop, text))
        first, *others = common(loop, files)
        assert all(other == first for other in others)
        assert read_json(loop.folder / "shop" / "run-00000001" / "matching.json") == {"tries": 2}


def test_a_changed_file_is_noticed_after_matching(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    matched(loop, job_text(files, "flare"))
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

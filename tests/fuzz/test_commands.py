"""The command line on changed files: it does its work, or says in one line why not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.budget import SHARDS, bounded_memory, limited, seeds
from tests.fuzz.mutate import VALUES, Mutator
from tests.fuzz.runs import KINDS, Answer, Trained, check_refusal, job_text, tacit, trained, write_tables
from tests.fuzz.test_jobs import WORDS

READING = ("report", "verify", "predict", "explain", "resume", "watch")


def command(verb: str, run: Trained, folder: Path, random: Random) -> Answer:
    """Call a verb on a copy of a run."""
    data = [run.folder / name for name in run.data]
    if verb == "report":
        return tacit("report", folder, "--out", folder / "page.html")
    if verb == "verify":
        return tacit("verify", folder)
    if verb == "predict":
        return tacit("predict", folder, *data)
    if verb == "explain":
        party = random.choice([(), ("--party", "shop"), ("--json",)])
        return tacit("explain", folder, *data, *party)
    if verb == "watch":
        return tacit("watch", folder)
    return tacit("train", run.folder / "job.toml", "--out", folder, "--resume", "--quiet")


def judge(answer: Answer, verb: str) -> None:
    """Done, a verdict, or a refusal of one line."""
    if answer.code == 0:
        assert "Traceback" not in answer.err, answer
    elif verb == "verify" and answer.code == 1 and "does NOT agree" in answer.out:
        assert answer.err == "", answer
    else:
        check_refusal(answer)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_commands_on_a_run_with_a_changed_file(shard: int, tmp_path: Path) -> None:
    done = 0
    with bounded_memory():
        for seed in seeds("runs", shard):
            mutator = Mutator(seed)
            verb = mutator.random.choice(READING)
            # A page with pictures takes a second; that of a private run has few.
            run = trained("private" if verb == "report" and seed % 5 else mutator.random.choice(KINDS))
            folder = tmp_path / "run"
            shutil.copytree(run.run, folder)
            name = mutator.random.choice(sorted(run.files()))
            content = run.files()[name]
            changed = mutator.json(content) if name.endswith(".json") else mutator.content(content)
            (folder / name).write_bytes(changed)
            with limited():
                answer = command(verb, run, folder, mutator.random)
            done += answer.code == 0
            try:
                judge(answer, verb)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {verb} with {name} of {run.kind}: {changed[:3000]!r}") from error
            shutil.rmtree(folder)
    assert done > 0


@pytest.mark.parametrize("shard", range(SHARDS))
def test_commands_on_changed_jobs_and_tables(shard: int, tmp_path: Path) -> None:
    done = 0
    with bounded_memory():
        for seed in seeds("commands", shard):
            mutator = Mutator(seed)
            kind = mutator.random.choice(KINDS)
            folder = tmp_path / "job"
            folder.mkdir()
            write_tables(folder, kind)
            _spoil(folder, kind, mutator)
            verb = mutator.random.choice(("train", "train", "plan"))
            more = ("--out", folder / "run", "--quiet") if verb == "train" else ()
            with limited():
                answer = tacit(verb, folder / "job.toml", *more)
            done += answer.code == 0
            try:
                judge(answer, verb)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {verb} of {kind}") from error
            if verb == "train" and answer.code:
                assert not os.path.exists(folder / "run" / "result.json"), seed
            shutil.rmtree(folder)
    assert done > 0


def _spoil(folder: Path, kind: str, mutator: Mutator) -> None:
    """Change a table, or the job."""
    import tomllib

    text = job_text(kind)
    (folder / "job.toml").write_text(text)
    if mutator.random.randrange(2):
        path = mutator.random.choice(sorted(folder.glob("*.csv")))
        path.write_bytes(mutator.table(path.read_bytes()))
        return
    values = [value for value in [*VALUES, *WORDS] if value != 10**9]  # so many rounds take their time
    (folder / "job.toml").write_bytes(mutator.toml(tomllib.loads(text), values))

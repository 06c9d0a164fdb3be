"""A run over FLARE whose server was turned: it rewrites, forges, replays, reorders and reflects, and swaps cards.

The server has its own keys, every TLS key that the kit maker could have kept, and passes every message on. What it
changes is refused by the site that gets it and asked for again; the model is the one of a single process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs tacit[flare]")

from tacit.federation.identity import OwnKeys
from tacit.federation.kit import Kit
from tacit.federation.members import Members, introduce
from tacit.federation.project import Federation, init
from tests.federation import test_sites_star
from tests.federation.live import SOURCE, Process, environment, free_port
from tests.federation.test_joint_live import in_process
from tests.federation.test_sites_star import coef

pytestmark = pytest.mark.slow
NAMES = ("bank", "shop", "firm")
HOOK = Path(__file__).parent / "turned_hook"
ON_REQUESTS = ("flip", "speak as another", "speak as nobody", "made up", "replay a request", "raise the number")
NO_SEAL = "ask without a seal"  # FLARE itself refuses the call, as there is no such method any more
ON_REPLIES = ("answer with the question", "answer with an old answer", "flip an answer", "answer in clear")


@dataclass
class Federated:
    """A federation with a turned server."""

    place: Path
    kits: dict[str, Kit]
    turned: Path
    files: dict[str, Path]
    processes: dict[str, Process]

    def plan(self, *attacks: str) -> None:
        (self.turned / "made").unlink(missing_ok=True)
        (self.turned / "plan").write_text("\n".join(attacks))

    def made(self) -> list[str]:
        made = self.turned / "made"
        return made.read_text().splitlines() if made.exists() else []

    def train(self, names: tuple[str, ...] = NAMES) -> tuple[int, str, str]:
        """Hand a job of these parties in; exit code, what was said, and the run."""
        files = {name: self.files[name] for name in names}
        (self.place / "job.toml").write_text(test_sites_star.job_text(files, "flare"))
        command = [sys.executable, "-m", "tacit.cli.main", "train", str(self.place / "job.toml")]
        command += ["--kit", str(self.kits["server"].path)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240, check=False)
        said = done.stdout + done.stderr
        return done.returncode, said, said.split("run ", 1)[1].split(":")[0].split(")")[0]

    def refusals(self) -> int:
        """Lines of the sites' own logs about messages that were not taken."""
        text = "".join(self.processes[name].log() for name in NAMES)
        return (
            text.count("was refused: ") + text.count("did not answer under its seal") + text.count("is confirmed here")
        )


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federated]:
    place = tmp_path_factory.mktemp("turned")
    files = dict(zip(NAMES, test_sites_star.write_files(place).values(), strict=True))
    made = init(Federation("credit", "bank", "localhost", NAMES, free_port()), place / "kits")
    introduce(made)
    turned = place / "attacks"
    turned.mkdir()
    hooked = {"PYTHONPATH": os.pathsep.join([str(HOOK), SOURCE]), "TACIT_TEST_TURNED": str(turned)}
    running = Federated(place, {kit.name: kit for kit in made}, turned, files, {})
    try:
        for kit in made:
            if kit.role == "server":
                running.processes[kit.name] = Process.start(kit, variables=hooked)
                continue
            kit.keep(accept="always")
            running.processes[kit.name] = Process.start(kit, "--data", str(files[kit.name]))
        for process in running.processes.values():
            assert process.wait_for("ready:"), process.text()
        yield running
    finally:
        for process in reversed(running.processes.values()):
            process.stop()


def test_what_a_turned_server_changes_is_refused_and_the_model_is_the_same(
    federated: Federated, tmp_path: Path
) -> None:
    attacks = (*ON_REQUESTS, *ON_REPLIES, NO_SEAL)
    federated.plan(*attacks)
    code, said, run = federated.train()
    assert code == 0, said + federated.processes["bank"].log()[-3000:]
    assert sorted(federated.made()) == sorted(attacks)
    assert federated.refusals() >= len(attacks)
    one = in_process(tmp_path, test_sites_star.job_text(federated.files, "in-process"))
    for name in NAMES:
        assert coef(federated.kits[name].jobs / run, name).tolist() == coef(one, name).tolist()


@pytest.mark.parametrize("attack", ["swap the card", "swap the key of the process"])
def test_a_swapped_card_or_key_ends_the_run_before_anything_is_asked(federated: Federated, attack: str) -> None:
    before = {name: OwnKeys.of(federated.kits[name]).card for name in NAMES}
    federated.plan(attack)
    code, said, run = federated.train(NAMES[:2])
    assert set(federated.made()) == {attack}
    assert code == 1, said
    assert "its key is not the confirmed one, or nobody confirmed it: tacit federation members KIT shows both" in said
    assert not list(federated.kits["shop"].jobs.glob(f"{run}/model/*"))
    members = Members(federated.kits["bank"])
    assert all(members.card(name) == before[name] for name in NAMES[1:])  # nothing that was confirmed has changed

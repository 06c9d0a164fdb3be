"""The pages, and the blocks of code in them.

| block | what the tests do with it |
|---|---|
| `python` | run it; the blocks of a page follow on each other, those of README.md stand alone |
| `sh` | run every `tacit ...` line; other commands are in `NOT_RUN`, with a reason |
| `toml` | write it to the file that its first line names, and read it as a job |
| `text` | look for every line in what the commands above it printed; ... stands for anything |
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {DOCS / "reference" / name for name in ("cli.md", "job.md", "python.md", "certificate.md")}
GALLERY = sorted((DOCS / "gallery").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted(set(DOCS.rglob("*.md")) - GENERATED)]

NOT_RUN = {
    "make demo": "sets up .venv from a package registry; `tacit demo` is run by tests/cli/test_demo.py",
    "make test": "runs all tests, this one included",
    "tacit train credit.toml --dask tls://scheduler:8786 --dask-tls certificates": (
        "needs a cluster with certificates; one on loopback is in tests/cluster/test_tls.py"
    ),
    "tacit answer runs/credit --party shop --data shop.csv --peers parties.toml "
    "--token-file callers.txt --host 0.0.0.0 --cert shop.pem --key shop-key.pem": "runs until it is stopped: "
    "tests/service/test_processes.py starts and stops it",
    "tacit ask runs/credit --data bank-new.csv --token-file tokens.txt --from shop=https://shop.example:8443 "
    "phone=https://phone.example:8443 water=https://water.example:8443": "asks other machines: "
    "tests/service/test_processes.py asks processes on this one",
}
NO_CODE = ("{toctree}",)  # blocks that are directives of the site


@dataclass(frozen=True)
class Block:
    """One block: its language, its text and the line it starts on."""

    language: str
    text: str
    line: int


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page but directives."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.S | re.M)
    blocks = [Block(match[1].strip(), match[2], text[: match.start()].count("\n") + 2) for match in found]
    return [block for block in blocks if block.language not in NO_CODE]


def commands_of(block: Block) -> list[str]:
    """The commands of a block of shell, without comments."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    return [command for line in lines if (command := re.sub(r"\s+#.*$", "", line).strip())]


FOLLOWED = DOCS / "how-to" / "three-organisations.md"
NOT_RUN |= {
    command: "needs a running federation: tests/federation/test_how_to.py follows the page"
    for block in blocks_of(FOLLOWED)
    if block.language == "sh"
    for command in commands_of(block)
}


def load_script(path: Path) -> ModuleType:
    """Import a script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

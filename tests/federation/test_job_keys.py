"""Every key of a job, in one process and between organisations: it works in both, or there is a reason. The table in
docs/how-to/job-files.md is made here, from small jobs that are run.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import InputError, TacitError
from tacit.job.sections import SECTION_KEYS
from tacit.training import run_job
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "job-files.md"
ROWS = 60
YES = "yes"
RANGES = "{ 'x?' = { low = -3, high = 3 } }"


def job(split: str = "features", *, top: str = "", sections: str = "", party: str = "", others: str = "") -> str:
    """A job of three parties; `party` is added to the first, and `others` to the rest."""
    graph = '[graph]\nkind = "ring"\n' if split == "samples" and "[graph]" not in sections else ""
    text = f'[job]\nsplit = "{split}"\nengine = "ENGINE"\n{top}\n{sections}\n{graph}'
    for number, name in enumerate(("a", "b", "c")[: 2 if "TWO" in sections else 3]):
        label = 'label = "y"\n' if split == "samples" or number == 0 else ""
        text += f'[[party]]\nname = "{name}"\nDATA_{name}\n{label}{others if number else party}\n'
    return text.replace("#TWO", "")


PLAIN = '[encode]\nscale = "none"\n'
TREES = '[model]\nkind = "trees"\n'
PRIVATE = f"[privacy]\nepsilon = 4\n{PLAIN}"
NODES = {"split": "samples", "top": "rounds = 3"}
DUAL = f'[model]\nmethod = "dual"\n{PLAIN}[privacy]\nepsilon = 4\n[privacy.options]\n'
PDML = f'[model]\nmethod = "pdml"\n{PLAIN}[privacy]\nepsilon = 4\nlabel_epsilon = 2\n[privacy.options]\n'


def sampled(sections: str = "", **more: str) -> str:
    return job(**{**NODES, "sections": sections if "scale" in sections else sections + PLAIN, **more})


EXAMPLES: dict[str, str] = {
    "job.name": job(top='name = "x"'),
    'job.split = "samples"': sampled(),
    "job.rounds": job(top="rounds = 5"),
    "job.tol": job(top="tol = 1e-2"),
    "job.seed": job(top="seed = 4"),
    "job.secure_aggregation": job(top="secure_aggregation = true"),
    "job.memory": job(top='memory = "2GB"', sections=PLAIN),
    "job.holdout": job(top="holdout = 0.2"),
    "job.holdout, samples": sampled(top="rounds = 3\nholdout = 0.2"),
    "job.holdout, one protected party": job(top="holdout = 0.2", sections=PRIVATE + "#TWO"),
    "job.holdout, several protected parties": job(top="holdout = 0.2", sections=PRIVATE),
    'job.evaluation = "private"': job(top='holdout = 0.2\nevaluation = "private"', sections=PRIVATE + "#TWO"),
    'job.evaluation = "exact", protected rows': job(top='holdout = 0.2\nevaluation = "exact"', sections=PRIVATE + "#TWO"),
    "job.share_evaluation": job(top="holdout = 0.2\nshare_evaluation = false"),
    'model.kind = "trees"': job(top="rounds = 3", sections=TREES),
    "model.loss": job(sections='[model]\nloss = "hinge"\nalpha = 0.1'),
    "model.quantile": job(top="rounds = 3", sections=f'{TREES}loss = "quantile"\nquantile = 0.5'),
    "model.classes": job(top="rounds = 3", sections=f'{TREES}loss = "softmax"\nclasses = 3', party='label = "y3"'),
    "model.penalty": job(sections='[model]\npenalty = "l1"\nalpha = 0.01'),
    "model.alpha": job(sections="[model]\nalpha = 0.01"),
    "model.fit_intercept": job(sections="[model]\nfit_intercept = false"),
    "model.method": job(sections='[model]\nmethod = "averaged"\nalpha = 0.1'),
    "model.rho": job(sections='[model]\nmethod = "averaged"\nalpha = 0.1\nrho = 0.5'),
    "model.published": sampled(f'[model]\nmethod = "dual"\npublished = true\n{PLAIN}[privacy]\nepsilon = 4\n'),
    'model.terms = "spline"': job(sections='[model]\nterms = "spline"'),
    'model.terms = "auto"': job(sections='[model]\nterms = "auto"'),
    "search": job(sections="[search]\nalphas = 2\nfolds = 2"),
    "graph.kind": sampled('[graph]\nkind = "star"\n'),
    "graph.edges": sampled('[graph]\nedges = [["a", "b"], ["b", "c"]]\n'),
    "encode.scale": job(sections='[encode]\nscale = "range"'),
    "encode.rare": job(sections="[encode]\nrare = 2"),
    "encode.most": job(sections="[encode]\nmost = 5"),
    "encode.pairs": job(sections=f'[encode]\npairs = 2\n[model]\nterms = "spline"\n[privacy]\nepsilon = 4', party=f"columns = {RANGES}", others=f"columns = {RANGES}"),
    "encode.codebook": job(sections='[encode.codebook]\nx1 = { low = -3, high = 3 }'),
    "privacy.epsilon": job(sections=PRIVATE),
    "privacy.delta": job(sections=f"[privacy]\nepsilon = 4\ndelta = 1e-7\n{PLAIN}"),
    "privacy.unit": job(sections=f'[privacy]\nepsilon = 4\nunit = "person"\n{PLAIN}'),
    "privacy.label_epsilon": job(sections=f"[privacy]\nepsilon = 4\nlabel_epsilon = 2\n{PLAIN}"),
    "privacy.row_norm": job(sections=f"[privacy]\nepsilon = 4\nrow_norm = 3\n{PLAIN}"),
    "privacy.accountant": job(sections=f'[privacy]\nepsilon = 4\naccountant = "pld"\n{PLAIN}'),
    "privacy.protect": job(sections=f'[privacy]\nepsilon = 4\nprotect = "everyone"\n{PLAIN}'),
    "privacy.mechanism": job(sections=f'[privacy]\nepsilon = 8\nmechanism = "shares"\n{PLAIN}'),
    "privacy.predictions": job(sections=f'[privacy]\nepsilon = 4\nlabel_epsilon = 2\npredictions = "label-holder"\n{PLAIN}'),
    "privacy.neighbours": job(sections=f'[privacy]\nepsilon = 4\nneighbours = "zero-out"\n{PLAIN}'),
    "privacy.coef_norm": job(sections=f'[privacy]\nepsilon = 8\nmechanism = "shares"\ncoef_norm = 2\n{PLAIN}'),
    "privacy.refit": job(sections=f"[privacy]\nepsilon = 4\nrefit = true\n{PLAIN}"),
    "privacy.label_norm": sampled(f'[model]\nloss = "squared"\n{PLAIN}[privacy]\nepsilon = 4\nlabel_norm = 2\n'),
    "privacy.epsilon_by_party": sampled(f"[privacy]\nepsilon = 4\nepsilon_by_party = {{ a = 4, b = 5, c = 6 }}\n{PLAIN}"),
    "privacy.honest": sampled(f"[privacy]\nepsilon = 4\nhonest = 2\n{PLAIN}", top="secure_aggregation = true"),
    "privacy.noise_seed": job(sections=f"[privacy]\nepsilon = 4\nnoise_seed = 1\n{PLAIN}"),
    "privacy.options.alphas": sampled(f"{DUAL}alphas = 0.1"),
    "privacy.options.rounds": sampled(f"{DUAL}rounds = 2", top=""),
    "privacy.options.loss_weight": sampled(f"{DUAL}loss_weight = 100"),
    "privacy.options.noise": sampled(f'{DUAL.replace("dual", "primal")}noise = "gaussian"'),
    "privacy.options.last_round": sampled(f'{DUAL.replace("dual", "primal")}last_round = "primal"'),
    "privacy.options.objective_noise": sampled(f"{PDML}objective_noise = 0.1"),
    "privacy.options.first_sd": sampled(f"{PDML}first_sd = 1"),
    "privacy.options.decay": sampled(f"{PDML}decay = 0.9"),
    "privacy.options.label_epsilons": "",
    "privacy.options.randomized": "",
    "party.name": job(),
    "party.data": job(),
    "party.id": job(party='id = "id"', others='id = "id"'),
    "party.label": job(),
    "party.positive": job(party="positive = 1"),
    "party.features": job(party='features = ["x1"]'),
    "party.columns": job(party=f"columns = {RANGES}"),
    "party.width": "",
}


@cache
def files(folder: Path) -> dict[str, Path]:
    return {}


def test_print() -> None:
    keys = {f"{section}.{key}" for section, own in SECTION_KEYS.items() for key in own}
    assert keys

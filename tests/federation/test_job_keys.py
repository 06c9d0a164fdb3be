"""Every key of a job, in one process and between organisations: it works in both, or there is a reason. The table in
docs/how-to/job-files.md is made here, from small jobs that are run.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tacit.errors import TacitError
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


EACH = ", ".join(f"{name} = {[2.0] * ROWS}" for name in "abc")
OWN_EPSILONS = PDML.replace("label_epsilon = 2\n", "") + f"label_epsilons = {{ {EACH} }}"


def sampled(sections: str = "", **more: str) -> str:
    return job(**{**NODES, "sections": sections if "scale" in sections else sections + PLAIN, **more})


EXAMPLES: dict[str, str] = {
    "job.name": job(top='name = "x"'),
    'job.split = "samples"': sampled(),
    "job.rounds": job(top="rounds = 5"),
    "job.tol": job(top="tol = 1e-2"),
    "job.seed": job(top="seed = 4"),
    "job.secure_aggregation": job(top="secure_aggregation = true"),
    "job.memory": job(top='memory = "2GB"', sections=PLAIN).replace('"y"', '"label"'),
    "job.holdout": job(top="holdout = 0.2"),
    "job.holdout_after": job(top="holdout_after = 1", party='holdout_column = "x1"'),
    "party.holdout_column": job(top="holdout_after = 1", party='holdout_column = "x1"'),
    "party.holdout_data": job(party="HELD_a")
    .replace('name = "b"\n', 'name = "b"\nHELD_b\n')
    .replace('name = "c"\n', 'name = "c"\nHELD_c\n'),
    "job.holdout, samples": sampled(top="rounds = 3\nholdout = 0.2"),
    "job.holdout, one protected party": job(top="holdout = 0.2", sections=PRIVATE + "#TWO"),
    "job.holdout, several protected parties": job(top="holdout = 0.2", sections=PRIVATE),
    'job.evaluation = "private"': job(top='holdout = 0.2\nevaluation = "private"', sections=PRIVATE + "#TWO"),
    'job.evaluation = "exact", protected rows': job(
        top='holdout = 0.2\nevaluation = "exact"', sections=PRIVATE + "#TWO"
    ),
    "job.share_evaluation": job(top="holdout = 0.2\nshare_evaluation = false"),
    'model.kind = "trees"': job(top="rounds = 3", sections=TREES),
    "model.loss": job(sections='[model]\nloss = "hinge"\nalpha = 0.1'),
    "model.quantile": job(top="rounds = 3", sections=f'{TREES}loss = "quantile"\nquantile = 0.5'),
    "model.quantile, linear": job(sections='[model]\nloss = "quantile"\nquantile = 0.5\nalpha = 0.1'),
    "model.power": job(sections='[model]\nloss = "tweedie"\npower = 1.5\nalpha = 0.1'),
    "model.dispersion": job(sections='[model]\nloss = "negative_binomial"\ndispersion = 0.5\nalpha = 0.1'),
    'model.dispersion = "estimate"': job(
        sections='[model]\nloss = "negative_binomial"\ndispersion = "estimate"\nalpha = 0.1'
    ),
    "model.class_weight": job(sections='[model]\nclass_weight = "balanced"'),
    "model.class_weight, samples": sampled('[model]\nclass_weight = "balanced"\n'),
    "model.class_weight, several classes": job(sections='[model]\nclass_weight = "balanced"\nclasses = 3'),
    "model.costs": job(sections="[model]\ncosts = { false_positive = 1, false_negative = 5 }"),
    "model.l1_ratio": job(sections='[model]\npenalty = "elastic_net"\nl1_ratio = 0.5\nalpha = 0.01'),
    "model.classes": job(top="rounds = 3", sections=f'{TREES}loss = "softmax"\nclasses = 3'),
    "model.penalty": job(sections='[model]\npenalty = "l1"\nalpha = 0.01'),
    "model.alpha": job(sections="[model]\nalpha = 0.01"),
    "model.fit_intercept": job(sections="[model]\nfit_intercept = false"),
    "model.method": job(sections='[model]\nmethod = "averaged"\nalpha = 0.1'),
    "model.rho": job(sections='[model]\nmethod = "averaged"\nalpha = 0.1\nrho = 0.5'),
    "model.published": sampled(
        f'[model]\nmethod = "dual"\npublished = true\nfit_intercept = false\n{PLAIN}[privacy]\nepsilon = 4\n'
    ),
    'model.terms = "spline"': job(sections='[model]\nterms = "spline"'),
    'model.terms = "auto"': job(sections='[model]\nterms = "auto"'),
    "search.alphas": job(sections="[search]\nalphas = [0.1, 0.01]"),
    "search.folds": job(sections="[search]\nalphas = 2\nfolds = 2"),
    "search.rule": job(sections='[search]\nalphas = 2\nfolds = 2\nrule = "one-standard-error"'),
    "graph.kind": sampled('[graph]\nkind = "star"\n'),
    "graph.edges": sampled('[graph]\nedges = [["a", "b"], ["b", "c"]]\n'),
    "encode.scale": job(sections='[encode]\nscale = "range"'),
    "encode.rare": job(sections="[encode]\nrare = 2"),
    "encode.most": job(sections="[encode]\nmost = 5"),
    "encode.pairs": job(
        sections='[encode]\npairs = 2\n[model]\nterms = "spline"\n[privacy]\nepsilon = 4',
        party=f"columns = {RANGES}",
        others=f"columns = {RANGES}",
    ),
    "encode.codebook": job(sections="[encode.codebook]\nx1 = { low = -3, high = 3 }"),
    "privacy.epsilon": job(sections=PRIVATE),
    "privacy.delta": job(sections=f"[privacy]\nepsilon = 4\ndelta = 1e-7\n{PLAIN}"),
    "privacy.unit": job(sections=f'[privacy]\nepsilon = 4\nunit = "person"\n{PLAIN}'),
    "privacy.label_epsilon": job(sections=f"[privacy]\nepsilon = 4\nlabel_epsilon = 2\n{PLAIN}"),
    "privacy.row_norm": job(sections=f"[privacy]\nepsilon = 4\nrow_norm = 3\n{PLAIN}"),
    "privacy.accountant": job(sections=f'[privacy]\nepsilon = 4\naccountant = "pld"\n{PLAIN}'),
    "privacy.protect": job(sections=f'[privacy]\nepsilon = 4\nprotect = "everyone"\n{PLAIN}'),
    "privacy.mechanism": job(sections=f'[privacy]\nepsilon = 8\nmechanism = "shares"\n{PLAIN}'),
    "privacy.predictions": job(
        sections=f'[privacy]\nepsilon = 4\nlabel_epsilon = 2\npredictions = "label-holder"\n{PLAIN}'
    ),
    "privacy.neighbours": job(sections=f'[privacy]\nepsilon = 4\nneighbours = "zero-out"\n{PLAIN}'),
    "privacy.coef_norm": job(sections=f'[privacy]\nepsilon = 8\nmechanism = "shares"\ncoef_norm = 2\n{PLAIN}'),
    "privacy.refit": job(sections=f"[privacy]\nepsilon = 4\nrefit = true\n{PLAIN}"),
    "privacy.label_norm": sampled(f'[model]\nloss = "squared"\n{PLAIN}[privacy]\nepsilon = 4\nlabel_norm = 2\n'),
    "privacy.epsilon_by_party": sampled(
        f"[privacy]\nepsilon = 4\nepsilon_by_party = {{ a = 4, b = 5, c = 6 }}\n{PLAIN}"
    ),
    "privacy.honest": sampled(f"[privacy]\nepsilon = 4\nhonest = 2\n{PLAIN}", top="secure_aggregation = true"),
    "privacy.noise_seed": job(sections=f"[privacy]\nepsilon = 4\nnoise_seed = 1\n{PLAIN}"),
    "privacy.options.alphas": sampled(f"{DUAL}alphas = 0.1"),
    "privacy.options.rounds": sampled(f"{DUAL}rounds = 2", top=""),
    "privacy.options.loss_weight": sampled(f"{DUAL}loss_weight = 100"),
    "privacy.options.noise": sampled(f'{DUAL.replace("dual", "primal")}noise = "gaussian"'),
    "privacy.options.last_round": sampled(f'{DUAL.replace("dual", "primal")}last_round = "primal"'),
    "privacy.options.objective_noise": sampled(f"{PDML}objective_noise = 0.1"),
    "privacy.options.first_sd": sampled(f"{PDML}first_sd = 20"),
    "privacy.options.decay": sampled(f"{PDML}decay = 0.9"),
    "privacy.options.label_epsilons": sampled(OWN_EPSILONS),
    "privacy.options.randomized": sampled(f"{OWN_EPSILONS}\nrandomized = true"),
    "party.name": job(),
    "party.data": job(),
    "party.id": job(party='id = "id"', others='id = "id"'),
    "party.label": job(),
    "party.positive": job(party="positive = 1"),
    "party.delimiter": job(party='delimiter = ","'),
    "party.numbers": job(party='numbers = "1,234.56"'),
    "party.features": job(party='features = ["x1"]'),
    "party.columns": job(party=f"columns = {RANGES}"),
    "party.weight": job(party='weight = "w"'),
    "party.offset": job(party='offset = "w"'),
    "party.exposure": job(party='exposure = "w"', sections='[model]\nloss = "poisson"\nalpha = 0.1'),
    "party.width": job(party="width = 2", others="width = 2", sections=PRIVATE).replace('"y"', '"label"'),
}


NOTES = {  # where the key itself means something else
    "party.data": "left out: each site names its own file in its site.toml",
    "privacy.noise_seed": "refused, unless a site allows it: everybody could take the noise off",
    "job.engine": '`engine = "flare"` is what this column is about',
}
EXAMPLES["job.engine"] = job()
GROWN = {"learning_rate": 0.2, "max_leaf_nodes": 4, "max_depth": 2, "min_samples_leaf": 5, "l2_regularization": 1}
GROWN |= {"max_bins": 16, "validation_fraction": 0.3, "n_iter_no_change": 2, "min_gain_se": 0.5}
EXAMPLES |= {
    f"trees.{key}": job(top="rounds = 2", sections=f"{TREES}[trees]\n{key} = {value}") for key, value in GROWN.items()
}


def write_files(folder: Path, text: str) -> dict[str, Path]:
    """Files of three parties, of the format and with the labels that a job needs."""
    folder.mkdir(parents=True)
    rng, found = np.random.default_rng(0), {}
    samples, several = 'split = "samples"' in text, "classes" in text
    sparse = "width" in text or "memory" in text
    for name in ("a", "b", "c"):
        values, noise = rng.normal(size=(ROWS, 2)).round(3), rng.normal(size=ROWS)
        labels = (values[:, 0] + noise > 0).astype(int) + (several and (np.arange(ROWS) % 3 == 0))
        found[name] = folder / f"{name}{'.svm' if sparse else '.csv'}"
        if sparse:
            lines = [f"{label} 1:{x} 2:{z}" for label, (x, z) in zip(labels, values, strict=True)]
        else:
            held = samples or name == "a"
            by_id, more = 'id = "id"' in text, '"w"' in text and held
            lines = [("id," if by_id else "") + "x1,x2" + (",y" if held else "") + (",w" if more else "")]
            rows = zip(range(ROWS), values, labels, strict=True)
            lines += [(f"{k}," if by_id else "") + f"{x},{z}" + (f",{y}" if held else "") for k, (x, z), y in rows]
            lines[1:] = [line + (f",{1 + k % 3}" if more else "") for k, line in enumerate(lines[1:])]
        found[name].write_text("\n".join(lines) + "\n")
    return found


def outcome(text: str, folder: Path, engine: str) -> str:
    """Whether a job ends with a model, or the line that refuses it."""
    files = write_files(folder / "files", text)
    for name, path in files.items():
        text = text.replace(f"HELD_{name}", f'holdout_data = "{path}"')
        text = text.replace(f"DATA_{name}", f'data = "{path}"' if engine == "in-process" else "")
    text = text.replace("ENGINE", engine)
    try:
        if engine == "in-process":
            (folder / "job.toml").write_text(text)
            run_job(folder / "job.toml", folder / "run", note=lambda _: None)
        else:
            loop = Loopback(files, folder / "sites")
            loop.run(text)
    except TacitError as error:
        told = sorted(path.read_text() for path in folder.glob("sites/*/*/problem.txt"))
        return plain(told[0] if told else str(error))
    return YES


def plain(line: str) -> str:
    """A refusal as the table has it: without the name of the file, what is to be done left out."""
    line = re.sub(r"^(job\.toml|the job|job): ", "", line.strip())
    return line.split(": ")[0] if len(line) > 100 else line


def key_of(title: str) -> str:
    return title.split(" = ")[0].split(",")[0]


def table(folder: Path) -> list[str]:
    lines = ["| key | in one process | between organisations |", "|---|---|---|"]
    for number, (title, text) in enumerate(sorted(EXAMPLES.items())):
        found = [outcome(text, folder / str(number) / engine, engine) for engine in ("in-process", "flare")]
        if key_of(title) in NOTES:
            found[1] = NOTES[key_of(title)]
        lines.append(f"| `{title}` | {found[0]} | {found[1]} |")
    return lines


def test_every_key_is_in_the_table() -> None:
    keys = {f"{section}.{key}" for section, own in SECTION_KEYS.items() for key in own}
    assert {key_of(title) for title in EXAMPLES} == keys


def test_the_table_of_keys_is_true(tmp_path: Path) -> None:
    made = table(tmp_path)
    page = PAGE.read_text()
    assert "\n".join(made) in page, "\n".join(["the page has another table than this:", *made])


if __name__ == "__main__":
    import tempfile

    print("\n".join(table(Path(tempfile.mkdtemp()))))

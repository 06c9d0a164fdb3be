from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.job import GraphSpec, Job, ModelSection, PartySpec, read_job
from tacit.job.sections import PRIVACY_KEYS
from tacit.privacy.request import PaperOptions, Privacy
from tacit.run.prepare import encode_job_data, match_job_files
from tacit.text import is_control

PARTIES = """
[[party]]
name = "bank"
data = "bank.csv"
id = "customer"
label = "default"
[[party]]
name = "phone"
data = "in/phone.csv"
id = "customer"
features = ["calls"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "credit.toml"
    path.write_bytes(text.encode())
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read_job(write(folder, text))
    message = str(caught.value)
    assert message.startswith("credit.toml: ")
    assert len(message.splitlines()) == 1
    return message


def test_defaults(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, PARTIES))
    assert job == Job(
        name="credit",
        parties=(
            PartySpec("bank", "bank.csv", "customer", "default"),
            PartySpec("phone", "in/phone.csv", "customer", None, ("calls",)),
        ),
        folder=tmp_path,
    )
    assert job.model == ModelSection("logistic", "l2", 1e-4, True, "auto", "auto")
    assert (job.split, job.engine, job.rounds, job.tol, job.seed) == (
        "features",
        "in-process",
        200,
        1e-4,
        None,
    )


def test_every_key(tmp_path: Path) -> None:
    job = read_job(
        write(
            tmp_path,
            '[job]\nname = "a b"\nsplit = "features"\nengine = "flare"\nrounds = 7\ntol = 1\nseed = 0\n'
            '[model]\nloss = "squared"\npenalty = "l1"\nalpha = 2\nfit_intercept = false\n'
            'method = "averaged"\nrho = 3\n' + PARTIES,
        )
    )
    assert (job.name, job.engine, job.rounds, job.tol, job.seed) == ("a b", "flare", 7, 1.0, 0)
    assert job.model == ModelSection("squared", "l1", 2.0, False, "averaged", 3.0)
    assert isinstance(job.model.alpha, float)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "there is no party: add a [[party]] section"),
        ("party = 3", "there is no party"),
        ("party = [3]", "party 1 = 3 is not allowed: it must be a section"),
        ('[party]\nname = "a"', "write [[party]] above each party"),
        ("[modle]" + PARTIES, 'unknown section "modle" (did you mean "model"?): allowed are "job", "model"'),
        (
            "[model]\nalhpa = 1" + PARTIES,
            'unknown key "model.alhpa" (did you mean "alpha"?): allowed are "kind"',
        ),
        (PARTIES + 'feature = ["x"]', 'unknown key "party 2.feature" (did you mean "features"?)'),
        (PARTIES + 'file = "x.csv"', 'unknown key "party 2.file" (did you mean "data"?)'),
        ("job = 3" + PARTIES, "job = 3 is not allowed: it must be a section, [job]"),
        ("[job]\nrounds = 0" + PARTIES, "job.rounds = 0 is not allowed: it must be a whole number from 1"),
        ("[job]\nrounds = true" + PARTIES, "job.rounds = True is not allowed"),
        ("[job]\nrounds = 2.0" + PARTIES, "job.rounds = 2.0 is not allowed"),
        ('[job]\ntol = "small"' + PARTIES, 'job.tol = "small" is not allowed: it must be a number'),
        ("[job]\ntol = nan" + PARTIES, "job.tol = nan is not allowed"),
        (
            "[job]\nseed = -1" + PARTIES,
            "job.seed = -1 is not allowed: it must be a whole number from 0 to 4294967295",
        ),
        ("[job]\nseed = 0x" + "f" * 5000 + PARTIES, "job.seed = a very long int is not allowed"),
        ("[job]\nname" + ".a" * 1500 + " = 1" + PARTIES, "has a dotted key of more than 16 parts"),
        ('[job]\nname = ""' + PARTIES, 'job.name = "" is not allowed: it must be text'),
        ("[model]\nalpha = -1" + PARTIES, "model.alpha = -1 is not allowed"),
        ("[model]\nalpha = 1" + "0" * 400 + PARTIES, "model.alpha = 1000"),
        ("[model]\nloss = 3" + PARTIES, "model.loss = 3 is not allowed: it must be text in quotes"),
        (
            "[model]\nfit_intercept = 1" + PARTIES,
            "model.fit_intercept = 1 is not allowed: it must be true or",
        ),
        (
            "[model]\nrho = 0" + PARTIES,
            'model.rho = 0 is not allowed: it must be a number above 0, or "auto"',
        ),
        ('[job]\nsplit = "samples"' + PARTIES, 'party "phone" has no label: with split = "samples" each party has'),
        ("[model]\npublished = true" + PARTIES, 'model.published is not used with split = "features"'),
        ('[job]\nsplit = "rows"' + PARTIES, 'job.split = "rows" is not allowed: it must be "features"'),
        ("privacy = 3" + PARTIES, "privacy = 3 is not allowed: it must be a section, [privacy]"),
        ("[privacy]\nepsilom = 1" + PARTIES, 'unknown key "privacy.epsilom" (did you mean "epsilon"?)'),
        ("[privacy]\nepsilon = 0" + PARTIES, 'privacy.epsilon = 0 is not allowed: it must be a number above 0, or "n'),
        ("[privacy]\nepsilon = inf" + PARTIES, "privacy.epsilon = inf is not allowed"),
        ("[privacy]\nepsilon = true" + PARTIES, "privacy.epsilon = True is not allowed"),
        ('[privacy]\nepsilon = "1"' + PARTIES, 'privacy.epsilon = "1" is not allowed'),
        ('[privacy]\nepsilon = "none"' + PARTIES, "give label_epsilon one, or remove [privacy]"),
        ("[privacy]\ndelta = 1" + PARTIES, "[privacy]: delta=1.0 is not allowed: it must be below 1"),
        ("[privacy]\ndelta = 0" + PARTIES, "privacy.delta = 0 is not allowed: it must be a number above 0"),
        ('[privacy]\nunit = "row"' + PARTIES, 'privacy.unit = "row" is not allowed: it must be one of "record", "per'),
        ("[privacy]\nlabel_epsilon = -1" + PARTIES, "privacy.label_epsilon = -1 is not allowed"),
        ("[privacy]\nrow_norm = 0" + PARTIES, "privacy.row_norm = 0 is not allowed: it must be a number above 0, or"),
        ("[privacy]\nrow_norm = {}" + PARTIES, "privacy.row_norm = {} is not allowed"),
        ("[privacy]\nrow_norm = { bank = -1 }" + PARTIES, "privacy.row_norm = {'bank': -1} is not allowed"),
        ("[privacy]\nrow_norm = { phon = 1 }" + PARTIES, 'names "phon" (did you mean "phone"?), which is no party: '),
        ('[privacy]\naccountant = "rdp"' + PARTIES, 'privacy.accountant = "rdp" is not allowed: it must be one of "g'),
        ('[privacy]\nprotect = ["all"]' + PARTIES, "privacy.protect = ['all'] is not allowed: it must be one of \"o"),
        ('[privacy]\nmechanism = ""' + PARTIES, 'privacy.mechanism = "" is not allowed: it must be text in quotes'),
        ('[privacy]\npredictions = "me"' + PARTIES, 'privacy.predictions = "me" is not allowed: it must be one of "'),
        ('[privacy]\nneighbours = "add"' + PARTIES, 'privacy.neighbours = "add" is not allowed: it must be one of "r'),
        ("[privacy]\ncoef_norm = 0.0" + PARTIES, "privacy.coef_norm = 0.0 is not allowed: it must be a number above 0"),
        ("[privacy]\nrefit = 1" + PARTIES, "privacy.refit = 1 is not allowed: it must be true or false"),
        ("[privacy]\nnoise_seed = -1" + PARTIES, "privacy.noise_seed = -1 is not allowed: it must be a whole number"),
        ("[graph]" + PARTIES, '[graph] is not used with split = "features": remove it'),
        ("[job]\nrounds == 3" + PARTIES, "not valid TOML: Invalid value (at line 2"),
        ("x = " + "[" * 3000, "more than 16 brackets inside each other"),
        ("x = " + "1" * 5000, "not valid TOML"),
        ('[[party]]\ndata = "a.csv"', "party 1 has no name"),
        ('[[party]]\nname = "a"', "party 1 has no data"),
        (PARTIES + '[[party]]\nname = "Bank"\ndata = "b.csv"', 'named "bank" and "Bank"'),
        (
            PARTIES.replace("label", "id2").replace("id2 = ", "# "),
            'no party has the label (parties: "bank", "ph',
        ),
        (PARTIES + 'label = "churn"', 'parties "bank", "phone" both have a label'),
        (
            PARTIES.replace('["calls"]', "[]"),
            "party 2.features = [] is not allowed: it must be a list of column",
        ),
        (PARTIES.replace('["calls"]', '["a", "a"]'), "none twice"),
        (PARTIES.replace('["calls"]', '"calls"'), 'party 2.features = "calls" is not allowed'),
        (PARTIES.replace('["calls"]', '["customer"]'), 'the id "customer" is among its features'),
        (PARTIES.replace('"default"', '"customer"'), '"customer" is both id and label'),
    ],
)
def test_refusals(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refusal(tmp_path, text)


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a\\\\b", "con", "NUL.txt", "x.", " ", "a" * 101])
def test_names_that_no_file_may_have(tmp_path: Path, name: str) -> None:
    assert "it names a file" in refusal(tmp_path, PARTIES.replace('"bank"', f'"{name}"'))


@pytest.mark.parametrize("name", ["Société Générale", "bank-2", "b", "a.b_c"])
def test_names_that_a_file_may_have(tmp_path: Path, name: str) -> None:
    assert read_job(write(tmp_path, PARTIES.replace('"bank"', f'"{name}"'))).parties[0].name == name


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no job file"):
        read_job(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot open the job file: it is a folder"):
        read_job(tmp_path)
    path = tmp_path / "latin.toml"
    path.write_bytes(b'[job]\nname = "Soci\xe9t\xe9"\n')
    with pytest.raises(InputError, match="save it as UTF-8"):
        read_job(path)


def test_load_job_data(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "bank.csv").write_text("customer,age,default\n2,20,0\n1,10,1\n")
    (tmp_path / "in" / "phone.csv").write_text("customer,calls,city\n1,5,x\n2,6,y\n3,7,z\n")
    job = read_job(write(tmp_path, '[encode]\nscale = "none"' + PARTIES))
    data = encode_job_data(job, match_job_files(job))
    assert [shard.features.tolist() for shard in data.shards] == [[[10], [20]], [[5], [6]]]
    assert data.labels.tolist() == [1, 0]
    assert data.counts.dropped == {"bank": 0, "phone": 1}

    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "job.toml").write_text(job.to_toml(run))
    again = read_job(run / "job.toml")
    moved = encode_job_data(again, match_job_files(again))
    assert moved.labels.tolist() == [1, 0]


def test_absolute_paths_stay_when_moved(tmp_path: Path) -> None:
    absolute = str(tmp_path / "bank.csv")
    job = Job("j", (PartySpec("bank", absolute, label="y"),), folder=tmp_path)
    assert f'data = "{absolute}"' in job.to_toml(tmp_path / "elsewhere")


PRIVACY = """
[privacy]
epsilon = 1
delta = 1e-6
unit = "person"
label_epsilon = 3
row_norm = { bank = 1, phone = 2.5 }
accountant = "pld"
protect = "everyone"
mechanism = "gram"
predictions = "label-holder"
neighbours = "zero-out"
coef_norm = 4
refit = true
label_norm = 9
epsilon_by_party = { bank = 2, phone = 0.5 }
noise_seed = 7
"""


def test_every_key_of_privacy(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, PRIVACY + PARTIES))
    assert job.privacy == Privacy(
        epsilon=1.0, delta=1e-6, unit="person", label_epsilon=3.0, row_norm={"bank": 1.0, "phone": 2.5},
        accountant="pld", protect="everyone", mechanism="gram", predictions="label-holder", neighbours="zero-out",
        coef_norm=4.0, refit=True, label_norm=9.0, epsilon_by_party={"bank": 2.0, "phone": 0.5}, noise_seed=7,
    )  # fmt: skip
    assert set(PRIVACY_KEYS) == {field.name for field in dataclasses.fields(Privacy)}
    split = '[privacy]\nepsilon = 2\nmechanism = "shares"\nhonest = 2\n'  # it goes with shares alone
    assert read_job(write(tmp_path, split + PARTIES)).privacy == Privacy(epsilon=2.0, mechanism="shares", honest=2)
    assert set(PRIVACY_KEYS) == {*tomllib.loads(PRIVACY)["privacy"], "honest"}


def test_privacy_is_what_was_written_and_nothing_without_the_section(tmp_path: Path) -> None:
    assert read_job(write(tmp_path, PARTIES)).privacy is None
    assert read_job(write(tmp_path, "[privacy]" + PARTIES)).privacy == Privacy()
    alone = read_job(write(tmp_path, '[privacy]\nepsilon = "none"\nlabel_epsilon = 1' + PARTIES))
    assert alone.privacy == Privacy(epsilon=None, label_epsilon=1.0)
    assert alone.holder == "bank"


# TOML text cannot hold lone surrogates, so no job that was read has any.
text = st.text(
    st.characters(exclude_categories=["Cs"]).filter(lambda one: not is_control(one)), min_size=1, max_size=12
)
number = st.floats(0, allow_infinity=False)
columns = st.lists(text, min_size=4, max_size=7, unique=True)
models = st.builds(
    ModelSection,
    text,
    text,
    number,
    st.booleans(),
    text,
    st.just("auto") | st.floats(0, exclude_min=True, allow_infinity=False),
)

positive = st.floats(0, exclude_min=True, allow_infinity=False)


@st.composite
def requests(draw: Any, names: list[str]) -> Privacy:
    epsilon = draw(st.none() | positive)
    return Privacy(
        epsilon=epsilon,
        delta=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        unit=draw(st.sampled_from(["record", "person"])),
        label_epsilon=draw(positive if epsilon is None else st.none() | positive),
        row_norm=draw(positive | st.dictionaries(st.sampled_from(names), positive, min_size=1)),
        refit=draw(st.booleans()),
        noise_seed=draw(st.none() | st.integers(0, 2**63 - 1)),
    )


@st.composite
def jobs(draw: Any) -> Job:
    names = draw(st.lists(st.from_regex(r"[a-z]{4}[0-9]{1,3}", fullmatch=True), min_size=1, max_size=3, unique=True))
    parties = []
    for position, name in enumerate(names):
        key, label, *features = draw(columns)
        parties.append(
            PartySpec(
                name,
                draw(text),
                draw(st.sampled_from([None, key])),
                label if position == 0 else None,
                draw(st.sampled_from([None, tuple(features)])),
            )
        )
    return Job(
        name=draw(text),
        parties=tuple(parties),
        model=draw(models),
        engine="in-process",
        rounds=draw(st.integers(1, 10**6)),
        tol=draw(number),
        seed=draw(st.none() | st.integers(0, 2**32 - 1)),
        privacy=draw(st.none() | requests(names)),
        secure_aggregation=draw(st.sampled_from([False, True, "auto"])),
    )


@settings(max_examples=100, deadline=None)
@given(job=jobs())
def test_round_trip(job: Job, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "round.toml"
    path.write_bytes(job.to_toml().encode())
    again = read_job(path)
    assert (again.name, again.parties, again.model, again.privacy) == (job.name, job.parties, job.model, job.privacy)
    assert again.secure_aggregation == job.secure_aggregation
    assert again.to_toml() == job.to_toml()


def test_sample_split_is_read_and_written_back(tmp_path: Path) -> None:
    nodes = "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nlabel = "ill"\n' for name in "abc")
    for graph in ('kind = "star"', 'edges = [["a", "b"], ["c", "b"]]'):
        (tmp_path / "one.toml").write_text(f'[job]\nsplit = "samples"\n[graph]\n{graph}\n' + nodes)
        job = read_job(tmp_path / "one.toml")
        assert (job.rounds, job.tol) == (1000, 1e-12)  # as in HorizontalClassifier
        assert job.make_graph().edges == (((0, 1), (0, 2)) if "star" in graph else ((0, 1), (1, 2)))
        (tmp_path / "two.toml").write_text(job.to_toml())
        again = read_job(tmp_path / "two.toml")
        assert (again.graph, again.parties, again.model) == (job.graph, job.parties, job.model)


names_of_nodes = st.sampled_from(["a", "b", "c"])
several = st.lists(positive, min_size=1, max_size=4).map(tuple)
options = st.builds(
    PaperOptions,
    alphas=st.none() | positive | several | st.dictionaries(names_of_nodes, positive | several, min_size=1),
    rounds=st.none() | st.integers(1, 10**9),
    loss_weight=st.none() | positive,
    noise=st.sampled_from([None, "gaussian", "norm"]),
    last_round=st.sampled_from([None, "dual", "primal"]),
    objective_noise=st.none() | number,
    first_sd=st.none() | positive,
    decay=st.floats(0, 1, exclude_min=True),
    label_epsilons=st.none() | st.dictionaries(names_of_nodes, several, min_size=1),
    randomized=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(options=st.none() | options)
def test_options_of_the_papers_are_read_and_written_back(
    options: PaperOptions | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    job = Job(
        name="wards",
        parties=tuple(PartySpec(name, f"{name}.csv", None, "ill", None) for name in "abc"),
        split="samples",
        graph=GraphSpec("ring"),
        privacy=Privacy(),
        options=options,
    )
    path = tmp_path_factory.getbasetemp() / "options.toml"
    path.write_text(job.to_toml())
    assert read_job(path).options == options
    assert read_job(path).to_toml() == job.to_toml()

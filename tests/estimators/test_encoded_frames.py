"""Curves, text, categories, dates and blanks in the estimators: the same models as jobs and scikit-learn give."""

from __future__ import annotations

import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import check_estimator

from tacit import (
    HorizontalClassifier,
    HorizontalRegressor,
    InputError,
    Privacy,
    VerticalClassifier,
    VerticalRegressor,
    load,
    run_job,
)
from tacit.columns import encoder
from tacit.columns.curves import FourierColumn, SplineColumn
from tacit.columns.encoder import CategoryColumn, NumberColumn
from tacit.data.read import frame_table

TERMS = ["linear", "spline"]
RANGES = {"bill": (0, 5000), "calls": (0, 40), "since": (datetime.date(2015, 1, 1), datetime.date(2025, 1, 1))}
DATES = 'since = { kind = "date" }'
LISTS = {"plan": ["flat", "prepaid", "other"]}


def tables(rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, Any]:
    """Frames of a bank and a phone company with text, blanks, codes and dates, and labels that bend in them."""
    rng = np.random.default_rng(seed)
    age, bill = rng.integers(18, 90, rows).astype(float), rng.lognormal(5, 1, rows)
    town, plan = rng.choice(["Basel", "Bern", "Chur"], rows), rng.choice(["flat", "prepaid", "family"], rows)
    since = np.datetime64("2016-01-01") + rng.integers(0, 3000, rows)
    bank = pd.DataFrame({"age": age, "town": town, "sector": pd.Categorical(rng.integers(1, 4, rows))})
    phone = pd.DataFrame({"bill": bill, "plan": plan, "since": since, "calls": rng.integers(0, 40, rows)})
    score = 2 * np.sin(age / 9) + (town == "Bern") + np.log(bill) - 5 - (plan == "flat") + rng.normal(size=rows)
    bank.loc[rng.random(rows) < 0.05, "age"] = np.nan
    bank.loc[rng.random(rows) < 0.05, "town"] = None
    phone.loc[rng.random(rows) < 0.05, "bill"] = np.nan
    return bank, phone, np.where(score > 0, "yes", "no")


BANK, PHONE, Y = tables()
NUMBERS = PHONE[["calls"]].assign(more=np.arange(400.0) % 17)
BOTH = {"bank": BANK, "phone": PHONE}


def matrices(model: Any, X: dict[str, Any]) -> Any:
    """The encoded matrices side by side."""
    parts = [model._new_shards(X)[k].features for k in range(len(X))]
    return np.hstack([part.toarray() if sparse.issparse(part) else part for part in parts])


# --- scikit-learn's own checks ------------------------------------------------------------------------


@pytest.mark.usefixtures("usual_class_weights")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        VerticalClassifier(terms="spline"),
        VerticalRegressor(terms="spline"),
        # so exact that weights and repeated rows give the same seven digits
        HorizontalClassifier(terms="spline", parties=2, tol=1e-15),
        HorizontalRegressor(terms="spline", parties=2, tol=1e-15),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scikit_learn_s_own_checks_with_curves(estimator: Any) -> None:
    results = check_estimator(estimator, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert len(results) > 50


# --- the same as jobs ---------------------------------------------------------------------------------


def write(folder: Path, bank: pd.DataFrame, phone: pd.DataFrame, model: str, more: str = "", keys: str = DATES) -> Path:
    bank.to_csv(folder / "bank.csv", index=False)
    phone.to_csv(folder / "phone.csv", index=False)
    (folder / "job.toml").write_text(
        f'[job]\nname = "credit"\n[model]\n{model}\n{more}\n'
        '[[party]]\nname = "bank"\ndata = "bank.csv"\nlabel = "late"\n'
        '[party.columns]\nsector = { kind = "category" }\n'
        f'[[party]]\nname = "phone"\ndata = "phone.csv"\n[party.columns]\n{keys}\n'
    )
    return folder / "job.toml"


def coef_by_name(run: Path, party: str) -> dict[str, float]:
    found = json.loads((run / "model" / f"{party}.json").read_text())
    return dict(zip(found["columns"], found["coef"], strict=True))


@pytest.mark.parametrize("terms", TERMS)
def test_frames_give_the_model_of_the_job_on_the_same_rows(tmp_path: Path, terms: str) -> None:
    bank, phone = BANK[sorted(BANK)], PHONE[sorted(PHONE)]  # as the job orders them
    run_job(write(tmp_path, bank.assign(late=Y), phone, f'terms = "{terms}"\nalpha = 0.001'), tmp_path / "run")
    model = VerticalClassifier(terms=terms, alpha=1e-3).fit({"bank": bank, "phone": phone}, Y)
    for party, coef in model.coef_by_party_.items():
        names = model.coef_by_party_.columns[model.coef_by_party_.names.index(party)]
        job_coef = coef_by_name(tmp_path / "run", party)
        assert list(names) == list(job_coef)
        np.testing.assert_allclose(coef, list(job_coef.values()), rtol=1e-12, atol=1e-12)


def test_private_curves_are_those_of_the_job_with_the_same_seeded_noise(tmp_path: Path) -> None:
    columns = ["bill", "calls", "plan", "since"]  # as the job orders them: noise depends on the order
    keys = (
        "bill = { low = 0, high = 5000 }\ncalls = { low = 0, high = 40 }\n"
        'plan = { values = ["flat", "prepaid", "other"] }\nsince = { low = 2015-01-01, high = 2025-01-01 }'
    )
    secret = "[privacy]\nepsilon = 2.0\nnoise_seed = 3"
    bank = BANK[["age", "sector", "town"]]
    run_job(write(tmp_path, bank.assign(late=Y), PHONE[columns], 'terms = "spline"', secret, keys), tmp_path / "run")
    model = VerticalClassifier(
        terms="spline", privacy=Privacy(epsilon=2.0, noise_seed=3), ranges=RANGES, categories=LISTS
    ).fit({"bank": bank, "phone": PHONE[columns]}, Y)
    assert isinstance(model.encoders_["phone"].columns[0], FourierColumn)
    assert isinstance(model.encoders_["bank"].columns[0], SplineColumn)
    for party in ("bank", "phone"):
        np.testing.assert_allclose(
            model._parts[("bank", "phone").index(party)].coef,
            list(coef_by_name(tmp_path / "run", party).values()),
            rtol=1e-12,
            atol=1e-12,
        )
    said = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert len(said["assumptions"]) == len(model.certificate_.assumptions)
    assert any("ranges and categories state them" in line for line in model.certificate_.assumptions)
    assert any("the constants of the encoding of bank" in line for line in model.certificate_.does_not_cover)


# --- the same as scikit-learn on the encoded matrices ----------------------------------------------------


@pytest.mark.parametrize("terms", TERMS)
def test_predictions_are_those_of_scikit_learn_on_the_encoded_matrices(terms: str) -> None:
    alpha = 1e-3
    model = VerticalClassifier(terms=terms, alpha=alpha, tol=1e-12).fit(BOTH, Y)
    encoded = matrices(model, BOTH)
    theirs = LogisticRegression(C=1 / (alpha * len(Y)), tol=1e-12, max_iter=20_000).fit(encoded, Y)
    np.testing.assert_allclose(model.predict_proba(BOTH), theirs.predict_proba(encoded), atol=1e-5)
    assert (model.predict(BOTH) == theirs.predict(encoded)).mean() > 0.995


def test_rows_split_between_nodes_are_one_ridge_regression_on_the_encoded_matrix() -> None:
    target = np.sin(BANK["age"].fillna(50).to_numpy() / 9)
    model = HorizontalRegressor(terms="spline", alpha=1e-2, parties=3, graph="ring", tol=1e-14, random_state=0)
    model.fit(BANK, target)
    table = pa.Table.from_pandas(BANK, preserve_index=False)
    encoder = model.encoders_["party 1"]
    encoded = encoder.matrix(frame_table(table, "X"))
    theirs = Ridge(alpha=1e-2 * len(target)).fit(encoded, target)
    np.testing.assert_allclose(model.predict(BANK), theirs.predict(encoded), atol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "sigmoid"])
@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic_net", "nonnegative", "box", "ball"])
def test_every_loss_and_penalty_takes_curves(loss: str, penalty: str) -> None:
    model = VerticalClassifier(loss, penalty, terms="spline", max_rounds=3000, tol=1e-2).fit(BOTH, Y)
    assert model.score(BOTH, Y) > 0.6
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(("loss", "kind"), [("squared", 0), ("huber", 0), ("absolute", 0), ("poisson", 1)])
def test_every_loss_of_regression_takes_curves(loss: str, kind: int) -> None:
    wave = np.sin(BANK["age"].fillna(50).to_numpy() / 9)
    target = np.random.default_rng(0).poisson(np.exp(wave)) if kind else wave
    linear, curve = (
        VerticalRegressor(loss, terms=terms, max_rounds=3000, tol=1e-3).fit(BOTH, target) for terms in TERMS
    )
    assert curve.score(BOTH, target) > linear.score(BOTH, target) + 0.1


@pytest.mark.parametrize(
    ("kind", "loss"), [(HorizontalClassifier, "logistic"), (HorizontalClassifier, "squared_hinge")]
)
def test_both_losses_of_split_rows_take_curves(kind: Any, loss: str) -> None:
    models = [kind(loss, terms=terms, parties=3, graph="ring", random_state=0).fit(BANK, Y) for terms in TERMS]
    assert models[1].score(BANK, Y) > models[0].score(BANK, Y) + 0.05


# --- what stays as it is ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda X: X, pa.Table.from_pandas], ids=["pandas", "arrow"])
def test_numbers_alone_are_used_as_they_are(form: Any) -> None:
    here = VerticalClassifier(alpha=0.1, parties=2).fit(form(NUMBERS), Y)
    plain = VerticalClassifier(alpha=0.1, parties=2).fit(NUMBERS.to_numpy(), Y)
    np.testing.assert_allclose(here.coef_, plain.coef_, rtol=1e-12)  # columns in other places are summed otherwise
    assert here.encoders_ == {}
    np.testing.assert_array_equal(here.predict(form(NUMBERS)), plain.predict(NUMBERS.to_numpy()))
    with pytest.raises(InputError, match="there are no curves: fit with terms='spline'"):
        here.curves()


def test_nan_in_arrays_and_infinity_anywhere_are_refused() -> None:
    X = NUMBERS.to_numpy().astype(float)
    for terms in TERMS:
        for bad in (np.nan, np.inf):
            broken = X.copy()
            broken[3, 1] = bad
            for model in (VerticalClassifier(terms=terms), HorizontalClassifier(terms=terms, parties=2)):
                with pytest.raises(InputError, match=r"(NaN|infinity) in row 3"):
                    model.fit(broken, Y)
        frame = BANK.assign(age=BANK["age"].where(BANK["age"] < 80, np.inf))
        with pytest.raises(InputError, match=r'column "age" has .* infinite values'):
            VerticalClassifier(terms=terms).fit([frame, PHONE], Y)


@pytest.mark.parametrize("kind", [VerticalClassifier, HorizontalClassifier])
def test_sparse_matrices_are_refused_in_one_line(kind: Any) -> None:
    X = sparse.csr_array(NUMBERS.to_numpy())
    for more in ({"terms": "spline"}, {"ranges": {0: (0, 40)}}, {"categories": {"x1": [1, 2]}}):
        with pytest.raises(InputError, match="X is sparse, which is used as it is: give a dense array or a frame for"):
            kind(**more).fit(X, Y)


def test_a_sparse_party_beside_a_frame_stays_as_it_is() -> None:
    X = sparse.csr_array(NUMBERS.to_numpy() / 40)
    model = VerticalClassifier().fit([BANK, X], Y)
    assert list(model.encoders_) == ["party 1"]
    assert model.coef_by_party_.columns[1] == ("x3", "x4")
    assert model.score([BANK, X], Y) > 0.5
    with pytest.raises(InputError, match="party 2 was sparse when the model was fitted"):
        model.predict([BANK, X.toarray()])


# --- columns of every kind ----------------------------------------------------------------------------


def test_every_type_of_column_finds_its_code() -> None:
    model = VerticalClassifier(terms="spline").fit(BOTH, Y)
    kinds = {column.name: type(column) for encoder in model.encoders_.values() for column in encoder.columns}
    assert kinds == {
        "age": SplineColumn, "town": CategoryColumn, "sector": CategoryColumn,
        "bill": SplineColumn, "plan": CategoryColumn, "since": SplineColumn, "calls": SplineColumn,
    }  # fmt: skip
    sector = model.encoders_["bank"].columns[2]
    assert sector.values == ("1", "2", "3")
    lines = VerticalClassifier().fit(BOTH, Y).encoders_["phone"].columns
    assert isinstance(lines[0], NumberColumn)
    assert lines[2].days
    assert lines[2].centre == pytest.approx(PHONE["since"].astype("datetime64[us]").astype("int64").mean() / 86_400e6)


def test_listed_numbers_are_categories_and_others_count_as_other() -> None:
    model = VerticalClassifier(categories={"calls": [1, 2, 3]}, ranges={"more": (0, 10)}).fit([BANK, NUMBERS], Y)
    calls, more = model.encoders_["party 2"].columns
    assert calls.values == ("1", "2", "3")
    assert (more.low, more.high) == (0.0, 10.0)
    table = NUMBERS.assign(calls=1)
    beyond, end = table.assign(more=1e9), table.assign(more=10.0)
    np.testing.assert_array_equal(model.decision_function([BANK, beyond]), model.decision_function([BANK, end]))


def test_new_categories_are_other_and_new_blanks_have_a_place() -> None:
    model = VerticalClassifier(terms="spline").fit(BOTH, Y)
    for new, same in (("Genf", "nowhere"), ("Genf", "other")):
        scores = [model.decision_function({**BOTH, "bank": BANK.assign(town=town)}) for town in (new, same)]
        np.testing.assert_array_equal(*scores)
    blank = PHONE.assign(calls=np.nan)  # there was none in training
    mean = PHONE.assign(calls=PHONE["calls"].mean())
    line, curve = (clone(model).set_params(terms=terms).fit(BOTH, Y) for terms in TERMS)
    np.testing.assert_allclose(
        line.decision_function({**BOTH, "phone": blank}), line.decision_function({**BOTH, "phone": mean}), rtol=1e-12
    )
    assert np.isfinite(curve.decision_function({**BOTH, "phone": blank})).all()


def test_names_and_order_of_new_columns_are_checked() -> None:
    model = VerticalClassifier(terms="spline").fit(BOTH, Y)
    with pytest.raises(InputError, match="phone: column 0 is 'plan', it was 'bill' when fitted"):
        model.predict({**BOTH, "phone": PHONE[["plan", "bill", "since", "calls"]]})
    with pytest.raises(InputError, match="bank has no column 'town'"):
        model.predict({**BOTH, "bank": BANK.rename(columns={"town": "city"})})
    with pytest.raises(InputError, match='column "age" holds "old" in row 1, but the model was trained on numbers'):
        model.predict({**BOTH, "bank": BANK.assign(age="old")})
    one = VerticalClassifier(terms="spline", parties=2).fit(BANK, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        one.predict(BANK.rename(columns={"town": "city"}))


def test_one_frame_is_cut_by_names() -> None:
    whole = pd.concat([BANK, PHONE], axis=1)
    cut = VerticalClassifier(terms="spline", parties=[list(BANK), list(PHONE)]).fit(whole, Y)
    apart = VerticalClassifier(terms="spline").fit([BANK, PHONE], Y)
    np.testing.assert_array_equal(cut.coef_, apart.coef_)
    assert cut.n_features_in_ == 7
    assert list(cut.feature_names_in_) == [*BANK, *PHONE]
    np.testing.assert_array_equal(cut.decision_function(whole), apart.decision_function([BANK, PHONE]))


def test_arrays_are_named_x0_x1_and_wildcards_and_numbers_reach_them() -> None:
    X = np.random.default_rng(0).uniform(size=(200, 4))
    y = X[:, 0] + np.sin(9 * X[:, 3]) > 0.5
    privacy = Privacy(epsilon=2.0, noise_seed=1)
    models = [
        VerticalClassifier(terms="spline", privacy=privacy, ranges=ranges).fit(X, y)
        for ranges in ({"x*": (0, 1)}, {2: (0, 1), 3: (0, 1)}, {"x2": (0, 1), "x3": (0, 1), "x?": (-5, 5)})
    ]
    for model in models:
        np.testing.assert_array_equal(model.coef_by_party_[1], models[0].coef_by_party_[1])


# --- privacy ------------------------------------------------------------------------------------------


def test_the_norm_of_rows_follows_from_the_number_of_columns() -> None:
    def fit(**more: Any) -> Any:
        privacy = Privacy(epsilon=2.0, noise_seed=1, **more)
        return VerticalClassifier(terms="spline", privacy=privacy, ranges=RANGES, categories=LISTS).fit(BOTH, Y)

    model = fit()
    assert model.row_norms_ == {"phone": 2.0}  # the root of 4
    assert model._parts[1].clip.norm == 2.0
    assert np.linalg.norm(model._new_shards(BOTH)[1].features, axis=1) == pytest.approx(2.0)
    assert fit(row_norm=1.5).row_norms_ == {"phone": 1.5}
    assert fit(row_norm={"bank": 1.0, "phone": 3.0}).row_norms_ == {"phone": 3.0}


def test_everyone_protected_and_rows_split_need_ranges_of_all_columns() -> None:
    ranges, lists = {**RANGES, "age": (18, 90)}, {**LISTS, "town": ["Basel", "Bern"], "sector": [1, 2, 3]}
    privacy = Privacy(epsilon=4.0, protect="everyone", predictions="label-holder", noise_seed=1)
    model = VerticalClassifier(terms="spline", privacy=privacy, ranges=ranges, categories=lists).fit(BOTH, Y)
    assert model.row_norms_ == {"bank": 3**0.5, "phone": 2.0}
    assert {column.source for encoder in model.encoders_.values() for column in encoder.columns} == {"job"}
    own = {key: value for key, value in ranges.items() if key == "age"}
    own_lists = {key: lists[key] for key in ("town", "sector")}
    split = HorizontalClassifier(
        terms="spline", parties=2, graph="complete", privacy=Privacy(epsilon=4.0, noise_seed=1), ranges=own
    )
    with pytest.raises(InputError, match=r"lists taken from their rows .* as in categories=\{'town': \[\.\.\.\]\}"):
        split.fit(BANK, Y)
    split.set_params(categories=own_lists).fit(BANK, Y)
    assert set(split.row_norms_.values()) == {3**0.5}


def test_no_constant_is_taken_from_protected_rows() -> None:
    """Rows that are changed in every cell leave the encoder of the protected party as it was."""
    other = PHONE.assign(bill=PHONE["bill"] * 3 + 7, calls=5, plan="none", since=np.datetime64("2020-05-05"))
    encoders = [
        VerticalClassifier(terms="spline", privacy=Privacy(epsilon=2.0), ranges=RANGES, categories=LISTS)
        .fit({"bank": BANK, "phone": phone}, Y)
        .encoders_["phone"]
        for phone in (PHONE, other)
    ]
    assert encoders[0] == encoders[1]


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ("bill", r'"bill" has no range, and curves of protected rows need .* as in ranges=\{\'bill\': \(low, high\)\}'),
        ("plan", r'"plan" holds categories, and a list .* as in categories=\{\'plan\': \[\.\.\.\]\}, or leave it out$'),
        ("since", r'"since" holds dates: give it a range .* ranges=\{\'since\': \(date\(2000, 1, 1\), date\(2030'),
    ],
)
def test_what_protected_rows_lack_is_said_in_python_words(left_out: str, words: str) -> None:
    ranges, lists = dict(RANGES), dict(LISTS)
    ranges.pop(left_out, None)
    lists.pop(left_out, None)
    model = VerticalClassifier(terms="spline", privacy=Privacy(epsilon=1.0), ranges=ranges, categories=lists)
    with pytest.raises(InputError, match=words) as caught:
        model.fit(BOTH, Y)
    assert "\n" not in str(caught.value)
    assert "[party" not in str(caught.value)


def test_blanks_of_protected_lines_are_refused_in_python_words() -> None:
    model = VerticalClassifier(privacy=Privacy(epsilon=1.0))
    with pytest.raises(InputError, match=r"has blanks, .* ranges=\{'bill': \(low, high\)\} \(blanks become its middle"):
        model.fit([BANK, PHONE[["bill", "calls"]]], Y)


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"terms": "cubic"}, "terms='cubic' is unknown: choose one of linear, spline"),
        ({"ranges": {"bill": (9, 1)}}, 'column "bill": low = 9 is not below high = 1'),
        ({"ranges": {"bill": (1, 1)}}, 'column "bill": low = 1 is not below high = 1'),
        ({"ranges": {"bill": (0, 9, "often")}}, r"ranges\['bill'\] has \"often\" after its ends: .* 'repeats'\) where"),
        ({"ranges": {"bill": 9}}, r"ranges\['bill'\]=9 is not allowed: give two numbers or dates"),
        ({"ranges": {"bill": (0, np.nan)}}, r"ranges\['bill'\] has the end nan: give finite numbers"),
        ({"ranges": {"bill": ("0", "9")}}, r"ranges\['bill'\] has the end \"0\""),
        ({"ranges": [("bill", 0, 9)]}, "ranges=.* is not allowed: give them by column"),
        ({"ranges": {"bil": (0, 9)}}, r'ranges names "bil" \(did you mean "bill"\?\), which is no column'),
        ({"ranges": {(1, 2): (0, 9)}}, "ranges has the key .*: keys are names of columns"),
        ({"ranges": {"town": (0, 9)}}, 'column "town" holds ".*" in row 1, but its kind is "number"'),
        ({"ranges": {"since": (0, 9)}}, 'column "since" holds dates: give its range as dates'),
        ({"categories": {"town": ["Bern", " Bern"]}}, r"categories\['town'\] has \"Bern\" twice"),
        ({"categories": {"sector": [1, 2, 1]}}, r"categories\['sector'\] has \"1\" twice"),
        ({"categories": {"town": []}}, r"categories\['town'\] is empty"),
        ({"categories": {"town": "Bern"}}, r"categories\['town'\]=.* is not allowed: give a list"),
        ({"categories": {"twn": ["a"]}}, r'categories names "twn" \(did you mean "town"\?\)'),
        ({"categories": {"bill": ["a"]}, "ranges": {"bill": (0, 1)}}, "'bill' is in both ranges and categories"),
    ],
)
def test_bad_input_is_refused_in_one_line(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        VerticalClassifier(**more).fit(BOTH, Y)
    assert "\n" not in str(caught.value)
    if "since" not in words and "bil" not in words:  # columns of the bank
        with pytest.raises(InputError, match=words):
            HorizontalClassifier(parties=2, **more).fit(BANK, Y)


@pytest.mark.parametrize("terms", TERMS)
def test_tables_that_cannot_be_read_are_refused_in_one_line(terms: str) -> None:
    model = VerticalClassifier(terms=terms)
    cases = [
        ([BANK[:0], PHONE[:0]], "party 1 has no rows"),
        ([BANK, PHONE[[]]], "party 2 has no columns"),
        ([BANK.assign(town=["Bern", 1] * 200), PHONE], 'party "party 1": cannot use its data frame .*column town'),
        ([pd.concat([BANK, BANK], axis=1), PHONE], "party 1 has two columns of the name 'age': rename one"),
        ([BANK, PHONE.assign(since=pd.to_timedelta(np.arange(400), unit="D"))], 'column "since" holds .* duration'),
        ([BANK, PHONE.sample(frac=1, random_state=0)], "party 2 has the rows of party 1 in another order"),
    ]
    for tables_, words in cases:
        with pytest.raises(InputError, match=words) as caught:
            model.fit(tables_, Y[: len(tables_[0])])
        assert "\n" not in str(caught.value)
    with pytest.raises(
        InputError, match='"town" is a category at party "north" and a number at party "south": give it'
    ):
        HorizontalClassifier(terms=terms).fit({"north": BANK, "south": BANK.assign(town=1)}, {"north": Y, "south": Y})


def test_texts_that_would_be_lost_are_refused_in_python_words() -> None:
    names = [f"name {k}" for k in range(400)]
    with pytest.raises(InputError, match=r"nothing of it would be used: .*pandas.to_numeric") as caught:
        VerticalClassifier().fit([BANK.assign(town=names), PHONE], Y)
    assert "kind =" not in str(caught.value)
    amounts = [str(float(v)) for v in range(400)]
    with pytest.raises(InputError, match=r"holds numbers as text: make it numbers \(pandas.to_numeric\)"):
        VerticalClassifier().fit([BANK.assign(town=amounts), PHONE], Y)


@pytest.mark.parametrize("terms", TERMS)
def test_columns_of_one_value_and_of_blanks_alone_change_no_prediction(terms: str) -> None:
    dull = BANK.assign(one=7.0, none=np.nan, same="x", nothing=pd.Series([None] * 400, dtype=object))
    ours = VerticalClassifier(terms=terms, alpha=1e-3, tol=1e-10).fit([dull, PHONE], Y)
    # columns share one height of curves, so that dull ones must be counted for the same model
    theirs = LogisticRegression(C=1 / (1e-3 * len(Y)), tol=1e-10, max_iter=20_000)
    encoded = matrices(ours, {"party 1": dull, "party 2": PHONE})
    theirs.fit(encoded, Y)
    names = [name for own in ours.coef_by_party_.columns for name in own]
    assert all(
        abs(coef) < 1e-6 for name, coef in zip(names, ours.coef_[0], strict=True) if name.split()[0] in ("one", "none")
    )
    np.testing.assert_allclose(ours.predict_proba([dull, PHONE]), theirs.predict_proba(encoded), atol=1e-4)


# --- weights and warm starts ----------------------------------------------------------------------------


@pytest.mark.parametrize("terms", TERMS)
def test_a_row_of_weight_two_counts_as_two_and_one_of_zero_not_at_all(terms: str) -> None:
    weights = np.random.default_rng(0).integers(0, 3, 400)
    again = np.repeat(np.arange(400), weights)
    model = VerticalClassifier(terms=terms, tol=1e-12, max_rounds=1000)
    weighted = clone(model).fit(BOTH, Y, weights)
    repeated = clone(model).fit({"bank": BANK.iloc[again], "phone": PHONE.iloc[again]}, Y[again])
    assert weighted.coef_by_party_.columns == repeated.coef_by_party_.columns
    np.testing.assert_allclose(weighted.decision_function(BOTH), repeated.decision_function(BOTH), atol=1e-4)
    nodes = HorizontalClassifier(terms=terms, parties=2, graph="complete", tol=1e-14, random_state=0)
    one, two = clone(nodes).fit(BANK, Y, weights), clone(nodes).fit(BANK.iloc[again], Y[again])
    np.testing.assert_allclose(one.decision_function(BANK), two.decision_function(BANK), atol=1e-4)


def test_a_warm_start_goes_on_with_curves_also_on_other_rows() -> None:
    model = VerticalClassifier(terms="spline", warm_start=True, tol=1e-8).fit(BOTH, Y)
    cold, coef = model.n_rounds_, model.coef_.copy()
    model.fit(BOTH, Y)
    assert model.n_rounds_ < cold
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)
    bank, phone, y = tables(seed=9)
    model.fit({"bank": bank, "phone": phone}, y)  # other knots, and perhaps other columns
    fresh = VerticalClassifier(terms="spline", tol=1e-8).fit({"bank": bank, "phone": phone}, y)
    np.testing.assert_allclose(
        model.decision_function({"bank": bank, "phone": phone}),
        fresh.decision_function({"bank": bank, "phone": phone}),
        atol=1e-3,
    )
    model.set_params(terms="linear").fit(BOTH, Y)
    with pytest.raises(InputError, match="warm_start=True goes on with the columns of the last fit"):
        model.fit({"bank": BANK[["age"]], "phone": PHONE}, Y)


# --- coefficients and curves ----------------------------------------------------------------------------


def test_coefficients_are_a_list_and_by_name() -> None:
    model = VerticalClassifier(terms="spline").fit(BOTH, Y)
    found = model.coef_by_party_
    assert found.keys() == ("bank", "phone")
    assert isinstance(found, list)
    assert found["phone"] is found[1]
    assert dict(found.items())["bank"] is found[0]
    assert found.columns[0][0] == "age line"
    with pytest.raises(KeyError, match="'shop' is no party: the parties are 'bank', 'phone'"):
        found["shop"]
    frame = found.to_frame()
    assert list(frame.columns) == ["party", "column", "coef"]
    np.testing.assert_array_equal(frame["coef"], model.coef_[0])
    again = pickle.loads(pickle.dumps(model))
    assert again.coef_by_party_.columns == found.columns
    np.testing.assert_array_equal(again.predict(BOTH), model.predict(BOTH))
    listed = VerticalClassifier().fit([BANK, PHONE], Y).coef_by_party_
    assert listed.names == ("party 1", "party 2")


@pytest.mark.parametrize("terms", TERMS)
def test_curves_add_up_to_the_score_against_the_average_row(terms: str) -> None:
    model = VerticalClassifier(terms=terms).fit(BOTH, Y)
    drawn = model.curves()
    assert {party: list(columns) for party, columns in drawn.items()} == {"bank": list(BANK), "phone": list(PHONE)}
    cells, values = drawn["bank"]["town"]
    assert cells.tolist() == ["Basel", "Bern", "Chur", "other", "missing"]
    whole = {"bank": BANK.assign(town="Bern"), "phone": PHONE}
    step = model.decision_function(whole) - model.decision_function({**whole, "bank": BANK.assign(town="Chur")})
    np.testing.assert_allclose(step, values[1] - values[2], atol=1e-12)
    cells, values = drawn["bank"]["age"]
    ages = BANK["age"].dropna()
    assert (cells.min() <= ages.quantile(0.1)) & (cells.max() >= ages.quantile(0.9))
    for at in (0, len(cells) - 1):
        moved = model.decision_function({**BOTH, "bank": BANK.assign(age=cells[at])})
        base = model.decision_function({**BOTH, "bank": BANK.assign(age=cells[0])})
        np.testing.assert_allclose(moved - base, values[at] - values[0], atol=1e-12)


def test_curves_of_protected_rows_are_against_their_own_mean() -> None:
    model = VerticalClassifier(
        terms="spline", privacy=Privacy(epsilon=2.0, noise_seed=1), ranges=RANGES, categories=LISTS
    ).fit(BOTH, Y)
    for _, values in model.curves()["phone"].values():
        assert abs(values.mean()) < 1e-12


@pytest.mark.parametrize("compact", [False, True])
def test_exact_amounts_that_repeat_have_effects_of_their_own(
    compact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "COMPACT_FROM", 0 if compact else 10**9)
    rng = np.random.default_rng(0)
    fees = np.linspace(0.0, 900.0, 16)
    shop = pd.DataFrame({"fee": rng.choice(fees, 400)})
    even = np.searchsorted(fees, shop["fee"]) % 2
    tables = {"bank": pd.DataFrame({"age": rng.integers(18, 90, 400)}), "shop": shop}
    late = rng.logistic(size=400) < 3.0 * (2 * even - 1)
    losses, widths = [], []
    for ends in ((0, 900), (0, 900, "repeats")):
        privacy = Privacy(epsilon=60.0, noise_seed=1)
        model = VerticalClassifier(terms="spline", privacy=privacy, ranges={"fee": ends}).fit(tables, late)
        assert model.certificate_.epsilon(1e-5) == pytest.approx(60.0, rel=1e-6)
        losses.append(log_loss(late, model.predict_proba(tables)))
        widths.append(len(model.coef_by_party_["shop"]))
    assert widths == [16, 48]
    assert losses[1] < losses[0] - 0.1
    np.testing.assert_allclose(
        load(model.save(tmp_path / "run")).predict_proba(tables), model.predict_proba(tables), atol=1e-12
    )
    cells, values = model.curves()["shop"]["fee"][:2]
    moved = [model.decision_function({**tables, "shop": shop.assign(fee=cell)}) for cell in (cells[0], cells[40])]
    kept = np.sign(moved[1] - moved[0]) == np.sign(values[40] - values[0])  # rows far out are shrunk as a whole
    assert kept.all()
    assert np.isfinite(values).all()


def test_curves_of_nodes_are_those_of_their_common_model() -> None:
    model = HorizontalClassifier(terms="spline", parties=2, graph="complete", random_state=0).fit(BANK, Y)
    drawn = model.curves()
    assert list(drawn) == list(BANK)
    np.testing.assert_allclose(expit(model.decision_function(BANK)), model.predict_proba(BANK)[:, 1], atol=1e-12)
    assert drawn["age"][1].std() > 0.1

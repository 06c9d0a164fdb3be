"""Plans of the default mechanism: what was asked is what is certified, and what no theorem covers is refused."""

from __future__ import annotations

import math

import pytest

from tacit import Privacy
from tacit.errors import InputError
from tacit.privacy.verify import verify
from tacit.problem.losses import Softmax
from tests.plans import feature_plan

FORMS = {
    "A": {},
    "A, labels": {"label_epsilon": 1.0},
    "A, classes": {"loss": Softmax(4)},
    "A, counts": {"loss": "poisson"},
    "B": {"refit": True},
    "C": {"protect": "everyone"},
    "C, predictions stay": {"protect": "everyone", "predictions": "label-holder"},
    "zero-out": {"neighbours": "zero-out"},
    "pld": {"accountant": "pld"},
    "person": {"unit": "person"},
    "person, labels": {"unit": "person", "label_epsilon": 0.05},
    "person, B": {"unit": "person", "refit": True},
    "person, B, labels": {"unit": "person", "refit": True, "label_epsilon": 0.04},
    "person, C": {"unit": "person", "protect": "everyone"},
}


def plan(parties=("a", "b", "c", "d"), rows=500, loss="logistic", penalty="l2", fit_intercept=True, **privacy):
    return feature_plan(
        loss=loss, penalty=penalty, alpha=1e-3, fit_intercept=fit_intercept, method="auto", rho="auto", max_rounds=10,
        tol=1e-4, privacy=Privacy(**privacy), party_names=parties, rows=rows, input_bytes=0,
        columns=(4,) * len(parties),
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 4, 8])
def test_what_is_asked_is_certified_and_hardly_less(form, epsilon):
    certificate = plan(epsilon=epsilon, **FORMS[form]).certificate()
    spent = certificate.epsilon(1e-5)
    assert 0.99 * epsilon <= spent <= epsilon
    verdict = verify(certificate.to_json())
    assert verdict.agrees, verdict.problems
    assert verdict.difference <= 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize("form", ["C", "person, C"])
def test_symbols_get_more_of_epsilon_with_more_rows_within_what_is_asked(form, epsilon):
    shares = []
    for rows in (5, 1_000, 30_000, 10**6, 10**8):
        asked = plan(epsilon=epsilon, rows=rows, **FORMS[form])
        shares.append(asked.private.settings.response.epsilon / epsilon)
        assert 0.98 * epsilon <= asked.certificate().epsilon(1e-5) <= epsilon
        assert verify(asked.certificate().to_json()).agrees
    assert shares[:2] == pytest.approx([0.7, 0.7])
    assert shares[1] < shares[2] < shares[3] < shares[4] < 1


@pytest.mark.parametrize("parties", [("a", "b"), ("a", "b", "c"), tuple("abcdefgh")])
def test_a_person_costs_as_much_with_any_number_of_parties_and_a_record_more_noise_with_more(parties):
    one, person = plan(parties, epsilon=1.0), plan(parties, epsilon=1.0, unit="person")
    assert person.certificate().epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    noisy = person.private.settings.fits["b"].gradient_sd / one.private.settings.fits["b"].gradient_sd
    assert noisy == pytest.approx((len(parties) - 1) ** 0.5, rel=1e-4)


def test_labels_of_a_person_are_counted_beside_the_rows():
    together = plan(epsilon=1.0, unit="person", label_epsilon=0.5).private.settings.fits["b"]
    alone = plan(epsilon=1.0, unit="person").private.settings.fits["b"]
    assert together.gradient_sd > 1.2 * alone.gradient_sd


def test_noise_does_not_depend_on_the_row_norm_and_the_claim_names_its_theorem():
    small, large = (plan(epsilon=1.0, row_norm=norm) for norm in (1.0, 7.0))
    assert small.private.noise == large.private.noise
    assert "gram.md" in small.certificate().theorem


def test_rounding_costs_little_and_more_with_more_rows():
    few, many = (plan(rows=rows, epsilon=1.0).private.settings.fits["b"] for rows in (2000, 10_000_000))
    assert 1 < many.gradient_sd / few.gradient_sd < 1.001


REFUSED = {
    "one party only": {"parties": ("a",)},
    "fit_intercept=False": {"fit_intercept": False},
    "penalty='l1'": {"penalty": "l1"},
    "refit=True: it is for protect='others'": {"refit": True, "protect": "everyone"},
    "has kinks": {"refit": True, "loss": "hinge"},
    "two classes": {"refit": True, "loss": "squared"},
    "covers the labels already": {"protect": "everyone", "label_epsilon": 1.0},
    "proven for loss='logistic'": {"protect": "everyone", "loss": "hinge"},
    "neighbours='zero-out' together": {"neighbours": "zero-out", "label_epsilon": 1.0},
    "no bound": {"loss": "squared_hinge"},
    "is not for randomized labels": {"loss": "hinge", "label_epsilon": 1.0},
    "row_norm=1e+60": {"row_norm": 1e60},
    "row_norm=1e-60": {"row_norm": {"b": 1.0, "c": 1e-60, "d": 1.0}},
    "row_norm says nothing about party 'c'": {"row_norm": {"b": 1.0}},
    "rounding would take half": {"rows": 10**10},
    "is spent before any noise": {"unit": "person", "label_epsilon": 3.0, "epsilon": 1.0},
    "take": {"unit": "person", "label_epsilon": 0.95, "refit": True, "epsilon": 1.0},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_no_theorem_covers_is_refused_in_one_line(said):
    with pytest.raises(InputError) as refusal:
        plan(**REFUSED[said])
    message = str(refusal.value)
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize("loss", ["gamma", "tweedie", "negative_binomial", "squared_hinge"])
def test_losses_without_a_bound_are_refused(loss):
    with pytest.raises(InputError, match=r"has no bound.* poisson for counts and amounts"):
        plan(loss=loss)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label_epsilon": 1.0}, "label_epsilon with more than two classes"),
        ({"protect": "everyone"}, "it is proven for loss='logistic'"),
        ({"refit": True}, "refit=True: it is for two classes"),
    ],
)
def test_what_no_theorem_covers_of_several_classes_is_refused_in_one_line(change, said):
    with pytest.raises(InputError, match=said) as refusal:
        plan(loss=Softmax(3), **change)
    assert "\n" not in str(refusal.value)


def test_classes_and_counts_are_planned_with_their_bounds():
    classes, counts = (plan(loss=loss).private for loss in (Softmax(5), "poisson"))
    fit = classes.settings.fits["b"]
    assert (fit.slope, fit.weight, fit.score_column) == (math.sqrt(2), 0.2, False)
    assert fit.gradient_sd == pytest.approx(fit.gram_sd * math.sqrt(2) * math.sqrt(fit.steps) / (math.sqrt(2) * 0.2))
    assert "5 scores, one of each class" in classes.certificate.per_party["a"]
    assert (counts.settings.fits["b"].slope, counts.settings.fits["b"].weight) == (2.0, 1.0)
    assert classes.traffic["b"][0] == 8 * 6 * 500  # five scores and a label for each row


def test_randomized_labels_of_the_sigmoid_loss_fit_its_own_modified_loss():
    settings = plan(loss="sigmoid", label_epsilon=1.0).private.settings
    assert settings.target == "margin"
    assert settings.fits["b"].slope == settings.seen_loss.lipschitz


@pytest.mark.parametrize("form", ["C, predictions stay", "person, labels stay"])
def test_the_headline_claims_no_more_than_every_claim_below_it(form):
    asked = {**FORMS, "person, labels stay": {**FORMS["person, labels"], "predictions": "label-holder"}}[form]
    certificate = plan(epsilon=1.0, **asked).certificate()
    assert "predictions" not in certificate.adversary  # they use an exact fit
    assert certificate.adversary in {claim.adversary for claim in certificate.main_claims}

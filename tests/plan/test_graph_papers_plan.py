"""Plans of the papers' methods: composition over the run, calibration, certificates, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.calibration import largest_for
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianRelease, NormRelease, PureRelease
from tacit.privacy.releases import Allowed, AllowedNormNoise
from tacit.privacy.request import PaperOptions
from tacit.privacy.verify import verify
from tests.algorithms.paper_nodes import plan

METHODS = ("dual", "primal", "pdml")
DELTA = 1e-5


# --- composition -------------------------------------------------------------------------------------


def test_a_hundred_rounds_at_one_half_are_not_one_half() -> None:
    made = plan(published=False, options={"alphas": 0.5, "rounds": 100}, privacy={"epsilon": 32.0}, rows=(500, 500))
    events = [e for e in made.certificate().main_claims[0].events if isinstance(e, NormRelease)]
    assert [(e.epsilon, e.size, e.count) for e in events] == [(pytest.approx(0.5), 2, 100)]
    assert accountant.pure_epsilon(events) == pytest.approx(50)
    assert accountant.zcdp_epsilon(events, DELTA) == pytest.approx(36.5, abs=0.05)
    alone = [PureRelease(0.5, 100)]  # what alpha says and nothing of the noise
    assert accountant.epsilon(alone, DELTA) == pytest.approx(31.2, abs=0.05)
    assert accountant.second_opinion(alone, DELTA) == pytest.approx(31.2, abs=0.05)
    assert 29.0 < made.certificate().epsilon(DELTA) < 31.2
    assert "alpha = 0.5 at every node, in each of 100 rounds on its own" in made.certificate().published_claim


def test_gaussian_rounds_add_up_their_squares() -> None:
    made = plan("primal", options={"rounds": 16, "last_round": "primal"})
    (event,) = made.certificate().main_claims[0].events
    assert isinstance(event, GaussianRelease)
    assert accountant.total_mu([event]) == pytest.approx(4 * event.sensitivity / event.noise)
    assert accountant.gaussian_epsilon(4 * event.mu, DELTA) == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("decay", [0.5, 0.8, 1.0])
def test_decaying_noise_adds_up_geometrically(decay: float) -> None:
    made = plan("pdml", options={"rounds": 12, "decay": decay, "first_sd": 1.0}, privacy={"epsilon": None})
    claim = next(c for c in made.certificate().claims if c.unit == "record")
    # Delta = 2 c_hat / (m_i (a kappa/n + 2 beta N_i)), in units where C/B = 1/N
    slope = math.exp(1) / math.expm1(1)
    delta = 2 * slope / 100 / (0.1 * 0.5 + 2 * 0.1 * 1)
    q = 1 / decay
    squares = 12.0 if decay == 1 else (q**12 - 1) / (q - 1)
    assert accountant.total_mu(claim.events) == pytest.approx(delta * math.sqrt(squares), rel=1e-5)
    sds = [one.sd for one in made.private.releases["node 1"] if isinstance(one, Allowed)]  # type: ignore[union-attr]
    assert sds == pytest.approx([decay ** (t / 2) for t in range(12)])


@pytest.mark.parametrize("count", [1, 7, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_whole_run_goes_back_to_its_rounds(epsilon: float, count: int) -> None:
    size = largest_for(epsilon, DELTA, lambda size: [PureRelease(size, count)])
    assert accountant.epsilon([PureRelease(size, count)], DELTA) <= epsilon
    assert accountant.epsilon([PureRelease(size * (1 + 1e-6), count)], DELTA) > epsilon
    assert size >= epsilon / count * (1 - 1e-9)


def test_every_node_and_round_may_have_its_own_alpha() -> None:
    alphas = {"node 1": 0.1, "node 2": [0.5, 0.2, 0.3], "node 3": (1.0, 1.0, 1.0)}
    made = plan(rows=(50, 60, 70), options={"alphas": alphas}, privacy={"epsilon": 4.0})
    assert made.private is not None
    assert made.private.rounds == 3
    spent = {claim.party: claim.epsilon(DELTA) for claim in made.certificate().claims}
    assert spent["node 1"] == pytest.approx(0.3, rel=0.02)
    assert spent["node 2"] == pytest.approx(1.0, rel=0.02)
    assert spent["node 3"] == pytest.approx(3.0, rel=0.02)
    assert made.certificate().epsilon(DELTA) == spent["node 3"]
    rates = [one.rate for one in made.private.releases["node 2"] if isinstance(one, AllowedNormNoise)]
    assert rates[0] > rates[2] > rates[1]
    assert "0.1 at node 1, 0.2 to 0.5 at node 2, 1 at node 3" in made.certificate().published_claim


# --- what is left open -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_less_noise_pulls_less_towards_neighbours(method: str) -> None:
    def pull(**changes: Any) -> float:
        made = plan(method, rho="auto", columns=20, **changes)
        return float(made.private.settings.nodes["node 1"].penalty)  # type: ignore[union-attr]

    pulls = [pull(rows=(500, 500), privacy={"epsilon": epsilon}) for epsilon in (0.1, 1.0, 8.0)]
    assert pulls == sorted(pulls, reverse=True)
    assert pulls[0] > 2 * pulls[2]
    assert pull(rows=(5000, 5000), privacy={"epsilon": 1.0}) < pulls[1] / 2


def test_dual_takes_more_rounds_where_the_noise_is_small() -> None:
    def rounds(rows: int, epsilon: float, **options: Any) -> int:
        made = plan(rho="auto", rows=(rows, rows), columns=20, privacy={"epsilon": epsilon}, options=options)
        assert made.private is not None
        return made.private.rounds

    assert [rounds(3000, epsilon) for epsilon in (0.1, 1.0, 8.0)] == [2, 2, 4]
    assert rounds(300, 8.0) == 2
    assert rounds(3000, 8.0, rounds=3) == 3


@pytest.mark.parametrize("method", METHODS)
def test_a_given_rho_is_used_as_it_is(method: str) -> None:
    made = plan(method, rho=0.37, columns=20, privacy={"epsilon": 0.5})
    assert {one.penalty for one in made.private.settings.nodes.values()} == {0.37}  # type: ignore[union-attr]


# --- certificates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("accountant_", ["gdp", "pld"])
def test_never_less_privacy_than_asked_and_not_much_more(method: str, epsilon: float, accountant_: str) -> None:
    made = plan(method, fit_intercept=True, privacy={"epsilon": epsilon, "accountant": accountant_})
    certificate = made.certificate()
    assert certificate.unit == "record"
    assert certificate.private
    assert 0.97 * epsilon < certificate.epsilon(DELTA) <= epsilon
    opinion = max(accountant.second_opinion(claim.events, DELTA) for claim in certificate.main_claims)
    assert opinion <= epsilon * (1 if accountant_ == "pld" else 1 + 2e-3)
    assert {claim.party for claim in certificate.main_claims} == set(made.graph.names)
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert verify(certificate.to_json()).agrees


def test_pdml_protects_labels_from_everybody_and_records_from_others() -> None:
    own = {"node 1": [0.5] * 10 + [2.0] * 40}
    certificate = plan("pdml", options={"label_epsilons": own}).certificate()
    labels = [(c.party, c.epsilon(0.0), c.adversary) for c in certificate.claims if c.unit == "label"]
    assert [(party, size) for party, size, _ in labels] == [("node 1", 0.5), ("node 1", 2.0), ("node 2", 1.0)]
    assert all("the node that collects the row among them" in who for *_, who in labels)
    assert all("all other nodes together" in c.adversary for c in certificate.claims if c.unit == "record")
    assert "the features of a row, against the node that collects it" in str(certificate)


def test_pdml_without_epsilon_claims_labels_alone() -> None:
    certificate = plan("pdml", privacy={"epsilon": None}).certificate()
    assert certificate.unit == "label"
    assert certificate.epsilon(0.0) == 1.0
    assert not [claim for claim in certificate.claims if claim.unit == "record"]
    assert "models leave without noise" in str(certificate)


def test_the_noise_of_the_objective_earns_nothing() -> None:
    with_, without = (plan("pdml", options={"objective_noise": size}).certificate() for size in (9.0, 0.0))
    assert with_.epsilon(DELTA) == pytest.approx(without.epsilon(DELTA), rel=1e-6)
    assert "nothing is claimed for the bounded noise" in str(with_)
    assert "nothing is claimed for the bounded noise" not in str(without)


def test_published_forms_say_what_the_papers_say() -> None:
    dual = plan("dual", (5000, 5000), published=True, options={"alphas": 0.1, "rounds": 5}).certificate()
    assert dual.private
    assert dual.target.epsilon is None
    assert 0.99 < dual.epsilon(0.0) < 1.0  # five rounds of nearly twice 0.1
    assert not plan("primal", published=True).certificate().private
    pdml = plan("pdml", published=True).certificate()
    assert "the averaged classifier" in str(pdml)
    assert "1-local differential privacy" in pdml.published_claim


# --- what is refused ---------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("dual", {"options": {"alphas": 0.0}}, "alpha of node 1 in round 1=0.0 is not allowed"),
    ("dual", {"options": {"alphas": [0.1, -0.5]}}, "alpha of node 1 in round 2=-0.5 is not allowed"),
    ("primal", {"options": {"alphas": math.nan}}, "alpha of node 1 in round 1=nan"),
    ("dual", {"options": {"alphas": {"node 1": 1.0}}}, "alphas say nothing about node 'node 2'"),
    ("dual", {"options": {"alphas": {"node 1": 1.0, "node 2": 1.0, "x": 1.0}}}, "alphas name 'x'"),
    ("dual", {"options": {"alphas": {"node 1": [1.0], "node 2": [1.0, 1.0]}}}, "give every node the same number"),
    ("dual", {"options": {"alphas": [0.1] * 200}}, "give 1 to max_rounds=100"),
    ("dual", {"options": {"alphas": 1.0, "rounds": 10}}, "would spend epsilon"),
    ("dual", {"privacy": {"epsilon": None, "label_epsilon": 1.0}}, "does not randomize labels"),
    ("dual", {"loss": "squared"}, "its slope has no bound"),
    ("dual", {"loss": "hinge"}, "convex and smooth"),
    ("dual", {"penalty": "l1"}, "it must have a second derivative"),
    ("primal", {"privacy": {"unit": "person"}}, "use unit='record'"),
    ("primal", {"privacy": {"mechanism": "gram"}}, "it belongs to the feature split"),
    ("primal", {"options": {"noise": "gaussian", "alphas": 1.0}}, "has no alpha_p"),
    ("primal", {"published": True, "alpha": 0.0}, "give alpha above 0"),
    ("primal", {"published": True, "fit_intercept": True}, "the paper has none"),
    ("primal", {"options": {"decay": 0.5}}, "option decay does not belong to mechanism='primal'"),
    ("primal", {"privacy": {"row_norm": {"node 1": 1.0, "node 2": 2.0}}}, "give one number"),
    ("pdml", {"privacy": {"label_epsilon": None}}, "mechanism='pdml' needs label_epsilon"),
    ("pdml", {"privacy": {"label_epsilon": 0}}, "label_epsilon=0 is not allowed"),
    ("pdml", {"options": {"label_epsilons": {"node 1": [0.0] * 50}}}, "label epsilon of node 1 in row 1=0.0"),
    ("pdml", {"options": {"label_epsilons": {"node 1": [1.0]}}}, "the node has 50 rows"),
    ("pdml", {"options": {"alphas": 1.0}}, "option alphas does not belong to mechanism='pdml'"),
    ("pdml", {"options": 7}, "options=7 is not allowed"),
    ("dual", {"rows": (50,), "fit_intercept": True}, "a single node"),
]


@pytest.mark.parametrize(("method", "changes", "message"), REFUSED)
def test_refused_in_one_line(method: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(method, **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"decay": 1.5},
        {"decay": 0},
        {"rounds": 0},
        {"rounds": True},
        {"noise": "x"},
        {"first_sd": -1},
        {"loss_weight": 0},
    ],
)
def test_options_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        PaperOptions(**wrong)


@pytest.mark.parametrize(
    ("method", "options", "epsilon"),
    [
        ("dual", {"rounds": 40}, 0.1),
        ("primal", {"rounds": 40, "noise": "norm"}, 0.1),
        ("primal", {"rounds": 40, "noise": "norm", "last_round": "primal"}, 3.0),
    ],
)
def test_rounding_never_refuses_what_was_calibrated(method: str, options: dict[str, Any], epsilon: float) -> None:
    made = plan(method, rows=(300, 200, 250), options=options, privacy={"epsilon": epsilon})
    assert 0.97 * epsilon < made.certificate().epsilon(1e-5) <= epsilon

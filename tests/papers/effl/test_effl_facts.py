"""What EFFL's printed numbers imply, against clients made up for the purpose, a simulation, scipy and a search on a grid."""

import itertools
import math
from typing import Literal

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from fairfl_book import cards, results
from fairfl_lite.methods import EFFL
from fairfl_lite.methods.effl import gram_of
from papers.effl import facts, plane


def printed(clients: np.ndarray, ddof: int) -> tuple[float, float]:
    """Mean and standard deviation over clients, to four decimals."""
    return round(float(clients.mean()), 4), round(float(clients.std(ddof=ddof)), 4)


@pytest.mark.parametrize("ddof", [0, 1])
def test_two_clients_are_never_impossible_and_what_is_impossible_is_seen(ddof: int) -> None:
    rng = np.random.default_rng(1)
    for biases in rng.random((2000, 2)) * rng.choice([0.01, 0.1, 1.0], (2000, 1)):
        biases[rng.integers(2)] *= rng.integers(2)  # half of the time one has no bias at all, the extreme
        assert facts.excess((0.7, 0.1, *printed(biases, ddof)), ddof) == 0
    assert facts.excess((0.7, 0.1, 0.01, 0.02), ddof) > 0  # twice the mean is too much for both
    row = (0.7, 0.1, 0.0109, 0.0186)  # FedAvg+FairReg of Table 2: .0186 / sqrt(2) = .01315
    assert facts.excess(row, 1) == pytest.approx((0.0186 - 5e-5) / math.sqrt(2) - 0.01095)


@pytest.mark.parametrize("ddof", [0, 1])
def test_accuracies_on_181_rows_are_on_the_lattice_and_others_as_often_as_luck_has_it(ddof: int) -> None:
    rng = np.random.default_rng(2)
    for k, other in zip(rng.integers(100, 150, 2000), rng.integers(13_600, 14_500, 2000), strict=True):
        clients = np.array([k / 181, other / 16_100])
        assert facts.on_lattice((*printed(clients, ddof), 0.0, 0.0), ddof)
    anywhere = [facts.on_lattice((*printed(pair, ddof), 0.0, 0.0), ddof) for pair in rng.uniform(0.6, 0.9, (20_000, 2))]
    assert np.mean(anywhere) == pytest.approx(facts.by_luck(ddof), abs=0.004)
    wrong = [facts.on_lattice((*printed(np.array([k / 181, 0.82]), ddof), 0, 0), 1 - ddof) for k in range(100, 148)]
    assert np.mean(wrong) < 0.2  # read with the other ddof hardly any is


def test_shares_and_luck_are_counted_over_the_different_rows_of_adult() -> None:
    found = dict(facts.spreads())
    fit = found["lattice.ddof1.share"] * found["lattice.rows"]
    assert (fit, found["lattice.rows"]) == (9, 17)  # 8 rows of Table 1, 6 others of Table 2, the three stages alone
    luck = binomtest(9, 17, facts.by_luck(1), alternative="greater").pvalue
    assert found["lattice.ddof1.luck"] == pytest.approx(luck, rel=1e-6)


def test_budgets_are_met_as_the_marks_say() -> None:
    """A row meets all budgets where its three marks, right ones, are √."""
    card, found = cards.load("effl"), dict(facts.promises())
    for table, dataset in itertools.product(("t1", "t2"), ("synthetic", "adult", "eicu")):
        marks = {m: {card.entries[f"effl.{table}.{dataset}.{m}.{k}.mark"].printed for k in ("acc_std", "bias", "bias_std")}
                 for m in ("fedavg", "q-ffl", "ditto", "fedmdfg", "fairbatch", "fairreg", "fcfl", "effl")}  # fmt: skip
        assert found[f"met.{table}.{dataset}.effl"] == (marks.pop("effl") == {"√"})
        assert found[f"met.{table}.{dataset}.others"] == sum(of == {"√"} for of in marks.values())
    assert facts.meets((0.5, 0.01, 0.1, 0.04), (math.nan, 0.01, 0.1, 0.04))
    assert not facts.meets((0.5, 0.01, 0.1, 0.0401), (math.nan, 0.01, 0.1, 0.04))
    # the larger of two biases with mean .0801 and sample standard deviation .0359 is .1055
    assert found["worst.t1.synthetic.effl"] == pytest.approx(0.0801 + 0.0359 / math.sqrt(2) - 0.1, abs=1e-4)


def test_equal_rows_by_hand() -> None:
    found = dict(facts.equal_rows())
    assert {name for name, n in found.items() if name.startswith("equal-rows.") and n} == {
        "equal-rows.t1.synthetic", "equal-rows.t2.synthetic", "equal-rows.t3", "equal-rows.t4.zero",
    }  # fmt: skip
    assert (found["t1t2.spread"], found["t1t2.bias"]) == (6, 1)
    assert [found[f"t1t2.acc.{d}"] for d in ("synthetic", "adult", "eicu")] == [0, 2, 4]


def simulated(variance: float, n: int = 1_000_000) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    a, x1 = rng.integers(2, size=n), rng.normal(size=n)
    high = x1 + rng.normal(a, math.sqrt(variance)) > 0
    y = rng.random(n) < np.where(a == 1, np.where(high, 0.9, 0.1), np.where(high, 0.6, 0.3))
    return a, x1 > -0.5, high, y


@pytest.mark.slow
@pytest.mark.parametrize("variance", [2, 4])
def test_the_limits_of_the_synthetic_data_against_a_simulation(variance: float) -> None:
    a, client, high, y = simulated(variance)
    limits, rng = facts.synthetic(variance), np.random.default_rng(4)

    def scores(answer: np.ndarray) -> tuple[float, float]:
        accuracy, bias = [], []
        for k in (False, True):
            here = client == k
            accuracy.append((answer == y)[here].mean())
            rates = [answer[here & y & (a == g)].mean() for g in (0, 1)]
            bias.append(abs(rates[1] - rates[0]) / 2)
        return float(np.mean(accuracy)), float(np.mean(bias))

    best = scores(high)
    assert best == (pytest.approx(limits["acc"], abs=2e-3), pytest.approx(limits["tpsd"], abs=2e-3))
    first = ~client & (a == 0)  # the client x1 <= -0.5 has the smaller share of x1 + x2 > 0
    drop = high & first & (rng.random(len(high)) < (2 * (0.2480 - best[1])) * (1 + high[first].mean()) / high[first].mean())
    there = scores(high & ~drop)
    assert there[1] == pytest.approx(0.2480, abs=2e-3) and there[0] == pytest.approx(limits["frontier"], abs=2e-3)
    for flip in (high & client & (a == 0), ~high & (a == 1)):  # other ways to the same bias cost more
        tried = [scores(high ^ (flip & (rng.random(len(high)) < share))) for share in np.linspace(0.1, 1, 10)]
        reached = [accuracy for accuracy, bias in tried if bias >= 0.2480]
        assert all(accuracy < limits["frontier"] + 1e-3 for accuracy in reached)


def test_the_shortest_point_between_two_gradients() -> None:
    rng = np.random.default_rng(6)
    for g in rng.normal(size=(50, 2, 4)) + rng.choice([0, 3], (50, 1, 1)):
        best = min(np.linalg.norm(w * g[0] + (1 - w) * g[1]) for w in np.linspace(0, 1, 1001))
        d = facts.min_norm(g)
        assert np.linalg.norm(d) == pytest.approx(best, rel=1e-3)
        assert (g @ d >= d @ d - 1e-9).all()  # so along +d no loss falls


def test_statements_of_the_appendix() -> None:
    found = dict(facts.statements(tried=100))
    assert found["eq11.descends"] == 0 and found["eq11.mended"] == 1
    assert found["prop1.equal"] > 0 and found["prop1.strict"] == 0
    assert found["stability.ratio"] == pytest.approx(math.sqrt(2) * 1e6)
    assert found["stability.theta"] == pytest.approx(1e6, rel=1e-5)  # from (1, 0) to (1, 1), for an error of 1e-6
    assert found["convergence.last-step"] == pytest.approx(1)
    assert facts.steepest(np.array([[1.0, 0.0], [0.5, 9.0]])).tolist() == [1, 0]


def test_effl_itself_swings_for_ever_with_a_constant_step_and_rests_with_one_that_shrinks() -> None:
    """The instance of C.2, by the method's own rows and direction: constant losses, biases 0.5 + theta and 0.5 - theta."""
    slopes = np.array([[0.0], [0.0], [1.0], [-1.0]])  # of two losses and two biases, one parameter
    method = EFFL(1.0, 0.01, 0.01, normalise="none")

    def last(eta: float, decay: float) -> float:
        theta = eta / 3
        for t in range(200):
            rows = method.rows(np.full(2, 0.7), np.array([0.5 + theta, 0.5 - theta]), 2)
            alpha, _, _ = method.direction(gram_of(slopes), rows)
            step = eta * decay**t * float((alpha @ slopes)[0])
            theta -= step
        return abs(step)

    for eta in (1e-1, 1e-3):
        assert last(eta, 1.0) == pytest.approx(eta * facts.last_step(eta, 200))
        assert last(eta, 0.9) < 1e-6 * eta


@pytest.mark.parametrize("normalise", ["none", "l2"])
def test_begun_at_the_lowest_mean_loss_effl_stays_outside_of_the_budget(normalise: Literal["none", "l2"]) -> None:
    """By a search on a grid: every model within the budget of bias has a higher mean loss than the start."""
    fed = plane.federation()
    losses, biases = plane.surface(fed, np.stack(np.meshgrid(np.linspace(-0.1, 1.4, 61), np.linspace(-1.15, 1.1, 61)), axis=-1))
    assert losses.mean(-1).min() < losses.mean(-1)[biases.max(-1) <= 0.1].min() - 0.01
    assert facts.reached(normalise) == pytest.approx(0.18, abs=0.005)


def test_what_a_gradient_touches_is_counted() -> None:
    """A product of n x d with d reads n d + d numbers and writes n; what is not linear in the rows would be seen."""
    X, w = torch.ones(7, 3), torch.ones(3)
    with facts._Touched() as mode:
        X @ w
    assert mode.count == 7 * 3 + 3 + 7
    with facts._Touched() as squared:
        X @ X.T
    assert squared.count >= 7 * 7
    found = dict(facts.costs())
    assert 1.9 < found["cost.rows"] <= 2 and 1.8 < found["cost.features"] <= 2  # features are not all there is to do


def test_budgets_as_shares_of_what_fedavg_has_by_hand() -> None:
    found = dict(facts.promises())
    budget = [0.01, 0.1, 0.04, 0.03, 0.01, 0.005, 0.02, 0.02, 0.02, 0.01, 0.08, 0.04, 0.03, 0.02, 0.01, 0.02, 0.02, 0.02]
    fedavg = [0.0283, 0.2480, 0.0819, 0.0592, 0.0328, 0.0093, 0.0427, 0.0371, 0.0409,
              0.0283, 0.1663, 0.0791, 0.0592, 0.0494, 0.0257, 0.0427, 0.0386, 0.0310]  # fmt: skip
    shares = [most / value for most, value in zip(budget, fedavg, strict=True)]
    assert found["budgets.near-half"] == sum(0.45 <= share <= 0.55 for share in shares) == 11
    assert (found["budgets.smallest"], found["budgets.largest"]) == pytest.approx((min(shares), max(shares)))


def test_the_stored_facts_are_those_of_the_card() -> None:
    """A number changed on the card changes them, and asks for another measurement."""
    stored = results.load("effl/facts").set_index("name")["value"]
    for name, value in {**dict(facts.spreads()), **dict(facts.promises()), **dict(facts.equal_rows())}.items():
        assert stored[name] == pytest.approx(float(value), rel=1e-9), name

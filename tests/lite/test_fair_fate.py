"""FAIR-FATE and its baselines by limit cases, rounds worked by hand and a second implementation."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import federation, rows

from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.data import Partition
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, OneFederation, Shards, Standard, alone
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import FairFate, FairFed, FedAvg, FedDemon, FedMom, FedVal
from fairfl_lite.methods.fair_fate import AS_PUBLISHED
from fairfl_lite.methods.momentum import decayed
from fairfl_lite.metrics import FAIRNESS, fairness
from fairfl_lite.models import Dense

pytestmark = pytest.mark.slow

close = np.testing.assert_allclose
METHODS = [FedAvg(), FedMom(), FedDemon(), FedVal("eo"), FairFate("eo"), FairFate.published("eqo")]


def toy(seeds=(0, 1), sigma=0.5, participants=3, data=0, **options):
    how = {"validation": 0.25, "minimum": 0, "central": True, **options}
    partition = Partition.dirichlet(sigma, 6, over="sensitive+label")
    local = ClientTraining("sgd", 0.1, 0, 2, 10)
    return Federation.of(rows(seed=data), partition, seeds, local, participants=participants, **how)


def scripted(local, scores, sizes=(10, 30, 60), who=(0, 1)):
    """A federation of one parameter, 0 at first, whose answers are given: the clients' models, and the SP of the models that
    the server scores (100 rows in either group, of a = 1 all chosen)."""
    counts = np.zeros((len(scores), 1, 2, 2, 2), np.int64)
    counts[:, 0, 0, 1, 1] = np.round(100 * np.array(scores))
    counts[:, 0, 0, 1, 0] = 100 - counts[:, 0, 0, 1, 1]
    counts[:, 0, 1, 1, 1] = 100

    async def metric(models, of, on):
        assert models.shape == (len(scores), 1) and on == "validation"
        return of(counts.sum(1))

    async def train(params, clients, t):
        return np.float32(local)[clients][:, None]

    fed = SimpleNamespace(
        n=len(sizes), sample_clients=lambda t: np.array(who), metric=metric, train=train, model=SimpleNamespace(size=1),
        init_params=lambda: np.zeros(1, np.float32), holders=lambda on: 1, rows_of=lambda on: np.array([200]), counts=counts,
        _sizes=np.array(sizes), _fed=SimpleNamespace(sums_are_plain=True),
    )  # fmt: skip
    for name in ("sum", "average", "shares", "by_client"):
        setattr(fed, name, partial(getattr(OneFederation, name), fed))
    return fed


def one_round(method, fed, t=1, **memory):
    state = alone(method.start(fed))
    return alone(method.round(fed, replace(state, memory={**state.memory, **memory}), t))


def slow_round(method, fed, one, theta, v, t):
    """Algorithm 1 for one seed in scalars, from the server's model and momentum; shares training and draws with ours."""
    lambda0, rho, cap, beta0, r = method.lambda0, method.rho, method.cap, method.beta0, fed.seeds.index(one.seed)
    shards, held = fed.shards["validation"], fed.shards["validation"].rows(r, 0)

    def ratio(model, kept):
        chosen, left = [0, 0], [0, 0]
        for i in held:
            x = (shards.X[i] - fed.inputs.shift[r]) * fed.inputs.scale[r]
            if shards.y[i] in kept:
                yes = sum(float(w) * float(u) for w, u in zip(model[:-1], x, strict=True)) + float(model[-1]) > 0
                (chosen if yes else left)[shards.a[i]] += 1
        if len(kept) == 2 and method.sp_as_coded:
            left = [chosen[0] + left[0], chosen[1] + left[1]]
        if method.zero_rule and 0 in chosen + left:
            return 0.0
        if 0 in (chosen[0] + left[0], chosen[1] + left[1]) or chosen == [0, 0]:
            return 0.0
        p = [chosen[s] / (chosen[s] + left[s]) for s in (0, 1)]
        value = min(p) / max(p)
        return round(value, 2) if method.rounded else value

    def F(model):
        kept = {"sp": [(0, 1)], "eo": [(1,)], "eqo": [(1,), (0,)]}[method.metric]
        value = sum(ratio(model, k) for k in kept) / len(kept)
        return round(value, 2) if method.rounded else value

    K_t = one.sample_clients(t).tolist()
    trained = dict(zip(one.all_clients, alone(one.train(theta, one.all_clients, t)), strict=True))
    server, scores = F(theta), {k: F(trained[k]) for k in K_t}
    measured = server, dict(scores)
    if method.normalise:
        low, high = min(server, *scores.values()), max(server, *scores.values())
        server = (server - low) / (high - low) if high > low else 0.0
        scores = {k: (s - low) / (high - low) if high > low else 0.0 for k, s in scores.items()}
    K_fair = [k for k in K_t if (scores[k] > server if method.strict else scores[k] >= server)]
    F_total, n = sum(scores[k] for k in K_fair), sum(fed.sizes()[r, k] for k in K_t)
    beta = beta0 * (1 - t / method.rounds) / ((1 - beta0) + beta0 * (1 - t / method.rounds))
    lam = lambda0 * (1 + rho) ** t
    lam = cap if lam > cap else lam
    new_theta, new_v = [], []
    for j in range(len(theta)):
        step = {k: float(trained[k][j]) - float(theta[j]) for k in K_t}
        alpha_F = sum(scores[k] / F_total * step[k] for k in K_fair) if F_total > 0 else 0.0
        alpha_N = sum(fed.sizes()[r, k] / n * step[k] for k in K_t)
        new_v.append(beta * v[j] + (1 - beta) * alpha_F)
        used = new_v[j] / (1 - beta**t) if method.corrected else new_v[j]
        new_theta.append(theta[j] + lam * used + (1 - lam) * alpha_N)
    return new_theta, new_v, K_fair, measured


flags = st.one_of(st.just({}), st.just(dict.fromkeys(AS_PUBLISHED, True)),
                  st.fixed_dictionaries(dict.fromkeys(AS_PUBLISHED, st.booleans())))  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 50.0]), st.integers(0, 5), st.sampled_from(FAIRNESS), flags)
def test_a_second_implementation_of_algorithm_1_in_scalars(seed, sigma, participants, metric, flags):
    fed, rng = toy((seed, seed + 1), sigma, participants, data=seed), np.random.default_rng(seed)
    for one in map(fed.one, fed.seeds):
        hyper = {name: rng.uniform(0, 0.99) for name in ("lambda0", "rho", "cap", "beta0")}
        method = FairFate(metric, **hyper, rounds=4, **flags)
        state = alone(method.start(one))
        for t in (1, 2, 3, 4):
            before, state = state, alone(method.round(one, state, t))
            theta, v, fair, (server, clients) = slow_round(method, fed, one, before.params, before["v"], t)
            assert np.flatnonzero(state["fair"]).tolist() == fair
            close(state["F"], server, atol=1e-12)
            close(state["F_clients"], [clients.get(k, np.nan) for k in range(one.n)], atol=1e-12)
            close(state["v"], v, atol=1e-12)
            close(state.params, theta, atol=1e-7, rtol=1e-7)


counts = st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 50, 101]), min_size=8, max_size=8)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(counts, min_size=1, max_size=3), st.sampled_from(FAIRNESS), st.tuples(st.booleans(), st.booleans(), st.booleans())
)
def test_fairness_of_many_models_is_that_of_each_in_plain_python_to_the_bit(counts, metric, as_coded):
    counts = np.array(counts).reshape(-1, 2, 2, 2)
    found = fairness(counts, metric, **dict(zip(("zero_rule", "sp_as_coded", "rounded"), as_coded, strict=True)))
    assert np.nan_to_num(found).tolist() == [in_plain_python(one, metric, *as_coded) for one in counts.tolist()]


def test_decimals_are_python_s_where_a_number_is_near_a_tie():
    """Numpy multiplies by 100 first, and then goes the other way for some of these."""
    counts = np.array([[[[0, 0], [q - p, p]], [[0, 0], [0, 1]]] for q in (8, 40, 200) for p in range(1, q)])
    found = fairness(counts, "eo", rounded=True)
    assert found.tolist() == [round(p / q, 2) for q in (8, 40, 200) for p in range(1, q)]
    assert (found != np.round(counts[:, 0, 1, 1] / counts[:, 0, 1].sum(-1), 2)).any()


def in_plain_python(counts, metric, zero_rule, sp_as_coded, rounded):
    """Fairness of one model, counts[a][y][yhat], or 0 where it is undefined."""
    ((tn0, fp0), (fn0, tp0)), ((tn1, fp1), (fn1, tp1)) = counts
    if metric == "sp":
        chosen0, chosen1, left0, left1 = fp0 + tp0, fp1 + tp1, tn0 + fn0, tn1 + fn1
        if sp_as_coded:
            left0, left1 = left0 + chosen0, left1 + chosen1
        value = ratio(chosen0, left0, chosen1, left1, zero_rule, rounded)
    else:
        value = ratio(tp0, fn0, tp1, fn1, zero_rule, rounded)
    if metric == "eqo":
        value = (value + ratio(fp0, tn0, fp1, tn1, zero_rule, rounded)) / 2
        value = round(value, 2) if rounded else value
    return value if value == value else 0.0


def ratio(chosen0, left0, chosen1, left1, zero_rule, rounded):
    """The smaller of two groups' rates chosen / (chosen + left) over the larger."""
    if zero_rule and not (chosen0 and left0 and chosen1 and left1):
        return 0.0
    rows0, rows1 = chosen0 + left0, chosen1 + left1
    if not (rows0 and rows1):
        return float("nan")
    low, high = sorted((chosen0 / rows0, chosen1 / rows1))
    found = low / high if high else 0.0
    return round(found, 2) if rounded else found


@pytest.mark.parametrize("participants", [0, 2])
@pytest.mark.parametrize("make", [FairFate, FairFate.published])
def test_lambda_zero_is_fedavg_bit_for_bit(make, participants):
    fed = toy(participants=participants)
    fair = fed.run(make("eo", lambda0=0.0, rounds=4), 4).state.params
    np.testing.assert_array_equal(fair, fed.run(FedAvg(), 4).state.params)


def test_without_momentum_the_momentum_methods_are_fedavg():
    fed = toy()
    plain = fed.run(FedAvg(), 3).state.params
    for method in (FedMom(0.0), FedDemon(0.0)):
        np.testing.assert_array_equal(fed.run(method, 3).state.params, plain)


def test_lambda_grows_to_its_cap_and_at_one_moves_by_v_alone():
    fed = toy()
    method = FairFate("eo", lambda0=0.5, rho=0.5, cap=1.0, rounds=5)
    seen = fed.run(method, 5, remember=("lambda",)).memory["lambda"]
    close(seen[0], [0.75, 1, 1, 1, 1])
    close(fed.run(replace(method, cap=0.8), 3, remember=("lambda",)).memory["lambda"][0], [0.75, 0.8, 0.8])
    one = fed.one()
    state = alone(method.start(one))
    for t in (1, 2, 3):
        before, state = state.params, alone(method.round(one, state, t))
    close(state.params, before + state["v"], atol=1e-7)


def test_beta_decays_to_zero_in_the_last_round():
    fed = toy()
    seen = fed.run(FairFate("eo", beta0=0.8, rounds=4), 4, remember=("beta",)).memory["beta"]
    close(seen[0], [0.75, 2 / 3, 0.5, 0.0])  # worked by hand from Eq. 8
    close([decayed(beta0, 50, 100) for beta0 in (0.9, 0.0)], [0.9 * 0.5 / (0.1 + 0.45), 0.0])
    assert (np.diff([decayed(0.99, t, 100) for t in range(1, 101)]) < 0).all()
    with pytest.raises(FairFLError, match="no round 5"):
        fed.run(FairFate("eo", rounds=4), 5)


def test_a_round_by_hand():
    """n = 40 of the two who take part: alpha_N = (10 * 1 + 30 * 2) / 40 = 1.75; beta_1 = .8 * .5 / (.2 + .4) = 2/3."""
    method = FairFate("sp", lambda0=0.1, rho=0.04, beta0=0.8, rounds=2)
    one_fair = one_round(method, scripted([1, 2, 99], [0.5, 0.4, 0.8]))
    close(one_fair["v"], [2 / 3])
    close(one_fair.params, [0.104 * 2 / 3 + 0.896 * 1.75], rtol=1e-6)
    assert one_fair["fair"].tolist() == [False, True, False] and one_fair["F"] == 0.5
    np.testing.assert_array_equal(one_fair["F_clients"], [0.4, 0.8, np.nan])
    both_fair = one_round(method, scripted([1, 2, 99], [0.3, 0.4, 0.8]))  # alpha_F = (.4 * 1 + .8 * 2) / 1.2 = 5/3
    close(both_fair["v"], [5 / 9])
    scaled = one_round(replace(method, normalise=True), scripted([1, 2, 99], [0.3, 0.4, 0.8]))  # weights .2 and 1
    close(scaled["v"], [(0.2 * 1 + 1 * 2) / 1.2 / 3])
    corrected = one_round(replace(method, corrected=True), scripted([1, 2, 99], [0.5, 0.4, 0.8]))
    close(corrected["v"], [2 / 3])  # v itself is kept as it is
    close(corrected.params, [0.104 * 2 + 0.896 * 1.75], rtol=1e-6)
    close(one_round(replace(method, beta0=0.0), scripted([1, 2, 99], [0.5, 0.4, 0.8]))["v"], [2.0])  # v = alpha_F
    last = one_round(method, scripted([1, 2, 99], [0.5, 0.4, 0.8]), t=2, v=np.array([7.0]))
    close(last["v"], [2.0])  # beta_T = 0 forgets


def test_without_a_fair_client_the_momentum_decays():
    method = FairFate("sp", lambda0=0.5, rho=0.0, beta0=0.8, rounds=2)
    state = one_round(method, scripted([1, 2, 99], [0.5, 0.4, 0.3]), v=np.array([6.0]))
    assert not state["fair"].any()
    close(state["v"], [4.0])
    close(state.params, [0.5 * 4 + 0.5 * 1.75])


def test_clients_as_fair_as_the_server_count_unless_strict_and_zero_scores_weigh_nothing():
    method = FairFate("sp", beta0=0.0)
    equal = scripted([1, 2, 99], [0.5, 0.5, 0.5])
    close(one_round(method, equal)["v"], [1.5])
    assert one_round(method, equal)["fair"].tolist() == [True, True, False]
    for other in ({"strict": True}, {"normalise": True}):  # scaled, equal values are all 0
        close(one_round(replace(method, **other), equal)["v"], [0.0])
    zero = one_round(method, scripted([1, 2, 99], [0.0, 0.0, 0.0]), v=np.array([6.0]))
    assert zero["fair"].tolist() == [True, True, False] and zero["v"] == 0 and np.isfinite(zero.params).all()
    near = FairFate("sp", beta0=0.0, strict=True)
    fine = scripted([1, 2, 99], [0.5, 0.5, 0.5])
    fine.counts[:] *= 10
    fine.counts[2, 0, 0, 1] += [-1, 1]  # .501 against .5
    close(one_round(near, fine)["v"], [2.0])
    close(one_round(replace(near, rounded=True), fine)["v"], [0.0])


def test_fedmom_and_feddemon_by_hand_for_two_rounds():
    fed, alpha = toy(seeds=(3,)), {}
    one = fed.one()

    def update(theta, t):
        clients = one.sample_clients(t)
        local, n = alone(one.train(theta.astype(np.float32), clients, t)).astype(float), one.sizes(clients)
        return sum(size * (model - theta) for size, model in zip(n, local, strict=True)) / n.sum()

    theta = one.init_params().astype(float)
    alpha[1] = update(theta, 1)
    theta_1 = np.float32(theta + alpha[1])  # v_1 / (1 - beta_1) = alpha_1, whatever beta is
    alpha[2] = update(theta_1, 2)
    for method, step in (
        (FedMom(0.5), (0.25 * alpha[1] + 0.5 * alpha[2]) / 0.75),
        (FedDemon(0.8, rounds=4), 0.3 * alpha[1] + 0.6 * alpha[2]),  # beta .75, 2/3: v_2 = a_1/6 + a_2/3, over 1 - 4/9
        (FedDemon(0.8, rounds=2), alpha[2]),
    ):
        state = fed.run(method, 1).state
        close(state.params[0], theta_1, atol=1e-6)
        close(fed.run(method, 2).state.params[0], theta_1 + step, atol=1e-5)


def test_fedval_by_hand():
    state = one_round(FedVal("sp", sp_as_coded=False, zero_rule=False), scripted([1, 2, 99], [0.4, 0.8]))
    close(state.params, [(0.401 * 1 + 0.801 * 2) / 1.202], rtol=1e-6)
    close(state["weights"], [0.401, 0.801, 0])
    as_coded = one_round(FedVal("sp"), scripted([1, 2, 99], [0.4, 0.8]))  # .4/1.4 and .8/1.8 over 1/2, two decimals
    close(as_coded["weights"], [0.571, 0.891, 0])
    nobody = one_round(FedVal("eo"), scripted([1, 2, 99], [0.0, 0.0]))  # weights .001: the plain mean, not by data
    close(nobody.params, [1.5], rtol=1e-6)


def test_global_reweighing_counts_those_who_take_part():
    cells = {0: [(0, 0)] * 3 + [(0, 1)], 1: [(1, 0)] * 2 + [(1, 1)] * 4, 2: [(0, 1)] * 5}
    a, y = np.array([cell for k in cells for cell in cells[k]], np.int8).T
    X = np.random.default_rng(0).normal(size=(15, 2)).astype(np.float32)
    shards = Shards.of(X, y, a, [[np.arange(4), np.arange(4, 10), np.arange(10, 15)]])
    fed = Federation({"train": shards}, Dense(2, 0), ClientTraining(), (0,), Standard.of(shards), participants=2)
    one = fed.one()

    def weigh(*clients):
        return alone(Debias("global").training_rows(one, np.array(clients))).weights

    close(weigh(0, 1), [[[2 / 3, 2], [1.5, 0.75]]] * 2)  # 4 * 5 / (10 * 3), ...
    close(weigh(0, 2)[:, 0], np.ones((2, 2)))  # one group alone: nothing to weigh
    close(weigh(0, 1, 2), [[[9 * 5 / 45, 9 * 10 / 90], [6 * 5 / 30, 6 * 10 / 60]]] * 3)
    method = FedAvg(Debias("global"))
    state, seen = alone(method.start(one)), set()
    for t in range(1, 7):
        before, state, who = state, alone(method.round(one, state, t)), one.sample_clients(t)
        of_those, of_all = (
            one.average(alone(one.train(before.params, who, t, rows=TrainingRows(weights))), one.shares(who))
            for weights in (weigh(*who), weigh(0, 1, 2)[who])
        )
        np.testing.assert_array_equal(state.params, of_those)
        assert (of_those != of_all).any() == (1 in who)  # all together, or without client 1, every row weighs 1
        seen.add(tuple(who))
    assert len(seen) > 1


@pytest.mark.parametrize("method", [*METHODS, FedAvg(Debias("local")), FedAvg(Debias("global"))], ids=lambda m: m.name)
def test_who_does_not_take_part_does_not_count(method):
    fed = toy(seeds=(5,), sigma=5.0)
    train, who = fed.shards["train"], fed.one().sample_clients(1)
    others = np.setdiff1d(np.arange(fed.clients), who)
    absent = np.concatenate([train.rows(0, k) for k in others])
    y, a = train.y.copy(), train.a.copy()
    y[absent], a[absent] = 1 - y[absent], 0
    other = replace(fed, shards={**fed.shards, "train": replace(train, examples=replace(train.examples, y=y, a=a))})
    ours, same = fed.run(method, 1).state, other.run(method, 1).state
    np.testing.assert_array_equal(ours.params, same.params)
    assert np.abs(ours.params - fed.one().init_params()).max() > 1e-3
    if "F_clients" in ours.memory:
        assert np.flatnonzero(np.isnan(ours["F_clients"][0])).tolist() == others.tolist() != []


def test_validation_rows_may_stay_with_the_clients():
    """Counts are pooled, so it is the same number whether the rows are at the server or not."""
    fed = toy(sigma=5.0, minimum=1, central=False)
    held = fed.shards["validation"]
    whole = Shards.of(held.X, held.y, held.a, [[held.index[s[0] : s[-1]]] for s in held.start])
    central = replace(fed, shards={**fed.shards, "validation": whole})
    for method in (FairFate("eo"), FedVal("eo")):
        np.testing.assert_array_equal(fed.run(method, 3).state.params, central.run(method, 3).state.params)


@pytest.mark.parametrize("method", [FedAvg(), FedAvg(Debias("global")), FedMom(), FedDemon(rounds=3)])
def test_partial_participation_goes_through_secure_aggregation(method):
    fed = toy(seeds=(0,))
    secure = replace(fed, aggregate=SecAgg(clients=3, dropouts=2))
    close(secure.run(method, 3).state.params, fed.run(method, 3).state.params, atol=1e-6)


def test_published_sets_the_six_flags_and_one_can_be_undone():
    method = FairFate.published("eqo", beta0=0.8, strict=False)
    assert [getattr(method, flag) for flag in AS_PUBLISHED] == [False, True, True, True, True, True]
    assert (method.metric, method.beta0, method.name) == ("eqo", 0.8, "fair-fate")
    assert not any(getattr(FairFate(), flag) for flag in AS_PUBLISHED)


@pytest.mark.parametrize(("wrong", "said"), [
    ({"lambda0": -0.1}, "lambda0 must be at least 0 and at most 1, not -0.1"), ({"lambda0": 1.5}, "not 1.5"),
    ({"lambda0": float("nan")}, "not nan"), ({"rho": -0.01}, "rho must be at least 0, not"), ({"rho": np.inf}, "inf"),
    ({"cap": 1.1}, "cap must be"), ({"cap": "0.9"}, "must be a number"), ({"beta0": 1.0}, "at least 0 and below 1"),
    ({"rounds": 0}, "rounds must be"), ({"rounds": 2.5}, "rounds must be"), ({"metric": "eq"}, "did you mean 'eqo'"),
])  # fmt: skip
def test_impossible_settings_are_refused(wrong, said):
    with pytest.raises(FairFLError, match=said):
        FairFate(**wrong)


def test_other_impossible_uses_are_refused():
    for make in (lambda: FedMom(1.0), lambda: FedDemon(-0.1), lambda: FedDemon(rounds=0), lambda: FedVal("spd")):
        with pytest.raises(FairFLError):
            make()
    fed = toy()
    for method in (FairFate(), FedVal()):
        for without in (federation([30, 40]), toy(validation=0.0)):
            with pytest.raises(FairFLError, match="validation rows"):
                without.run(method, 1)
    with pytest.raises(FairFLError, match="every client in every round"):
        fed.run(FairFed(), 1)

"""EFFL: its direction against a second implementation with HiGHS, what the direction promises, limit cases, and what the paper
says of it that does not hold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from asking import asked, confusion, first_models, gradient, logits, losses
from scipy.optimize import linprog, minimize
from toy import images, tables, uneven

from fairfl_book import bench
from fairfl_lite import metrics, programs
from fairfl_lite.clients import Attack, ClientTraining
from fairfl_lite.clients.surrogates import LossAndBias, SoftBias
from fairfl_lite.engines import Plain
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Examples, Shards, State
from fairfl_lite.federation.lockstep import stacked
from fairfl_lite.methods import EFFL, effl
from fairfl_lite.methods.effl import FALLBACKS, OBJECTIVES, gram_of

pytestmark = pytest.mark.slow

TIGHT = (0.01, 0.005, 0.004)
INF = (np.inf, np.inf, np.inf)
ALONE = {1: (1, 0, 0), 2: (0, 1, 0), 3: (0, 0, 1)}


def exact(fed):
    """The same in double precision, by torch."""
    return replace(fed, engine=Plain(fed.model), init_params=first_models(fed)[0].astype(np.float64))


def after_round(fed, method, state, t):
    """The state of all runs [run, ...] after one more round."""
    of = [State(state.params[run], {name: value[run] for name, value in state.memory.items()}) for run in range(len(fed.seeds))]
    return stacked(asked(fed, lambda one, run: method.round(one, of[run], t)))


def functions(l_k, f, g_l, g_f):
    """Values and gradients of everything that one run of EFFL speaks of, by name, written out."""
    n = len(l_k)
    out = {"mean loss": (l_k.mean(), g_l.mean(0))}
    for k in range(n):
        out[f"loss {k}"] = (l_k[k], g_l[k])
        out[f"bias {k}"] = (f[k], g_f[k])
        out[f"loss gap {k}"] = (abs(l_k[k] - l_k.mean()), np.sign(l_k[k] - l_k.mean()) * (g_l[k] - g_l.mean(0)))
        out[f"bias gap {k}"] = (abs(f[k] - f.mean()), np.sign(f[k] - f.mean()) * (g_f[k] - g_f.mean(0)))
    return out


def second(l_k, f, g_l, g_f, stage, eps, every=False, leave=False, normalise="none"):
    """(d, objective's name, names of constraints) for one run, by HiGHS on the gradients themselves."""
    n, made = len(l_k), functions(l_k, f, g_l, g_f)
    worst = {
        what: f"{what} {max(range(n), key=lambda k: made[f'{what} {k}'][0])}" for what in ("loss", "bias", "loss gap", "bias gap")
    }
    budget = dict(zip(("bias", "loss gap", "bias gap"), eps, strict=True))
    allowed = {1: ("bias",), 2: ("bias", "loss gap", "bias gap"), 3: ("bias", "loss gap", "bias gap")}[stage]
    hull, held = {"mean loss"}, {"mean loss"}
    for what in allowed:
        for name in [f"{what} {k}" for k in range(n)] if every else [worst[what]]:
            if made[name][0] > budget[what]:
                held.add(name)
        if not leave:
            hull.add(worst[what])
    if stage == 1:
        objective = worst["bias"] if made[worst["bias"]][0] > eps[0] else "mean loss"
    elif stage == 2:
        objective = worst["loss gap"] if made[worst["loss gap"]][0] > eps[1] else worst["bias gap"]
        if objective.startswith("bias"):
            hull -= {worst["loss gap"]}
    else:
        objective = worst["loss"]
        held |= {f"loss {k}" for k in range(n)}
    names = sorted(hull | held | {objective})
    held -= {objective}
    G = []
    for name in names:
        value, g = made[name]
        by = {"none": 1, "l2": np.linalg.norm(g), "loss": max(value, 1e-3), "l2+loss": np.linalg.norm(g) * max(value, 1e-3)}
        G.append(g / by[normalise])
    G = np.array(G)
    Q = G @ G.T
    kept = [names.index(name) for name in held]
    best = linprog(-Q[names.index(objective)], A_ub=-Q[kept], b_ub=np.zeros(len(kept)), A_eq=np.ones((1, len(G))), b_eq=[1.0])
    assert best.status == 0
    return best.x @ G, objective, held


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("setting", [
    {}, {"violators": "every"}, {"inactive": "leave"}, {"normalise": "l2"}, {"normalise": "l2", "violators": "every"},
    {"normalise": "l2", "inactive": "leave"}, {"normalise": "loss"},
    {"normalise": "l2+loss", "violators": "every", "inactive": "leave"},
])  # fmt: skip
def test_a_round_is_that_of_a_second_implementation(stage, setting):
    fed = exact(tables())
    way = {"every": setting.get("violators") == "every", "leave": setting.get("inactive") == "leave"}
    way["normalise"] = setting.get("normalise", "none")
    for eps in (TIGHT, (0.05, 0.03, 0.02), (0.01, 1.0, 0.01), (1.0, 0.01, 1.0), INF):
        method = EFFL(*eps, ALONE[stage], eta=0.1, **setting)
        state = fed.run(method, 6, record=()).state
        values, slopes = gradient(fed, state.params, LossAndBias())
        after = after_round(fed, method, state, 7)
        for r in range(2):
            wanted, objective, _ = second(*values[r].T, *np.moveaxis(slopes[r], 1, 0), stage, eps, **way)
            assert OBJECTIVES[after["objective"][r]] in (objective.rstrip(" 0123456789"), f"worst {objective.split()[0]}")
            d = (state.params[r] - after.params[r]) / (0.1 * 0.999**6)
            np.testing.assert_allclose(d, wanted, atol=2e-5 * np.abs(wanted).max() + 1e-7)
            assert after["length"][r] == pytest.approx(np.linalg.norm(wanted), rel=1e-4, abs=1e-6)
        np.testing.assert_allclose(after["loss"], values[..., 0])
        np.testing.assert_allclose(after["bias"], values[..., 1])


def drawn(rng, runs=6, n=5, size=9):
    l_k, f = rng.random((runs, n)) + 0.3, 0.2 * rng.random((runs, n))
    return l_k, f, rng.normal(size=(runs, 2 * n, size)) + rng.normal(size=(runs, 1, size)) / 2


@pytest.mark.parametrize("violators", ["worst", "every"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_direction_satisfies_every_constraint_on_random_gradients(stage, violators):
    """Also with more functions than parameters, where the hull may hold 0 and nothing can fall."""
    rng = np.random.default_rng(stage)
    for size in (3, 9, 40):
        for eps in (TIGHT, (0.1, 0.2, 0.05), INF):
            method = EFFL(*eps, violators=violators)
            for l_k, f, gradients in zip(*drawn(rng, runs=2, size=size), strict=True):
                rows = method.rows(l_k, f, stage)
                alpha, fallback, length = method.direction(gram_of(gradients), rows)
                d, G = alpha @ gradients, rows.slope @ gradients
                along = G @ d / np.linalg.norm(G, axis=1).clip(1e-12)
                assert (along[rows.constrained] >= -1e-7).all()
                assert along[rows.objective] >= -1e-7
                np.testing.assert_allclose(np.linalg.norm(d), length, atol=1e-6)
                if size == 40:
                    assert along[rows.objective] > 1e-3 and fallback == 0


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_small_step_lowers_the_objective_and_no_constrained_function_rises(stage):
    fed = exact(tables())
    method = EFFL(*TIGHT, ALONE[stage], eta=0.05, violators="every")
    state = fed.run(method, 3, record=()).state
    before, slopes = gradient(fed, state.params, LossAndBias())
    small = after_round(fed, replace(method, eta=1e-5, lr_decay=1.0), state, 4)
    after = gradient(fed, small.params, LossAndBias())[0]
    for r in range(2):
        _, objective, held = second(*before[r].T, *np.moveaxis(slopes[r], 1, 0), stage, TIGHT, every=True)
        was, now = (functions(*v[r].T, *np.moveaxis(slopes[r], 1, 0)) for v in (before, after))
        assert len(held) > 2
        assert now[objective][0] < was[objective][0] - 1e-8
        for name in held:
            assert now[name][0] <= was[name][0] + 2e-8, name


def test_the_fallback_is_the_min_norm_point(monkeypatch):
    rng = np.random.default_rng(0)
    method = EFFL(*TIGHT, normalise="none")
    monkeypatch.setattr(effl, "linear_program", lambda c, A, **more: (np.zeros(c.shape), False))
    for l_k, f, gradients in zip(*drawn(rng, runs=2), strict=True):
        rows = method.rows(l_k, f, 3)
        alpha, fallback, length = method.direction(gram_of(gradients), rows)
        assert FALLBACKS[fallback] == "infeasible"
        G = rows.slope @ gradients
        n = len(G)
        best = minimize(lambda a: ((a @ G) ** 2).sum(), np.full(n, 1 / n), bounds=[(0, 1)] * n, method="SLSQP", tol=1e-14,  # noqa: B023
                        constraints={"type": "eq", "fun": lambda a: a.sum() - 1})  # fmt: skip
        np.testing.assert_allclose(alpha @ gradients, best.x @ G, atol=1e-4)
        assert length == pytest.approx(np.linalg.norm(best.x @ G), abs=1e-5)
        assert (G @ (alpha @ gradients) >= length**2 - 1e-9).all()  # so that nothing rises


def test_where_nothing_can_fall_the_step_is_the_shortest_and_said_to_vanish():
    """Two clients that pull against each other, equal in all else: the hull holds 0."""
    method = EFFL(*INF, inactive="leave")
    rows = method.rows(np.array([1.0, 0.9]), np.zeros(2), 3)
    for g in np.random.default_rng(0).normal(size=(2, 4)):
        gradients = np.stack([g, -g, 0 * g, 0 * g])
        alpha, fallback, length = method.direction(gram_of(gradients), rows)
        assert FALLBACKS[fallback] == "vanishing" and length == pytest.approx(0, abs=1e-6)
        np.testing.assert_allclose(alpha @ gradients, 0, atol=1e-6)
        nothing = method.direction(0 * gram_of(gradients), rows)
        assert nothing[2] == 0


# Proposition 1 and C.3.


def test_proposition_1_with_a_step_that_can_be_named():
    """A log loss of logistic regression bends at most by L = mean |x|^2 / 4, so a step up to 2 d.g / (L |d|^2) lets none rise."""
    fed = exact(tables())
    state = fed.run(EFFL(*TIGHT, (0, 0, 1), eta=0.05), 3, record=()).state
    before, slopes = gradient(fed, state.params)
    d = (state.params - after_round(fed, EFFL(*INF, (0, 0, 1), eta=1.0, lr_decay=1.0), state, 1).params)[:, None]
    falls = (d * slopes).sum(2)
    assert (falls > 1e-4).all()
    train = fed.shards["train"]
    L = np.array([[(np.c_[fed.inputs(train.X[train.rows(r, k)], r), np.ones(train.sizes[r, k])] ** 2).sum(1).mean() / 4
                   for k in range(fed.clients)] for r in range(2)])  # fmt: skip
    eta = (2 * falls / (L * (d**2).sum(2))).min(1)
    for part in (1e-3, 0.1, 0.5, 0.9, 1.0):
        after = losses(fed, state.params - part * eta[:, None] * d[:, 0])
        assert (after <= before + 1e-12).all()


def test_stability_holds_for_most_programs_and_not_at_a_tie():
    """C.3: an error e of the gradients moves the weights by O(e). True while the vertex stays the same; where two are equally
    good, an error of any size moves all the weight."""
    rng = np.random.default_rng(5)
    G = rng.normal(size=(6, 12))
    E = rng.normal(size=G.shape)
    exact_alpha = programs.linear_program(G[0] @ G.T, G @ G.T)[0]
    ratios = []
    for e in 10.0 ** -np.arange(3, 8):
        moved = G + e * E / np.linalg.norm(E)
        alpha = programs.linear_program(moved[0] @ moved.T, moved @ moved.T)[0]
        ratios.append(np.linalg.norm(alpha @ moved - exact_alpha @ G) / e)
    assert max(ratios) < 10 and np.ptp(ratios[1:]) < 0.1 * max(ratios)
    tie = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]])  # the last two gain equally for the first
    for e in (1e-3, 1e-6, 1e-9):
        up, down = tie.copy(), tie.copy()
        up[1, 0] += e
        down[2, 0] += e
        d = [programs.linear_program(g[0] @ g.T, g @ g.T, active=np.array([True, False, False]))[0] @ g for g in (up, down)]
        assert np.linalg.norm(d[0] - d[1]) > 1.9


# Limit cases.


def test_infinite_budgets_are_gradient_descent_on_the_mean_loss():
    fed = uneven(ClientTraining("sgd", 0.1))

    async def descended(one, along):
        theta = one.init_params()
        for _ in range(4):
            _, slopes = await one.value_and_gradient(theta, one.all_clients)
            theta = theta - 0.2 * along(slopes)
        return theta

    plain = fed.ask(lambda one: descended(one, lambda slopes: slopes.mean(0, dtype=np.float64)))
    unit = fed.ask(lambda one: descended(one, lambda slopes: slopes.sum(0) / np.linalg.norm(slopes.sum(0))))
    for stages in ((4, 0, 0), (9, 1, 1)):
        history = fed.run(
            EFFL(*INF, stages, eta=0.2, lr_decay=1.0, normalise="none", inactive="leave"), 4, remember=("violated",)
        )
        np.testing.assert_allclose(history.answer, plain, atol=2e-6)
        assert not history.memory["violated"].any()
    among_units = fed.run(EFFL(*INF, eta=0.2, lr_decay=1.0, normalise="l2"), 4)
    np.testing.assert_allclose(among_units.answer, unit, atol=2e-6)


def test_one_client_alone_descends_its_loss():
    fed = tables()
    train = fed.shards["train"]
    whole = Shards.deal(train.examples, [[np.concatenate([train.rows(r, k) for k in range(4)])] for r in range(2)])
    fed = replace(fed, shards={"train": whole, "test": whole})
    for stage in (1, 2, 3):
        history = fed.run(EFFL(np.inf, 0.0, 0.0, ALONE[stage], inactive="leave"), 20, record=(), remember=("loss",))
        assert (np.diff(history.memory["loss"][..., 0], axis=1) < 0).all()


def test_stages_are_half_open_and_may_be_left_out():
    def stages(method, rounds):
        return [method.stage(t) for t in range(1, rounds + 1)]

    assert stages(EFFL(*TIGHT, (2, 3, 1)), 8) == [1, 1, 2, 2, 2, 3, 3, 3]
    assert stages(EFFL(*TIGHT, (2, 0, 1)), 4) == [1, 1, 3, 3]
    assert stages(EFFL(*TIGHT, (2000, 0, 0)), 2001)[-1] == 1 and stages(EFFL(*TIGHT, (0, 5, 0)), 9) == [2] * 9
    whole = stages(EFFL(*TIGHT), 2000)
    assert [whole.count(s) for s in (1, 2, 3)] == [750, 750, 500] and whole == sorted(whole)
    history = tables().run(EFFL(*TIGHT, (2, 1, 2)), 5, remember=("stage",))
    np.testing.assert_array_equal(history.memory["stage"], [[1, 1, 2, 3, 3]] * 2)


# What it is for, and what the text says otherwise.


def test_budgets_are_met_on_the_training_surrogate():
    fed = tables()
    free = fed.run(EFFL(*INF, (300, 0, 0), normalise="l2"), 300, record=(), remember=("loss", "bias"))
    held = fed.run(EFFL(0.03, 0.05, 0.02, (150, 150, 100), violators="every", eta=0.05, lr_decay=0.99, normalise="l2"), 400,
                   record=(), remember=("loss", "bias"))  # fmt: skip
    f, f_free = held.memory["bias"][:, -1], free.memory["bias"][:, -1]
    assert (f_free.max(1) > 0.15).all() and (f.max(1) < f_free.max(1) / 3).all()
    assert f[0].max() < 0.031
    gap, gap_free = (h.memory["loss"][:, -1] for h in (held, free))
    assert np.abs(gap[0] - gap[0].mean()).max() < 0.05 < np.abs(gap_free[0] - gap_free[0].mean()).max()


def test_the_printed_sign_is_infeasible_or_climbs():
    fed = tables()
    history = fed.run(EFFL(*TIGHT, (20, 20, 20), sign="printed"), 60, record=(), remember=("loss", "fallback"))
    assert (history.memory["fallback"] == 1).mean() > 0.8
    loss = history.memory["loss"].mean(2)
    assert (loss[:, -1] > loss[:, 0] + 0.1).all()
    ours = fed.run(EFFL(*TIGHT, (20, 20, 20)), 60, record=(), remember=("loss", "fallback"))
    assert (ours.memory["fallback"] != 1).all() and (ours.memory["loss"].mean(2)[:, -1] < loss[:, 0]).all()


def test_a_budget_taken_off_twice_lets_gaps_be_twice_as_wide():
    l_k, f = np.array([0.5, 0.5, 0.5, 0.62]), np.array([0.0, 0.08, 0.0, 0.0])  # 0.09 and 0.06 above the mean
    for twice, wide in ((False, [False, True, True]), (True, [False, False, False])):
        rows = EFFL(0.1, 0.05, 0.04, twice=twice).rows(l_k, f, 3)
        assert (rows.violated == wide).all()
        assert rows.constrained.sum() == 1 + sum(wide) + 3
    assert EFFL(0.1, 0.05, 0.04, twice=True).rows(l_k, f, 2).goal == 2  # that test is printed right


def test_biases_may_be_tested_hard():
    fed = tables()
    history = fed.run(EFFL(*TIGHT, (5, 5, 5), tested="hard", bias="apsd_acc"), 1, record=(), remember=("bias",))
    np.testing.assert_allclose(history.memory["bias"][:, 0], metrics.apsd_acc(confusion(fed, first_models(fed))))
    soft = fed.run(EFFL(*TIGHT, (5, 5, 5), bias="apsd_acc"), 1, record=(), remember=("bias",))
    np.testing.assert_allclose(soft.memory["bias"][:, 0], gradient(fed, first_models(fed), SoftBias("apsd_acc"))[0])


def test_backtracking_keeps_the_mean_loss_of_the_stage_before():
    fed = tables()
    before = fed.run(EFFL(*TIGHT, (60, 0, 0), eta=0.05), 60, record=()).state
    found = {}
    for halvings in (0, 12):
        method = EFFL(*TIGHT, (0, 10, 9), eta=1.5, lr_decay=1.0, backtrack=halvings)
        state, found[halvings] = before, []
        for t in range(1, 20):
            state = after_round(fed, method, state, t)
            found[halvings].append(state["loss"].mean(1))
    loose, kept = map(np.array, found.values())
    assert (loose.max(0) > loose[0] + 0.03).all()
    assert (kept[:11] <= kept[0] + 1e-6).all() and (kept[11:] <= kept[10] + 1e-6).all()


# More than two of everything, malicious clients, and settings.


def test_ten_classes_and_three_groups():
    fed = images()
    rng = np.random.default_rng(0)
    grouped = {}
    for part, shards in fed.shards.items():
        e = shards.examples
        grouped[part] = replace(shards, examples=Examples(e.X, e.y, rng.integers(3, size=len(e.y)), e.classes, 3))
    fed = replace(fed, shards=grouped)
    for bias in ("tpsd", "apsd", "apsd_acc"):
        history = fed.run(EFFL(0.05, 0.05, 0.02, (4, 4, 4), bias, violators="every"), 12, remember=("bias", "loss", "objective"))
        assert (history.memory["bias"] > 0).any() and np.isfinite(history.memory["bias"]).all()
        assert (history.memory["loss"][:, -1].mean(1) < history.memory["loss"][:, 0].mean(1)).all()
        assert np.isfinite(history.values(f"mean_{bias}")).all()


@pytest.mark.parametrize("kind", ["enlarge", "random", "zero"])
def test_it_runs_under_attack(kind):
    fed = replace(tables(), attack=Attack(kind, 2))
    history = fed.run(EFFL(*TIGHT, (10, 10, 10)), 30)
    assert np.isfinite(history.answer).all()


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_run_that_diverges_is_named_or_stops_no_other():
    fed = tables()
    method = EFFL(*TIGHT, (3, 3, 3), eta=0.03, lr_decay=1.0, normalise="none")
    both = [method, replace(method, eta=1e40)]
    with pytest.raises(FairFLError, match="not finite"):
        fed.run(both, 9)
    kept, lost = replace(fed, diverged="keep").run(both, 9).values()
    np.testing.assert_array_equal(kept.answer, fed.run(method, 9).answer)
    assert not np.isfinite(lost.answer).all(1).any()


@pytest.mark.parametrize(("setting", "said"), [
    ({"eps_b": -0.1}, "eps_b must be at least 0"), ({"eps_vl": np.nan}, "eps_vl must be"), ({"eps_vb": "x"}, "eps_vb must be"),
    ({"stages": (0, 0, 0)}, "three stages"), ({"stages": (1, 2)}, "three stages"), ({"stages": (1, 2, -1)}, "rounds of a stage"),
    ({"bias": "eod"}, "decision bias"), ({"normalise": "l1"}, "normalisation"), ({"violators": "all"}, "violators"),
    ({"inactive": "go"}, "met constraints"), ({"tested": "train"}, "tested bias"), ({"sign": "plus"}, "sign"),
    ({"lr_decay": 0.0}, "lr_decay must be above 0"), ({"eta": -1.0}, "eta must be"), ({"backtrack": -1}, "backtrack"),
    ({"sharpness": 0.0}, "sharpness"),
])  # fmt: skip
def test_wrong_settings_are_refused(setting, said):
    with pytest.raises(FairFLError, match=said):
        EFFL(**{"eps_b": 0.1, "eps_vl": 0.1, "eps_vb": 0.1, **setting})


# Equal rows are counted once.


def repeated(groups=3, runs=2):
    """A table whose rows repeat, unevenly dealt; the last client of the second run has none."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, (30, 5)).astype(np.float32)
    X, y, a = kinds[rng.integers(30, size=400)], rng.integers(2, size=400), rng.integers(groups, size=400)
    dealt = [[np.arange(0, 150), np.arange(150, 390), np.arange(390, 400)],
             [rng.permutation(400)[:60], rng.integers(400, size=90), np.arange(0)]]  # fmt: skip
    fed = tables()
    train = Shards.of(X, y, a, dealt[:runs], groups=groups)
    model = replace(fed.model, features=5)
    return replace(fed, shards={"train": train}, model=model, inputs=type(fed.inputs).of(train))


def test_distinct_rows_and_their_counts_are_the_rows(monkeypatch):
    train = repeated().shards["train"]
    for again in (False, True):
        once = train.distinct
        for r, k in np.ndindex(2, 3):
            rows, count = once.rows(r, k), once.weight[once.start[r, k] : once.start[r, k + 1]].astype(int)
            whole = np.repeat(np.c_[train.X[rows], train.y[rows], train.a[rows]], count, axis=0)
            mine = train.rows(r, k)
            mine = np.c_[train.X[mine], train.y[mine], train.a[mine]]
            np.testing.assert_array_equal(whole[np.lexsort(whole.T)], mine[np.lexsort(mine.T)])
            if not again:
                assert len(rows) == len(np.unique(mine, axis=0))
        assert again or once.sizes[0, 1] < 150
        repeats = train.repeat(3).distinct
        assert repeats.index.size == once.index.size and repeats.start.tolist() == once.start.tolist() * 3

        class Same:  # sums that tell no rows apart: then each stands for itself
            def integers(self, high, size, dtype):
                return np.zeros(size, dtype) - np.uint64(1) // np.uint64(2)

        monkeypatch.setattr(np.random, "default_rng", lambda *seed: Same())
        train = replace(train, examples=replace(train.examples))


@pytest.mark.parametrize("kind", ["tpsd", "apsd", "apsd_acc"])
@pytest.mark.parametrize("of", [SoftBias, lambda *s: LossAndBias(SoftBias(*s))])
def test_the_pass_over_distinct_rows_agrees_with_torch(kind, of):
    fed = repeated()
    plain = replace(fed, engine="plain")
    rng = np.random.default_rng(1)
    for scale in (0.02, 0.3, 3.0):
        theta = rng.normal(0, scale, (2, fed.model.size)).astype(np.float32)
        for who in (([0, 1, 2], [0, 1, 2]), ([2, 0], [1])):
            both = [
                asked(each, lambda one, run: one.value_and_gradient(theta[run], np.array(who[run]), of(kind)))  # noqa: B023
                for each in (fed, plain)
            ]
            for found, wanted in zip(*both, strict=True):
                np.testing.assert_allclose(found[0], wanted[0], rtol=2e-4, atol=2e-5)
                np.testing.assert_allclose(found[1], wanted[1], rtol=2e-4, atol=2e-5)
        exact_theta = theta.astype(np.float64)
        double = gradient(fed, exact_theta, of(kind)), gradient(plain, exact_theta, of(kind))
        np.testing.assert_allclose(double[0][1], double[1][1], rtol=1e-3, atol=1e-4)
        batch = gradient(fed, theta, of(kind), batch=20, t=3), gradient(plain, theta, of(kind), batch=20, t=3)
        np.testing.assert_allclose(batch[0][1], batch[1][1], rtol=2e-4, atol=2e-5)
    hidden = replace(fed, model=replace(fed.model, hidden=3))
    theta = first_models(hidden)
    found, wanted = (gradient(each, theta, of(kind))[1] for each in (hidden, replace(hidden, engine="plain")))
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def test_weights_of_rows_are_not_taken_for_how_often_they_are_there():
    fed = repeated()
    uneven_weights = np.random.default_rng(0).random((2, 3, 3, 2))
    weighted = replace(fed, shards={"train": fed.shards["train"].weighted(uneven_weights)})
    for found, wanted in zip(*(gradient(each, first_models(fed), SoftBias("apsd")) for each in (weighted, fed)), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_values_are_those_of_the_federation():
    fed = repeated()
    theta = first_models(fed)
    values = gradient(fed, theta, LossAndBias())[0]
    np.testing.assert_allclose(values[..., 0], losses(fed, theta), rtol=1e-5)
    assert np.isnan(values[1, 2]).all()
    z = [[torch.as_tensor(client) for client in run] for run in logits(fed, theta)]
    train = fed.shards["train"]
    for r, k in ((0, 0), (0, 2), (1, 1)):
        rows = train.rows(r, k)
        wanted = SoftBias()(z[r][k].double(), torch.as_tensor(train.y[rows]), torch.as_tensor(train.a[rows]))
        assert values[r, k, 1] == pytest.approx(wanted.item(), abs=1e-5)


def test_the_bench_says_how_a_round_grows_and_how_long_a_run_takes():
    times = {f"{n} clients": {"in proportion": 3.0 * n, "by pairs": 0.1 * n**2, "constant": 7.0} for n in (2, 11, 51)}
    for grown in bench.powers(times).values():
        assert grown == pytest.approx({"in proportion": 1, "by pairs": 2, "constant": 0})
    assert [*bench.powers(times)] == ["2 clients to 11 clients", "11 clients to 51 clients"]
    assert bench.unequal(5, rows=30).sizes().tolist() == [[30] * 5]
    seconds = bench.whole(rounds=3, clients=4)
    assert [*seconds] == ["Adult", "4 clients"] and all(0 < value < 60 for value in seconds.values())

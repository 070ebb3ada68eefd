"""What holds for every method alike: what its server sees of single clients, runs that diverge beside others, clients without
rows."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from toy import one_run, rows, uneven

from fairfl_lite import methods
from fairfl_lite.clients import Debias, Local
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, Shards, Standard, State
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import EFFL, FRL, IFCA, FairFate, FairFed, FedAvg, FedDemon, RankFF
from fairfl_lite.models import Dense

LOCAL = Local("sgd", 0.1, 0, 1, 10)
SETTINGS = {
    "EFFL": EFFL(0.01, 0.01, 0.01, stages=(1, 1, 1)), "IFCA": IFCA(2, known=True), "FairFate": FairFate(rounds=3),
    "FedDemon": FedDemon(rounds=3), "RankFF": RankFF(steps=1, J=3), "FCFL": methods.FCFL(first=2),
}  # fmt: skip
METHODS = [SETTINGS.get(name) or kind() for name in methods.__all__ if issubclass(kind := getattr(methods, name), Method)]
SUMS = [method for method in METHODS if not method.must_see]
ALL = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
VOTES = ("frl", "e2fl")  # on supernets alone


def equal(runs=1, flip=0, **options):
    """Three clients of 40 rows in each run and part; `flip` turns their labels."""
    table = rows()
    parts = ("train", "validation", "test")
    dealt = [np.split(np.arange(360).reshape(3, 120)[i], 3) for i in range(3)]
    shards = {part: Shards.of(table.X, table.y ^ flip, table.a, [dealt[i]] * runs) for i, part in enumerate(parts)}
    return Federation(shards, Dense(4), LOCAL, tuple(range(3, 3 + runs)), Standard.of(shards["train"]), **options)


class Counted(SecAgg):
    """Secure sums that are counted."""

    calls = 0

    def __call__(self, messages):
        Counted.calls += 1
        return super().__call__(messages)


def test_the_list_is_of_all_methods():
    assert len(METHODS) == 21 and len(SUMS) == 11


@ALL
def test_a_secure_sum_gives_the_same_or_the_method_says_what_it_must_see(method):
    fed, Counted.calls = equal(), 0
    secure = replace(fed, aggregate=Counted(3, seed=1))
    if method.must_see:
        with pytest.raises(FairFLError, match=f"^{method.name.replace('+', '.')} must see {method.must_see}, and") as refused:
            secure.run(method, 1)
        assert str(refused.value).count(".") == 1 and Counted.calls == 0
        return
    plain, hidden = fed.run(method, 3), secure.run(method, 3)
    np.testing.assert_allclose(hidden.state.params, plain.state.params, atol=1e-6)
    np.testing.assert_allclose(hidden.answer, plain.answer, atol=1e-6)
    assert (Counted.calls > 0) == (method.name != "local")  # local training sends nothing


@pytest.mark.parametrize("told", [0.0, 0.7])
@pytest.mark.parametrize("method", [*SUMS, FedAvg(Debias("global"))], ids=lambda method: method.name)
def test_the_server_knows_nothing_but_sums(method, told):
    """Where every sum is the same, so are the models, whatever the labels at the clients."""
    found = []
    for flip in (0, 1):
        fed = equal(flip=flip, aggregate=lambda messages: np.full((len(messages), *messages.shape[2:]), told), diverged="keep")
        with np.errstate(invalid="ignore", divide="ignore"):
            history = fed.run(method, 3, record=())
        found.append([history.state.params, *([history.answer] if history.answer.ndim == 2 else [])])
    np.testing.assert_equal(*found)


def test_rankffs_search_goes_by_the_number_of_those_below_their_alpha():
    for told, beta in ((0.0, 1 / 8), (1.0, 1.0)):  # nobody is, in three searches; somebody always
        fed = equal(aggregate=lambda messages, told=told: np.full((len(messages), *messages.shape[2:]), told))
        assert fed.run(RankFF(steps=1, J=3, normalise=False), 3, record=()).state["beta"] == [beta]


def test_fairfed_by_exponentials_must_see_the_smallest_gap():
    assert not FairFed().must_see
    with pytest.raises(FairFLError, match="smallest gap of all clients"):
        equal(aggregate=SecAgg(3)).run(FairFed(rule="exp"), 1)


def test_what_a_secure_sum_accepts_does_not_depend_on_the_other_runs():
    fed = uneven(LOCAL)  # three take part in the first run, two in the second
    for some in (fed, one_run(fed, 1)):
        with pytest.raises(FairFLError, match="In the run of seed 8 2 clients take part, and the secure sum is over 3"):
            replace(some, aggregate=SecAgg(3))
    with pytest.raises(FairFLError, match="In the run of seed 3 3 clients take part, and the secure sum is over 2"):
        replace(fed, aggregate=SecAgg(2))
    for r, many in enumerate((3, 2)):
        alone = one_run(fed, r)
        hidden = replace(alone, aggregate=SecAgg(many)).run(FedAvg(), 2).state.params
        np.testing.assert_allclose(hidden, alone.run(FedAvg(), 2).state.params, atol=1e-6)


def start_with(fed, run, value):
    """Let one run begin at a model of this value everywhere."""
    start = fed.start()
    start[run] = value
    object.__setattr__(fed, "start", lambda: start.copy())
    return fed


@pytest.mark.parametrize("value", [np.nan, 3e38])
def test_a_run_that_diverged_has_no_secure_sum_and_the_others_have(value):
    fed = equal(2, aggregate=SecAgg(3, seed=1), diverged="keep")
    alone = one_run(fed, 1).run(FedAvg(), 2).state.params
    found = start_with(fed, 0, value).run(FedAvg(), 2).state.params
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1:], alone)


@pytest.mark.parametrize("value", [np.nan, 1e38])
@ALL
def test_a_run_that_diverged_changes_no_other(method, value):
    if method.name in VOTES:
        return
    fed = equal(2, diverged="keep")
    alone = one_run(fed, 1).run(method, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = start_with(fed, 0, value).run(method, 3)
    np.testing.assert_array_equal(together.state.params[1:], alone.state.params)
    np.testing.assert_array_equal(together.counts["test"][1:], alone.counts["test"])


def test_known_groups_need_as_many_models():
    fed = equal()
    train = fed.shards["train"]
    three = Shards.of(
        train.X, train.y, np.repeat([0, 1, 2], 40).tolist() + [0] * 280, [[np.arange(40 * k, 40 * k + 40) for k in range(3)]]
    )
    fed = replace(fed, shards={"train": three})
    with pytest.raises(FairFLError, match="IFCA has 2 models, and clients belong to 3 groups: give count=3"):
        fed.run(IFCA(2, known=True), 1, record=())
    assert (fed.run(IFCA(3, known=True), 1, record=()).state["of"] == [[0, 1, 2]]).all()


@dataclass(frozen=True)
class ByLoss(Method):
    """Clients weigh by their loss: what a user writes who has not thought of places that nobody fills."""

    ask: bool = False
    rate: float = 1.0
    name: str = "by loss"

    def start(self, fed):
        return State(fed.start())

    def round(self, fed, state, t):
        who = fed.who(t)
        params = fed.average(fed.train(state.params, t, who=who), self.rate * fed.losses(state.params, who=who))
        if self.ask:
            fed.losses(params)
        return State(params)


def test_a_loss_that_nobody_has_is_called_that():
    fed = uneven(LOCAL)
    said = r"for seed 8: client 1 has no training rows, and nobody fills place 2 of fed.who\(1\). Its losses are NaN"
    with pytest.raises(FairFLError, match=said) as refused:
        fed.run(ByLoss(), 1, record=())
    assert "rate" not in str(refused.value)
    with pytest.raises(FairFLError, match="of clients without rows .who is -1., which are NaN"):
        fed.run(ByLoss(ask=True), 1, record=())
    for model in (np.nan, np.inf):
        with pytest.raises(FairFLError, match="A model that is not finite cannot be asked or trained"):
            fed.train(np.full((2, 5), model, np.float32), 1)
    full = one_run(fed, 0)
    assert np.isfinite(full.run(ByLoss(), 1, record=()).state.params).all()
    with pytest.raises(FairFLError, match="for seed 3: lower the learning rate"), np.errstate(invalid="ignore"):
        full.run(ByLoss(rate=np.inf), 1, record=())


def test_frl_says_what_it_must_see_before_it_asks_for_a_supernet():
    with pytest.raises(FairFLError, match="frl must see every client's ranking"):
        equal(aggregate=SecAgg(3)).run(FRL(), 1)

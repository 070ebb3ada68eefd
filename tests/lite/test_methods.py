"""What holds for every method alike: the same bytes alone, in company and after a stop; what its server sees of single clients;
runs that diverge beside others; clients without rows."""

import inspect
import pkgutil
import warnings
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module

import numpy as np
import pytest
from every_method import LOCAL, METHODS, OWN, SUMS, VARIANTS, VOTES, WHOLE, assert_same_bytes, equal, three_seeds
from toy import one_run, rows, uneven

from fairfl_lite import methods
from fairfl_lite.clients import Debias
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import ByGroup, Federation, Method, OneFederation, Shards, Standard, State, alone, run_together
from fairfl_lite.federation.kept import Book
from fairfl_lite.federation.secagg import SecAgg
from fairfl_lite.methods import E2FL, FRL, IFCA, QFFL, FairFed, FedAvg, FedMom, LocalOnly, OneShotInference, RankFF
from fairfl_lite.models import Dense

pytestmark = pytest.mark.slow

ALL = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
EVERY = pytest.mark.parametrize("method", [*METHODS, *VARIANTS], ids=lambda method: method.name)
GRADIENTS = (
    "afl",
    "effl",
    "fairreg",
    "fcfl",
    "fedgft",
    "fedmdfg",
    "rankff",
)  # taken at rates of their own, whatever that of local training


@cache
def by_itself(method, run, participants=0):
    return one_run(three_seeds(method, participants=participants), run).run(method, 4, record=("train", "test"))


@EVERY
@pytest.mark.parametrize("participants", [0, 2])
def test_a_method_alone_on_one_seed_and_in_company_gives_the_same_bytes(method, participants):
    """In the company of other seeds, of other methods, and of itself at another rate."""
    if participants and isinstance(method, WHOLE):
        return
    fed = three_seeds(method, participants=participants)
    faster = replace(fed, local=replace(fed.local, lr=2 * fed.local.lr))
    others = [LocalOnly(), FRL(name="other")] if method.name in VOTES else [QFFL(q=2.0), FedMom(0.7)]
    pairs = [(fed, others[0]), (faster, method), (fed, method), (faster, others[1])]
    _, fast, found, _ = run_together(pairs, 4, record=("train", "test"))
    for run in range(3):
        assert_same_bytes(by_itself(method, run, participants), found, 0, run)
    deployed = [one.answer if isinstance(one.answer, np.ndarray) else one.answer.models for one in (fast, found)]
    assert np.array_equal(*deployed) == (method.name in GRADIENTS)


@pytest.mark.parametrize("kind", [VOTES, OWN[len(VOTES) :], ()], ids=["votes", "own models", "one model"])
def test_all_methods_at_once_give_the_same_bytes(kind):
    several = [method for method in [*METHODS, *VARIANTS] if (method.name in kind if kind else method.name not in OWN)]
    histories = three_seeds(several[0]).run(several, 4, record=("train", "test"))
    for (name, history), method in zip(histories.items(), several, strict=True):
        assert name.split()[0] == method.name
        for run in range(3):
            assert_same_bytes(by_itself(method, run), history, 0, run)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("method", [*METHODS, IFCA(3), E2FL(OneShotInference(3))], ids=lambda method: method.name)
def test_a_method_that_is_killed_goes_on_to_the_same_bytes(method, after, tmp_path, monkeypatch):
    fed, usual, saved = three_seeds(method), Book.save_runs, []
    options = {"record": ("train", "test"), "checkpoint_dir": tmp_path}

    def save(book, done, states):
        usual(book, done, states)
        saved.append(done)
        if done == after and len(saved) == after:
            raise Killed

    monkeypatch.setattr(Book, "save_runs", save)
    with pytest.raises(Killed):
        fed.run(method, 4, **options)
    went_on = fed.run(method, 4, **options)
    assert saved == [1, 2, 3, 4]  # none of them twice
    assert_same_bytes(went_on, fed.run(method, 4, record=("train", "test")))
    other = FRL(name="other") if method.name in VOTES else QFFL(q=2.0)
    beside = run_together([(fed, method), (fed, other)], 4, **options)[0]  # it has ended, and the other begins
    assert saved == [1, 2, 3, 4, 1, 2, 3, 4]
    assert_same_bytes(beside, went_on)


class Counted(SecAgg):
    """Secure sums that are counted."""

    calls = 0

    def __call__(self, messages):
        Counted.calls += 1
        return super().__call__(messages)


def test_the_list_is_of_all_methods():
    modules = [import_module(f"{methods.__name__}.{module.name}") for module in pkgutil.iter_modules(methods.__path__)]
    kinds = {kind for module in modules for kind in vars(module).values() if inspect.isclass(kind) and issubclass(kind, Method)}
    assert {type(method) for method in METHODS} == kinds - {Method} and len(METHODS) >= 21 and len(SUMS) >= 11


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
    assert (Counted.calls > 0) == (method.name != "local-only")  # local training sends nothing


@pytest.mark.parametrize("told", [0.0, 0.7])
@pytest.mark.parametrize("method", [*SUMS, FedAvg(Debias("global"))], ids=lambda method: method.name)
def test_the_server_knows_nothing_but_sums(method, told):
    """Where every sum is the same, so are the models, whatever the labels at the clients."""
    found = []
    for flip in (0, 1):
        fed = equal(flip=flip, aggregate=lambda messages: np.full(messages.shape[1:], told), diverged="keep")
        with np.errstate(invalid="ignore", divide="ignore"):
            history = fed.run(method, 3, record=())
        models = history.answer.models if isinstance(history.answer, ByGroup) else history.answer
        found.append([history.state.params, *([models] if models.ndim == 2 or isinstance(history.answer, ByGroup) else [])])
    np.testing.assert_equal(*found)


def test_rankffs_search_goes_by_the_number_of_those_below_their_alpha():
    for told, beta in ((0.0, 1 / 8), (1.0, 1.0)):  # nobody is, in three searches; somebody always
        fed = equal(aggregate=lambda messages, told=told: np.full(messages.shape[1:], told))
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
        lone = one_run(fed, r)
        hidden = replace(lone, aggregate=SecAgg(many)).run(FedAvg(), 2).state.params
        np.testing.assert_allclose(hidden, lone.run(FedAvg(), 2).state.params, atol=1e-6)


@pytest.fixture
def first_run_starts_at(monkeypatch):
    """Let the run of seed 3 begin at a model of this value everywhere."""
    usual = OneFederation.init_params

    def set_to(value):
        monkeypatch.setattr(OneFederation, "init_params",
                            lambda one: np.full_like(usual(one), value) if one.seed == 3 else usual(one))  # fmt: skip

    return set_to


@pytest.mark.parametrize("value", [np.nan, 3e38])
def test_a_run_that_diverged_has_no_secure_sum_and_the_others_have(value, first_run_starts_at):
    fed = equal(2, aggregate=SecAgg(3, seed=1), diverged="keep")
    lone = one_run(fed, 1).run(FedAvg(), 2).state.params
    first_run_starts_at(value)
    found = fed.run(FedAvg(), 2).state.params
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1:], lone)


@pytest.mark.parametrize("value", [np.nan, 1e38])
@ALL
def test_a_run_that_diverged_changes_no_other(method, value, first_run_starts_at):
    if method.name in VOTES:
        return
    fed = equal(2, diverged="keep")
    lone = one_run(fed, 1).run(method, 3)
    first_run_starts_at(value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = fed.run(method, 3)
    np.testing.assert_array_equal(together.state.params[1:], lone.state.params)
    np.testing.assert_array_equal(together.counts["test"][1:], lone.counts["test"])


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
class PropFair(Method):
    """Proportional fairness (Zhang et al., 2022) as a user writes it who thinks of the clients that are there: with baseline M,
    the gradient of sum_k (n_k / n) log(M - F_k) weighs client k by n_k / (M - F_k)."""

    M: float = 5.0
    name: str = "propfair"

    async def start(self, fed):
        return State(fed.init_params())

    async def round(self, fed, state, t):
        clients = fed.sample_clients(t)
        left = self.M - await fed.losses(state.params, clients)
        local = await fed.train(state.params, clients, t)
        return State(fed.average(local, fed.sizes(clients) / left), {"utility": fed.sum(np.log(left), fed.shares(clients))})


def twenty(**options):
    """Twenty clients, 15 of whom take part in a round; five of them have no rows under the first seed, eight under the second."""
    table, without = rows(), ((0, 4, 7, 15, 19), (1, 2, 3, 9, 10, 11, 12, 19))
    dealt = [[np.arange(0) if k in some else np.arange(12 * k, 12 * k + 5 + k % 6) for k in range(20)] for some in without]
    train, test = (Shards.of(table.X, table.y, table.a, d) for d in (dealt, [[np.arange(240, 400)]] * 2))
    options = {"participants": 15, **options}
    return Federation({"train": train, "test": test}, Dense(4), LOCAL, (3, 8), Standard.of(train), **options)


def test_a_method_of_ten_lines_has_no_place_that_nobody_fills():
    fed = twenty()
    history = fed.run(PropFair(), 12, remember=("utility",))
    assert np.isfinite(history.state.params).all() and np.isfinite(history.memory["utility"]).all()
    assert (history.memory["utility"][:, -1] > history.memory["utility"][:, 0]).all()  # and it does what it is for
    for seed, there in zip(fed.seeds, (15, 12), strict=True):
        one = fed.one(seed)
        for t in range(1, 13):
            clients = one.sample_clients(t)
            assert len(clients) == there and one.sizes(clients).all() and (np.diff(clients) > 0).all()


@dataclass(frozen=True)
class Wrong(Method):
    """One number of one client is not finite: in its weight or in its message, of a sum or of an average."""

    where: str
    value: float = np.nan
    name: str = "wrong"

    async def start(self, fed):
        return State(fed.init_params())

    async def round(self, fed, state, t):
        clients = fed.sample_clients(t)
        local, weights = await fed.train(state.params, clients, t), fed.shares(clients)
        if fed.seed == 8:
            (weights if "weight" in self.where else local)[4] = self.value
        if "sum" in self.where:
            return State(fed.sum(local, weights).astype(local.dtype))
        return State(fed.average(local, weights))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["weight of a sum", "weight of an average", "message of a sum", "message of an average"])
def test_a_weight_or_message_that_is_no_number_is_refused_by_its_clients_name(where, value):
    fed = twenty()
    assert fed.one(8).sample_clients(1)[4] == 7
    said = f"^The {where.split()[0]} of client 7 .seed 8. is not a finite number, so nothing can be summed: "
    with pytest.raises(FairFLError, match=said), np.errstate(invalid="ignore"):
        fed.run(Wrong(where, value), 1, record=())
    with np.errstate(invalid="ignore"):
        kept = replace(fed, diverged="keep").run([Wrong(where, value), FedAvg()], 1, record=())
    assert not np.isfinite(kept["wrong"].state.params[1]).all()
    np.testing.assert_allclose(kept["wrong"].state.params[0], kept["fedavg"].state.params[0], atol=1e-6)


@pytest.mark.parametrize("where", ["weight of a sum", "weight of an average"])
def test_a_secure_sum_refuses_such_a_weight_too(where):
    fed = one_run(twenty(), 1)
    with pytest.raises(FairFLError, match="^The weight of client 7 .seed 8. is not a finite number"):
        replace(fed, aggregate=SecAgg(12)).run(Wrong(where), 1, record=())


def test_what_is_asked_of_a_client_without_rows_is_refused_by_its_name():
    """A loss that nobody has is NaN, and a method that names all n clients by itself is told whose it is."""

    @dataclass(frozen=True)
    class Careless(PropFair):
        async def round(self, fed, state, t):
            clients = np.arange(fed.n)
            loss = await fed.losses(state.params, clients)
            return State(fed.average(await fed.train(state.params, clients, t), loss))

    with pytest.raises(FairFLError, match="^The weight of client 0 .seed 3. is not a finite number"):
        twenty().run(Careless(), 1, record=())


def test_a_model_that_is_not_finite_is_neither_asked_nor_trained():
    one = twenty().one()
    for value in (np.nan, np.inf):
        model = np.full(5, value, np.float32)
        for asked in (one.train(model, one.all_clients, 1), one.losses(model, one.all_clients), one.confusion(model)):
            with pytest.raises(FairFLError, match="A model that is not finite cannot be asked or trained"):
                alone(asked)


def test_frl_says_what_it_must_see_before_it_asks_for_a_supernet():
    with pytest.raises(FairFLError, match="frl must see every client's ranking"):
        equal(aggregate=SecAgg(3)).run(FRL(), 1)

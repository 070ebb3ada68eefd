"""A federation over workers: the bits of one process, the rows of each client with its worker alone, and nobody lost in silence.

The workers are played in this process, and messages are the bytes that would travel; tests/book/test_over_dask.py has processes.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from every_method import METHODS, OWN, VOTES, assert_same_bytes, three_seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import federation, images, rows, tables

from fairfl_lite.clients import Attack, ClientTraining, Debias
from fairfl_lite.engines import mean_loss
from fairfl_lite.errors import FairFLError, LostError
from fairfl_lite.federation import Federation, Shards, Standard, over
from fairfl_lite.methods import EFFL, FRL, QFFL, Ditto, FairFate, FairFed, FedAvg, RankFF
from fairfl_lite.models import Dense

pytestmark = pytest.mark.slow

ALL = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
BOTH = {"record": ("train", "test")}


def assert_same(fed, methods, workers=2, rounds=3, **options):
    options = {**BOTH, **options}
    with fed.over(workers) as spread:
        found, wanted = spread.run(methods, rounds, **options), fed.run(methods, rounds, **options)
    for one, other in zip(found.values(), wanted.values(), strict=True) if isinstance(methods, list) else [(found, wanted)]:
        assert_same_bytes(one, other)
    return found


# --- the same bits


@ALL
def test_a_method_gives_the_bytes_of_one_process(method):
    """On three seeds that deal other rows, one of which leaves a client without any."""
    assert_same(three_seeds(method), method, rounds=4)


@pytest.mark.parametrize("kind", [VOTES, OWN[len(VOTES) :], ()], ids=["votes", "own models", "one model"])
def test_all_methods_in_lockstep_give_the_bytes_of_one_process(kind):
    several = [method for method in METHODS if (method.name in kind if kind else method.name not in OWN)]
    assert_same(three_seeds(several[0]), several, workers=3, rounds=4)


def test_partial_participation_debiasing_and_attacks_give_the_bytes_of_one_process():
    local, mixed = Debias("local"), Debias("global", share=0.5, rest="fairbalance")
    debiased = [FedAvg(local, name="local"), FedAvg(mixed, name="mixed")]
    assert_same(tables(participants=2, test=0.2), [FedAvg(), *debiased, QFFL(1), Ditto(1.0)], workers=3)
    fed = tables(test=0.2)
    for kind in ("enlarge", "random", "zero"):
        assert_same(replace(fed, attack=Attack(kind, clients=1, of="update")), [FedAvg(), EFFL(0.1, 0.1, 0.1)])
    assert_same(replace(fed, local=ClientTraining("adam", 0.1, 0, 2, 10)), FairFate(rounds=3))


def test_images_give_the_bytes_of_one_process():
    assert_same(images(), [FedAvg(), QFFL(1), EFFL(0.1, 0.1, 0.1), RankFF(steps=1, J=3, on="look")], rounds=2)


def test_runs_that_diverge_and_are_kept_give_the_bytes_of_one_process():
    wild = federation([30, 20, 40], runs=2, local=ClientTraining("sgd", 1e20, 0.5, 3, 8), diverged="keep")
    found = assert_same(wild, FedAvg())
    assert np.isnan(found.answer).any()


def test_a_run_that_diverges_is_refused_in_the_same_sentence():
    wild = federation([30, 20, 40], runs=2, local=ClientTraining("sgd", 1e20, 0.5, 3, 8))
    said = []
    for fed in (wild, wild.over(2)):
        with pytest.raises(FairFLError, match="diverged in round 1") as refused:
            fed.run(FedAvg(), 2)
        said.append(str(refused.value))
    assert said[0] == said[1]


def doubled():
    """Rows that come back: the first of equal ones is with another client, and in another order than with its own."""
    table, rng = rows(80), np.random.default_rng(3)
    X, y, a = (np.concatenate([each] * 4) for each in (table.X, table.y, table.a))
    order = rng.permutation(len(y))
    parts = {
        part: Shards.of(X[order], y[order], a[order], [np.split(rng.permutation(320), (90, 200))] * 2)
        for part in ("train", "test")
    }
    return Federation(parts, Dense(4), ClientTraining("sgd", 0.1), (0, 1), Standard.of(parts["train"]))


def test_rows_that_many_clients_have_are_summed_in_the_order_of_one_process():
    assert_same(doubled(), [EFFL(0.01, 0.01, 0.01), FedAvg()], workers=3)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_any_dealing_to_any_number_of_workers_gives_the_bytes_of_one_process(seed, workers):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, rng.integers(1, 7)).tolist()
    fed = federation(sizes, runs=2, seed=seed, participants=int(rng.integers(0, len(sizes) + 1)))
    assert_same(fed, [FedAvg(), EFFL(0.1, 0.1, 0.1)], workers=workers, rounds=2)


def test_questions_by_hand_have_the_answers_of_one_process():
    fed = federation([30, 0, 40, 20], runs=2, classes=3)
    with fed.over(3) as spread:
        params = fed.one().init_params()
        models = np.stack([params, params + 1, params - 1]).astype(np.float32)
        questions = [
            lambda one: one.logits(params),
            lambda one: one.losses(models, each_model=True),
            lambda one: one.confusion(params, np.array([3, 1, 0])),
            lambda one: one.best_model(models, np.array([2, 0, 3])),
            lambda one: one.value_and_gradient(params, np.array([1, 3]), lambda z, y, a: (2 * mean_loss(z, y, a)).reshape(1)),
            lambda one: one.group_label_counts(np.array([1, 2])),
        ]
        for question in questions:
            for here, there in zip(fed.ask(question), spread.ask(question), strict=True):
                np.testing.assert_equal(there, here)
    empty = spread.clients_of(["worker 0"])
    assert empty and set(range(4)) == {k for name in spread.workers.names for k in spread.clients_of([name])}


# --- where the rows are


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_worker_has_the_rows_of_its_clients_and_of_nobody_else(seed, workers):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 30, 6)
    sizes[0] += 1
    fed = federation(sizes.tolist(), runs=3, seed=seed)
    with fed.over(workers) as spread:
        for w, name in enumerate(spread.workers.names):
            held = over.HELD[f"{spread.workers.token} {name}"].held
            own = np.flatnonzero(spread.holder == w)
            numbers = np.unique(np.concatenate([fed.shards["train"].rows(r, k) for r in range(3) for k in own]))
            found = held.shards["train"].examples
            assert sorted(map(bytes, found.X)) == sorted(map(bytes, fed.shards["train"].X[numbers]))
            for r in range(3):
                for k in range(6):
                    rows_here = held.shards["train"].X[held.shards["train"].rows(r, k)]
                    wanted = fed.shards["train"].X[fed.shards["train"].rows(r, k)] if k in own else np.empty((0, 5))
                    np.testing.assert_array_equal(rows_here, wanted)
        assert len(spread.shards["train"].X) == 0 and len(spread.shards["train"].index) == 0
    assert not [token for token in over.HELD if token.startswith(spread.workers.token)]


def test_rows_that_are_elsewhere_cannot_be_looked_at_here():
    spread = tables().over(2)
    for look in (
        lambda: spread.shards["train"].rows(0, 0),
        lambda: spread.shards["train"].census(),
        lambda: spread.shards["train"].head(3),
        lambda: spread.shards["train"].weighted(np.ones((2, 4, 2, 2))),
    ):
        with pytest.raises(FairFLError, match="The rows of this federation are with its workers: "):
            look()
    with pytest.raises(FairFLError, match="is spread already"):
        spread.over(2)
    assert "clients=4 with 2 workers" in repr(spread)
    spread.close()


def test_clients_are_dealt_so_that_workers_have_about_as_many_rows():
    np.testing.assert_array_equal(over._holders(np.array([5, 1, 4, 2]), 2), [0, 0, 1, 1])
    np.testing.assert_array_equal(over._holders(np.zeros(4, int), 2), [0, 1, 0, 1])


# --- stop and go on


class Killed(BaseException):
    pass


@pytest.mark.parametrize("method", [FedAvg(), FairFed(beta=1), Ditto(1.0)], ids=lambda method: method.name)
def test_a_run_goes_on_over_workers_where_it_stopped_here_and_the_other_way_round(method, tmp_path, monkeypatch):
    fed, usual = tables(test=0.2), over.SpreadFederation.answer
    wanted = fed.run(method, 5, **BOTH)
    spread = fed.over(2)
    for first, second in ((fed, spread), (spread, fed), (spread, spread)):
        folder = tmp_path / f"{first!r}{second!r}"[:40]
        first.run(method, 3, checkpoint_dir=folder, **BOTH)
        kept = [path.name for path in folder.iterdir()]
        assert len(kept) == 1
        assert_same_bytes(second.run(method, 5, checkpoint_dir=folder, **BOTH), wanted)
        assert [path.name for path in folder.iterdir()] == kept
        for path in folder.iterdir():
            path.unlink()
    assert usual is over.SpreadFederation.answer


# --- workers that are lost


def losing(fed, at, which=0, **options):
    """Spread over two workers, of whom one is lost at the question with this number."""
    spread = fed.over(2, **options)
    workers, usual, asked = spread.workers, spread.workers.ask, []

    def ask(messages, first=False):
        asked.append(len(messages))
        if len(asked) == at:
            workers.ended[workers.names[which]] = "ended"
        return usual(messages, first)

    workers.ask = ask
    return spread, asked


def questions(fed, method, rounds):
    """After how many questions each round has ended; the first entry is of the start."""
    spread, asked = losing(fed, 0)
    ends = []
    for t in range(1, rounds + 1):
        asked.clear()
        spread.run(method, t, **BOTH)
        ends.append(len(asked))
    return ends


@pytest.mark.filterwarnings("ignore:The worker")
@ALL
def test_what_goes_on_without_lost_clients_is_the_simulation_in_which_they_take_no_part(method):
    """A worker is lost in the start, in the middle of round 3, and while its models are evaluated."""
    fed = three_seeds(method)
    ends = questions(fed, method, 3)
    for at, first in ((1, None), (ends[1] + 1, 3), (ends[2], 3)):
        spread, asked = losing(fed, at, lost="leave out")
        clients = spread.clients_of(["worker 0"])
        found = spread.run(method, 4, **BOTH)
        assert len(asked) >= at and set(found.gone) == set(clients)
        (since,) = set(found.gone.values())
        assert since == first or (first is None and since in (0, 1))
        wanted = replace(fed, gone=dict.fromkeys(clients, since)).run(method, 4, **BOTH)
        assert_same_bytes(found, wanted)
        assert wanted.gone == found.gone and not found.counts["test"][:, max(since - 1, 0) :, clients].any()
        if since > 1:
            assert found.counts["test"][:, since - 2, clients].any()


def test_a_simulation_without_clients_is_worked_out_by_hand():
    """FedAvg: rounds 1 and 2 average four clients, those from 3 on two of them."""
    fed = tables(test=0.2)
    found = replace(fed, gone={1: 3, 2: 3}).run(FedAvg(), 4)

    async def by_hand(one):
        params = one.init_params()
        for t in range(1, 5):
            clients = np.arange(4) if t < 3 else np.array([0, 3])
            n = one.sizes(clients)
            local = await one.train(params, clients, t)
            params = sum(w * theta.astype(float) for w, theta in zip(n, local, strict=True)) / n.sum()
            params = params.astype(np.float32)
        return params

    np.testing.assert_allclose(found.answer, np.stack(fed.ask(by_hand)), rtol=1e-6)
    assert found.gone == {1: 3, 2: 3} and "gone={1: 3, 2: 3}" in repr(found)
    assert not found.counts["test"][:, 2:, 1].any() and found.counts["test"][:, :2, 1].any()


def test_a_run_whose_worker_is_lost_stops_in_one_sentence_and_goes_on(tmp_path):
    fed = tables(test=0.2)
    wanted = fed.run(FairFed(beta=1), 5, **BOTH)
    at = questions(fed, FairFed(beta=1), 3)[2] - 1
    spread, _ = losing(fed, at)
    with pytest.raises(LostError) as lost:
        spread.run(FairFed(beta=1), 5, checkpoint_dir=tmp_path, **BOTH)
    clients = spread.clients_of(["worker 0"])
    assert lost.value.clients == tuple(clients) and len(clients) == 2
    said = f"The worker worker 0, which has clients {clients[0]} and {clients[1]}, ended in round 3: start workers anew and"
    assert str(lost.value).startswith(said) and str(lost.value).count(". ") == 0
    with fed.over(3) as again:
        assert_same_bytes(again.run(FairFed(beta=1), 5, checkpoint_dir=tmp_path, **BOTH), wanted)


def test_what_was_kept_without_lost_clients_is_not_taken_for_a_run_with_them(tmp_path):
    fed, method = tables(test=0.2), FedAvg()
    at = questions(fed, method, 3)[1] + 1
    spread, _ = losing(fed, at, lost="leave out")
    with pytest.warns(
        UserWarning, match=r"^The worker worker 0, which has clients .* and .*, ended in round 3: from this round on"
    ):
        found = spread.run(method, 4, checkpoint_dir=tmp_path, **BOTH)
    assert_same_bytes(fed.run(method, 5, checkpoint_dir=tmp_path, **BOTH), fed.run(method, 5, **BOTH))
    fewer = replace(fed, gone=found.gone)
    assert_same_bytes(fewer.run(method, 5, checkpoint_dir=tmp_path, **BOTH), fewer.run(method, 5, **BOTH))


def test_methods_in_lockstep_lose_the_same_clients_in_the_same_round():
    fed, several = tables(test=0.2), [FedAvg(), FairFed(beta=1), QFFL(1)]
    at = questions(fed, several, 2)[0] + 2
    spread, _ = losing(fed, at, lost="leave out")
    with pytest.warns(UserWarning, match="in round 2"):
        found = spread.run(several, 4, **BOTH)
    gone = dict.fromkeys(spread.clients_of(["worker 0"]), 2)
    wanted = replace(fed, gone=gone).run(several, 4, **BOTH)
    for label in wanted:
        assert_same_bytes(found[label], wanted[label])
        assert found[label].gone == gone


@pytest.mark.filterwarnings("ignore:The worker")
def test_when_nobody_is_left_the_run_stops_whatever_was_wanted():
    spread, _ = losing(tables(test=0.2), 3, lost="leave out")
    spread.workers.ended["worker 1"] = "ended"
    with pytest.raises(LostError, match="^The worker worker 0, which has .*, ended in round 1: start workers anew"):
        spread.run(FedAvg(), 3)


@pytest.mark.parametrize("gone", [{9: 1}, {-1: 1}, {0: -1}, {0: 1.5}, {"a": 1}])
def test_gone_names_clients_and_rounds(gone):
    with pytest.raises(FairFLError, match="from which round on they take no part"):
        replace(tables(), gone=gone)


# --- workers that differ, or send something else


def test_a_worker_that_differs_is_refused_with_its_clients(monkeypatch):
    fed, ours = tables(test=0.2), over.fingerprints()
    given = []

    def differ():
        given.append(1)
        return ours if len(given) != 2 else {**ours, "numpy": "9.9", "code of fairfl_lite": "0" * 64}

    monkeypatch.setattr(over, "fingerprints", differ)
    with pytest.raises(LostError, match=r"^The worker worker 0, which has clients .*, has numpy 9\.9 instead of ") as lost:
        fed.over(2)
    assert "instead of 9.9" not in str(lost.value) and "and other code of fairfl_lite" not in str(lost.value)
    given.clear()
    with pytest.warns(UserWarning, match="worker 0"):
        spread = fed.over(2, lost="leave out")
    gone = dict.fromkeys(lost.value.clients, 0)
    assert spread.gone == gone
    assert_same_bytes(spread.run(FedAvg(), 3), replace(fed, gone=gone).run(FedAvg(), 3))


def test_a_worker_with_other_rows_is_refused():
    fed, spread = tables(), tables().over(1)
    piece = over.HeldRows.of(fed, np.arange(4), ["train"])
    sound = pickle.dumps((piece, piece.digest, over.fingerprints()))
    assert over.take("sound", sound)[:1] == b"a"
    piece.shards["train"].examples.X[3, 0] += 1
    wrong = pickle.dumps((piece, over.HeldRows.of(fed, np.arange(4), ["train"]).digest, over.fingerprints()))
    assert over.take("wrong", wrong) == b"lhas other rows than it was sent" and "wrong" not in over.HELD
    over.forget("sound")
    over.HELD.pop(f"{spread.workers.token} worker 0")
    with pytest.raises(LostError, match="has been started anew and has no rows any more in round [01]:"):
        spread.run(FedAvg(), 1)


def array(*arrays):
    return over.packed(arrays)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (lambda a: array(a[0][:-1]), r"sent float32 of shape \(3, 5\) where float32 of shape \(4, 5\) was asked for"),
        (lambda a: array(a[0].astype(np.float64)), "sent float64 of shape"),
        (lambda a: array(a[0], a[0]), "and float32"),
        (lambda a: array(), "sent nothing where"),
        (lambda a: b"", "sent a bytes where bytes were asked for"),
        (lambda a: None, "sent a NoneType where"),
        (lambda a: array(a[0])[:-3], "sent what is no array"),
        (lambda a: b"a" + pickle.dumps(a[0]), "sent what is no array"),
    ],
)
def test_what_comes_back_is_checked_before_it_is_used(sent, said):
    fed = tables(test=0.2)
    spread = fed.over(2)
    usual = spread.workers.ask

    def ask(messages, first=False):
        replies, lost = usual(messages, first)
        return {**replies, "worker 1": sent(over.unpacked(replies["worker 1"]))}, lost

    spread.workers.ask = ask
    with pytest.raises(LostError, match=f"^The worker worker 1, which has clients .* {said}.* in round 1"):
        spread.run(FedAvg(), 1)


def test_counts_losses_and_numbers_that_cannot_be_are_refused():
    fed = tables(test=0.2)
    models = np.zeros((2, 5), np.float32)
    for question, wrong, said in (
        (
            lambda one: one.confusion(models[0]),
            lambda counts, loss: [counts + 1, loss],
            "counts of rows that a client does not have",
        ),
        (lambda one: one.confusion(models[0]), lambda counts, loss: [-counts, loss], "counts of rows"),
        (lambda one: one.group_label_counts(one.all_clients), lambda counts: [counts + 1], "counts of rows"),
        (lambda one: one.best_model(models, one.all_clients), lambda best: [best + 2], "the number of a model that there is not"),
    ):
        spread = fed.over(2)
        usual = spread.workers.ask

        def ask(messages, first=False, usual=usual, wrong=wrong):
            replies, lost = usual(messages, first)
            return {name: array(*wrong(*over.unpacked(reply))) for name, reply in replies.items()}, lost

        spread.workers.ask = ask
        with pytest.raises(LostError, match=said):
            spread.ask(question)
    for question in (
        lambda one: one.losses(models[0]),
        lambda one: one.logits(models[0]),
        lambda one: one.value_and_gradient(models[0], one.all_clients),
    ):
        spread = fed.over(2)
        usual = spread.workers.ask

        def ask(messages, first=False, usual=usual):
            replies, lost = usual(messages, first)
            bad = [over.unpacked(reply) for reply in replies.values()]
            for arrays in bad:
                arrays[-1].flat[0] = np.nan
            return dict(zip(replies, (array(*arrays) for arrays in bad), strict=True)), lost

        spread.workers.ask = ask
        with pytest.raises(FairFLError, match="are not all finite"):
            spread.ask(question)


def test_a_question_that_fails_at_a_worker_is_told_in_its_words():
    spread = tables().over(2)
    params = spread.one().init_params()
    with pytest.raises(FairFLError, match="A function of logits must give one torch value, or a vector of them"):
        spread.ask(lambda one: one.value_and_gradient(params, one.all_clients, lambda z, y, a: 3))

    def broken(z, y, a):
        raise ZeroDivisionError("a slip")

    with pytest.raises(RuntimeError, match="(?s)A worker failed.*ZeroDivisionError: a slip"):
        spread.ask(lambda one: one.value_and_gradient(params, one.all_clients, broken))
    with pytest.raises(FairFLError, match="Clients are numbered from 0 to 3, and client 7 is asked"):
        spread.ask(lambda one: one.train(params, np.array([7]), 1))


# --- who may be reached


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:8786",
        "tcp://[::1]:8786",
        "127.0.0.1:8786",
        "tcp://localhost:8786",
        "inproc://10.0.0.1/3/1",
        "tls://10.0.0.5:8786",
    ],  # fmt: skip
)
def test_an_address_that_nobody_else_reaches_or_that_is_protected_is_taken(address):
    over.require_protected([address], unprotected=False)


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:8786", "tcp://0.0.0.0:8786", "192.168.1.2:8786", "tcp://[fe80::1]:8786",
                                     "ws://10.0.0.5:1", "tcp://nobody.invalid:8786"])  # fmt: skip
def test_a_plain_address_that_others_reach_is_refused_unless_one_insists(address):
    with pytest.raises(FairFLError, match="can run code on all machines of that cluster and read what travels, since") as refused:
        tables().over(address)
    assert address in str(refused.value) and str(refused.value).count(". ") == 0
    over.require_protected([address], unprotected=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"cluster": 0}, "at least one worker"), ({"cluster": 2, "lost": "leave"}, "did you mean 'leave out'"),
     ({"cluster": 2, "patience": 0}, "patience is a number of seconds")],
)  # fmt: skip
def test_what_cannot_be_spread_so_is_one_sentence(given, said):
    with pytest.raises(FairFLError, match=said):
        tables().over(**given)


# --- what was sent


def test_traffic_is_counted_as_it_travels():
    """FedAvg on a model of 5 numbers: one model to each worker, and one of each client back."""
    fed = tables(test=0.2)
    with fed.over(4) as spread:
        before = spread.traffic.frame()
        assert list(before.index) == ["rows"]
        spread.run(FedAvg(), 3, record=())
        found = spread.traffic.frame().loc["train"]
    assert (found["times"], found["clients"]) == (3, 2 * 4 * 3)
    payload = 5 * 4 * 2 * 4 * 3
    header = 4 * 3 * (1 + 128)  # an answer of a worker: one letter, and numpy's header of an array
    assert found["bytes back"] == payload + header
    assert found["bytes out"] > 5 * 4 * 2 * 4 * 3


def test_methods_of_supernets_go_through_the_same_messages():
    assert_same(three_seeds(FRL()), FRL(), workers=2, rounds=2)

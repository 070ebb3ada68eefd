"""Every method with small settings, small federations that suit them, and histories that must be equal to the bit."""

import numpy as np
from toy import rows

from fairfl_lite import methods
from fairfl_lite.clients import ClientTraining, Debias
from fairfl_lite.federation import Federation, Method, Shards, Standard
from fairfl_lite.methods import (
    AFL,
    E2FL,
    EFFL,
    FCFL,
    IFCA,
    QFFL,
    BinarySearchInference,
    CoreFed,
    Ditto,
    FairBatch,
    FairFate,
    FairFed,
    FairReg,
    FedAvg,
    FedDemon,
    FedMDFG,
    FedMGDA,
    FedMinMax,
    FedMom,
    LowestLossInference,
    OneShotInference,
    RankClustering,
    RankFF,
)  # fmt: skip
from fairfl_lite.models import Dense, Perceptron
from fairfl_lite.supernets import Supernet

LOCAL = ClientTraining("sgd", 0.1, 0, 1, 10)
SETTINGS = {
    "EFFL": EFFL(0.01, 0.01, 0.01, stages=(1, 1, 1)), "IFCA": IFCA(2, known=True), "FairFate": FairFate(rounds=4),
    "FedDemon": FedDemon(rounds=4), "RankFF": RankFF(steps=1, J=3), "FCFL": FCFL(first=2),
}  # fmt: skip
METHODS = [SETTINGS.get(name) or kind() for name in methods.__all__ if issubclass(kind := getattr(methods, name), Method)]
VARIANTS = [
    FairFed(2.0, eta=0.3), FairFed(2.0, rule="exp"), FedAvg(Debias("global"), "gr"), FedMom(0.0), FedDemon(0.8, rounds=4),
    FairFate("eqo", lambda0=0.5, beta0=0.0, rounds=4), FairFate.published("eqo", lambda0=0.5, rounds=4, name="published"),
    QFFL(3.0), Ditto(0.3), FairBatch(0.0), FairBatch(0.3, "apsd"), AFL(batch=5), FCFL(np.inf, first=0), FedMGDA(1.0),
    FedMDFG(1.0, s=1), FairReg(2.0), CoreFed(floor=0.5, M=2.0), RankFF(2, 0.3, J=5, p=2.0), IFCA(3), E2FL(RankClustering(2)),
    E2FL(LowestLossInference(3)), E2FL(OneShotInference(3), absent="skip"), E2FL(BinarySearchInference(3)),
]  # fmt: skip
"""The same at other settings, and at those that take another way through them."""
SUMS = [method for method in METHODS if not method.must_see]
WHOLE = (FairFed, AFL, FCFL, FedMinMax)
"""Those that ask every client in every round."""
VOTES = ("frl", "e2fl")  # on supernets alone
OWN = (*VOTES, "ditto", "local-only")  # clients have models of their own, so nobody has rows for all of them


def equal(runs=1, flip=0, **options):
    """Three clients of 40 rows in each run and part; `flip` turns their labels."""
    table = rows()
    parts = ("train", "validation", "test")
    dealt = [np.split(np.arange(360).reshape(3, 120)[i], 3) for i in range(3)]
    shards = {part: Shards.of(table.X, table.y ^ flip, table.a, [dealt[i]] * runs) for i, part in enumerate(parts)}
    return Federation(shards, Dense(4), LOCAL, tuple(range(3, 3 + runs)), Standard.of(shards["train"]), **options)


def three_seeds(method, **options):
    """Three clients under three seeds that deal them other rows, and in the last one none to client 1; the server has validation
    rows where one model is for all. Of a supernet for methods that vote."""
    table, rng = rows(), np.random.default_rng(0)
    dealt = [np.split(rng.permutation(200)[:last], cuts) for last, cuts in ((120, (50, 90)), (90, (20, 60)), (80, (40, 40)))]
    held = np.split(np.arange(201, 300), 3) if method.name in OWN else [np.arange(201, 300)]
    shards = {part: Shards.of(table.X, table.y, table.a, rows) for part, rows in
              (("train", dealt), ("validation", [held] * 3), ("test", [np.split(np.arange(301, 400), 3)] * 3))}  # fmt: skip
    model = Supernet(Perceptron((4, 6, 2))) if method.name in VOTES else Dense(4)
    return Federation(shards, model, LOCAL, (3, 8, 11), Standard.of(shards["train"]), **options)


def assert_same_bytes(one, other, run=slice(None), other_run=slice(None)):
    """Two histories, or one run of each: models, answers, memory and counts, to the bit."""
    assert one.counts.keys() == other.counts.keys() and one.state.memory.keys() == other.state.memory.keys()
    pairs = [(one.state.params, other.state.params), *((one.counts[part], other.counts[part]) for part in one.counts),
             *((one.state.memory[name], other.state.memory[name]) for name in one.state.memory),
             *((one.memory[name], other.memory[name]) for name in one.memory),
             *zip(*([a] if isinstance(a, np.ndarray) else a for a in (one.answer, other.answer)), strict=True)]  # fmt: skip
    for left, right in pairs:
        left, right = left[run], right[other_run]
        assert type(left) is type(right)
        for x, y in zip(left, right, strict=True) if isinstance(left, tuple) else [(left, right)]:
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())

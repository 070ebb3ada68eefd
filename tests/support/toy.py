"""Small federations: of random rows, of pictures, and an uneven one whose label depends on its group."""

from dataclasses import replace

import numpy as np

from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Images, Partition, Table
from fairfl_lite.federation import Federation, Shards, Standard
from fairfl_lite.models import CNN, Dense


def federation(sizes, *, features=5, hidden=0, local=None, runs=1, weights=None, seed=0, classes=2, groups=2, **options):
    """A federation of random rows; `sizes` per client, `weights` "census" for random weights by group and label."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X = rng.normal(size=(n, features)).astype(np.float32)
    y = (X @ rng.normal(size=features) + rng.normal(size=n) > 0).astype(np.int8)
    a = rng.integers(0, groups, n).astype(np.int8)
    if classes > 2:
        y = rng.integers(0, classes, n)
    rows = [np.split(rng.permutation(n), np.cumsum(sizes)[:-1]) for _ in range(runs)]
    shards = Shards.of(X, y, a, rows, classes=classes, groups=groups)
    if weights == "census":
        shards = shards.weighted(rng.uniform(0.2, 2, (runs, len(sizes), groups, classes)))
    model = Dense(features, hidden, classes=classes)
    parts = {"train": shards, "test": shards}
    return Federation(parts, model, local or ClientTraining(), tuple(range(runs)), Standard.of(shards), **options)


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < 0.6).astype(np.int8)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 0] += a
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.7).astype(np.int8)
    return Table("toy", X, y, a, ("u", "v", "w", "x"), "a", {}, "digest")


def uneven(local, **options):
    """Three clients in two runs; in the second one client 1 has no rows, so that fewer take part there."""
    table = rows()
    dealt = [[np.arange(60), np.arange(60, 90), np.arange(90, 170)], [np.arange(40), np.arange(0), np.arange(100, 150)]]
    train = Shards.of(table.X, table.y, table.a, dealt)
    held = Shards.of(table.X, table.y, table.a, [[np.arange(200, 400)]] * 2)
    shards = {"train": train, "validation": held, "test": held}
    return Federation(shards, Dense(4), local, (3, 8), Standard.of(train), **options)


def one_run(fed, r):
    """One run of a federation by itself."""
    shards = {part: Shards.deal(s.examples, [[s.rows(r, k) for k in range(s.clients)]]) for part, s in fed.shards.items()}
    inputs = Standard(fed.inputs.shift[r : r + 1], fed.inputs.scale[r : r + 1])
    return replace(fed, shards=shards, seeds=fed.seeds[r : r + 1], inputs=inputs)


def tables(**options):
    how = {"validation": 0.25, "minimum": 0, **options}
    return Federation.of(
        rows(), Partition.dirichlet(1.0, 4, over="sensitive+label"), (0, 1), ClientTraining("sgd", 0.1, 0, 1, 10), **how
    )


def pictures(n=120, classes=10):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    x = rng.integers(0, 80, (n, 1, 28, 28), np.uint8)
    for i, label in enumerate(y):
        x[i, 0, 2 * label : 2 * label + 4] += 150
    return Images("mnist", x, y.astype(np.int64), n * 2 // 3, "digest")


def images(**options):
    model = CNN((2, 3), 8)
    return Federation.of_images(pictures(), (0, 20, 90), (0, 1), ClientTraining("sgd", 0.05, 0, 1, 5), model, train=20, test=10,
                                validation=6, **options)  # fmt: skip


def shapes(train=400, test=60):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (train + test, 1, 28, 28)).astype(np.uint8)
    return Images("mnist", x, rng.integers(0, 10, train + test), train, "random")

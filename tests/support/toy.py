"""A small table whose label depends on a feature that depends on the group, and a federation over it that is uneven."""

from dataclasses import replace

import numpy as np

from fairfl_lite.data import Table
from fairfl_lite.federation import Federation, Shards, Standard
from fairfl_lite.models import Dense


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

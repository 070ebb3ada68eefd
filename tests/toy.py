"""A small table whose label depends on a feature that depends on the group."""

import numpy as np

from fairfl_lite.data import Table


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < 0.6).astype(np.int8)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 0] += a
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.7).astype(np.int8)
    return Table("toy", X, y, a, ("u", "v", "w", "x"), "a", {}, "digest")

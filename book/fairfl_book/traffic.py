"""What a client of each method is sent in a round, and what it sends, counted where messages are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairfl_lite import ClientTraining, Federation, Method, Partition, Perceptron, Supernet, load, methods
from fairfl_lite.federation.over import Traffic

SETTINGS: dict[str, Method] = {
    "EFFL": methods.EFFL(0.01, 0.01, 0.01), "IFCA": methods.IFCA(2), "FairFate": methods.FairFate(rounds=4),
    "FedDemon": methods.FedDemon(rounds=4), "RankFF": methods.RankFF(steps=1, J=3),
}  # fmt: skip
"""Methods that do not run without settings, with small ones."""
VOTES = ("frl", "e2fl")
"""Methods that run on supernets."""
OWN = (*VOTES, "ditto", "local-only")
"""Methods with a model for each client, so that no server can keep rows for all of them."""


def federation(method: Method) -> Federation:
    """Five clients and a small network, on which a method can be counted; the server keeps test and validation rows if it can."""
    own = method.name in OWN
    local = ClientTraining(lr=0.1)
    options: dict[str, Any] = {"model": Supernet(Perceptron((3, 50, 2)))} if method.name in VOTES else {"hidden": 50}
    return Federation.of(load("synthetic"), Partition.random(5), [0], local, validation=0.1, central=not own, **options)


def every() -> list[Method]:
    """Each method of the library once."""
    kinds = {name: getattr(methods, name) for name in methods.__all__}
    return [SETTINGS.get(name) or kind() for name, kind in kinds.items() if issubclass(kind, Method)]


def sent(several: Sequence[Method], rounds: int = 3) -> pd.DataFrame:
    """For each method the bytes of a client in a round after the first: of all that it is asked, and of all that it answers.

    Every client has a worker of its own, so a message to a worker is one to a client. Rows and the start are not counted, nor is
    the evaluation that a run records.
    """
    found = []
    for method in several:
        fed, total = federation(method), []
        with fed.over(fed.clients) as spread:
            for t in (1, 1 + rounds):
                before = _counted(spread.traffic)
                spread.run(method, t, record=())
                total.append(_counted(spread.traffic) - before)
        down, up = (total[1] - total[0]) / (rounds * fed.clients)
        found.append({"method": method.name, "to a client": round(down), "from a client": round(up),
                      "the server must see": method.must_see or "sums"})  # fmt: skip
    return pd.DataFrame(found).set_index("method")


def _counted(traffic: Traffic) -> np.ndarray:
    frame = traffic.frame().reindex(columns=["bytes out", "bytes back"])
    return frame.drop(index="rows").sum().to_numpy(float)

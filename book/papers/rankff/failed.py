"""Why single runs of RankFF's Table 2 fail: what becomes of a run step by step, at the rate that was chosen and at half of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book.experiments.base import Experiment
from fairfl_lite.federation import Method, OneFederation, alone
from fairfl_lite.models import Network
from papers.rankff.tables import SETTINGS, federation, learner

LAYERS = ("first", "second", "dense")
"""The hidden layers of the network: two convolutions, whose units are channels, and a dense one."""


def course(instance: str, method: str, seed: int, lr: float, every: int = 5) -> pd.DataFrame:
    """A run on MNIST, after every round of local training or every so many steps of RankFF: the mean loss on the agents' probe
    images of the model as it is ("loss") and of the method's answer ("kept"), and the share of each hidden layer that stands
    still, by `still`."""
    fed, doing, rounds = _run(instance, method, seed, lr)
    state, rows = alone(doing.start(fed)), []
    for t in range(1, rounds + 1):
        state = alone(doing.round(fed, state, t))
        if method != "rankff" or t % every == 0:
            models = {"loss": state.params, "kept": np.asarray(doing.answer(state))}
            losses = {name: alone(fed.losses(model, on="probe")).mean() for name, model in models.items()}
            facts = losses | still(fed, state.params)
            rows += [{"round": t, "metric": name, "value": float(value)} for name, value in facts.items()]
    return pd.DataFrame(rows).assign(instance=instance, method=method, seed=seed, lr=lr)


def still(fed: OneFederation, params: np.ndarray) -> dict[str, float]:
    """Share of the units of each hidden layer that no probe image moves: the gradient of their bias is 0 for every agent.

    So it is for a ReLU that gives 0 on all images, and for one that nothing but such units listens to.
    """
    assert isinstance(fed.model, Network)
    slope, shapes = alone(fed.value_and_gradient(params, fed.all_clients, on="probe"))[1], fed.model.shapes
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    biases = [slope[:, end - shape[0] : end] for shape, end in zip(shapes, ends, strict=True) if len(shape) == 1]
    return {f"still {name}": float((bias == 0).all(0).mean()) for name, bias in zip(LAYERS, biases[:-1], strict=True)}


def _run(instance: str, method: str, seed: int, lr: float) -> tuple[OneFederation, Method, int]:
    """Agents, method and number of rounds of a run of Table 2 on MNIST at another learning rate."""
    change: dict[str, Any] = {"rankff_lr" if method == "rankff" else "lr": lr}
    doing, rounds = learner(method, replace(SETTINGS["mnist"], **change))
    return federation("mnist", instance, [seed], **change).one(), doing, rounds


_FAILED = [{"instance": instance, "method": method, "seed": seed, "lr": lr}
           for instance, method, seed in (("mid", "fedavg", 5), ("high", "rankff", 6)) for lr in (0.4, 0.2)]  # fmt: skip

EXPERIMENTS = (Experiment("rankff/course", course, _FAILED, ("mnist",), seeds=2, workers=2),)

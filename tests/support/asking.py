"""Questions to the clients of all seeds of a federation at once: models and answers lead with [run, ...]."""

import numpy as np

from fairfl_lite.federation import OneFederation
from fairfl_lite.federation.lockstep import advance


def asked(fed, question):
    """question(one, run) for every run, together."""
    return advance([question(OneFederation(fed, run, together=True), run) for run in range(len(fed.seeds))])


def first_models(fed):
    return np.stack([fed.one(seed).init_params() for seed in fed.seeds])


def everybody(fed):
    return np.arange(fed.clients)


def train(fed, params, t, clients=None, toward=None, **options):
    clients = everybody(fed) if clients is None else clients
    anchors = [None] * len(fed.seeds) if toward is None else toward
    return np.stack(asked(fed, lambda one, run: one.train(params[run], clients, t, toward=anchors[run], **options)))


def confusion(fed, params, on="train", clients=None, **options):
    return np.stack(asked(fed, lambda one, run: one.confusion(params[run], clients, on, **options)))


def losses(fed, params, on="train", clients=None, **options):
    return np.stack(asked(fed, lambda one, run: one.losses(params[run], clients, on, **options)))


def logits(fed, params, on="train", clients=None):
    return asked(fed, lambda one, run: one.logits(params[run], clients, on))


def gradient(fed, params, *of, clients=None, **options):
    clients = everybody(fed) if clients is None else clients
    found = asked(fed, lambda one, run: one.value_and_gradient(params[run], clients, *of, **options))
    return np.stack([values for values, _ in found]), np.stack([slopes for _, slopes in found])


def best_model(fed, models, clients=None):
    clients = everybody(fed) if clients is None else clients
    return np.stack(asked(fed, lambda one, run: one.best_model(models[run], clients)))

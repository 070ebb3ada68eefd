"""Plain torch: a Python loop over settings, seeds, rounds, clients and minibatches."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from workload import given, timed

torch.set_num_threads(1)  # faster than two for so few rows
work = given()
clients = [(torch.tensor(X), torch.tensor(y, dtype=torch.float32)) for X, y in work.clients]
share = torch.tensor([len(y) for _, y in clients]) / len(work.y)
features, start = work.X.shape[1], torch.tensor(work.start)
model = (
    nn.Sequential(nn.Linear(features, work.hidden), nn.Tanh(), nn.Linear(work.hidden, 1))
    if work.hidden
    else nn.Linear(features, 1)
)
make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[work.optimizer]


def train(params, X, y):
    vector_to_parameters(params.clone(), model.parameters())
    optimizer = make(model.parameters(), lr=work.lr, weight_decay=work.weight_decay)
    for _ in range(work.epochs):
        for rows in torch.randperm(len(y)).split(work.batch_size):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(X[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
    return parameters_to_vector(model.parameters()).detach()


def one_run(seed, beta):
    torch.manual_seed(seed)
    params, v = start, torch.zeros_like(start)
    for t in range(1, work.rounds + 1):
        step = share @ torch.stack([train(params, X, y) for X, y in clients]) - params
        v = beta * v + (1 - beta) * step
        params = params + v / (1 - beta**t)
    return params


def run():
    return torch.stack([torch.stack([one_run(seed, beta) for seed in range(work.seeds)]) for beta in work.betas]).numpy()


timed(work, run)

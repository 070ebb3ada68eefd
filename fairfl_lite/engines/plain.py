"""Local training, gradients and scoring in plain torch, one client at a time: slow, obvious, the oracle of the tests."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as log_loss

from fairfl_lite.engines.fused import shuffle
from fairfl_lite.models import Model


def train(model: Model, X, y, weight, theta, *, adam, lr, decay, epochs, batch, key) -> np.ndarray:
    """One client: `epochs` passes over its rows X [n, d] in random order, minibatches of `batch` rows (0: all).

    Computes in the precision of X: Adam divides by the size of the gradient, so that in single precision two right answers
    may differ in the fifth digit; in double precision this is the truth that the kernel is held to.
    """
    if len(X) == 0:
        return theta.copy()
    X = torch.as_tensor(X)
    params = torch.tensor(theta, dtype=X.dtype, requires_grad=True)
    kind = torch.optim.Adam if adam else torch.optim.SGD
    optimizer = kind([params], lr=float(lr), weight_decay=float(decay))
    y, weight = torch.as_tensor(y, dtype=X.dtype), torch.as_tensor(weight, dtype=X.dtype)
    order, size = np.arange(len(X)), batch or len(X)
    for _ in range(epochs):
        if size < len(X):
            key = np.uint64(shuffle(order, key))
        for rows in torch.as_tensor(order).split(size):
            optimizer.zero_grad()
            losses = log_loss(model.forward(params, X[rows]), y[rows], reduction="none")
            (weight[rows] * losses).mean().backward()
            optimizer.step()
    return params.detach().numpy()


def gradient(model: Model, X, y, weight, theta) -> np.ndarray:
    """Gradient at theta of the weighted sum of log losses over one client's rows."""
    params = torch.tensor(theta, requires_grad=True)
    y, weight = torch.as_tensor(y, dtype=torch.float32), torch.as_tensor(weight)
    losses = log_loss(model.forward(params, torch.as_tensor(X)), y, reduction="none")
    (weight * losses).sum().backward()
    assert params.grad is not None
    return params.grad.numpy()


@torch.no_grad()
def score(model: Model, X, y, a, theta) -> tuple[np.ndarray, float]:
    """Confusion counts [a, y, yhat] and summed log loss of theta on one client's rows."""
    logits = model.forward(torch.as_tensor(theta), torch.as_tensor(X))
    counts = np.zeros((2, 2, 2), np.int64)
    np.add.at(counts, (a, y, (logits > 0).numpy().astype(int)), 1)
    return counts, float(log_loss(logits.double(), torch.as_tensor(y, dtype=torch.float64), reduction="sum"))

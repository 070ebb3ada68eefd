"""Training, scoring and gradients of any model in plain torch, one client at a time: what a reader reads, the oracle of the
tests, and the engine of every network. Convolutions are fastest with one thread per process, a network at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from fairfl_lite.clients.training import ClientTraining
from fairfl_lite.engines.base import Of, Work
from fairfl_lite.engines.order import Shuffle, passes
from fairfl_lite.errors import FairFLError
from fairfl_lite.models import Model
from fairfl_lite.supernets import Supernet

IMAGES = 100
"""Images that go through a network together when nothing is learnt; rows of a table go all at once."""

Read = Callable[[Any], Any]


def row_losses(logits: torch.Tensor, y: torch.Tensor, reduction: str = "none") -> torch.Tensor:
    """Log loss of each row: of one logit, [rows], or of one for each class, [rows, classes]."""
    if logits.ndim == 1:
        return binary_cross_entropy_with_logits(logits, y.to(logits.dtype), reduction=reduction)
    return cross_entropy(logits, y.long(), reduction=reduction)


def mean_loss(logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """The mean log loss of a client's rows, as a function of their logits."""
    return row_losses(logits, y, "sum") / len(y)


def fit(
    model: Model,
    theta: np.ndarray,
    seen: Iterable[tuple[Any, np.ndarray]],
    y: torch.Tensor,
    read: Read,
    local: ClientTraining,
    *,
    lr: float,
    weight: torch.Tensor | None = None,
    toward: np.ndarray | None = None,
) -> np.ndarray:
    """Train one client from theta [P]: torch's own optimiser on the mean of weight * loss over each minibatch.

    seen : for each epoch its rows, which may be changed anew each time, and the order to go through them. read : from rows to
    what the model takes. Computes in the precision of theta.
    """
    if not len(y):
        return theta.copy()
    params = torch.tensor(theta, requires_grad=True)
    anchor = torch.tensor(theta if toward is None else toward, dtype=params.dtype)
    made: Any = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[local.optimizer]
    extra = {"momentum": local.momentum} if local.optimizer == "sgd" else {}
    optimizer = made([params], lr=lr, weight_decay=local.weight_decay, **extra)
    size = local.batch_size or len(y)
    steps, step = local.epochs * -(-len(y) // size), 0
    for X, order in seen:
        for rows in torch.as_tensor(order).split(size):
            losses = row_losses(model.forward(params, read(X[rows])), y[rows])
            loss = losses.mean() if weight is None else (weight[rows] * losses).mean()
            (params.grad,) = torch.autograd.grad(loss, params)
            if local.prox:
                params.grad.add_(params.detach() - anchor, alpha=local.prox)
            optimizer.param_groups[0]["lr"] = lr * local.slowed(step, steps)
            optimizer.step()
            step += 1
    return params.detach().numpy()


def logits_of(model: Model, params: torch.Tensor, X: Any, read: Read) -> torch.Tensor:
    """The logits of rows X, a part at a time."""
    return torch.cat([model.forward(params, read(part)) for part in _parts(X)])


@torch.no_grad()
def losses_of(model: Model, theta: np.ndarray, X: Any, y: torch.Tensor, read: Read) -> np.ndarray:
    """Log loss of each row, [rows]."""
    if not len(y):
        return np.empty(0, theta.dtype)
    return row_losses(logits_of(model, torch.as_tensor(theta), X, read), y).numpy()


def _parts(X: Any) -> Iterator[Any]:
    size = IMAGES if X.ndim > 2 else max(1, len(X))
    return (X[first : first + size] for first in range(0, len(X), size))


@dataclass(frozen=True)
class Plain:
    """The engine for any model. shuffle : see order.passes."""

    model: Model
    shuffle: Shuffle = "splitmix"

    def train(self, work: Work, theta: np.ndarray, local: ClientTraining, lr: np.ndarray, key: np.ndarray,
              toward: np.ndarray | None = None) -> np.ndarray:  # fmt: skip
        for i in range(len(theta)):
            X, y, _, read = self._rows(work, i)
            weight = torch.as_tensor(work.weight[work.start[i] : work.stop[i]]).to(torch.as_tensor(theta).dtype)
            orders = passes(len(y), local.epochs, local.batch_size, key[i], self.shuffle)
            model, begin, anchor = self.model, theta[i], None if toward is None else toward[i]
            if isinstance(model, Supernet):  # its weights keep their signs, whatever happens to the scores
                model, begin, anchor = model.free(begin), np.abs(begin), None if anchor is None else np.abs(anchor)
            found = fit(model, begin, ((X, order) for order in orders), y, read, local, lr=float(lr[i]),
                        weight=weight if work.weight.size else None, toward=anchor)  # fmt: skip
            theta[i] = np.copysign(found, theta[i]) if isinstance(self.model, Supernet) else found
        return theta

    @torch.no_grad()
    def score(self, work: Work, theta: np.ndarray, model: np.ndarray, loss: bool = False) -> tuple[np.ndarray, np.ndarray]:
        classes = work.examples.classes
        counts = np.zeros((len(model), work.examples.groups, classes, classes), np.int64)
        losses = np.zeros(len(model) if loss else 0)
        for i, m in enumerate(model):
            X, y, a, read = self._rows(work, i)
            if not len(y):
                continue
            logits = logits_of(self.model, torch.as_tensor(theta[m]), X, read)
            found = (logits > 0).int() if logits.ndim == 1 else logits.argmax(1)
            np.add.at(counts[i], (a.numpy(), y.numpy(), found.numpy()), 1)
            if loss:
                exact = logits.double() if logits.ndim == 1 else logits
                losses[i] = row_losses(exact, y).numpy().sum(dtype=np.float64)
        return counts, losses

    @torch.no_grad()
    def logits(self, work: Work, theta: np.ndarray, model: np.ndarray) -> np.ndarray:
        found = []
        for i, m in enumerate(model):
            X, y, _, read = self._rows(work, i)
            if len(y):
                found.append(logits_of(self.model, torch.as_tensor(theta[m]), X, read).numpy())
        return np.concatenate(found) if found else np.empty(0, theta.dtype)

    def counts(self, of: Of) -> bool:
        return False

    def pull(self, work: Work, theta: np.ndarray, model: np.ndarray, of: Of) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for i, m in enumerate(model):
            X, y, a, read = self._rows(work, i)
            params = torch.tensor(theta[m], requires_grad=True)
            found.append(self._pull(params, X, y, a, read, of) if len(y) else None)
        return gathered(found, theta.shape[1], theta.dtype)

    def _pull(self, params: torch.Tensor, X: Any, y: torch.Tensor, a: torch.Tensor, read: Read, of: Of
              ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        parts = list(_parts(X))
        if len(parts) == 1:
            whole = _vector(of(self.model.forward(params, read(X)), y, a))
            slopes = [_slope(value, params).numpy() for value in whole]
            return whole.detach().numpy().astype(np.float64), np.stack(slopes)
        with torch.no_grad():
            logits = logits_of(self.model, params, X, read)
        values, pushes = pushed(of, logits, y, a)
        gradient = np.zeros((len(values), len(params)), params.detach().numpy().dtype)
        first = 0
        for part in parts:  # a part at a time once more, so that memory does not grow with the rows
            out = self.model.forward(params, read(part))
            for j, push in enumerate(pushes):
                along = push[first : first + len(part)]
                gradient[j] += torch.autograd.grad(out, params, along, retain_graph=j + 1 < len(pushes))[0].numpy()
            first += len(part)
        return values, gradient

    def _rows(self, work: Work, i: int) -> tuple[Any, torch.Tensor, torch.Tensor, Read]:
        rows, run = work.index[work.start[i] : work.stop[i]], int(work.run[i])
        X, y, a = (torch.as_tensor(array[rows]) for array in (work.examples.X, work.examples.y, work.examples.a))
        return X, y, a.long(), lambda X: work.inputs(X, run)


def pushed(of: Of, logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> tuple[np.ndarray, list[torch.Tensor]]:
    """The values of a function of the logits, and the gradient of each value by the logits."""
    leaf = logits.detach().requires_grad_()
    values = _vector(of(leaf, y, a))
    pushes = [_slope(value, leaf) for value in values]
    return values.detach().numpy().astype(np.float64), pushes


def _vector(values: Any) -> torch.Tensor:
    if not isinstance(values, torch.Tensor) or values.ndim > 1:
        raise FairFLError("A function of logits must give one torch value, or a vector of them.")
    return torch.atleast_1d(values)


def _slope(value: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """The gradient of a value; 0 where it does not depend on the logits, as for a client that lacks a group."""
    if not value.requires_grad:
        return torch.zeros_like(by)
    (found,) = torch.autograd.grad(value, by, retain_graph=True, allow_unused=True)
    return torch.zeros_like(by) if found is None else found


def gathered(found: list[tuple[np.ndarray, np.ndarray] | None], size: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients of all replicas; NaN and 0 for one without rows."""
    many = next((len(one[0]) for one in found if one), 1)
    if any(len(one[0]) != many for one in found if one):
        raise FairFLError("A function of logits must give equally many values for every client.")
    values, gradients = np.full((len(found), many), np.nan), np.zeros((len(found), many, size), dtype)
    for i, one in enumerate(found):
        if one:
            values[i], gradients[i] = one
    return values, gradients

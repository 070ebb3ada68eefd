"""Models as flat parameter vectors: a layout, a start, and a forward pass in plain torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch


class Model(Protocol):
    """What the engine needs of a model: its flat size, a random start, and the logit of each row."""

    @property
    def size(self) -> int: ...

    def init(self, rng: np.random.Generator) -> np.ndarray: ...

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Dense:
    """Binary classifier on tabular rows.

    hidden = 0: logistic regression, logit = x.w + b, layout [w (features), b].
    hidden = h: one layer of h tanh units, logit = tanh(W x + c).v + b, layout [W (h x features), c (h), v (h), b].
    `start` "uniform" draws every parameter from U(-1/sqrt(fan in), 1/sqrt(fan in)); "normal" draws kernels from
    N(0, 0.05^2) and sets biases to 0.
    """

    features: int
    hidden: int = 0
    start: Literal["uniform", "normal"] = "uniform"

    @property
    def size(self) -> int:
        if self.hidden:
            return self.hidden * (self.features + 2) + 1
        return self.features + 1

    def init(self, rng: np.random.Generator) -> np.ndarray:
        layers = [(self.features, self.hidden), (self.hidden, 1)] if self.hidden else [(self.features, 1)]
        parts = []
        for inputs, outputs in layers:
            if self.start == "normal":
                parts += [rng.normal(0.0, 0.05, inputs * outputs), np.zeros(outputs)]
            else:
                bound = 1 / np.sqrt(inputs)
                parts += [rng.uniform(-bound, bound, inputs * outputs), rng.uniform(-bound, bound, outputs)]
        return np.concatenate(parts).astype(np.float32)

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        d, h = self.features, self.hidden
        if not h:
            return X @ params[:d] + params[d]
        W, c = params[: d * h].reshape(h, d), params[d * h : d * h + h]
        v, b = params[d * h + h : d * h + 2 * h], params[-1]
        return torch.tanh(X @ W.T + c) @ v + b

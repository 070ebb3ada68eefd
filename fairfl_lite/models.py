"""Models as flat parameter vectors: a layout, a start, and a forward pass in plain torch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from torch.nn.functional import conv2d, linear, max_pool2d, relu


class Model(Protocol):
    """What a federation needs of a model: four members, and nothing of torch but the forward pass.

    Any class with these members will do; it need not be derived from this one.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> class Line:
    ...     size, classes = 2, 2
    ...
    ...     def init(self, rng):
    ...         return rng.normal(size=2).astype(np.float32)
    ...
    ...     def forward(self, params, X):
    ...         return params[0] * X[:, 0] + params[1]
    >>> from fairfl_lite import ClientTraining, FedAvg, Federation, Partition, load
    >>> local = ClientTraining(lr=0.1)
    >>> fed = Federation.of(load("synthetic"), Partition.random(2), range(1), local, model=Line(), engine="plain")
    >>> fed.run(FedAvg(), rounds=1).state
    State(params of shape (1, 2), memory of weights)

    The examples of the methods below go on from these lines.
    """

    @property
    def size(self) -> int:
        """How many parameters there are.

        Examples
        --------
        >>> Line().size
        2
        """
        ...

    @property
    def classes(self) -> int:
        """How many classes it tells apart.

        Examples
        --------
        >>> Line().classes
        2
        """
        ...

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """A random start.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where random numbers come from.

        Returns
        -------
        ndarray of float32 or float64, shape (size,)

        Examples
        --------
        >>> Line().init(np.random.default_rng(0)).shape
        (2,)
        """
        ...

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """The logits of each row.

        Parameters
        ----------
        params : torch.Tensor of shape (size,)
            The parameters.
        X : torch.Tensor of shape (n_rows, ...)
            Rows of a table, or images.

        Returns
        -------
        torch.Tensor of shape (n_rows,), or (n_rows, classes) for more than two classes

        Examples
        --------
        >>> Line().forward(torch.tensor([2.0, 1.0]), torch.tensor([[0.5], [3.0]]))
        tensor([2., 7.])
        """
        ...


@dataclass(frozen=True)
class Dense:
    """A classifier of the rows of a table: logistic regression, or one hidden layer of tanh units.

    It has C = 1 logit for two classes and C = classes for more. Without a hidden layer ``logits = V x + b``, and the
    parameters are V of shape (C, features) and b of shape (C,). With one ``logits = V tanh(W x + c) + b``, and they are W of
    shape (hidden, features), c, V of shape (C, hidden) and b.

    Parameters
    ----------
    features : int
        How many columns a row has.
    hidden : int
        How many units the hidden layer has; 0 is logistic regression.
    start : {"uniform", "normal"}
        "uniform" draws every parameter from ``U(-1/sqrt(fan in), 1/sqrt(fan in))``; "normal" draws kernels from ``N(0,
        0.05^2)`` and sets biases to 0.
    classes : int
        How many classes it tells apart.

    Examples
    --------
    >>> from fairfl_lite import Dense
    >>> Dense(features=10).size, Dense(features=10, hidden=8).size, Dense(features=10, classes=3).size
    (11, 97, 33)
    """

    features: int
    hidden: int = 0
    start: Literal["uniform", "normal"] = "uniform"
    classes: int = 2

    @property
    def _layers(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer."""
        outputs = 1 if self.classes == 2 else self.classes
        return [(self.features, self.hidden), (self.hidden, outputs)] if self.hidden else [(self.features, outputs)]

    @property
    def size(self) -> int:
        return sum((inputs + 1) * outputs for inputs, outputs in self._layers)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        parts = []
        for inputs, outputs in self._layers:
            if self.start == "normal":
                parts += [rng.normal(0.0, 0.05, inputs * outputs), np.zeros(outputs)]
            else:
                bound = 1 / np.sqrt(inputs)
                parts += [rng.uniform(-bound, bound, inputs * outputs), rng.uniform(-bound, bound, outputs)]
        return np.concatenate(parts).astype(np.float32)

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        pieces = params.split([size for inputs, outputs in self._layers for size in (inputs * outputs, outputs)])
        if self.hidden:
            X = torch.tanh(linear(X.to(params.dtype), pieces[0].view(self.hidden, self.features), pieces[1]))
        V, b = pieces[-2:]
        if self.classes == 2:
            return X.to(params.dtype) @ V + b
        return linear(X.to(params.dtype), V.view(self.classes, -1), b)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same [k, c, h, w] with its channels next to each other in memory, which convolutions on a CPU want.

    For one channel both orders are alike in memory and torch takes the slow one, unless the strides say otherwise.
    """
    if x.shape[1] == 1:
        return x.reshape(len(x), *x.shape[2:], 1).permute(0, 3, 1, 2)
    return x.contiguous(memory_format=torch.channels_last)


def pool(x: torch.Tensor) -> torch.Tensor:
    """The largest of each 2 x 2 pixels. Where nothing is learnt, four times as fast as torch's own, with the same result."""
    if torch.is_grad_enabled():
        return max_pool2d(x, 2)
    x = torch.maximum(x[:, :, ::2], x[:, :, 1::2])
    return torch.maximum(x[..., ::2], x[..., 1::2])


@dataclass(frozen=True)
class Network(ABC):
    """A network for images of ten classes as one flat vector of parameters.

    double : its parameters, and all that is computed from them, in double precision. Slower, but what is learnt is then the
    same on every machine to many digits, where single precision parts after some dozen steps.
    """

    double: bool = field(default=False, kw_only=True)

    @property
    def classes(self) -> int:
        return 10

    @property
    @abstractmethod
    def shapes(self) -> list[tuple[int, ...]]:
        """Its tensors in order, each weight before its bias, if it has one."""

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """He's start: weights from N(0, 2 / fan in), so that signals keep their size through ReLUs; biases 0."""
        parts = [
            rng.normal(0.0, math.sqrt(2 / math.prod(shape[1:])), math.prod(shape)) if len(shape) > 1 else np.zeros(shape)
            for shape in self.shapes
        ]
        return np.concatenate(parts, dtype=np.float64 if self.double else np.float32, casting="unsafe")

    def forward(self, params: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """Logits [rows, 10] of images [rows, channels, side, side]."""
        # One split, not a slice per tensor: its backward pass is one concatenation.
        pieces = params.split([math.prod(shape) for shape in self.shapes])
        tensors = [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        X = X.to(params.dtype)
        if not self.double:  # in double precision channels first are the faster order
            X = channels_last(X) if X.ndim == 4 else X
            tensors = [channels_last(t) if t.ndim == 4 else t for t in tensors]
        return self.logits(X, tensors)

    @abstractmethod
    def logits(self, X: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        """The forward pass over its tensors."""


@dataclass(frozen=True)
class CNN(Network):
    """RankFF's network for 28 x 28 images of ten classes.

    Two 5 x 5 convolutions, each pooled 2 x 2, and two dense layers, with ReLU. The paper gives no widths; these are ours.

    Parameters
    ----------
    channels : tuple of two int
        Channels of the two convolutions.
    hidden : int
        Units of the first dense layer.
    double : bool
        Whether parameters, and all that is computed from them, are in double precision. It is slower, but what is learnt is
        then the same on every machine to many digits, where single precision parts after some dozen steps.

    Examples
    --------
    >>> from fairfl_lite import CNN
    >>> CNN().size
    21840
    """

    channels: tuple[int, int] = (10, 20)
    hidden: int = 50

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        a, b = self.channels
        h = self.hidden
        return [(a, 1, 5, 5), (a,), (b, a, 5, 5), (b,), (h, 16 * b), (h,), (10, h), (10,)]

    def logits(self, X: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        first, c1, second, c2, third, c3, last, c4 = tensors
        X = relu(pool(conv2d(X, first, c1)))
        X = relu(pool(conv2d(X, second, c2)))
        return linear(relu(linear(X.flatten(1), third, c3)), last, c4)


@dataclass(frozen=True)
class LeNet(Network):
    """E2FL's LeNet (its Table 7): two 3 x 3 convolutions that keep the size, one pooling, two dense layers, ReLU, no biases.

    It has 1,625,632 parameters for 28 x 28 images of ten classes, and 1,632,288 for FEMNIST's 62.

    Parameters
    ----------
    classes : int
        How many classes it tells apart.
    double : bool
        Whether parameters, and all that is computed from them, are in double precision.

    Examples
    --------
    >>> from fairfl_lite import LeNet
    >>> LeNet().size, LeNet(classes=62).size
    (1625632, 1632288)
    """

    classes: int = 10

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(32, 1, 3, 3), (64, 32, 3, 3), (128, 64 * 14 * 14), (self.classes, 128)]

    def logits(self, X: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        first, second, third, last = tensors
        X = pool(relu(conv2d(relu(conv2d(X, first, padding=1)), second, padding=1)))
        return linear(relu(linear(X.flatten(1), third)), last)


@dataclass(frozen=True)
class Perceptron(Network):
    """Fully connected layers with ReLU and without biases.

    Images are taken as rows of pixels. Two classes have one logit, that of the second less that of the first.

    Parameters
    ----------
    widths : tuple of int
        From the number of features to the number of classes. (101, 1024, 1024, 2) is E2FL's network for Adult (its Table 7),
        with 1,154,048 parameters.
    double : bool
        Whether parameters, and all that is computed from them, are in double precision.

    Examples
    --------
    >>> from fairfl_lite import Perceptron
    >>> Perceptron((101, 1024, 1024, 2)).size
    1154048
    """

    widths: tuple[int, ...]

    @property
    def classes(self) -> int:
        return self.widths[-1]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return list(zip(self.widths[1:], self.widths, strict=False))

    def logits(self, X: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        X = X.flatten(1)
        for tensor in tensors[:-1]:
            X = relu(linear(X, tensor))
        X = linear(X, tensors[-1])
        return X[:, 1] - X[:, 0] if self.classes == 2 else X


@dataclass(frozen=True)
class VGG11(Network):
    """VGG11 for 32 x 32 images of ten classes: eight 3 x 3 convolutions with ReLU, pooled five times, and a dense layer.

    Parameters
    ----------
    width : float
        Factor on the channels 64, 128, 256, 256, 512, 512, 512, 512; 1 is the network of Simonyan and Zisserman.
    double : bool
        Whether parameters, and all that is computed from them, are in double precision.

    Examples
    --------
    >>> from fairfl_lite import VGG11
    >>> VGG11(width=0.125).size
    145210
    """

    width: float = 1.0

    @property
    def channels(self) -> list[int]:
        return [max(1, round(self.width * c)) for c in (64, 128, 256, 256, 512, 512, 512, 512)]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        inputs = [3, *self.channels[:-1]]
        layers = [[(c, i, 3, 3), (c,)] for i, c in zip(inputs, self.channels, strict=True)]
        return [shape for layer in layers for shape in layer] + [(10, self.channels[-1]), (10,)]

    def logits(self, X: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        for layer in range(8):
            X = relu(conv2d(X, tensors[2 * layer], tensors[2 * layer + 1], padding=1))
            if layer in (0, 1, 3, 5, 7):
                X = pool(X)
        return linear(X.flatten(1), tensors[-2], tensors[-1])

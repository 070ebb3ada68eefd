"""E2FL's federations: FairMNISTRotate, Adult among five clients, and styles of handwriting made from MNIST.

The group of a row is its angle, sex or style. FairMNISTRotate is tested by group: its part "test" has one client for each
group, all test images turned by the group's angle, and a client's accuracy is that of its model on its group's images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn.functional import affine_grid, grid_sample, max_pool2d

from fairfl_lite import data, metrics, streams
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Images, Partition
from fairfl_lite.data.rotation import rotate
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Answer, Examples, Federation, Models, OneFederation, Pixels, Shards
from fairfl_lite.models import LeNet, Model, Perceptron
from fairfl_lite.supernets import Supernet
from papers.e2fl.printed import COUNTS, PRINTED

STEP = 36.0
"""Degrees from one group to the next; the paper does not say."""
STRIP = 2000  # images turned at a time


def printed_training(on: str, rates: str = "e2fl", **more: Any) -> ClientTraining:
    """Local training on `on` as Appendix E.1 prints it. rates : "e2fl", those of scores, or "fedavg", those of weights."""
    rate, epochs, batch = PRINTED["learning_rate"][rates][on], PRINTED["local_epochs"][on], PRINTED["batch"].get(on, 32)
    return ClientTraining("sgd", rate, PRINTED["weight_decay"], epochs, batch, momentum=PRINTED["momentum"], **more)


RANKED = printed_training("fairmnistrotate", lr_decay=0.999)
"""Local training on scores for FairMNISTRotate; the fading rate is the public code's, not the paper's."""
WEIGHED = printed_training("fairmnistrotate", "fedavg")
"""Local training on weights, for FedAvg, q-FFL and IFCA."""
ADULT = printed_training("adult")
"""Local training on scores for Adult, with the paper's rate; its batch size is not printed."""


def lenet() -> Supernet:
    return Supernet(LeNet())


def small(hidden: int = 128) -> Supernet:
    """A fully connected supernet for quick runs on images of 28 x 28."""
    return Supernet(Perceptron((784, hidden, 10)))


@lru_cache(maxsize=1)
def mnist() -> Images:
    return data.images("mnist")


def fair_mnist_rotate(
    seeds: Sequence[int],
    *,
    model: Model | None = None,
    local: ClientTraining = RANKED,
    counts: Sequence[int] = COUNTS,
    step: float = STEP,
    each: int = 60,
    test: int = 0,
    look: int = 100,
    participants: int = PRINTED["drawn"]["fairmnistrotate"],
    images: Images | None = None,
    **options: Any,
) -> Federation:
    """FairMNISTRotate: counts[q] clients with `each` training images, turned by q * step degrees.

    No image is with two clients; where there are too few for that, no image is with two clients of one group.
    Parts: "train" by client; "test" by group, the first `test` test images (0: all of them) in each angle; "look" the first
    `look` of those. Groups of rows are angles, so E2FL knows them by `Known()`.
    """
    images = images or mnist()
    groups = np.repeat(np.arange(len(counts)), counts)
    if not 0 < max(counts) * each <= images.train:
        raise FairFLError(
            f"{max(counts)} clients of a group cannot have {each} images each, there are {images.train} to train on."
        )
    held = images.train + np.arange(test or len(images) - images.train)
    if held[-1] >= len(images):
        raise FairFLError(f"There are {len(images) - images.train} test images, not {test}.")
    pictures, labels, codes = [], [], []
    for seed in seeds:
        rows = streams.stream(seed, "images train").permutation(images.train)
        for q, count in enumerate(counts):
            if len(groups) * each <= images.train:
                own = rows[sum(counts[:q]) * each :][: count * each]
            else:
                own = streams.stream(seed, f"images train {q}").permutation(images.train)[: count * each]
            pictures.append(_turned(images.x[own], q * step))
            labels.append(images.y[own])
            codes.append(np.full(len(own), q))
    train = Examples(np.concatenate(pictures), np.concatenate(labels), np.concatenate(codes), images.classes, len(counts))
    dealt = np.arange(len(train)).reshape(len(seeds), len(groups), each)
    turned = np.concatenate([_turned(images.x[held], q * step) for q in range(len(counts))])
    tested = Examples(turned, np.tile(images.y[held], len(counts)), np.repeat(np.arange(len(counts)), len(held)), images.classes,
                      len(counts))  # fmt: skip
    by_group = np.arange(len(tested)).reshape(len(counts), -1)
    shards = {"train": Shards.deal(train, [list(run) for run in dealt]),
              "test": Shards.deal(tested, [list(by_group)] * len(seeds)),
              "look": Shards.deal(tested, [list(by_group[:, :look])] * len(seeds))}  # fmt: skip
    participants = min(participants, len(groups))
    return Federation(shards, model or lenet(), local, tuple(seeds), Pixels(), participants=participants, **options)


def _turned(x: np.ndarray, degrees: float) -> np.ndarray:
    parts = [rotate(torch.as_tensor(x[first : first + STRIP]), degrees).numpy() for first in range(0, len(x), STRIP)]
    return np.concatenate(parts) if parts else x


def adult(alpha: float, seeds: Sequence[int], *, model: Model | None = None, local: ClientTraining = ADULT,
          clients: int = PRINTED["clients"]["adult"], test: float = 1 / 3, **options: Any) -> Federation:  # fmt: skip
    """Adult, 101 features, dealt to clients by Dirichlet(alpha) shares of either sex; groups are the sexes (1 male).

    A third is held back for testing, as in the published files; the split is drawn anew for each seed.
    """
    table = data.load("adult", encoding="onehot")
    model = model or Supernet(Perceptron((101, 1024, 1024, 2)))
    return Federation.of(table, Partition.dirichlet(alpha, clients), seeds, local, model=model, test=test, **options)


STYLES = ("upright", "slanted", "leaning back", "bold", "thin")


def styled(x: np.ndarray, style: str) -> np.ndarray:
    """uint8 images [n, 1, side, side] as if written in another style: sheared by 0.5 to the right or to the left, every stroke a
    pixel wider on all sides, or a pixel narrower downwards and sideways. Made from MNIST; nobody's handwriting."""
    choose(style, STYLES, "style of handwriting named")
    pixels = torch.as_tensor(x)
    if style == "upright":
        return x
    if style == "bold":
        return max_pool2d(pixels.float(), 3, 1, 1).to(torch.uint8).numpy()
    if style == "thin":
        return _thin(pixels)
    shear = 0.5 if style == "slanted" else -0.5
    turn = torch.tensor([[1.0, shear, 0.0], [0.0, 1.0, 0.0]], dtype=torch.float64).expand(len(x), 2, 3)
    moved = grid_sample(pixels.double(), affine_grid(turn, list(x.shape), align_corners=False), align_corners=False)
    return (moved + 0.500001).floor().to(torch.uint8).numpy()


def _thin(pixels: torch.Tensor) -> np.ndarray:
    """The smallest of each pixel and its neighbours below, to the right and between."""
    padded = torch.nn.functional.pad(pixels, (0, 1, 0, 1))
    across = torch.minimum(padded[..., :-1], padded[..., 1:])
    return torch.minimum(across[..., :-1, :], across[..., 1:, :]).numpy()


def handwriting(seeds: Sequence[int], *, model: Model | None = None, local: ClientTraining = RANKED,
                counts: Sequence[int] = (60, 20, 10, 6, 4), each: int = 60, test: int = 40, participants: int = 10,
                images: Images | None = None, **options: Any) -> Federation:  # fmt: skip
    """Clients with a style each that nobody tells them, counts[s] of style s, and test images of their own; a stand-in for
    FEMNIST's unknown groups, made from MNIST. The groups of the rows are the styles, for those who want to check an inference."""
    images = images or mnist()
    styles = np.repeat(np.arange(len(counts)), counts)
    n = len(styles)
    if len(counts) > len(STYLES) or n * each > images.train or n * test > len(images) - images.train:
        raise FairFLError(f"There are {len(STYLES)} styles, {images.train} images to train on and {len(images) - images.train} "
                          f"to test on: not enough for {n} clients of {len(counts)} styles.")  # fmt: skip
    shards = {}
    for part, (low, high, many) in {"train": (0, images.train, each), "test": (images.train, len(images), test)}.items():
        x, y, a = [], [], []
        for seed in seeds:
            rows = low + streams.stream(seed, f"images {part}").permutation(high - low)[: n * many]
            x += [styled(images.x[own], STYLES[s]) for own, s in zip(rows.reshape(n, many), styles, strict=True)]
            y.append(images.y[rows])
            a.append(np.repeat(styles, many))
        examples = Examples(np.concatenate(x), np.concatenate(y), np.concatenate(a), images.classes, len(counts))
        shards[part] = Shards.deal(examples, [list(run) for run in np.arange(len(examples)).reshape(len(seeds), n, many)])
    participants = min(participants, n)
    return Federation(shards, model or lenet(), local, tuple(seeds), Pixels(), participants=participants, **options)


def true_groups(fed: Federation) -> np.ndarray:
    """The group of each client's rows (of most of them), [run, client]."""
    return fed.shards["train"].census().sum(3).argmax(2)


def accuracies(fed: Federation, answer: Answer, on: str = "test") -> np.ndarray:
    """The accuracy of each client, [run, client], by what a method answers in every run: see `accuracies_of`."""
    by_seed = {seed: Models(answer.models[r], answer.of[r]) if isinstance(answer, Models) else answer[r]
               for r, seed in enumerate(fed.seeds)}  # fmt: skip
    return np.stack(fed.ask(lambda one: accuracies_of(one, by_seed[one.seed], on)))


async def accuracies_of(fed: OneFederation, answer: Answer, on: str = "test") -> np.ndarray:
    """The accuracy of each client, [client]: its model on its own rows of a part by client, or on its group's rows of a part by
    group. A model is asked once about a group, however many clients that serves."""
    if fed.holders(on) == fed.n:
        return metrics.accuracy(await fed.confusion(answer, on=on))
    group = await groups_of(fed, np.arange(fed.n))
    if not isinstance(answer, Models):
        if isinstance(answer, np.ndarray) and answer.ndim != 1:
            raise FairFLError("Models of single clients are asked about their groups one lot at a time: see accuracies_alone.")
        return metrics.accuracy(await fed.confusion(answer, on=on))[group]
    found = np.empty(fed.n)
    for q in np.unique(answer.of):
        own = answer.of == q
        asked, place = np.unique(group[own], return_inverse=True)
        found[own] = metrics.accuracy(await fed.confusion(answer.models[q], asked, on))[place]
    return found


async def accuracies_alone(fed: OneFederation, models: np.ndarray, clients: np.ndarray, on: str = "test") -> np.ndarray:
    """The accuracy of single clients' models [client, P], [client]: on their own rows, or on their group's of a part by group."""
    holders = clients if fed.holders(on) == fed.n else await groups_of(fed, clients)
    return metrics.accuracy(await fed.confusion(models, holders, on))


async def groups_of(fed: OneFederation, clients: np.ndarray) -> np.ndarray:
    """The group of these clients' rows (of most of them), [client]."""
    return (await fed.group_label_counts(clients)).sum(2).argmax(1)


def levels(accuracy: np.ndarray, group: np.ndarray) -> dict[str, np.ndarray]:
    """Table 1's eight columns in percent, [run] each, from accuracies and groups [run, client].

    A group's accuracy is the mean of its clients'. Worst and best are means of the worst and best tenth, of groups and of clients
    (at least one); variances are of the population, in squared percent. Clients without a number are left out.
    """
    percent = 100 * accuracy
    groups = np.arange(group.max() + 1)
    with np.errstate(invalid="ignore"):
        by_group = np.stack([np.nanmean(np.where(group == q, percent, np.nan), axis=1) if (group == q).any() else
                             np.full(len(group), np.nan) for q in groups], axis=1)  # fmt: skip
    found: dict[str, np.ndarray] = {}
    for level, values in (("group", by_group), ("user", percent)):
        found |= {f"{level}_avg": np.nanmean(values, axis=1), f"{level}_worst": metrics.tail(values),
                  f"{level}_best": metrics.tail(values, best=True), f"{level}_var": metrics.variance(values)}  # fmt: skip
    return found

"""How rows are dealt to clients: strata, and for every stratum the share each client gets of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairfl_lite.data.table import Rows, Table
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.streams import stream

ATTEMPTS = 10_000


class Draw(NamedTuple):
    """`proportions` [stratum, client], each row adding up to 1, and how many draws were refused before it."""

    proportions: NDArray[np.float64]
    redraws: int


@dataclass(frozen=True)
class Partition:
    """A rule that deals the rows of any table to clients.

    over : the factors whose combinations are the strata: "sensitive", "label" or a name in `table.columns`.
        Without a factor all rows are one stratum.
    alpha : Dirichlet concentration of a stratum's shares. Towards infinity every client gets the same share of
        every stratum, towards 0 each stratum goes to one client. None: no shares are drawn; client c is stratum c, or
        every client gets the same share where there is one stratum.
    blocks : number of clients in each block. One block: every stratum is dealt to all clients. Several: the
        i-th value of the first factor is dealt to the clients of block i alone.
    """

    over: tuple[str, ...]
    alpha: float | None = None
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 < self.alpha < np.inf:
            raise FairFLError(f"alpha={self.alpha} must be positive: 0.1 is unequal, 5000 nearly equal.")
        whole = all(isinstance(size, int) and size >= 1 for size in self.blocks)
        cell_is_client = self.alpha is None and self.over != ()
        if cell_is_client != (self.blocks == ()) or not whole:
            raise FairFLError(f"A partition needs one client or more, not {self.blocks}.")

    @classmethod
    def dirichlet(cls, alpha: float, clients: int, over: str = "sensitive") -> "Partition":
        """p_a ~ Dir(alpha) over the clients for each sensitive value a (FairFed, section 6.1).

        over="sensitive+label" draws one vector for each of the four (a, y) strata instead.
        """
        choose(over, ("sensitive", "sensitive+label"), "setting of over")
        return cls(tuple(over.split("+")), alpha, (clients,))

    @classmethod
    def single_group(cls, alpha: float = 0.5, clients: tuple[int, int] = (2, 3)) -> "Partition":
        """The first clients[0] clients hold a=0 alone, the others a=1 alone (FairFed, appendix C.3).

        Inside each group the shares of either label value are drawn from Dir(alpha) over its clients.
        """
        if not isinstance(clients, tuple) or len(clients) != 2:
            raise FairFLError(f"single_group needs two numbers of clients, for a=0 and a=1, not {clients!r}.")
        return cls(("sensitive", "label"), alpha, clients)

    @classmethod
    def random(cls, clients: int) -> "Partition":
        """Rows shuffled and cut into equal chunks, sizes differing by at most one ("RND" in FAIR-FATE)."""
        return cls((), None, (clients,))

    @classmethod
    def by_column(cls, column: str) -> "Partition":
        """One client per value of `column`, in sorted order."""
        return cls((column,))

    def strata(self, table: Table) -> tuple[NDArray[np.intp], list[tuple[Any, ...]]]:
        """(stratum id of every row [n], values of the factors for every stratum), strata in sorted order."""
        if not self.over:
            return np.zeros(len(table), np.intp), [()]
        codes, values = zip(*(pd.factorize(self._factor(table, name), sort=True) for name in self.over), strict=True)
        shape = tuple(len(found) for found in values)
        present, stratum = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
        places = zip(*np.unravel_index(present, shape), strict=True)
        return stratum, [tuple(v[i] for v, i in zip(values, place, strict=True)) for place in places]

    def names(self, table: Table) -> list[str]:
        """One name per client: the value of the column, or the client's number."""
        if not self.blocks:
            return [str(values[0]) for values in self.strata(table)[1]]
        return [str(client) for client in range(sum(self.blocks))]

    def draw(self, table: Table, splits: Mapping[str, Rows], seed: int, minimum: int = 10) -> Draw:
        """Shares of every stratum, redrawn until each client has at least `minimum` training rows.

        FairFed states no minimum; with minimum=0 nothing is redrawn and a client can be empty. Redraws go on along the
        same random stream, so the result depends on `seed` and `minimum` alone, and they are counted.
        """
        stratum, values = self.strata(table)
        return self._draw(table, stratum[splits["train"]], values, seed, minimum)

    def clients(self, table: Table, splits: Mapping[str, Rows], seed: int, minimum: int = 10) -> dict[str, list[Rows]]:
        """For each split a list over clients of ascending row numbers; every row appears exactly once.

        All splits are cut with the same shares (`draw`). Which rows of a stratum go where is drawn on a stream
        of each split's own, so a client's test rows do not change when a validation part is split off, unless
        the smaller training part forces a redraw.
        """
        stratum, values = self.strata(table)
        proportions = self._draw(table, stratum[splits["train"]], values, seed, minimum).proportions
        dealt: dict[str, list[Rows]] = {}
        for split, rows in splits.items():
            shuffled = stream(seed, f"partition {split}").permutation(rows)
            by_stratum = shuffled[np.argsort(stratum[shuffled], kind="stable")]
            bounds = np.cumsum(np.bincount(stratum[rows], minlength=len(values)))[:-1]
            pieces = [
                np.split(part, _cuts(shares, len(part))[1:-1])
                for part, shares in zip(np.split(by_stratum, bounds), proportions, strict=True)
            ]
            dealt[split] = [np.sort(np.concatenate(client)) for client in zip(*pieces, strict=True)]
        return dealt

    def _factor(self, table: Table, name: str) -> NDArray[Any]:
        if name == "sensitive":
            return table.a
        if name == "label":
            return table.y
        return table.columns[choose(name, table.columns, f"column of dataset {table.name!r} named")]

    def _draw(self, table: Table, train: NDArray[np.intp], values: list[tuple[Any, ...]], seed: int, minimum: int) -> Draw:
        sizes = np.bincount(train, minlength=len(values))
        rng = stream(seed, "partition")
        for redraws in range(1 if self.alpha is None else ATTEMPTS):
            proportions = self._proportions(values, rng)
            cut = [np.diff(_cuts(shares, n)) for shares, n in zip(proportions, sizes, strict=True)]
            counts = np.sum(cut, axis=0)
            if counts.min() >= minimum:
                return Draw(proportions, redraws)
        raise FairFLError(
            f"{self} leaves client {self.names(table)[int(counts.argmin())]!r} of dataset {table.name!r} with"
            f" {counts.min()} training rows where {minimum} are asked: use fewer clients, a larger alpha or a"
            " smaller minimum."
        )

    def _proportions(self, values: list[tuple[Any, ...]], rng: np.random.Generator) -> NDArray[np.float64]:
        if self.alpha is None:
            return np.full((1, *self.blocks), 1 / self.blocks[0]) if self.blocks else np.eye(len(values))
        groups = sorted({value[:1] for value in values})
        if len(self.blocks) > 1 and len(groups) != len(self.blocks):
            raise FairFLError(f"{self} has {len(self.blocks)} blocks of clients for {len(groups)} groups.")
        ends = np.cumsum((0, *self.blocks))
        proportions = np.zeros((len(values), ends[-1]))
        for shares, value in zip(proportions, values, strict=True):
            block = groups.index(value[:1]) if len(self.blocks) > 1 else 0
            shares[ends[block] : ends[block + 1]] = rng.dirichlet(np.full(self.blocks[block], self.alpha))
        return proportions


def _cuts(shares: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """[client + 1] ascending bounds from 0 to n; client k gets what lies between bounds k and k + 1."""
    inner = np.rint(np.cumsum(shares)[:-1] * n).astype(np.int64)
    return np.concatenate(([0], np.minimum(inner, n), [n]))


def histogram(table: Table, clients: Sequence[Rows], names: Sequence[str] | None = None) -> pd.DataFrame:
    """Counts [client x (a, y)]: how many rows of each group and label every client holds."""
    counts = [np.bincount(2 * table.a[rows] + table.y[rows], minlength=4) for rows in clients]
    columns = pd.MultiIndex.from_product([(0, 1), (0, 1)], names=["a", "y"])
    index = pd.Index(range(len(clients)) if names is None else names, name="client")
    return pd.DataFrame(np.array(counts, dtype=np.int64).reshape(-1, 4), index=index, columns=columns)

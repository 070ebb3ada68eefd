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

    Usually made by one of `Partition.random`, `Partition.by_column`, `Partition.dirichlet` and `Partition.single_group`.

    Parameters
    ----------
    over : tuple of str
        The factors whose combinations are the strata: "sensitive", "label" or a name in ``table.columns``. Without a factor
        all rows are one stratum.
    alpha : float, optional
        Dirichlet concentration of a stratum's shares. Towards infinity every client gets the same share of every stratum,
        towards 0 each stratum goes to one client. If None no shares are drawn: client c is stratum c, or every client gets
        the same share where there is one stratum.
    blocks : tuple of int
        The number of clients in each block. With one block every stratum is dealt to all clients. With several, the i-th
        value of the first factor is dealt to the clients of block i alone.

    Examples
    --------
    >>> from fairfl_lite import Partition, load
    >>> table = load("synthetic", train=80, test=20)
    >>> splits = table.split(seed=0)
    >>> partition = Partition.dirichlet(0.5, clients=3)
    >>> [len(rows) for rows in partition.clients(table, splits, seed=0)["train"]]
    [15, 10, 55]

    The examples of the methods below go on from these lines.
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
        """Every group is spread over the clients by shares that are drawn, ``p_a ~ Dir(alpha)`` (FairFed, section 6.1).

        Parameters
        ----------
        alpha : float
            Concentration: 0.1 is unequal, 5000 nearly equal.
        clients : int
            How many clients there are.
        over : {"sensitive", "sensitive+label"}
            Draw one vector of shares for each sensitive value, or one for each pair of sensitive value and label.

        Returns
        -------
        Partition

        Examples
        --------
        >>> Partition.dirichlet(0.1, clients=5, over="sensitive+label")
        Partition(over=('sensitive', 'label'), alpha=0.1, blocks=(5,))
        """
        choose(over, ("sensitive", "sensitive+label"), "setting of over")
        return cls(tuple(over.split("+")), alpha, (clients,))

    @classmethod
    def single_group(cls, alpha: float = 0.5, clients: tuple[int, int] = (2, 3)) -> "Partition":
        """The first clients hold the group a = 0 alone, and the others the group a = 1 alone (FairFed, appendix C.3).

        Parameters
        ----------
        alpha : float
            Inside each group the shares of either label value are drawn from Dir(alpha) over its clients.
        clients : tuple of two int
            How many clients hold each group.

        Returns
        -------
        Partition

        Examples
        --------
        >>> Partition.single_group(clients=(2, 2))
        Partition(over=('sensitive', 'label'), alpha=0.5, blocks=(2, 2))
        """
        if not isinstance(clients, tuple) or len(clients) != 2:
            raise FairFLError(f"single_group needs two numbers of clients, for a=0 and a=1, not {clients!r}.")
        return cls(("sensitive", "label"), alpha, clients)

    @classmethod
    def random(cls, clients: int) -> "Partition":
        """Rows are shuffled and cut into equal chunks, whose sizes differ by at most one ("RND" in FAIR-FATE).

        Parameters
        ----------
        clients : int
            How many clients there are.

        Returns
        -------
        Partition

        Examples
        --------
        >>> Partition.random(4)
        Partition(over=(), alpha=None, blocks=(4,))
        """
        return cls((), None, (clients,))

    @classmethod
    def by_column(cls, column: str) -> "Partition":
        """One client for each value of a column, in sorted order.

        Parameters
        ----------
        column : str
            A name in ``table.columns``.

        Returns
        -------
        Partition

        Examples
        --------
        >>> Partition.by_column("client").names(table)
        ['x1 <= -0.5', 'x1 > -0.5']
        """
        return cls((column,))

    def strata(self, table: Table) -> tuple[NDArray[np.intp], list[tuple[Any, ...]]]:
        """The strata of a table, in sorted order.

        Parameters
        ----------
        table : Table
            The rows.

        Returns
        -------
        stratum : ndarray of int, shape (n,)
            The stratum of every row.
        values : list of tuple
            The values of the factors for every stratum.

        Examples
        --------
        >>> partition.strata(table)[1]
        [(np.int8(0),), (np.int8(1),)]
        """
        if not self.over:
            return np.zeros(len(table), np.intp), [()]
        codes, values = zip(*(pd.factorize(self._factor(table, name), sort=True) for name in self.over), strict=True)
        shape = tuple(len(found) for found in values)
        present, stratum = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
        places = zip(*np.unravel_index(present, shape), strict=True)
        return stratum, [tuple(v[i] for v, i in zip(values, place, strict=True)) for place in places]

    def names(self, table: Table) -> list[str]:
        """One name for each client: the value of the column, or the client's number.

        Parameters
        ----------
        table : Table
            The rows.

        Returns
        -------
        list of str

        Examples
        --------
        >>> partition.names(table)
        ['0', '1', '2']
        """
        if not self.blocks:
            return [str(values[0]) for values in self.strata(table)[1]]
        return [str(client) for client in range(sum(self.blocks))]

    def draw(self, table: Table, splits: Mapping[str, Rows], seed: int, minimum: int = 10) -> Draw:
        """The shares of every stratum, redrawn until each client has enough training rows.

        FairFed states no minimum. Redraws go on along the same random stream, so the result depends on `seed` and `minimum`
        alone.

        Parameters
        ----------
        table : Table
            The rows.
        splits : mapping of str to ndarray of int
            Row numbers of each part, as `Table.split` gives them.
        seed : int
            What the draw depends on.
        minimum : int
            How many training rows a client has at least. With 0 nothing is redrawn and a client can be empty.

        Returns
        -------
        proportions : ndarray of shape (n_strata, n_clients)
            Each row adds up to 1.
        redraws : int
            How many draws were refused before it.

        Examples
        --------
        >>> proportions, redraws = partition.draw(table, splits, seed=0)
        >>> proportions.shape, proportions.sum(axis=1).round(6)
        ((2, 3), array([1., 1.]))
        """
        stratum, values = self.strata(table)
        return self._draw(table, stratum[splits["train"]], values, seed, minimum)

    def clients(self, table: Table, splits: Mapping[str, Rows], seed: int, minimum: int = 10) -> dict[str, list[Rows]]:
        """The rows of each client in every part of the data. Every row appears exactly once.

        All parts are cut with the same shares, see `Partition.draw`. Which rows of a stratum go where is drawn on a stream of
        each part's own, so a client's test rows do not change when a validation part is split off, unless the smaller
        training part forces a redraw.

        Parameters
        ----------
        table : Table
            The rows.
        splits : mapping of str to ndarray of int
            Row numbers of each part, as `Table.split` gives them.
        seed : int
            What the draw depends on.
        minimum : int
            How many training rows a client has at least.

        Returns
        -------
        dict of str to list of ndarray of int
            For each part a list over clients of row numbers in ascending order.

        Examples
        --------
        >>> dealt = partition.clients(table, splits, seed=0)
        >>> {part: sum(len(rows) for rows in clients) for part, clients in dealt.items()}
        {'train': 80, 'validation': 0, 'test': 20}
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

"""A dataset in memory: features, label, sensitive attribute, and the raw columns to partition by."""

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.streams import stream

Rows = NDArray[np.int64]
SCALINGS = ("standard", "minmax", "none")


@dataclass(frozen=True, eq=False)
class Table:
    """n rows of one dataset after one choice of options.

    X : float32 [n, d], C-contiguous, its columns scaled over all n rows as `scaling` says (see `scale`). Where
        that is "standard", code that trains on fewer rows may scale again on those.
    y : int8 [n], 1 = favourable label. a : int8 [n], 1 = privileged group of `sensitive`.
    columns : raw values by name, each [n], never scaled; to partition by and to describe the data.
    digest : sha256 over the sha256s of the raw files, the options, and the scaling unless it is "standard".
    stand_in : True when the rows were generated in the place of real ones. note : what differs from the published data, or empty.
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.int8]
    a: NDArray[np.int8]
    features: tuple[str, ...]
    sensitive: str
    columns: Mapping[str, NDArray[Any]]
    digest: str
    stand_in: bool = False
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    scaling: str = "standard"

    def __post_init__(self) -> None:
        sizes = {len(self.X), len(self.a), *(len(column) for column in self.columns.values())}
        if sizes != {len(self.y)} or self.X.shape[1] != len(self.features):
            raise FairFLError(f"Dataset {self.name!r}: X, y, a, columns and features differ in size.")
        if not len(self.y):
            raise FairFLError(f"Dataset {self.name!r} has no rows: see its files and the options.")
        odd = [name for name, column in zip(self.features, self.X.T, strict=True) if not np.isfinite(column).all()]
        if odd:
            raise FairFLError(f"Dataset {self.name!r}: {odd[0]!r} holds what is no number, or too large a one: correct its file.")

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        rows, features = self.X.shape
        kind = ", stand-in" if self.stand_in else ""
        return f"Table({self.name!r}, {rows:,} rows, {features} features, sensitive={self.sensitive!r}{kind})"

    def split(self, seed: int, test: float | str = 0.2, validation: float = 0.0) -> dict[str, Rows]:
        """Row numbers of "train", "validation" and "test": disjoint, together all rows, each ascending.

        floor((1 - test) n) rows are drawn for training; floor(validation * that) of them become the
        validation part. The test rows of a seed do not depend on `validation`.
        test : may also be the name of a column of "train" and "test", as a publisher gives them; then only the validation
        rows are drawn.
        """
        if isinstance(test, str):
            return self._published(seed, test, validation)
        if not (0 <= test < 1 and 0 <= validation < 1):
            raise FairFLError(f"test={test} and validation={validation} must be fractions, 0 <= value < 1.")
        n = len(self)
        # The tolerance keeps 0.1 * 30 = 3.0000000000000004 from costing a training row.
        train = n - ceil(test * n - 1e-9)
        taken = int(validation * train + 1e-9)
        order = stream(seed, "split").permutation(n)
        parts = {"train": order[taken:train], "validation": order[:taken], "test": order[train:]}
        return {name: np.sort(rows) for name, rows in parts.items()}

    def _published(self, seed: int, column: str, validation: float) -> dict[str, Rows]:
        part = self.columns[choose(column, self.columns, f"column of dataset {self.name!r} named")]
        if set(np.unique(part)) != {"train", "test"}:
            raise FairFLError(f'Column {column!r} of dataset {self.name!r} must say "train" or "test" of every row, and both.')
        if not 0 <= validation < 1:
            raise FairFLError(f"validation={validation} must be a fraction, 0 <= value < 1.")
        order = stream(seed, "split").permutation(np.flatnonzero(part == "train"))
        taken = int(validation * len(order) + 1e-9)
        parts = {"train": order[taken:], "validation": order[:taken], "test": np.flatnonzero(part == "test")}
        return {name: np.sort(rows) for name, rows in parts.items()}


def read_csv(path: Path, **options: Any) -> pd.DataFrame:
    """The table in a file, by pandas; FairFLError when there is none in it."""
    try:
        return pd.read_csv(path, **options)
    except (ValueError, OSError, EOFError, zlib.error) as error:  # ill-formed, empty or not text, among the first
        said = " ".join(str(error).split())[:120]
        raise FairFLError(f"The file {path} is not a table that can be read ({said}): replace it.") from error


def encode(frame: pd.DataFrame, categorical: Collection[str], encoding: str) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """(X [n, d], feature names) of the columns of `frame`, in their order, not yet scaled.

    "codes": a categorical column becomes the position of its value among the sorted values.
    "onehot": one 0/1 column per value, named column=value. Other columns are taken as the numbers they are.
    """
    choose(encoding, ("codes", "onehot"), "encoding")
    blocks: list[NDArray[np.float32]] = []
    names: list[str] = []
    for column in frame.columns:
        if column not in categorical:
            blocks.append(frame[column].to_numpy(np.float32)[:, None])
            names.append(column)
            continue
        codes, values = pd.factorize(frame[column], sort=True)
        if encoding == "codes":
            blocks.append(codes.astype(np.float32)[:, None])
            names.append(column)
        else:
            blocks.append((codes[:, None] == np.arange(len(values))).astype(np.float32))
            names += [f"{column}={value}" for value in values]
    return np.concatenate(blocks, axis=1), tuple(names)


def scale(X: NDArray[np.float32], scaling: str) -> NDArray[np.float32]:
    """X with every column scaled over all rows, in place.

    "standard": (x - mean) / standard deviation (ddof 0). "minmax": (x - min) / (max - min), within 0..1.
    "none": as it is. A constant column is all 0 after "standard" and "minmax".
    Column by column, so that a million rows need no second copy in double precision.
    """
    if choose(scaling, SCALINGS, "scaling") != "none":
        for column in X.T:
            exact = column.astype(np.float64)
            low, spread = (exact.mean(), exact.std()) if scaling == "standard" else (exact.min(), np.ptp(exact))
            column[:] = (exact - low) / (spread if spread > 0 else 1)
    return np.ascontiguousarray(X)


def raw(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """The named columns as numpy arrays; text as fixed-width unicode, which numpy sorts and compares fast."""
    columns = {name: frame[name] for name in names}
    numeric = pd.api.types.is_numeric_dtype
    return {name: c.to_numpy() if numeric(c) else c.to_numpy(str) for name, c in columns.items()}

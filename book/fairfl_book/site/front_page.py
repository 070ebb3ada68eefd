"""The movable front: all settings of all methods of the arena, in a figure whose federation and metrics a reader chooses.

The numbers stand in the page as JSON, which book/_static/front.js draws. Without a script there are a still picture and a table.
"""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book import figures, results
from fairfl_lite import metrics, store
from fairfl_lite.errors import FairFLError
from papers.arena import compare
from papers.arena.compare import WORDS, undominated
from papers.arena.protocol import CONTESTANTS, LARGER, LEVEL, Setting, chosen

STATIC = Path(__file__).parents[2] / "_static"
DATASETS = {"adult": "Adult", "compas": "COMPAS", "made": "made, with a known truth", "crowds": "Adult, crowds of clients"}
"""The results of the arena, in the order in which they are offered, and how they are called."""
FEDERATIONS = {
    "dirichlet-0.1": "5 clients whose rows differ very much (Dirichlet, α = 0.1)",
    "dirichlet-0.5": "5 clients whose rows differ much (Dirichlet, α = 0.5)",
    "dirichlet-5": "5 clients whose rows differ little (Dirichlet, α = 5)",
    "one-group": "5 clients with people of one group each",
    "some-biased": "5 clients, 2 of them biased against group 0",
    "opposite-bias": "5 clients, 2 biased against group 0 and 2 against group 1",
    "unequal-sizes": "5 clients, the largest 100 times the smallest",
    "by-client": "3 clients, whose best attainable accuracy is known",
    "5-clients": "5 clients, all in every round",
    "50-clients": "50 clients, all in every round",
    "500-clients": "500 clients, all in every round",
    "10-of-50": "50 clients, 10 of them in a round",
    "50-of-500": "500 clients, 50 of them in a round",
    "own": "your table",
}
UNIT = 1e-4
"""Means and halves of intervals are stored as whole numbers of it."""
FIRST = ("eod", "acc")
"""The metrics across and up that a page opens with."""


def write(project: Path) -> None:
    """The body of the page into executed/, from the results that are there."""
    frames = [compare.load(name).assign(dataset=name) for name in DATASETS if results.exists(f"arena/{name}")]
    store.renew(project / "executed" / "front.html", body(known(pd.concat(frames, ignore_index=True)), "every_method.html"))


def known(frame: pd.DataFrame, contestants: Mapping[str, Sequence[Setting]] = CONTESTANTS) -> dict[str, Any]:
    """What the page knows, ready for JSON: metrics, methods with their settings, and the numbers of each federation.

    The numbers of a federation are two lists for each metric, the means over seeds and the halves of their intervals, of all
    settings in the order of `methods`. Of gaps the size is averaged. None stands where a run of the setting diverged, where the
    metric is defined for no seed, or where the method was not run. "chosen" has by rule the places of its settings.

    frame : tidy, with columns dataset, federation, method, level, rate, part, seed, metric and value.
    """
    present = set(frame["method"])
    methods = {name: settings for name, settings in contestants.items() if name in present}
    places = pd.MultiIndex.from_tuples([(name, one.level, one.rate) for name, own in methods.items() for one in own])
    test = frame[(frame["part"] == "test") & frame["metric"].isin(WORDS)]
    test = test.assign(value=test["value"].abs(), level=test["level"].round(4), rate=test["rate"].round(4))
    rounded = places.set_levels([places.levels[1].round(4), places.levels[2].round(4)], level=[1, 2])
    federations = []
    for (dataset, federation), own in test.groupby(["dataset", "federation"]):
        by_seed = own.pivot(index=["metric", "method", "level", "rate"], columns="seed", values="value")
        values = {str(metric): by_seed.loc[metric].reindex(rounded).to_numpy() for metric in own["metric"].unique()}
        diverged = np.isnan(values["acc"]).any(axis=1)
        rows = frame[(frame["dataset"] == dataset) & (frame["federation"] == federation)]
        federations.append({
            "dataset": dataset, "name": federation, "seeds": int(own["seed"].nunique()),
            "values": {metric: _summary(value, ~diverged) for metric, value in values.items()},
            "chosen": {rule: _chosen(rows, rule, rounded) for rule in ("accurate", "fair")},
        })  # fmt: skip
    order = {(dataset, name): (i, j) for i, dataset in enumerate(DATASETS) for j, name in enumerate(FEDERATIONS)}
    federations.sort(key=lambda one: order[one["dataset"], one["name"]] if one["dataset"] in DATASETS else (0, 0))
    given = {metric for one in federations for metric in one["values"]}
    return {
        "metrics": {name: {"label": label, "larger": name in LARGER} for name, label in WORDS.items() if name in given},
        "datasets": {one["dataset"]: DATASETS.get(one["dataset"], one["dataset"]) for one in federations},
        "labels": {one["name"]: FEDERATIONS.get(one["name"], one["name"]) for one in federations},
        "methods": [_method(name, settings) for name, settings in methods.items()],
        "federations": federations,
        "level": LEVEL,
    }


def _summary(values: np.ndarray, usable: np.ndarray) -> list[list[int | None]]:
    """Means over seeds and halves of their intervals, of [setting, seed]."""
    whole = usable & (np.isfinite(values).sum(axis=1) > 1)
    found = [metrics.interval(row, LEVEL) if good else None for row, good in zip(values, whole, strict=True)]
    return [
        [None if one is None else round(one[0] / UNIT) for one in found],
        [None if one is None else round((one[2] - one[0]) / UNIT) for one in found],
    ]


def _chosen(rows: pd.DataFrame, rule: str, places: pd.MultiIndex) -> list[int]:
    usable = rows[(rows["part"] == "validation") & (rows["metric"] == "acc")].groupby("method")
    whole = [name for name, own in usable if own.groupby(["level", "rate"])["value"].agg(lambda v: v.notna().all()).any()]
    picked = chosen(rows[rows["method"].isin(whole)], rule)
    return sorted(places.get_loc((one.method, round(one.level, 4), round(one.rate, 4))) for one in picked.itertuples())


def _method(name: str, settings: Sequence[Setting]) -> dict[str, Any]:
    return {
        "name": name,
        "label": figures.label(name),
        "colour": figures.colour(name),
        "marker": figures.marker(name),
        "entry": f"method-{type(settings[0].method).__name__.lower()}",
        "settings": [_setting(one, settings) for one in settings],
    }


def _setting(one: Setting, settings: Sequence[Setting]) -> str:
    """What tells a setting from the others of its method: "beta = 1, rate 0.3"."""
    own = []
    for field in fields(one.method):  # type: ignore[arg-type]
        values = [getattr(other.method, field.name) for other in settings]
        if values == [other.level for other in settings] and len(set(values)) > 1:
            own.append(field.name)
    said = f"{' = '.join(own)} = {one.level:.3g}, " if own else ""
    return f"{said}rate {one.rate:g}"


def body(data: Mapping[str, Any], methods: str) -> str:
    """The page's body as HTML: the picture and the table, which the script replaces.

    methods : the address of the page of all methods, or nothing where there is none.
    """
    words = json.dumps({**data, "page": methods}, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<link rel="stylesheet" href="../_static/front.css">
<div id="front"><div class="front-still">{_picture(data)}{_table(data, methods)}</div></div>
<script type="application/json" id="front-data">{words}</script>
<script src="../_static/front.js" defer></script>
"""


def alone(data: Mapping[str, Any], title: str, methods: str) -> str:
    """The same as a whole page in one file, for a reader's own table."""
    style, script = (STATIC.joinpath(name).read_text(encoding="utf-8") for name in ("front.css", "front.js"))
    inside = body(data, methods).split("\n", 1)[1].rsplit("<script src", 1)[0]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><link rel="icon" href="data:,"><style>
:root {{ color-scheme: light dark; }}
body {{ font-family: system-ui, sans-serif; line-height: 1.5; margin: 0 auto; max-width: 70rem; padding: 1rem; }}
{style}</style></head>
<body><main><article><h1>{html.escape(title)}</h1>
<p>Each point is one setting of one method: its mean over seeds on test rows, with an interval at {LEVEL:.0%}. A line joins the
settings to which no other is better in one of the two metrics and at least as good in the other. The front of many settings looks
better than it is, because each was drawn with noise: what you would have chosen beforehand is under “settings”.</p>
{inside}<script>{script}</script></article></main></body></html>
"""


def own_page(frame: pd.DataFrame, name: str, contestants: Mapping[str, Sequence[Setting]], file: Path) -> None:
    """The page of a reader's table into a file; it leads to the page of all methods of the built book where there is one."""
    try:
        entries = store.root() / "_build" / "html" / "book" / "every_method.html"
        methods = entries.resolve().as_uri() if entries.is_file() else ""
    except FairFLError:  # not in a project
        methods = ""
    title = f"All methods on {name}"
    store.write(file, alone(known(frame.assign(dataset=name), contestants), title, methods))


def points(
    data: Mapping[str, Any], federation: Mapping[str, Any], across: str, up: str
) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Of each setting that has both metrics its place, method and words."""
    both = [federation["values"].get(metric, [[]])[0] for metric in (across, up)]
    settings = [(method, words) for method in data["methods"] for words in method["settings"]]
    for place, values in enumerate(zip(*both, strict=False)):
        if None not in values:
            yield place, *settings[place]


def _first(federation: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[list[Any], list[list[float]], list[int]]:
    """The points of the first two metrics, their means, and which of them are not dominated."""
    found = list(points(data, federation, *FIRST))
    values = [[federation["values"][metric][0][place] * UNIT for place, *_ in found] for metric in FIRST]
    front = np.flatnonzero(undominated(acc=np.array(values[1]), gap=np.array(values[0])))
    return found, values, sorted(front.tolist(), key=lambda i: (values[0][i], values[1][i]))


def _picture(data: Mapping[str, Any]) -> str:
    """The first federation, standing still."""
    import matplotlib.pyplot as plt

    federation = data["federations"][0]
    found, (x, y), front = _first(federation, data)
    fig, ax = plt.subplots()
    for method in data["methods"]:
        own = [i for i, (_, of, _) in enumerate(found) if of is method]
        ax.plot(
            [x[i] for i in own], [y[i] for i in own], method["marker"], color=method["colour"], label=method["label"], alpha=0.8
        )
    ax.plot([x[i] for i in front], [y[i] for i in front], drawstyle="steps-post", color="#555555", linewidth=1, zorder=0)
    chosen_places = {place for own in federation["chosen"].values() for place in own}
    near = [i for i, (place, *_) in enumerate(found) if place in chosen_places]
    limits = [_room([values[i] for i in near]) for values in (x, y)]
    ax.set(xlabel=WORDS[FIRST[0]], ylabel=WORDS[FIRST[1]], xlim=limits[0], ylim=limits[1])
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7)
    out = io.BytesIO()
    fig.savefig(out, format="png", dpi=120, metadata={"Software": None})
    plt.close(fig)
    where = f"{data['datasets'][federation['dataset']]}, {data['labels'][federation['name']]}"
    alt = f"{where}: every setting of every method by {WORDS[FIRST[0]]} and {WORDS[FIRST[1]]}."
    return (
        f'<figure><img alt="{html.escape(alt)}" src="data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}">'
        f"<figcaption>{html.escape(where)}. "
        "With JavaScript this figure can be moved to other federations and metrics.</figcaption></figure>"
    )


def _room(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0), max(values, default=1)
    return low - 0.12 * (high - low), high + 0.12 * (high - low)


def _table(data: Mapping[str, Any], methods: str) -> str:
    """The settings of every federation that no other beats in both of the first two metrics."""
    head = "".join(f'<th scope="col">{html.escape(WORDS[metric])}</th>' for metric in FIRST)
    rows = ""
    for federation in data["federations"]:
        found, _, front = _first(federation, data)
        where = f"{data['datasets'][federation['dataset']]}: {data['labels'][federation['name']]}, {federation['seeds']} seeds"
        rows += f'<tr><th scope="rowgroup" colspan="{2 + len(FIRST)}">{html.escape(where)}</th></tr>'
        for place, method, words in (found[i] for i in front):
            label = html.escape(method["label"])
            link = f'<a href="{methods}#{method["entry"]}">{label}</a>' if methods else label
            cells = ""
            for metric in FIRST:
                mean, half = (federation["values"][metric][which][place] * UNIT for which in (0, 1))
                cells += f"<td>{mean:.4f} ± {half:.4f}</td>"
            rows += f'<tr><th scope="row">{link}</th><td>{html.escape(words)}</td>{cells}</tr>'
    return (
        '<div class="front-scroll"><table><caption>Settings to which no other is better in one of the two metrics and at least '
        f'as good in the other</caption><thead><tr><th scope="col">method</th><th scope="col">setting</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )

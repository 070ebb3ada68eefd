"""The movable front: its numbers are those of the stored results, and in a browser a choice changes what is drawn."""

from __future__ import annotations

import json
import re

import chromium
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from small import ROOT

from fairfl_book import methodcards, results
from fairfl_book.site import front_page
from papers.arena import compare, runs
from papers.arena.protocol import CONTESTANTS, MARGINS

pytestmark = pytest.mark.slow

METHODS = ("fedavg", "fairfed", "q-ffl")
BYTES = 400_000
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Enter": 13, "Home": 36}


def results_here() -> list[str]:
    return [name for name in front_page.DATASETS if results.exists(f"arena/{name}")]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Two datasets with two federations, three methods with their settings, and four seeds; one run diverged."""
    rng, rows = np.random.default_rng(0), []
    for dataset, federations in (("adult", ("one-group", "some-biased")), ("compas", ("one-group", "unequal-sizes"))):
        for federation in federations:
            for method in METHODS:
                for one in CONTESTANTS[method]:
                    for seed in range(4):
                        for metric in ("acc", "eod", "min_acc"):
                            value = rng.uniform(0.6, 0.8) if "acc" in metric else rng.uniform(-0.2, 0.2)
                            for part in ("validation", "test"):
                                rows.append((dataset, federation, method, one.level, one.rate, part, seed, metric, value))
    names = ["dataset", "federation", "method", "level", "rate", "part", "seed", "metric", "value"]
    made = pd.DataFrame(rows, columns=names)
    bad = (made.method == "q-ffl") & (made.level == 5) & (made.rate == 0.3) & (made.seed == 2)
    made.loc[bad, "value"] = np.nan
    return made


def expected(frame: pd.DataFrame, dataset: str, federation: str, x: str, y: str) -> list[tuple[float, ...]]:
    """Means and half intervals of every setting by two metrics, as pandas and scipy have them."""
    own = frame[(frame.dataset == dataset) & (frame.federation == federation) & (frame.part == "test")]
    found = []
    for _, rows in own.groupby(["method", "level", "rate"]):
        numbers: list[float] = []
        for metric in (x, y):
            values = rows[rows.metric == metric]["value"].abs()
            half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
            numbers += [float(values.mean(skipna=False)), float(half)]
        if not np.isnan(numbers).any():
            found.append(tuple(numbers))
    return found


def same(drawn: list[list[float]], wanted: list[tuple[float, ...]]) -> bool:
    """Whether the drawn numbers are the wanted ones to the digits that a page has."""
    apart = np.abs(np.array(drawn)[:, None] - np.array(wanted)[None]).max(-1)
    return len(drawn) == len(wanted) and max(apart.min(0).max(), apart.min(1).max()) < 0.6 * front_page.UNIT


def test_every_setting_has_its_mean_and_its_interval(frame):
    data = front_page.known(frame)
    assert [one["name"] for one in data["methods"]] == list(METHODS)
    assert [(one["dataset"], one["name"]) for one in data["federations"]] == [
        ("adult", "one-group"), ("adult", "some-biased"), ("compas", "one-group"), ("compas", "unequal-sizes"),
    ]  # fmt: skip
    for one in data["federations"]:
        for y in ("acc", "min_acc"):
            columns = [*one["values"]["eod"], *one["values"][y]]
            rows = [row for row in zip(*columns, strict=True) if None not in row]
            drawn = [[number * front_page.UNIT for number in row] for row in rows]
            assert same(drawn, expected(frame, one["dataset"], one["name"], "eod", y)) and len(drawn) == 3 * 9 - 1


def test_settings_are_told_apart_by_words_and_lead_to_an_entry(frame):
    for method in front_page.known(frame)["methods"]:
        assert len(set(method["settings"])) == 9
        assert f"({method['entry']})=" in methodcards.PAGE.read_text()
    for name, settings in CONTESTANTS.items():
        assert len({front_page._setting(one, settings) for one in settings}) == 9, name
        levels = {one.level for one in settings}
        assert len(levels) == 1 or all(" = " in front_page._setting(one, settings) for one in settings), name


def test_every_metric_and_federation_of_the_arena_has_words():
    assert set(compare.WORDS) == set(MARGINS)
    assert set(front_page.FEDERATIONS) == {*runs.FEDERATIONS, *runs.MADE, *runs.CROWDS, "own"}
    assert {f"arena/{name}" for name in front_page.DATASETS} == {one.name for one in runs.EXPERIMENTS}


def test_the_numbers_of_the_book_are_small():
    frames = [compare.load(name).assign(dataset=name) for name in results_here()]
    assert frames
    data = front_page.known(pd.concat(frames, ignore_index=True))
    assert len(json.dumps(data, separators=(",", ":"))) < BYTES


# In a browser

POINTS = """[...document.querySelectorAll("#front .point")].map((one) =>
  [...one.getAttribute("aria-label").matchAll(/([\\d.]+) ± ([\\d.]+)/g)].flatMap((found) => found.slice(1).map(Number)))"""
SAID = "document.querySelector('.front-status').innerText"
CHOOSE = (
    """(() => { const one = document.getElementById("front-%s"); one.value = "%s"; one.dispatchEvent(new Event("change")); })()"""
)


def choose(browser: chromium.Browser, **choices: str) -> None:
    for name, value in choices.items():
        browser.run(CHOOSE % (name, value))


def press(browser: chromium.Browser, key: str) -> None:
    for kind in ("rawKeyDown", "char", "keyUp") if key == "Enter" else ("rawKeyDown", "keyUp"):
        text = {"text": "\r"} if kind == "char" else {}
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], **text)


@pytest.fixture(params=[390, 1440])
def page(request, browser, frame, tmp_path) -> str:
    """A page of its own with the invented numbers, opened as a file on a phone and on a wide screen."""
    data = front_page.known(frame)
    file = tmp_path / "front.html"
    file.write_text(front_page.alone(data, "All methods", "methods.html"))
    (tmp_path / "methods.html").write_text("<!doctype html><title>Methods</title><link rel='icon' href='data:,'>")
    browser.size(request.param)
    browser.open(file.resolve().as_uri())
    return file.resolve().as_uri()


def test_a_choice_changes_the_points_to_the_stored_means(browser, page, frame):
    choose(browser, zoom="all")
    assert same(browser.run(POINTS), expected(frame, "adult", "one-group", "eod", "acc"))
    assert browser.run(SAID).endswith("undefined: 1."), "the setting that diverged"
    choose(browser, federation="some-biased")
    assert same(browser.run(POINTS), expected(frame, "adult", "some-biased", "eod", "acc"))
    choose(browser, dataset="compas")
    assert same(browser.run(POINTS), expected(frame, "compas", "one-group", "eod", "acc")), "the first federation of that dataset"
    choose(browser, federation="unequal-sizes", x="acc", y="min_acc")
    assert same(browser.run(POINTS), expected(frame, "compas", "unequal-sizes", "acc", "min_acc"))
    choose(browser, settings="fair")
    assert len(browser.run(POINTS)) == len(METHODS)
    assert browser.run(SAID).startswith(f"Settings that are drawn: {len(METHODS)}. Seeds: 4") and browser.complaints(page) == []
    address = browser.run("location.href")
    browser.open(address)
    assert len(browser.run(POINTS)) == len(METHODS), "the address keeps the choice"
    assert browser.run("document.getElementById('front-y').value") == "min_acc"


def test_the_joined_points_are_those_that_no_other_beats(browser, page, frame):
    for across, up, senses in (("eod", "acc", (-1, 1)), ("acc", "min_acc", (1, 1))):
        choose(browser, zoom="all", x=across, y=up)
        points = browser.run(POINTS)
        good = np.array([[x, y] for x, _, y, _ in points]) * senses
        beaten = [(((other >= one).all(1)) & (other > one).any(1)).any() for one, other in ((one, good) for one in good)]
        joined = browser.run("[...document.querySelectorAll('#front .point')].map((one) => one.classList.contains('on-front'))")
        assert joined == [not one for one in beaten] and 0 < sum(joined) < len(joined)
        path = browser.run("document.querySelector('#front .joined').getAttribute('d')")
        assert len(re.findall("[ML]", path)) == 2 * sum(joined) - 1


def test_methods_are_put_aside_and_brought_back(browser, page):
    choose(browser, zoom="all")
    press_button = "[...document.querySelectorAll('.front-legend button')].find((one) => one.innerText.trim() === '%s').click()"
    browser.run(press_button % "FedAvg")
    assert len(browser.run(POINTS)) == 2 * 9 - 1
    browser.run(press_button % "none")
    assert browser.run(POINTS) == []
    browser.run(press_button % "all")
    assert len(browser.run(POINTS)) == 3 * 9 - 1 and browser.complaints(page) == []


def test_the_keyboard_goes_from_point_to_point_and_to_the_method(browser, page):
    choose(browser, zoom="all")
    inside = "document.querySelectorAll('#front .point[tabindex=\"0\"]').length"
    assert browser.run(inside) == 1, "one stop of Tab for all points"
    browser.run("document.querySelector('#front .point[tabindex=\"0\"]').focus()")
    points = browser.run(POINTS)
    shown = "[...document.querySelectorAll('.front-card .front-drawn dd')].map((one) => Number(one.innerText.split(' ')[0]))"
    press(browser, "Home")
    assert sorted(browser.run(shown)) == sorted([min(points)[0], min(points)[2]])
    seen = []
    for _ in points:
        seen.append(browser.run("document.activeElement.getAttribute('aria-label')"))
        press(browser, "ArrowRight")
    assert len(set(seen)) == len(points), "every point is reached"
    press(browser, "ArrowLeft")
    assert browser.run("document.activeElement.getAttribute('aria-label')") == seen[-2]
    assert browser.run(inside) == 1 and browser.complaints(page) == []
    wanted = browser.run("document.activeElement.href.baseVal")
    press(browser, "Enter")
    chromium.until(lambda: browser.run("document.title") == "Methods", browser._process)
    assert browser.run("location.href").endswith(wanted)


def test_a_pointer_shows_what_a_point_is_and_a_tap_keeps_it(browser, page):
    choose(browser, zoom="all")
    browser.run("document.querySelector('.front-plot').scrollIntoView()")
    place = """(() => { const one = document.querySelector("#front .point .front-mark").getBoundingClientRect();
      return [one.x + one.width / 2, one.y + one.height / 2]; })()"""
    x, y = browser.run(place)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    card = "document.querySelector('.front-card').innerText"
    label = browser.run("document.querySelector('#front .point.current').getAttribute('aria-label')")
    assert label.split(",")[0] in browser.run(card) and "What" in browser.run(card)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert "Point at a setting" in browser.run(card)
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert label.split(",")[0] in browser.run(card) and browser.run("location.href").startswith(page), (
        "it stays, and leads nowhere"
    )
    assert browser.run("document.querySelector('.front-card a').getAttribute('href')").startswith("methods.html#method-")


def test_a_page_without_a_script_has_a_picture_and_a_table(frame, tmp_path):
    data = front_page.known(frame)
    text = re.sub(r"<script.*?</script>", "", front_page.body(data, "every_method.html"), flags=re.S)
    assert re.search(r'<img alt="Adult, .*every setting', text) and "data:image/png;base64," in text
    numbers = [[float(x), float(y)] for x, y in re.findall(r"<td>([\d.]+) ± [\d.]+</td><td>([\d.]+) ± [\d.]+</td>", text)]
    wanted: list[tuple[float, ...]] = []
    for dataset, federation in (
        ("adult", "one-group"),
        ("adult", "some-biased"),
        ("compas", "one-group"),
        ("compas", "unequal-sizes"),
    ):
        points = [(x, y) for x, _, y, _ in expected(frame, dataset, federation, "eod", "acc")]
        wanted += [one for one in points if not any(x <= one[0] and y >= one[1] and (x, y) != one for x, y in points)]
    assert same(numbers, wanted)


def test_the_books_page_draws_what_is_stored(browser, site):
    browser.size(1440)
    base = site.resolve().as_uri()
    stored = {name: compare.load(name).assign(dataset=name) for name in results_here()}
    frame = stored[results_here()[-1]]
    federation = sorted(frame.federation.unique())[-1]
    browser.open(f"{base}/book/front.html?dataset={results_here()[-1]}&federation={federation}&x=most_eod&y=min_acc&zoom=all")
    assert same(browser.run(POINTS), expected(frame, results_here()[-1], federation, "most_eod", "min_acc"))
    assert browser.complaints(base) == []
    entries = set(browser.run("[...document.querySelectorAll('#front .point')].map((one) => one.href.baseVal)"))
    page = (site / "book" / "every_method.html").read_text()
    assert entries and all(f'id="{entry.partition("#")[2]}"' in page for entry in entries)


def test_the_style_and_the_script_ask_for_nothing(frame):
    for name in ("front.js", "front.css"):
        assert not re.search(
            r"fetch\(|XMLHttpRequest|import |https?://(?!www\.w3\.org)", (ROOT / "book" / "_static" / name).read_text()
        )
    whole = front_page.alone(front_page.known(frame), "<b>", "")
    assert "<b></h1>" not in whole and 'src="../' not in whole and 'href="../' not in whole

"""README's picture: what a wide screen shows of the front page. `make picture` makes it anew from the built book.

Letters look different on every machine, so the picture is not compared with another one letter by letter. It carries the words
of the page that it was taken of, and where it shows the page's first figure: both are compared with the page as it is built.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import chromium
import numpy as np
from PIL import Image, PngImagePlugin
from small import ROOT

WIDTH, HEIGHT = 1440, 1300
FILE = ROOT / "book" / "_static" / "page.png"
PAGE = "executed/intro.html"
SIDE, LEVELS = 10, 25
"""Squares of so many pixels are compared, by their mean grey of 0 to 255: that of antialiased letters hardly moves."""
TOLERANCE = 1 / 500
"""So many of the figure's squares may differ by more than LEVELS: six of them, less than a digit."""
_SHOWN = """(() => {
  const words = (query) => [...document.querySelectorAll(query)].map((one) => one.textContent.trim().replace(/\\s+/g, " "));
  const figure = document.querySelector("article img");
  const box = figure.getBoundingClientRect();
  return {
    words: [...words("nav.bd-links .caption, nav.bd-links a"), ...words("article section > :is(h1, h2, p), article figcaption")],
    file: figure.currentSrc, box: [box.x, box.y, box.width, box.height].map(Math.round),
  };
})()"""


def taken(browser: chromium.Browser, site: Path) -> tuple[Image.Image, dict[str, Any]]:
    """The top of the front page in the light theme, in 256 colours; and the page's words, its first figure and that one's box."""
    browser.size(WIDTH, HEIGHT)
    browser.open((site / PAGE).resolve().as_uri())
    browser.run("checks.theme('light')")
    browser.run(f"checks.settled({WIDTH})")
    shown = Image.open(io.BytesIO(browser.top(WIDTH, HEIGHT))).convert("RGB")
    return shown.quantize(256, dither=Image.Dither.NONE), browser.run(_SHOWN)


def said(picture: Image.Image) -> dict[str, Any]:
    """What a picture says of the page that it was taken of; nothing where it was not made here."""
    return dict(json.loads(getattr(picture, "text", {}).get("page", "{}")))


def apart(picture: Image.Image, box: list[int], figure: Image.Image) -> float:
    """The share of squares by which the box of a picture differs from a figure; 1 where the box is not in the picture."""
    x, y, width, height = box
    if x < 0 or y < 0 or x + width > picture.width or y + height > picture.height:
        return 1.0
    ours = _squares(picture.convert("RGB").crop((x, y, x + width, y + height)))
    ground = Image.new("RGBA", figure.size, "white")
    ground.alpha_composite(figure.convert("RGBA"))
    return float((np.abs(ours - _squares(ground.convert("RGB").resize((width, height)))) > LEVELS).mean())


def _squares(picture: Image.Image) -> np.ndarray:
    grey = np.asarray(picture.convert("L"), dtype=float)
    rows, columns = (length // SIDE for length in grey.shape)
    return grey[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE).mean(axis=(1, 3))


def main() -> None:
    program = chromium.found()
    if program is None:
        raise SystemExit(chromium.MISSING)
    with chromium.Browser(program) as browser:
        picture, page = taken(browser, ROOT / "_build" / "html")
    about = PngImagePlugin.PngInfo()
    about.add_text("page", json.dumps({"words": page["words"], "box": page["box"]}), zip=True)
    picture.save(FILE, optimize=True, pnginfo=about)
    print(f"{FILE.relative_to(ROOT)} shows the front page as it is built now.")


if __name__ == "__main__":
    main()

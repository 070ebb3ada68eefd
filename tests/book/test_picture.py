"""README's picture is that of the front page as it is built."""

from urllib.parse import unquote, urlparse

import picture
import pytest
from PIL import Image, ImageDraw

pytestmark = pytest.mark.slow

RENEW = "README's picture is not that of the front page: renew it by `make picture`, and look at it."


@pytest.fixture(scope="module")
def page(browser, site):
    return picture.taken(browser, site)[1]


@pytest.fixture(scope="module")
def figure(page):
    with Image.open(unquote(urlparse(page["file"]).path)) as image:
        return image.convert("RGBA")


def test_readme_shows_the_front_page_as_it_is(page, figure):
    shown = Image.open(picture.FILE)
    assert shown.size == (picture.WIDTH, picture.HEIGHT)
    assert picture.said(shown).get("words") == page["words"], RENEW
    share = picture.apart(shown, picture.said(shown)["box"], figure)
    assert share <= picture.TOLERANCE, f"{RENEW} {share:.2%} of the figure differs, and {picture.TOLERANCE:.2%} may."


def test_the_page_has_the_words_that_a_reader_sees_first(page):
    assert {"Fair federated learning, re-executed", "What we found"} <= {words.strip("#") for words in page["words"]}
    assert all(any(part in words for words in page["words"]) for part in ("Start here", "Five notions", "Five papers"))


def test_a_point_that_moved_is_seen_and_a_shade_is_not(page, figure):
    shown = Image.open(picture.FILE).convert("RGB")
    box = picture.said(Image.open(picture.FILE))["box"]
    moved = figure.copy()
    ImageDraw.Draw(moved).rectangle((500, 300, 700, 340), fill="black")
    assert picture.apart(shown, box, moved) > picture.TOLERANCE
    darker = Image.blend(shown, Image.new("RGB", shown.size, "black"), 0.01)
    assert picture.apart(darker, box, figure) <= picture.TOLERANCE
    assert picture.apart(shown.crop((0, 0, 1440, 600)), box, figure) == 1


def test_a_picture_from_elsewhere_says_nothing_of_the_page():
    assert picture.said(Image.new("RGB", (picture.WIDTH, picture.HEIGHT))) == {}

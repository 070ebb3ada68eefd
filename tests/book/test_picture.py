"""README's picture is that of the front page as it is built."""

import picture
from PIL import Image, ImageChops

RENEW = "README's picture is not that of the front page: renew it by `make picture`, and look at it."


def test_readme_shows_the_front_page_as_it_is(browser, site):
    share = picture.apart(picture.taken(browser, site), Image.open(picture.FILE))
    assert share <= picture.TOLERANCE, f"{RENEW} {share:.2%} of its squares differ, and {picture.TOLERANCE:.2%} may."


def test_another_word_is_seen_and_the_same_page_is_not(browser, site):
    first = picture.taken(browser, site)
    assert picture.apart(first, picture.taken(browser, site)) <= picture.TOLERANCE / 2
    other = "const p = document.querySelector('article p'); p.innerHTML = p.innerHTML.replace('Five papers', 'Three old papers')"
    assert picture.apart(first, picture.taken(browser, site, other)) > picture.TOLERANCE


def test_a_shade_is_not_seen_and_another_size_is():
    page = Image.open(picture.FILE).convert("RGB")
    assert picture.apart(page, ImageChops.subtract(page, Image.new("RGB", page.size, (3, 3, 3)))) == 0
    assert picture.apart(page, page.crop((0, 0, 1440, 1000))) == 1

"""Numbers in sentences are held by something that is compared with a run, and words that name another page are links.

What is open now is counted for each page in OPEN. A page may only get better: mend a sentence, then lower its count. A page that
is not listed has nothing open. CONTRIBUTING.md, "Numbers in prose", says what holds a number.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pandas as pd
import prose
import pytest
from small import ROOT, code, notebook

from fairfl_book.notebooks import minutes, outputs

pytestmark = pytest.mark.slow

OPEN = {
    "book/how_to_read": (4, 0),
    "book/ledger": (2, 0),
    "book/teaching": (0, 1),
}
"""Page: numbers that nothing holds, names of pages without a link."""


def papers_of_the_opening() -> int:
    """The rows of the table on the front page, a paper each."""
    cells = nbformat.read(ROOT / "notebooks" / "intro.ipynb", 4).cells
    return len(re.findall(r"^\| .*\{cite\}", "\n".join(cell.source for cell in cells), re.M))


STATED = {
    "intro": {"Five papers": papers_of_the_opening},
    "book/how_to_read": {
        "0.2 % of the largest value of a curve": lambda: 100 * outputs.SERIES,
        "180 words a minute": lambda: minutes.WORDS,
        "12 lines of code a minute": lambda: minutes.LINES,
        "half a minute for a figure": lambda: minutes.PICTURE,
        "five minutes for an exercise": lambda: minutes.EXERCISE,
    },
}
"""Numbers on pages without cells: the phrase, and what works its number out."""


def paths() -> dict[str, Path]:
    notebooks = ROOT / "notebooks"
    found = {path.relative_to(notebooks).with_suffix("").as_posix(): path for path in sorted(notebooks.rglob("*.ipynb"))}
    return found | {f"book/{path.stem}": path for path in sorted((ROOT / "book").glob("*.md"))}


@cache
def read(name: str) -> list[prose.Section]:
    return prose.read(paths()[name])


def stated(name: str) -> dict[str, float]:
    return {phrase: value() for phrase, value in STATED.get(name, {}).items()}


@pytest.mark.parametrize("name", paths())
def test_no_more_is_open_than_was(name):
    numbers, links = prose.unheld(read(name), name, stated(name)), prose.unlinked(read(name))
    report = "\n".join(f"  {one}" for one in [*numbers, *links])
    assert (len(numbers), len(links)) == OPEN.get(name, (0, 0)), (
        f"{name}: hold new numbers, link new names of pages; lower the count in OPEN where there are fewer. Open are\n{report}"
    )


def test_what_is_listed_is_there():
    assert OPEN.keys() <= paths().keys()
    assert all(sum(counts) for counts in OPEN.values())
    for name, phrases in STATED.items():
        shown = [sentence.text for section in read(name) for sentence in section.sentences]
        assert all(any(phrase in text for text in shown) for phrase in phrases), name


def changed(number: prose.Number) -> str:
    """A number with one more in its last digit, a number word with the next one in its place."""
    text, word = number.text, number.text.lower()
    if digits := re.search(r"[\d,]*\.?\d+(?=\D*\Z)", text):
        plain = digits.group().replace(",", "")
        decimals = len(plain.partition(".")[2])
        more = f"{(float(plain) * 10**decimals + 1) / 10**decimals:{',' if ',' in digits.group() else ''}.{decimals}f}"
        return text[: digits.start()] + more + text[digits.end() :]
    if word in prose.WORDS:
        return next((other for other, value in prose.WORDS.items() if value == prose.WORDS[word] + 1), str(prose.WORDS[word] + 1))
    if word in prose.TIMES:
        return "thrice" if word == "twice" else "twice"
    parts = list(prose.PARTS)
    last = re.split(r"[ -]", word)[-1]
    following = parts[(parts.index(last if last in parts else last.removesuffix("s")) + 1) % len(parts)]
    return f"a {following} of" if word == "half" else text[: -len(last)] + following + ("s" if last.endswith("s") else "")


def mutants(name: str):
    """For every number that a page holds: its sentence, the same with this number changed, and whether that is noticed."""
    page = read(name)
    for section in page:
        for sentence in section.sentences:
            before = prose.open_numbers(sentence, section, page, name, stated(name))
            for number in prose.numbers(sentence) if sentence.states else []:
                if number in before or prose.is_language(sentence, number):
                    continue
                end = number.start + len(number.text)
                other = prose.Sentence(
                    *(
                        text[: number.start] + changed(number) + text[end:]
                        for text in (sentence.text, sentence.prose, sentence.unlinked)
                    ),
                    sentence.cites,
                )
                after = prose.open_numbers(other, section, page, name, stated(name))
                yield sentence.text, number.text, changed(number), len(after) > len(before)


def test_a_changed_number_is_noticed():
    """One unit of the last digit, or the next number word, in every number that is held."""
    noticed = [mutant[-1] for name in paths() for mutant in mutants(name)]
    assert len(noticed) > 300
    assert sum(noticed) / len(noticed) > 0.95  # 0.97 when this was written


def small_page(tmp_path, text, *cells, output=""):
    """The findings in a page of one section: its text, then cells; the last one prints `output`."""
    made = notebook(nbformat.v4.new_markdown_cell(f"## 3. Results\n\n{text}"), *(cells or ("x = f()",)))
    if output:
        made.cells[-1].outputs = [nbformat.v4.new_output("stream", text=output)]
    path = tmp_path / "page.ipynb"
    nbformat.write(made, path)
    return prose.read(path)


def unheld(tmp_path, text, *cells, output="", name="fairfed/1_idea", phrases=()):
    return [one.words for one in prose.unheld(small_page(tmp_path, text, *cells, output=output), name, dict(phrases))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The gap is 0.36, or 36 %, of 1,250 rows.", ["0.36", "36 %", "1,250"]),
        ("Seven of the thirty-two runs, a third of them, took twice as long.", ["Seven", "thirty-two", "a third", "twice"]),
        ("Two thirds fall, half rise by -.25 or 3e-4.", ["Two thirds", "half", "-.25", "3e-4"]),
        ("See Table 2, Figures 3 and 4, Section 5.4, Theorem 3.1, Algorithm 1, Eq. 3 and line 12 for group 0.", []),
        ("Maths $x = 7$, code `n = 8`, a link to [here](page7.html), {cite}`demon`, CIFAR-10, top-5, VGG11.", []),
        ("$$x = 7$$\n\n```{math}\nx = 8\n```\n\n```python\nx = 9\n```", []),
        ("In 2016 a third client joined, with a 95 % interval, on Python 3.11.", []),
        ("These three agree in two ways, and the other two do not.", []),
        ("There are two lenders, North and South, and three ratios: SP, EO and EQO.", []),
        ("There are three lenders, North and South.", ["three"]),
        ("```{exercise}\nThere are 7 rows.\n```\n\nSuppose there are 8 rows.", []),
        (":::{admonition} Left out\nThere are 17 rows.\n:::", ["17"]),
    ],
)
def test_numbers_are_found_in_sentences_and_nowhere_else(tmp_path, text, found):
    assert unheld(tmp_path, text) == found


@pytest.mark.parametrize(
    ("text", "cells", "output"),
    [
        ("The gap is {}0.51.", (), "gap 0.5132"),
        ("The gap is 5{}1 %.", (), "gap 0.5132"),
        ("It takes {}24 of the 30 cells.", ("assert cells == (24, 30)",), ""),
        ("All {}nine cells agree.", ("assert len(cells) == 9",), ""),
        ("{}Six clients share the rows.", (code("clients: int = 6  # 1..9: how many", "parameters"),), ""),
        ("{}Seven clients share the rows.", ("fed = deal(rows, clients=7)",), ""),
        ("The share is at most {}a quarter.", ("assert share < 0.25",), ""),
        ("The share is at most {}a quarter.", ("assert 4 * share < 1",), ""),
    ],
)
def test_what_holds_a_number(tmp_path, text, cells, output):
    shown = text.format("")
    assert unheld(tmp_path, shown, *cells, output=output) == []
    assert unheld(tmp_path, shown) != [], "nothing but the cell holds it"
    wrong = {"0.51": "0.52", "51 %": "52 %", "24": "25", "nine": "ten", "Six": "Seven", "Seven": "Eight", "a quarter": "a third"}
    old = next(old for old in wrong if old in shown)
    assert unheld(tmp_path, shown.replace(old, wrong[old]), *cells, output=output) == [wrong[old]]


def test_a_number_beside_its_neighbour_needs_words(tmp_path):
    output = "Adult  0.51\nCOMPAS 0.52"
    assert unheld(tmp_path, "It is 0.51.", output=output) == ["0.51"], "0.52 would pass as well"
    assert unheld(tmp_path, "On Adult it is 0.51.", output=output) == []
    assert unheld(tmp_path, "On Adult it is 0.52.", output=output) == ["0.52"]
    assert unheld(tmp_path, "It is 0.51 and 0.52.", output=output) == []


def test_another_section_does_not_hold_a_number(tmp_path):
    later = nbformat.v4.new_markdown_cell("## 4. Later")
    assert unheld(tmp_path, "The gap is 0.51.", "x = f()", "print(y)", output="gap 0.5132") == []
    assert unheld(tmp_path, "The gap is 0.51.", "x = f()", later, "print(y)", output="gap 0.5132") == ["0.51"]


def test_a_table_holds_a_number_by_its_row_and_column(tmp_path):
    page = small_page(tmp_path, "For the men of Adult it is 0.31. For the women of Adult it is 0.32.", "table")
    html = pd.DataFrame({"men": [0.31, 0.33], "women": [0.34, 0.31]}, ["Adult", "COMPAS"]).to_html()
    page[-1].evidence += prose.from_html(html)
    assert [one.words for one in prose.unheld(page, "fairfed/1_idea", {})] == ["0.32"]


def test_the_card_holds_what_a_paper_prints(tmp_path):
    assert unheld(tmp_path, "The paper prints an EOD of -0.184 for FedAvg on Adult.") == []
    assert unheld(tmp_path, "The paper prints an EOD of -0.194 for FedAvg on Adult.") == ["-0.194"]
    assert unheld(tmp_path, "We have an EOD of -0.184 for FedAvg on Adult.") == ["-0.184"]
    quote = 'It speaks of "an average improvement of fairness of {}".'
    assert unheld(tmp_path, quote.format("10%"), name="fair-fate/2_tables") == []
    assert unheld(tmp_path, quote.format("11%"), name="fair-fate/2_tables") == ["11%"]


def test_a_number_that_is_worked_out_elsewhere_is_held_by_its_value(tmp_path):
    assert unheld(tmp_path, "There are 77 rows.", phrases={"77 rows": 77.0}) == []
    assert unheld(tmp_path, "There are 77 rows.", phrases={"77 rows": 78.0}) == ["77"]


def test_a_page_is_named_by_a_link(tmp_path):
    page = small_page(
        tmp_path,
        "See the fourth notebook, chapter 3 and the data pages. [The next chapter](x.md), {doc}`the second notebook <x>` and this"
        " page are fine.",
    )
    assert [one.words for one in prose.unlinked(page)] == ["fourth notebook", "chapter 3", "data pages"]

"""The order of the book: parts that open and close, chapters numbered by part, one list of the core path, measured minutes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from docutils import nodes
from small import ROOT, code, notebook

from fairfl_book import cards
from fairfl_book.notebooks import lessons, minutes, runner
from fairfl_book.site import book, contents

PARTS = contents.parts(ROOT / "_toc.yml")
CORE = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["fairfl_core"]
FAIRFED = ("executed/fairfed/1", "executed/fairfed/2")
SMALL = [
    contents.Part("Start here", "1", ("book/how",), frozenset({"book/how"})),
    contents.Part("FairFed", "2", FAIRFED, frozenset(FAIRFED)),
    contents.Part("Library", "", ("book/api",), frozenset({"book/api", "book/api/data"})),
    contents.Part("Appendix: the data", "A", ("executed/data/adult",), frozenset({"executed/data/adult"})),
]


def test_the_primer_comes_first_and_the_data_last() -> None:
    order = [page for part in PARTS for page in part.chapters]
    papers = ("fairfed/1_idea", "fair-fate/1_idea", "rankff/1_ranks", "effl/1_problem", "e2fl/1_equality")
    opening = ("primer/federated_averaging", *papers)
    first = [order.index(f"executed/{name}") for name in opening]
    assert first == sorted(first) and first[0] <= 1
    assert PARTS[-1].appendix and all(page.startswith("executed/data/") for page in PARTS[-1].chapters)
    assert [part.appendix for part in PARTS].count(True) == 1
    numbers = [part.number for part in PARTS if part.number]
    assert numbers == [*map(str, range(1, len(numbers))), "A"]


def test_the_core_path_is_about_a_dozen_chapters_in_the_order_of_the_book_and_leaves_no_paper_out() -> None:
    numbered = [page for part in PARTS if part.number and not part.appendix for page in part.chapters]
    chapters = [page for page in numbered if page.startswith("executed/")]
    assert [page for page in chapters if page in CORE] == CORE, "in the order of _toc.yml, each once, and none that is not there"
    assert 10 <= len(CORE) <= 16 and len(CORE) < len(chapters) / 2
    for paper in cards.names():
        assert any(page.startswith(f"executed/{paper}/") for page in CORE), paper


def test_parts_are_read_with_the_pages_below_their_pages(tmp_path) -> None:
    file = tmp_path / "_toc.yml"
    file.write_text(
        "root: intro\nparts:\n- {caption: One, numbered: 1, chapters: [{file: a}]}\n"
        "- {caption: Two, chapters: [{file: b, sections: [{file: c}]}]}\n- {caption: Three, numbered: 1, chapters: [{file: d}]}\n"
        "- {caption: 'Appendix: more', numbered: 1, chapters: [{file: e}]}\n"
    )
    found = contents.parts(file)
    assert [part.number for part in found] == ["1", "", "2", "A"]
    assert found[1].chapters == ("b",) and found[1].pages == {"b", "c"}
    file.write_text("root: intro\nchapters: [{file: a}]\n")
    assert contents.parts(file) == []


def test_the_line_under_a_title_says_where_one_is() -> None:
    assert contents.place("executed/fairfed/2", SMALL, ["executed/fairfed/2"]) == "Core · FairFed, 2 of 2"
    assert contents.place("executed/fairfed/2", SMALL, []) == "Advanced · FairFed, 2 of 2"
    assert contents.place("executed/data/adult", SMALL, []) == "Appendix · the data, 1 of 1"
    assert [contents.place(page, SMALL, []) for page in ("book/how", "book/api", "executed/intro")] == ["", "", ""]


def test_a_title_says_its_paper_where_it_stands_alone() -> None:
    assert contents.full_title("Clients of one group", "executed/fairfed/1", SMALL) == "FairFed: Clients of one group"
    assert contents.full_title("What FairFed's server sees", "executed/fairfed/1", SMALL) == "What FairFed's server sees"
    assert contents.full_title("Adult", "executed/data/adult", SMALL) == "Adult"


SIDEBAR = """<p aria-level="2" class="caption" role="heading"><span class="caption-text">Start here</span></p>
<ul class="nav"><li><a href="../how.html">1. How</a></li></ul>
<p aria-level="2" class="caption" role="heading"><span class="caption-text">FairFed</span></p>
<ul class="nav"><li class="toctree-l1"><a href="1.html">One</a></li><li class="current"><a href="#">Two</a></li></ul>
<p aria-level="2" class="caption" role="heading"><span class="caption-text">Appendix: the data</span></p>
<ul class="nav"><li><a href="../data/adult.html">Adult</a></li></ul>"""


def test_parts_of_the_sidebar_are_closed_but_the_one_of_the_page() -> None:
    sidebar = BeautifulSoup(SIDEBAR, "html.parser")
    links = [link["href"] for link in sidebar("a")]
    for _ in range(2):  # the theme asks for it more than once
        contents.fold(sidebar, SMALL, {"1.html"})
    made = sidebar.find_all("details", recursive=False)
    assert [part.summary.get_text() for part in made] == ["1. Start here", "2. FairFed", "Appendix: the data"]
    assert [part.has_attr("open") for part in made] == [False, True, False]
    assert [link["href"] for link in sidebar("a")] == links and not sidebar("p", class_="caption")
    (mark,) = sidebar(class_="fairfl-core")
    assert mark.parent["href"] == "1.html" and mark["aria-label"] == "core path"
    assert "core path" in sidebar.find_all("p")[-1].get_text()


def test_the_first_part_is_open_on_a_page_of_none() -> None:
    sidebar = BeautifulSoup(SIDEBAR.replace('class="current"', ""), "html.parser")
    contents.fold(sidebar, SMALL, set())
    assert [part.has_attr("open") for part in sidebar("details")] == [True, False, False]
    assert not sidebar(class_="fairfl-legend")


def test_chapters_are_numbered_by_part_and_what_they_hold_too(tmp_path) -> None:
    (tmp_path / "_toc.yml").write_text(
        "root: intro\nparts:\n- {caption: One, numbered: 1, chapters: [{file: a}]}\n"
        "- {caption: Two, numbered: 1, chapters: [{file: b}, {file: c}]}\n- {caption: Three, chapters: [{file: d}]}\n"
    )
    env = SimpleNamespace(
        titles={name: nodes.title("", name) for name in "abcd"},
        tocs={name: nodes.bullet_list("", nodes.reference("", name)) for name in "abcd"},
        toc_secnumbers={"a": {"": (1,), "#x": ()}, "b": {"": (2,)}, "c": {"": (3,)}, "d": {}},
        toc_fignumbers={"c": {"figure": {"fig-one": (3, 1), "fig-two": (3, 2)}}, "d": {"figure": {"fig-three": (1,)}}},
    )
    for number, name in enumerate("abc", start=1):
        env.titles[name]["secnumber"] = [number]
        env.tocs[name][0]["secnumber"] = [number]
    app = SimpleNamespace(srcdir=tmp_path, config=SimpleNamespace(external_toc_path="_toc.yml"))
    contents._number(app, env)  # type: ignore[arg-type]
    assert env.toc_secnumbers == {"a": {"": ("1", 1), "#x": ()}, "b": {"": ("2", 1)}, "c": {"": ("2", 2)}, "d": {}}
    assert env.toc_fignumbers["c"]["figure"] == {"fig-one": ("2", 2, 1), "fig-two": ("2", 2, 2)}
    assert env.toc_fignumbers["d"]["figure"] == {"fig-three": (1,)}
    assert env.titles["c"]["secnumber"] == env.tocs["c"][0]["secnumber"] == ["2", 2] and "secnumber" not in env.titles["d"]
    contents._restore(app, env)  # type: ignore[arg-type]
    assert env.toc_secnumbers["c"] == {"": (3,)}, "Sphinx compares with what it gave itself"


# ---- minutes ----


def words(count: int) -> str:
    return " ".join(["word"] * count)


def prose(text: str, *tags: str) -> dict:
    return {"cell_type": "markdown", "source": text, "metadata": {"tags": list(tags)}}


PICTURE = {"output_type": "display_data", "data": {"image/png": "", "text/plain": ""}}


@pytest.mark.parametrize(
    ("cells", "reading", "exercises"),
    [
        ([prose("# A title")], 5, 0),
        ([prose(words(180 * 20))], 20, 0),
        ([prose(words(180 * 20)), prose(words(180 * 20), "solution")], 20, 0),
        ([prose(f"{words(180 * 10)}\n\n```{{solution}} one\n:class: dropdown\n\n{words(180 * 10)}\n```\n")], 10, 0),
        ([prose(words(180 * 10) + "\n\n" + "$$a = b$$\n\n" * 40)], 20, 0),
        ([prose("$$" + words(180 * 10) + "$$")], 5, 0),
        ([prose("[link](" + words(180 * 10) + ")")], 5, 0),
        ([prose(words(180 * 10)), code("\n\n".join(["x"] * 12 * 10))], 20, 0),
        ([prose(words(180 * 10)), code("\n".join(["x"] * 12 * 10), "hide-input")], 10, 0),
        ([prose(":::{exercise}\n:label: one\n\nHow many?\n:::"), prose("```{exercise-start}\n:label: two\n```")], 5, 10),
    ],
)
def test_minutes_are_counted(cells, reading, exercises) -> None:
    assert minutes.measured(cells) == minutes.Minutes(reading, exercises)


def test_figures_and_tables_that_are_shown_take_half_a_minute() -> None:
    cell = {"cell_type": "code", "source": "show()", "metadata": {"tags": ["hide-input"]}, "outputs": [PICTURE]}
    assert minutes.measured([cell] * 20) == minutes.Minutes(10)
    folded = {**cell, "metadata": {"tags": ["hide-cell"]}}
    assert minutes.measured([folded] * 20) == minutes.Minutes(5)


@pytest.mark.parametrize(
    "said",
    [
        "**It takes** 40 minutes, and 20 more with the exercises.",
        "**It takes** about 40 minutes.",
        "**It takes** 40 minutes, and 5 more minutes with the exercise.",
        "**It takes** a minute.",
    ],
)
def test_what_a_notebook_says_becomes_what_was_measured(said) -> None:
    text = f"# One\n\n{words(1800)}\n\n{said} Then rest.\n\n:::{{exercise}}\nHow?\n:::"
    made = book.page(notebook(code("1"), nbformat.v4.new_markdown_cell(text)))
    assert "**It takes** 10 minutes, and 5 more with the exercise. Then rest." in made.cells[1].source


def test_every_chapter_and_data_card_says_minutes_that_can_be_measured() -> None:
    project = runner.Project(ROOT)
    for name in project.names():
        cells = json.loads(project.source(name).read_text())["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        said = text.count("**It takes**") + text.count("**Time:**")
        assert said == len(minutes.STATED.findall(text)), f"{name}: write **It takes** 20 minutes."
        assert said == (name != "intro"), name


def test_lessons_say_them_too(make_project) -> None:
    text = f"{words(1800)}\n\n**It takes** 90 minutes.\n\n:::{{exercise}}\n:label: one\n\nHow many?\n:::"
    question = nbformat.v4.new_markdown_cell(text)
    answer, check = code("...", "answer"), code("check(1)", "check")
    solution = nbformat.v4.new_markdown_cell(
        "````{solution} one\n:class: dropdown\n\n```python\n2\n```\n````", metadata={"tags": ["solution"]}
    )
    project = make_project({"a/one": notebook(question, answer, check, solution)})
    lessons.make(project, project.root / "lessons")
    assert "**It takes** 10 minutes, and 5 more with the exercise." in (project.root / "lessons/student/a/one.ipynb").read_text()

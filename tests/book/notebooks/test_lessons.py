"""Exercises: one source for the page, for students and for instructors, which tells right, wrong and not tried apart."""

from __future__ import annotations

import re

import nbformat
import pytest
import trials
from small import ROOT, code, notebook

from fairfl_book import cli
from fairfl_book.notebooks import lessons, outputs, runner
from fairfl_book.site import book
from fairfl_lite.errors import FairFLError

PROJECT = runner.Project(ROOT)
SOURCES = {name: outputs.read(PROJECT.source(name)) for name in PROJECT.names()}
TAUGHT = [name for name, source in SOURCES.items() if "{exercise" in outputs.dumps(source)]

CHECK = "from fairfl_book.notebooks.exercises import check\n\ncheck('sum', your_sum, right=one + 1, hint='Add one.')"
SOLUTION = "````{solution} ex-sum\n:class: dropdown\n\nOne and one.\n\n```python\nyour_sum = 2\n```\n````"
WRONG = ["your_sum = 1", "your_sum = 3", "your_sum = '2'"]


def text(source: str, *tags: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(tags)} if tags else {})


def small_lesson(*, stub="your_sum = ...", check=CHECK, solution=SOLUTION, wrong=WRONG):
    return notebook(
        code("n: int = 1  # 1..2: nothing", "parameters"),
        "one = n\nprint('one')",
        text("```{exercise}\n:label: ex-sum\n\nHow much is one and one?\n```"),
        code(stub, "answer", fairfl={"wrong": wrong}),
        code(check, "check", "hide-input"),
        text(solution, "solution"),
        "print('the end')",
    )


def said(made: nbformat.NotebookNode) -> list[str]:
    return [output.text for cell in made.cells if lessons.tagged(cell, "check") for output in cell.outputs]


WITHOUT_EXERCISES = {"intro", "arena/3_guide", "arena/4_referee", "scale/peers"}
"""Pages to look things up in, beside those on data, on the ledger and on trust."""


def test_all_chapters_of_the_papers_have_exercises():
    papers = {name for name in SOURCES if not name.startswith(("data/", "ledger/", "trust/"))} - WITHOUT_EXERCISES
    assert papers <= set(TAUGHT)


@pytest.mark.slow
@pytest.mark.parametrize("name", TAUGHT)
def test_an_exercise_tells_right_wrong_and_not_tried_apart(name, monkeypatch):
    monkeypatch.chdir(PROJECT.source(name).parent)
    assert trials.faults(SOURCES[name]) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"check": CHECK.replace("right=one + 1", "right=lambda yours: True")}, "wrong answer 1 gets ✓"),
        (
            {"check": "from fairfl_book.notebooks.exercises import check\n\ncheck('sum', True, right=True, hint='')"},
            "as it is gets ✓",
        ),
        ({"check": CHECK + "\ncheck('more', your_sum, right=lambda yours: True, hint='')"}, "checks ✗✓, some refuse no answer"),
        ({"check": "your_sum"}, "as it is gets nothing"),
        ({"check": CHECK.replace("one + 1", "one + 2")}, "the solution gets ✗"),
        ({"check": CHECK.replace("one + 1", "lambda yours: undefined")}, "the solution gets ✗"),
        ({"stub": "your_sum = 2"}, "as it is gets ✓"),
        ({"stub": "your_sum = 0"}, "as it is gets ✗"),
        ({"wrong": WRONG[:2]}, "it has 2 wrong answers"),
        ({"wrong": [*WRONG, "your_sum = 2.0"]}, "wrong answer 4 gets ✓"),
        ({"wrong": [*WRONG, "your_sum = ..."]}, "wrong answer 4 gets ○"),
    ],
)
def test_an_exercise_that_does_not_is_found(change, complaint):
    assert trials.faults(small_lesson()) == []
    assert complaint in " ".join(trials.faults(small_lesson(**change)))


@pytest.mark.parametrize("name", TAUGHT)
def test_the_page_says_not_tried_and_goes_on_without_the_answers(name):
    source = SOURCES[name]
    answers: set[str] = set()
    for cell in source.cells:
        if lessons.tagged(cell, "answer"):
            answers |= trials.names(cell.source)[0]
        if lessons.tagged(cell, "check"):
            assert {"hide-input"} <= set(cell.metadata.tags) and cell.metadata.jupyter.source_hidden
            assert len(cell.outputs) == 1 and all(line.startswith("○") for line in cell.outputs[0].text.splitlines())
        elif cell.cell_type == "code" and not lessons.tagged(cell, "answer"):
            assert not trials.names(cell.source)[1] & answers, f"{name}: {cell['id']} uses an answer"


@pytest.mark.parametrize("name", TAUGHT)
def test_there_is_one_check_and_no_answer_in_the_open(name):
    source = SOURCES[name]
    shown = "\n".join(cell.source for cell in source.cells if cell.cell_type == "code")
    assert not re.search(r"def check\b", shown)
    assert shown.count("exercises import check\n") == 1
    for exercise in lessons.exercises(source):
        assert exercise.solution not in shown


@pytest.mark.slow
def test_a_student_gets_questions_and_an_instructor_answers(make_project):
    project = make_project({"a/one": small_lesson()})
    assert lessons.make(project, project.root / "out") == ["a/one"]
    student, instructor = (outputs.read(project.root / "out" / who / "a" / "one.ipynb") for who in ("student", "instructor"))
    left = outputs.dumps(student)
    assert "How much" in left and "your_sum = ..." in left
    assert not any(given in left for given in ("your_sum = 2", "{solution}", "One and one", "wrong"))
    assert "{solution}" in outputs.dumps(instructor)

    nbformat.write(student, project.source("a/student"))
    nbformat.write(instructor, project.source("a/instructor"))
    done = {job.name: runner.executed(job) for job in book.execute(project, ["a/one", "a/student", "a/instructor"])}
    assert said(done["a/one"]) == said(done["a/student"]) == ["○ sum: not tried\n"]
    assert said(done["a/instructor"]) == ["✓ sum: right\n"]


@pytest.mark.parametrize("name", TAUGHT)
def test_lessons_of_the_book_hold_what_the_page_holds(name):
    source = SOURCES[name]
    known = lessons.exercises(source)
    student, instructor = lessons.student(source), lessons.instructor(source)
    left = outputs.dumps(student)
    assert not [e.label for e in known if e.solution in "\n".join(cell.source for cell in student.cells)]
    assert "{solution" not in left and '"wrong"' not in left
    assert [c.source for c in instructor.cells if lessons.tagged(c, "answer")] == [e.solution for e in known]
    rest = [c for c in source.cells if not lessons.tagged(c, "solution")]
    assert [c.source for c in student.cells] == [c.source for c in rest]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"solution": SOLUTION.replace("ex-sum", "ex-other")}, "the solutions ex-other"),
        ({"solution": "No code."}, "tagged solution"),
        ({"solution": SOLUTION.replace("python", "text")}, "block of Python"),
    ],
)
def test_an_incomplete_exercise_is_refused_in_one_sentence(make_project, change, says):
    project = make_project({"a/one": small_lesson(**change)})
    with pytest.raises(FairFLError, match=says) as refused:
        lessons.make(project, project.root / "out")
    assert str(refused.value).startswith("a/one: ")
    assert not (project.root / "out").exists()


def test_the_command_says_where_the_lessons_are(make_project, monkeypatch, capsys):
    project = make_project({"a/one": small_lesson(), "b": notebook("1 + 1")})
    monkeypatch.setenv("FAIRFL_ROOT", str(project.root))
    monkeypatch.chdir(project.root)
    assert cli.main(["lessons"]) == 0
    assert capsys.readouterr().out == "1 notebooks each in lessons/student and lessons/instructor\n"
    assert cli.main(["lessons", "--out", str(project.root / "class")]) == 0
    made = sorted(path.relative_to(project.root / "class").as_posix() for path in (project.root / "class").rglob("*.ipynb"))
    assert made == ["instructor/a/one.ipynb", "student/a/one.ipynb"]

"""Exercises tried out: the stub, the solution and the wrong answers of each, with only the cells that they need."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import symtable
from collections.abc import Iterator
from typing import Any

from fairfl_book.notebooks import lessons

FEWEST = 3  # wrong answers to an exercise


def faults(notebook: Any) -> list[str]:
    """What is wrong with the exercises of a notebook; empty when they tell right, wrong and not tried apart."""
    found = []
    for exercise, stub, solution, wrong in tried(notebook):
        each = "".join("✗" if any(said[part] == "✗" for said in wrong if part < len(said)) else "✓" for part in range(len(stub)))
        if not stub or set(stub) != {"○"}:
            found.append(f"{exercise.label}: the page as it is gets {stub or 'nothing'}")
        if set(solution) != {"✓"}:
            found.append(f"{exercise.label}: the solution gets {solution or 'nothing'}")
        if len(wrong) < FEWEST:
            found.append(f"{exercise.label}: it has {len(wrong)} wrong answers")
        found += [f"{exercise.label}: wrong answer {n} gets {said}" for n, said in enumerate(wrong, 1) if "✗" not in said]
        if "✓" in each:
            found.append(f"{exercise.label}: of its checks {each}, some refuse no answer")
    return found


def tried(notebook: Any) -> Iterator[tuple[lessons.Exercise, str, str, list[str]]]:
    """Each exercise with the marks that its checks give to the stub, to the solution and to each wrong answer."""
    space: dict[str, Any] = {"__name__": "__main__"}
    ahead = iter(lessons.exercises(notebook))
    answers, kept = {e.stub: e for e in lessons.exercises(notebook)}, needed(notebook)

    def marks(*sources: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            for source in sources:
                code = compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                waiting = eval(code, space)
                if code.co_flags & inspect.CO_COROUTINE:  # a cell that awaits what it asks
                    asyncio.run(waiting)
        return "".join(line[0] for line in said.getvalue().splitlines() if line and line[0] in "✓✗○")

    for cell in kept:
        if lessons.tagged(cell, "answer"):
            exercise = next(ahead)
            assert cell["source"] in answers
        elif lessons.tagged(cell, "check"):
            wrong = [marks(answer, cell["source"]) for answer in exercise.wrong]
            solution = marks(exercise.solution, cell["source"])
            yield exercise, marks(exercise.stub, cell["source"]), solution, wrong
        else:
            marks(cell["source"])


def needed(notebook: Any) -> list[Any]:
    """The cells of the exercises, and of the others those that define a name for them, or for one that does."""
    wanted: set[str] = set()
    kept = []
    answers = {e.stub: e for e in lessons.exercises(notebook)}
    for cell in reversed([c for c in notebook["cells"] if c["cell_type"] == "code" and not lessons.tagged(c, "solution")]):
        own = lessons.tagged(cell, "answer") or lessons.tagged(cell, "check")
        defined, used = names(cell["source"])
        if own or defined & wanted:
            kept.append(cell)
            wanted |= used
        if lessons.tagged(cell, "answer"):
            exercise = answers[cell["source"]]
            wanted |= set().union(*(names(answer)[1] for answer in (exercise.solution, *exercise.wrong)))
    return kept[::-1]


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that code defines or changes, and those that it uses of what was there before."""
    defined: set[str] = set()
    used: set[str] = set()
    for statement in ast.parse(source).body:
        table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
        loaded = {s.get_name() for s in table.get_symbols() if s.is_referenced()} | set(_free(table))
        stored = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
        loops = [node.target for node in ast.walk(statement) if isinstance(node, ast.For)]
        used |= loaded - defined - {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}
        defined |= stored | set(_changed(statement))
    return defined, used


def _free(table: symtable.SymbolTable) -> Iterator[str]:
    """The names of the notebook that functions use in their bodies."""
    for inner in table.get_children():
        yield from (s.get_name() for s in inner.get_symbols() if s.is_global())
        yield from _free(inner)


def _changed(statement: ast.stmt) -> Iterator[str]:
    """What is changed in place: frame["column"] = ..., object.name = ..., lines.append(...)."""
    for node in ast.walk(statement):
        target: ast.AST | None = None
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            target = node
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            target = node.value.func
        while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
            target = target.func if isinstance(target, ast.Call) else target.value
        if isinstance(target, ast.Name):
            yield target.id

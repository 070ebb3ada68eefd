"""A page for a run with other values than the book's: in the book's own look, in _build/trials/, never in the book.

The page is written by the builder of the book, from a copy of what it remembers of all other pages: numbers,
references and the list of chapters are those of the book, and links lead into it. This module is also the Sphinx
extension, named in _config.yml, that puts the trial in the place of the chapter while the page is written.
"""

from __future__ import annotations

import html as html_text
import json
import os
import re
import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_book.notebooks import outputs, runner
from fairfl_book.notebooks.runner import Job
from fairfl_book.site import book, html
from fairfl_lite import store
from fairfl_lite.errors import BuildError

if TYPE_CHECKING:
    from nbformat import NotebookNode

LINK = re.compile(r'(<[^<>]*?\s(?:href|src|action|data-content_root)=")([^"#?:]*)([^"]*")')
"""An attribute with an address: its begin, the path if it is one within the site, and the rest of it."""


def make(job: Job) -> Path:
    """The page of a finished run with changed values; says on top what was changed, and leads to the default page."""
    made = folder(job) / f"{Path(job.name).name}-{job.slot}.html"
    work = folder(job, "") / ".work"
    shutil.rmtree(work, ignore_errors=True)
    name = f"executed/{job.name}"
    default = html.html(job.project) / f"{name}.html"
    whole = default.is_file() and (html.memory(job.project) / "environment.pickle").is_file()
    whole = whole and (job.project.root / f"{name}.ipynb").is_file()
    usual_run = runner.job(job.project, job.name).executed
    before = outputs.read(usual_run if usual_run.is_file() else job.project.source(job.name))
    notebook = book.page(beside_default(runner.executed(job), before))
    usual = os.path.relpath(default, made.parent) if default.is_file() else None
    _announce(notebook, _banner(job, usual))
    text = outputs.dumps(notebook)
    source = job.project.root if whole else _little_book(job, work / "source", text)
    if whole:
        shutil.copytree(html.memory(job.project), work / "doctrees")
    _write(source, name, text, work)
    built = work / "html"
    home = folder(job, "")
    moves = {
        built / f"{name}.html": made,
        built / "_sources" / f"{name}.ipynb": made.with_suffix(".ipynb"),
        **{path: home / "_images" / path.name for path in (built / "_images").glob("*")},
    }
    if not html.index(job.project).is_file():
        moves |= {path: home / path.relative_to(built) for path in (built / "_static").rglob("*") if path.is_file()}
    page = _led(built / f"{name}.html", moves, built, html.html(job.project), right=usual)
    store.write(built / "_sources" / f"{name}.ipynb", text)
    for old, new in moves.items():
        new.parent.mkdir(parents=True, exist_ok=True)
        old.replace(new)
    store.write(made, page)
    shutil.rmtree(work)
    return made


def folder(job: Job, name: str | None = None) -> Path:
    """Where the trials of a notebook are, or those of all."""
    return job.project.root / "_build" / "trials" / (Path(job.name).parent if name is None else name)


def setup(app: Any) -> dict[str, Any]:
    """As a Sphinx extension: `fairfl_trial` = (document, text) puts this text in the place of that document's."""
    app.add_config_value("fairfl_trial", None, "", types=(tuple, type(None)))
    app.connect("env-get-outdated", lambda app, *_: [app.config.fairfl_trial[0]] if app.config.fairfl_trial else [])
    app.connect("source-read", _replace)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _replace(app: Any, document: str, content: list[str]) -> None:
    if app.config.fairfl_trial and app.config.fairfl_trial[0] == document:
        content[0] = app.config.fairfl_trial[1]


def _write(source: Path, name: str, text: str, work: Path) -> None:
    from jupyter_book.sphinx import build_sphinx

    done = build_sphinx(
        source,
        work / "html",
        path_config=source / "_config.yml",
        noconfig=True,
        # As the book is built: another setting would make the builder forget what it read.
        confoverrides={
            "nitpicky": True,
            "external_toc_path": (source / "_toc.yml").as_posix(),
            "latex_individualpages": False,
            "fairfl_trial": (name, text),
        },
        doctreedir=work / "doctrees",
        filenames=[str(source / f"{name}.ipynb")],
        really_quiet=True,
    )
    if done or not (work / "html" / f"{name}.html").is_file():
        raise BuildError(f"The page of the trial was not written: {done}")


def beside_default(trial: NotebookNode, usual: NotebookNode) -> NotebookNode:
    """The run of a trial in which each result that the new values changed is followed by that with the default values.

    `usual` is the run with the default values, or the notebook with its stored outputs. A figure of it has no number here, since
    it is on the book's page, and places that links lead to are those of the trial.
    """
    import nbformat

    made = deepcopy(trial)
    defaults = {cell["id"]: cell for cell in usual.cells if cell.cell_type == "code"}
    made.cells = []
    for cell in trial.cells:
        made.cells.append(deepcopy(cell))
        default = defaults.get(cell["id"])
        if cell.cell_type != "code" or default is None or not default.outputs or not outputs.differ(cell, default):
            continue
        label = nbformat.v4.new_markdown_cell("*With the default values:*", id=f"{cell['id']}-label"[-64:])
        # The builder leaves out a cell without source.
        results = nbformat.v4.new_code_cell(
            "# as in the book", id=f"{cell['id']}-default"[-64:], metadata={"tags": ["remove-input"]}
        )
        results.outputs = deepcopy(default.outputs)
        for output in results.outputs:
            words = output.get("metadata", {}).pop("fairfl", None)
            if words:  # not through figures.show: a picture with its alternative text
                alt = html_text.escape(words["alt"], quote=True)
                source = f"data:image/png;base64,{output.data['image/png']}"
                kind = ' class="photograph"' if words.get("photograph") else ""
                output.data = nbformat.from_dict({"text/html": f'<img{kind} alt="{alt}" src="{source}">'})
            elif "text/html" in output.get("data", {}):
                output.data["text/html"] = re.sub(r'\sid="[^"]*"', "", output.data["text/html"])
        made.cells += [label, results]
    return made


def _banner(job: Job, default: str | None) -> str:
    """What was changed, and where the page with the book's own values is."""
    changes = ((name, json.dumps(job.defaults[name]), json.dumps(value)) for name, value in job.values.items())
    rows = (f"| `{name}` | `{was}` | {f'**`{now}`**' if now != was else 'the same'} |" for name, was, now in changes)
    table = "\n".join(["| parameter | default | in this run |", "|---|---|---|", *rows])
    usual = f'<a href="{default}">the page of the book</a>, with its default values,' if default else "the default values"
    unbuilt = "" if default else " The book is not built yet: `fairfl build` makes the page with them."
    return (
        ":::{admonition} A trial, not a page of the book\n:class: caution fairfl-trial\n\n"
        f"{table}\n\nWhere a result changed, the one with the default values is below it. "
        f"The text was written for {usual} and may not fit.{unbuilt}\n:::"
    )


def _announce(notebook: NotebookNode, banner: str) -> None:
    """Put the banner under the title."""
    first = notebook.cells[0]
    title, _, rest = first.source.partition("\n")
    if first.cell_type == "markdown" and title.startswith("# "):
        first.source = f"{title}\n\n{banner}\n{rest}"
    else:
        import nbformat

        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(f"# A trial\n\n{banner}", id="trial"))


def _little_book(job: Job, folder: Path, text: str) -> Path:
    """A book of this page and the references, for when there is no other to take the rest from."""
    root = job.project.root
    shutil.copytree(root / "book", folder / "book")
    shutil.copy(root / "_config.yml", folder)
    store.write(folder / "executed" / f"{job.name}.ipynb", text)
    chapters = "chapters:\n- file: book/references\n" if (root / "book" / "references.md").is_file() else ""
    store.write(folder / "_toc.yml", f"format: jb-book\nroot: executed/{job.name}\n{chapters}")
    return folder


def _led(page: Path, moves: Mapping[Path, Path], built: Path, published: Path, right: str | None) -> str:
    """The page's text with each address as it is from where the page goes: what is not moved is in the book.

    The address `right` is so already.
    """
    made = moves[page]

    def lead(found: re.Match[str]) -> str:
        begin, path, rest = found.groups()
        if not path or rest.startswith(":") or path == right:  # this page itself, another site, the banner's
            return found[0]
        target = Path(os.path.normpath(page.parent / path))
        new = os.path.relpath(moves.get(target, published / target.relative_to(built)), made.parent)
        return begin + new + ("/" if path.endswith("/") else "") + rest

    return LINK.sub(lead, page.read_text(encoding="utf-8"))

"""Notebooks in JupyterLab: nothing is left raw, nothing leads nowhere, and what the book folds is folded there.

jupyterlab-myst 2.7 was looked at in a browser. It renders the directives and roles named here. It does not know {doc}
(write [the words](../ledger/how_it_judges.ipynb), which opens the notebook there and the page in the book), {numref}
to a figure that a cell draws (write [the words](#name-of-the-figure)), solutions that span cells, and labels of
other notebooks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small import ROOT, code, notebook

from fairfl_book.notebooks import outputs, runner

PROJECT = runner.Project(ROOT)
PROOFS = {f"prf:{kind}" for kind in ("definition", "example", "lemma", "proof", "proposition", "remark", "theorem")}
BOXES = {"admonition", "attention", "caution", "danger", "hint", "important", "note", "seealso", "tip", "warning", "dropdown"}
DIRECTIVES = BOXES | PROOFS | {"exercise", "solution", "math"}
ANYWHERE = {"cite", "cite:p", "cite:t", "math"}
LOCAL = {"eq", "prf:ref", "ref"}
"""Roles whose label must be in the same notebook."""

DIRECTIVE = re.compile(r"^[ \t]*(?:`{3,}|:{3,})\{([^}\s]+)\}", re.M)
ROLE = re.compile(r"\{([a-z][\w:-]*)\}`(?:[^`]*<)?([^`>]+)>?`")
LABEL = re.compile(r"^:label: (\S+)|^\(([^)\s]+)\)=|\$\$ *\(([^)\s]+)\)", re.M)
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")


def raw(notebook: dict, folder: Path) -> list[str]:
    """What JupyterLab would show raw or lead nowhere, of the Markdown of a notebook that is in `folder`."""
    prose = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    labels = {label for text in prose for found in LABEL.findall(text) for label in found if label}
    found = []
    for text in prose:
        found += [f"directive {name}" for name in DIRECTIVE.findall(text) if name not in DIRECTIVES]
        text = re.sub(r"^```python\n.*?^```$", "", text, flags=re.M | re.S)
        for role, target in ROLE.findall(text):
            if role not in ANYWHERE | LOCAL or (role in LOCAL and target not in labels):
                found.append(f"role {role} to {target}")
        found += [f"link to {path}" for path in LINK.findall(text) if not (folder / path).is_file()]
        if re.search(r"\{solution\}(?![^\n]*\n:class: dropdown)", text):
            found.append("an open solution")
    return found


@pytest.mark.parametrize("name", PROJECT.names())
def test_lab_renders_every_directive_role_and_link(name):
    source = PROJECT.source(name)
    assert raw(outputs.source(source), source.parent) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```{margin}\nx\n```", "directive margin"),
        (":::{solution-start} a\n:class: dropdown\n:::", "directive solution-start"),
        ("See {doc}`1_idea`.", "role doc to 1_idea"),
        ("See {numref}`fig-a`.", "role numref to fig-a"),
        ("See {eq}`elsewhere`.", "role eq to elsewhere"),
        ("See {prf:ref}`Theorem <elsewhere>`.", "role prf:ref to elsewhere"),
        ("See [that](2_missing.ipynb).", "link to 2_missing.ipynb"),
        ("```{solution} a\nx\n```", "an open solution"),
    ],
)
def test_what_lab_would_show_raw_is_found(text, says, tmp_path):
    assert raw({"cells": [{"cell_type": "markdown", "source": text}]}, tmp_path) == [says]


def test_what_lab_renders_is_let_through(tmp_path):
    (tmp_path / "1_idea.ipynb").write_text("{}")
    text = (
        "$$a$$ (eq-a)\n\n:::{prf:theorem}\n:label: thm-a\nx\n:::\n\n"
        "{eq}`eq-a`, {prf:ref}`thm-a`, {cite:t}`fairfed`, [one](1_idea.ipynb#part)"
        "\n\n````{solution} ex\n:class: dropdown\n\n```python\nprint(f'{x}`')\n```\n````"
    )
    assert raw({"cells": [{"cell_type": "markdown", "source": text}]}, tmp_path) == []


def test_what_the_book_folds_is_folded_in_lab():
    cells = (code("1", "hide-input"), code("2", jupyter={"source_hidden": True}), code("3", jupyter={"outputs_hidden": True}))
    marks = [cell.metadata.get("jupyter", {}) for cell in outputs.clean(notebook(*cells)).cells]
    assert marks == [{"source_hidden": True}, {}, {"outputs_hidden": True}]

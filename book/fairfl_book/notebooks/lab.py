"""What `make lab` opens: copies of the notebooks in lab/, which a reader may run and change.

The notebooks of the book are tracked, and JupyterLab saves what it shows. A copy that its reader has changed is left as it is.
All others are made again when the book's notebook has changed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairfl_book.notebooks import lessons, minutes, outputs
from fairfl_book.notebooks.runner import Project
from fairfl_lite import store

FOLDER = "lab"


def make(project: Project) -> list[str]:
    """Copy the notebooks, and the pages that they link to; gives the names of changed copies that are older than the book's."""
    folder = project.root / FOLDER
    record = folder / ".made.json"
    made, behind = store.kept(record), []
    for name in project.names():
        text = outputs.dumps(lessons.with_hints(minutes.stated(outputs.read(project.source(name)))))
        copy, digest = folder / "notebooks" / f"{name}.ipynb", _digest(text)
        if not copy.is_file() or _digest(copy.read_text(encoding="utf-8")) in (made.get(name), digest):
            store.renew(copy, text)
            made[name] = digest
        elif made.get(name) != digest:
            behind.append(name)
    for page in (project.root / "book").rglob("*.md"):
        store.renew(folder / page.relative_to(project.root), page.read_text(encoding="utf-8"))
    store.keep(record, made)
    return behind


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main(project: Project | None = None) -> None:
    """Make the copies and say where they are."""
    project = project or Project.find()
    behind = make(project)
    place = Path(FOLDER, "notebooks")
    print(f"JupyterLab opens copies, in {place}. What you change there is yours: the book stays as it is.")
    if behind:
        print(f"You have changed {', '.join(behind)}, and the book's are newer now. Delete your copies to get those.")


if __name__ == "__main__":
    main()

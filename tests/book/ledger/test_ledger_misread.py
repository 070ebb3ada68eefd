"""Cards that cannot be misread: each mistake planted, and refused by the sentence that names its file, line and right word."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from little import RUNS, card, judged, runs, text
from little import table as little_table

from fairfl_book import cards, settings
from fairfl_book.cards import lines, schemas
from fairfl_book.experiments import catalogue
from fairfl_book.experiments.base import Experiment, grid, named
from fairfl_book.ledger import selected
from fairfl_book.ledger.rules import check
from fairfl_book.ledger.series import Results
from fairfl_lite.errors import FairFLError

PAPERS = cards.names()


def line_of(text: str, words: str) -> int:
    """The line of a text that has these words, which is one."""
    (found,) = [number for number, line in enumerate(text.splitlines(), 1) if words in line]
    return found


ORIGINAL = cards.text("fairfed")
SLIPS: dict[str, tuple[str, str, str]] = {
    "card": ("printed_seeds: 20", "printed_sedes: 20", "field 'printed_sedes' of the card (did you mean 'printed_seeds'?)."),
    "citation": ("  venue: AAAI", "  venu: AAAI", "field 'venu' of the citation (did you mean 'venue'?)."),
    "margin": ("  spd: {margin: 0.02", "  spd: {marginn: 0.02", "field 'marginn' of a margin (did you mean 'margin'?)."),
    "table": ("    results: fairfed/table1\n", "    reslts: fairfed/table1\n",
              "field 'reslts' of a table (did you mean 'results'?)."),
    "override": ("size: {kind: arithmetic", "size: {knd: arithmetic", "field 'knd' of a claim (did you mean 'kind'?)."),
    "claim": ('notebook: idea, says: "Adult has 32,561 records"', 'notbook: idea, says: "Adult has 32,561 records"',
              "field 'notbook' of a claim (did you mean 'notebook'?)."),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_an_unknown_name_is_refused_by_file_line_and_the_nearest_one(slip: str) -> None:
    right, wrong, said = SLIPS[slip]
    assert ORIGINAL.count(right) == 1
    made = ORIGINAL.replace(right, wrong)
    with pytest.raises(FairFLError) as caught:
        cards.parse(made, "book/papers/fairfed/card.yml")
    assert str(caught.value) == f"book/papers/fairfed/card.yml, line {line_of(made, wrong.strip())}: there is no {said}"


def test_a_key_that_a_table_does_not_have_is_refused() -> None:
    made = ORIGINAL.replace("    ignore: [a, client]", "    ignore: [a, cleint]")
    with pytest.raises(FairFLError) as caught:
        cards.parse(made)
    said = "ignore names 'cleint', which the table does not have (did you mean 'client'?)."
    assert str(caught.value) == f"card.yml, line {line_of(made, 'cleint')}: {said}"


def test_the_checks_of_the_rules_name_the_line_too() -> None:
    made = ORIGINAL.replace('kind: count, printed: "6,167"', 'kind: count, sense: larger, printed: "6,167"')
    with pytest.raises(FairFLError, match="which has no field 'sense': remove it") as caught:
        check(cards.parse(made))
    assert str(caught.value).startswith(
        f"card.yml, line {line_of(made, 'sense: larger, printed')}: fairfed.s3.4.compas.rows is judged"
    )
    metrics = ORIGINAL.replace('acc: {margin: 0.01, reason: "one', 'accc: {margin: 0.01, reason: "one')
    with pytest.raises(FairFLError, match=f"card.yml, line {line_of(metrics, 'accc:')}: There is no metric with a margin 'accc'"):
        check(cards.parse(metrics))


def test_a_text_that_is_not_yaml_is_refused_by_its_line() -> None:
    with pytest.raises(FairFLError, match=r"^card.yml, line 2: The card is not YAML"):
        cards.parse("paper: x\nb: }\n")


YAML = """\
first: &one {a: 1,
  b: 2}
second:
  <<: *one
  c:
    - x
    - *one
    - {<<: [*one, {d: 4}],
       e: 5}
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("first",), 1), (("first", "b"), 2), (("second", "b"), 2), (("second", "c", 0), 6), (("second", "c", 1), 7),
        (("second", "c", 1, "b"), 2), (("second", "c", 2), 8), (("second", "c", 2, "d"), 8), (("second", "c", 2, "a"), 1),
        (("second", "c", 2, "e"), 9), (("second", "c", 2, "nothing"), 8), ((), 1), (("nothing",), 1),
    ],
)  # fmt: skip
def test_lines_of_places_with_anchors_and_merges(place: tuple[Any, ...], line: int) -> None:
    assert lines.line(YAML, place) == line


@pytest.mark.parametrize("paper", PAPERS)
def test_every_entry_has_a_line_that_names_it(paper: str) -> None:
    made, written = cards.load(paper), cards.text(paper).splitlines()
    assert set(made.places) == set(made.entries)
    seen = {}
    for place in dict.fromkeys(made.places.values()):
        seen[place] = written[lines.line(made.text, place) - 1]
        assert re.match(r"\s*- ", seen[place]), place  # a row of a table, or a claim


LEVEL = {"kind": "level", "printed": "0.5", "metric": "up"}


def test_a_column_that_the_result_does_not_have_is_refused_when_judged() -> None:
    row = {"metric": "up", "beta": 1}
    wrong = "card.yml, line {line}: little.it: results/little/runs.csv has no column 'betta' (did you mean 'beta'?)."
    sides = {"kind": "ordering", "metric": "up", "better": {"beta": 1}, "worse": {"betta": 1}}
    beside = {**LEVEL, "select": {}, "beside": {"x": {"betta": 2}}}
    for claim in ({**LEVEL, "select": {"betta": 1}}, {**LEVEL, "mean_over": ["betta"]}, beside, sides):
        line = line_of(text({"results": RUNS, **claim}), "- id: it")
        with pytest.raises(FairFLError) as caught:
            judged(claim, (row, [0.4, 0.5, 0.6]))
        assert str(caught.value) == wrong.format(line=line)
    assert judged({**LEVEL, "select": {"beta": 1}}, (row, [0.4, 0.5, 0.6])).seeds == 3


def test_a_word_that_no_row_has_is_not_yet_measured_with_the_nearest_beside() -> None:
    found = judged({**LEVEL, "select": {"method": "fairfde"}}, ({"metric": "up", "method": "fairfed"}, [0.5]))
    assert found.verdict == "not yet measured"
    assert "has no rows for method fairfde, metric up; did you mean method fairfed?" in found.note


def measure() -> pd.DataFrame:
    return named({})


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[selected.Shelf]:
    """One experiment, of which the cells with 9 rounds are not measured yet, and another that is not stored at all."""
    cells = grid(method=("fairfed", "fedavg"), rounds=(3, 9))
    found = {
        RUNS: Experiment(RUNS, measure, cells),
        "little/later": Experiment("little/later", measure, grid(method=("fairfed", "fairfed-every"))),
        "little/counts": Experiment("little/counts", measure, grid(part=("one",))),
    }
    rows = [({"metric": "up", "method": m, "rounds": 3}, [0.5, 0.6]) for m in ("fairfed", "fedavg", "fairfed-gm")]
    frame = runs(*rows, ({"metric": "up", "method": "fairfed-far", "rounds": 5}, [0.5]))
    counts = named({"adult.rows": 3})
    monkeypatch.setattr(catalogue, "every", lambda: found)
    selected._settings.cache_clear()
    monkeypatch.setattr(selected.results, "exists", lambda name: name in (RUNS, "little/counts"))
    yield selected.Shelf(Results(frames={RUNS: frame, "little/counts": counts}))
    selected._settings.cache_clear()


ORDER = {"kind": "ordering", "better": {"method": "fairfed"}, "select": {"rounds": 3}, "printed": None}
FACT = {"kind": "count", "metric": None, "results": None}
ALL: dict[str, tuple[dict[str, Any], str]] = {
    "stored": ({"select": {"method": "fairfed", "rounds": 3}}, ""),
    "pending": ({"select": {"method": "fairfed", "rounds": 9}}, "pending"),
    "pending as a text": ({"select": {"method": "fairfed", "rounds": "9"}}, "pending"),
    "another name of a cell's rows": ({"select": {"method": "fairfed-gm", "rounds": 9}}, "pending"),
    "a result that is not stored": ({"results": "little/later", "select": {"method": "fairfed"}}, "pending"),
    "misspelt": ({"select": {"method": "fairfde"}},
                 "results/little/runs.csv has the method 'fairfde', and no cell will have it (did you mean 'fairfed'?)."),
    "misspelt and pending": ({"select": {"method": "fairfde", "rounds": 9}}, "the method 'fairfde', and no cell will have it"),
    "no such level": ({"select": {"method": "fairfed", "rounds": 30}}, "the rounds '30', and no cell will have it"),
    "metric of pending runs": ({"select": {"rounds": 9}, "metric": "down"}, "the metric 'down', and no cell will have it"),
    "awaited": ({"select": {"rounds": 9}, "metric": "near"}, "pending"),
    "awaited, of runs that are there": ({"select": {"rounds": 3}, "metric": "near"}, "the metric 'near', and no cell will"),
    "column": ({"select": {"metod": "fairfed"}}, "results/little/runs.csv has no column 'metod' (did you mean 'method'?)."),
    "result": ({"results": "little/rnus"}, "there is no result 'little/rnus' (did you mean 'little/runs'?)."),
    "of a result that is not stored": ({"results": "little/later", "select": {"method": "fairfde"}},
                                       "no cell of little/later has the method 'fairfde' (did you mean 'fairfed'?)."),
    "side": ({**ORDER, "worse": {"method": ["fedavg", "fedvag"]}},
             "the method 'fedvag', and no cell will have it (did you mean 'fedavg'?)."),
    "until measured": ({"select": {"rounds": 9}, "until_measured": {"select": {"method": "fedvag"}}}, "the method 'fedvag'"),
    "beside": ({"select": {"rounds": 3}, "beside": {"other": {"method": "fedvag"}}}, "the method 'fedvag'"),
    "beside, which only another result has": ({"select": {"rounds": 3}, "beside": {"other": {"method": "fairfed-every"}}},
                                              "the method 'fairfed-every', and no cell will have it"),
    "beside, where no row has all of it": ({"select": {"rounds": 3}, "beside": {"other": {"method": "fairfed-far"}}},
                                           "has all of rounds 3, metric up, method fairfed-far, and no cell will have them"),
    "fact": ({"name": "adult.rwos", **FACT},
             "has the name 'adult.rwos', and no cell will have it (did you mean 'adult.rows'?)."),
    "fact that is there": ({"name": "adult.rows", **FACT}, ""),
    "fact that says what becomes of it": ({"name": "adult.x", "unless_measured": "no data", **FACT}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", ALL)
def test_what_is_selected_is_stored_or_will_be(case: str, shelf: selected.Shelf) -> None:
    spec, said = ALL[case]
    spec = {k: v for k, v in {"results": RUNS, **LEVEL, **spec}.items() if v is not None}
    awaited = {RUNS: {"metric": ["near"]}}
    made = card(spec, awaited=awaited)
    found = selected.check("little", made, shelf)
    assert found.entries == 1
    assert (found.pending == ["little.it"]) == (said == "pending")
    if said in ("", "pending"):
        assert found.mistakes == []
    else:
        (mistake,) = found.mistakes
        line = line_of(made.text, "- id: it")
        assert mistake.startswith(f"card.yml, line {line}: little.it: ") and said in mistake


@pytest.mark.parametrize("paper", PAPERS)
def test_the_cards_select_what_is_stored_or_will_be(paper: str) -> None:
    found = selected.check(paper)
    assert found.mistakes == [] and found.entries > 100
    assert not found.pending or paper == "e2fl"
    if paper == "e2fl":
        assert "e2fl.s6.1.equity" in found.pending and "e2fl.after600.equity" not in found.pending


def planted(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    """What the schema says of FairFed's card after a change."""
    made = cards.raw(ORIGINAL)
    change(made)
    return [error.message for error in jsonschema.Draft202012Validator(cards.schema()).iter_errors(made)]


def test_the_schema_is_the_one_that_is_made() -> None:
    jsonschema.Draft202012Validator.check_schema(cards.schema())
    stored = (cards.FOLDER / schemas.FILE).read_text(encoding="utf-8")
    assert stored == schemas.text(), "make it again: fairfl cards schema"
    assert json.loads(stored) == cards.schema()


@pytest.mark.parametrize("paper", PAPERS)
def test_the_cards_fit_the_schema_that_their_first_line_names(paper: str) -> None:
    first = cards.text(paper).splitlines()[0]
    assert first == f"# yaml-language-server: $schema=../{schemas.FILE}"
    assert (cards.file(paper).parent / ".." / schemas.FILE).is_file()
    jsonschema.validate(cards.raw(cards.text(paper)), cards.schema(), jsonschema.Draft202012Validator)


def test_the_schema_refuses_slips() -> None:
    assert planted(lambda c: None) == []
    assert planted(lambda c: c["claims"][0].update(marginn=1)) == [
        "Additional properties are not allowed ('marginn' was unexpected)"
    ]
    for change in (
        lambda c: c.update(tabels={}),
        lambda c: c.pop("settings"),
        lambda c: c["tables"]["t1"].update(reslts="x"),
        lambda c: c["tables"]["t8"]["override"]["cell"]["size"].update(knd="x"),
        lambda c: c["claims"][0].update(kind="cuont"),
        lambda c: c["claims"][0].update(check={"summ": []}),
        lambda c: c["claims"][0].update(until_measured={"selct": {}}),
        lambda c: c["claims"][0].pop("says"),
        lambda c: c["margins"]["acc"].update(reasn="x"),
        lambda c: c["citation"].update(yaer=1),
        lambda c: c.update(printed_seeds=0),
    ):
        assert len(planted(change)) == 1


def test_a_little_card_fits_the_schema_as_well() -> None:
    made = text(LEVEL, tables={"t": little_table({"a": "0.5", "b": "0.6"})})
    jsonschema.validate(cards.raw(made), cards.schema(), jsonschema.Draft202012Validator)


def test_the_settings_that_experiments_take_are_those_of_the_card_and_part_of_what_a_cell_is_kept_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for paper in PAPERS:
        assert settings.printed(paper.replace("-", "_")) == cards.load(paper).settings
    task = catalogue.get("fairfed/table1").tasks()[0]
    before, other = task.key(), settings.digest("papers.fair_fate.tables")
    changed = {**settings.printed("fairfed"), "learning_rate": [0.02]}
    monkeypatch.setattr(settings, "printed", lambda paper: changed if paper == "fairfed" else {})
    assert task.key() != before and settings.digest("papers.fair_fate.tables") != other
    assert settings.digest("fairfl_book.bench") == ""


def test_a_cell_that_reads_printed_numbers_is_measured_again_when_one_of_them_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts, table = (catalogue.get(name).tasks()[0] for name in ("effl/facts", "effl/table1"))
    before = facts.key(), table.key()
    card, printed = tmp_path / "effl" / "card.yml", "- [synthetic, fedavg,    .7735 "
    original = cards.text("effl")
    card.parent.mkdir()
    card.write_text(original.replace(printed, printed.replace("5", "6")), encoding="utf-8")
    monkeypatch.setattr(settings, "FOLDER", tmp_path)
    monkeypatch.setattr(settings, "_text", settings._text.__wrapped__)
    monkeypatch.setattr(settings, "printed", settings.printed.__wrapped__)
    assert card.read_text(encoding="utf-8") != original
    assert facts.key() != before[0] and table.key() == before[1]


def test_a_setting_that_a_card_does_not_print_is_refused_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    card = tmp_path / "effl" / "card.yml"
    card.parent.mkdir()
    monkeypatch.setattr(settings, "FOLDER", tmp_path)
    monkeypatch.setattr(settings, "_text", settings._text.__wrapped__)
    printed = settings.printed.__wrapped__
    card.write_text("settings: {clients: {adult: 2}}\n", encoding="utf-8")
    assert printed("effl")["clients"]["adult"] == 2
    for ask, said in (
        (lambda: printed("effl")["cleints"], r"effl/card.yml prints no setting 'cleints' \(did you mean clients\?\)"),
        (lambda: printed("effl")["clients"]["adlut"], r"prints no setting 'adlut' \(did you mean adult\?\)"),
    ):
        with pytest.raises(FairFLError, match=said):
            ask()
    for wrong, said in (("a: 1\nb: }\n", "line 2: The card is not YAML"), ("paper: x\n", "has no settings"), ("[]", "has no")):
        card.write_text(wrong, encoding="utf-8")
        with pytest.raises(FairFLError, match=f"^book/papers/effl/card.yml.*{said}"):
            printed("effl")

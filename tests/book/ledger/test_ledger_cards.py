"""All cards: every entry can be judged, every margin has a reason, effects are made for the cells they should; broken cards."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import little
import pytest
import yaml

from fairfl_book import cards
from fairfl_book.cards import Entry
from fairfl_book.ledger.rules import KINDS, RULES, SYMBOLS, check, rule_of
from fairfl_book.ledger.rules.base import COMMON
from fairfl_book.ledger.series import Case, Results
from fairfl_lite.errors import FairFLError

PAPERS = cards.names()
WITH_MARGIN = ("level", "effect", "gain", "ordering", "no gain", "similar", "trend")
"""The rules by which a difference is judged against how far apart may still be called the same."""


def raw(paper: str) -> dict[str, Any]:
    text = cards.file(paper).read_text(encoding="utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def entries() -> list[Entry]:
    return [entry for paper in PAPERS for entry in cards.load(paper).entries.values()]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_entry_has_a_rule_of_its_kind_and_fields_that_it_knows(paper: str) -> None:
    card = cards.load(paper)
    check(card)
    for entry in card.entries.values():
        rule = rule_of(entry)
        assert rule.kind == entry.kind and set(entry.spec) <= {*rule.fields, *COMMON}, entry.id
        assert entry.id.startswith(f"{paper}.") and entry.paper == paper and entry.whose in cards.WHOSE
        assert entry.where and entry.says and entry.notebook.startswith(f"notebooks/{paper}/")
        text = f"{entry.id}{entry.says}{entry.printed}{entry.spec.get('note', '')}{entry.spec.get('metric', '')}"
        assert not set("{}") & set(text), entry.id


@pytest.mark.parametrize("paper", PAPERS)
def test_every_margin_has_a_size_and_a_reason(paper: str) -> None:
    card = cards.load(paper)
    assert set(card.margins) <= set(card.metrics)
    for metric, margin in card.margins.items():
        assert set(margin) == {"margin", "reason"}, metric
        assert margin["margin"] > 0 and len(margin["reason"].split()) >= 3, metric
    for entry in card.entries.values():
        if entry.rule in WITH_MARGIN and "entries" not in entry.spec and "cells" not in entry.spec and "results" in entry.spec:
            case = Case(card, entry, Results(), card.selection)
            assert case.margin > 0
            if "margin" not in entry.spec:
                assert case.metric in card.margins, entry.id
        assert entry.rule in WITH_MARGIN or "margin" not in entry.spec, entry.id  # none that nobody reads


def test_the_rules_are_whole() -> None:
    assert {RULES[rule].kind for rule in cards.RULES.values()} == set(cards.RULES) == set(KINDS)
    assert KINDS[0] == "effect"
    for name, rule in RULES.items():
        assert rule.name == name and len(rule.text.split()) > 15
        assert any(e.rule == name for e in entries()), name  # no rule without an entry
    said = {word for rule in RULES.values() for word in SYMBOLS if f"*{word}*" in rule.text.replace("\n", " ")}
    assert set(SYMBOLS) - said == {
        "holds by construction",
        "not testable",
        "not yet measured",
    }  # every other verdict is explained by a rule


def goodness(entry: Entry, sense: str) -> Fraction:
    value = Fraction(entry.printed)
    return {"larger": value, "smaller": -value, "closer": -abs(value)}[sense]


@pytest.mark.parametrize("paper", PAPERS)
def test_effects_and_contributions_are_made_for_the_cells_they_should(paper: str) -> None:
    """Counted anew from the layout of the tables: rows are methods, and a column is everything else."""
    card, source = cards.load(paper), raw(paper)
    wanted: dict[str, str] = {}
    sizes: set[str] = set()
    for name, grid in card.grids.items():
        baseline = source["tables"][name].get("baseline", {}).get("method")
        own = source["tables"][name].get("own", [])
        cells = [card.entries[i] for line in grid.ids for i in line]
        cells = [e for e in cells if baseline and e.kind == "level" and e.printed != "?" and "not_testable" not in e.spec]
        columns: dict[tuple[str, ...], dict[str, Entry]] = {}
        for e in cells:
            columns.setdefault(tuple(v for k, v in e.keys.items() if k != "method"), {})[e.keys["method"]] = e
        for column in columns.values():
            others = [m for m in column if m not in (*own, *source["tables"][name].get("not_best", []))]
            for method, e in column.items():
                against = {}
                if method != baseline and baseline in column:
                    against["effect"] = column[baseline]
                if method in own:
                    sense = source["metrics"][e.keys["metric"]]
                    best = max(others, key=lambda m: (goodness(column[m], sense), -others.index(m)))
                    if best != baseline:
                        against["contribution"] = column[best]
                for what, other in against.items():
                    a, b = Fraction(e.printed), Fraction(other.printed)
                    if what == "contribution" and source["metrics"][e.keys["metric"]] == "closer":
                        a, b = abs(a), abs(b)  # what a method adds is less distance from zero, whatever the signs
                        sizes.add(f"{e.id}.{what}")
                    difference = a - b
                    wanted[f"{e.id}.{what}"] = (
                        f"{float(difference):+.{max(len(x.partition('.')[2]) for x in (e.printed, other.printed))}f}"
                    )
    made = {e.id: e.printed for e in card.entries.values() if "cells" in e.spec}
    assert made == wanted and len(made) > 40
    assert {id for id in made if card.entries[id].spec.get("absolute")} == sizes
    for id in made:
        effect, cell = card.entries[id], card.entries[id.rpartition(".")[0]]
        kind = "effect" if cards.number(effect.printed) else "tie"
        assert (effect.kind, effect.rule, effect.whose, effect.where) == (kind, kind, cell.whose, cell.where)
        assert effect.spec["cells"][0] == cell.id


def test_the_effects_of_fairfed_s_table_3_by_hand() -> None:
    # FedAvg .800 -.062 -.102, Local .800 -.066 -.106, η = 0.2 .793 -.074 -.110, η = 1.0 .799 -.050 -.089. Of the others
    # FedAvg is best in every column (in accuracy it is as good as Local), so nothing is contributed beyond the effects.
    card = cards.load("fairfed")
    made = {e.id.removeprefix("fairfed.t3.acsincome."): e.printed for e in card.entries.values()
            if e.id.startswith("fairfed.t3.") and e.rule in ("effect", "tie")}  # fmt: skip
    assert card.entries["fairfed.t3.acsincome.acc.local.effect"].rule == "tie"  # alone
    assert made == {
        "acc.local.effect": "+0.000", "eod.local.effect": "-0.004", "spd.local.effect": "-0.004",
        "acc.fairfed-eta0.2.effect": "-0.007", "eod.fairfed-eta0.2.effect": "-0.012", "spd.fairfed-eta0.2.effect": "-0.008",
        "acc.fairfed-eta1.0.effect": "-0.001", "eod.fairfed-eta1.0.effect": "+0.012", "spd.fairfed-eta1.0.effect": "+0.013",
    }  # fmt: skip


def test_how_many_effects_and_contributions_there_are_by_hand() -> None:
    made = Counter(
        ".".join((e.id.split(".")[0], e.id.split(".")[1], e.id.rpartition(".")[2]))
        for e in entries()
        if e.rule in ("effect", "tie")
    )
    # Table 1 of FairFed: three rows beside FedAvg in 30 columns; FairFed beside the better reweighing in 19, since FedAvg
    # is the best of the others in all ten columns of accuracy and in EOD, COMPAS, α = 5000.
    assert (made["fairfed.t1.effect"], made["fairfed.t1.contribution"]) == (90, 19)
    # Table 2: Local is better in EOD on Adult (5) and COMPAS (3: equal at α = 0.2 and 5000), and in Std-Acc. at α = 0.5 on
    # COMPAS; two rows of FairFed each
    assert (made["fairfed.t2.effect"], made["fairfed.t2.contribution"]) == (90, 18)
    assert made["fairfed.t4.effect"] == 0  # TILES cannot be tested
    # RankFF, Table 1: two rows in six columns of MNIST and three of CIFAR-10, whose sums cannot be tested; CoreFed is nowhere
    # better than FedAvg. Table 2: CoreFed is better in β of MNIST, high and low, and of CIFAR-10, mid and low, and in the sum of
    # MNIST, mid.
    assert (made["rankff.t1.effect"], made["rankff.t1.contribution"]) == (18, 0)
    assert (made["rankff.t2.effect"], made["rankff.t2.contribution"]) == (18, 5)
    # FedDemon's cells are copies of each other, and the best of nothing
    over = {
        e.spec["cells"][1].rpartition(".")[2]
        for e in entries()
        if e.id.startswith("fair-fate") and e.id.endswith(".contribution")
    }
    assert "fedmom" in over and not over & {"feddemon", "fair-fate-sp", "fair-fate-eo", "fair-fate-eqo"}


def broken(paper: str, change: Callable[[dict[str, Any]], None]) -> str:
    made = raw(paper)
    change(made)
    return str(yaml.dump(made, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))


def claim(made: dict[str, Any], id: str = "", **fields: Any) -> dict[str, Any]:
    """The first claim of that id, or with these fields."""
    wanted = {**({"id": id} if id else {}), **fields}
    return next(c for c in made["claims"] if all(c.get(k) == v for k, v in wanted.items()))


def cells(made: dict[str, Any], first: str) -> None:
    """Another first row of Table 3."""
    made["tables"]["t3"]["rows"][0][-1] = first


def formula(made: dict[str, Any], **fields: Any) -> None:
    made["claims"].append(
        {"id": "x", "where": "x", "kind": "arithmetic", "printed": "1", "says": "x", "notebook": "idea"} | fields
    )


ROWS = "fairfed.s3.4.adult.rows"
MISTAKES: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "row": ("fairfed", lambda c: cells(c, "0.800 -0.062"), "needs 1 keys and 3 cells"),
    "number": ("fairfed", lambda c: cells(c, "O.800 -0.062 -0.102"), "'O.800' is not a printed number"),
    "twice": ("fairfed", lambda c: c["claims"].append(dict(c["claims"][0])), f"{ROWS} is used twice in the card: rename one"),
    "notebook": ("fairfed", lambda c: c["claims"][0].update(notebook="x"), "names no notebook of the card: choose one of"),
    "field": ("fairfed", lambda c: c["claims"][0].update(colour=1), "there is no field 'colour' of a claim"),
    "field of another rule": (
        "rankff",
        lambda c: claim(c, "thm3.1").update(tolerance=0),
        "which has no field 'tolerance': remove it",
    ),
    "field of a table": ("fairfed", lambda c: c["tables"]["t3"].update(colour=1), "there is no field 'colour' of a table"),
    "field of the card": ("fairfed", lambda c: c.update(colour=1), "there is no field 'colour' of the card"),
    "rule": ("fairfed", lambda c: c["claims"][0].update(rule="cuont"), "a count cannot be judged by the rule 'cuont'; correct"),
    "rule of another kind": ("fairfed", lambda c: c["claims"][0].update(rule="level"), "a count cannot be judged by the rule"),
    "kind": ("fairfed", lambda c: c["claims"][0].update(kind="cuont"), "s3.4.adult.rows of the card needs a known kind"),
    "nothing said": ("fairfed", lambda c: c["claims"][0].pop("says"), "s3.4.adult.rows of the card needs says"),
    "whose": ("fairfed", lambda c: c["claims"][0].update(whose="our"), "says whose: our; choose one of paper, ours"),
    "metric": (
        "fairfed",
        lambda c: claim(c, "fig5.fairness").update(metric="edo"),
        "the metric 'edo', which the card does not list",
    ),
    "cell": ("fairfed", lambda c: formula(c, sum=["t1.nothing"]), "no cell t1.nothing: correct the formula that names it"),
    "no formula": ("fairfed", lambda c: formula(c), "lacks what it needs"),
    "derived": (
        "fairfed",
        lambda c: claim(c, "t7.rows").update(printed="26,050"),
        "come from printed cells, but they give 26049",
    ),
    "missing": ("fairfed", lambda c: c.pop("settings"), "The card lacks settings: add them"),
    "entries": ("fair-fate", lambda c: claim(c, rule="share").update(entries=["s5.4.nothing.*"]), "no entry s5.4.nothing"),
    "printed_of": ("fair-fate", lambda c: claim(c, kind="level").update(printed_of="t9.nothing"), "no entry t9.nothing"),
    "side": (
        "fairfed",
        lambda c: claim(c, "s8.fairfed-over-fedavg")["worse"].update(method="x"),
        "0 cells of t3 fit .*one is needed",
    ),
    "toward": (
        "fairfed",
        lambda c: claim(c, "fig5.fairness").update(toward="beter"),
        "no toward in fairfed.fig5.fairness 'beter'",
    ),
    "sense": ("fairfed", lambda c: claim(c, "fig5.fairness").update(sense="lager"), "no sense in fairfed.fig5.fairness 'lager'"),
    "metrics": (
        "fairfed",
        lambda c: c["metrics"].update(acc="lager"),
        "The table t1 of the card is not well formed, see 'lager'",
    ),
    "own": (
        "fairfed",
        lambda c: c["tables"]["t1"].update(own=["fairfd"]),
        "has no method fairfd, which its baseline, own or not_best names",
    ),
    "baseline": ("fairfed", lambda c: c["tables"]["t1"].update(baseline={"method": "fedav"}), "has no method fedav, which its"),
    "whose of a table": ("fairfed", lambda c: c["tables"]["t1"].update(whose="our"), "no whose of the table t1 'our'"),
    "margin": (
        "fairfed",
        lambda c: c["margins"].update(eod={"margin": 0.02}),
        "The margin of eod needs a number .* and a reason",
    ),
    "margin without a reason": (
        "rankff",
        lambda c: claim(c, rule="similar").pop("margin_reason"),
        "has a margin of its own and no margin_reason: say in a few words why",
    ),
    "margin of nothing": ("fairfed", lambda c: c["margins"].update(edo={}), "no metric with a margin 'edo': did you mean 'eod'"),
    "one side": ("fairfed", lambda c: claim(c, "s8.fairfed-over-fedavg").pop("worse"), "not well formed|lacks what it needs"),
    "no name": ("fairfed", lambda c: c["claims"][0].pop("name"), "is judged by the rule 'count' and lacks what it needs: name"),
    "digits": ("fairfed", lambda c: c["claims"][0].update(printed="3z,561"), "'3z,561' is not a printed number"),
    "no title": ("fairfed", lambda c: c["tables"]["t1"].pop("title"), "The table t1 of the card is not well formed, see 'title'"),
    "kind of a table": (
        "fairfed",
        lambda c: c["tables"]["t1"].update(kind="levle"),
        "The table t1 of the card is not well formed",
    ),
    "braces": (
        "fairfed",
        lambda c: c["claims"][0].update(says="{foo}"),
        "s3.4.adult.rows of the card is not well formed, see 'foo'",
    ),
    "no tables": ("fairfed", lambda c: c.update(tables=None), ": tables is None, and must be a mapping of names"),
    "a table that is a list": ("rankff", lambda c: c["tables"].update(t1=[]), r": tables.t1 is \[\], and must be a mapping"),
    "rows": ("fairfed", lambda c: c["tables"]["t1"].update(rows=7), ": tables.t1.rows is 7, and must be a list"),
    "margin that is a number": ("fairfed", lambda c: c["margins"].update(acc=0.1), ": margins.acc is 0.1, and must be a mapping"),
    "margin below 0": ("fairfed", lambda c: c["margins"]["acc"].update(margin=-1), "margin of acc needs a number from 0"),
    "no seeds": ("fairfed", lambda c: c.update(printed_seeds=0), ": printed_seeds is 0, and must be a whole number from 1"),
    "a sentence that is none": ("fairfed", lambda c: c["claims"][0].update(says=[]), r": claims.s3.4.adult.rows.says is \[\]"),
    "a printed number": (
        "fairfed",
        lambda c: c["claims"][0].update(printed=1),
        ": claims.s3.4.adult.rows.printed is 1, and must be a",
    ),
    "digits without end": ("fairfed", lambda c: c["claims"][0].update(printed="9" * 5000), "9+' is not a printed number"),
    "a name": ("fairfed", lambda c: c["labels"].update({7: "x"}), ": a name in labels is 7, and must be a text"),
    "a command": ("fairfed", lambda c: c.update(command="{x}"), ": command has braces other than {results}"),
    "half a fall": ("fairfed", lambda c: formula(c, fall=["t3.*"]), "is not well formed, see not enough values"),
    "spread": ("fair-fate", lambda c: claim(c, kind="level").update(sd="O.1"), "'O.1' is not a printed number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_broken_card_says_what_is_wrong_in_one_sentence(mistake: str) -> None:
    paper, change, message = MISTAKES[mistake]
    with pytest.raises(FairFLError, match=message) as caught:
        check(cards.parse(broken(paper, change)))
    said = str(caught.value)
    assert said.endswith((".", "?")) and "\n" not in said


def test_unknown_papers_and_unreadable_cards() -> None:
    with pytest.raises(FairFLError, match="There is no paper 'fedfair'; choose one of: .*fairfed"):
        cards.load("fedfair")
    with pytest.raises(FairFLError, match="not YAML"):
        cards.parse("a: [")
    for text in ("[" * 5000, "paper: 2026-13-45"):
        with pytest.raises(FairFLError):
            cards.parse(text)


def test_a_card_is_named_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"paper: 7", b"\xff"):
        (tmp_path / "odd").mkdir(exist_ok=True)
        (tmp_path / "odd" / "card.yml").write_bytes(content)
        monkeypatch.setattr("fairfl_book.cards.card.FOLDER", tmp_path)
        cards.text.cache_clear()
        with pytest.raises(FairFLError, match=f"{tmp_path.name}/odd/card.yml"):
            cards.load("odd")
    cards.text.cache_clear()


def test_an_entry_without_a_margin_says_where_to_add_one() -> None:
    card = cards.parse(broken("fairfed", lambda c: c["margins"].pop("acc")))
    with pytest.raises(
        FairFLError, match="fairfed.t1.adult.acc.alpha0.1.local is judged by a margin, and the card has none for acc: add it"
    ):
        _ = Case(card, card.entries["fairfed.t1.adult.acc.alpha0.1.local"], Results(), "paper").margin


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("-0.12", Fraction(-12, 100), Fraction(1, 100)),
        ("32,561", 32561, 1),
        ("98.9%", Fraction(989, 1000), Fraction(1, 1000)),
        ("+7%", Fraction(7, 100), Fraction(1, 100)),
        ("0.0", 0, Fraction(1, 10)),
        ("5%", Fraction(1, 20), Fraction(1, 100)),
        ("1.000", 1, Fraction(1, 1000)),
    ],
)
def test_reading_a_printed_number(text: str, value: Fraction, unit: Fraction) -> None:
    assert cards.number(text) == value
    assert cards.unit(text) == unit


def test_sentences_have_the_labels_and_selections_the_keys() -> None:
    claim = {"id": "{m}.{x}", "kind": "level", "printed": "0.5", "select": {"method": "{m}"}, "says": "{m} beats {x}",
             "each": {"m": ["fedavg", "other"], "x": ["a"]}}  # fmt: skip
    made = little.card({**claim, "results": little.RUNS, "metric": "up"}, labels={"fedavg": "(1) FedAvg", "a": "A (b)"}).entries
    assert [(e.id, e.says, e.spec["select"]["method"]) for e in made.values()] == [
        ("little.fedavg.a", "FedAvg beats A (b)", "fedavg"), ("little.other.a", "other beats A (b)", "other")]  # fmt: skip

"""The FairFed card against sums taken from a separate reading of the paper, and the loader against broken cards."""

from collections import Counter
from fractions import Fraction

import pytest
import yaml

from fairfl_lite import papers
from fairfl_lite.errors import FairFLError

CARD = papers.load("fairfed")

# Per table, of the numbers times `scale`: sums of rows, sums of columns, and the sum weighted by 31 row + column + 1,
# which two exchanged cells would change. Percentages of Table 8 count as whole numbers.
CHECKSUMS = {
    "t1": (
        1000,
        [7532, 7521, 7515, 7504, -1312, -510, -461, -361, -1695, -1435, -1403, -1342],
        [2477, 2609, 2629, 2734, 2733, 1630, 1704, 1692, 1666, 1679],
        -614934,
    ),
    "t2": (
        1000,
        [7532, 7521, 7504, 7504, -1312, -510, -457, -361, 443, 454, 363, 394],
        [3300, 3393, 3375, 3268, 3227, 2546, 2618, 2535, 2467, 2346],
        1623571,
    ),
    "t3": (1000, [636, 628, 609, 660], [3192, -252, -407], 120073),
    "t4": (1000, [202, 462, 525, 564], [2249, -272, -224], 100357),
    "t6": (
        1,
        [7258, 38085, 9817, 8579, 18481],
        [5054, 31123, 5054, 31123, 3994, 939, 3994, 939],
        5146808,
    ),
    "t7": (1, [4384, 4216, 4529, 8224, 4696], [19755, 6294], 1790973),
    "t8": (1, [2321, 2027, 932], [1560, 1200, 220, 360, 80, 825, 167, 735, 133], 140277),
}


def printed(table: str) -> list[list[str]]:
    return [[CARD.entries[i].printed for i in line] for line in CARD.grids[table].ids]


@pytest.mark.parametrize("table", CHECKSUMS)
def test_printed_cells_have_the_sums_of_a_second_reading(table: str) -> None:
    scale, rows, columns, weighted = CHECKSUMS[table]
    cells = [[Fraction(cell.rstrip("%")) * scale for cell in line] for line in printed(table)]
    assert [sum(line) for line in cells] == rows
    assert [sum(column) for column in zip(*cells, strict=True)] == columns
    assert sum(x * (31 * i + j + 1) for i, line in enumerate(cells) for j, x in enumerate(line)) == weighted


def test_printed_digits_are_kept() -> None:
    decimals = {t: sum(len(cell.partition(".")[2]) for line in printed(t) for cell in line) for t in ("t1", "t2")}
    assert decimals == {"t1": 359, "t2": 351}
    assert CARD.entries["fairfed.t1.adult.spd.alpha0.5.local"].printed == "-0.12"
    assert CARD.entries["fairfed.t2.compas.std_acc.alpha5000.fedavg"].printed == "0.0"
    assert CARD.entries["fairfed.t8.rn-day.female_share"].printed == "82%"


def test_every_cell_has_an_entry() -> None:
    cells = {name: sum(map(len, grid.ids)) for name, grid in CARD.grids.items()}
    assert cells == {"t1": 120, "t2": 120, "t3": 12, "t4": 12, "t6": 40, "t7": 10, "t8": 27}
    ids = [i for grid in CARD.grids.values() for line in grid.ids for i in line]
    assert len(set(ids)) == len(ids) == 341
    entry = CARD.entries["fairfed.t1.adult.eod.alpha0.1.fairfed"]
    assert (entry.printed, entry.where, entry.kind) == ("-0.002", "Table 1", "value")
    assert entry.spec["baseline"] == "fairfed.t1.adult.eod.alpha0.1.fedavg"


NUMBERS_OF_THE_TEXT = """
    98.9% 5% 62% 1% 73% 2% 0.3% 27% 15% 40% 60% 0.825 0.83 2.5% 20% -0.062 -0.050 2.6% 0.567 0.556 -0.199 0.004
    32,561 6,167 12 2013 2014 1,664,500 51 3,064 195,665 26% 96% 1,560 30% 70% 43 10
"""


@pytest.mark.parametrize("number", NUMBERS_OF_THE_TEXT.split())
def test_every_number_of_the_text_has_an_entry(number: str) -> None:
    assert any(e.printed == number and not e.keys for e in CARD.entries.values())


def test_entries_are_whole() -> None:
    for entry in CARD.entries.values():
        assert entry.where and entry.says and entry.notebook.startswith("notebooks/fairfed/")
        assert "{" not in entry.id + entry.says + str(entry.printed)
    kinds = Counter(e.kind for e in CARD.entries.values())
    assert set(kinds) == set(papers.RULES)


def test_orderings_show_the_cells_they_speak_of() -> None:
    assert CARD.entries["fairfed.fig2.global-over-local.alpha0.1"].printed == "-0.049 vs -0.070"
    assert CARD.entries["fairfed.s8.fairfed-over-fedavg"].printed == "-0.050 vs -0.062"


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("-0.12", Fraction(-12, 100), Fraction(1, 100)),
        ("32,561", 32561, 1),
        ("98.9%", Fraction(989, 1000), Fraction(1, 1000)),
        ("0.0", 0, Fraction(1, 10)),
        ("5%", Fraction(1, 20), Fraction(1, 100)),
    ],
)
def test_reading_a_printed_number(text: str, value: Fraction, unit: Fraction) -> None:
    assert papers.number(text) == value
    assert papers.unit(text) == unit


def broken(change: str) -> str:
    raw = yaml.safe_load((papers.FOLDER / "fairfed.yml").read_text(encoding="utf-8"))
    if change == "row":
        raw["tables"]["t3"]["rows"][0][-1] = "0.800 -0.062"
    elif change == "twice":
        raw["claims"].append(dict(raw["claims"][0]))
    elif change == "notebook":
        raw["claims"][0]["notebook"] = "nowhere"
    elif change == "field":
        raw["claims"][0]["colour"] = "red"
    elif change == "rule":
        raw["claims"][0]["rule"] = "ordering"
    elif change == "cell":
        raw["claims"].append(
            {"id": "x", "where": "x", "kind": "arithmetic", "printed": "1", "says": "x", "notebook": "idea"}
            | {"sum": ["t1.nothing"]}
        )
    elif change == "derived":
        next(c for c in raw["claims"] if c["id"] == "t7.rows")["printed"] = "26,050"
    elif change == "missing":
        del raw["settings"]
    return yaml.safe_dump(raw, sort_keys=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("row", "3 cells"),
        ("twice", "used twice"),
        ("notebook", "names no notebook"),
        ("field", "unknown fields colour"),
        ("rule", "cannot be judged"),
        ("cell", "no cell t1.nothing"),
        ("derived", "t7.rows is said to come from printed cells"),
        ("missing", "lacks settings"),
    ],
)
def test_a_broken_card_says_what_is_wrong(change: str, message: str) -> None:
    with pytest.raises(FairFLError, match=message):
        papers.parse(broken(change))


def test_unknown_paper_and_unreadable_card() -> None:
    with pytest.raises(FairFLError, match="choose one of: .*fairfed"):
        papers.load("fedfair")
    with pytest.raises(FairFLError, match="not YAML"):
        papers.parse("a: [")

"""Judged claims: kept until what they depend on changes, one by one without judging the rest, and by misspelt names."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from little import RUNS, Save, exact, runs, table, text
from small import ROOT

from fairfl_book import cards, ledger
from fairfl_book.cards import card as reader
from fairfl_book.ledger import afresh, judge
from fairfl_book.ledger.claims import Claim, interval, shown
from fairfl_lite import imports, store
from fairfl_lite.errors import FairFLError

CELLS = {"base": "0.700±0.010", "ours": "0.800±0.010"}
LATER = {
    "id": "later",
    "kind": "ordering",
    "metric": "up",
    "results": "little/later",
    "better": {"method": "a"},
    "worse": {"method": "b"},
}
IDS = ["little.t.base", "little.t.base.sd", "little.t.ours", "little.t.ours.sd", "little.t.ours.effect", "little.later"]


def measured(gain: float = 0.1) -> pd.DataFrame:
    keys = {"metric": "up"}
    return runs(({**keys, "method": "base"}, exact(0.7, 0.01, 12)), ({**keys, "method": "ours"}, exact(0.7 + gain, 0.01, 12)))


@pytest.fixture
def write(save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A project whose one paper has a little card; call it to write the card anew, as an editor would before a new start."""
    shelf = tmp_path / "papers"
    shelf.mkdir()

    def forget() -> None:
        cards.load.cache_clear()
        cards.text.cache_clear()
        judge.card.cache_clear()

    def put(**fields: Any) -> None:
        (shelf / "little").mkdir(exist_ok=True)
        (shelf / "little" / "card.yml").write_text(text(LATER, **{"tables": {"t": table(CELLS)}, **fields}), encoding="utf-8")
        forget()

    with monkeypatch.context() as patched:
        patched.setattr(reader, "FOLDER", shelf)
        put()
        save(RUNS, measured())
        yield put
    forget()


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that were judged, in order."""
    asked: list[str] = []
    plain = judge.Judge.claim

    def counted(self: judge.Judge, entry: cards.Entry) -> Claim:
        asked.append(entry.id)
        return plain(self, entry)

    monkeypatch.setattr(judge.Judge, "claim", counted)
    return asked


def same(first: Claim, second: Claim) -> bool:
    pairs = zip(asdict(first).values(), asdict(second).values(), strict=True)
    return all(a == b and type(a) is type(b) or a != a and b != b for a, b in pairs)


def verdicts() -> dict[str, str]:
    return {c.id.removeprefix("little."): c.verdict for c in ledger.judged("little")}


def test_claims_are_judged_once(write: Callable[..., None], times: list[str]) -> None:
    first = {c.id: c for c in ledger.judged("little")}
    assert times == list(first) == IDS
    again = {c.id: c for c in ledger.judged()}
    assert times == IDS  # nothing more
    assert list(again) == IDS and all(same(first[i], again[i]) for i in IDS)  # in the order of the card, kept or not
    ours = again["little.t.ours"]
    assert ours.stand_in is False and isinstance(ours.seeds, int) and isnan(again["little.later"].measured)
    assert (store.root() / ".fairfl" / "ledger" / "little.json").is_file()


def test_another_card_is_judged_anew(write: Callable[..., None], times: list[str]) -> None:
    before = verdicts()
    write(tables={"t": table({**CELLS, "ours": "0.900±0.010"})})
    assert len(times) == len(IDS)
    after = verdicts()
    assert len(times) == 2 * len(IDS)
    assert (before["t.ours"], after["t.ours"]) == ("agrees", "differs")
    write(
        margins={m: {"margin": 0.2, "reason": "for a test"} for m in ("up", "down", "near")},
        tables={"t": table({**CELLS, "ours": "0.900±0.010"})},
    )
    assert verdicts()["t.ours"] == "agrees"


def test_other_results_are_judged_anew(write: Callable[..., None], save: Save, times: list[str]) -> None:
    assert verdicts()["t.ours.effect"] == "agrees"
    save(RUNS, measured(gain=0.0))
    assert verdicts()["t.ours.effect"] == "differs"
    assert verdicts()["later"] == "not yet measured"
    save("little/later", runs(({"metric": "up", "method": "a"}, [0.5, 0.601]), ({"metric": "up", "method": "b"}, [0.1, 0.2])))
    assert verdicts()["later"] == "confirmed"
    assert len(times) == 3 * len(IDS)
    save("other/runs", measured())  # of another paper
    verdicts()
    assert len(times) == 3 * len(IDS)


CODE = [
    "ledger/rules/level.py",
    "ledger/rules/spread.py",
    "ledger/rules/base.py",
    "ledger/numbers.py",
    "ledger/series.py",
    "ledger/judge.py",
    "cards/card.py",
]


@pytest.mark.parametrize("file", CODE)
def test_another_rule_is_judged_anew(
    write: Callable[..., None], times: list[str], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    verdicts()
    path = ROOT / "book" / "fairfl_book" / file
    plain = path.read_bytes()
    monkeypatch.setitem(imports._LOADED, path, plain + b"\n# a remark\n")
    verdicts()
    assert len(times) == len(IDS)  # a comment judges nothing
    monkeypatch.setitem(imports._LOADED, path, plain + b"\nCHANGED = True\n")
    verdicts()
    assert len(times) == 2 * len(IDS)


def test_every_rule_counts() -> None:
    known = set(imports.modules("fairfl_book.ledger.judge"))
    rules = {
        f"fairfl_book.ledger.rules.{f.stem}"
        for f in (ROOT / "book" / "fairfl_book" / "ledger" / "rules").glob("*.py")
        if f.stem != "__init__"
    }
    assert len(rules) > 10 and rules <= known


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"key": "other", "claims": {}}', b'{"claims": 3}', None]
)
def test_a_broken_file_is_as_if_there_were_none(write: Callable[..., None], times: list[str], content: bytes | None) -> None:
    first = {c.id: c for c in ledger.judged("little")}
    file = store.root() / ".fairfl" / "ledger" / "little.json"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert same(ledger.claim("little.t.ours"), first["little.t.ours"])
    again = {c.id: c for c in ledger.judged("little")}
    assert len(times) == 2 * len(IDS) + 1 and all(same(first[i], again[i]) for i in IDS)
    assert file.read_bytes() == whole  # and it is whole again


def test_a_file_that_lacks_claims_is_not_enough(write: Callable[..., None], times: list[str]) -> None:
    ledger.judged("little")
    file = store.root() / ".fairfl" / "ledger" / "little.json"
    kept = json.loads(file.read_text())
    kept["claims"] = [line for line in kept["claims"] if line["id"] != "little.t.ours"]
    file.write_text(json.dumps(kept))
    assert ledger.claim("little.t.ours").verdict == "agrees" and len(times) == len(IDS) + 1
    assert len(ledger.judged("little")) == len(IDS) and len(times) == 2 * len(IDS) + 1


def test_one_claim_is_judged_alone(write: Callable[..., None], times: list[str]) -> None:
    alone = ledger.claim("little.t.ours.effect")
    assert times == ["little.t.ours.effect"]
    assert not (store.root() / ".fairfl").exists()  # one is not kept: the others would seem judged
    kept = {c.id: c for c in ledger.judged("little")}
    assert same(alone, kept["little.t.ours.effect"])
    del times[:]
    assert same(ledger.claim("little.t.ours.effect"), alone) and times == []  # now it is read


def test_wrong_names_lead_to_the_nearest(write: Callable[..., None]) -> None:
    for ask, message in {
        lambda: ledger.claim("little.t.our"): r"There is no claim 'little\.t\.our'; the nearest id is little\.t\.ours\.$",
        lambda: ledger.claim("litle.t.ours"): r"the nearest id is little\.t\.ours\.$",
        lambda: ledger.claim("ours"): "There is no claim 'ours'; the nearest id is little",
        lambda: ledger.table("little.t1"): r"There is no table 'little\.t1'; the nearest is little\.t\.$",
        lambda: ledger.listing("little.zz"): r"No claim begins with 'little\.zz'; the nearest id is little\.",
        lambda: ledger.listing("litle.t"): "There is no paper 'litle'; choose one of: little",
        lambda: ledger.claims("litle"): "There is no paper 'litle'; choose one of: little",
        lambda: ledger.only("little", "agres"): "There is no verdict 'agres': did you mean 'agrees'?",
        lambda: ledger.only("little", "reproduced"): "There is no verdict 'reproduced'",
        lambda: afresh.remeasure("little.t.our"): r"the nearest id is little\.t\.ours\.$",
    }.items():
        with pytest.raises(FairFLError, match=message):
            ask()


def test_wrong_ids_of_the_papers_lead_to_the_nearest(save: Save) -> None:
    with pytest.raises(FairFLError, match=r"nearest id is fairfed\.t1\.adult\.eod\.alpha0\.1\.fairfed\."):
        ledger.claim("fairfed.t1.adult.eod.alpha0.1.fairfd")
    with pytest.raises(FairFLError, match="nearest is fairfed.t1"):
        ledger.table("fairfed.table1")


def test_a_claim_reads_as_a_sentence(save: Save) -> None:
    assert str(ledger.claim("fairfed.s9.acc-falls")) == (
        "fairfed.s9.acc-falls: FairFed costs 2.6% of the accuracy on TILES; printed 2.6%, ours 1.9%: does not hold"
    )


def test_a_verdict_reads_with_its_detail(write: Callable[..., None], save: Save) -> None:
    save(RUNS, measured(gain=0.2))
    assert str(ledger.claim("little.t.ours.effect")).endswith(
        "printed +0.100, ours 0.200 [0.200, 0.200]: differs (ours is 0.1 higher, a larger effect)"
    )
    assert str(ledger.claim("little.later")).endswith("; printed -, ours -: not yet measured")


@pytest.mark.parametrize(
    ("kind", "printed", "value", "wanted"),
    [
        ("level", "0.83", 0.8316, "0.832"),
        ("level", "40%", 0.1234, "12.3%"),
        ("ordering", "40%", 0.1234, "0.123"),  # gains stay in the units of the metric
        ("count", "32,561", 32561.0, "32,561"),
        ("count", "2013", 2013.0, "2013"),
        ("theorem", "", 1.5e15, "1.50e+15"),
        ("theorem", "", 3e-7, "3e-07"),
        ("level", "0.0", 0.0, "0.000"),
        ("count", "0", 0.0, "0"),
        ("level", "0.5", float("nan"), "-"),
    ],
)
def test_numbers_as_they_are_shown(kind: str, printed: str, value: float, wanted: str) -> None:
    claim = Claim("x", "x", "x", kind, "paper", "x", printed, measured=value, low=value, high=value)
    assert shown(claim, value) == wanted
    assert interval(claim) == ("" if value != value else f"[{wanted}, {wanted}]")


def test_the_stored_results_are_judged_by_every_rule_and_nothing_breaks(stored: dict[str, dict[str, Claim]]) -> None:
    """With the results of this project: every claim has a known verdict, numbers that fit each other, and its reason."""
    for paper, claims in stored.items():
        card = cards.load(paper)
        assert list(claims) == list(card.entries)
        asked = {id: entry.spec.get("metric") or entry.spec.get("select", {}).get("metric") for id, entry in card.entries.items()}
        yes_no = {id for id, metric in asked.items() if metric in card.yes_no}
        for c in claims.values():
            given = "by_construction" in card.entries[c.id].spec
            assert c.verdict in judge_words(c.rule) | ({"holds by construction"} if given else set()), c.id
            if given:  # a line that could not have failed, and has, is wrongly called so
                assert c.verdict in ("holds by construction", "not yet measured"), c.id
            assert (c.verdict == "cannot tell") <= bool(c.detail), c.id  # it says what would decide
            assert (c.verdict in ("not testable", "not yet measured")) <= bool(c.note or c.detail), c.id
            if c.low == c.low and c.rule != "share":
                assert c.low <= c.measured + 1e-12 and c.measured <= c.high + 1e-12, c.id
            if c.verdict in ("agrees", "differs", "confirmed", "reversed", "no effect") and c.rule not in ("draw", "share"):
                assert c.seeds > 1, c.id
            if c.power == c.power:
                judged_by_print = c.rule in ("level", "effect", "tie", "gain", "improvement")
                # A test at 5% says yes that often by chance. Exact intervals of shares are on the safe side, and never do.
                shares = c.id in yes_no
                assert (0 if judged_by_print or shares else 0.04) <= c.power <= 1, c.id
                assert (c.against == c.against) is judged_by_print, c.id
            if c.against == c.against:
                assert c.power <= c.against + 1e-9 <= 1 + 1e-9, c.id  # two sides are harder to pass than one


def judge_words(rule: str) -> set[str]:
    """What a rule may say."""
    always = {"not testable", "not yet measured"}
    if rule in ("ordering", "trend"):
        return always | {"confirmed", "reversed", "no effect", "cannot tell"}
    if rule in ("no gain", "at most"):
        return always | {"confirmed", "reversed", "cannot tell"}
    if rule in ("arithmetic", "mark", "count", "identity", "exists", "checked"):
        return always | {"holds", "does not hold"}
    return always | {"agrees", "differs", "cannot tell"}


def test_again_means_the_cell_and_the_baseline_of_its_column(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, list[str]]]] = []
    keys = {"dataset": "compas", "level": "0.5", "variant": "published", "read": "last", "metric": "sp_code", "selection": "test"}

    @dataclass
    class Small:
        name: str
        cells = [{"dataset": d, "level": lv, "method": m, "variant": "published"} for d in ("compas", "adult")
                 for lv in ("0.5", "1.0") for m in ("fedavg", "lr", "gr")]  # fmt: skip

        def frame(self, **only: list[str]) -> pd.DataFrame:
            asked.append((self.name, only))
            return runs(*(({**keys, "method": m}, exact(v, 0.001, 12)) for m, v in (("fedavg", 0.59), ("lr", 0.93), ("gr", 0.1))))

    monkeypatch.setattr("fairfl_book.experiments.catalogue.get", Small)
    ids = [f"fair-fate.t1.compas.sp.0.5.lr{end}" for end in ("", ".sd", ".effect")]
    found = [afresh.remeasure(id) for id in ids]
    assert [c.measured for c in found] == pytest.approx([0.93, 0.001, 0.34])
    only = {"dataset": ["compas"], "level": ["0.5"], "method": ["fedavg", "lr"], "variant": ["published"]}
    table = cards.load("fair-fate").entries[ids[0]].spec["results"]
    assert [what for name, what in asked if name == table] == [only] * 3
    assert not list(store.root().rglob("*.csv*"))  # nothing is stored
    for id in ("fair-fate.s5.3.split", "fair-fate.fig1.client10"):
        with pytest.raises(FairFLError, match="nothing to run again"):
            afresh.remeasure(id)


def test_the_ledger_as_csv(write: Callable[..., None], tmp_path: Path) -> None:
    written = pd.read_csv(ledger.to_csv(tmp_path / "ledger.csv"), dtype={"printed": str})
    assert tuple(written.columns) == ledger.COLUMNS and written["id"].tolist() == IDS
    frame = ledger.claims().set_index("id")
    assert written.set_index("id")["printed"].fillna("").to_dict() == frame["printed"].to_dict()
    assert np.allclose(written.set_index("id").loc[IDS, "measured"], frame.loc[IDS, "measured"], rtol=1e-5, equal_nan=True)

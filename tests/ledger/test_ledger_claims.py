"""The ledger over results files made by hand: the right rows are read, paired, judged and shown."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairfl_lite import ledger, papers, results
from fairfl_lite.errors import FairFLError

CARD = papers.load("fairfed")
Save = Callable[[str, pd.DataFrame], None]


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """An empty project; call it to put a result there."""
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))

    def put(name: str, frame: pd.DataFrame) -> None:
        results.save(f"fairfed/{name}", frame, parameters={}, seconds=1, command="test", datasets=())

    return put


def runs(*series: tuple[dict[str, object], list[float]], selection: str = "paper") -> pd.DataFrame:
    """One row per seed for each (keys, values)."""
    return pd.DataFrame(
        [{"selection": selection, **keys, "seed": s, "value": v} for keys, vs in series for s, v in enumerate(vs)]
    )


def as_printed(table: str, shift: Callable[[dict[str, str]], float] = lambda keys: 0.0) -> pd.DataFrame:
    """Results whose mean is the printed cell plus a shift, spread by .001 over six seeds."""
    spread = 0.001 * np.array([-1, 1, -1, 1, -1, 1])
    cells = [CARD.entries[i] for line in CARD.grids[table].ids for i in line]
    frames = [runs((dict(c.spec["select"]), list(float(papers.number(c.printed)) + shift(dict(c.keys)) + spread))) for c in cells]
    return pd.concat(frames, ignore_index=True)


def test_nothing_measured_says_what_to_run(save: Save) -> None:
    frame = ledger.claims("fairfed")
    assert list(frame.columns[:13]) == [
        "id", "paper", "where", "kind", "printed", "measured", "low", "high", "seeds", "verdict", "notebook", "note",
        "measured_validation",
    ]  # fmt: skip
    assert len(frame) == len(CARD.entries)
    cell = frame.set_index("id").loc["fairfed.t1.adult.eod.alpha0.1.fairfed"]
    assert cell["verdict"] == "not yet measured"
    assert cell["note"] == "results/fairfed/table1.csv is not there: run `fairfl paper fairfed/table1`"
    assert set(frame.loc[frame["where"] == "Table 4", "verdict"]) == {"not testable"}


def test_cells_equal_to_the_print_are_reproduced(save: Save) -> None:
    save("table1", as_printed("t1"))
    cells = ledger.claims("fairfed").query("where == 'Table 1'")
    assert set(cells["verdict"]) == {"reproduced"}
    assert cells["measured"].tolist() == pytest.approx([float(papers.number(p)) for p in cells["printed"]])
    assert set(cells["seeds"]) == {6}


def test_each_verdict_of_a_cell_and_the_validation_column(save: Save) -> None:
    shifts = {"0.1": -0.3, "0.2": 0.0, "0.5": 0.1, "10": -0.05}
    frame = as_printed("t1", lambda k: shifts.get(k["alpha"], 0.0) if k["method"] == "local" else 0.0)
    save("table1", pd.concat([frame, frame.assign(selection="validation", value=frame["value"] - 0.02)]))
    local = {a: ledger.claim(f"fairfed.t1.adult.acc.alpha{a}.local") for a in shifts}
    assert [c.verdict for c in local.values()] == ["direction only", "reproduced", "exceeds", "direction only"]
    assert local["0.1"].measured == pytest.approx(0.531)
    assert local["0.1"].measured_validation == pytest.approx(0.511)
    # printed -.070 beside FedAvg's -.184; ours -.370 beside -.184 moves the other way
    assert ledger.claim("fairfed.t1.adult.eod.alpha0.1.local").verdict == "not reproduced"
    # printed -.018, ours +.082; printed -.086, ours +.014: nearer to 0 from the other side
    turned = ledger.claim("fairfed.t1.compas.eod.alpha0.5.local")
    assert (turned.verdict, turned.note) == ("exceeds", "the sign is the opposite")


def test_table1_takes_beta_1_and_an_ambiguous_file_is_refused(save: Save) -> None:
    frame = as_printed("t1")
    other = frame[frame["method"] == "fairfed"].assign(beta=50.0, value=0.0)
    save("table1", pd.concat([frame, other]))
    assert ledger.claim("fairfed.t1.adult.acc.alpha0.1.fairfed").measured == pytest.approx(0.829)
    with pytest.raises(FairFLError, match="several values per seed"):
        ledger.claim("fairfed.s6.2.fairfed-over-local.adult.eod")


def test_orderings_are_paired_by_seed(save: Save) -> None:
    # A strong seed effect hides the gain of .02 from unpaired means; seed 5 of FedAvg is missing and is left out.
    base = np.array([-0.5, -0.1, -0.4, -0.2, -0.3, 0.0])
    keys = {"dataset": "adult", "alpha": 0.1, "metric": "eod"}
    save("table1", runs(({**keys, "method": "local"}, list(base + [0.02, 0.021, 0.019, 0.02, 0.02, 9.0])),
                        ({**keys, "method": "fedavg"}, list(base[:5]))))  # fmt: skip
    c = ledger.claim("fairfed.fig2.local-over-fedavg.alpha0.1")
    assert (c.verdict, c.seeds) == ("reproduced", 5)
    assert c.measured == pytest.approx(0.02)
    assert ledger.claim("fairfed.s4.local-no-gain.adult").verdict == "not reproduced"
    assert c.note == "read as larger is better: 0.020, reproduced"


def test_past_zero_the_two_readings_part(save: Save) -> None:
    keys = {"dataset": "adult", "alpha": 5000, "metric": "eod"}
    save("table1", runs(({**keys, "method": "global"}, [0.30, 0.31, 0.32]), ({**keys, "method": "local"}, [0.1, 0.11, 0.12])))
    c = ledger.claim("fairfed.fig2.global-over-local.alpha5000")
    assert c.verdict == "not reproduced" and c.measured == pytest.approx(-0.2)
    assert c.note == "read as larger is better: 0.200, reproduced"


def test_trend_over_beta(save: Save) -> None:
    # |EOD| falls by .1 and then .2 per level, so the slope of the score is (.3 - 0) / 2; accuracy does not move as claimed.
    series = []
    for beta, eod, acc in ((50, 0.1, 0.8), (1, -0.4, 0.8), (20, -0.3, 0.9)):
        keys = {"dataset": "adult", "method": "fairfed", "beta": beta}
        series += [({**keys, "metric": "eod"}, [eod] * 3), ({**keys, "metric": "acc"}, [acc] * 3)]
    save("figure3", runs(*series))
    fairer = ledger.claim("fairfed.fig3.fairness.adult")
    assert (fairer.verdict, fairer.measured) == ("reproduced", pytest.approx(0.15))
    assert ledger.claim("fairfed.fig3.accuracy.adult").verdict == "not reproduced"
    assert ledger.claim("fairfed.fig3.fairness.compas").note.startswith("results/fairfed/figure3.csv has no rows for")


def test_trend_of_a_gain(save: Save) -> None:
    series = []
    for alpha, local in ((0.1, -0.4), (0.5, -0.3), (10, -0.2)):
        keys = {"dataset": "adult", "alpha": alpha, "metric": "eod"}
        series += [({**keys, "method": "local"}, [local] * 2), ({**keys, "method": "global"}, [-0.2] * 2)]
    save("table1", runs(*series))
    c = ledger.claim("fairfed.fig2.local-declines")
    assert (c.verdict, c.measured) == ("reproduced", pytest.approx(0.1))


def test_mean_over_alpha_uses_seeds_that_have_every_level(save: Save) -> None:
    keys = {"dataset": "adult", "method": "fairfed", "metric": "eod"}
    save("figure10", runs(
        ({**keys, "clients": 5, "alpha": 0.1}, [-0.1, -0.1, -0.1]), ({**keys, "clients": 5, "alpha": 10}, [0.3, 0.3]),
        ({**keys, "clients": 10, "alpha": 0.1}, [-0.4, -0.4, 9.0]), ({**keys, "clients": 10, "alpha": 10}, [0.2, 0.2, 9.0]),
    ))  # fmt: skip
    c = ledger.claim("fairfed.fig10.eod")
    # mean |EOD| .2 with 5 clients, .3 with 10
    assert (c.seeds, c.measured, c.verdict) == (2, pytest.approx(0.1), "reproduced")


def test_figure_4_improvement_similarity_and_order(save: Save) -> None:
    keys = {"dataset": "adult", "metric": "eod"}
    save("figure4", runs(
        ({**keys, "method": "fedavg"}, [-0.19, -0.20, -0.21]), ({**keys, "method": "local"}, [-0.19, -0.20, -0.21]),
        ({**keys, "method": "fairfed"}, [-0.139, -0.146, -0.153]), ({**keys, "method": "global"}, [-0.1, -0.1, -0.1]),
    ))  # fmt: skip
    assert ledger.claim("fairfed.fig4.local-is-fedavg").verdict == "reproduced"
    fairfed = ledger.claim("fairfed.fig4.improves.fairfed")
    assert (fairfed.verdict, fairfed.measured) == ("reproduced", pytest.approx(0.27))
    assert ledger.claim("fairfed.fig4.improves.global").verdict == "exceeds"
    assert ledger.claim("fairfed.fig4.fairfed-over-global").verdict == "not reproduced"


def test_two_files_and_a_bound(save: Save) -> None:
    keys = {"dataset": "adult", "alpha": 0.2}
    fair = {**keys, "method": "fairfed", "fraction": 0.6}
    save("table1", runs(({**keys, "method": "fedavg", "metric": "acc"}, [0.83, 0.83])))
    save("figure5", runs(({**fair, "metric": "eod"}, [-0.30, -0.31])))
    save("figure9", runs(({**fair, "metric": "eod"}, [-0.10, -0.11]), ({**fair, "metric": "acc"}, [0.81, 0.81])))
    assert ledger.claim("fairfed.fig9.over-fig5.fraction0.6").measured == pytest.approx(0.2)
    bound = ledger.claim("fairfed.fig9.accuracy.fraction0.6")
    assert (bound.verdict, bound.measured) == ("reproduced", pytest.approx(0.02 / 0.83))


def test_counts_identities_and_draws(save: Save) -> None:
    save("counts", pd.DataFrame({"name": ["adult.rows.train_file", "adult.male.share"], "value": [32561, 0.675]}))
    save("identities", pd.DataFrame({"name": ["eq7.eod", "local_not_global"], "value": [1e-3, 0.4]}))
    draw = {"table": "t6", "dataset": "adult", "alpha": 0.1, "cell": "a0", "low": 100, "high": 5000, "median": 300}
    save("draws", pd.DataFrame([draw]))
    assert ledger.claim("fairfed.s3.4.adult.rows").verdict == "holds"
    assert ledger.claim("fairfed.t6.adult.share.sex").verdict == "does not hold"
    assert ledger.claim("fairfed.s3.4.compas.rows").verdict == "not yet measured"
    california = ledger.claim("fairfed.s8.california")
    assert california.verdict == "not testable" and "lacks California" in california.note
    assert ledger.claim("fairfed.s5.3.eq7").verdict == "does not hold"
    assert ledger.claim("fairfed.s4.local-not-global").verdict == "holds"
    inside, outside = (ledger.claim(f"fairfed.t6.adult.alpha0.1.a0.client{k}") for k in (0, 3))
    assert (inside.printed, inside.verdict, inside.measured) == ("269", "reproduced", 300)
    assert (outside.printed, outside.verdict) == ("43", "not reproduced")


def test_arithmetic_needs_no_run(save: Save) -> None:
    verdicts = ledger.claims("fairfed").query("kind == 'arithmetic'").set_index("id")
    failed = verdicts.index[verdicts["verdict"] == "does not hold"].tolist()
    assert failed == ["fairfed.s8.improves", "fairfed.s9.acc-falls", "fairfed.t6.adult.rows-text"]
    got = verdicts["measured"]
    assert got["fairfed.s6.2.improves.adult.fairfed"] == pytest.approx(1 - 0.002 / 0.184)
    assert got["fairfed.s8.improves"] == pytest.approx(1 - 0.050 / 0.062)
    assert got["fairfed.s9.acc-falls"] == pytest.approx(1 - 0.556 / 0.567)
    assert got["fairfed.t8.rn-night.y0_share"] == pytest.approx(347 / 609)
    assert got["fairfed.t7.rows"] == pytest.approx(0.8 * 32561)
    assert "allows 17.9% to 20.8%" in verdicts.loc["fairfed.s8.improves", "note"]
    assert "1.1 points" in verdicts.loc["fairfed.s9.acc-falls", "note"]
    assert verdicts.loc["fairfed.s9.female", "verdict"] == "not testable"
    assert got["fairfed.s9.female"] == pytest.approx(1200 / 1560)


def test_a_stand_in_is_shown_but_not_judged(save: Save) -> None:
    save("table4", as_printed("t4"))
    c = ledger.claim("fairfed.t4.tiles.eod.fedavg")
    assert (c.verdict, c.measured) == ("not testable", pytest.approx(-0.199))
    assert "stand-in" in c.note


def test_table_shows_printed_ours_and_verdict(save: Save) -> None:
    shifts = {"0.1": -0.3, "0.5": 0.1}
    save("table1", as_printed("t1", lambda k: shifts.get(k["alpha"], 0.0) if k["method"] == "local" else 0.0))
    view = ledger.table("fairfed.t1")
    page = view._repr_html_()
    for verdict in ("reproduced", "direction only", "exceeds", "not reproduced"):
        assert f'<abbr title="{verdict}">{ledger.SYMBOLS[verdict]}</abbr>' in page
        assert f"{ledger.SYMBOLS[verdict]} {verdict} " in page
    assert page.count("<td ") == 120
    assert '<th scope="col" colspan="5">COMPAS</th>' in page
    assert "overflow-x:auto" in page and "rgba(" in page
    assert page == ledger.table("fairfed.t1")._repr_html_()
    text = repr(view).splitlines()
    assert "-0.184 -0.184 ✓" in next(line for line in text if line.startswith("EOD FedAvg"))
    assert text[-1].startswith("✓ reproduced 1")


@pytest.mark.parametrize("name", [f"fairfed.{t}" for t in CARD.grids])
def test_every_table_has_all_its_cells(save: Save, name: str) -> None:
    grid = CARD.grids[name.partition(".")[2]]
    page = ledger.table(name)._repr_html_()
    assert page.count("<td ") == sum(map(len, grid.ids))
    assert page.count("<tr>") == len(grid.rows) + len(grid.column_keys)
    for verdict in {ledger.claim(i).verdict for i in (grid.ids[0][0], grid.ids[-1][-1])}:
        assert verdict in page


def test_listing_and_summary_and_csv(save: Save, tmp_path: Path) -> None:
    listing = ledger.listing("fairfed.s9")
    assert "fairfed.s9.acc-falls" in repr(listing) and "≠ does not hold" in listing._repr_html_()
    summary = ledger.summary("fairfed")
    assert summary["all"].sum() == len(CARD.entries)
    assert summary.loc[("fairfed", "Table 8", "arithmetic"), "holds"] == 15
    written = pd.read_csv(ledger.to_csv(tmp_path / "ledger.csv"), dtype={"printed": str})
    assert written["id"].tolist() == ledger.claims()["id"].tolist()
    assert written["printed"].fillna("").tolist() == ledger.claims()["printed"].tolist()


def test_wrong_names_lead_to_the_nearest(save: Save) -> None:
    with pytest.raises(FairFLError, match=r"nearest id is fairfed\.t1\.adult\.eod\.alpha0\.1\.fairfed\."):
        ledger.claim("fairfed.t1.adult.eod.alpha0.1.fairfd")
    with pytest.raises(FairFLError, match="nearest is fairfed.t1"):
        ledger.table("fairfed.table1")
    with pytest.raises(FairFLError, match="No claim begins with"):
        ledger.listing("fairfed.zz")
    with pytest.raises(FairFLError, match="There is no paper"):
        ledger.claims("nopaper")


def test_a_claim_reads_as_a_sentence(save: Save) -> None:
    assert str(ledger.claim("fairfed.s9.acc-falls")) == (
        "fairfed.s9.acc-falls: FairFed costs 2.6% of the accuracy on TILES; printed 2.6%, ours 1.9%: does not hold"
    )


def test_gains_stay_in_the_units_of_the_metric(save: Save) -> None:
    keys = {"dataset": "adult", "alpha": 0.2, "metric": "eod"}
    save("table1", runs(({**keys, "method": "local"}, [-0.2, -0.2])))
    save("figure5", runs(({**keys, "method": "fairfed", "fraction": 0.4}, [-0.1, -0.1])))
    assert "printed 40%, ours 0.100 [0.100, 0.100]: reproduced" in str(ledger.claim("fairfed.fig5.needs-40"))


def test_the_file_that_is_missing_is_the_one_named(save: Save) -> None:
    keys = {"dataset": "adult", "alpha": 0.2, "metric": "eod"}
    save("figure5", runs(({**keys, "method": "fairfed", "fraction": 0.4}, [-0.1, -0.1])))
    note = ledger.claim("fairfed.fig5.needs-40").note
    assert note == "results/fairfed/table1.csv is not there: run `fairfl paper fairfed/table1`"

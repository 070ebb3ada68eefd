"""The RankFF card against a second reading, and its claims over made-up results in the shape of the real ones."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from little import Save, runs

from fairfl_book import cards, ledger
from fairfl_book.cards import Entry
from fairfl_book.ledger.afresh import needs

CARD = cards.load("rankff")

# Per table, times 10,000: sums of rows, sums of columns, and the sum weighted by 31 row + column + 1, which two
# exchanged cells would change.
CHECKSUMS = {
    "t1": (
        [657390, 657390, 723760, 791250, 791250, 787490, 808640, 808640, 809640],
        [41300, 765800, 55500, 5972850],
        911317850,
    ),
    "t2": (
        [461669, 461231, 468727, 466976, 467179, 471049, 468578, 467991, 473392],
        [5247, 831900, 10395, 3359250],
        538978797,
    ),
}


def as_printed(*tables: str, shift: Callable[[Entry], float] = lambda entry: 0.0) -> pd.DataFrame:
    """Three seeds for every cell with the printed mean, plus a shift, and nearly no spread."""
    cells = [CARD.entries[i] for t in tables for line in CARD.grids[t].ids for i in line]
    spread = 1e-4 * np.array([-1, 0, 1])
    return runs(*((dict(e.spec["select"]), float(cards.number(e.printed)) + shift(e) + spread) for e in cells))


@pytest.mark.parametrize("table", CHECKSUMS)
def test_printed_cells_have_the_sums_of_a_second_reading(table: str) -> None:
    rows, columns, weighted = CHECKSUMS[table]
    ids = CARD.grids[table].ids
    cells = [[10_000 * Fraction(CARD.entries[i].printed) for i in line] for line in ids]
    assert [sum(line) for line in cells] == rows
    assert [sum(column) for column in zip(*cells, strict=True)] == columns
    assert sum(x * (31 * i + j + 1) for i, line in enumerate(cells) for j, x in enumerate(line)) == weighted


def test_every_cell_has_an_entry_and_those_of_mnist_two() -> None:
    assert {name: sum(map(len, grid.ids)) for name, grid in CARD.grids.items()} == {"t1": 36, "t1r": 18, "t2": 36}
    fixed, random = (CARD.entries[f"rankff.{t}.mnist.high.rankff.beta"] for t in ("t1", "t1r"))
    keys = {"dataset": "mnist", "instance": "high", "method": "rankff", "metric": "beta", "models": "all"}
    assert fixed.spec["select"] == keys | {"reading": "fixed"}
    assert random.spec["select"] == keys | {"reading": "random"}
    assert (fixed.whose, random.whose) == ("paper", "ours") and random.spec["note"].startswith("our question")
    for i in (i for line in CARD.grids["t1r"].ids for i in line):
        assert CARD.entries[i].printed == CARD.entries[i.replace("t1r", "t1")].printed
    assert CARD.entries["rankff.t2.cifar10.low.rankff.sum"].printed == "37.540"
    assert CARD.printed_seeds == 1


@pytest.mark.parametrize("number", ["4%", "15%", "13%", "100", "200", "10", "8", "4", "2"])
def test_every_number_of_the_text_has_an_entry(number: str) -> None:
    assert any(e.printed == number and not e.keys for e in CARD.entries.values())


def test_what_is_ours_says_so() -> None:
    for entry in CARD.entries.values():
        if ".ours." in entry.id:
            assert entry.whose == "ours" and entry.spec["note"].startswith("ours"), entry.id


def test_every_statement_of_the_paper_has_its_entry() -> None:
    text = " ".join(e.where for e in CARD.entries.values() if e.kind == "theorem" and "not_testable" not in e.spec)
    names = ("Theorem 3.1", "Theorem 3.2", "Theorem 4.1", "Theorem 4.2", "Theorem 4.3", "Lemma 1", "Lemma 2", "Lemma 3",
             "Claim 1", "Claim 2", "Proposition 1", "Example 1", "Example 2", "Appendix A")  # fmt: skip
    assert [name for name in names if name not in text] == []


def test_the_gains_of_the_trends_are_those_of_the_cells() -> None:
    trends = [e for e in CARD.entries.values() if e.id.startswith("rankff.s6.2.especially")]
    assert len(trends) == 8
    for entry in trends:
        _, _, _, _, table, dataset, method = entry.id.split(".")
        sums = {m: [cards.number(CARD.entries[f"rankff.{table}.{dataset}.{i}.{m}.sum"].printed) for i in entry.spec["order"]]
                for m in ("rankff", method)}  # fmt: skip
        gains = [a - b for a, b in zip(sums["rankff"], sums[method], strict=True)]
        assert [cards.number(p) for p in entry.printed.split(",")] == gains, entry.id


def test_the_bounds_on_heterogeneity_are_where_the_theorems_stop_improving() -> None:
    bounds = [e for e in CARD.entries.values() if e.id.startswith("rankff.s1.below")]
    assert len(bounds) == 18
    for entry in bounds:
        n, m = {"mnist": (10, 100), "cifar10": (100, 100)}[entry.spec["select"]["dataset"]]
        h = float(cards.number(entry.printed))
        bound = {"md": h, "fd": np.sqrt(2 * (n - 1) * h / m), "ed": (n - 1) * h / m}[entry.spec["select"]["distance"]]
        assert bound == pytest.approx(1 - 1 / n), entry.id


def test_arithmetic_of_the_paper(save: Save) -> None:
    frame = ledger.claims("rankff").query("kind == 'arithmetic'").set_index("id")
    frame.index = frame.index.str.removeprefix("rankff.")
    failed = frame[frame["verdict"] == "does not hold"]
    assert set(failed.index[failed["whose"] == "paper"]) == {"s1.agents.mnist", "s6.2.beta.t1.fedavg", "s6.2.beta.t1.corefed"}
    assert {
        "appB.edges", "ex1.always", "appC.positive", "appA.L", "lemma2.any", "appD.thm4.1", "appD.thm4.3",
        "ours.average.md.plain", "alg1.step.mnist", "alg1.step.cifar10", "alg1.grid.mnist", "alg1.grid.cifar10",
        "s6.1.models.mnist", "s6.1.models.cifar10", "t1.rank", "s6.2.welfare.t1.fedavg", "s6.2.welfare.t1.corefed",
    } <= set(failed.index)  # fmt: skip
    assert set(frame["verdict"]) == {"holds", "does not hold", "holds by construction"}
    got = frame["measured"]
    assert got["s6.2.beta.t1.fedavg"] == pytest.approx(5 / 6)  # a tie for CIFAR-10, I_low
    assert got["t1.rank"] == pytest.approx(7 / 9)
    assert got["alg1.grid.mnist"] == pytest.approx(1 / 3)  # 0.19 is 6/32 = 0.1875, 0.39 and 0.07 are none
    assert got["t2.spread.cifar10"] == pytest.approx(0.001)
    assert got["s1.random.independent.10"] == pytest.approx(0.9**10)


def test_runs_like_the_print_agree(save: Save) -> None:
    save("rankff/discrete", as_printed("t1", "t1r"))
    save("rankff/continuous", as_printed("t2"))
    cells = ledger.claims("rankff").query("rule == 'level'").set_index("id")
    sums = cells.index.str.contains("cifar10") & cells.index.str.endswith(".sum")
    assert set(cells.loc[~sums, "verdict"]) == {"agrees"}
    assert set(cells.loc[sums, "verdict"]) == {"not testable"}
    assert cells["measured"].tolist() == pytest.approx([float(p) for p in cells["printed"]])
    assert "printed sums of 57 to 71" in " ".join(cells.loc["rankff.t1.cifar10.high.rankff.sum", "note"].split())
    assert "p = 10 and J = 100" in " ".join(cells.loc["rankff.t2.cifar10.high.rankff.beta", "note"].split())


@pytest.mark.parametrize(
    ("cell", "shift", "verdict"),
    # three runs 1e-4 apart and one printed: t(2) = 2.91999 at 95%, 2.91999 * 1e-4 * sqrt(1/3 + 1) = .00034; half a unit .005
    [
        ("mnist.mid.rankff.beta", 0.0146, "agrees"),  # .02 less half a unit and the noise
        ("mnist.mid.rankff.beta", 0.0147, "cannot tell"),
        ("mnist.mid.rankff.beta", 0.0254, "differs"),
        ("mnist.mid.rankff.beta", -0.0254, "differs"),
        ("mnist.mid.rankff.sum", -0.1946, "agrees"),  # .2 less the same
        ("mnist.mid.rankff.sum", -0.1947, "cannot tell"),
        ("mnist.mid.fedavg.sum", -0.2054, "differs"),
    ],
)
def test_the_margin_is_that_of_the_metric(save: Save, cell: str, shift: float, verdict: str) -> None:
    save("rankff/discrete", as_printed("t1", shift=lambda e: shift if e.id.endswith(cell) else 0.0))
    assert ledger.claim(f"rankff.t1.{cell}").verdict == verdict


def test_a_printed_number_is_one_run(save: Save) -> None:
    # with 3,000 runs of spread .002 their one still spreads: t = 1.64533, 1.64533 * .002 * sqrt(1/3000 + 1) = .00329
    keys = dict(CARD.entries["rankff.t1.mnist.mid.fedavg.beta"].spec["select"])
    spread = 0.002 * np.tile([-1, 1], 1500) * np.sqrt(2999 / 3000)
    for shift, verdict in ((0.0117, "agrees"), (0.0118, "cannot tell")):
        save("rankff/discrete", runs((keys, 0.6 + shift + spread)))
        assert ledger.claim("rankff.t1.mnist.mid.fedavg.beta").verdict == verdict


def test_the_note_has_the_rank_and_the_set_without_repeated_angles(save: Save) -> None:
    keys = dict(CARD.entries["rankff.t1.mnist.low.fedavg.beta"].spec["select"])
    series = (keys, [0.17, 0.17]), ({**keys, "metric": "rank"}, [0.16, 0.16]), ({**keys, "models": "distinct"}, [0.2, 0.2])
    save("rankff/discrete", runs(*series))
    note = ledger.claim("rankff.t1.mnist.low.fedavg.beta").note
    assert note.endswith("as a rank 0.160; without the repeated angles 0.200")


def theory(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    names = ("statement", "how", "instances", "violations", "worst")
    return pd.DataFrame([dict(zip(names, row, strict=True), n=2, m=4) for row in rows])


def test_a_statement_holds_when_no_instance_goes_against_it(save: Save) -> None:
    save("rankff/theory", theory(
        ("theorem-3.1", "all", 24.0, 0, 0.5), ("theorem-3.1", "random", 576.0, 0, 1.0),
        ("theorem-3.1-exact", "all", 1e30, 0, 1.0),
        ("lemma-2", "all", 0.0, 0, 0.0), ("lemma-3", "all", 7.0, 0, float("nan")),
    ))  # fmt: skip
    fine = ledger.claim("rankff.thm3.1")
    assert (fine.verdict, fine.measured) == ("holds", 600)
    assert fine.note.endswith("600 instances, 0 against it, worst 1")
    assert fine.source == "results/rankff/theory.csv: statement theorem-3.1"
    assert str(ledger.claim("rankff.ours.thm3.1")).endswith("ours 1.00e+30: holds")
    assert ledger.claim("rankff.lemma3").note.endswith("7 instances, 0 against it")
    assert ledger.claim("rankff.lemma2").verdict == "not yet measured"  # no instance is no check
    assert "has no rows for statement theorem-4.1" in ledger.claim("rankff.thm4.1").note
    assert ledger.claim("rankff.s5.2.penalty").verdict == "not testable"


def test_the_printed_statement_is_judged_by_its_fine_print_the_corrected_one_by_the_rest(save: Save) -> None:
    save("rankff/theory", theory(
        ("claim-2", "fine print: a plateau", 5.0, 1, 0.25), ("claim-2", "achieved", 20.0, 0, 1.0),
        ("claim-2", "all", 1.0, 0, 1.0), ("lemma-1", "achieved", 3.0, 0, 1.0),
    ))  # fmt: skip
    printed, corrected = ledger.claim("rankff.claim2"), ledger.claim("rankff.claim2.achieved")
    assert (printed.verdict, printed.measured) == ("does not hold", 5)
    assert printed.note.endswith("5 instances, 1 against it, worst 0.25")
    assert (corrected.verdict, corrected.measured) == ("holds", 21)
    assert corrected.source == "results/rankff/theory.csv: statement claim-2, how !fine print*"
    without = ledger.claim("rankff.lemma1.any")
    assert without.verdict == "not yet measured" and "has no instance of statement lemma-1, how fine print*" in without.note


def test_orderings_of_the_methods(save: Save) -> None:
    keys = {"dataset": "mnist", "reading": "fixed", "models": "all", "instance": "high"}
    made = {"fedavg": (0.9, 6.0), "corefed": (0.4, 7.0), "rankff": (0.4, 6.5)}
    save("rankff/discrete", runs(*(({**keys, "method": m, "metric": k}, [v] * 5)
                                   for m, both in made.items() for k, v in zip(("beta", "sum"), both, strict=True)),
                                 ({**keys, "method": "rankff", "metric": "literal"}, [0.42] * 5),
                                 ({**keys, "method": "rankff", "metric": "k"}, [0.4] * 5)))  # fmt: skip
    wanted = {
        "s6.2.beta.t1.mnist.fixed.high.fedavg": "confirmed",
        "s6.2.beta.t1.mnist.fixed.high.corefed": "no effect",
        "s6.2.welfare.t1.mnist.fixed.high.fedavg": "confirmed",
        "s6.2.welfare.t1.mnist.fixed.high.corefed": "reversed",
        "s6.comparable.t1.mnist.high": "confirmed",
        "t1.corefed.beta.mnist.fixed.high": "differs",
        "s1.smallest.mnist.fixed.high": "differs",
        "s6.2.beta.t1.mnist.random.high.fedavg": "not yet measured",
    }
    assert {i: ledger.claim(f"rankff.{i}").verdict for i in wanted} == wanted
    tie = ledger.claim("rankff.s6.2.beta.t1.mnist.fixed.high.corefed")
    assert (tie.measured, tie.printed, tie.detail) == (0, "0.39 vs 0.97", "the same in every run")


def test_instances_are_taken_in_the_order_of_the_card(save: Save) -> None:
    # the gain over FedAvg is 1, 2, 6 for low, mid, high: slope (6 - 1) / 2; by the alphabet it would be (2 - 6) / 2
    series = []
    for instance, gain in (("high", 6.0), ("low", 1.0), ("mid", 2.0)):
        keys = {"dataset": "mnist", "instance": instance, "metric": "sum"}
        series += [({**keys, "method": "rankff"}, [gain, 1 + gain * 1.01]), ({**keys, "method": "fedavg"}, [0.0, 1.0])]
    save("rankff/continuous", runs(*series))
    c = ledger.claim("rankff.s6.2.especially.t2.mnist.fedavg")
    assert (c.verdict, c.measured, c.printed) == ("confirmed", pytest.approx(2.5 * 1.005), "0.31, 0.35, 0.42")
    optimum = ledger.claim("rankff.s6.2.optimum.mnist")
    assert (optimum.verdict, optimum.measured) == ("agrees", 1)
    save("rankff/continuous", runs(*series[:4]))
    assert "has no instance mid" in ledger.claim("rankff.s6.2.especially.t2.mnist.fedavg").note


def heterogeneity(**distances: tuple[list[float], list[float]]) -> pd.DataFrame:
    """Of each distance the values of I_low and I_high on MNIST."""
    keys = {"dataset": "mnist", "reading": "fixed", "models": "all", "how": "max"}
    return runs(*(({**keys, "distance": d, "instance": i}, v) for d, both in distances.items()
                  for i, v in zip(("low", "high"), both, strict=True)))  # fmt: skip


def test_separation_is_relative_to_the_most_heterogeneous_instance(save: Save) -> None:
    save(
        "rankff/heterogeneity",
        heterogeneity(md=([0.2, 0.3], [0.8, 0.6]), fd=([5.0, 4.0], [40.0, 16.0]), ed=([100.0, 150.0], [160.0, 150.0])),
    )
    # low / high by seed: md 1/4, 1/2; fd 1/8, 1/4; ed 5/8, 1
    first = ledger.claim("rankff.fig1.effective.fd.md.mnist")
    assert first.measured == pytest.approx((1 / 8 + 1 / 4) / 2)
    assert ledger.claim("rankff.fig1.effective.md.ed.mnist").measured == pytest.approx((3 / 8 + 1 / 2) / 2)
    needed = needs(CARD, "rankff.fig1.effective.fd.md.mnist")
    assert {(n["distance"], n["instance"]) for n in needed} == {(d, i) for d in ("fd", "md") for i in ("low", "high")}


def test_a_guarantee_improves_where_heterogeneity_is_small_enough(save: Save) -> None:
    save(
        "rankff/heterogeneity",
        heterogeneity(md=([0.5, 0.6], [0.95, 0.951]), fd=([4.4, 4.5], [20.0, 20.1]), ed=([8.0, 8.1], [60.0, 62.0])),
    )
    found = [ledger.claim(f"rankff.s1.below.mnist.{i}.{d}").verdict for i in ("low", "high") for d in ("md", "fd", "ed")]
    assert found == ["cannot tell", "cannot tell", "confirmed", *["reversed"] * 3]


def test_a_share_of_the_models_is_read_from_the_facts(save: Save) -> None:
    shares = {"mnist.fixed.high": 0.4, "mnist.fixed.low": 0.95, "mnist.fixed.mid": 0.9}
    save("rankff/facts", pd.DataFrame([{"name": f"{k}.utility_share", "value": v} for k, v in shares.items()]))
    assert [ledger.claim(f"rankff.s1.random.utility.{k}").verdict for k in shares] == ["does not hold", "holds", "does not hold"]


def test_the_longest_step_decides(save: Save) -> None:
    keys = {"dataset": "mnist", "instance": "high", "method": "rankff", "J": 100}
    series = (({**keys, "p": p}, [1 / p, 1.1 / p]) for p in (1.0, 3.0, 10.0))
    save("rankff/steps", runs(*series, ({**keys, "J": 10, "p": 30.0}, [9.0, 9.0])))
    c = ledger.claim("rankff.alg2.p.rankff.high")
    assert (c.verdict, c.measured) == ("confirmed", pytest.approx(1.05 * (1 - 0.1) / 2))


def test_what_was_trained_once_is_one_run(save: Save) -> None:
    """Twenty draws of test images for one trained set of models have no interval that includes training."""
    frame = as_printed("t1").assign(training=0)
    save("rankff/discrete", pd.concat([frame.assign(seed=frame["seed"] + 3 * k) for k in range(7)]))
    c = ledger.claim("rankff.t1.mnist.mid.rankff.beta")
    assert (c.seeds, c.verdict, c.detail) == (1, "cannot tell", "one run has no interval")
    assert c.measured == pytest.approx(0.19)

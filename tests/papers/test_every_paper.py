"""What holds for the card of every paper alike, before anything is measured for it."""

import pytest
from little import Save

from fairfl_book import cards, ledger

LEVELS = {"e2fl": 24 + 32, "effl": 32 + 32 + 32 + 96 + 16 + 16, "rankff": 18}
"""Printed levels that are not testable: those on FEMNIST, those of Tables 1 to 6 on data not to be had, the sums of CIFAR-10."""
READS = {
    "e2fl": "t1.e2fl.group.variance table1, t1.e2fl.group.variance.effect table1, t1c.e2fl.up facts, t3.train.male table3, "
    "t4.iid.e2fl.eod table4, t5.conv1 table5, s2.borda theory, s6.1.equity table1, s6.2.styles.loss.avg styles, "
    "fig4.loss.oneshot.300 inference",
    "effl": "t1.adult.effl.bias table1, t1.adult.effl.bias.effect table1, t2.synthetic.fcfl.acc table2, "
    "t5.b.adult.bias.0.01 table5, t6.adult.stage-1.bias table6-plain, t6n.adult.stage-1.bias table6, t1s.effl.bias splits, "
    "s5.2.satisfaction.t2.adult.fcfl table2, s5.2.falls.adult.measured table1, stand-in.t4.keeps.zero table1, "
    "stand-in.t3.bias table3, errata.lattice.ddof1 facts, prop1 facts",
    "fair-fate": "t1.compas.sp.0.5.fedavg.sd fresh, s5.4.share.test.compas fresh",
    "fairfed": "t1.adult.eod.alpha0.1.fairfed table1, t1.adult.eod.alpha0.1.fairfed.effect table1",
    "rankff": "t1.mnist.high.rankff.beta discrete, t1.mnist.high.rankff.beta.effect discrete, "
    "t2.mnist.high.rankff.sum continuous, thm3.1 theory, s1.random.utility.mnist.fixed.high facts, "
    "fig1.fd.mnist.high heterogeneity, alg2.p.rankff.high steps, s6.2.optimum.mnist continuous",
}
"""Entries of all kinds, each with the results that it should read."""


@pytest.mark.parametrize("paper", cards.names())
def test_nothing_measured_says_what_to_run(paper: str, save: Save) -> None:
    frame = ledger.claims(paper).set_index("id")
    assert tuple(frame.reset_index().columns) == ledger.COLUMNS and frame.index.tolist() == list(cards.load(paper).entries)
    missing = frame[frame["verdict"] == "not yet measured"]["note"]
    named = missing.str.extract(r"results/(\S+)\.csv is not there: run `fairfl paper (\S+)`")
    assert (named[0] == named[1]).all()
    for id, name in map(str.split, READS[paper].split(", ") if paper in READS else ()):
        assert named.loc[f"{paper}.{id}", 0] == f"{paper}/{name}"
    untested = frame[frame["verdict"] == "not testable"]
    assert (untested["note"] != "").all()
    assert paper not in LEVELS or (untested["kind"] == "level").sum() == LEVELS[paper]

"""The readings of FAIR-FATE's grid, by hand: two settings, three seeds, and two baselines."""

import numpy as np
import pandas as pd
import pytest

from fairfl_lite.errors import FairFLError
from papers.fair_fate import readings
from papers.fair_fate import tables as fair_fate

pytestmark = pytest.mark.slow

close = np.testing.assert_allclose
CELL = ("compas", "0.5", "eo")
AMONG = ("fedavg", "lr")
OTHERS = [(1, 2), (0, 2), (0, 1)]
SCORES = ("acc", "eo_code", "val_acc", "val_eo_code")
# method, lambda0, and for each of three seeds: acc, EO, and both on validation rows
RUNS = [
    ("fair-fate-eo", 0.5, [(0.8, 0.8, 0.8, 0.6), (0.8, 1.0, 0.8, 0.9), (0.8, 0.3, 0.8, 0.0)]),  # EO 0.7, validation 0.5
    ("fair-fate-eo", 0.1, [(0.8, 0.6, 0.8, 0.7), (0.8, 0.5, 0.8, 0.6), (0.8, 0.7, 0.8, 0.5)]),  # EO 0.6, validation 0.6
    ("fedavg", np.nan, [(0.8, 0.4, 0.8, 0.5), (0.8, 0.4, 0.8, 0.5), (0.8, 0.4, 0.8, 0.5)]),
    ("lr", np.nan, [(0.8, 0.1, 0.8, 0.3), (0.8, 0.2, 0.8, 0.3), (0.8, 0.8, 0.8, 0.3)]),
]  # fmt: skip


def made(**changed: float) -> readings.Readings:
    """The grid above; `changed` sets a column of FAIR-FATE's lambda0 = 0.5, the second setting in order."""
    none = dict.fromkeys(fair_fate.SETTING, np.nan)
    keys = {"dataset": "compas", "level": "0.5", "variant": "published"}
    lines = [{**keys, **none, "method": method, "lambda0": value, "seed": s, **dict(zip(SCORES, scores, strict=True))}
             for method, value, each in RUNS for s, scores in enumerate(each)]  # fmt: skip
    frame = pd.DataFrame(lines)
    for on in ("", "val_"):  # momentum is chosen by the mean of the three, here all alike
        frame[f"{on}sp_code"] = frame[f"{on}eqo_code"] = frame[f"{on}eo_code"]
    for column, value in changed.items():
        frame.loc[frame["lambda0"] == 0.5, column] = value
    return readings.Readings(frame.iloc[::-1], seeds=3)


def test_settings_and_seeds_stand_in_their_order():
    grid = made()
    assert grid.blocks() == [CELL] and grid.blocks("printed") == []
    close(grid.runs(CELL, "eo_code"), [[0.6, 0.5, 0.7], [0.8, 1.0, 0.3]])
    close(grid.runs(CELL, "seed", "lr"), [[0, 1, 2]])


def test_test_rows_and_validation_rows_pick_different_settings():
    grid = made()
    assert (grid.pick(CELL), grid.pick(CELL, "val_")) == (1, 0)
    close(grid.read(CELL, "test", "eo_code"), [0.8, 1.0, 0.3])
    close(grid.read(CELL, "validation", "eo_code"), [0.6, 0.5, 0.7])
    close(grid.read(CELL, "no choice", "eo_code"), [0.7, 0.75, 0.5])


def test_a_setting_may_give_up_as_much_as_the_sacrifice_and_no_more():
    assert made(acc=0.8 - fair_fate.SACRIFICE + 0.001).pick(CELL) == 1
    assert made(acc=0.8 - fair_fate.SACRIFICE - 0.001).pick(CELL) == 0


def test_other_runs_leave_the_reported_seed_out():
    grid = made()
    # validation EO without seed 0, 1, 2: first setting 0.55, 0.6, 0.65; second 0.45, 0.3, 0.75
    assert [grid.pick(CELL, "val_", seeds=seen) for seen in OTHERS] == [0, 0, 1]
    close(grid.read(CELL, "other runs", "eo_code"), [0.6, 0.5, 0.3])
    # test EO without seed 0, 1, 2: first setting 0.6, 0.65, 0.55; second 0.65, 0.55, 0.9
    assert [grid.pick(CELL, seeds=seen) for seen in OTHERS] == [1, 0, 1]
    close(grid.read(CELL, readings.CROSSED, "eo_code"), [0.8, 0.5, 0.3])


def test_the_rival_is_chosen_in_the_same_way_and_taken_off():
    grid = made()
    # test EO of LR is 0.37, without seed 0, 1, 2 it is 0.5, 0.45, 0.15; of FedAvg always 0.4
    assert grid.best_rival(CELL, "", range(3), among=AMONG) == ("fedavg", 0)
    assert [grid.best_rival(CELL, "", seen, among=AMONG)[0] for seen in OTHERS] == ["lr", "lr", "fedavg"]
    close(grid.rival(CELL, readings.CROSSED, "eo_code", among=AMONG), [0.1, 0.2, 0.4])
    close(grid.gain(CELL, "test", AMONG), [0.4, 0.6, -0.1])
    close(grid.gain(CELL, "validation", AMONG), [0.2, 0.1, 0.3])
    close(grid.gain(CELL, "other runs", AMONG), [0.2, 0.1, -0.1])
    close(grid.gain(CELL, readings.CROSSED, AMONG), [0.7, 0.3, -0.1])
    close(grid.gain(CELL, "no choice", AMONG), [0.3, 0.35, 0.1])
    with pytest.raises(FairFLError, match="reading"):
        grid.gain(CELL, "train")


def test_what_the_best_setting_gives_back():
    x = np.array([[0.6, 0.5, 0.7], [0.9, 0.8, 0.1]])  # means 0.6 and 0.6
    # winners without seed 0, 1, 2: 0.6 > 0.45, 0.65 > 0.5, 0.55 < 0.85, read as 0.6, 0.5, 0.1
    close(readings.curse(x), 0.6 - 0.4)


def test_a_table_splits_into_seeds_and_rest():
    x = np.array([[0.1, 0.3, 0.5], [0.2, 0.2, 0.5]])  # residuals -0.05, 0.05, 0 and their opposites
    seed, rest, p = readings.parts(x)
    close([rest, seed], [4 * 0.05**2 / 2, np.var([0.15, 0.25, 0.5], ddof=1) - 0.005 / 2])
    close(p, 1, atol=1e-6)
    equal = np.tile([0.2, 0.4], (3, 1))
    close(readings.best_by_luck(equal, np.random.default_rng(0), 5), 0, atol=1e-12)


def test_near_constant_is_nearly_nobody_or_nearly_everybody():
    shares = np.array([0.01, 0.02, 0.5, 0.98, 0.99])
    assert shares[readings.constant(shares)].tolist() == [0.01, 0.99]

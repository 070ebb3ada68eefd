"""EFFL's stored results held to each other, to the card and to their rows; and what is measured, to scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, recall_score

from fairfl_book import cards, results
from papers.effl import tables as effl

COLUMNS = ["acc", "acc_std", "bias", "bias_std"]
BIAS = {"table1": "tpsd", "table2": "apsd"}
WHERE, SETTING = ["dataset", "bias", "method"], ["rate", "other"]


def wide(name: str, keys: list[str]) -> pd.DataFrame:
    """A stored table with a row for each run and a column for each metric."""
    return results.load(f"effl/{name}").pivot(index=[*keys, "seed"], columns="metric", values="value")


def close(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other, check_names=False, check_exact=False, rtol=1e-7)


def test_the_path_ends_where_table_1_is() -> None:
    """The rounds were taken one by one for the figure and all at once for the table."""
    last = wide("path", ["dataset", "round"]).xs(effl.ROUNDS, level="round")[COLUMNS]
    whole = wide("table1", ["dataset", "method"]).xs("effl", level="method")[COLUMNS]
    assert len(last) == 25 and len(whole) == 45  # ten runs for the figure, twenty for the table, five on Adult
    close(last, whole.loc[last.index])


def test_the_path_and_the_stages_with_gradients_as_they_are_end_where_their_rows_of_table_1_are() -> None:
    whole = wide("table1", ["dataset", "method"]).xs("effl-plain", level="method")
    last = wide("path-plain", ["dataset", "round"]).xs(effl.ROUNDS, level="round")[COLUMNS]
    assert len(last) == 15 and len(whole) == 25  # ten and twenty runs on the synthetic data, five on Adult
    close(last, whole.loc[last.index, COLUMNS])
    stages = wide("table6-plain", ["dataset", "stage"]).xs("all", level="stage")
    close(stages, whole[stages.columns])
    normalised = wide("table1", ["dataset", "method"]).xs("effl", level="method").loc[whole.index]
    assert (whole["acc"] - normalised["acc"]).abs().max() > 1e-3  # another reading, another model


def test_all_three_stages_of_table_6_are_effl_of_table_1() -> None:
    found = wide("table6", ["dataset", "stage"]).xs("all", level="stage")
    close(found, wide("table1", ["dataset", "method"]).xs("effl", level="method")[found.columns])


def test_one_stage_alone_ends_elsewhere() -> None:
    found = wide("table6", ["dataset", "stage"])["acc"].unstack("stage")
    assert all((found[stage] - found["all"]).abs().max() > 1e-4 for stage in ("1", "2", "3"))


@pytest.mark.parametrize("name", BIAS)
def test_columns_follow_from_the_clients_and_marks_from_the_budgets_of_the_card(name: str) -> None:
    card, frame = cards.load("effl"), wide(name, ["dataset", "method"])
    for dataset, rows in frame.groupby("dataset"):
        said = {"eicu-stand-in": "eicu"}.get(dataset, dataset)
        met = pd.DataFrame(index=rows.index)
        for metric in ("acc", "bias"):
            clients = rows[[c for c in rows if c.startswith(f"{metric}_") and c[-1].isdigit() and "std" not in c]].dropna(axis=1)
            assert clients.shape[1] == card.settings["clients"][said]
            for ddof, column in ((1, f"{metric}_std"), (0, f"{metric}_std0")):
                assert np.allclose(rows[column], clients.std(axis=1, ddof=ddof), atol=1e-9)
            assert np.allclose(rows[metric], clients.mean(axis=1), atol=1e-9)
        for budget, metric in (("b", "bias"), ("vl", "acc_std"), ("vb", "bias_std")):
            most = float(card.entries[f"effl.budgets.t{name[-1]}.{said}.{metric}"].printed)
            met[budget] = rows[metric] <= most
            assert (rows[f"met_{budget}"] == met[budget]).all()
        assert (rows["met_all"] == met.all(axis=1)).all()


@pytest.mark.parametrize("name", BIAS)
def test_accuracies_of_adults_doctorates_are_whole_numbers_of_181(name: str) -> None:
    rows = wide(name, ["dataset", "method"]).loc["adult"]
    sizes = effl.repeated("adult", [0]).shards["test"].sizes[0]
    assert sorted(sizes) == [181, 16_100]
    for client, size in enumerate(sizes, 1):
        right = rows[f"acc_{client}"] * size
        assert np.allclose(right, right.round(), atol=1e-4)


def test_methods_that_do_not_look_at_the_bias_are_as_accurate_in_both_tables() -> None:
    one, two = (wide(name, ["dataset", "method"])[["acc", "acc_std"]] for name in BIAS)
    unaware = [name for name, learner in effl.LEARNERS.items() if not learner.biased]
    assert {"fedavg", "q-ffl", "ditto", "fedmdfg"} <= set(unaware)
    close(one.loc[(slice(None), unaware), :], two.loc[(slice(None), unaware), :])


@pytest.mark.parametrize("reading", ["", "-plain"])
def test_what_was_chosen_is_best_on_validation_rows_among_all_that_was_tried(reading: str) -> None:
    tried, chosen = results.load(f"effl/grid{reading}"), results.load(f"effl/chosen{reading}")
    accuracy = tried[(tried.part == "validation") & (tried.metric == "acc")]
    runs = accuracy.groupby([*WHERE, *SETTING])["value"].agg(["mean", lambda values: values.isna().any()])
    runs.columns = ["mean", "lost"]
    assert len(chosen) == len(chosen[WHERE].drop_duplicates()) == len(tried[WHERE].drop_duplicates())
    for row in chosen.itertuples():
        place = (row.dataset, row.bias, row.method)
        others = runs.loc[place]
        kept = others[~others.lost]
        assert row.validation == pytest.approx(kept["mean"].max()) == pytest.approx(others.loc[(row.rate, row.other), "mean"])
        best = kept[kept["mean"] == kept["mean"].max()]
        assert (row.rate, row.other) == min(best.index)
        learner = effl.LEARNERS[row.method]
        assert set(others.index) == {(rate, other) for rate in learner.rates for other in learner.other}
    on_test = tried[tried.part == "test"].groupby([*WHERE, "metric", *SETTING])["value"].mean()
    for row in chosen.itertuples():
        for metric in COLUMNS:
            values = on_test[row.dataset, row.bias, row.method, metric]
            assert (getattr(row, f"{metric}_min"), getattr(row, f"{metric}_max")) == pytest.approx((values.min(), values.max()))


@pytest.mark.parametrize("bias", ["tpsd", "apsd"])
def test_what_is_measured_against_scikit_learn(bias: str) -> None:
    """Models at random on the synthetic data, client by client and group by group."""
    fed, to = effl.repeated("synthetic", range(3)), effl.Budgets(0.2, 0.1, 0.1)
    models = np.random.default_rng(3).normal(size=(3, fed.model.size)).astype(np.float32)
    found = effl.measured(effl.counted(fed, models), bias, to)
    shards = fed.shards["test"]
    for run, model in enumerate(models):
        accuracy, spread = [], []
        for client in range(shards.clients):
            rows = shards.rows(run, client)
            logit = fed.model.forward(torch.from_numpy(model), torch.from_numpy(shards.X[rows])).numpy()
            y, a, guess = shards.y[rows], shards.a[rows], logit > 0
            accuracy.append(accuracy_score(y, guess))
            of = [recall_score(y[a == g], guess[a == g]) if bias == "tpsd" else guess[a == g].mean() for g in (0, 1)]
            spread.append(np.std(of))
        wanted = [np.mean(accuracy), np.std(accuracy, ddof=1), np.mean(spread), np.std(spread, ddof=1)]
        assert [found[metric][run] for metric in COLUMNS] == pytest.approx(wanted, abs=1e-6)
        assert found["met_all"][run] == (wanted[1] <= to.vl and wanted[2] <= to.b and wanted[3] <= to.vb)
    assert len({tuple(found[metric].round(6)) for metric in COLUMNS}) == 4


def test_table_4_without_liars_is_table_1_on_the_stand_in() -> None:
    found = wide("table4", ["attack", "method"]).loc["none"]
    assert set(found.index.get_level_values("method")) == set(effl.PAPER)
    close(found, wide("table1", ["dataset", "method"]).loc["eicu-stand-in"].loc[found.index, found.columns])


def test_what_diverges_in_table_4_averages_models_that_are_enlarged_and_has_no_metric() -> None:
    rows = wide("table4", ["attack", "method"])
    lost = rows.isna()
    assert (lost.any(axis=1) == lost.all(axis=1)).all()
    averaged = [("enlarge", method) for method in ("ditto", "fairbatch", "fedavg")]
    assert sorted(set(rows.index[lost["acc"]].droplevel("seed"))) == averaged
    assert lost["acc"].sum() == len(averaged) * rows.index.get_level_values("seed").nunique()


def test_fedavg_under_zeros_by_a_second_computation() -> None:
    """In double precision, hospital by hospital: four of them send zeros, and the rest one step of gradient descent."""
    fed = effl.repeated("eicu-stand-in", [3])
    rate, _ = effl.settings("eicu-stand-in", "tpsd", "fedavg")
    one = fed.one()
    liars = effl.Attack("zero").liars(one, np.arange(one.n))
    assert liars.sum() == 4

    def rows(part: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        held, read = fed.shards[part], fed.inputs
        own = [held.rows(0, client) for client in range(fed.clients)]
        return [((held.X[i] - read.shift[0]) * read.scale[0], held.y[i], held.a[i]) for i in own]

    train, model = rows("train"), one.init_params().astype(float)
    honest = [own for own, lies in zip(train, liars, strict=True) if not lies]
    X, y = (np.concatenate([own[k] for own in honest]) for k in (0, 1))
    X, every = np.column_stack([X, np.ones(len(X))]), sum(len(y) for _, y, _ in train)
    for _ in range(
        effl.ROUNDS
    ):  # FedAvg weighs by rows: the honest models are their share of the model, less a step on their rows
        model = len(y) / every * model - rate / every * X.T @ (1 / (1 + np.exp(-X @ model)) - y)
    accuracy, bias = [], []
    for inputs, label, group in rows("test"):
        guess = np.column_stack([inputs, np.ones(len(inputs))]) @ model > 0
        accuracy.append(accuracy_score(label, guess))
        bias.append(np.std([recall_score(label[group == g], guess[group == g]) for g in (0, 1)]))
    stored = wide("table4", ["attack", "method"]).loc[("zero", "fedavg", 3)]
    wanted = [np.mean(accuracy), np.std(accuracy, ddof=1), np.mean(bias), np.std(bias, ddof=1)]
    assert stored[COLUMNS].tolist() == pytest.approx(wanted, abs=2e-3)  # a row or two of some hospital may turn over


def test_table_5_at_the_printed_budgets_is_effl_of_table_1() -> None:
    found, first = wide("table5", ["dataset", "budget", "level"]), wide("table1", ["dataset", "method"])
    same = {("adult", "b"), ("eicu-stand-in", "b"), ("eicu-stand-in", "vl"), ("eicu-stand-in", "vb")}
    tried = set()
    for (dataset, budget, level), rows in found.groupby(["dataset", "budget", "level"]):
        if level == getattr(effl.PRINTED[dataset, "tpsd"], budget):
            seeds = first.loc[(dataset, "effl")].index
            close(rows.droplevel([0, 1, 2]).loc[seeds], first.loc[(dataset, "effl"), rows.columns])
            tried.add((dataset, budget))
    assert tried == same  # the others are not among the four levels


def test_marks_of_tables_3_and_5_and_of_other_splits_follow_from_their_budgets() -> None:
    card = cards.load("effl")
    printed = {"adult": "adult", "eicu-stand-in": "eicu"}
    of = {"b": "bias", "vl": "acc_std", "vb": "bias_std"}

    def marked(rows: pd.DataFrame, most: dict[str, float], clients: int) -> None:
        met = pd.DataFrame({budget: rows[metric] <= most[budget] for budget, metric in of.items()})
        for budget in of:
            assert (rows[f"met_{budget}"] == met[budget]).all()
        assert (rows["met_all"] == met.all(axis=1)).all()
        for metric in ("acc_std", "bias_std"):
            assert np.allclose(rows[metric], rows[f"{metric}0"] * np.sqrt(clients / (clients - 1)), rtol=1e-6, atol=1e-9)

    def budgets(dataset: str) -> dict[str, float]:
        return {b: float(card.entries[f"effl.budgets.t1.{printed[dataset]}.{metric}"].printed) for b, metric in of.items()}

    for (dataset, budget, level), rows in wide("table5", ["dataset", "budget", "level"]).groupby(["dataset", "budget", "level"]):
        marked(rows, budgets(dataset) | {budget: level}, card.settings["clients"][printed[dataset]])
    marked(wide("splits", ["method"]), budgets("adult"), 2)
    tried = results.load("effl/grid").query(
        "dataset == 'acsincome' and bias == 'tpsd' and method == 'fedavg' and part == 'validation'"
    )
    rate, other = effl.settings("acsincome", "tpsd", "fedavg")
    half = tried[(tried.rate == rate) & (tried.other == other)].groupby("metric")["value"].mean() / 2
    marked(wide("table3", ["method"]), {budget: half[metric] for budget, metric in of.items()}, 38)


def test_other_splits_of_adult_have_as_many_doctorates() -> None:
    """Read backwards from mean and spread, the less accurate client has whole numbers of 181."""
    rows = wide("splits", ["method"])
    assert set(rows.index.get_level_values("method")) >= {"fedavg", "fairreg", "fcfl", "effl", "effl-every"}
    right = [(rows["acc"] - side * rows["acc_std0"]) * size for side, size in ((1, 181), (-1, 16_100))]
    assert all(np.allclose(number, number.round(), atol=1e-3) for number in right)
    assert rows.loc["effl", "acc"].nunique() == 20  # another split, another number

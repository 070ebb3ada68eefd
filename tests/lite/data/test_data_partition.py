"""Splits and partitions: properties over random tables, and the layouts of FairFed's Tables 6 and 7."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairfl_lite import data
from fairfl_lite.data import Partition, Table
from fairfl_lite.errors import FairFLError


def make(n: int, seed: int = 0) -> Table:
    """A random table; the first four rows hold every (a, y), the first three every town."""
    rng = np.random.default_rng(seed)
    a, y = rng.integers(0, 2, (2, n)).astype(np.int8)
    town = rng.choice(["north", "south", "west"], n)
    a[:4], y[:4], town[:3] = (0, 0, 1, 1), (0, 1, 0, 1), ("north", "south", "west")
    return Table(
        name="toy",
        X=rng.standard_normal((n, 2)).astype(np.float32),
        y=y,
        a=a,
        features=("u", "v"),
        sensitive="group",
        columns={"town": town, "number": rng.integers(0, 3, n)},
        digest="toy",
    )


tables = st.builds(make, st.integers(60, 300), st.integers(0, 1000))
seeds = st.integers(0, 10_000)
alphas = st.sampled_from([0.1, 0.5, 10.0, 5000.0])
partitions = st.one_of(
    st.builds(Partition.dirichlet, alphas, st.integers(1, 6), st.sampled_from(["sensitive", "sensitive+label"])),
    st.builds(Partition.single_group, alphas, st.tuples(st.integers(1, 3), st.integers(1, 3))),
    st.builds(Partition.by_column, st.sampled_from(["town", "number"])),
    st.builds(Partition.random, st.integers(1, 30)),
)


@settings(deadline=None)
@given(tables, seeds, st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4]), st.sampled_from([0.0, 0.1, 0.5]))
def test_split_uses_every_row_once(table, seed, test, validation):
    parts = table.split(seed, test, validation)
    assert list(parts) == ["train", "validation", "test"]
    np.testing.assert_array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(len(table)))
    # Exact arithmetic in percent: no rounding error can move the floor.
    kept = len(table) * (100 - round(100 * test)) // 100
    assert len(parts["train"]) + len(parts["validation"]) == kept
    assert len(parts["validation"]) == kept * round(100 * validation) // 100
    np.testing.assert_array_equal(parts["test"], table.split(seed, test)["test"])


@pytest.mark.parametrize(("n", "train"), [(45_222, 36_177), (6_167, 4_933), (30, 24), (5, 4)])
def test_split_sizes(n, train):
    assert len(make(n).split(0)["train"]) == train


def test_split_refuses_a_test_fraction_of_one():
    with pytest.raises(FairFLError, match="fractions"):
        make(60).split(0, test=1.0)


@settings(deadline=None)
@given(tables, partitions, seeds, st.sampled_from([0.0, 0.25]))
def test_every_row_goes_to_exactly_one_client(table, partition, seed, validation):
    splits = table.split(seed, validation=validation)
    dealt = partition.clients(table, splits, seed, minimum=0)
    assert list(dealt) == list(splits)
    for split, rows in splits.items():
        assert len(dealt[split]) == len(partition.names(table))
        np.testing.assert_array_equal(np.sort(np.concatenate(dealt[split])), rows)


@settings(deadline=None)
@given(tables, partitions, seeds)
def test_every_split_is_cut_with_the_drawn_shares(table, partition, seed):
    splits = table.split(seed, validation=0.25)
    shares = partition.draw(table, splits, seed, minimum=0).proportions
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    cell, _ = partition.strata(table)
    dealt = partition.clients(table, splits, seed, minimum=0)
    for split, rows in splits.items():
        for c, expected in enumerate(shares):
            total = (cell[rows] == c).sum()
            for client, share in zip(dealt[split], expected, strict=True):
                assert abs((cell[client] == c).sum() - share * total) <= 1


@settings(deadline=None)
@given(tables, alphas, st.tuples(st.integers(1, 3), st.integers(1, 3)), seeds)
def test_single_group_clients_hold_one_group(table, alpha, blocks, seed):
    splits = table.split(seed)
    for clients in Partition.single_group(alpha, blocks).clients(table, splits, seed, minimum=0).values():
        assert all((table.a[rows] == 0).all() for rows in clients[: blocks[0]])
        assert all((table.a[rows] == 1).all() for rows in clients[blocks[0] :])


@settings(deadline=None)
@given(tables, seeds, st.sampled_from(["town", "number"]))
def test_by_column_recovers_the_column(table, seed, column):
    partition = Partition.by_column(column)
    dealt = partition.clients(table, table.split(seed), seed, minimum=0)
    for clients in dealt.values():
        for name, rows in zip(partition.names(table), clients, strict=True):
            assert set(table.columns[column][rows].astype(str)) <= {name}
    assert partition.names(table) == [str(value) for value in sorted(set(table.columns[column]))]


@settings(deadline=None)
@given(tables, st.integers(1, 80), seeds, st.sampled_from([0.0, 0.25]))
def test_random_chunks_are_equal_and_do_not_look_at_the_rows(table, clients, seed, validation):
    partition, splits = Partition.random(clients), table.split(seed, validation=validation)
    dealt = partition.clients(table, splits, seed, minimum=0)
    relabelled = replace(table, y=1 - table.y, a=np.zeros_like(table.a), columns={})
    other = partition.clients(relabelled, splits, seed, minimum=0)
    for split, rows in splits.items():
        sizes = [len(client) for client in dealt[split]]
        assert len(sizes) == clients and max(sizes) - min(sizes) <= 1 and sum(sizes) == len(rows)
        for first, second in zip(dealt[split], other[split], strict=True):
            np.testing.assert_array_equal(first, second)
    assert partition.names(table) == [str(client) for client in range(clients)]
    assert partition.draw(table, splits, seed, minimum=0).redraws == 0


def test_random_chunks_are_shuffled():
    """A row's client is uniform: over many seeds each row is at each of 4 clients a quarter of the time."""
    table, partition = make(80), Partition.random(4)
    everything = {"train": np.arange(80)}
    at = np.zeros((80, 4))
    for seed in range(400):
        for client, rows in enumerate(partition.clients(table, everything, seed)["train"]):
            at[rows, client] += 1
    # Each count is binomial(400, 1/4), standard deviation 8.7; the largest of 320 deviations stays below 5 of them.
    assert abs(at - 100).max() < 5 * np.sqrt(400 * 3 / 16)


@settings(deadline=None)
@given(tables, seeds)
def test_without_a_minimum_the_first_draw_is_kept(table, seed):
    partition, splits = Partition.dirichlet(0.1, 10, over="sensitive+label"), table.split(seed)
    drawn = partition.draw(table, splits, seed, minimum=0)
    assert drawn.redraws == 0 and drawn.proportions.shape == (4, 10)
    sizes = [len(rows) for rows in partition.clients(table, splits, seed, minimum=0)["train"]]
    assert sum(sizes) == len(splits["train"])


def test_without_a_minimum_some_clients_are_empty():
    table, partition = make(300), Partition.dirichlet(0.1, 10, over="sensitive+label")
    empty = [
        sum(len(rows) == 0 for rows in partition.clients(table, table.split(seed), seed, minimum=0)["train"])
        for seed in range(20)
    ]
    assert sum(map(bool, empty)) > 10 and max(empty) < 10
    with pytest.raises(FairFLError, match="training rows where 10 are asked"):
        Partition.random(30).clients(table, table.split(0), 0)


@settings(deadline=None)
@given(tables, partitions, seeds)
def test_same_seed_same_clients(table, partition, seed):
    splits = table.split(seed)
    once, again = (partition.clients(table, splits, seed, minimum=0) for _ in range(2))
    for split in splits:
        for first, second in zip(once[split], again[split], strict=True):
            np.testing.assert_array_equal(first, second)


def test_other_seed_other_clients():
    table, partition = make(300), Partition.dirichlet(10, 4)
    splits = table.split(0)
    first, second = (partition.clients(table, splits, seed, minimum=0)["train"] for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_test_rows_do_not_depend_on_a_validation_part():
    table, partition = make(300), Partition.dirichlet(0.5, 3)
    without, with_it = (partition.clients(table, table.split(7, validation=v), 7, minimum=0)["test"] for v in (0.0, 0.25))
    for first, second in zip(without, with_it, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 10.0, 5000.0])
def test_shares_follow_the_dirichlet_law(alpha):
    """For p ~ Dir(alpha) over K clients, E[sum p^2] = (alpha + 1) / (K alpha + 1)."""
    table, clients = make(60), 5
    partition, splits = Partition.dirichlet(alpha, clients), table.split(0)
    shares = np.array([partition.draw(table, splits, seed, minimum=0).proportions for seed in range(300)])
    expected = (alpha + 1) / (clients * alpha + 1)
    assert np.mean((shares**2).sum(axis=-1)) == pytest.approx(expected, abs=0.03)
    assert np.mean(shares, axis=(0, 1)) == pytest.approx(np.full(clients, 0.2), abs=0.04)


def test_alpha_5000_is_nearly_equal_and_alpha_0_1_is_not(adult):
    splits = adult.split(0)
    shares = {}
    for alpha in (0.1, 5000):
        clients = Partition.dirichlet(alpha, 5).clients(adult, splits, 0)["train"]
        counts = data.histogram(adult, clients).T.groupby("a").sum().T
        shares[alpha] = counts / counts.sum()
    assert (shares[5000] - 0.2).abs().to_numpy().max() < 0.02
    assert shares[0.1].to_numpy().max() > 0.6


def test_every_client_gets_the_minimum_and_redraws_are_counted(compas):
    partition, redraws = Partition.dirichlet(0.1, 5), []
    for seed in range(20):
        splits = compas.split(seed)
        redraws.append(partition.draw(compas, splits, seed).redraws)
        sizes = [len(rows) for rows in partition.clients(compas, splits, seed)["train"]]
        assert min(sizes) >= 10
        free = partition.draw(compas, splits, seed, minimum=0)
        assert free.redraws == 0
        if redraws[-1] == 0:
            np.testing.assert_array_equal(partition.draw(compas, splits, seed).proportions, free.proportions)
    assert 0 < sum(map(bool, redraws)) < 20


@pytest.mark.parametrize("partition", [Partition.dirichlet(1, 30), Partition.by_column("town"), Partition.single_group()])
def test_an_impossible_minimum_is_one_sentence(partition):
    table = make(60)
    with pytest.raises(FairFLError, match="training rows where 48 are asked"):
        partition.clients(table, table.split(0), 0, minimum=48)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: Partition.dirichlet(0, 5), "positive"),
        (lambda: Partition.dirichlet(float("nan"), 5), "positive"),
        (lambda: Partition.dirichlet(1, 0), "one client or more"),
        (lambda: Partition.dirichlet(1, 2, over="sensitive+labels"), "'sensitive[+]label'"),
        (lambda: Partition.by_column("twn").strata(make(60)), "'town'"),
    ],
)
def test_wrong_arguments_are_refused(call, hint):
    with pytest.raises(FairFLError, match=hint):
        call()


def test_histogram_counts_groups_and_labels(compas):
    rows = [np.arange(100), np.arange(100, 6_167), np.array([], dtype=np.int64)]
    counts = data.histogram(compas, rows, names=["few", "many", "none"])
    assert list(counts.index) == ["few", "many", "none"]
    assert counts.loc["none"].sum() == 0
    for a in (0, 1):
        for y in (0, 1):
            by_hand = sum(1 for i in range(100) if compas.a[i] == a and compas.y[i] == y)
            assert counts.loc["few", (a, y)] == by_hand
    assert counts.to_numpy().sum() == 6_167


def test_layout_of_table_7():
    """32,561 rows, two clients of women and three of men; Table 7 prints 26,049 rows, floor gives 26,048."""
    table = data.load("adult", rows="train")
    splits = table.split(0)
    counts = data.histogram(table, Partition.single_group().clients(table, splits, 0)["train"])
    assert counts.shape == (5, 4)
    assert (counts.loc[:1, 1] == 0).all(axis=None) and (counts.loc[2:, 0] == 0).all(axis=None)
    assert counts.to_numpy().sum() == 26_048
    women = 4_384 + 4_216
    spread = np.sqrt(26_048 * 0.2 * 0.33 * 0.67)
    assert abs(counts[0].to_numpy().sum() - women) < 4 * spread


@pytest.mark.parametrize("make", [lambda: Partition.dirichlet(0.1, 2.5), lambda: Partition.random(0),
                                  lambda: Partition.random(2.5), lambda: Partition(("label",), None, (3,)),
                                  lambda: Partition.single_group(clients=(2,)),
                                  lambda: Partition.single_group(clients=5)])  # fmt: skip
def test_impossible_numbers_of_clients_are_refused(make):
    with pytest.raises(FairFLError):
        make()

"""RankFF with finitely many models: the search, Algorithm 1 as printed, the baselines, and sets of models that resume."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairfl_lite import data, rankings
from fairfl_lite.data import Images
from fairfl_lite.data.rotation import deal, rotate
from fairfl_lite.errors import FairFLError
from fairfl_lite.methods.rankff import Chosen, discrete, literal, nearest
from fairfl_lite.models import CNN
from fairfl_lite.streams import stream
from papers.rankff import model_sets
from papers.rankff import tables as rankff
from papers.rankff.model_sets import ModelSet

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 9))
TIED = SIZES.flatmap(lambda shape: arrays(float, shape, elements=st.integers(-2, 2).map(float)))


@st.composite
def strict(draw: st.DrawFn, most: int = 12) -> np.ndarray:
    """Utilities [agent, model], none twice for an agent."""
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, most))
    return np.array([draw(st.permutations(range(m))) for _ in range(n)], float)


def every_k(u: np.ndarray) -> tuple[int, set[int]]:
    """The smallest k for which the agents' k best meet, and where they meet, by trying k = 1, 2, ..."""
    for k in range(1, u.shape[1] + 1):
        best = [{c for c, value in enumerate(row) if value >= sorted(row, reverse=True)[k - 1]} for row in u]
        if meet := set.intersection(*best):
            return k, meet
    raise AssertionError("all models are among everybody's m best")


@given(TIED)
def test_discrete_finds_what_trying_every_k_finds(u):
    k, meet = every_k(u)
    chosen = discrete(u)
    assert chosen.k == k
    assert chosen.model == min(meet, key=lambda c: (-u[:, c].sum(), c))


@given(strict())
def test_without_ties_k_is_the_smallest_largest_position(u):
    n, m = u.shape
    chosen, at = discrete(u), rankings.positions(u)
    assert chosen.k == at.max(0).min() == at[:, chosen.model].max() == rankings.beta(rankings.ranks_of(u)) + 1
    assert chosen.k <= rankings.worst_case(n, m) + 1
    assert len(chosen.tried) <= np.ceil(np.log2(m)) and set(chosen.tried) <= set(range(1, m))


@given(TIED)
def test_ties_enlarge_the_k_best_and_never_shrink_them(u):
    """C_i holds models with fewer than k better ones; a position counts the equal ones too."""
    chosen, at = discrete(u), rankings.positions(u)
    better = (u[:, None, :] > u[:, :, None]).sum(2)
    assert chosen.k == better.max(0).min() + 1 <= at.max(0).min()
    assert better[:, chosen.model].max() < chosen.k


def test_a_model_that_is_there_twice_costs_one_place():
    """Models 0 and 2 are the same: everybody's best, k = 1. Counted with >=, each is in the second place."""
    u = np.array([[3.0, 1.0, 3.0], [5.0, 4.0, 5.0]])
    assert discrete(u) == Chosen(0, 1, (1,))
    assert rankings.positions(u).max(0).tolist() == [2, 3, 2]
    assert rankings.ranks_of(u).max(0).tolist() == [0, 2, 1]


def test_of_the_common_models_the_largest_sum_wins_and_not_the_best_position():
    """At k = 2 the agents share 0 and 1. Model 1 has the larger sum; its tie with 2 puts it in place 3, 0 is in place 2."""
    u = np.array([[5.0, 4.0, 4.0, 1.0], [3.0, 100.0, 2.0, 1.0]])
    assert every_k(u) == (2, {0, 1}) and discrete(u) == Chosen(1, 2, (2, 1))
    assert rankings.positions(u).max(0)[:2].tolist() == [2, 3]


def test_k_is_what_agents_are_asked_for_and_no_more_than_seven_times():
    """m = 100, two agents whose first 37 models are 37 others: they meet at k = 38, found by halving."""
    chosen = discrete(swapped(37))
    assert (chosen.k, chosen.tried) == (38, (50, 25, 37, 43, 40, 38))


def swapped(block: int, m: int = 100) -> np.ndarray:
    """Two agents: one likes 0, 1, 2, ...; for the other the second block of models comes before the first."""
    first = np.arange(m)
    second = np.concatenate([first[block : 2 * block], first[:block], first[2 * block :]])
    return -np.stack([np.argsort(first), np.argsort(second)]).astype(float)


def test_algorithm_1_by_hand():
    """r: 1 feasible, 0 not, 1/2 feasible, 1/4 not, 3/8 (37 models) not, 7/16 (43) feasible, 13/32 (40) feasible, and stop.

    The best is 38; line 18 reads C at 25/64, which was never tried.
    """
    assert literal(swapped(37)) == Chosen(-1, 40, (100, 0, 50, 25, 37, 43, 40))


def test_algorithm_1_misses_full_agreement():
    u = np.tile(-np.arange(100.0), (3, 1))
    assert (discrete(u).k, discrete(u).model) == (1, 0)
    assert literal(u) == Chosen(-1, 3, (100, 0, 50, 25, 12, 6, 3))


def test_algorithm_1_where_nothing_but_all_models_will_do():
    u = -rankings.ranks_of_orders(rankings.example1(100, 100)).astype(float)
    assert discrete(u).k == 100
    assert literal(u) == Chosen(-1, 100, (100, 0, 50, 75, 87, 93, 96))


@given(strict(most=40))
def test_algorithm_1_stops_at_a_coarse_grid_and_line_18_never_has_a_set(u):
    """It tries multiples of 1/2^(H-1), H = floor(log2 m), and ends at an odd multiple of 1/2^H, which it has not tried."""
    m = u.shape[1]
    grid = 2 ** max(0, int(np.log2(m)) - 1)
    coarse = min(k for k in (j * m // grid for j in range(1, grid + 1)) if k >= discrete(u).k)
    found = literal(u)
    assert found.k == coarse and found.tried[:2] == (m, 0)[: len(found.tried)]
    assert found.model == -1


LINE = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 0.0], [3.2, 0.0]], np.float32)


def named(*values: float) -> np.ndarray:
    """Four agents: two name model 0 with utility 1, two name model 1 with these utilities."""
    u = np.full((4, 4), -9.0)
    u[[0, 1], 0] = 1.0
    u[[2, 3], 1] = values
    return u


def test_baselines_by_hand():
    """FedAvg's average of 0, 0, 4, 4 is 2, nearest to 1. CoreFed weighs 1, 1, 4, 4: 32 / 10 = 3.2, which is there."""
    u = named(0.25, 0.25)
    assert nearest(u, LINE, "fedavg") == 2
    assert nearest(u, LINE, "corefed") == 3
    assert nearest(named(1.0, 1.0), LINE, "corefed") == 2  # equal utilities: FedAvg


def test_corefed_takes_a_negative_utility_as_the_floor():
    """1 / 0.05 = 20 twice: 160 / 42 = 3.81, nearest to 4; with a floor of 1/4 it is 3.2 again."""
    u = named(-3.0, -3.0)
    assert nearest(u, LINE, "corefed") == 1
    assert nearest(u, LINE, "corefed", floor=0.25) == 3


@pytest.mark.parametrize("ask", [discrete, literal, lambda u: nearest(u, LINE, "fedavg")])
@pytest.mark.parametrize("u", [np.zeros(4), np.zeros((0, 4)), np.zeros((4, 0)), np.array([[1.0, np.nan]])])
def test_utilities_with_gaps_are_refused(ask, u):
    with pytest.raises(FairFLError, match=r"utility of every model for every agent"):
        ask(u)


def test_a_misspelt_baseline_is_named():
    with pytest.raises(FairFLError, match="did you mean 'corefed'"):
        nearest(np.zeros((4, 4)), LINE, "corfed")  # type: ignore[arg-type]


# Sets of models.

SMALL = ModelSet("mnist", "fixed", 5, 90, CNN((1, 1), 2), images=24, epochs=1, batch=8, lr=0.05)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Images:
    """64 noisy images in the place of MNIST, and an empty cache."""
    rng = np.random.default_rng(0)
    made = Images("mnist", rng.integers(0, 256, (64, 1, 28, 28), dtype=np.uint8), rng.integers(0, 10, 64), 40, "none")
    monkeypatch.setattr(data, "images", lambda name: made)
    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path / "cache"))
    return made


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each network that is trained; where its last number is -1, training is stopped from outside."""
    done: list[int] = []
    fit = model_sets.fit

    def counted(*given, **settings):
        if done and done[-1] == -1:
            raise KeyboardInterrupt
        done.append(len(done))
        return fit(*given, **settings)

    monkeypatch.setattr(model_sets, "fit", counted)
    return done


def whole(models: ModelSet) -> np.ndarray:
    return models.train(workers=1, quiet=True)


def test_angles_a_turn_apart_are_one_model(tiny, trained):
    models = whole(SMALL)
    assert SMALL.angles == [0, 90, 180, 270, 0] and SMALL.first.tolist() == [0, 1, 2, 3, 0]
    assert len(trained) == 4 and models.shape == (5, SMALL.network.size) and models.dtype == np.float32
    assert np.array_equal(models[4], models[0]) and len(np.unique(models, axis=0)) == 4


def test_random_angles_are_all_different_models(tiny, trained):
    """Within +-360 degrees is not within +-0; the model of angle 0 is the same under both readings."""
    turned = replace(SMALL, reading="random")
    models = whole(turned)
    assert turned.angles == [0, 90, 180, 270, 360] and turned.first.tolist() == [0, 1, 2, 3, 4]
    assert len(trained) == 5 and len(np.unique(models, axis=0)) == 5
    assert np.array_equal(models[0], whole(SMALL)[0])


def test_a_hundred_models_four_degrees_apart_are_ninety():
    counted = {name: [len(rows) for rows in rankff.subsets(models).values()] for name, models in model_sets.PAPER.items()}
    assert counted == {"mnist-fixed": [100, 90], "mnist-random": [100, 100], "cifar10-fixed": [100, 90]}


def test_each_model_is_trained_on_images_turned_by_its_angle(tiny, monkeypatch):
    """Two epochs each; under "random" every image by an angle of its own, drawn anew, before the order of the epoch is."""
    seen, two = [], replace(SMALL, count=2, epochs=2)

    def look(network, theta, epochs, y, read, local, *, lr):
        seen.append(list(epochs))
        assert (local.epochs, local.batch_size, local.momentum, local.schedule, local.lr) == (2, 8, 0.9, "cosine", lr)
        return theta

    monkeypatch.setattr(model_sets, "fit", look)
    whole(two)
    whole(replace(two, reading="random"))
    upright = torch.as_tensor(tiny.x[:24])
    for turned, angle, within in zip(seen, (0, 90, 0, 0), (0, 0, 0, 90), strict=True):
        rng = stream(0, "model set order")
        assert len(turned) == 2
        for images, order in turned:
            here = rotate(upright, rng.uniform(-within, within, 24)) if within else torch.rot90(upright, angle // 90, (2, 3))
            assert torch.equal(images, here) and np.array_equal(order, rng.permutation(24))
    assert not torch.equal(seen[3][0][0], seen[3][1][0])


def test_a_second_call_trains_nothing(tiny, trained):
    first = whole(SMALL)
    del trained[:]
    assert np.array_equal(whole(SMALL), first) and not trained


def test_a_stopped_run_goes_on_with_what_is_missing(tiny, trained, monkeypatch, tmp_path):
    whole(replace(SMALL, count=2))
    trained.append(-1)
    with pytest.raises(KeyboardInterrupt):
        whole(SMALL)
    del trained[:]
    resumed = whole(SMALL)
    assert len(trained) == 2
    monkeypatch.setenv("FAIRFL_CACHE", str(tmp_path / "another"))
    assert np.array_equal(whole(SMALL), resumed)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-30])], ids=["gone", "cut"])
def test_a_file_that_is_not_whole_is_trained_again_and_only_that_one(tiny, trained, damage):
    first = whole(SMALL)
    kept = {path: path.stat().st_mtime_ns for path in SMALL.folder.iterdir()}
    broken = SMALL.folder / "180.npz"
    damage(broken)
    del trained[:]
    assert np.array_equal(whole(SMALL), first) and len(trained) == 1
    now = {path: path.stat().st_mtime_ns for path in SMALL.folder.iterdir()}
    assert {path for path in kept if now[path] != kept[path]} == {broken} and set(now) == set(kept)


def test_files_hold_one_plain_array_its_digest_and_no_pickle(tiny):
    whole(SMALL)
    files = sorted(SMALL.folder.iterdir())
    assert [path.name for path in files] == ["0.npz", "180.npz", "270.npz", "90.npz"]
    for path in files:
        with np.load(path, allow_pickle=False) as kept:
            assert kept.files == ["values", "sha256"] and kept["values"].dtype == np.float32


OTHER = [{"reading": "random"}, {"network": CNN((1, 1), 3)}, {"images": 25}, {"epochs": 2}, {"batch": 9},
         {"lr": 0.06}, {"momentum": 0.8}, {"seed": 1}, {"dataset": "cifar10"}]  # fmt: skip


@pytest.mark.parametrize("change", OTHER, ids=lambda change: next(iter(change)))
def test_other_settings_are_other_models(change):
    assert replace(SMALL, **change).folder != SMALL.folder


def test_a_raised_recipe_leaves_the_models_trained_before_alone(monkeypatch):
    before = SMALL.folder
    monkeypatch.setattr(model_sets, "RECIPE", model_sets.RECIPE + 1)
    assert SMALL.folder != before


def test_a_larger_or_denser_set_keeps_the_models_it_shares(tiny, trained):
    few, more = whole(replace(SMALL, count=2)), whole(replace(SMALL, count=4))
    assert len(trained) == 4 and np.array_equal(more[:2], few)
    denser = whole(replace(SMALL, count=3, step=45))
    assert len(trained) == 5 and np.array_equal(denser[[0, 2]], few)


@pytest.mark.parametrize("change", [{"count": 0}, {"images": 0}, {"epochs": 0}])
def test_an_empty_set_is_refused(change):
    with pytest.raises(FairFLError, match="at least one model, one image and one epoch"):
        replace(SMALL, **change)


def test_misspelt_readings_and_sets_are_named():
    with pytest.raises(FairFLError, match="did you mean 'fixed'"):
        replace(SMALL, reading="fix")
    with pytest.raises(FairFLError, match="did you mean 'mnist-fixed'"):
        model_sets.get("mnist-fixd")


def test_losses_are_those_of_each_test_image_and_are_kept(tiny, monkeypatch):
    models = whole(SMALL)
    losses = SMALL.losses(90, slice(2, 10), workers=1, quiet=True)
    x, y = torch.rot90(torch.as_tensor(tiny.x[42:50]), 1, (2, 3)), torch.as_tensor(tiny.y[42:50])
    logits = torch.stack([SMALL.network.forward(torch.as_tensor(m), x.float() / 255) for m in models])
    by_hand = -torch.log_softmax(logits, 2).gather(2, y.expand(5, 8)[..., None])[..., 0]
    assert losses.shape == (5, 8) and np.allclose(losses, by_hand.detach(), atol=1e-5)
    monkeypatch.setattr(model_sets, "losses_of", None)
    assert np.array_equal(SMALL.losses(90, slice(2, 10), workers=1, quiet=True), losses)


def test_losses_of_sets_with_other_angles_are_not_confused(tiny):
    """Three models each, at 0, 90, 180 and at 0, 45, 90 degrees: the second of one is the third of the other."""
    wide, dense = (replace(SMALL, count=3, step=step).losses(0, slice(0, 8), workers=1, quiet=True) for step in (90, 45))
    assert np.array_equal(wide[:2], dense[[0, 2]]) and not np.array_equal(wide, dense)


def test_utilities_are_one_minus_the_mean_loss_of_an_agents_own_images(tiny):
    """Two agents with 4 of the first 8 test images each; with all 8 counted, nobody's image is another's."""
    u = rankff.utilities(SMALL, (0, 90), 3, 4, 8, workers=1, quiet=True)
    dealt = deal(3, "test", 0, 8, 2, 4)
    assert sorted(np.concatenate(dealt)) == list(range(8))
    for agent, angle in enumerate((0, 90)):
        losses = SMALL.losses(angle, slice(0, 8), workers=1, quiet=True)
        assert np.allclose(u[agent], 1 - losses[:, dealt[agent]].mean(1))
    assert np.array_equal(u[:, 0], u[:, 4])  # the same model twice


def test_what_is_judged_is_position_rank_and_k():
    """m = 4 with a model twice: RankFF meets at k = 1, in position 2 of 4, rank 0 of 4."""
    u = np.array([[3.0, 1.0, 0.0, 3.0], [5.0, 4.0, 1.0, 5.0]])
    facts = dict(rankff.judged(u, np.eye(4, dtype=np.float32)))
    assert set(facts) == set(rankff.METHODS)
    expected = {"beta": 0.5, "rank": 0.0, "sum": 8.0, "worst": 3.0, "model": 0, "k": 0.25, "literal": 0.5, "literal_lost": 1.0}
    assert facts["rankff"] == expected
    assert "k" not in facts["fedavg"] and facts["fedavg"]["model"] == 0


def test_where_all_sums_are_minus_infinite_the_model_is_still_one_that_everybody_has():
    u = np.array([[-np.inf, -np.inf, -np.inf], [0.0, 5.0, 1.0]])
    assert discrete(u) == Chosen(1, 1, (1,))
    with pytest.raises(FairFLError, match="none may be infinite"):
        discrete(-u)

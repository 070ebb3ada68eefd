"""The library as somebody picks it up: its README, its wheel, a DataFrame of one's own, and what it says to mistakes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairlearn import metrics as oracle
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.preprocessing import StandardScaler
from small import ROOT

import fairfl_lite
from fairfl_lite import (
    ClientTraining,
    Debias,
    FairFed,
    FairFLError,
    FedAvg,
    Federation,
    Method,
    Partition,
    State,
    Table,
    data,
    imports,
    load,
    methods,
    metrics,
    register,
)  # fmt: skip
from fairfl_lite.data import adult

LOCAL = ClientTraining("adam", lr=0.05)
README = (ROOT / "README.md").read_text().split("\n## Use the library\n")[1].split("\n## ")[0]


def people(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.normal(40, 9, n),
            "children": rng.integers(0, 4, n),
            "job": rng.choice(["cook", "nurse", "clerk"], n),
            "size": pd.Categorical(rng.choice(["small", "large"], n), ["small", "large"], ordered=True),
            "owner": rng.random(n) < 0.5,
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["east", "north", "west"], n),
        }
    )
    frame["repaid"] = np.where(frame["income"] + rng.normal(0, 4, n) > 40, "yes", "no")
    return frame


def table(frame: pd.DataFrame | None = None, **options: object) -> Table:
    given = {"label": "repaid", "sensitive": "sex", "favourable": "yes"} | options
    return Table.from_frame(people() if frame is None else frame, **given)


def federation() -> Federation:
    return Federation.of(table(), Partition.by_column("region"), range(3), LOCAL)


# The front door.


@pytest.mark.slow
def test_every_example_of_the_readme_runs_as_it_stands_there(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    printed = []
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
        printed.append(capsys.readouterr().out.splitlines())
    first, own, _ = ([line.rsplit(" ", 2) for line in lines] for lines in printed)
    assert [label for label, *_ in first] == ["fedavg", "local", "fairfed beta=1", "fairfed beta=20"]
    assert [label for label, *_ in own] == ["fedavg", "fairfed"]
    assert all(0.7 < float(acc) < 0.9 and abs(float(eod)) < 0.5 for _, acc, eod in [*first, *own])
    fed = names["fed"]
    assert isinstance(fed, Federation)
    average, fedavg = (fed.run(method, 2).state.params for method in (names["Average"](), FedAvg()))  # type: ignore[operator]
    np.testing.assert_array_equal(average, fedavg)


OUTSIDE = """
import pandas as pd
from fairfl_lite import ClientTraining, FairFed, FedAvg, Federation, Partition, Table
frame = pd.DataFrame({"x": range(400), "sex": ["f", "m"] * 200, "y": [0] * 180 + [1] * 220})
fed = Federation.of(Table.from_frame(frame, label="y", sensitive="sex"), Partition.random(2), range(2), ClientTraining(lr=1.0))
for name, history in fed.run([FedAvg(), FairFed()], 5).items():
    print(name, history.values("acc")[:, -1].min())
"""


@pytest.mark.slow
def test_the_wheel_holds_the_library_alone_and_works_without_the_book(tmp_path):
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fairfl_lite", source / "fairfl_lite", ignore=ignored)
    shutil.copytree(ROOT / "book" / "papers", source / "book" / "papers", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-q",
        "-w",
        tmp_path,
        source,
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    inside = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / "fairfl_lite").rglob("*") if path.suffix in (".py", ".pyi")}
    assert {name for name in inside if not name.startswith("fairfl_lite-")} == {*here, "fairfl_lite/py.typed"}

    assert len(OUTSIDE.split("\n")) - 2 <= 10
    says = (
        "import sys, fairfl_lite; print(fairfl_lite.__file__, sorted(m for m in sys.modules if m[:7] in ('fairfl_', 'papers')))"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n{OUTSIDE}\n{says}"
    run = [sys.executable, "-I", "-c", code]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *scores, last = done.stdout.splitlines()
    assert [score.split()[0] for score in scores] == ["fedavg", "fairfed"]
    assert all(float(score.split()[1]) > 0.8 for score in scores)
    assert last.startswith(str(tmp_path / "site" / "fairfl_lite"))
    assert "fairfl_book" not in last and "papers" not in last and "fairfl_lite.methods.fairfed" in last


@pytest.mark.slow
def test_a_type_checker_sees_classes_and_not_any():
    code = "from fairfl_lite import FairFed, load\nreveal_type(FairFed(beta=2))\nreveal_type(load('adult'))\nFairFed(betta=2)\n"
    run = [sys.executable, "-m", "mypy", "-c", code]
    said = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert re.search(r':2: note: Revealed type is "(\w+\.)*FairFed"', said), said
    assert re.search(r':3: note: Revealed type is "(\w+\.)*Table"', said), said
    assert re.search(r':4: error: Unexpected keyword argument "betta" for "FairFed"', said), said


@pytest.mark.slow
def test_all_names_come_by_a_star_without_the_extra_of_secure_sums():
    code = (
        "import sys; sys.modules['cryptography'] = None\nfrom fairfl_lite import *\nprint(FairFed().name, metrics.__name__)\n"
        "import fairfl_lite\ntry: fairfl_lite.SecAgg\nexcept ModuleNotFoundError: print('extra')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["fairfed", "fairfl_lite.metrics", "extra"], done.stderr


# A DataFrame as a table.


def test_a_frame_becomes_the_table_that_pandas_and_scikit_learn_make():
    frame = people()
    made = table(frame)
    assert made.features == ("income", "children", "job", "size", "owner", "region")
    by_hand = frame[["income", "children"]].assign(
        job=frame["job"].map({"clerk": 0, "cook": 1, "nurse": 2}),
        size=frame["size"].map({"small": 0, "large": 1}).astype(int),
        owner=frame["owner"].astype(int),
        region=frame["region"].map({"east": 0, "north": 1, "west": 2}),
    )
    np.testing.assert_allclose(made.X, StandardScaler().fit_transform(by_hand), atol=1e-5)
    assert made.X.dtype == np.float32 and made.scaling == "standard"
    assert made.y.tolist() == (frame["repaid"] == "yes").astype(int).tolist()
    assert made.a.tolist() == (frame["sex"] == "m").astype(int).tolist()
    assert table(frame, privileged="f").a.tolist() == (frame["sex"] == "f").astype(int).tolist()
    assert list(made.columns) == list(frame.columns)
    assert made.columns["region"].tolist() == frame["region"].tolist()
    assert made.columns["income"].tolist() == frame["income"].tolist(), "not scaled"


def test_one_column_for_each_value_as_pandas_has_it():
    frame = people()
    made = table(frame, features=["job", "owner"], encoding="onehot", scaling="none")
    assert made.features == ("job=clerk", "job=cook", "job=nurse", "owner=False", "owner=True")
    np.testing.assert_array_equal(made.X, pd.get_dummies(frame[["job", "owner"]].astype(str)).to_numpy(np.float32))


def test_labels_and_groups_of_many_kinds():
    frame = pd.DataFrame({"x": range(6), "g": ["b", "c", "a", "a", "b", "c"], "two": [1, 2, 2, 1, 2, 1], "three": list("uvwuvw")})
    frame = frame.assign(zero=frame["two"] - 1, truth=frame["two"] == 2, sign=2 * frame["two"] - 3)
    for label in ("zero", "truth", "sign"):
        made = Table.from_frame(frame, label=label, sensitive="g", features=["x"])
        assert made.y.tolist() == [0, 1, 1, 0, 1, 0]
    assert made.a.tolist() == [1, 2, 0, 0, 1, 2]
    assert Table.from_frame(frame, label="two", sensitive="g", favourable=1).y.tolist() == [1, 0, 0, 1, 0, 1]
    assert Table.from_frame(frame, label="three", sensitive="g", favourable="w").y.tolist() == [0, 0, 1, 0, 0, 1]
    assert Table.from_frame(frame, label="zero", sensitive="g", privileged="c").a.tolist() == [0, 1, 0, 0, 0, 1]


def test_the_digest_follows_from_the_contents():
    frame = people()
    same = [table(frame), table(frame.copy()), table(frame.set_index(frame.index + 7))]
    changed = frame.copy()
    changed.loc[3, "region"] = "west" if frame.loc[3, "region"] != "west" else "east"
    options = ({"encoding": "onehot"}, {"scaling": "none"}, {"privileged": "f"}, {"favourable": "no"}, {"features": ["job"]})
    other = [table(changed), table(changed, features=["job"]), *(table(frame, **option) for option in options)]
    assert len({made.digest for made in same}) == 1
    assert len({made.digest for made in [same[0], *other]}) == 1 + len(other)


def test_a_frame_is_left_as_it_is():
    frame = people()
    before = frame.copy()
    table(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_a_client_for_each_value_of_a_column():
    frame, fed = people(), federation()
    rows = fed.shards["train"].sizes + fed.shards["test"].sizes
    expected = frame["region"].value_counts().sort_index().to_list()
    assert rows.tolist() == [expected] * 3
    assert Partition.by_column("region").names(table()) == ["east", "north", "west"]
    with pytest.raises(FairFLError, match="no column of dataset 'frame' named 'regoin': did you mean 'region'"):
        Federation.of(table(), Partition.by_column("regoin"), range(3), LOCAL)


def holes(column: str) -> pd.DataFrame:
    frame = people()
    frame[column] = frame[column].astype(object)
    frame.loc[[5, 9], column] = None
    return frame


@pytest.mark.parametrize(("frame", "options", "said"), [
    ({"x": [1]}, {}, "takes a pandas DataFrame, not a dict"),
    (people()["sex"], {}, "takes a pandas DataFrame, not a Series"),
    (people()[:0], {}, "has no rows"),
    (people(), {"label": "repayed"}, "no column of dataset 'frame' named 'repayed': did you mean 'repaid'"),
    (people(), {"sensitive": "sexx", "name": "loans"}, "no column of dataset 'loans' named 'sexx': did you mean 'sex'"),
    (people(), {"features": ["jop"]}, "did you mean 'job'"),
    (people(), {"features": "job"}, r"list of names: features=\['job'\]"),
    (people(), {"features": ["job", "repaid"]}, "each once and not the label"),
    (people(), {"features": []}, "needs a label, another sensitive column, and features"),
    (people(), {"sensitive": "repaid"}, "another sensitive column"),
    (holes("job"), {}, "Column 'job' of dataset 'frame' has 2 missing values, the first in row 5: fill"),
    (holes("income"), {}, "Column 'income' .* 2 missing values, the first in row 5"),
    (holes("repaid"), {}, "Column 'repaid' .* missing"),
    (people(), {"favourable": None}, "is no or yes: say which of them is favourable="),
    (people(), {"label": "job", "favourable": None}, r"has 3 values \(clerk, cook, nurse\) and needs two"),
    (people(), {"favourable": "yess"}, "never has the favourable value 'yess': did you mean 'yes'"),
    (people(), {"privileged": 7}, "never has the privileged value 7: its values are f, m"),
    (people().assign(sex="f"), {}, "Column 'sex' .* has only the value f"),
    (people().assign(sex=range(300)), {}, "has 300 groups: join them"),
    (people().assign(income=np.inf), {}, "Column 'income' .* not finite"),
    (people().assign(income=1e60), {}, "Column 'income' .* too large"),
    (people().assign(when=pd.Timestamp("2024-01-01")), {}, "Column 'when' .* holds dates"),
    (people().rename(columns={"job": "size"}), {}, "two columns named 'size'"),
    (people(), {"encoding": "one-hot"}, "did you mean 'onehot'"),
])  # fmt: skip
def test_what_is_wrong_with_a_frame_is_one_sentence(frame, options, said):
    with pytest.raises(FairFLError, match=said) as refused:
        table(frame, **options)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 250


def test_a_federation_of_a_frame_names_what_makes_a_table():
    with pytest.raises(FairFLError, match=r"takes a Table, not a DataFrame: .* Table\.from_frame\(frame, label="):
        Federation.of(people(), Partition.random(2), range(2), LOCAL)  # type: ignore[arg-type]


# Datasets of one's own.


@pytest.fixture
def registry(monkeypatch):
    kept = dict(data.DATASETS)
    yield
    data.DATASETS.clear()
    data.DATASETS.update(kept)


def test_a_function_is_loaded_by_its_name(registry):
    @register
    def loans(people_there: int = 300, encoding: str = "codes") -> Table:
        return table(people(people_there), encoding=encoding, name="loans")

    loaded = load("loans")
    assert (len(loaded), loaded.digest) == (300, table(name="loans").digest)
    np.testing.assert_array_equal(loaded.X, table().X)
    assert len(load("loans", people_there=100)) == 100
    assert len(load("loans", encoding="onehot").features) == 2 + 3 + 2 + 2 + 3
    assert data.available("loans") and "loans" in set(data.listing()["dataset"])
    with pytest.raises(FairFLError, match="did you mean 'people_there'"):
        load("loans", people_theer=2)
    with pytest.raises(FairFLError, match="no option 'sensitive'"):
        load("loans", sensitive="job")
    with pytest.raises(FairFLError, match="scales its rows as 'standard'"):
        load("loans", scaling="minmax")
    with pytest.raises(FairFLError, match="dataset named 'loans' already"):
        register(loans)
    register(lambda: people(), "frames")
    with pytest.raises(FairFLError, match="'frames' must return a Table, not a DataFrame"):
        load("frames")


def test_a_dataset_is_loaded_by_its_name_and_a_taken_name_is_refused(registry):
    mine = replace(
        adult.DATASET, name="mine", files=(), generated="1", build=lambda paths, encoding: replace(table(), name="mine")
    )
    assert register(mine) is mine
    assert load("mine").name == "mine"
    for wrong, said in (
        (adult.DATASET, "dataset named 'adult' already"),
        (table(), "a function that returns a Table, not a Table"),
    ):
        with pytest.raises(FairFLError, match=said):
            register(wrong)
    with pytest.raises(FairFLError, match="register it without another name"):
        register(mine, "other")


def test_the_datasets_of_the_library_are_found():
    named = re.compile(r'^(?:DATASET|STAND_IN) = Dataset\(\n    name="([^"]+)"', re.MULTILINE)
    there = [name for file in (ROOT / "fairfl_lite" / "data").glob("*.py") for name in named.findall(file.read_text())]
    assert sorted(data.DATASETS) == sorted(there)
    assert {"adult", "compas", "mnist", "eicu", "eicu-stand-in", "tiles-stand-in"} <= set(there)


def test_a_found_dataset_counts_as_imported():
    found = {f"fairfl_lite.data.{name}" for name in ("adult", "tiles", "cifar10")}
    assert found <= set(imports.modules("fairfl_lite.data.registry"))


# What is printed, and what is equal.


def test_what_is_printed_is_one_short_line():
    fed = federation()
    runs = fed.run([FedAvg(), FairFed()], 2)
    history = runs["fairfed"]
    training = "ClientTraining(optimizer='adam', lr=0.05, weight_decay=0.0, epochs=1, batch_size=32)"
    model = "Dense(features=6, hidden=0, start='uniform', classes=2)"
    assert repr(fed) == f"Federation(seeds=0..2, clients=3, rows=300, model={model}, local={training})"
    assert "seeds=3,5, " in repr(Federation.of(table(), Partition.random(2), (3, 5), LOCAL, participants=1))
    assert repr(Federation.of(table(), Partition.random(2), (3, 5), LOCAL, participants=1)).endswith(", participants=1)")
    assert repr(fed.shards["train"]) == f"Shards(3 runs, 3 clients, {3 * 240} places, {fed.shards['train'].examples!r})"
    assert repr(fed.shards["train"].examples) == "Examples(300 rows of 6 features, 2 classes, 2 groups)"
    assert repr(history) == "History('fairfed', seeds=0..2, rounds=2, recorded on test)"
    assert repr(runs) == "Histories('fedavg', 'fairfed')"
    assert repr(history.state) == "State(params of shape (3, 7), memory of weights, statistics, gap, F)"
    assert history == history and history != runs["fedavg"]


NEEDED = {
    "BinarySearchInference": (2,), "EFFL": (0.1, 0.1, 0.1), "IFCA": (2,), "LowestLossInference": (2,), "OneShotInference": (2,),
    "RankClustering": (2,),
}  # fmt: skip


@pytest.mark.parametrize("name", methods.__all__)
def test_two_of_the_same_settings_are_equal_and_have_one_hash(name):
    method = getattr(methods, name)
    first, second = (method(*NEEDED.get(name, ())) for _ in range(2))
    assert first == second and hash(first) == hash(second) and first is not second
    assert first != methods.FedAvg(name="another")
    assert "\n" not in repr(first) and repr(first) == repr(second)


def test_other_settings_are_not_equal():
    assert FairFed() != FairFed(beta=2) and FairFed() != FairFed(debias=Debias("none"))
    assert FairFed(debias=Debias("local")) == FairFed() and FedAvg() != FairFed()
    assert len({FairFed(), FairFed(), FairFed(beta=2)}) == 2


# A method that is not quite one.


class Nameless(Method):
    async def start(self, fed):
        return State(fed.init_params())

    async def round(self, fed, state, t):
        return state


class Bare(Nameless):
    name = "bare"

    async def round(self, fed, state, t):
        return state.params


class Begun(Nameless):
    name = "begun"

    async def start(self, fed):
        return fed.init_params()


class Plain(Nameless):
    name = "plain"

    def round(self, fed, state, t):
        return state


@pytest.mark.parametrize(("method", "said"), [
    (Nameless(), 'The method Nameless has no name: write `name = "..."` in its class'),
    (Bare(), r"A round of bare must return a State\(params, memory\), not ndarray"),
    (Begun(), r"The start of begun must return a State\(params, memory\), not ndarray"),
    (Plain(), "write `async def` before start and round"),
    (FedAvg, r"Give a method and not its class: write FedAvg\(\)"),
    ([FedAvg(), FairFed], r"write FairFed\(\)"),
    (methods.KnownGroups(), r"KnownGroups\(\) is not a Method"),
    ("fedavg", "'f' is not a Method"),
    (7, "7 is not a Method"),
])  # fmt: skip
def test_what_is_no_method_is_told_in_one_sentence(method, said):
    with pytest.raises(FairFLError, match=said) as refused:
        federation().run(method, 1)
    assert "\n" not in str(refused.value)


# Metrics of predictions.


@pytest.mark.parametrize("seed", range(20))
def test_metrics_of_rows_against_fairlearn(seed):
    rng = np.random.default_rng(seed)
    y, p = rng.integers(0, 2, (2, 60))
    sex = rng.choice(["f", "m"], 60)
    sex[:4], y[:4] = list("ffmm"), [0, 1, 0, 1]
    counts = metrics.counts_of(y, p, sex)
    np.testing.assert_array_equal(counts, [confusion_matrix(y[sex == g], p[sex == g], labels=[0, 1]) for g in ("f", "m")])
    found = metrics.evaluate(y, p, sensitive_features=pd.Series(sex), metrics=("acc", "eod", "spd", "positive", "eo"))
    tpr, selected = (
        oracle.MetricFrame(metrics=rate, y_true=y, y_pred=p, sensitive_features=sex).by_group
        for rate in (oracle.true_positive_rate, oracle.selection_rate)
    )
    expected = {"acc": accuracy_score(y, p), "eod": tpr["f"] - tpr["m"], "spd": selected["f"] - selected["m"],
                "positive": oracle.selection_rate(y, p)}  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert abs(found["eod"]) == pytest.approx(oracle.equal_opportunity_difference(y, p, sensitive_features=sex))
    if tpr.max() > 0:
        assert found["eo"] == pytest.approx(oracle.equal_opportunity_ratio(y, p, sensitive_features=sex))
    assert list(metrics.evaluate(y, p, sensitive_features=sex)) == ["acc", "eod", "spd"]


def test_rows_of_any_kind_are_counted():
    by_hand = [[[0, 1], [1, 0]], [[0, 0], [0, 1]]]
    y, p, a = [0, 1, 1], [1, 0, 1], [4, 4, 9]
    for labels in (np.array(y), pd.Series(y, index=[7, 8, 9]), np.array(y, bool), np.array(y, float), np.array(y)[:, None]):
        assert metrics.counts_of(labels, p, a).tolist() == by_hand
    assert metrics.counts_of(y, p, pd.DataFrame({"g": list("uuv")})).tolist() == by_hand
    assert metrics.counts_of([2, 0], [1, 0], [0, 0]).tolist() == [[[1, 0, 0], [0, 0, 0], [0, 1, 0]]]


@pytest.mark.parametrize(("rows", "said"), [
    (([0, 1], [0, 1], [0]), r"one value for each row, of shapes alike, not \(2,\), \(2,\) and \(1,\)"),
    (([], [], []), "one value for each row"),
    ((["no", "yes"], [0, 1], [0, 1]), "y_true must hold classes as whole numbers from 0"),
    (([0, 1], [0.2, 0.8], [0, 1]), "y_pred must hold classes"),
    (([-1, 1], [1, 1], [0, 1]), "y_true must hold classes"),
    (([0, np.nan], [1, 1], [0, 1]), "y_true must hold classes"),
    (([0, 1], [1, 1], [0, np.nan]), "sensitive_features has missing values"),
    (([0, 1], [1, 1], ["f", None]), "sensitive_features has missing values"),
])  # fmt: skip
def test_rows_that_cannot_be_counted_are_refused(rows, said):
    with pytest.raises(FairFLError, match=said):
        metrics.counts_of(*rows)


def test_an_unknown_metric_and_a_third_group_are_refused():
    with pytest.raises(FairFLError, match="no metric named 'eods': did you mean 'eod'"):
        metrics.evaluate([0, 1], [0, 1], sensitive_features=[0, 1], metrics=("eods",))
    with pytest.raises(FairFLError, match="compares two groups"):
        metrics.evaluate([0, 1, 1], [0, 1, 1], sensitive_features=list("uvw"), metrics=("eod",))
    assert metrics.evaluate([0, 1, 1], [0, 1, 0], sensitive_features=list("uvw"), metrics=("acc",)) == {"acc": 2 / 3}


def test_the_stub_and_the_package_name_the_same_things():
    stub = (Path(fairfl_lite.__file__).with_suffix(".pyi")).read_text()
    assert set(re.findall(r"import (\w+) as \1$", stub, re.MULTILINE)) == {*fairfl_lite.__all__, "SecAgg"}
    assert set(methods.__all__) <= set(fairfl_lite.__all__) and "__version__: str" in stub and "__all__: list[str]" in stub

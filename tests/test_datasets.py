"""Data sets by name: those that are always there, those of a folder, those that must be fetched."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import urllib.error
from pathlib import Path

import numpy as np
import pytest

import realdata
from maxmargin import datasets
from maxmargin.datasets import DatasetError
from maxmargin.datasets._convert import export
from maxmargin.datasets._local import load_local
from maxmargin.files import read


def test_names():
    everything = datasets.names()
    assert len(everything) == len(set(everything)) > 30
    assert {"iris", "wine", "digits"} <= set(datasets.names("multiclass"))
    assert datasets.names("graph") == ["snakes", "msrc21"]


@pytest.mark.parametrize(
    ("name", "task", "shape"),
    [
        ("iris", "multiclass", (150, 4)),
        ("wine", "multiclass", (178, 13)),
        ("breast_cancer", "multiclass", (569, 30)),
        ("digits", "multiclass", (1797, 64)),
        ("diabetes", "ordinal", (442, 10)),
    ],
)
def test_bundled(name, task, shape):
    data = datasets.load(name)
    assert (data.task, data.X.shape, len(data.y)) == (task, shape, shape[0])
    assert len(data.feature_names) == shape[1] and data.splits == {}
    assert datasets.fetch(name) == "scikit-learn"


def test_steps_of_diabetes_are_equally_frequent():
    counts = np.bincount(datasets.load("diabetes").y)[1:]
    assert len(counts) == 5 and counts.max() - counts.min() <= 8


def test_unknown_names_are_answered_with_a_hint():
    with pytest.raises(DatasetError, match="did you mean 'yeast'"):
        datasets.load("yest")


FOLDER = [
    ("yeast", (2417, 103), {"train": 1500, "test": 917}),
    ("rcv1", (6000, 47236), {"train": 3000, "test": 3000}),
    ("satimage", (6435, 36), {"train": 4435, "test": 2000}),
    ("abalone", (4177, 10), {}),
    ("ranking_wine", (178, 13), {}),
]


@pytest.mark.parametrize(("name", "shape", "splits"), FOLDER)
def test_matrices_of_the_folder(name, shape, splits, monkeypatch):
    file = datasets.entry_of(name).files[0][0]
    monkeypatch.setenv("MAXMARGIN_DATA", str(realdata.data_file(file).parent))
    data = datasets.load(name)
    assert data.X.shape == shape and len(data.y) == shape[0]
    assert {key: len(part) for key, part in data.splits.items()} == splits
    assert datasets.fetch(name).endswith(file)
    if splits:
        X, y = data.take("test")
        assert X.shape[0] == len(y) == splits["test"]
        with pytest.raises(DatasetError, match="has no split 'validation'; it has train, test"):
            data.take("validation")


def test_sequences_and_graphs_of_the_folder(monkeypatch):
    folder = realdata.data_file("ocr_letters.npz").parent
    for name in ("conll2000_test.txt.gz", "snakes.npz"):
        realdata.data_file(name)
    monkeypatch.setenv("MAXMARGIN_DATA", str(folder))
    words = datasets.load("ocr")
    assert "".join(words.y[0]) == "ommanding" and words.X[0].shape == (9, 128)
    assert len(words.splits["test"]) == 626 and len(words.splits["train"]) == 6251
    snakes = datasets.load("snakes")
    nodes, edges, features = snakes.X[0]
    assert nodes.shape[1] == 27 and len(edges) == len(features)
    assert edges.max() == len(nodes) - 1 and len(nodes) == len(snakes.y[0])
    test = folder / "conll2000_test.txt.gz"  # the other file is read in the same way
    chunks = load_local(datasets.entry_of("conll2000"), [test, test])
    assert {name: len(part) for name, part in chunks.splits.items()} == {
        "train": 2012,
        "test": 2012,
    }
    assert len(chunks.X[0]) == len(chunks.y[0]) and chunks.X[0][0]["word"] == "Rockwell"


def test_trees_of_the_folder(tmp_path):
    dev = realdata.data_file("ud_english_ewt_dev.conllu.gz")
    trees = load_local(datasets.entry_of("ud_english_ewt_trees"), [dev, dev, dev])
    assert [len(part) for part in trees.splits.values()] == [2001] * 3
    assert sum(map(len, trees.y)) == 3 * 25147 and trees.X[0].form[0] == "From"
    part = trees.examples("tree", "test")
    assert part.heads[0].tolist() == trees.y[4002].tolist() and len(part) == 2001
    trees._rows = trees._rows[:5]
    export(trees, tmp_path / "a.conllu")
    assert read(tmp_path / "a.conllu", "tree").tokens == trees.X[:5]


def test_a_file_with_another_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    (tmp_path / "ord_stocks.npz").write_bytes(b"something else")
    with pytest.raises(DatasetError, match=r"damaged or another version: its SHA-256 is [0-9a-f]+"):
        datasets.load("stocks")


def test_what_is_not_here_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"needs the files ord_stocks\.npz.*MAXMARGIN_DATA"):
        datasets.load("stocks")


def test_offline_is_said_plainly(tmp_path, monkeypatch):
    import sklearn.datasets

    def unreachable(*args, **kwargs):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", unreachable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    with pytest.raises(DatasetError) as caught:
        datasets.load("emotions")
    assert re.search("not reachable from here .*go online once", str(caught.value))
    assert "\n" not in str(caught.value)


def test_what_was_fetched_stays(tmp_path, monkeypatch):
    import sklearn.datasets
    from sklearn.utils import Bunch

    calls, name = [], "birds"

    def answer(data_id, **options):
        calls.append(data_id)
        target = np.array([["TRUE", "FALSE"], ["FALSE", "TRUE"]], object)
        return Bunch(
            data=np.array([[1.0], [2.0]]), target=target, feature_names=["x"],
            target_names=["calm", "angry"], details={"name": name},
        )  # fmt: skip

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    entry = datasets.entry_of("emotions")
    with pytest.raises(DatasetError, match="40589 of OpenML is 'birds'; expected 'emotions'"):
        datasets.load("emotions")
    assert not datasets.is_available(entry)
    name = "emotions"
    for _ in range(2):
        data = datasets.load("emotions")
        assert data.y.tolist() == [[1, 0], [0, 1]] and data.label_names == ["calm", "angry"]
    assert calls == [40589] * 2 and datasets.is_available(entry)


@pytest.mark.parametrize(("name", "suffix"), [("iris", ".csv"), ("diabetes", ".npz")])
def test_export_can_be_read_again(name, suffix, tmp_path):
    from maxmargin.files.prepare import Choices, learn

    data = datasets.load(name)
    path = tmp_path / f"{name}{suffix}"
    export(data, path)
    found = learn(read(path, data.task), data.task, Choices(scale=False))
    assert np.array_equal(found.X, data.X) and found.y.tolist() == data.y.tolist()
    with pytest.raises(DatasetError, match="cannot be written as .conll"):
        export(data, tmp_path / "a.conll")


def test_export_of_sequences_and_graphs(tmp_path):
    rng = np.random.RandomState(0)
    X, y = [rng.randn(3, 2), rng.randn(1, 2)], [np.array(list("aba")), np.array(["b"])]
    export(datasets.Dataset("words", "sequence", "", X, y), tmp_path / "a.npz")
    found = read(tmp_path / "a.npz", "sequence")
    assert all(map(np.array_equal, found.X, X)) and all(map(np.array_equal, found.y, y))
    graphs = [(x, np.array([[0, len(x) - 1]])) for x in X]
    graphs[1] = (X[1], np.empty((0, 2), np.int64))
    export(datasets.Dataset("images", "graph", "", graphs, y), tmp_path / "b.npz")
    found = read(tmp_path / "b.npz", "graph")
    assert [edges.tolist() for _, edges in found.X] == [[[0, 2]], []]


def test_every_data_set_says_where_it_is_from():
    for name in datasets.names():
        entry = datasets.entry_of(name)
        assert entry.licence and entry.origin and entry.how and entry.n_bytes > 0, name
    yeast = datasets.entry_of("yeast")
    assert yeast.how == (
        "maxmargin datasets fetch yeast (OpenML: yeast, 40597), or put yeast.npz into the folder "
        "MAXMARGIN_DATA"
    )


def test_numbers_at_openml_are_those_that_scikit_learn_knows():
    """One of them is among the answers of OpenML that scikit-learn keeps for its own tests."""
    import sklearn.datasets

    name, number = datasets.entry_of("emotions").openml
    kept = Path(sklearn.datasets.__file__).parent / f"tests/data/openml/id_{number}"
    if not kept.is_dir():
        pytest.skip("scikit-learn is installed without its tests")
    with gzip.open(kept / f"api-v1-jd-{number}.json.gz", "rt", encoding="utf-8") as file:
        about = json.load(file)["data_set_description"]
    assert (about["id"], about["name"], about["licence"]) == (str(number), name, "Public")


def test_wheels_hold_what_is_free_and_small(tmp_path, monkeypatch):
    shipped = [name for name in datasets.names() if datasets.entry_of(name).in_wheel]
    assert shipped == ["segment", "mfeat_fac", "snakes"]
    notice = (Path(datasets.__file__).parent / "NOTICE.txt").read_text(encoding="utf-8")
    places = load_hook().shared_data(realdata.REPOSITORY, realdata.data_folder())
    assert len(places) == 3 and load_hook().shared_data(realdata.REPOSITORY, tmp_path) == {}
    for path, place in places.items():
        assert place.startswith("maxmargin/datasets/files/") and f"{Path(path).name}:" in notice
    # Where there is no other folder, the files of the package are read.
    monkeypatch.setattr(datasets, "SHIPPED", realdata.data_folder())
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path / "none"))
    assert datasets.load("segment").X.shape == (2310, 19)
    (tmp_path / "snakes.npz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not the file that"):
        load_hook().shared_data(realdata.REPOSITORY, tmp_path)


def load_hook():
    """What builds the wheel."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch", realdata.REPOSITORY / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


def test_sizes_are_those_of_the_files():
    for name in datasets.names():
        entry = datasets.entry_of(name)
        if entry.files:
            sizes = [realdata.data_file(file).stat().st_size for file, _ in entry.files]
            assert sum(sizes) == entry.n_bytes, name

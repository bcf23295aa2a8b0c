"""The command line, command by command: what it prints, writes, and returns."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

pytest.importorskip("click", reason="needs the extra cli")

import maxmargin
from maxmargin.cli import main
from maxmargin.cli._model_file import read_model_file
from maxmargin.files.prepare import Prepared, scaled_by

SENTENCES = "the DET\nold ADJ\ncat NOUN\nruns VERB\n\na DET\ndog NOUN\nsleeps VERB\n\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Run a command in an empty folder: exit code, output, errors."""

    def run_command(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def iris(folder):
    assert main(["datasets", "fetch", "iris", "-o", "iris.csv"]) == 0
    return "iris.csv"


def numbers_table(path, rng, n=40, header="u,v,w"):
    """Three columns of numbers; returns them."""
    X = rng.randn(n, 3).round(3)
    return X, [",".join(map(str, row)) for row in X.tolist()]


def test_help_is_a_tour(run):
    code, out, _ = run("--help")
    assert code == 0
    words = ("demo", "train", "predict", "evaluate", "report", "inspect", "datasets", "kernels",
             "reproduce")  # fmt: skip
    for word in words:
        assert re.search(rf"^  {word} ", out, flags=re.MULTILINE), word
    assert out.count("maxmargin train") >= 3 and "Exit codes" in out
    code, out, _ = run("train", "--help")
    assert code == 0 and "--resume" in out and "same bits" in " ".join(out.split())
    code, out, _ = run("--version")
    assert code == 0 and out.startswith("maxmargin")


def test_what_is_held_out_is_unknown_to_training(run, folder):
    rng = np.random.RandomState(0)
    X = rng.randn(30, 2) * [1.0, 50.0] + [0.0, 9.0]
    lines = [f"{u:.3f},{v:.3f},{'ab'[i % 2]},{'yn'[int(u > 0)]}" for i, (u, v) in enumerate(X)]
    order = np.random.RandomState(0).permutation(30)
    parts = {"all": range(30), "rest": np.sort(order[9:]), "held": np.sort(order[:9])}
    for name, rows in parts.items():
        text = "\n".join(["u,v,kind,label", *(lines[i] for i in rows)])
        (folder / f"{name}.csv").write_text(text)
    words = ("--seed", 0, "--alpha", 0.1, "--tol", 1e-10, "--json")
    _, out, _ = run("train", "multiclass", "all.csv", "-o", "a.mm", "--holdout", 0.3, *words)
    one = json.loads(out)
    _, out, _ = run("train", "multiclass", "rest.csv", "-o", "b.mm", "--test", "held.csv", *words)
    two = json.loads(out)
    assert one["scores"] == two["scores"]
    first, second = read_model_file("a.mm"), read_model_file("b.mm")
    for name in ("center", "scale"):
        np.testing.assert_allclose(first.recipe[name], second.recipe[name], rtol=1e-12, atol=1e-12)
    assert first.recipe["scale"][2:] == [1.0, 1.0]  # indicators are left as they are
    # Within sqrt(2 gap / alpha) of the optimum, both of them.
    np.testing.assert_allclose(first.model.coef_, second.model.coef_, atol=1e-4)


@pytest.mark.parametrize("as_tuple", [False, True])
def test_lists_of_examples_are_scaled_by_some_of_them(as_tuple):
    rng = np.random.RandomState(0)
    raw = [3.0 + 2.0 * rng.randn(n, 2) for n in (4, 6, 5)]
    center, scale = np.vstack(raw).mean(axis=0), np.vstack(raw).std(axis=0)
    X = [(x - center) / scale for x in raw]
    recipe = {"form": "sequences", "center": center.tolist(), "scale": scale.tolist()}
    given = [(x, "edges") for x in X] if as_tuple else X
    found = scaled_by(Prepared(given, None, recipe), np.array([0, 2]))
    some = np.vstack([raw[0], raw[2]])
    np.testing.assert_allclose(found.recipe["center"], some.mean(axis=0))
    np.testing.assert_allclose(found.recipe["scale"], some.std(axis=0))
    for x, new in zip(raw, found.X, strict=True):
        new = new[0] if as_tuple else new
        np.testing.assert_allclose(new, (x - some.mean(axis=0)) / some.std(axis=0))


def test_from_a_table_to_predictions(run, iris):
    code, out, err = run("train", "multiclass", iris, "-o", "iris.mm", "--holdout", "0.3")
    assert code == 0 and "wrote iris.mm" in out and "proven to be within" in out
    assert "105 examples, 4 features; labels: label; numbers standardised" in err
    code, out, _ = run("evaluate", "iris.mm", iris, "--json")
    report = json.loads(out)
    accuracy = report["scores"][0]
    assert code == 0 and accuracy["measure"] == "accuracy" and accuracy["value"] > 0.9
    assert accuracy["baseline"] == pytest.approx(1 / 3)
    code, out, _ = run("predict", "iris.mm", iris)
    lines = out.splitlines()
    assert code == 0 and lines[0] == "prediction" and len(lines) == 151
    truth = maxmargin.datasets.load("iris").y
    assert np.mean(np.array(lines[1:]) == truth) == pytest.approx(accuracy["value"])
    code, out, _ = run("predict", "iris.mm", iris, "--json")
    assert json.loads(out)["predictions"] == lines[1:]


def test_model_file_is_one_of_the_library(run, iris):
    run("train", "multiclass", iris, "-o", "iris.mm", "--no-scale", "-q")
    model = maxmargin.load("iris.mm")
    data = maxmargin.datasets.load("iris")
    same = maxmargin.MulticlassClassifier(random_state=0).fit(data.X, data.y)
    assert np.array_equal(model.coef_, same.coef_)
    maxmargin.save(same, "plain.mm")
    code, _, err = run("predict", "plain.mm", iris)
    assert code == 2 and "was not made by 'maxmargin train'" in err


def test_inspect(run, iris):
    run("train", "multiclass", iris, "-o", "iris.mm", "-q")
    code, out, _ = run("inspect", "iris.mm", "--json", "--top", "2")
    found = json.loads(out)
    assert code == 0 and found["classes"] == ["setosa", "versicolor", "virginica"]
    assert found["certificate"]["gap"] <= 0.01 * found["certificate"]["primal"]
    model = maxmargin.load("iris.mm")
    strongest = found["features"]["virginica"]
    assert len(strongest) == 2 and strongest[0]["feature"].startswith("petal")
    assert abs(strongest[0]["weight"]) == np.abs(model.coef_[2]).max()
    code, out, _ = run("inspect", "iris.mm")
    assert code == 0 and "petal" in out and "converged" in out


def test_path_of_alphas(run, iris, caplog):
    words = ("train", "multiclass", iris, "-o", "a.mm", "--alpha", "cv", "--folds", "3", "--json")
    code, out, _ = run(*words)
    found = json.loads(out)
    path = found["alpha_path"]
    assert code == 0 and 3 <= len(path) <= 20
    best = max(point["mean"] for point in path if point["n_folds"] == 3)
    (chosen,) = [point for point in path if point["chosen"]]
    assert chosen["alpha"] == found["certificate"]["alpha"]
    assert chosen["mean"] == best and chosen["n_folds"] == 3
    assert all(p["mean"] < best for p in path if p["alpha"] > chosen["alpha"])
    caplog.clear()
    code, out, _ = run(*words[:-1], "--force")
    assert code == 0 and "3-fold path" in out and out.count("<- chosen") == 1
    assert sum("path of alphas: " in each.getMessage() for each in caplog.records) == len(path)


def test_the_path_is_that_of_the_estimator(run, iris):
    words = ("train", "multiclass", iris, "-o", "a.mm", "--alpha", "cv", "--folds", "3", "--json")
    found = json.loads(run(*words)[1])
    data = maxmargin.datasets.load("iris")
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    alpha = maxmargin.CrossValidated(cv=3)
    model = maxmargin.MulticlassClassifier(alpha=alpha, random_state=0).fit(X, data.y)
    assert found["certificate"]["alpha"] == pytest.approx(model.alpha_)
    means = [point["mean"] for point in found["alpha_path"]]
    np.testing.assert_allclose(means, model.cv_results_["mean_test_score"])


def test_the_path_maximises_the_measure_that_is_named(run, iris):
    words = ("train", "multiclass", iris, "-o", "a.mm", "--alpha", "cv", "--folds", "2", "--json")
    code, out, _ = run(*words, "--scoring", "f1_macro")
    named = json.loads(out)["alpha_path"]
    assert code == 0 and named != json.loads(run(*words, "--force")[1])["alpha_path"]
    code, _, err = run(*words, "--force", "--scoring", "spanf1")
    assert code == 2 and "span_f1" in err
    code, _, err = run(*words, "--force", "--scoring", "span_f1")  # a measure of sequences
    assert code == 2 and "--scoring span_f1 cannot be computed: y_true[0] must be a list" in err


def test_sequences(run, folder):
    (folder / "train.conll").write_text(SENTENCES * 8)
    (folder / "new.conll").write_bytes(b"the\r\nold\r\ndog\r\nruns\r\n")
    code, out, _ = run("train", "sequence", "train.conll", "-o", "t.mm", "--test", "train.conll")
    assert code == 0 and re.search(r"accuracy +1 ", out)
    code, out, _ = run("predict", "t.mm", "new.conll")
    assert code == 0 and out == "the DET\nold ADJ\ndog NOUN\nruns VERB\n"
    code, out, _ = run("inspect", "t.mm", "--json")
    pairs = [pair["pair"] for pair in json.loads(out)["pairs"]]
    assert code == 0 and "DET -> NOUN" in pairs
    code, out, err = run("evaluate", "t.mm", "new.conll")
    assert code == 2 and "holds no labels" in err


def test_ordered_classes(run, folder):
    _, rows = numbers_table("", np.random.RandomState(0))
    names = ["low", "medium", "high"]
    lines = [
        f"{row},{names[int(np.digitize(float(row.split(',')[0]), [-0.5, 0.5]))]}" for row in rows
    ]
    (folder / "a.csv").write_text("\n".join(["u,v,w,label", *lines]))
    code, _, err = run("train", "ordinal", "a.csv", "-o", "o.mm", "--order", "low,medium,high")
    assert code == 0, err
    assert maxmargin.load("o.mm").classes_.tolist() == names
    code, out, _ = run("evaluate", "o.mm", "a.csv", "--json")
    distance = json.loads(out)["scores"][0]
    assert distance["measure"] == "mean absolute error" and distance["value"] < distance["baseline"]
    code, _, err = run("train", "ordinal", "a.csv", "-o", "p.mm", "--order", "low,high")
    assert code == 2 and "--order does not name 'medium'" in err


@pytest.mark.slow
def test_sets_of_labels(run, folder):
    X, rows = numbers_table("", np.random.RandomState(0))
    sets = [";".join(f"t{k}" for k in np.flatnonzero(x > 0)) for x in X]
    lines = [f"{row},{labels}" for row, labels in zip(rows, sets, strict=True)]
    (folder / "a.csv").write_text("\n".join(["u,v,w,labels", *lines]))
    code, out, err = run("train", "multilabel", "a.csv", "-o", "m.mm", "--tol", "0.1")
    assert code == 0, err
    code, out, _ = run("predict", "m.mm", "a.csv")
    found = [row[0] for row in csv.reader(out.splitlines()[1:])]
    right = np.mean([a == b for a, b in zip(found, sets, strict=True)])
    code, out, _ = run("evaluate", "m.mm", "a.csv", "--json")
    values = {score["measure"]: score["value"] for score in json.loads(out)["scores"]}
    assert values["subset accuracy"] == right > 0.8
    code, out, _ = run("predict", "m.mm", "a.csv", "--json")
    assert [";".join(labels) for labels in json.loads(out)["predictions"]] == found
    code, out, _ = run("inspect", "m.mm", "--json")
    assert {pair["kind"] for pair in json.loads(out)["pairs"]} == {"interaction"}


@pytest.mark.slow
def test_rankings(run, folder):
    X, rows = numbers_table("", np.random.RandomState(0))
    ranks = np.argsort(np.argsort(-X, axis=1), axis=1) + 1
    lines = [f"{row},{','.join(map(str, rank))}" for row, rank in zip(rows, ranks, strict=True)]
    (folder / "a.csv").write_text("\n".join(["u,v,w,rank:tea,rank:ale,rank:rum", *lines]))
    code, _, err = run("train", "ranking", "a.csv", "-o", "r.mm")
    assert code == 0, err
    code, out, _ = run("predict", "r.mm", "a.csv")
    assert out.splitlines()[0] == "rank:tea,rank:ale,rank:rum"
    found = np.array([line.split(",") for line in out.splitlines()[1:]], int)
    code, out, _ = run("evaluate", "r.mm", "a.csv", "--json")
    values = {score["measure"]: score["value"] for score in json.loads(out)["scores"]}
    assert values["position accuracy"] == np.mean(found == ranks) > 0.8
    assert 0.8 < values["Kendall tau"] <= 1


@pytest.mark.slow
def test_graphs(run, folder):
    rng = np.random.RandomState(0)
    y = np.repeat(rng.randint(2, size=12), 3)
    np.savez(
        "g.npz", X=y[:, None] + 0.3 * rng.randn(36, 1), y=y, class_names=["sea", "land"],
        node_offsets=np.arange(13) * 3, edges=np.tile([[0, 1], [1, 2], [0, 2]], (12, 1)),
        edge_offsets=np.arange(13) * 3,
    )  # fmt: skip
    code, out, err = run(
        "train", "graph", "g.npz", "-o", "g.mm", "--set", "pairwise=potts", "--tol", "0.1"
    )
    assert code == 0, err
    code, out, _ = run("predict", "g.mm", "g.npz")
    lines = out.splitlines()
    assert lines[0] == "graph,node,prediction" and len(lines) == 37
    found = [line.split(",")[2] for line in lines[1:]]
    assert np.mean(np.array(found) == np.array(["sea", "land"])[y]) > 0.9
    code, out, _ = run("inspect", "g.mm")
    assert code == 0 and "land - land" in out


@pytest.mark.slow
def test_trees(run, folder):
    columns = "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t_"
    words = [("The", "DET", 2, "det"), ("cat", "NOUN", 3, "nsubj"), ("ran", "VERB", 0, "root")]
    sentence = "\n".join(columns.format(k, *word) for k, word in enumerate(words, 1)) + "\n\n"
    (folder / "a.conllu").write_text(sentence * 3)
    (folder / "b.conllu").write_text(re.sub(r"\d\t\w+\t_\t_\n", "_\t_\t_\t_\n", sentence))
    code, _, err = run("train", "tree", "a.conllu", "-o", "t.mm", "--set", "hash_bits=10")
    assert code == 0, err
    code, out, _ = run("predict", "t.mm", "b.conllu")
    assert code == 0 and out == sentence
    code, out, _ = run("evaluate", "t.mm", "a.conllu", "--json")
    values = {score["measure"]: score["value"] for score in json.loads(out)["scores"]}
    assert values == {"LAS": 1.0, "UAS": 1.0, "exact match": 1.0}
    assert run("evaluate", "t.mm", "b.conllu")[0] == 2


def test_parameters_of_values_are_set_by_their_own_names(run, iris):
    code, _, _ = run(
        "train", "multiclass", iris, "-o", "f.mm", "--tol", "0.1", "--set", "kernel=rbf",
        "--set", "kernel__gamma=0.5", "--set", "early_stopping__validation_fraction=0.2",
    )  # fmt: skip
    assert code == 0
    model = read_model_file("f.mm").model
    assert repr(model.kernel) == "RBF(gamma=0.5)"
    assert repr(model.early_stopping) == "EarlyStopping(validation_fraction=0.2)"


def test_hidden_labels_do_not_count():
    from types import SimpleNamespace

    from maxmargin.cli._tasks import certified
    from maxmargin.tasks import TASKS

    truth, found = [[2, -1, 0], [-1, 0]], [[2, 3, 0], [0, 1]]
    model = SimpleNamespace(
        classes_=np.array([0, 1, 2]), hidden="auto", single_root=True, vectorizer_=None,
        predict=lambda X: [np.array(f[: len(x)]) for f, x in zip(found, X, strict=False)],
    )  # fmt: skip
    X = [np.zeros((3, 1)), np.zeros((2, 1))]
    tree = TASKS["tree"](model)
    uas, exact = tree.measures(*tree.compare(X, truth))
    assert uas.value == pytest.approx(2 / 3) and exact.value == 0.5
    with pytest.raises(ValueError, match="no head is known"):
        tree.measures(*tree.compare(X[:1], [[-1, -1, -1]]))
    sequence = TASKS["sequence"](model)
    outputs = sequence.compare(X, truth)
    assert sequence.trivial(outputs[0])["label"] == 0
    assert sequence.measures(*outputs)[0].value == pytest.approx(2 / 3)
    certificate = {"global": False, "status": "stationary", "primal": 1.0, "relative_gap": 0.01}
    assert "proven" not in certified(certificate) and "local optimum" in certified(certificate)


def test_report(run, iris):
    words = ("train", "multiclass", iris, "-o", "a.mm", "--holdout", "0.3", "--report", "a.html")
    code, _, err = run(*words)
    assert code == 0, err
    text = open("a.html", encoding="utf-8").read()
    assert text.startswith("<!") and "iris.csv" in text
    code, _, err = run(*words[:4], "b.mm", *words[5:])
    assert code == 2 and "a.html exists already" in err


def test_nothing_is_overwritten_without_force(run, iris):
    run("train", "multiclass", iris, "-o", "iris.mm", "-q")
    before = open("iris.mm", "rb").read()
    code, _, err = run("train", "multiclass", iris, "-o", "iris.mm", "--alpha", "1")
    assert code == 2 and "iris.mm exists already; --force replaces it" in err
    assert open("iris.mm", "rb").read() == before
    code, _, err = run("predict", "iris.mm", iris, "-o", iris)
    assert code == 2 and "exists already" in err
    assert run("train", "multiclass", iris, "-o", "iris.mm", "--alpha", "1", "--force")[0] == 0
    assert open("iris.mm", "rb").read() != before
    assert run("predict", "iris.mm", iris, "-o", "out.csv")[0] == 0
    assert open("out.csv").read().splitlines()[0] == "prediction"


def test_exit_code_of_a_fit_that_did_not_converge(run, iris):
    words = (
        "train",
        "multiclass",
        iris,
        "-o",
        "a.mm",
        "--tol",
        "1e-9",
        "--max-iter",
        "2",
        "--force",
    )
    code, out, err = run(*words)
    assert code == 0 and "warning: MulticlassClassifier did not converge in 2 passes" in err
    assert "max_iter" in out
    assert run(*words, "--strict")[0] == 3


def test_quiet_says_nothing(run, iris):
    assert run("train", "multiclass", iris, "-o", "a.mm", "-q") == (0, "", "")


def test_data_sets(run):
    code, out, _ = run("datasets", "list", "--task", "multiclass", "--json")
    found = {entry["name"]: entry for entry in json.loads(out)}
    assert code == 0 and found["iris"]["where"] == "scikit-learn"
    code, out, _ = run("datasets", "list")
    assert code == 0 and "ud_english_ewt" in out
    code, out, _ = run("datasets", "path", "--json")
    assert code == 0 and set(json.loads(out)) == {"local", "cache"}
    code, _, err = run("datasets", "fetch", "irs")
    assert code == 2 and "did you mean 'iris'" in err
    code, out, _ = run("train", "multiclass", "@iris", "-o", "a.mm")
    assert code == 0
    code, _, err = run("train", "sequence", "@iris", "-o", "b.mm")
    assert code == 2 and "data set iris is for task multiclass" in err


def test_reproduce(run, monkeypatch):
    code, out, _ = run("reproduce")
    assert code == 0 and "table1" in out.split()
    code, _, err = run("reproduce", "table9")
    assert code == 2 and "there is no experiment 'table9'; there are table1" in err
    import experiments.__main__ as experiments

    calls = []
    monkeypatch.setattr(experiments, "main", calls.append)
    assert run("reproduce", "table1", "--quick", "--splits", "2")[0] == 0
    assert calls == [["table1", "--splits", "2", "--quick"]]


def test_reproduce_needs_the_sources(run, monkeypatch):
    import maxmargin.cli._reproduce as module

    monkeypatch.setattr(module, "__file__", "/nowhere/a/b/c/d.py")
    code, _, err = run("reproduce", "table1")
    assert code == 2 and "part of the source checkout" in err


def test_demo(run, monkeypatch):
    from maxmargin import demo

    calls = []
    monkeypatch.setattr(demo, "main", calls.append)
    assert run("demo", "--report", "a.html")[0] == 0
    assert calls == [["--report", "a.html"]]


def test_labels_that_break_their_scheme_are_counted(run, folder):
    train = "the D B-NP\ncat N I-NP\nsat V B-VP\n\na D B-NP\ndog N I-NP\nran V B-VP\n\n"
    (folder / "train.conll").write_text(train * 4)  # no O
    (folder / "good.conll").write_text("the D B-NP\ncow N I-NP\nsat V B-VP\n")
    (folder / "bad.conll").write_text("the D I-NP\ncow N I-NP\nsat V B-VP\n")
    assert run("train", "sequence", "train.conll", "-o", "m.mm")[0] == 0
    code, out, _ = run("evaluate", "m.mm", "good.conll")
    assert code == 0 and "span F1" in out and "malformed" not in out
    code, out, _ = run("evaluate", "m.mm", "bad.conll")
    assert code == 0 and "malformed in IOB2: 2 labels of the data, 0 of the predictions" in out
    found = json.loads(run("evaluate", "m.mm", "bad.conll", "--json")[1])
    assert found["malformed_labels"] == {"scheme": "IOB2", "true": 2, "predicted": 0}


def test_types_of_spans_and_features_not_seen_in_training(run, folder):
    train = (
        "the D B-NP\ncat N I-NP\nsat V B-VP\n. . O\n\na D B-NP\ndog N I-NP\nran V B-VP\n. . O\n\n"
    )
    (folder / "train.conll").write_text(train * 4)
    (folder / "test.conll").write_text("the D B-NP\ncow N I-NP\nsat V B-VP\n. . O\n")
    code, _, err = run("train", "sequence", "train.conll", "-o", "m.mm", "--test", "test.conll")
    assert code == 0, err
    code, out, _ = run("evaluate", "m.mm", "test.conll")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and ["type", "precision", "recall", "F1", "spans"] in lines
    assert ["NP", "1", "1", "1", "1"] in lines and ["VP", "1", "1", "1", "1"] in lines
    _, out, _ = run("evaluate", "m.mm", "test.conll", "--json")
    found = json.loads(out)
    assert found["types"]["NP"] == {"precision": 1.0, "recall": 1.0, "F1": 1.0, "spans": 1}
    # Those of the word "cow": all of its affixes and pairs are new, those of tags are not.
    assert 5 < found["n_unknown_features"] < found["n_features"]
    said = f"{found['n_unknown_features']} of {found['n_features']} features"
    _, out, err = run("predict", "m.mm", "test.conll")
    assert f"{said} (" in err and "not seen in training" in err
    _, _, err = run("predict", "m.mm", "train.conll")
    assert "not seen" not in err

"""The command line in the first hour: missing values, swapped arguments, the training file, more
passes, and what it says about them."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

pytest.importorskip("click", reason="needs the extra cli")

import maxmargin
from maxmargin.cli import main
from maxmargin.files import read
from maxmargin.files.prepare import Choices, follow, learn

TRAIN = ["train", "multiclass", "a.csv", "-o", "a.mm"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a table of two classes: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    X = rng.randn(40, 2)
    names = np.where(X[:, 0] + 0.5 * rng.randn(40) > 0, "up", "down")
    lines = [f"{a:.3f},{b:.3f},{name}" for (a, b), name in zip(X, names, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["u,v,label", *lines]))
    (tmp_path / "b.csv").write_text("\n".join(["u,v,label", *lines[:20]]))
    gaps = [",".join(["", *line.split(",")[1:]]) if i < 3 else line for i, line in enumerate(lines)]
    (tmp_path / "gaps.csv").write_text("\n".join(["u,v,label", *gaps]))

    def run_command(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


# --- missing values -------------------------------------------------------------------------------


def test_missing_values_are_refused_by_default(run):
    code, _, err = run("train", "multiclass", "gaps.csv", "-o", "g.mm")
    assert code == 2 and "line 2, column 'u': the value is missing" in err and "--missing" in err


def test_rows_with_missing_values_are_left_out(run):
    code, _, err = run("train", "multiclass", "gaps.csv", "-o", "g.mm", "--missing", "drop")
    assert code == 0 and "3 of 40 rows have missing values and were left out" in err
    assert "37 examples" in err
    code, out, _ = run("evaluate", "g.mm", "gaps.csv", "--json")
    assert code == 0 and json.loads(out)["n_examples"] == 37
    code, _, err = run("predict", "g.mm", "gaps.csv")
    assert code == 2 and "--missing mean" in err


def test_means_take_the_place_of_missing_values(run, tmp_path):
    code, _, err = run("train", "multiclass", "gaps.csv", "-o", "g.mm", "--missing", "mean")
    assert code == 0, err
    code, out, _ = run("predict", "g.mm", "gaps.csv")
    assert code == 0 and len(out.splitlines()) == 41
    table = read(tmp_path / "gaps.csv", "multiclass")
    prepared = learn(table, "multiclass", Choices(missing="mean"))
    assert prepared.X.shape == (40, 2)
    # A standardised mean is 0, in new data, too.
    assert np.allclose(prepared.X[:3, 0], 0.0)
    X, _ = follow(read(tmp_path / "gaps.csv", "multiclass"), prepared.recipe)
    assert (prepared.X == X).all()


# --- arguments ------------------------------------------------------------------------------------


def test_swapped_arguments_are_recognised(run):
    code, _, err = run("train", "a.csv", "multiclass", "-o", "a.mm")
    assert code == 2 and "the task comes first: maxmargin train TASK a.csv" in err
    assert run(*TRAIN)[0] == 0
    for command in ("predict", "evaluate", "report"):
        code, _, err = run(command, "a.csv", "a.mm")
        assert code == 2 and "a.mm is the model, and comes first: write a.mm a.csv" in err


def test_scores_on_the_training_file_come_with_a_warning(run):
    assert run(*TRAIN)[0] == 0
    code, out, err = run("evaluate", "a.mm", "a.csv", "--json")
    assert code == 0 and "the model was trained on this file" in err
    assert json.loads(out)["is_training_data"] is True
    code, out, err = run("evaluate", "a.mm", "b.csv", "--json")
    assert code == 0 and err == "" and json.loads(out)["is_training_data"] is False


def test_report_of_a_model_file(run, tmp_path):
    assert run(*TRAIN)[0] == 0
    code, _, err = run("report", "a.mm", "b.csv")
    assert code == 0 and err == "wrote report.html\n"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "MulticlassClassifier" in page and "for training" not in page
    code, _, err = run("report", "a.mm", "b.csv", "--train", "a.csv")
    assert code == 2 and "--force" in err
    assert run("report", "a.mm", "b.csv", "--train", "a.csv", "--force")[0] == 0
    assert "for training" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_quiet_prints_errors_only(run):
    hard = ["--tol", "1e-9", "--max-iter", "2"]
    assert run(*TRAIN, *hard, "-q") == (0, "", "")
    code, out, err = run("train", "multiclass", "gaps.csv", "-o", "g.mm", "-q")
    assert code == 2 and out == "" and err.startswith("error: ")
    assert run("train", "multiclass", "gaps.csv", "-o", "g.mm", "-q", "--missing", "drop")[1:] == (
        "",
        "",
    )


# --- more passes ----------------------------------------------------------------------------------


def test_a_finished_run_is_extended_by_more_passes(run, tmp_path):
    hard = ["--tol", "1e-9", "--max-iter"]
    code, _, err = run(*TRAIN, *hard, "2")
    assert code == 0 and "--resume with a larger --max-iter" in err
    first = maxmargin.load("a.mm")
    code, _, err = run(*TRAIN, *hard, "40", "--resume")
    assert code == 0 and "continuing from a.mm.checkpoint" in err
    second = maxmargin.load("a.mm")
    assert first.n_iter_ == 2 < second.n_iter_ and second.gap_ < first.gap_
    assert second.history_[: len(first.history_)] == first.history_
    code, _, err = run(*TRAIN, "--tol", "0.5", "--force")
    assert code == 0 and not (tmp_path / "a.mm.checkpoint").exists()
    code, _, err = run(*TRAIN, "--tol", "0.5", "--resume")
    assert code == 2 and "nothing to resume" in err


# --- files and experiments ------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "n_features"), [(0, 4), (1, 3)])
def test_features_of_svmlight_files_are_counted(run, tmp_path, first, n_features):
    rows = [f"{k % 2} {first}:{k} 3:1" for k in range(6)]
    (tmp_path / "a.svm").write_text("\n".join(rows) + "\n")
    code, _, err = run("train", "multiclass", "a.svm", "-o", "s.mm")
    assert code == 0 and f"6 examples, {n_features} features" in err
    assert maxmargin.load("s.mm").n_features_in_ == n_features
    (tmp_path / "new.svm").write_text("1 1:2 4:7\n0 3:1\n")
    code, out, err = run("predict", "s.mm", "new.svm")
    assert code == 0 and "up to number 4, the model knows those up to 3" in err
    assert len(out.splitlines()) == 3


def test_experiments_are_described_and_their_extras_checked(run, monkeypatch):
    code, out, _ = run("reproduce")
    assert code == 0 and "table1" in out and "Table 1 of the paper" in out
    assert len(out.splitlines()) >= 11 and all(len(line.split()) > 3 for line in out.splitlines())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("reproduce", "figure1", "--quick")
    assert code == 1 and 'pip install "maxmargin[plot]"' in err


def test_ordered_texts_need_an_order(run, tmp_path):
    rows = [f"{k},{('low', 'medium', 'high')[k // 4]}" for k in range(12)]
    (tmp_path / "o.csv").write_text("\n".join(["u,label", *rows]))
    code, _, err = run("train", "ordinal", "o.csv", "-o", "o.mm")
    assert code == 2 and "with --order A,B,C; they are high, low, medium" in err

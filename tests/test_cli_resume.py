"""Fits that are killed and go on: the same model, bit for bit, as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("click", reason="needs the extra cli")

import maxmargin
from maxmargin import Accelerated, Averaged, BlockFrankWolfe, MulticlassClassifier, SequenceLabeler
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from maxmargin.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Killed(BaseException):
    """In the place of a signal."""


def numbers(model):
    """Everything about a fit that a clock does not change."""
    history = [check._replace(seconds=0.0) for check in model.history_]
    weights = getattr(model, "weights_", None)
    weights = model.coef_ if weights is None else weights
    return weights.tobytes(), history, model.status_, model.n_iter_, model.primal_, model.dual_


def killed_and_resumed(make, X, y, path, at):
    """A model whose fit was killed at the given writings of its state, one after another."""
    state = None
    for number in at:
        model, left = make(), [number]

        def write(state, left=left):
            left[0] -= 1
            if not left[0]:
                write_checkpoint(path, {}, state)
                raise Killed

        model._recorder = Recorder(write, 0.0, state)
        with pytest.raises(Killed):
            model.fit(X, y)
        state = read_checkpoint(path)[1]
    model = make()
    model._recorder = Recorder(lambda state: None, np.inf, state)
    return model.fit(X, y)


WINE, CLASSES = load_wine(return_X_y=True)
WINE = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)
FLAT = {"tol": 1e-7, "max_iter": 60, "random_state": 0}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"solver": Accelerated(BlockFrankWolfe("gap"))},
        {"solver": Averaged(Accelerated(BlockFrankWolfe("uniform")), power=1.0)},
        {"solver": "subgradient"},
        {"surrogate": "crf", "solver": "lbfgs"},
    ],
    ids=str,
)
@pytest.mark.parametrize("at", [[1], [3], [8], [2, 5, 4]], ids=str)
def test_a_killed_fit_ends_as_if_nothing_had_happened(params, at, tmp_path):
    def make():
        return MulticlassClassifier(**(FLAT | params))

    whole = make().fit(WINE, CLASSES)
    resumed = killed_and_resumed(make, WINE, CLASSES, tmp_path / "c", at)
    assert numbers(resumed) == numbers(whole)


@pytest.mark.parametrize("params", [{}, {"surrogate": "crf", "solver": "bcfw"}], ids=str)
def test_a_killed_fit_of_sequences(params, tmp_path):
    def make():
        return SequenceLabeler(tol=1e-7, max_iter=40, random_state=0, **params)

    bounds = range(0, 160, 4)
    X = [WINE[k : k + 4] for k in bounds]
    y = [CLASSES[k : k + 4] for k in bounds]
    whole = make().fit(X, y)
    resumed = killed_and_resumed(make, X, y, tmp_path / "c", [5, 7])
    assert numbers(resumed) == numbers(whole)


def test_states_follow_the_checks_of_the_loop():
    model = MulticlassClassifier(**FLAT)
    states = []
    model._recorder = Recorder(lambda state: states.append(state.checked_calls), 0.0)
    model.fit(WINE, CLASSES)
    assert states[0] == 0 and states[-1] > 0 and states == sorted(states)


def test_damaged_checkpoints_are_refused(tmp_path):
    from maxmargin import ModelFileError

    path = tmp_path / "c"
    write_checkpoint(path, {"a": 1}, None)
    assert read_checkpoint(path) == ({"a": 1}, None)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ModelFileError, match="damaged .* remove it and start anew"):
        read_checkpoint(path)


# --- the command -------------------------------------------------------------------------------

TRAIN = ["train", "multiclass", "@wine", "--alpha", str(1 / 178), "--tol", "0"]
TRAIN += ["--max-iter", "2000", "-q", "-o"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kill_when(words, ready, seconds=120.0):
    """Start a command in a process of its own, and kill it without warning when it is ready."""
    command = [sys.executable, "-m", "maxmargin", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    limit = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < limit, "the command took too long"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_kill_9_and_resume(folder):
    checkpoint = folder / "killed.mm.checkpoint"

    def is_under_way():
        if not checkpoint.exists():
            return False
        state = read_checkpoint(checkpoint)[1]
        return state.solver.calls > 20 * 178

    kill_when([*TRAIN, "killed.mm", "--checkpoint-every", "0"], is_under_way)
    assert not os.path.exists("killed.mm")
    before = read_checkpoint(checkpoint)[1].solver.calls
    assert main([*TRAIN, "killed.mm", "--resume", "--alpha", "1"]) == 2  # other options
    assert main([*TRAIN, "killed.mm"]) == 2  # neither --resume nor --force
    assert main([*TRAIN, "killed.mm", "--resume"]) == 0
    assert main([*TRAIN, "whole.mm"]) == 0
    killed, whole = maxmargin.load("killed.mm"), maxmargin.load("whole.mm")
    assert whole.n_oracle_calls_ > 2 * before > 0
    assert numbers(killed)[1:] == numbers(whole)[1:]
    assert killed.coef_.tobytes() == whole.coef_.tobytes()
    assert sorted(os.listdir()) == ["killed.mm", "whole.mm"]  # no checkpoint, no temporary file


@pytest.mark.more
def test_a_path_of_alphas_that_was_finished_is_not_computed_again(folder, capsys, monkeypatch):
    words = ["train", "multiclass", "@wine", "--alpha", "cv", "--folds", "2", "--json", "-o"]
    assert main([*words, "whole.mm"]) == 0
    whole = json.loads(capsys.readouterr().out)
    import maxmargin.cli._fit as fit

    def write_and_die(path, about, state):
        write_checkpoint(path, about, state)
        raise Killed

    monkeypatch.setattr(fit, "write_checkpoint", write_and_die)
    monkeypatch.setattr("maxmargin.cli._app._code_of", lambda error: -9)
    assert main([*words, "killed.mm", "--checkpoint-every", "0"]) == -9
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("maxmargin.cli._path.path", None)  # cannot be called
    capsys.readouterr()
    assert main([*words, "killed.mm", "--resume"]) == 0
    resumed = json.loads(capsys.readouterr().out)
    assert resumed["alpha_path"] == whole["alpha_path"]
    a, b = maxmargin.load("killed.mm"), maxmargin.load("whole.mm")
    assert a.coef_.tobytes() == b.coef_.tobytes() and a.alpha_ == b.alpha_


@pytest.mark.parametrize("spelling", ["{0}/d.csv", "./d.csv", "../{1}/d.csv"])
def test_resume_with_another_spelling_of_the_same_path(folder, capsys, spelling):
    rows = np.column_stack([WINE, CLASSES])
    names = ",".join([*(f"x{k}" for k in range(WINE.shape[1])), "y"])
    np.savetxt("d.csv", rows, delimiter=",", header=names, comments="")
    options = ["--target", "y", "--tol", "0", "-o"]
    assert main(["train", "multiclass", "d.csv", *options, "a.mm", "--max-iter", "3"]) == 0
    again = ["train", "multiclass", spelling.format(folder, folder.name), *options]
    more = ["--max-iter", "9", "--resume"]
    assert main([*again, str(folder / "a.mm"), *more]) == 0
    assert "continuing from" in capsys.readouterr().err
    assert maxmargin.load("a.mm").n_iter_ == 9
    np.savetxt("d.csv", rows[1:], delimiter=",", header=names, comments="")  # other data
    assert main([*again, "a.mm", "--max-iter", "12", "--resume"]) == 2


def test_resume_without_a_checkpoint(folder, capsys):
    assert main([*TRAIN[:3], "-o", "a.mm", "--resume"]) == 0
    assert "starting from the beginning" in capsys.readouterr().err
    assert main([*TRAIN[:3], "-o", "a.mm", "--resume"]) == 2
    assert "nothing to resume: a.mm is complete" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_keeps_the_best_model_so_far(folder):
    checkpoint = folder / "a.mm.checkpoint"
    words = [*TRAIN[:-2], "-o", "a.mm"]
    command = [sys.executable, "-m", "maxmargin", *words, "--checkpoint-every", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Python leaves SIGINT ignored if it was when it started, as in the background of a shell.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    limit = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < limit:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "a.mm holds the best model so far; --resume goes on" in err and "interrupted" in out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert maxmargin.load("a.mm").status_ == "interrupted" and checkpoint.exists()
        assert main([*words, "--resume", "-q"]) == 0
    assert maxmargin.load("a.mm").status_ != "interrupted" and not checkpoint.exists()

"""Processes that are killed while they write: the old file or the new one, and no litter."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from maxmargin import MulticlassClassifier, load, save
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from samebits import problem

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork")


@pytest.fixture(scope="module")
def flat():
    return MulticlassClassifier(random_state=0, warm_start=True).fit(*problem())


def killed_while(write, moment):
    """Run a function again and again in a process, and kill that after some seconds."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number in range(10**6):
                write(number)
                os.write(write_end, b"x")  # one has been written
        finally:
            os._exit(1)
    os.close(write_end)
    os.read(read_end, 1)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    os.close(read_end)


@pytest.fixture(scope="module")
def wide():
    """Two models that take a while to write."""
    X = np.random.RandomState(0).normal(size=(6, 40_000))
    y = np.arange(6) % 3
    return [MulticlassClassifier(alpha=a, random_state=0).fit(X, y) for a in (1.0, 10.0)]


def check_kills_of_save(wide, folder, times):
    path = folder / "model"
    known = [model.coef_.tobytes() for model in wide]
    moments = random.Random(0)
    for _ in range(times):
        killed_while(lambda number: save(wide[number % 2], path), moments.uniform(0.0, 0.2))
        assert load(path).coef_.tobytes() in known
        assert len(os.listdir(folder)) <= 2  # the file of the process that was killed
    save(wide[0], path)
    assert os.listdir(folder) == ["model"]


def check_kills_of_checkpoints(folder, times):
    path = folder / "c"
    states: list = []
    model = MulticlassClassifier(random_state=0)
    model._recorder = Recorder(states.append, 0.0)
    model.fit(*problem())
    state = states[0]
    padded = state._replace(best=(np.zeros(1 << 20), *state.best[1:]))
    moments = random.Random(1)
    for _ in range(times):
        killed_while(
            lambda number: write_checkpoint(path, {"number": number}, padded),
            moments.uniform(0.0, 0.05),
        )
        note, found = read_checkpoint(path)
        assert note["number"] >= 0 and len(found.best[0]) == 1 << 20
        assert len(os.listdir(folder)) <= 2
    write_checkpoint(path, {}, state)
    assert os.listdir(folder) == ["c"]


def test_killed_while_saving(wide, tmp_path):
    check_kills_of_save(wide, tmp_path, 3)


def test_killed_while_writing_a_checkpoint(tmp_path):
    check_kills_of_checkpoints(tmp_path, 3)


@pytest.mark.slow
def test_killed_while_saving_twenty_times(wide, tmp_path):
    check_kills_of_save(wide, tmp_path, 20)


@pytest.mark.slow
def test_killed_while_writing_a_checkpoint_twenty_times(tmp_path):
    check_kills_of_checkpoints(tmp_path, 20)


@pytest.mark.parametrize("step", ["os.fsync", "os.replace"])
def test_killed_at_a_step_of_saving(flat, tmp_path, step, monkeypatch):
    path = tmp_path / "model"
    save(flat, path)
    before = path.read_bytes()
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(step, lambda *args: os.kill(os.getpid(), signal.SIGKILL))
        try:
            save(flat, path, dual=True)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert path.read_bytes() == before and len(os.listdir(tmp_path)) == 2
    save(flat, path)
    assert os.listdir(tmp_path) == ["model"]


def test_the_file_of_a_process_at_work_is_left_alone(flat, tmp_path):
    from maxmargin.persistence import replacing

    path = tmp_path / "model"
    with replacing(path) as file:
        save(flat, path)  # another one is faster
        assert len(os.listdir(tmp_path)) == 2
        file.write(b"whole")
    assert path.read_bytes() == b"whole" and os.listdir(tmp_path) == ["model"]

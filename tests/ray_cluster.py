"""Partitions on a real Ray; run by ``make test-ray``, not among the other tests."""

from __future__ import annotations

import os
import signal

import pytest

from maxmargin import Partitioned, distributed
from maxmargin.distributed.ray import RayEngine
from test_distributed import assert_brackets, assert_survives_ctrl_c
from test_partitions import KINDS, X, Y, bits, flat, optimum

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize(("make", "X", "y"), KINDS)
def test_ray_and_threads_give_the_same_bits(make, X, y):
    expected = make(tol=1e-2, solver=Partitioned("auto", 3)).fit(X, y)
    found = distributed.fit(make(tol=1e-2), (X, y), engine="ray", n_partitions=3)
    assert bits(found) == bits(expected)


def test_references_and_datasets():
    whole = flat().fit(X, Y)
    references = [ray.put((X[k::2], Y[k::2])) for k in range(2)]
    model = distributed.fit(flat(), references, engine="ray")
    assert_brackets(model, whole)
    assert distributed.score(model, references, engine="ray") == pytest.approx(model.score(X, Y))
    with pytest.raises(ValueError, match="partition 1 is empty"):
        distributed.fit(flat(), [references[0], ray.put((X[:0], Y[:0]))], engine="ray")


def test_tables():
    data = pytest.importorskip("ray.data")
    import pandas as pd

    table = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    rows = data.from_pandas([table[:20], table[20:]])
    assert_brackets(distributed.fit(flat(), rows, engine="ray", target="label"), flat().fit(X, Y))


@pytest.mark.parametrize("at", [1, 3])
def test_a_killed_actor_leaves_the_certificate_true(at):
    best, engine, killed = optimum(), RayEngine(n_workers=2), []

    def pids():
        return [ray.get(actor.pid.remote()) for actor in engine._actors.values()]

    def kill_one(check):
        if check.passes >= at and not killed:
            killed.append(pids()[0])
            os.kill(killed[0], signal.SIGKILL)

    model = flat(tol=1e-3, callbacks=kill_one)
    distributed.fit(model, (X, Y), engine=engine, n_partitions=3)
    engine.close()
    assert killed and model.status_ == "converged"
    for check in model.history_:
        assert check.dual <= best + 1e-9 and best <= check.primal + 1e-9


def test_an_address_that_nobody_answers():
    with pytest.raises(ConnectionError, match="nobody answers at ray://"):
        distributed.fit(flat(), (X, Y), engine="ray://127.0.0.1:1")


def test_ctrl_c_returns_the_best_model_and_leaves_no_process(tmp_path):
    assert_survives_ctrl_c("ray", tmp_path)

"""Settings and fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import settings

from run import variables

# Numba reads this when it is imported. What tests compile must not end up in the cache that users
# and benchmarks share.
os.environ.update(variables(os.environ))

import realdata
from maxmargin._kernels.jit import register_everything
from maxmargin.solvers import interrupt

# Drivers of the tests call generic functions, too.
register_everything()

# The compiler makes millions of objects that live on: looking for garbage less often saves time.
gc.set_threshold(50_000, 20, 20)

# The first example of a property compiles kernels, which no deadline allows for. Under CI the
# examples are the same in every run, so that a failure there can be repeated.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config):
    """Measure what tests cost, if asked."""
    if path := os.environ.get("MAXMARGIN_TEST_COSTS"):
        from costs import Costs

        config.pluginmanager.register(Costs(path))


@pytest.fixture(scope="session")
def ocr():
    """The OCR words as (X, y, fold), read once; tests must not write to them."""
    X, y, fold = realdata.load_ocr()
    for array in (*X, *y, fold):
        array.flags.writeable = False
    return X, y, fold


@pytest.fixture
def default_sigint(monkeypatch):
    """Python's own handler of SIGINT, long after the last one.

    The process that runs the tests may have another, or ignore the signal: Python then installs
    none.
    """
    monkeypatch.setattr(interrupt, "_asked_at", -float("inf"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # restored after the fit
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_file():
    """The function :func:`realdata.data_file`, for tests that read a file themselves."""
    return realdata.data_file

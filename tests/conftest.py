"""Settings and fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Most of the time of a first run is compilation. Less optimisation makes it shorter (none at all
# would make the tests that compute much slower). `make test-all` tests the code that users get,
# optimised. The two must not meet in one cache, nor end up in the one that users and benchmarks
# share. Numba reads this when it is imported.
_LEVEL = os.environ.setdefault("NUMBA_OPT", "1")
_CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"tests-{_LEVEL}"
os.environ.setdefault("NUMBA_CACHE_DIR", str(_CACHE))

import realdata  # noqa: E402
from maxmargin._kernels.jit import register_everything  # noqa: E402

# Drivers of the tests call generic functions, too.
register_everything()

# The compiler makes millions of objects that live on: looking for garbage less often saves time.
gc.set_threshold(50_000, 20, 20)

# The first example of a property compiles kernels, which no deadline allows for. Under CI the
# examples are the same in every run, so that a failure there can be repeated.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def ocr():
    """The OCR words as (X, y, fold), read once; tests must not write to them."""
    X, y, fold = realdata.load_ocr()
    for array in (*X, *y, fold):
        array.flags.writeable = False
    return X, y, fold


@pytest.fixture(scope="session")
def data_file():
    """The function :func:`realdata.data_file`, for tests that read a file themselves."""
    return realdata.data_file

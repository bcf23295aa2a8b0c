"""What the compiler is told about functions that only compiled functions call."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import types
from numba.core.compiler import Flags

from maxmargin._kernels import pipeline
from maxmargin._kernels.jit import compiled, inner, leaf

pytestmark = pytest.mark.skipif(
    not pipeline.SUPPORTED, reason="this version of numba compiles everything by default"
)


@leaf
def twice(x):
    return 2.0 * x


@inner
def pair_of(x):
    found = np.empty(2)
    found[0] = x
    found[1] = twice(x)
    return found


@compiled
def total_of_pair(x):
    return pair_of(x).sum()


def test_linked_functions_have_no_machine_code_of_their_own():
    assert total_of_pair(1.5) == 4.5
    for function in (twice, pair_of):
        function.compile((types.float64,))  # or its caller may come from the cache without it
        [found] = function.overloads.values()
        assert type(found.library) is pipeline._LinkedLibrary
    [found] = total_of_pair.overloads.values()
    assert not isinstance(found.library, pipeline._LinkedLibrary)


def test_a_linked_function_can_still_be_called():
    assert twice(3.0) == 6.0
    np.testing.assert_array_equal(pair_of(1.0), [1.0, 2.0])


def test_flags_compare_as_those_of_numba():
    plain, other = Flags(), Flags()
    other.nrt = True
    quick = pipeline._ComparableFlags(plain)
    assert quick == plain and plain == quick and quick == quick.copy()
    assert quick != other and other != quick
    same = pipeline._ComparableFlags(plain)
    same.nrt = False  # its default, said aloud
    assert same == quick and same == plain
    assert hash(quick) == hash(plain) == hash(pipeline._ComparableFlags(other))
    assert type(quick.copy()) is type(quick)
    assert quick != "flags"


CALLERS = """
import sys
import numpy as np
from maxmargin._kernels.simplex import project
from maxmargin._kernels.jit import compiled

@compiled
def {name}(x, work, out):
    project(x, work, 1.0, out)
    return out

out = np.empty(3)
{name}(np.array([0.2, 0.9, -1.0]), np.empty(6), out)
print(out.tolist(), sum(project.stats.cache_hits.values()))
"""


@pytest.mark.more
def test_another_process_takes_linked_code_from_the_cache(tmp_path):
    """Its caller is new, so it needs the plain code."""

    def run(name):
        path = tmp_path / f"{name}.py"
        path.write_text(CALLERS.format(name=name))
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, str(path)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.rsplit(maxsplit=1)

    first, hits = run("first")
    assert hits == "0"
    assert run("second") == [first, "1"]
    assert sum(eval(first)) == pytest.approx(1.0)

"""The cache of compiled code: written once, found by the next process, never out of date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin
from maxmargin._kernels import sources

PACKAGE = Path(maxmargin.__file__).parent

FIT = """
import numpy as np
from maxmargin import MulticlassClassifier
from maxmargin._kernels import passes
from maxmargin.solvers import _bcfw_kernel

X = np.random.RandomState(0).randn(12, 3)
model = MulticlassClassifier(random_state=0).fit(X, np.arange(12) % 3)
model.score(X, np.arange(12) % 3)
for kernel in (
    _bcfw_kernel.visit_blocks.callable_version,
    passes.evaluate_range.callable_version,
    passes.truth_range.callable_version,
    passes.add_range.callable_version,
):
    found = kernel.stats
    print(kernel.__name__, sum(found.cache_hits.values()), sum(found.cache_misses.values()))
print(model.primal_.hex())
"""

FEW = """
import numpy as np
from maxmargin._kernels import passes, simplex

x, work, out = np.array([0.2, 0.9, -1.0]), np.empty(6), np.empty(3)
simplex.project(x, work, 1.0, out)
value = passes.inner_product(out, x) + simplex.threshold(x, work, 1.0)
for kernel in (simplex.project, passes.inner_product, simplex.threshold):
    found = kernel.callable_version.stats
    print(kernel.__name__, sum(found.cache_hits.values()), sum(found.cache_misses.values()))
print(value.hex())
"""

FOLDER = "from maxmargin._kernels.jit import cache_folder; print(cache_folder())"


def run(code, cache, source=PACKAGE.parent):
    """Standard output of a fresh process that imports the package from ``source``."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source), "MAXMARGIN_PREBUILT": "0"
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.fixture
def copied(tmp_path):
    """A copy of the package's sources, to be edited."""
    shutil.copytree(
        PACKAGE,
        tmp_path / "source" / "maxmargin",
        ignore=shutil.ignore_patterns("__pycache__", "_prebuilt"),
    )
    return tmp_path / "source"


@pytest.mark.more
def test_a_second_process_compiles_nothing_wherever_the_sources_are(copied, tmp_path):
    tmp_path = tmp_path / "cache"
    *first, value = run(FEW, tmp_path)
    assert [line.split()[1:] for line in first] == [["0", "1"]] * 3
    written = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert {path.suffix for path in written} == {".nbc"}
    assert len(list((tmp_path / "maxmargin").iterdir())) == 1  # one folder for these sources
    *second, again = run(FEW, tmp_path)
    assert [line.split()[1:] for line in second] == [["1", "0"]] * 3
    assert [line.split()[0] for line in second] == [line.split()[0] for line in first]
    assert again == value
    *third, again = run(FEW, tmp_path, copied)  # other paths, other time stamps
    assert third == second and again == value
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == written


def test_the_same_sources_share_a_folder_wherever_they_stand(copied, tmp_path):
    assert run(FOLDER, tmp_path) == run(FOLDER, tmp_path, copied)


def append_a_comment(path):
    """Edit a file and leave its time stamp: contents count."""
    times = path.stat()
    path.write_text(path.read_text() + "\n# edited\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_an_edit_beside_compiled_functions_starts_a_new_folder(copied, tmp_path):
    found = run(FOLDER, tmp_path, copied)
    for edited in ("estimators/multiclass.py", "solvers/acceleration.py"):
        append_a_comment(copied / "maxmargin" / edited)
    assert run(FOLDER, tmp_path, copied) == found  # nothing of this is compiled
    for edited in ("_kernels/vector.py", "features/rows.py", "structures/losses.py",
                   "solvers/_bcfw_kernel.py"):  # fmt: skip
        append_a_comment(copied / "maxmargin" / edited)
        found += run(FOLDER, tmp_path, copied)
    assert len(set(found)) == 5


def test_whatever_compiles_counts_among_the_sources():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(
            r"^\s*@(compiled|leaf|inner|ordered_leaf|implements|overload|intrinsic|\S*njit)",
            path.read_text(),
            re.M,
        )
    }
    counted = set(sources.compiled_sources())
    assert "structures/chain.py" in found  # the search finds something
    assert found <= counted


@pytest.mark.parametrize("name", ["_kernels/protocol.py", "structures/traits.py"])
def test_what_compiled_files_import_counts_among_the_sources(name):
    assert name in sources.compiled_sources()  # neither compiles anything itself


def test_checks_of_parameters_do_not_count():
    assert "_validation.py" not in sources.compiled_sources()


@pytest.mark.more
def test_a_source_more_or_under_another_name_starts_a_new_folder(copied, tmp_path):
    found = {run(FOLDER, tmp_path, copied)[0]}
    extra = copied / "maxmargin" / "structures" / "extra.py"
    extra.write_text("from .._kernels.jit import leaf\n")
    found.add(run(FOLDER, tmp_path, copied)[0])
    extra.rename(extra.with_name("other.py"))
    found.add(run(FOLDER, tmp_path, copied)[0])
    assert len(found) == 3


def test_the_folder_stands_below_the_chosen_one(tmp_path):
    [folder] = run(FOLDER, tmp_path)
    assert Path(folder).parent == tmp_path / "maxmargin"


MEANWHILE = """
import subprocess
import sys
import numpy as np
from maxmargin import MulticlassClassifier
from maxmargin._kernels.jit import cache_folder

OTHER = (
    "import numpy as np; from maxmargin import LabelRanker; random = np.random.RandomState(0);"
    "LabelRanker(solver='pairwise', max_iter=1, tol=0.9).fit("
    "random.randn(9, 2), np.argsort(random.randn(9, 3), axis=1))"
)
started = []

def train_elsewhere(check):
    if not started:
        started.append(check)
        subprocess.run([sys.executable, "-W", "ignore", "-c", OTHER], check=True)
        for path in cache_folder().rglob("*pairwise_steps*"):
            path.unlink()  # as if the other were still compiling what calls the rest

X = np.random.RandomState(0).randn(12, 2)
model = MulticlassClassifier(solver="pairwise", max_iter=1, tol=0, callbacks=[train_elsewhere])
model.fit(X, np.arange(12) % 3)  # checks before it compiles its steps
print(len(started), model.n_iter_)
"""


@pytest.mark.more
def test_what_other_processes_put_into_the_cache_meanwhile_does_no_harm(tmp_path):
    assert run(MEANWHILE, tmp_path) == ["1 1"]

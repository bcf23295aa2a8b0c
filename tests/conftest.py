"""Settings and fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Most of the time of a first run is compilation. Less optimisation makes it shorter; such code must
# not end up in the cache that users and benchmarks share. Numba reads this when it is imported.
_CACHE = Path(__file__).resolve().parent.parent / ".cache" / "tests"
os.environ.setdefault("NUMBA_OPT", "1")
os.environ.setdefault("NUMBA_CACHE_DIR", str(_CACHE))

import realdata  # noqa: E402

# The compiler makes millions of objects that live on: looking for garbage less often saves time.
gc.set_threshold(50_000, 20, 20)

# The first example of a property compiles kernels, which no deadline allows for. Under CI the
# examples are the same in every run, so that a failure there can be repeated.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


# Files that use the same kernels run in one process, so that no kernel is compiled by two at the
# same time. The families that compile most come first; all other files run wherever there is room.
_FAMILIES = {
    "sequences": (
        "test_chain_max_min", "test_crf_chain", "test_kernels_sequences", "test_hidden_labels",
        "test_mirror_prox", "test_oracles", "test_equivalences", "test_sum_product",
        "test_cli_commands", "test_cli_resume", "test_cli_terminal", "test_best_labellings",
        "test_unusual_sequences", "test_prediction", "test_masks", "test_ocr_agreement",
        "test_saved_estimators", "test_positionwise",
    ),
    "graphs": (
        "test_hidden_graphs", "test_graph_labeler", "test_multilabel_edges", "test_soft_agreement",
        "test_graph_baselines", "test_decoding", "test_grid_labeler", "test_bad_graphs",
    ),
    "flat": (
        "test_unusual_input", "test_kernels", "test_duality", "test_multilabel_manners",
        "test_sklearn_manners", "test_multilabel", "test_crf", "test_consistency",
    ),
    "permutations": ("test_rankings", "test_matchings"),
    "trees": ("test_tree_parser",),
    "subsets": ("test_subsets",),
}  # fmt: skip


def pytest_collection_modifyitems(items):
    """Order the files and group them; the order within a file stays."""
    group = {file: family for family, files in _FAMILIES.items() for file in files}
    rank = {file: place for place, file in enumerate(group)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group.get(item.path.stem, item.path.stem)))


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

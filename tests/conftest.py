"""Settings and fixtures shared by all tests."""

from __future__ import annotations

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

# The first example of a property compiles kernels, which no deadline allows for. Under CI the
# examples are the same in every run, so that a failure there can be repeated.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


# Files that compile most come first, so that the workers end at about the same time.
_LONG = (
    "test_unusual_input", "test_tree_parser", "test_subsets", "test_hidden_graphs",
    "test_cli_commands",
    "test_chain_max_min", "test_rankings", "test_hidden_labels", "test_latent_predictor",
    "test_kernels_sequences", "test_crf_chain",
    "test_mirror_prox", "test_multilabel_manners", "test_kernels", "test_decoding",
    "test_matchings", "test_graph_baselines", "test_duality", "test_sklearn_manners",
    "test_soft_agreement", "test_graph_labeler", "test_multilabel_edges",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Order the files; the order within a file stays."""
    rank = {name: place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


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

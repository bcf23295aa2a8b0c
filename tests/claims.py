"""A plugin for processes that share the tests: each file is run by the first that takes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ["MAXMARGIN_TEST_CLAIMS"])
_own: dict[str, bool] = {}


def is_ours(name: str) -> bool:
    """Whether this process has taken a file, or takes it now."""
    if name not in _own:
        try:
            (FOLDER / name).touch(exist_ok=False)
        except FileExistsError:
            _own[name] = False
        else:
            _own[name] = True
    return _own[name]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Leave tests of files that others have taken to them."""
    return None if is_ours(item.path.name) else True

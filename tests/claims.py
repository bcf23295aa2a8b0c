"""A plugin for processes that share the tests: each file is run by the first that takes it.

Tests of a file are collected when it is taken, so a process imports no tests that others run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(os.environ["MAXMARGIN_TEST_CLAIMS"])


def is_ours(name: str) -> bool:
    """Whether this process is the first that asks for a file."""
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Keep all files: marks and names select among their tests."""
    files = [item for item in items if isinstance(item, pytest.Module)]
    found = yield
    if files:
        items[:] = files
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """Find the files without a look into them."""
    session.files = session.perform_collect(genitems=False)
    return True


def _tests(session: pytest.Session) -> Iterator[pytest.Item]:
    for file in session.files:
        if is_ours(file.path.name):
            items = list(session.genitems(file))
            session.config.hook.pytest_collection_modifyitems(
                session=session, config=session.config, items=items
            )
            session.testscollected += len(items)
            yield from items


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Run the tests of one file after the other, with fixtures of the session for all."""
    tests = _tests(session)
    item = next(tests, None)
    while item is not None:
        following = next(tests, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True

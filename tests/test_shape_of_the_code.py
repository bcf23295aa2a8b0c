"""Limits on the code that can be counted: parameters, and questions about types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import maxmargin

SOURCES = sorted(Path(maxmargin.__file__).parent.rglob("*.py"))
# Decorators of functions that are compiled, and how many parameters these may have.
COMPILED, MOST_OF_KERNELS = {"compiled", "leaf", "inner", "ordered_leaf", "intrinsic"}, 10
MOST_OF_ESTIMATORS = 20


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of the library, with the place where they stand."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.name}:{node.lineno} {node.name}", node


def decorators(function: ast.FunctionDef) -> set[str]:
    calls = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
    return {each.id for each in calls if isinstance(each, ast.Name)}


def test_kernels_have_few_parameters():
    counted = {}
    for place, function in functions():
        found = decorators(function)
        if found & (COMPILED | {"implements"}):
            names = [each.arg for each in function.args.args]
            counted[place] = len(names) - ("typingctx" in names)
    assert len(counted) > 500
    assert {place: n for place, n in counted.items() if n > MOST_OF_KERNELS} == {}


def test_estimators_have_few_parameters():
    found = {
        name: len(signature(each).parameters)
        for name, each in ((name, getattr(maxmargin, name)) for name in maxmargin.__all__)
        if isinstance(each, type) and issubclass(each, BaseEstimator)
    }
    assert len(found) >= 10
    assert max(found.values()) <= MOST_OF_ESTIMATORS, found


@pytest.mark.parametrize(("names", "most"), [({"isinstance"}, 3.0), ({"getattr", "hasattr"}, 1.5)])
def test_few_lines_ask_for_types_or_attributes(names, most):
    lines = calls = 0
    for path in SOURCES:
        text = path.read_text()
        lines += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            calls += isinstance(node, ast.Call) and getattr(node.func, "id", "") in names
    assert 1000.0 * calls / lines <= most

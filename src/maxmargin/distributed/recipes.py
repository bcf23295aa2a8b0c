"""One recipe for all shards: which columns they have, what is in them, and how labels are named.

A shard that is read alone knows its own categories and labels only, so equal columns of two shards
would mean different things.
"""

from __future__ import annotations

from typing import Any

from ..files import FileError
from ..files.table_features import feature_names

# What must be the same in all shards, and how it is called.
_SAME = {
    "form": "the form",
    "width": "the number of columns of tokens",
    "group": "the column of the sequences",
    "y_format": "the format of rankings",
    "items": "the items of rankings",
    "order": "the order of labels",
}
# Kinds of labels, from those that hold the others.
_KINDS = ("str", "float", "int")


def merged(recipes: list[dict[str, Any]], paths: list[str]) -> dict[str, Any]:
    """The recipe by which all shards are read; shards that differ in columns are refused."""
    first = recipes[0]
    for recipe, path in zip(recipes, paths, strict=True):
        for key, what in _SAME.items():
            if recipe.get(key) != first.get(key):
                raise _differ(path, f"{what} is {recipe.get(key)!r}", paths[0], first.get(key))
        if sorted(recipe.get("targets", ())) != sorted(first.get("targets", ())):
            raise _differ(path, f"labels are in {recipe['targets']}", paths[0], first["targets"])
    common = dict(first)
    if "columns" in first:
        common["columns"] = _columns(recipes, paths)
        common["feature_names"] = feature_names(common["columns"])
    if "label_names" in first:
        common["label_names"] = _label_names([recipe["label_names"] for recipe in recipes])
    if "label_kind" in first:
        found = {recipe["label_kind"] for recipe in recipes}
        common["label_kind"] = next(kind for kind in _KINDS if kind in found)
    if "labels" in first:
        common["labels"] = all(recipe["labels"] for recipe in recipes)
    if "first_feature" in first:  # 1 if no row has a column 0
        common["first_feature"] = min(recipe["first_feature"] for recipe in recipes)
        ends = [recipe["n_features"] + recipe["first_feature"] for recipe in recipes]
        common["n_features"] = max(ends) - common["first_feature"]
        common["feature_names"] = _matrix_names(recipes, paths)
    return common


def agrees(recipe: dict[str, Any], common: dict[str, Any]) -> bool:
    """Whether a shard that was read by its own recipe is as by the common one, but for zeros."""
    if recipe["form"] == "matrix":
        recipe = {**recipe, **{key: common[key] for key in ("n_features", "feature_names")}}
    return recipe == common


def _differ(path: str, said: str, other: str, there: Any) -> FileError:
    return FileError(f"{path}: {said}, but of {other} {there!r}; all shards must have the same.")


def _columns(recipes: list[dict[str, Any]], paths: list[str]) -> list[dict[str, Any]]:
    """Columns of tables in the order of the first, with the categories of all."""
    found = {column["name"]: dict(column) for column in recipes[0]["columns"]}
    for recipe, path in zip(recipes[1:], paths[1:], strict=True):
        names = {column["name"] for column in recipe["columns"]}
        for name in sorted(names ^ set(found)):
            has, lacks = (path, paths[0]) if name in names else (paths[0], path)
            raise FileError(
                f"{lacks}: has no column {name!r}, but {has} has one; all shards must have the "
                "same columns."
            )
        for column in recipe["columns"]:
            before = found[column["name"]]
            if column["kind"] != before["kind"]:
                raise FileError(
                    f"{path}: column {column['name']!r} is a {column['kind']}, but in {paths[0]} "
                    f"it is a {before['kind']}; name it in categorical=."
                )
            if "values" in column:
                before["values"] = sorted({*before["values"], *column["values"]})
    return list(found.values())


def _label_names(lists: list[list]) -> list:
    longest = max(lists, key=len)
    every = set().union(*lists)
    if every == set(longest):
        return longest
    return sorted(every, key=lambda label: (str(type(label)), label))


def _matrix_names(recipes: list[dict[str, Any]], paths: list[str]) -> list[str] | None:
    """Names of the columns of matrices, which agree as far as each shard has columns."""
    every = [
        [None] * recipe["first_feature"] + (recipe["feature_names"] or []) for recipe in recipes
    ]
    for names, path in zip(every, paths, strict=True):
        if any(a != b for a, b in zip(names, every[0], strict=False) if None not in (a, b)):
            raise FileError(
                f"{path}: names of columns differ from those in {paths[0]}; all shards must have "
                "the same columns."
            )
    return max((recipe["feature_names"] for recipe in recipes), key=lambda names: len(names or ()))

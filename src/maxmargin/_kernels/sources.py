"""The sources that compiled code depends on, and their hash.

These are the files that compile functions (they import :mod:`.jit`) and, transitively, all files
of the package that those import. Edits elsewhere do not affect compiled code. Needs nothing but
Python, because it is also used to build a wheel.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
# Folders without compiled code: not read, because an import should be fast.
_WITHOUT = ("estimators", "report", "files", "datasets", "cli", "torch")
# These modules store and load compiled code, and do not affect it.
_KEEPING = ("cache", "sources", "store", "target")  # in _kernels
_COMPILES = re.compile(r"^from (?:\.|\.\.+_kernels\.)jit import", re.M)
_IMPORT = re.compile(r"^\s*from (\.+)([\w.]*) import (\([^)]*\)|.*)$", re.M)


def _imported(path: Path, text: str) -> set[Path]:
    """The files of the package that a file imports, at the top or in functions."""
    found = set()
    for dots, module, names in _IMPORT.findall(text):
        folder = path.parents[len(dots) - 1]
        if module:
            folder = folder.joinpath(*module.split("."))
            found.add(folder.with_suffix(".py"))
        words = re.sub(r"#.*|[()]", "", names).split(",")
        found.update(folder / f"{word.split()[0]}.py" for word in words if word.split())
    return found


@functools.cache
def compiled_sources() -> dict[str, bytes]:
    """Contents of all files that compiled code depends on, by their path within the package."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in _WITHOUT
    }
    waiting = [path for path, text in texts.items() if _COMPILES.search(text)]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in texts and path not in found:
            found.add(path)
            waiting += _imported(path, texts[path])
    names = {path.relative_to(PACKAGE).as_posix(): path for path in found}
    keeping = {f"_kernels/{name}.py" for name in _KEEPING}
    return {name: texts[names[name]].encode() for name in sorted(names) if name not in keeping}


@functools.cache
def content_hash() -> str:
    """Hash of these sources."""
    digest = hashlib.sha256()
    for name, content in compiled_sources().items():
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


@functools.cache
def source_hash() -> str:
    """Hash of these sources and of the versions of what compiles them."""
    import llvmlite
    import numba

    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__)
    return hashlib.sha256(f"{versions}\n{content_hash()}".encode()).hexdigest()[:16]

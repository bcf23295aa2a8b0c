"""How functions are compiled: one decorator, one cache folder per version of the sources.

The disk cache of numba uses the time stamp of the file of a function, so it does not detect an edit
of a function that is *called* from another file. Here the cache folder is named after a hash of all
sources that compiled code depends on (:mod:`.sources`): any edit or upgrade starts a new folder,
and versions are never mixed. How files are read and written: :mod:`.cache`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher
from numba.extending import models, overload, register_model

from .._folders import user_cache
from .cache import VerifiedCache
from .pipeline import CalledCompiler, LeafCompiler, SeldomCompiler, cache_linked, quickly
from .sources import source_hash

# "ninf" must stay out: forbidden parts score minus infinity. Without "nnan" maxima would not
# become vector instructions; scores are checked to be finite before any kernel runs.
FASTMATH = {"reassoc", "contract", "nsz", "nnan", "arcp"}

_KEEP_SECONDS = 30 * 24 * 3600


# The folders that implement generic functions.
_IMPLEMENTING = ("_kernels", "features", "structures", "surrogates", "oracles")
_everything_registered = False


def cache_folder() -> Path | None:
    """Folder of the compiled code: below ``NUMBA_CACHE_DIR`` or the user's cache folder.

    None if there is neither.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(chosen).absolute() if chosen else user_cache()  # the process may change its folder
    return base and base / "maxmargin" / f"kernels-{source_hash()}"


def _forget_old(folder: Path) -> None:
    """Remove the compiled code of versions that were not used for a month."""
    try:
        if folder.exists():
            return
        for other in folder.parent.glob("kernels-*"):
            if time.time() - other.stat().st_mtime > _KEEP_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:  # a cache that cannot be cleaned is not an error
        pass


_FOLDER = cache_folder()
if _FOLDER is not None:
    _forget_old(_FOLDER)


# Reference counts of arrays are atomic instructions, which take more time than the arithmetic of a
# short kernel. A function that neither makes nor returns arrays needs no counts.
# Set in both cases, because numba would otherwise use the option of the caller.
# Nothing is called by function pointers, so no wrapper for that is compiled.
_OPTIONS: Any = {
    "fastmath": FASTMATH, "error_model": "numpy", "nogil": True, "_nrt": True,
    "no_cfunc_wrapper": True, "pipeline_class": CalledCompiler, "forceinline": False,
}  # fmt: skip
_INNER_OPTIONS: Any = {**_OPTIONS, "pipeline_class": LeafCompiler}
_LEAF_OPTIONS: Any = {**_INNER_OPTIONS, "_nrt": False}
_ORDERED_OPTIONS: Any = {**_LEAF_OPTIONS, "fastmath": False}


def register_everything() -> None:
    """Import all modules that implement generic functions.

    Code from the cache may use types of structures that this process has not imported, and imports
    their modules. If this happens during the compilation of a caller, a generic function gets one
    more implementation meanwhile, which numba refuses: all must be registered before anything is
    compiled.
    """
    global _everything_registered
    if _everything_registered:
        return
    package = Path(__file__).resolve().parent.parent
    for room in _IMPLEMENTING:
        names = {file.stem for file in (package / room).glob("*.py")} - {"__init__"}
        for name in sorted(names):
            import_module(f"{__package__.rpartition('.')[0]}.{room}.{name}")
    _everything_registered = True  # not before: other threads must wait


class _CompiledType(types.Dispatcher):
    """Type of the functions below: code that calls one only needs its name.

    Numba would write the address of the Python object into the code of every caller. It is not
    used, but unless an optimiser removes it, code with an address cannot be cached.
    """


register_model(_CompiledType)(models.OpaqueModel)


@lower_constant(_CompiledType)
def _no_address(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


class _Compiled(CPUDispatcher):
    """A function that is compiled after all implementations are registered."""

    caller = "Python"
    linked = False  # whether its code goes into that of its callers

    @property
    def _numba_type_(self) -> _CompiledType:
        return _CompiledType(self)

    def compile(self, sig: Any) -> Any:
        """Compile a version, or take it from the cache."""
        with quickly:
            return super().compile(sig)


class _Cache(VerifiedCache):
    """The compiled versions of a function; a missing version will be compiled."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled version for some types, or None if it must be compiled."""
        found = super().load_overload(sig, target_context)
        if found is None:
            register_everything()
        return found


def _cached(
    function: Callable[..., Any],
    options: dict,
    folder: Path | None = _FOLDER,
    kind: type[_Compiled] = _Compiled,
) -> Callable[..., Any]:
    found = numba.njit(**options)(function)
    if isinstance(found, CPUDispatcher):  # a plain function if compilation is switched off
        found.__class__ = kind
        found._cache = _Cache(function, folder, kind.caller)
        if kind.linked:
            cache_linked(found)
    return found


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with numba: no GIL, cached on disk in the folder of these sources."""
    return _cached(function, {**_OPTIONS, "pipeline_class": _called_compiler(function)})


def seldom(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function, below :func:`compiled` or :func:`leaf`, that runs a few times in a fit.

    Its loops are not vectorised automatically, which saves time of compilation.
    """
    function.runs_seldom = True  # type: ignore[attr-defined]
    return function


def _called_compiler(function: Callable[..., Any]) -> type:
    return SeldomCompiler if getattr(function, "runs_seldom", False) else CalledCompiler


class _Leaf(_Compiled):
    """A function that compiled functions call.

    Code that unpacks Python objects is a large part of a function with many arguments, and few
    leaves are called from Python. A leaf that is called from Python gets a second version.
    """

    caller = "compiled code"
    linked = True

    def __call__(self, *args: Any) -> Any:
        """Compile for Python callers, and call."""
        try:
            callable_version = self.callable_version
        except AttributeError:
            options = {**self.targetoptions, "no_cpython_wrapper": False}
            options["pipeline_class"] = _called_compiler(self.py_func)
            for name in ("nopython", "boundscheck"):
                options.pop(name, None)
            self.callable_version = callable_version = _cached(self.py_func, options)
        return callable_version(*args)


def _compile_leaf(function: Callable[..., Any], options: dict) -> Callable[..., Any]:
    return _cached(function, {**options, "no_cpython_wrapper": True}, kind=_Leaf)


def leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that neither makes nor returns arrays, without reference counts.

    Views of arguments (slices, ``reshape``) are allowed; NumPy functions and methods of arrays that
    reduce or create (``np.empty``, ``x.max()``) are not: write the loop. It may only call leaves.
    """
    return _compile_leaf(function, _LEAF_OPTIONS)


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled functions call, and that may make arrays."""
    return _compile_leaf(function, _INNER_OPTIONS)


def ordered_leaf(function: Callable[..., Any]) -> Callable[..., Any]:
    """A leaf whose sums are computed in the order in which they are written."""
    return _compile_leaf(function, _ORDERED_OPTIONS)


def implements(
    generic: Callable[..., Any],
    *classes: type | tuple[type, ...],
    at: int = 0,
    allocates: bool = False,
    inlined: bool = False,
):
    """Register the compiled implementation of ``generic`` for NamedTuple ``classes``.

    This is multiple dispatch: numba selects the implementation by the type of the argument at
    position ``at``: one class, or a tuple of alternatives. Several ``classes`` match the arguments
    from ``at`` on, one each. Implementations are leaves (see :func:`leaf`): scratch is passed by
    the caller; use ``allocates=True`` for one that makes arrays itself. Use ``inlined=True`` for
    one that only passes its many arguments on: the call would take longer than its work.

    Examples
    --------
    >>> @implements(block_size, Chain)                    # doctest: +SKIP
    ... def chain_block_size(structure, i): ...
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _implementations(generic, allocates, inlined).append((at, classes, function))
        return function

    return register


_registered: dict[Any, list] = {}


def _implementations(generic: Callable[..., Any], allocates: bool, inlined: bool) -> list:
    """All implementations of a generic function that are compiled in the same way.

    Numba selects one by the types of all arguments: once for the whole list, instead of once per
    implementation.
    """
    found = _registered.get((generic, allocates, inlined))
    if found is not None:
        return found
    found = _registered[generic, allocates, inlined] = []

    def choose(*args):
        kinds = [getattr(arg, "instance_class", type(None)) for arg in args]
        for at, classes, function in found:
            wanted = enumerate(classes, start=at)
            if all(issubclass(kinds[place], each) for place, each in wanted):
                return function
        return None

    options = _INNER_OPTIONS if allocates else _LEAF_OPTIONS
    options = {**options, "forceinline": inlined}
    overload(generic, strict=False, jit_options=options)(choose)
    return found

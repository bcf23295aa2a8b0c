"""Less work for the compiler: what numba does with a function that only compiled functions call.

By default numba optimises every function, together with all that it calls, and translates it to
machine code; then it does the same with its callers, which contain it. Of a leaf nobody needs more
than the plain code: it ends up in the functions that Python calls, and is optimised there, once. A
first fit takes about two thirds of the time.

Nothing here changes what code does. Where a version of numba lacks what this builds on, functions
are compiled as by default.
"""

from __future__ import annotations

import gc
import os
from typing import Any

from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering

from . import quick, records  # noqa: F401

_LINKED = "linked"
_BUILT_ON = {
    JITCodeLibrary: (
        "_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals",
        "_verify_declare_only_symbols", "_get_module_for_linking", "get_pointer_to_function",
        "serialize_using_object_code",
    ),
    CompileResult: ("_find_referenced_environments", "_rebuild"),
    Flags: ("options",),
    FunctionCache: ("_impl_class",),
}  # fmt: skip
SUPPORTED = all(hasattr(where, name) for where, names in _BUILT_ON.items() for name in names)


class _ComparableFlags(Flags):
    """Compiler flags that are compared quickly.

    Numba looks up every operation among what it knows for the same types and flags, hundreds of
    thousands of times in a fit, and its own flags make dictionaries of themselves each time.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return _FLAGS_HASH

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Flags):
            return NotImplemented
        mine, others = self._values, other._values
        return mine == others or {**_DEFAULTS, **mine} == {**_DEFAULTS, **others}


_DEFAULTS = {name: option.default for name, option in Flags.options.items()}
_FLAGS_HASH = hash(Flags())  # of the names alone, so the same for all


class _WithoutEnvironments:
    """A code generator that has no place for environments: the callers of linked code have one."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Nothing to do."""


def _clean_up(codegen: Any) -> Any:
    """Passes that take away what only the translation to LLVM put there."""
    mode = os.environ.get("MM_FN", "cheap")
    builder = codegen._pass_builder()
    if mode == "full":
        return builder.getFunctionPassManager(), builder
    passes = binding.create_new_function_pass_manager()
    if mode != "none":
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
    if mode == "comb":
        passes.add_instruction_combine_pass()
    return passes, builder


class _Library(JITCodeLibrary):
    """Code whose functions are optimised once, when all that they call is part of the module."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = _clean_up(self._codegen)
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        mode = os.environ.get("MM_MOD", "both")
        if mode == "both":
            return super()._optimize_final_module()
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _LinkedLibrary(_Library):
    """Code that waits to be linked into that of a caller."""

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # for numba: there is no such function

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        return self.name, _LINKED, self._get_module_for_linking().as_bitcode()


def _linked_library(codegen: Any, name: str) -> _LinkedLibrary:
    library = codegen.create_library(name)
    library.__class__ = _LinkedLibrary
    return library


class _Quick:
    """Makes numba compile with less ado, for as long as anything is compiled.

    Python's garbage collector finds nothing but takes its time, as compiling makes millions of
    objects; and numba tells of each call of LLVM, even if nobody listens.
    """

    def __init__(self) -> None:
        self._depth = 0

    def __enter__(self) -> None:
        global_compiler_lock.acquire()
        self._depth += 1
        if self._depth > 1:
            return
        self._collecting = gc.isenabled()
        gc.disable()
        self._callbacks = binding.ffi.lib._lock._cblist
        binding.ffi.lib._lock._cblist = []

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            binding.ffi.lib._lock._cblist = self._callbacks
            if self._collecting:
                gc.enable()
        global_compiler_lock.release()


quickly = _Quick()


@register_pass(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):
    """Translates a function that compiled functions call."""

    _name = "maxmargin_linked_lowering"
    lowering_class = records.RecordLower


@register_pass(mutates_CFG=True, analysis_only=False)
class CalledLowering(NativeLowering):
    """Translates a function that Python calls."""

    _name = "maxmargin_called_lowering"
    lowering_class = records.CopyingRecordLower


def _with_lowering(managers: list[PassManager], lowering: type) -> list[PassManager]:
    """The same passes, with another one that translates to LLVM."""
    found = []
    for manager in managers:
        passes = PassManager(manager.pipeline_name)
        for step, about in manager.passes:
            passes.add_pass(lowering if step is NativeLowering else step, about)
        passes.finalize()
        found.append(passes)
    return found


class CalledCompiler(Compiler):
    """Compiles a function that Python calls."""

    lowering: type = CalledLowering

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        flags = _ComparableFlags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def define_pipelines(self):
        """The default pipeline, with NamedTuples as pointers."""
        if self.state.library is None:
            library = self.state.targetctx.codegen().create_library(
                self.state.func_id.func_qualname
            )
            library.__class__ = _Library
            library.enable_object_caching()
            self.state.library = library
        return _with_lowering(super().define_pipelines(), self.lowering)

    def compile_extra(self, func):
        """Compile, and tell the code where the environments of the leaves in it are."""
        found = super().compile_extra(func)
        for env in found._find_referenced_environments():
            found.library.codegen.set_env(env.env_name, env)
        return found


class LeafCompiler(CalledCompiler):
    """Compiles a function that compiled functions call."""

    lowering = LinkedLowering

    def define_pipelines(self):
        """The default pipeline, with a library that is only linked."""
        state = self.state
        if state.library is None:
            state.library = _linked_library(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _LinkedCacheImpl(CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: Any) -> Any:
        name, kind, bitcode = payload[0]
        if kind != _LINKED:
            return super().rebuild(target_context, payload)
        codegen = target_context.codegen()
        library = _linked_library(codegen, name)
        library._shared_module = binding.parse_bitcode(bitcode)
        library._finalized = True
        codegen.unserialize_library = lambda _: library  # under the compiler's lock
        try:
            return super().rebuild(target_context, payload)
        finally:
            del codegen.unserialize_library


def cache_linked(dispatcher: Any) -> None:
    """Have a cached leaf store its plain code, and not ask for any other."""
    dispatcher._cache._impl.__class__ = _LinkedCacheImpl


if not SUPPORTED:  # pragma: no cover
    CalledCompiler = LeafCompiler = Compiler  # type: ignore[misc, assignment]

    def cache_linked(dispatcher: Any) -> None:
        """Leave the cache as it is."""

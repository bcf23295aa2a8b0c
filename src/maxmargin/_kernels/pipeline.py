"""Faster compilation of functions that only compiled functions call.

By default numba optimises every function, together with all that it calls, and translates it to
machine code; then it does the same with its callers, which contain it. For a leaf only the
unoptimised code is needed: it becomes part of the functions that Python calls, and is optimised
there, once. NamedTuples are passed as pointers (:mod:`.records`), elements of arrays take few
instructions (:mod:`.indexing`), look-ups are cached (:mod:`.quick`), and arguments from Python are
read by functions (:mod:`.unboxing`). Together this more than halves the time of a first fit.

None of this changes the results of code. If a version of numba lacks an attribute that is used
here, functions are compiled as by default.
"""

from __future__ import annotations

import gc
from types import CodeType
from typing import Any

from llvmlite import binding
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

from . import lowering, quick, records, unboxing
from .quick import has_all

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
    PassManager: ("add_pass", "finalize"),
    NativeLowering: ("lowering_class",),
}  # fmt: skip
SUPPORTED = has_all(_BUILT_ON) and all(
    part.SUPPORTED for part in (records, lowering, quick, unboxing)
)
# Older versions of LLVM have another kind of passes; numba's own are run there.
_NEW_PASSES = hasattr(binding, "create_pipeline_tuning_options") and hasattr(
    CPUCodegen, "_pass_builder"
)


class _ComparableFlags(Flags):
    """Compiler flags that are compared quickly.

    Numba looks up every operation by types and flags, hundreds of thousands of times in a fit, and
    its own flags build dictionaries each time.
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
    """A code generator without environments: those of the callers of linked code are used."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        """Do nothing."""


class _Library(JITCodeLibrary):
    """Code that is optimised once, when all that it calls is part of the module.

    Before that, only redundant code of the translation to LLVM is removed. Loops are not unrolled:
    time-critical ones are written for vector registers (:mod:`.vector`), and copies of the others
    would take a third of the time of LLVM.
    """

    vectorize = True

    def _optimize_functions(self, ll_module: Any) -> None:
        if not _NEW_PASSES:
            super()._optimize_functions(ll_module)
            return
        ll_module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder()
        passes = binding.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        if not _NEW_PASSES:
            super()._optimize_final_module()
            return
        cheap, builder = self._codegen._module_pass_manager(
            opt=0, loop_vectorize=False, slp_vectorize=False, cost="cheap"
        )  # moves reference counts together, so that they cancel
        cheap.run(self._final_module, builder)
        tuning = binding.create_pipeline_tuning_options()
        tuning.speed_level = int(config.OPT)
        tuning.slp_vectorization = bool(config.SLP_VECTORIZE)
        tuning.loop_vectorization = self.vectorize and bool(config.LOOP_VECTORIZE)
        tuning.loop_unrolling = False
        builder = binding.create_pass_builder(self._codegen._tm, tuning)
        builder.getModulePassManager().run(self._final_module, builder)


class _SeldomLibrary(_Library):
    """The same for functions that run a few times in a fit."""

    vectorize = False


class _LinkedLibrary(_Library):
    """Code to be linked into that of a caller."""

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
    return _library(codegen, name, _LinkedLibrary)


def _library(codegen: Any, name: str, kind: type) -> Any:
    library = codegen.create_library(name)
    library.__class__ = kind
    return library


class _Quick:
    """Context that removes overhead of numba during compilation.

    The garbage collector finds nothing but takes time, as compilation makes millions of objects;
    and numba reports each call of LLVM, even if there is no listener.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._lock: Any = None

    def __enter__(self) -> None:
        global_compiler_lock.acquire()
        self._depth += 1
        if self._depth > 1:
            return
        self._collecting = gc.isenabled()
        gc.disable()
        self._lock = getattr(binding.ffi.lib, "_lock", None)
        self._callbacks = getattr(self._lock, "_cblist", None)
        if self._callbacks is not None:
            self._lock._cblist = []

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            if self._callbacks is not None:
                self._lock._cblist = self._callbacks
            if self._collecting:
                _skip_collection()
                gc.enable()
        global_compiler_lock.release()


def _skip_collection() -> None:
    """Exclude the objects made by compilation from the next collection.

    Objects that are frozen and released again count as old, as after a collection.
    """
    if gc.get_freeze_count() == 0:  # no other code uses freezing
        gc.freeze()
        gc.unfreeze()


quickly = _Quick()


@register_pass(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):
    """Translates a function that compiled functions call."""

    _name = "maxmargin_linked_lowering"
    lowering_class = lowering.RecordLower


@register_pass(mutates_CFG=True, analysis_only=False)
class CalledLowering(NativeLowering):
    """Translates a function that Python calls."""

    _name = "maxmargin_called_lowering"
    lowering_class = lowering.CopyingRecordLower


def _pointless(state: Any) -> set[type]:
    """Passes that have no effect on a function.

    A function that neither makes nor returns arrays has no array expressions, and no calls that
    numba itself would inline; functions within functions are constants of their code.
    """
    found: set[type] = set()
    if not state.flags.nrt:
        found |= {InlineOverloads, NopythonRewrites}
    if not any(isinstance(each, CodeType) for each in state.func_id.code.co_consts):
        found.add(InlineClosureLikes)
    return found


def _with_lowering(
    managers: list[PassManager], translate: type, without: set[type]
) -> list[PassManager]:
    """The same passes without some, and with another one that translates to LLVM."""
    found = []
    for manager in managers:
        passes = PassManager(manager.pipeline_name)
        for step, about in manager.passes:
            if step not in without:
                passes.add_pass(translate if step is NativeLowering else step, about)
        passes.finalize()
        found.append(passes)
    return found


class CalledCompiler(Compiler):
    """Compiles a function that Python calls."""

    translate: type = CalledLowering
    library: type = _Library

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        flags = _ComparableFlags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def define_pipelines(self):
        """The default pipeline, with NamedTuples as pointers."""
        state = self.state
        if state.library is None:
            name = state.func_id.func_qualname
            state.library = _library(state.targetctx.codegen(), name, self.library)
            if self.library is not _LinkedLibrary:
                state.library.enable_object_caching()
        return _with_lowering(super().define_pipelines(), self.translate, _pointless(state))

    def compile_extra(self, func):
        """Compile, and set the environments of the leaves in the code."""
        found = super().compile_extra(func)
        for env in found._find_referenced_environments():
            found.library.codegen.set_env(env.env_name, env)
        return found


class SeldomCompiler(CalledCompiler):
    """Compiles a function that Python calls a few times in a fit."""

    library = _SeldomLibrary


class LeafCompiler(CalledCompiler):
    """Compiles a function that compiled functions call."""

    translate = LinkedLowering
    library = _LinkedLibrary


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
    """Make the cache of a leaf store its unoptimised code only."""
    dispatcher._cache._impl.__class__ = _LinkedCacheImpl


if SUPPORTED:
    quick.install()
    records.install()
    unboxing.install()
else:  # pragma: no cover
    CalledCompiler = SeldomCompiler = LeafCompiler = Compiler  # type: ignore[misc, assignment]

    def cache_linked(dispatcher: Any) -> None:
        """Do nothing."""

"""Caches for look-ups of numba: the same results, computed once.

Without them:

- Each of a dozen analyses of a function lists the variables of every statement.
- Lifetimes of variables are computed after each pass over a function, and used after the last.
- The types of ``a + b`` for two numbers and of ``a[k]`` are inferred each time, by trying all known
  signatures.
- The size of the same types is computed by LLVM many times.
- An implementation of a generic function is compiled again for each kind of caller, although its
  own options determine the result (:mod:`.jit`).
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import ir, transforms, types
from numba.core.base import BaseContext
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate

_PACKAGE = __package__.split(".")[0]
_BUILT_ON = {
    ir.Inst: ("_rec_list_vars", "list_vars"),
    BaseFunction: ("get_call_type",),
    _OverloadFunctionTemplate: ("_get_impl", "_build_impl"),
    PostProcessor: ("run",),
    BaseContext: ("get_abi_sizeof",),
    transforms: ("canonicalize_cfg",),
}


def has_all(names: dict[Any, tuple[str, ...]]) -> bool:
    """Whether this version of numba has all attributes that are used."""
    return all(hasattr(where, name) for where, wanted in names.items() for name in wanted)


SUPPORTED = has_all(_BUILT_ON)
_WITHOUT_VARIABLES = {str, int, float, bool, type(None), ir.Loc, ir.Scope, slice}
_NUMBERS = (types.Number, types.Boolean)
# Arithmetic and comparisons: their implementations do not depend on the options of the caller.
_NAMES = "add sub mul truediv floordiv mod lt le gt ge eq ne and_ or_ xor lshift rshift"
_OPERATORS = {getattr(operator, name) for name in _NAMES.split()} | {
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, bool,
}  # fmt: skip
_ELEMENTS = {operator.getitem, operator.setitem}
_found: dict[Any, Any] = {}


def _variables(self, value):
    """All variables in a statement or in its members."""
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if kind in _WITHOUT_VARIABLES:
        return []
    if isinstance(value, ir.Inst):
        return value.list_vars()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    found = []
    for item in value:
        kind = type(item)
        if kind is ir.Var:
            found.append(item)
        elif kind not in _WITHOUT_VARIABLES:
            found += self._rec_list_vars(item)
    return found


_call_type = BaseFunction.get_call_type


def _is_plain(key, args):
    """Whether these are numbers, or the element of an array and perhaps its new value."""
    if key in _ELEMENTS:
        if type(args[0]) is not types.Array or not isinstance(args[1], types.Integer):
            return False
        args = args[2:]
    elif key not in _OPERATORS:
        return False
    return all(isinstance(arg, _NUMBERS) for arg in args)


def _remembered_call_type(self, context, args, kws):
    if kws or not _is_plain(self.typing_key, args):
        return _call_type(self, context, args, kws)
    key = (self, args)
    found = _found.get(key)
    if found is None:
        found = _found[key] = _call_type(self, context, args, kws)
    return found


_implementation = _OverloadFunctionTemplate._get_impl


def _one_implementation(self, args, kws):
    if kws or getattr(self.key, "__module__", "").split(".")[0] != _PACKAGE:
        return _implementation(self, args, kws)
    key = self.context, tuple(args), (), None
    found = self._impl_cache.get(key)
    return self._build_impl(key, args, kws) if found is None else found


_process = PostProcessor.run


def _process_lazily(self, emit_dels=False, extend_lifetimes=False):
    """Compute lifetimes of variables when they are needed; for generators, at once."""
    if emit_dels or self.func_ir.is_generator:
        _process(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None


_size = BaseContext.get_abi_sizeof
_sizes: dict[Any, int] = {}


def _remembered_size(self, kind):
    text = str(kind)
    if "%" in text:  # a named type: its text does not determine its size
        return _size(self, kind)
    found = _sizes.get((self, text))
    if found is None:
        found = _sizes[self, text] = _size(self, kind)
    return found


def install() -> None:
    """Replace the functions of numba by these."""
    PostProcessor.run = _process_lazily
    BaseContext.get_abi_sizeof = _remembered_size
    _OverloadFunctionTemplate._get_impl = _one_implementation
    ir.Inst._rec_list_vars = _variables
    BaseFunction.get_call_type = _remembered_call_type

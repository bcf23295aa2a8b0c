"""Arguments from Python: NamedTuples of this package are read and released by functions.

By default numba generates the code that reads an array once per array of each argument. A
NamedTuple of 38 arrays then takes a quarter of a second to compile, in every function that Python
calls with it. Here each kind of array has one function, and each kind of NamedTuple has two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.pythonapi import NativeValue, PythonAPI, _UnboxContext, unbox
from numba.core.runtime.context import NRTContext

from .quick import has_all
from .records import _BYTES, Record, model_of, origin

_BUILT_ON = {
    NRTContext: ("decref",),
    PythonAPI: ("tuple_size", "tuple_getitem", "err_format", "to_native_value"),
}
SUPPORTED = has_all(_BUILT_ON)
_BIT = ir.IntType(1)


def _function(builder: Any, name: str, kind: Any, signature: Any, write: Callable) -> Any:
    """The function of an LLVM module with a name and for a type; generated if it does not exist."""
    digest = hashlib.sha256(f"{type(kind).__name__} {kind.name}".encode()).hexdigest()[:16]
    name = f"maxmargin.{name}.{digest}"
    found = builder.module.globals.get(name)
    if found is None:
        found = ir.Function(builder.module, signature, name)
        found.linkage = "internal"
        found.attributes.add("noinline")
        write(ir.IRBuilder(found.append_basic_block("entry")), kind, *found.args)
    return found


def _read(context: Any, builder: Any, kind: Any, item: Any, place: Any) -> Any:
    """Call the function that writes the value of an object to memory; returns whether it failed."""

    def write(inner, kind, item, place):
        within = _UnboxContext(context, inner, context.get_python_api(inner))
        inner.ret((_write_members if isinstance(kind, Record) else _write)(
            within, kind, item, place
        ))  # fmt: skip

    signature = ir.FunctionType(_BIT, [item.type, _BYTES])
    return builder.call(_function(builder, "read", kind, signature, write), [item, place])


def _write(c: Any, kind: Any, item: Any, place: Any) -> Any:
    native = c.unbox(kind, item)
    if native.cleanup is not None:
        raise NotImplementedError(f"a NamedTuple that holds {kind}")
    data = c.context.data_model_manager[kind].as_data(c.builder, native.value)
    c.builder.store(data, c.builder.bitcast(place, data.type.as_pointer()))
    return native.is_error


def _write_members(c: Any, kind: Record, item: Any, place: Any) -> Any:
    model = model_of(c.context, kind)
    size = c.pyapi.tuple_size(item)
    differs = c.builder.icmp_unsigned("!=", size, ir.Constant(size.type, len(kind)))
    with c.builder.if_then(differs, likely=False):
        message = f"size mismatch for tuple, expected {len(kind)} element(s) but got %zd"
        c.pyapi.err_format("PyExc_ValueError", message, size)
        c.builder.ret(cgutils.true_bit)
    failed = cgutils.false_bit
    for position, member in enumerate(kind):
        value = c.pyapi.tuple_getitem(item, position)
        here = model.place(c.builder, place, position)
        failed = c.builder.or_(failed, _read(c.context, c.builder, member, value, here))
    return failed


def install() -> None:
    """Make numba use these functions for the NamedTuples of this package."""
    decref = NRTContext.decref

    @unbox(Record)
    def unbox_record(kind, item, c):
        place = model_of(c.context, kind).slot(c.builder)
        return NativeValue(place, is_error=_read(c.context, c.builder, kind, item, place))

    def release(self, builder, typ, value):
        # Within functions references are counted in place, so that counts that cancel are removed.
        read_here = isinstance(typ, Record) and isinstance(origin(value), ir.AllocaInstr)
        if not read_here or getattr(builder, "copies_records", False):
            decref(self, builder, typ, value)
            return

        def write(inner, kind, place):
            decref(self, inner, kind, place)
            inner.ret_void()

        signature = ir.FunctionType(ir.VoidType(), [_BYTES])
        builder.call(_function(builder, "release", typ, signature, write), [value])

    NRTContext.decref = release

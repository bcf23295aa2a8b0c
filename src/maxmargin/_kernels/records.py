"""NamedTuples of this package in compiled code: one pointer instead of about a hundred values.

By default numba unpacks a NamedTuple wherever it is passed: one of 14 arrays becomes about 100
arguments of each function. Most of the instructions of a kernel then only unpack and pack such
values, and the compiler processes all of them. Here a NamedTuple is a pointer to memory in the
stack of the function that made it, and attributes are read from there.

NamedTuples are immutable, so a function may use the pointer that it is called with. All others must
outlive the function that made them: a returned NamedTuple is copied to the caller, and an assigned
one to the memory of its variable (:mod:`.lowering`), so that no two variables share memory. In
functions that other compilers translate, each new NamedTuple has separate memory.

Arguments are declared as neither written nor captured; and functions that Python calls copy them to
their own stack. After inlining, the compiler can then treat them as a set of values.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.callconv import CPUCallConv
from numba.core.datamodel import registry
from numba.core.datamodel.models import DataModel, UniTupleModel
from numba.core.imputils import impl_ret_borrowed, lower_builtin, lower_getattr_generic
from numba.core.pythonapi import box

from .quick import has_all

_PACKAGE = __package__.split(".")[0]
_BYTES = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64)
_BUILT_ON = {
    types.BaseTuple: ("from_types",),
    BaseContext: ("make_tuple",),
    UniTupleModel: ("get_return_type", "as_return", "from_return"),
    CPUCallConv: ("decorate_function", "get_arguments", "_get_return_argument"),
}
SUPPORTED = has_all(_BUILT_ON)


class Record(types.NamedTuple):
    """Type of the NamedTuples of this package.

    It is looked up often, and has dozens of members: its hash is cached.
    """

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __reduce__(self) -> tuple:
        function, (*first, state) = super().__reduce__()
        state = {name: value for name, value in state.items() if name != "_hash"}
        return function, (*first, state)

    @property
    def mangling_args(self) -> tuple[str, tuple]:
        """A short name for the symbols of functions."""
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        return f"{self.instance_class.__name__}{digest}", ()


def _words(kind: Any) -> int:
    """Number of words for a value, with one word per number."""
    if isinstance(kind, ir.ArrayType):
        return kind.count * _words(kind.element)
    if isinstance(kind, ir.BaseStructType):
        return sum(map(_words, kind.elements))
    if isinstance(kind, ir.IntType):
        return -(-kind.width // 64)
    if isinstance(kind, (ir.PointerType, ir.DoubleType, ir.FloatType)):
        return 1
    raise NotImplementedError(f"a NamedTuple that holds {kind}")


def origin(value: Any) -> Any:
    """The memory that a pointer points into."""
    while isinstance(value, (ir.GEPInstr, ir.CastInstr)):
        value = value.operands[0]
    return value


@registry.register_default(Record)
class RecordModel(DataModel):
    """A pointer to words in memory."""

    def __init__(self, manager: Any, kind: Record):
        super().__init__(manager, kind)
        self.members = [manager.lookup(member) for member in kind.types]
        self.offsets = []
        self.words = 0
        for member in self.members:
            self.offsets.append(self.words)
            nested = isinstance(member, RecordModel)
            self.words += member.words if nested else _words(member.get_data_type())

    def get_value_type(self):
        return _BYTES

    get_argument_type = get_value_type

    def get_data_type(self):
        return ir.LiteralStructType([member.get_data_type() for member in self.members])

    get_return_type = get_data_type

    def as_argument(self, builder, value):
        return value

    from_argument = as_argument

    def as_data(self, builder, value):
        found = ir.Constant(self.get_data_type(), ir.Undefined)
        for position, member in enumerate(self.members):
            data = member.as_data(builder, self.get(builder, value, position))
            found = builder.insert_value(found, data, position)
        return found

    def from_data(self, builder, value):
        return self.make(
            builder,
            [
                member.from_data(builder, builder.extract_value(value, position))
                for position, member in enumerate(self.members)
            ],
        )

    as_return, from_return = as_data, from_data

    def inner_models(self):
        return self.members

    def traverse(self, builder):
        """Members, for counting references; a variable without a value has a null pointer."""

        def getter(position):
            return lambda value: self.get(builder, self.or_zeros(builder, value), position)

        return [(kind, getter(position)) for position, kind in enumerate(self._fe_type.types)]

    def or_zeros(self, builder, value):
        """The value, or zeros for a variable without a value."""
        if isinstance(origin(value), (ir.Argument, ir.AllocaInstr)):
            return value
        kind = ir.ArrayType(_WORD, self.words)
        zeros = cgutils.global_constant(builder.module, "no.record", ir.Constant(kind, None))
        given = cgutils.is_not_null(builder, value)
        return builder.select(given, value, builder.bitcast(zeros, _BYTES))

    def slot(self, builder, name: str = "record"):
        """Memory in the stack of this function."""
        kind = ir.ArrayType(_WORD, max(self.words, 1))
        if not getattr(builder, "copies_records", False):  # new memory each time
            return builder.bitcast(builder.alloca(kind, name=name), _BYTES)
        with builder.goto_entry_block():
            return builder.bitcast(builder.alloca(kind, name=name), _BYTES)

    def copy(self, builder, to, value):
        """Copy the contents."""
        if self.words:
            cgutils.raw_memcpy(builder, to, value, ir.Constant(_WORD, self.words), 8, align=8)

    def place(self, builder, value, position):
        """Pointer to a member."""
        offset = self.offsets[position]
        if offset == 0:
            return value
        return builder.gep(value, [ir.Constant(_WORD, 8 * offset)], inbounds=True)

    def get(self, builder, value, position):
        """A member."""
        member = self.members[position]
        if isinstance(member, RecordModel):
            if isinstance(origin(value), ir.Argument):
                with builder.goto_entry_block():
                    return self.place(builder, value, position)
            return self.place(builder, value, position)
        place = self.place(builder, value, position)
        kind = member.get_data_type()
        data = builder.load(builder.bitcast(place, kind.as_pointer()))
        return data if kind == member.get_value_type() else member.from_data(builder, data)

    def make(self, builder, values):
        """A new record with these members."""
        found = self.slot(builder)
        for position, (member, value) in enumerate(zip(self.members, values, strict=True)):
            place = self.place(builder, found, position)
            if isinstance(member, RecordModel):
                member.copy(builder, place, value)
            else:
                kind = member.get_data_type()
                data = value if kind == member.get_value_type() else member.as_data(builder, value)
                builder.store(data, builder.bitcast(place, kind.as_pointer()))
        return found


def model_of(context: Any, kind: Any) -> RecordModel:
    return context.data_model_manager[kind]


@lower_getattr_generic(Record)
def _attribute(context, builder, kind, value, name):
    position = kind.fields.index(name)
    found = model_of(context, kind).get(builder, value, position)
    return impl_ret_borrowed(context, builder, kind[position], found)


@lower_builtin("static_getitem", Record, types.IntegerLiteral)
def _item(context, builder, signature, args):
    kind = signature.args[0]
    value, position = args
    found = model_of(context, kind).get(builder, value, range(len(kind))[position])
    return impl_ret_borrowed(context, builder, signature.return_type, found)


@box(Record)
def _box(kind, value, c):
    class_object = c.pyapi.unserialize(c.pyapi.serialize_object(kind.instance_class))
    members = c.pyapi.tuple_new(kind.count)
    for position, member in enumerate(kind):
        item = model_of(c.context, kind).get(c.builder, value, position)
        c.pyapi.tuple_setitem(members, position, c.box(member, item))
    found = c.pyapi.call(class_object, members)
    c.pyapi.decref(class_object)
    c.pyapi.decref(members)
    return found


def holds_record(kind: Any) -> bool:
    if isinstance(kind, types.BaseTuple) and not isinstance(kind, Record):
        return any(map(holds_record, kind))
    return isinstance(kind, Record)


def _count(kind: Any) -> int:
    """Number of arguments into which a value is unpacked."""
    return sum(map(_count, kind)) if isinstance(kind, (tuple, list)) else 1


def _is_ours(python_class: Any) -> bool:
    return (
        python_class is not None
        and getattr(python_class, "__module__", "").split(".")[0] == _PACKAGE
        and hasattr(python_class, "_fields")
    )


def install() -> None:
    """Make numba use records for the NamedTuples of this package; nothing else changes."""
    from_types = types.BaseTuple.from_types.__func__
    make_tuple = BaseContext.make_tuple
    decorate = CPUCallConv.decorate_function

    def record_or_tuple(cls, tys, pyclass=None):
        if _is_ours(pyclass):
            return Record(tuple(map(types.unliteral, tys)), pyclass)
        return from_types(cls, tys, pyclass)

    def make_record_or_tuple(self, builder, typ, values):
        if isinstance(typ, Record):
            return model_of(self, typ).make(builder, values)
        return make_tuple(self, builder, typ, values)

    def decorate_records(self, fn, args, fe_argtypes, noalias=False):
        decorate(self, fn, args, fe_argtypes, noalias)
        known = self._get_return_argument(fn).attributes  # in the spelling of this version
        arguments = iter(self.get_arguments(fn))
        for kind in fe_argtypes:
            model = self.context.data_model_manager[kind]
            values = list(itertools.islice(arguments, _count(model.get_argument_type())))
            if isinstance(kind, Record):
                for attribute in known:
                    values[0].add_attribute(attribute)
                values[0].attributes.dereferenceable = 8 * max(model.words, 1)

    def by_contents(plain, whole):  # for a tuple of records numba would return the pointers
        def chosen(self, *args):
            return (whole if holds_record(self._fe_type) else plain)(self, *args)

        return chosen

    for method in ("get_return_type", "as_return", "from_return"):
        plain = getattr(UniTupleModel, method)
        whole = getattr(UniTupleModel, method.replace("return", "data"))
        setattr(UniTupleModel, method, by_contents(plain, whole))
    types.BaseTuple.from_types = classmethod(record_or_tuple)  # type: ignore[method-assign]
    BaseContext.make_tuple = make_record_or_tuple
    CPUCallConv.decorate_function = decorate_records

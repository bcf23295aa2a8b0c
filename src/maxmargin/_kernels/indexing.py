"""Elements and views of arrays in compiled code, in few instructions.

Numba copies the fields of an array in memory for each element that is read, and treats all kinds of
slices alike: 35 instructions per element, 160 per slice, 130 per ``reshape``. The compiler then
removes most of them. Here are the same operations for the indices that kernels use, integers and
slices without steps, with the same meaning: negative indices count from the end, and slices are
clipped to the size of the array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.np.arrayobj import load_item, store_item

_INTP = cgutils.intp_t
_ZERO = _INTP(0)


class _View(NamedTuple):
    """The result of an index."""

    start: list  # an index of each axis
    shape: list
    strides: list


def _is_plain(array: Any) -> bool:
    """Whether this is an array of numbers."""
    number = isinstance(getattr(array, "dtype", None), (types.Number, types.Boolean))
    return type(array) is types.Array and array.ndim > 0 and number


class _Part(NamedTuple):
    """An index of one axis, or a size."""

    kind: Any
    is_slice: bool
    literal: Any  # None where it is not known to the compiler

    @property
    def is_simple(self) -> bool:
        """Whether this is an integer, or a slice without a step."""
        if not self.is_slice:
            return isinstance(self.kind, types.Integer)
        return self.literal.step in (None, 1) if self.literal else not self.kind.has_step


def _parts(index: Any) -> tuple[_Part, ...]:
    return tuple(
        _Part(
            kind,
            isinstance(kind, types.SliceType),
            kind.literal_value if isinstance(kind, types.Literal) else None,
        )
        for kind in (index if isinstance(index, types.BaseTuple) else (index,))
    )


def is_supported(context: Any, array: Any, index: Any) -> bool:
    """Whether elements or views can be taken by the functions here."""
    parts = _parts(index)
    return (
        not context.enable_boundscheck
        and _is_plain(array)
        and len(parts) <= array.ndim
        and all(part.is_simple for part in parts)
    )


def is_view(array: Any, index: Any) -> bool:
    """Whether the result of an index is an array."""
    return sum(not part.is_slice for part in _parts(index)) < array.ndim


def _wrapped(builder: Any, index: Any, size: Any) -> Any:
    negative = builder.icmp_signed("<", index, _ZERO)
    return builder.select(negative, builder.add(index, size), index)


def _position(context: Any, builder: Any, part: _Part, index: Any, size: Any) -> Any:
    """An integer as an index from the start."""
    kind = part.kind
    if part.literal is not None and part.literal >= 0:
        return _INTP(part.literal)
    if not kind.signed:
        return context.cast(builder, index, kind, types.uintp)
    return _wrapped(builder, context.cast(builder, index, kind, types.intp), size)


def _bounds(builder: Any, part: _Part, index: Any, size: Any) -> tuple[Any, Any]:
    """First index and length of a slice."""

    def cut(bound: Any) -> Any:
        bound = _wrapped(builder, bound, size)
        bound = builder.select(builder.icmp_signed("<", bound, _ZERO), _ZERO, bound)
        return builder.select(builder.icmp_signed("<", bound, size), bound, size)

    literal = part.literal or slice(1, 1)
    start = _ZERO if literal.start in (None, 0) else cut(builder.extract_value(index, 0))
    stop = size if literal.stop is None else cut(builder.extract_value(index, 1))
    length = builder.sub(stop, start)
    return start, builder.select(builder.icmp_signed("<", length, _ZERO), _ZERO, length)


class ArrayValue:
    """An array in LLVM."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any):
        self.context, self.builder, self.kind, self.value = context, builder, kind, value
        self.model = context.data_model_manager[kind]

    def field(self, name: str) -> Any:
        """One of its fields."""
        return self.builder.extract_value(self.value, self.model.get_field_position(name))

    def numbers(self, name: str) -> list:
        """The numbers of shape or strides."""
        position = self.model.get_field_position(name)
        axes = range(self.kind.ndim)
        return [self.builder.extract_value(self.value, [position, axis]) for axis in axes]

    def view(self, parts: tuple[_Part, ...], indices: list) -> _View:
        """The result of an index."""
        shape, strides = self.numbers("shape"), self.numbers("strides")
        start, kept, steps = [], [], []
        for axis, (part, index) in enumerate(zip(parts, indices, strict=True)):
            if part.is_slice:
                first, length = _bounds(self.builder, part, index, shape[axis])
                kept.append(length)
                steps.append(strides[axis])
            else:
                first = _position(self.context, self.builder, part, index, shape[axis])
            start.append(first)
        rest = slice(len(parts), None)
        start += [_ZERO] * len(shape[rest])
        return _View(start, kept + shape[rest], steps + strides[rest])

    def pointer(self, start: list) -> Any:
        """Pointer to an element."""
        if self.kind.layout == "C":  # by elements, so that the compiler recognises neighbours
            shape = self.numbers("shape")
            place = start[0]
            for index, size in zip(start[1:], shape[1:], strict=True):
                place = self.builder.add(self.builder.mul(place, size), index)
            return self.builder.gep(self.field("data"), [place])
        return cgutils.get_item_pointer2(
            self.context, self.builder, self.field("data"), self.numbers("shape"),
            self.numbers("strides"), self.kind.layout, start,
        )  # fmt: skip

    def derived(self, kind: Any, data: Any, shape: list, strides: list) -> Any:
        """Another array over the same memory."""
        model = self.context.data_model_manager[kind]
        count = _INTP(1)
        for position, size in enumerate(shape):
            count = size if position == 0 else self.builder.mul(count, size)
        found = ir.Constant(model.get_value_type(), ir.Undefined)
        values = {"nitems": count, "data": data}
        for name in ("meminfo", "parent", "itemsize"):
            values[name] = self.field(name)
        for name, value in values.items():
            found = self.builder.insert_value(found, value, model.get_field_position(name))
        for name, numbers in (("shape", shape), ("strides", strides)):
            for axis, number in enumerate(numbers):
                place = [model.get_field_position(name), axis]
                found = self.builder.insert_value(found, number, place)
        return impl_ret_borrowed(self.context, self.builder, kind, found)


def _split(builder: Any, index: Any, kind: Any) -> list:
    if isinstance(kind, types.BaseTuple):
        return [builder.extract_value(index, position) for position in range(len(kind))]
    return [index]


def get_item(context: Any, builder: Any, kinds: tuple, values: tuple, found: Any) -> Any:
    """Element or view, of type ``found``."""
    array = ArrayValue(context, builder, kinds[0], values[0])
    view = array.view(_parts(kinds[1]), _split(builder, values[1], kinds[1]))
    place = array.pointer(view.start)
    if view.shape:
        return array.derived(found, place, view.shape, view.strides)
    return load_item(context, builder, kinds[0], place)


def set_item(context: Any, builder: Any, kinds: tuple, values: tuple, number: Any) -> None:
    """Set an element, or all elements of a slice of one axis, to a number."""
    array = ArrayValue(context, builder, kinds[0], values[0])
    view = array.view(_parts(kinds[1]), _split(builder, values[1], kinds[1]))
    if not view.shape:
        store_item(context, builder, kinds[0], number, array.pointer(view.start))
        return
    with cgutils.for_range(builder, view.shape[0], intp=_INTP) as loop:
        place = builder.add(view.start[0], loop.index)
        store_item(context, builder, kinds[0], number, array.pointer([place]))


def reshape(context: Any, builder: Any, kinds: tuple, values: tuple, found: Any) -> Any:
    """The same elements with other axes."""
    array = ArrayValue(context, builder, kinds[0], values[0])
    shape = []
    for kind, value in zip(kinds[1:], values[1:], strict=True):
        for part, size in zip(_parts(kind), _split(builder, value, kind), strict=True):
            shape.append(context.cast(builder, size, part.kind, types.intp))
    count, strides, step = _INTP(1), [], array.field("itemsize")
    for size in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, size)
        count = builder.mul(count, size)
    same = builder.icmp_signed("==", count, array.field("nitems"))
    with builder.if_then(builder.not_(same), likely=False):
        message = ("total size of new array must be unchanged",)
        context.call_conv.return_user_exc(builder, ValueError, message)
    return array.derived(found, array.field("data"), shape, strides)


def can_reshape(array: Any, sizes: tuple) -> bool:
    """Whether :func:`reshape` supports this: all sizes are given."""
    parts = [part for size in sizes for part in _parts(size)]
    known = all(
        part.is_simple and not part.is_slice and not (part.literal is not None and part.literal < 0)
        for part in parts
    )
    return _is_plain(array) and array.layout == "C" and known and len(parts) > 0

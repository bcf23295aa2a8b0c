"""How a row is divided into vector instructions: the emitters behind the vector operations.

A row is covered by chunks of 8 numbers, each one vector operation, of which the last two may
overlap: 26 numbers are four chunks. Code that writes reads all chunks of a group first, so that
numbers covered twice are computed twice, not changed twice. Rows shorter than 8 are covered
by chunks of 4, 2 or 1 in the same way. The compiler maps chunks to the registers of the machine.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

_SUMS = 4  # partial sums of an inner product: they do not depend on each other
_FAST = ("reassoc", "nsz", "contract", "nnan")
_DOUBLE = ir.DoubleType()


def _vector_type(width: int):
    return ir.VectorType(_DOUBLE, width)


def _splat(builder, scalar, width: int):
    """A vector with ``scalar`` in every place."""
    vector = builder.insert_element(
        ir.Constant(_vector_type(width), ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(vector, vector, mask)


def _load(builder, pointer, offset, width: int):
    place = builder.gep(pointer, [offset])
    return builder.load(builder.bitcast(place, _vector_type(width).as_pointer()), align=8)


def _store(builder, vector, pointer, offset, width: int) -> None:
    place = builder.gep(pointer, [offset])
    builder.store(vector, builder.bitcast(place, _vector_type(width).as_pointer()), align=8)


def _number(value, like):
    return ir.Constant(like.type, value)


def _for_groups(builder, length, emit) -> None:
    """Emit ``emit(places, width)`` for groups of chunks that together cover ``range(length)``.

    A group has at most five chunks, so that code that reads many rows reads them once per 40
    columns. Only the last chunk of all overlaps another, which is in the same group.
    """
    long_enough = builder.icmp_signed(">=", length, _number(8, length))
    with builder.if_else(long_enough) as (long_row, short_row):
        with long_row:
            _for_long_groups(builder, length, emit)
        with short_row:
            _for_short_groups(builder, length, emit)


def _for_long_groups(builder, length, emit) -> None:
    """Groups of four chunks, then one of two to five; a row of 8 is the same chunk twice."""
    chunks = builder.ashr(builder.add(length, _number(7, length)), _number(3, length))
    groups = builder.ashr(builder.sub(chunks, _number(2, length)), _number(2, length))
    groups = builder.select(
        builder.icmp_signed(">", groups, _number(0, length)), groups, _number(0, length)
    )
    full = builder.mul(groups, _number(32, length))
    end = builder.sub(length, _number(8, length))
    zero, step = _number(0, length), _number(32, length)
    with cgutils.for_range_slice(builder, zero, full, step, length.type) as (offset, _):
        emit([builder.add(offset, _number(8 * c, length)) for c in range(4)], 8)
    left = builder.sub(chunks, builder.mul(groups, _number(4, length)))
    for count in range(2, 6):
        kind = "<=" if count == 2 else "=="
        with builder.if_then(builder.icmp_signed(kind, left, _number(count, length))):
            places = [builder.add(full, _number(8 * c, length)) for c in range(count - 1)]
            emit([*places, end], 8)


def _for_short_groups(builder, length, emit) -> None:
    """Two chunks of 4 or of 2 for less than 8 numbers, one for a single number."""
    zero = _number(0, length)
    for width, below in ((4, 8), (2, 4)):
        fits = builder.and_(
            builder.icmp_signed(">=", length, _number(width, length)),
            builder.icmp_signed("<", length, _number(below, length)),
        )
        with builder.if_then(fits):
            emit([zero, builder.sub(length, _number(width, length))], width)
    with builder.if_then(builder.icmp_signed("==", length, _number(1, length))):
        emit([zero], 1)


def _for_chunks(builder, length, compute, write) -> None:
    """Emit ``write(place, compute(place, width), width)`` for chunks that cover ``range(length)``.

    ``compute`` may read what ``write`` changes: overlapping chunks are both computed before one is
    written.
    """
    start, eight = _number(0, length), _number(8, length)
    with builder.if_then(builder.icmp_signed(">=", length, eight)):
        end = builder.sub(length, eight)
        last = compute(end, 8)
        with cgutils.for_range_slice(builder, start, end, eight, length.type) as (offset, _):
            write(offset, compute(offset, 8), 8)
        write(end, last, 8)

    def emit(places, width):
        chunks = [compute(place, width) for place in places]
        for place, chunk in zip(places, chunks, strict=True):
            write(place, chunk, width)

    _for_short_groups(builder, length, emit)


def _new_lanes(builder, length, covered, width: int):
    """Which of the last ``width`` places of a row are not among the first ``covered`` ones."""
    small = ir.IntType(32)
    counted = builder.sub(covered, builder.sub(length, _number(width, length)))
    kind = ir.VectorType(small, width)
    splat = builder.insert_element(
        ir.Constant(kind, ir.Undefined), builder.trunc(counted, small), ir.Constant(small, 0)
    )
    splat = builder.shuffle_vector(splat, splat, ir.Constant(kind, [0] * width))
    return builder.icmp_signed(">=", ir.Constant(kind, list(range(width))), splat)


def _for_filled_chunks(builder, pointer, length, emit) -> None:
    """Emit ``emit(offset, chunk, width)`` for the chunks of a row that are not all zero.

    An overlap of the last two chunks is zero in the last one.
    """

    def emit_if_filled(offset, chunk, width):
        zero = ir.Constant(_vector_type(width), [0.0] * width)
        differs = builder.fcmp_unordered("!=", chunk, zero)
        filled = builder.icmp_signed(
            "!=", builder.bitcast(differs, ir.IntType(width)), ir.Constant(ir.IntType(width), 0)
        )
        with builder.if_then(filled):
            emit(offset, chunk, width)

    start, one, eight = _number(0, length), _number(1, length), _number(8, length)
    with builder.if_else(builder.icmp_signed(">=", length, eight)) as (long_row, short_row):
        with long_row:
            whole = builder.and_(length, _number(-8, length))
            with cgutils.for_range_slice(builder, start, whole, eight, length.type) as (offset, _):
                emit_if_filled(offset, _load(builder, pointer, offset, 8), 8)
            with builder.if_then(builder.icmp_signed("<", whole, length)):
                end = builder.sub(length, eight)
                zero = ir.Constant(_vector_type(8), [0.0] * 8)
                new = _new_lanes(builder, length, whole, 8)
                emit_if_filled(end, builder.select(new, _load(builder, pointer, end, 8), zero), 8)
        with short_row:
            with cgutils.for_range_slice(builder, start, length, one, length.type) as (offset, _):
                emit_if_filled(offset, _load(builder, pointer, offset, 1), 1)


def _array(context, builder, signature, args, position):
    kind = signature.args[position]
    return context.make_array(kind)(context, builder, args[position])


def _length(builder, array):
    return builder.extract_value(array.shape, 0)


def _row_types_fit(*rows, ndim: int = 1, dtypes=(types.float64,)) -> bool:
    return all(
        isinstance(row, types.Array)
        and row.ndim == ndim
        and row.layout == "C"
        and row.dtype in dtypes
        for row in rows
    )


def _for_disjoint_chunks(builder, length, emit) -> None:
    """Emit ``emit(offset, width)`` for chunks of 8, then 4, 2, 1: no number is covered twice."""
    done = _number(0, length)
    for width in (8, 4, 2, 1):
        step = _number(width, length)
        if width == 8:
            stop = builder.and_(length, _number(-width, length))
            with cgutils.for_range_slice(builder, done, stop, step, length.type) as (offset, _):
                emit(offset, width)
            done = stop
        else:
            fits = builder.icmp_signed(">=", builder.sub(length, done), step)
            with builder.if_then(fits):
                emit(done, width)
            done = builder.select(fits, builder.add(done, step), done)


def _accumulate(builder, vector, partial) -> None:
    builder.store(builder.fadd(builder.load(partial), vector, flags=_FAST), partial)


def _long_sum(builder, length, product):
    """Sum of ``product`` over at least 8 places: four partial sums, and an overlapping end."""
    zero = ir.Constant(_vector_type(8), [0.0] * 8)
    sums = [cgutils.alloca_once(builder, _vector_type(8)) for _ in range(_SUMS)]
    for partial in sums:
        builder.store(zero, partial)
    start = _number(0, length)
    fours = builder.and_(length, _number(-8 * _SUMS, length))
    eights = builder.and_(length, _number(-8, length))
    step = _number(8 * _SUMS, length)
    with cgutils.for_range_slice(builder, start, fours, step, length.type) as (offset, _):
        for position, partial in enumerate(sums):
            place = builder.add(offset, _number(8 * position, length))
            _accumulate(builder, product(place, 8), partial)
    step = _number(8, length)
    with cgutils.for_range_slice(builder, fours, eights, step, length.type) as (offset, _):
        _accumulate(builder, product(offset, 8), sums[0])
    with builder.if_then(builder.icmp_signed("<", eights, length)):
        # The last 8 numbers, of which the first ones were counted already.
        last = builder.sub(length, _number(8, length))
        new = _new_lanes(builder, length, eights, 8)
        _accumulate(builder, builder.select(new, product(last, 8), zero), sums[1])
    left = builder.fadd(builder.load(sums[0]), builder.load(sums[1]), flags=_FAST)
    right = builder.fadd(builder.load(sums[2]), builder.load(sums[3]), flags=_FAST)
    return _sum_elements(builder, builder.fadd(left, right, flags=_FAST), 8)


def _short_sum(builder, length, product):
    """Sum of ``product`` over less than 8 places."""
    total = cgutils.alloca_once(builder, _vector_type(1))
    builder.store(ir.Constant(_vector_type(1), [0.0]), total)
    start, one = _number(0, length), _number(1, length)
    with cgutils.for_range_slice(builder, start, length, one, length.type) as (offset, _):
        _accumulate(builder, product(offset, 1), total)
    return _sum_elements(builder, builder.load(total), 1)


def _sum_elements(builder, vector, width):
    index = ir.IntType(32)
    while width > 1:  # add the upper half to the lower one
        width //= 2
        low = ir.Constant(ir.VectorType(index, width), list(range(width)))
        high = ir.Constant(ir.VectorType(index, width), list(range(width, 2 * width)))
        vector = builder.fadd(
            builder.shuffle_vector(vector, vector, low),
            builder.shuffle_vector(vector, vector, high),
            flags=_FAST,
        )
    return builder.extract_element(vector, ir.Constant(index, 0))


def _add_elements(builder, vector, width, total) -> None:
    """``total += sum of the vector``, where ``total`` is a place in memory."""
    found = _sum_elements(builder, vector, width)
    builder.store(builder.fadd(builder.load(total), found, flags=_FAST), total)


def _sum_of_chunks(builder, length, emit):
    """Sum of the vectors that ``emit(offset, width)`` makes for all chunks of a row."""
    total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLE, 0.0))
    partial = cgutils.alloca_once_value(builder, ir.Constant(_vector_type(8), [0.0] * 8))

    def add(offset, width):
        found = emit(offset, width)
        if width == 8:
            _accumulate(builder, found, partial)
        else:
            _add_elements(builder, found, width, total)

    _for_disjoint_chunks(builder, length, add)
    _add_elements(builder, builder.load(partial), 8, total)
    return builder.load(total)

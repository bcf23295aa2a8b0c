"""Vector operations on short rows, emitted as explicit vector instructions.

The inner loops of the library run over the labels of a position: 5, 26 or 45 numbers. Without a
known length, a compiler vectorises such a loop in steps of 16 or 32 with scalar code for the rest,
after a run-time check that the arrays do not overlap.
Here a row is covered by chunks of 8 numbers, each one vector operation (see ``chunks``): a best
path over 26 labels takes a third of the time.

Rows are one-dimensional contiguous arrays of float64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .chunks import (
    _DOUBLE,
    _FAST,
    _accumulate,
    _array,
    _for_chunks,
    _for_filled_chunks,
    _for_groups,
    _length,
    _load,
    _long_sum,
    _number,
    _row_types_fit,
    _short_sum,
    _splat,
    _store,
    _sum_of_chunks,
    _vector_type,
)
from .jit import leaf

SHORT = 64  # up to this length, it is faster to process all numbers than to skip zeros


@intrinsic
def add_scaled(typingctx, out, row, factor):
    """``out += factor * row``."""
    if not _row_types_fit(out, row):
        return None

    def codegen(context, builder, signature, args):
        target = _array(context, builder, signature, args, 0)
        source = _array(context, builder, signature, args, 1)

        def compute(place, width):
            factor = _splat(builder, args[2], width)
            scaled = builder.fmul(_load(builder, source.data, place, width), factor, flags=_FAST)
            return builder.fadd(_load(builder, target.data, place, width), scaled, flags=_FAST)

        def write(place, chunk, width):
            _store(builder, chunk, target.data, place, width)

        _for_chunks(builder, _length(builder, target), compute, write)
        return context.get_dummy_value()

    return types.none(out, row, types.float64), codegen


@intrinsic
def copy(typingctx, out, row):
    """``out[:] = row``."""
    if not _row_types_fit(out, row):
        return None

    def codegen(context, builder, signature, args):
        target = _array(context, builder, signature, args, 0)
        source = _array(context, builder, signature, args, 1)

        def compute(place, width):
            return _load(builder, source.data, place, width)

        def write(place, chunk, width):
            _store(builder, chunk, target.data, place, width)

        _for_chunks(builder, _length(builder, target), compute, write)
        return context.get_dummy_value()

    return types.none(out, row), codegen


def _row_length(builder, matrix):
    """Number of columns of a matrix."""
    return builder.extract_value(matrix.shape, 1)


def _row_start(context, builder, signature, args, at_indices, place, n_columns):
    """First element of the matrix row for entry ``place`` of a feature vector."""
    index = place
    if signature.args[at_indices] != types.none:
        indices = _array(context, builder, signature, args, at_indices)
        index = builder.load(builder.gep(indices.data, [place]))
        index = builder.sext(index, place.type) if index.type.width < 64 else index
    return builder.mul(index, n_columns)


def _entry(builder, array, place):
    """A number of a feature vector, in double precision."""
    value = builder.load(builder.gep(array.data, [place]))
    return value if value.type == _DOUBLE else builder.fpext(value, _DOUBLE)


def _feature_types_fit(matrix, indices, data, row) -> bool:
    integers = (types.int32, types.int64)
    return (
        _row_types_fit(row)
        and _row_types_fit(matrix, ndim=2)
        and (indices == types.none or _row_types_fit(indices, dtypes=integers))
        and _row_types_fit(data, dtypes=(types.float32, types.float64))
    )


def _sum_rows(context, builder, signature, args, at_out, begin) -> None:
    """Emit ``out = begin(place, width) + sum_p data[p] * matrix[indices[p]]``."""
    table = _array(context, builder, signature, args, 0)
    numbers = _array(context, builder, signature, args, 2)
    low, high = args[3], args[4]
    target = _array(context, builder, signature, args, at_out)
    n_columns, stride = _length(builder, target), _row_length(builder, table)
    one, two = _number(1, n_columns), _number(2, n_columns)
    pairs = builder.add(low, builder.and_(builder.sub(high, low), _number(-2, n_columns)))

    def emit(places, width):
        even, odd = [], []
        for place in places:
            even.append(cgutils.alloca_once_value(builder, begin(target, place, width)))
            zero = ir.Constant(_vector_type(width), [0.0] * width)
            odd.append(cgutils.alloca_once(builder, _vector_type(width)))
            builder.store(zero, odd[-1])

        def add(entry, sums):
            start = _row_start(context, builder, signature, args, 1, entry, stride)
            factor = _splat(builder, _entry(builder, numbers, entry), width)
            for place, partial in zip(places, sums, strict=True):
                row = _load(builder, table.data, builder.add(start, place), width)
                _accumulate(builder, builder.fmul(row, factor, flags=_FAST), partial)

        with cgutils.for_range_slice(builder, low, pairs, two, one.type) as (entry, _):
            add(entry, even)
            add(builder.add(entry, one), odd)
        with builder.if_then(builder.icmp_signed("<", pairs, high)):
            add(pairs, even)
        for place, a, b in zip(places, even, odd, strict=True):
            _accumulate(builder, builder.load(b), a)
            _store(builder, builder.load(a), target.data, place, width)

    _for_groups(builder, n_columns, emit)


@intrinsic
def combine_rows(typingctx, matrix, indices, data, first, last, out):
    """``out += sum_p data[p] * matrix[indices[p]]`` for ``first <= p < last``.

    ``indices`` may be None: row p then belongs to entry p. A shorter ``out`` receives the first
    columns. Up to 40 columns of ``out`` stay in
    registers for the whole sum, in two independent parts.
    """
    if not _feature_types_fit(matrix, indices, data, out):
        return None

    def codegen(context, builder, signature, args):
        def begin(target, place, width):
            return _load(builder, target.data, place, width)

        _sum_rows(context, builder, signature, args, 5, begin)
        return context.get_dummy_value()

    return types.none(matrix, indices, data, types.int64, types.int64, out), codegen


@intrinsic
def sum_rows(typingctx, matrix, indices, data, first, last, base, factor, out):
    """``out = factor * base + sum_p data[p] * matrix[indices[p]]``; see :func:`combine_rows`."""
    if not _feature_types_fit(matrix, indices, data, out) or not _row_types_fit(base):
        return None

    def codegen(context, builder, signature, args):
        row = _array(context, builder, signature, args, 5)

        def begin(target, place, width):
            scale = _splat(builder, args[6], width)
            return builder.fmul(_load(builder, row.data, place, width), scale, flags=_FAST)

        _sum_rows(context, builder, signature, args, 7, begin)
        return context.get_dummy_value()

    numbers = (types.int64, types.int64, base, types.float64)
    return types.none(matrix, indices, data, *numbers, out), codegen


@intrinsic
def spread_row(typingctx, matrix, indices, data, first, last, row, scale):
    """``matrix[indices[p]] += scale * data[p] * row`` for ``first <= p < last``.

    ``indices`` may be None, and ``row`` shorter, as in :func:`combine_rows`. Chunks of ``row`` that
    are zero are skipped: a step of a solver changes few labels.
    """
    if not _feature_types_fit(matrix, indices, data, row):
        return None

    def codegen(context, builder, signature, args):
        _spread_row(context, builder, signature, args, lambda change, at, width: change)
        return context.get_dummy_value()

    signature = types.none(matrix, indices, data, types.int64, types.int64, row, types.float64)
    return signature, codegen


@intrinsic
def spread_seen(typingctx, matrix, indices, data, first, last, row, scale, seen):
    """As :func:`spread_row`, where the byte of an entry of ``matrix`` in ``seen`` is not 0."""
    if not _feature_types_fit(matrix, indices, data, row) or not _row_types_fit(
        seen, dtypes=(types.uint8,)
    ):
        return None

    def codegen(context, builder, signature, args):
        flags = _array(context, builder, signature, args, 7)

        def only_seen(change, at, width):
            kind = ir.VectorType(ir.IntType(8), width)
            place = builder.bitcast(builder.gep(flags.data, [at]), kind.as_pointer())
            nothing = ir.Constant(kind, [0] * width)
            found = builder.icmp_unsigned("!=", builder.load(place, align=1), nothing)
            return builder.select(found, change, ir.Constant(_vector_type(width), [0.0] * width))

        _spread_row(context, builder, signature, args, only_seen)
        return context.get_dummy_value()

    numbers = (types.int64, types.int64, row, types.float64)
    return types.none(matrix, indices, data, *numbers, seen), codegen


def _spread_row(context, builder, signature, args, part) -> None:
    """Emit ``matrix[indices[p]] += part(scale * data[p] * row)``."""
    table = _array(context, builder, signature, args, 0)
    numbers = _array(context, builder, signature, args, 2)
    source = _array(context, builder, signature, args, 5)
    n_columns, stride = _length(builder, source), _row_length(builder, table)
    one = _number(1, n_columns)

    def emit(offset, chunk, width):
        with cgutils.for_range_slice(builder, args[3], args[4], one, one.type) as (entry, _):
            start = _row_start(context, builder, signature, args, 1, entry, stride)
            factor = builder.fmul(_entry(builder, numbers, entry), args[6], flags=_FAST)
            change = builder.fmul(chunk, _splat(builder, factor, width), flags=_FAST)
            at = builder.add(start, offset)
            known = _load(builder, table.data, at, width)
            new = builder.fadd(known, part(change, at, width), flags=_FAST)
            _store(builder, new, table.data, at, width)

    _for_filled_chunks(builder, source.data, n_columns, emit)


@intrinsic
def dot(typingctx, left, right):
    """``left @ right``."""
    if not _row_types_fit(left, right):
        return None

    def codegen(context, builder, signature, args):
        a = _array(context, builder, signature, args, 0)
        b = _array(context, builder, signature, args, 1)
        length = _length(builder, a)
        answer = cgutils.alloca_once(builder, _DOUBLE)

        def product(offset, width):
            left_part = _load(builder, a.data, offset, width)
            return builder.fmul(left_part, _load(builder, b.data, offset, width), flags=_FAST)

        with builder.if_else(builder.icmp_signed(">=", length, _number(8, length))) as (
            long,
            short,
        ):
            with long:
                builder.store(_long_sum(builder, length, product), answer)
            with short:
                builder.store(_short_sum(builder, length, product), answer)
        return builder.load(answer)

    return types.float64(left, right), codegen


@intrinsic
def multiply_rows(typingctx, left, right, factor, out):
    """``out = factor * left * right``, entry by entry, and its sum; ``out`` may be an argument."""
    if not _row_types_fit(left, right, out):
        return None

    def codegen(context, builder, signature, args):
        a, b, target = (_array(context, builder, signature, args, at) for at in (0, 1, 3))

        def emit(offset, width):
            value = builder.fmul(
                _load(builder, a.data, offset, width), _load(builder, b.data, offset, width),
                flags=_FAST,
            )  # fmt: skip
            value = builder.fmul(value, _splat(builder, args[2], width), flags=_FAST)
            _store(builder, value, target.data, offset, width)
            return value

        return _sum_of_chunks(builder, _length(builder, target), emit)

    return types.float64(left, right, types.float64, out), codegen


def _max_plus(context, builder, signature, args, write) -> None:
    """Emit ``write(place, max_j (old[j] + matrix[j]), width)`` for the chunks of a row."""
    before = _array(context, builder, signature, args, 0)
    table = _array(context, builder, signature, args, 1)
    n_rows = _length(builder, before)
    n_columns = _length(builder, _array(context, builder, signature, args, 2))
    one = ir.Constant(n_rows.type, 1)

    def emit(places, width):
        def candidates(j):
            here = _splat(builder, builder.load(builder.gep(before.data, [j])), width)
            start = builder.mul(j, n_columns)
            for place in places:
                row = _load(builder, table.data, builder.add(start, place), width)
                yield builder.fadd(row, here, flags=("nsz",))

        best = [cgutils.alloca_once(builder, _vector_type(width)) for _ in places]
        for partial, value in zip(best, candidates(_number(0, n_rows)), strict=True):
            builder.store(value, partial)
        with cgutils.for_range_slice(builder, one, n_rows, one, n_rows.type) as (j, _):
            for partial, value in zip(best, candidates(j), strict=True):
                known = builder.load(partial)
                larger = builder.fcmp_ordered(">", value, known)
                builder.store(builder.select(larger, value, known), partial)
        for place, partial in zip(places, best, strict=True):
            write(place, builder.load(partial), width)

    _for_groups(builder, n_columns, emit)


@intrinsic
def max_plus(typingctx, old, matrix, new):
    """``new[k] = max_j (old[j] + matrix[j, k])``."""
    if not _row_types_fit(old, new) or not _row_types_fit(matrix, ndim=2):
        return None

    def codegen(context, builder, signature, args):
        after = _array(context, builder, signature, args, 2)

        def write(place, chunk, width):
            _store(builder, chunk, after.data, place, width)

        _max_plus(context, builder, signature, args, write)
        return context.get_dummy_value()

    return types.none(old, matrix, new), codegen


@intrinsic
def best_step(typingctx, old, matrix, row, arrive, leave):
    """``arrive[k] = max_j (old[j] + matrix[j, k])`` and ``leave = row + arrive``.

    The step of a best path, in one operation: nothing that it wrote is read again.
    """
    rows = (old, row, arrive, leave)
    if not _row_types_fit(*rows) or not _row_types_fit(matrix, ndim=2):
        return None

    def codegen(context, builder, signature, args):
        score, maximum, total = (
            _array(context, builder, signature, args, position) for position in (2, 3, 4)
        )

        def write(place, chunk, width):
            here = _load(builder, score.data, place, width)
            _store(builder, chunk, maximum.data, place, width)
            _store(builder, builder.fadd(here, chunk, flags=("nsz",)), total.data, place, width)

        _max_plus(context, builder, signature, args, write)
        return context.get_dummy_value()

    return types.none(old, matrix, row, arrive, leave), codegen


@intrinsic
def mask_above(typingctx, row, offset, bound):
    """Bit j of the result is 1 if ``row[offset + j] > bound``, for eight numbers."""
    if not _row_types_fit(row):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        vector = _load(builder, source.data, args[1], 8)
        flags = builder.fcmp_ordered(">", vector, _splat(builder, args[2], 8))
        return builder.zext(builder.bitcast(flags, ir.IntType(8)), ir.IntType(64))

    return types.int64(row, types.int64, types.float64), codegen


@intrinsic
def mask_nonzero(typingctx, row, offset):
    """Bit j of the result is 1 if ``row[offset + j]`` is not zero, for eight numbers."""
    if not _row_types_fit(row):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        vector = _load(builder, source.data, args[1], 8)
        zero = ir.Constant(_vector_type(8), [0.0] * 8)
        flags = builder.fcmp_unordered("!=", vector, zero)
        return builder.zext(builder.bitcast(flags, ir.IntType(8)), ir.IntType(64))

    return types.int64(row, types.int64), codegen


@intrinsic
def count_bits(typingctx, mask):
    """Number of set bits."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def lowest_bit(typingctx, mask):
    """Index of the lowest set bit of a mask that is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def prefetch(typingctx, array, first, last):
    """Prefetch ``array[first:last]`` (in the first dimension).

    Examples are visited in random order, which the hardware cannot predict.
    """
    if not isinstance(array, types.Array) or array.layout != "C":
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        byte_pointer = ir.IntType(8).as_pointer()
        base = builder.bitcast(source.data, byte_pointer)
        stride = builder.extract_value(source.strides, 0)
        begin = builder.mul(args[1], stride)
        end = builder.mul(args[2], stride)
        number = ir.IntType(32)
        declared = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
        touch = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], declared)
        line = ir.Constant(begin.type, 64)
        with cgutils.for_range_slice(builder, begin, end, line, begin.type) as (offset, _):
            # for reading, with the highest locality, as data
            flags = [ir.Constant(number, value) for value in (0, 3, 1)]
            builder.call(touch, [builder.gep(base, [offset]), *flags])
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64), codegen


@intrinsic
def to_line(typingctx, row):
    """Number of entries of a row before the first one at the start of a cache line."""
    if not _row_types_fit(row):
        return None

    def codegen(context, builder, signature, args):
        number = ir.IntType(64)
        address = builder.ptrtoint(_array(context, builder, signature, args, 0).data, number)
        left = builder.and_(builder.neg(address), ir.Constant(number, 63))
        return builder.lshr(left, ir.Constant(number, 3))

    return types.int64(row), codegen


@leaf
def mask_row(row, words):
    """Bits of the entries of a row that are not zero, 64 per word; returns the number of bits."""
    total = 0
    length = row.shape[0]
    for word in range((length + 63) // 64):
        start = 64 * word
        stop = min(length, start + 64)
        whole = start + (stop - start) // 8 * 8
        bits = 0
        for offset in range(start, whole, 8):
            bits |= mask_nonzero(row, offset) << (offset - start)
        for place in range(whole, stop):
            bits |= np.int64(row[place] != 0.0) << (place - start)
        words[word] = bits
        total += count_bits(bits)
    return total


@leaf
def take_masked(row, words, places, values):
    """Indices and values of the set bits of :func:`mask_row`.

    A loop over bits has one misprediction per 64 numbers; a branch per number would have many.
    """
    count = 0
    for word in range((row.shape[0] + 63) // 64):
        bits = words[word]
        while bits != 0:
            place = 64 * word + lowest_bit(bits)
            places[count] = place
            values[count] = row[place]
            count += 1
            bits &= bits - 1

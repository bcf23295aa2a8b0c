"""Vector operations on short rows, emitted as explicit vector instructions.

The inner loops of the library run over the labels of a position: 5, 26 or 45 numbers. A compiler
that does not know the length vectorises such a loop in steps of 16 or 32 and leaves the rest to
scalar code, behind a run-time check that the arrays do not overlap.
Here a row is cut into chunks of 8, then 4, 2, 1 numbers, each one vector operation; the
compiler maps them to whatever the machine has. A best path over 26 labels takes a third of the
time.

Rows are one-dimensional contiguous arrays of float64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .jit import compiled

_WIDTHS = (8, 4, 2, 1)
_SUMS = 4  # partial sums of an inner product: one would wait for itself
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


def _for_chunks(builder, length, emit, done=None) -> None:
    """Emit ``emit(offset, width)`` for chunks that cover ``range(done or 0, length)``."""
    integer = length.type
    if done is None:
        done = ir.Constant(integer, 0)
    for width in _WIDTHS:
        step = ir.Constant(integer, width)
        if width == _WIDTHS[0]:
            stop = builder.and_(length, ir.Constant(integer, -width))
            with cgutils.for_range_slice(builder, done, stop, step, integer) as (offset, _):
                emit(offset, width)
            done = stop
        else:
            left = builder.sub(length, done)
            fits = builder.icmp_signed(">=", left, step)
            with builder.if_then(fits):
                emit(done, width)
            done = builder.select(fits, builder.add(done, step), done)


def _for_groups(builder, length, emit) -> None:
    """Emit ``emit(places, widths)`` for groups of chunks that cover ``range(length)``.

    A group is up to four chunks of 8, or one smaller chunk: work that visits many rows then
    goes through them once for 32 columns, not once for every chunk. The last chunk of a group may
    overlap the one before, which saves a visit for the remainder: all chunks of a group must be
    loaded before any is stored.
    """
    integer = length.type

    def group(offset, count, last=None):
        places = [builder.add(offset, ir.Constant(integer, 8 * c)) for c in range(count)]
        if last is not None:
            places.append(last)
        emit(places, (8,) * len(places))

    most = ir.Constant(integer, 8 * _SUMS)
    full = builder.and_(length, ir.Constant(integer, -8 * _SUMS))
    start = ir.Constant(integer, 0)
    with cgutils.for_range_slice(builder, start, full, most, integer) as (offset, _):
        group(offset, _SUMS)
    left = builder.sub(length, full)
    for count in range(1, _SUMS):
        exactly = ir.Constant(integer, 8 * count)
        with builder.if_then(builder.icmp_signed("==", left, exactly)):
            group(full, count)
        more = builder.icmp_signed(">", left, exactly)
        fits = builder.icmp_signed("<", left, ir.Constant(integer, 8 * count + 8))
        with builder.if_then(builder.and_(more, fits)):
            group(full, count, builder.sub(length, ir.Constant(integer, 8)))
    with builder.if_then(builder.icmp_signed("<", left, ir.Constant(integer, 8))):
        _for_chunks(builder, length, lambda place, width: emit([place], (width,)), full)


def _array(context, builder, signature, args, position):
    kind = signature.args[position]
    return context.make_array(kind)(context, builder, args[position])


def _length(builder, array):
    return builder.extract_value(array.shape, 0)


def _row_types_fit(*rows, ndim: int = 1) -> bool:
    return all(
        isinstance(row, types.Array)
        and row.ndim == ndim
        and row.layout == "C"
        and row.dtype == types.float64
        for row in rows
    )


@intrinsic
def add_scaled(typingctx, out, row, factor):
    """``out += factor * row``."""
    if not _row_types_fit(out, row):
        return None

    def codegen(context, builder, signature, args):
        target = _array(context, builder, signature, args, 0)
        source = _array(context, builder, signature, args, 1)

        def emit(offset, width):
            scaled = builder.fmul(
                _load(builder, source.data, offset, width),
                _splat(builder, args[2], width),
                flags=_FAST,
            )
            total = builder.fadd(_load(builder, target.data, offset, width), scaled, flags=_FAST)
            _store(builder, total, target.data, offset, width)

        _for_chunks(builder, _length(builder, target), emit)
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

        def emit(offset, width):
            _store(builder, _load(builder, source.data, offset, width), target.data, offset, width)

        _for_chunks(builder, _length(builder, target), emit)
        return context.get_dummy_value()

    return types.none(out, row), codegen


def _row_start(context, builder, signature, args, at_indices, place, n_columns):
    """First element of the matrix row that entry ``place`` of a feature vector belongs to."""
    index = place
    if not isinstance(signature.args[at_indices], types.NoneType):
        indices = _array(context, builder, signature, args, at_indices)
        index = builder.load(builder.gep(indices.data, [place]))
        index = builder.sext(index, place.type) if index.type.width < 64 else index
    return builder.mul(index, n_columns)


def _entry(builder, array, place):
    """A number of a feature vector, in double precision."""
    value = builder.load(builder.gep(array.data, [place]))
    return value if value.type == _DOUBLE else builder.fpext(value, _DOUBLE)


def _is_row(array, dtypes) -> bool:
    return (
        isinstance(array, types.Array)
        and array.ndim == 1
        and array.layout == "C"
        and array.dtype in dtypes
    )


def _feature_types_fit(matrix, indices, data, row) -> bool:
    return (
        _row_types_fit(row)
        and _row_types_fit(matrix, ndim=2)
        and (isinstance(indices, types.NoneType) or _is_row(indices, (types.int32, types.int64)))
        and _is_row(data, (types.float32, types.float64))
    )


@intrinsic
def combine_rows(typingctx, matrix, indices, data, first, last, out):
    """``out += sum_p data[p] * matrix[indices[p]]`` for ``first <= p < last``.

    ``indices`` may be None: row p then belongs to entry p. Up to 32 columns of ``out`` stay in
    registers for the whole sum; fewer are summed in two parts that do not wait for each other.
    """
    if not _feature_types_fit(matrix, indices, data, out):
        return None

    def codegen(context, builder, signature, args):
        table = _array(context, builder, signature, args, 0)
        numbers = _array(context, builder, signature, args, 2)
        low, high = args[3], args[4]
        target = _array(context, builder, signature, args, 5)
        n_columns = _length(builder, target)
        integer = n_columns.type
        pairs = builder.add(low, builder.and_(builder.sub(high, low), ir.Constant(integer, -2)))
        one, two = ir.Constant(integer, 1), ir.Constant(integer, 2)

        def emit(places, widths):
            even, odd = [], []
            for place, width in zip(places, widths, strict=True):
                known = _load(builder, target.data, place, width)
                even.append(cgutils.alloca_once_value(builder, known))
                zero = ir.Constant(_vector_type(width), [0.0] * width)
                odd.append(cgutils.alloca_once_value(builder, zero))

            def add(entry, sums):
                start = _row_start(context, builder, signature, args, 1, entry, n_columns)
                factor = _entry(builder, numbers, entry)
                for place, width, partial in zip(places, widths, sums, strict=True):
                    row = _load(builder, table.data, builder.add(start, place), width)
                    scaled = builder.fmul(row, _splat(builder, factor, width), flags=_FAST)
                    _accumulate(builder, scaled, partial)

            with cgutils.for_range_slice(builder, low, pairs, two, integer) as (entry, _):
                add(entry, even)
                add(builder.add(entry, one), odd)
            with builder.if_then(builder.icmp_signed("<", pairs, high)):
                add(pairs, even)
            for place, width, a, b in zip(places, widths, even, odd, strict=True):
                _accumulate(builder, builder.load(b), a)
                _store(builder, builder.load(a), target.data, place, width)

        _for_groups(builder, n_columns, emit)
        return context.get_dummy_value()

    return types.none(matrix, indices, data, types.int64, types.int64, out), codegen


@intrinsic
def spread_row(typingctx, matrix, indices, data, first, last, row, scale):
    """``matrix[indices[p]] += scale * data[p] * row`` for ``first <= p < last``, one after another;
    ``indices`` may be None as in :func:`combine_rows`."""
    if not _feature_types_fit(matrix, indices, data, row):
        return None

    def codegen(context, builder, signature, args):
        table = _array(context, builder, signature, args, 0)
        numbers = _array(context, builder, signature, args, 2)
        source = _array(context, builder, signature, args, 5)
        n_columns = _length(builder, source)
        integer = n_columns.type
        one = ir.Constant(integer, 1)

        def emit(places, widths):
            chunks = [
                _load(builder, source.data, place, width)
                for place, width in zip(places, widths, strict=True)
            ]
            with cgutils.for_range_slice(builder, args[3], args[4], one, integer) as (entry, _):
                start = _row_start(context, builder, signature, args, 1, entry, n_columns)
                factor = builder.fmul(_entry(builder, numbers, entry), args[6], flags=_FAST)
                changed = []
                for place, width, chunk in zip(places, widths, chunks, strict=True):
                    at = builder.add(start, place)
                    change = builder.fmul(chunk, _splat(builder, factor, width), flags=_FAST)
                    known = _load(builder, table.data, at, width)
                    changed.append((builder.fadd(known, change, flags=_FAST), at, width))
                for new, at, width in changed:
                    _store(builder, new, table.data, at, width)

        _for_groups(builder, n_columns, emit)
        return context.get_dummy_value()

    signature = types.none(matrix, indices, data, types.int64, types.int64, row, types.float64)
    return signature, codegen


@intrinsic
def dot(typingctx, left, right):
    """``left @ right``."""
    if not _row_types_fit(left, right):
        return None

    def codegen(context, builder, signature, args):
        a = _array(context, builder, signature, args, 0)
        b = _array(context, builder, signature, args, 1)
        total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLE, 0.0))
        zero = ir.Constant(_vector_type(8), [0.0] * 8)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(_SUMS)]

        def product(offset, width):
            left_part = _load(builder, a.data, offset, width)
            return builder.fmul(left_part, _load(builder, b.data, offset, width), flags=_FAST)

        def emit(offset, width):
            if width == 8:
                _accumulate(builder, product(offset, width), sums[0])
            else:
                _add_elements(builder, product(offset, width), width, total)

        length = _length(builder, a)
        done = builder.and_(length, ir.Constant(length.type, -8 * _SUMS))
        step = ir.Constant(length.type, 8 * _SUMS)
        start = ir.Constant(length.type, 0)
        with cgutils.for_range_slice(builder, start, done, step, length.type) as (offset, _):
            for position, partial in enumerate(sums):
                place = builder.add(offset, ir.Constant(length.type, 8 * position))
                _accumulate(builder, product(place, 8), partial)
        _for_chunks(builder, length, emit, done)
        for partial in sums:
            _add_elements(builder, builder.load(partial), 8, total)
        return builder.load(total)

    return types.float64(left, right), codegen


def _accumulate(builder, vector, partial) -> None:
    builder.store(builder.fadd(builder.load(partial), vector, flags=_FAST), partial)


def _add_elements(builder, vector, width, total) -> None:
    index = ir.IntType(32)
    while width > 1:  # fold the upper half onto the lower one
        width //= 2
        low = ir.Constant(ir.VectorType(index, width), list(range(width)))
        high = ir.Constant(ir.VectorType(index, width), list(range(width, 2 * width)))
        vector = builder.fadd(
            builder.shuffle_vector(vector, vector, low),
            builder.shuffle_vector(vector, vector, high),
            flags=_FAST,
        )
    last = builder.extract_element(vector, ir.Constant(index, 0))
    builder.store(builder.fadd(builder.load(total), last, flags=_FAST), total)


@intrinsic
def max_plus(typingctx, old, matrix, new):
    """``new[k] = max_j (old[j] + matrix[j, k])``, the step of a best path."""
    if not _row_types_fit(old, new) or not _row_types_fit(matrix, ndim=2):
        return None

    def codegen(context, builder, signature, args):
        before = _array(context, builder, signature, args, 0)
        table = _array(context, builder, signature, args, 1)
        after = _array(context, builder, signature, args, 2)
        n_rows = _length(builder, before)
        n_columns = _length(builder, after)
        one = ir.Constant(n_rows.type, 1)

        def emit(places, widths):
            def candidates(j):
                here = builder.load(builder.gep(before.data, [j]))
                start = builder.mul(j, n_columns)
                for place, width in zip(places, widths, strict=True):
                    row = _load(builder, table.data, builder.add(start, place), width)
                    yield builder.fadd(row, _splat(builder, here, width), flags=("nsz",))

            first = candidates(ir.Constant(n_rows.type, 0))
            best = [cgutils.alloca_once_value(builder, value) for value in first]
            with cgutils.for_range_slice(builder, one, n_rows, one, n_rows.type) as (j, _):
                for value, most in zip(candidates(j), best, strict=True):
                    known = builder.load(most)
                    larger = builder.fcmp_ordered(">", value, known)
                    builder.store(builder.select(larger, value, known), most)
            for place, width, most in zip(places, widths, best, strict=True):
                _store(builder, builder.load(most), after.data, place, width)

        _for_groups(builder, n_columns, emit)
        return context.get_dummy_value()

    return types.none(old, matrix, new), codegen


@intrinsic
def mask_above(typingctx, row, offset, bound):
    """Bit j of the answer tells whether ``row[offset + j] > bound``, for eight places."""
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
    """Bit j of the answer tells whether ``row[offset + j]`` is not zero, for eight places."""
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
    """Place of the lowest set bit of a mask that is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def prefetch(typingctx, array, first, last):
    """Ask for ``array[first:last]`` (in the first dimension) to be brought into the cache.

    Examples are visited in random order, so the memory cannot guess what comes next; the solver
    knows.
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
            # for reading, with the strongest wish to keep it, as data
            flags = [ir.Constant(number, value) for value in (0, 3, 1)]
            builder.call(touch, [builder.gep(base, [offset]), *flags])
        return context.get_dummy_value()

    return types.none(array, types.int64, types.int64), codegen


@compiled
def mask_row(row, words):
    """Bits of the places of a row that are not zero, 64 a word; returns how many are set."""
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


@compiled
def take_masked(row, words, places, values):
    """Places and values of the set bits of :func:`mask_row`.

    A loop over bits ends once in 64 places: asking at each place would be guessed wrong too often.
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

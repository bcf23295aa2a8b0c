"""Largest entries of rows and of sums of rows, as vector instructions.

Rows are one-dimensional contiguous arrays of float64, as in :mod:`maxmargin._kernels.vector`.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .chunks import (
    _DOUBLE,
    _array,
    _for_chunks,
    _length,
    _load,
    _row_types_fit,
    _vector_type,
)


def _larger(builder, one, other, sign: str = ">"):
    return builder.select(builder.fcmp_ordered(sign, one, other), one, other)


def _fold(builder, vector, width: int, sign: str = ">"):
    """Largest element of a vector, or the smallest one."""
    index = ir.IntType(32)
    while width > 1:
        width //= 2
        low = ir.Constant(ir.VectorType(index, width), list(range(width)))
        high = ir.Constant(ir.VectorType(index, width), list(range(width, 2 * width)))
        vector = _larger(
            builder,
            builder.shuffle_vector(vector, vector, low),
            builder.shuffle_vector(vector, vector, high),
            sign,
        )
    return builder.extract_element(vector, ir.Constant(index, 0))


def _largest_of_chunks(builder, length, chunk):
    """Largest element of the vectors that ``chunk(offset, width)`` makes for all chunks."""
    lowest = float("-inf")
    single = cgutils.alloca_once(builder, _DOUBLE)
    eight = cgutils.alloca_once(builder, _vector_type(8))
    builder.store(ir.Constant(_DOUBLE, lowest), single)
    builder.store(ir.Constant(_vector_type(8), [lowest] * 8), eight)

    def write(place, found, width):  # numbers may be covered twice
        if width == 8:
            builder.store(_larger(builder, found, builder.load(eight)), eight)
        else:
            known = builder.load(single)
            builder.store(_larger(builder, _fold(builder, found, width), known), single)

    _for_chunks(builder, length, chunk, write)
    return _larger(builder, _fold(builder, builder.load(eight), 8), builder.load(single))


@intrinsic
def largest(typingctx, row):
    """The largest entry of a row."""
    if not _row_types_fit(row):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)

        def chunk(offset, width):
            return _load(builder, source.data, offset, width)

        return _largest_of_chunks(builder, _length(builder, source), chunk)

    return types.float64(row), codegen


@intrinsic
def largest_sum(typingctx, first, second, third):
    """The largest entry of a sum of three rows."""
    if not _row_types_fit(first, second, third):
        return None

    def codegen(context, builder, signature, args):
        rows = [_array(context, builder, signature, args, position) for position in range(3)]

        def chunk(offset, width):
            a, b, c = (_load(builder, row.data, offset, width) for row in rows)
            return builder.fadd(builder.fadd(a, b, flags=("nsz",)), c, flags=("nsz",))

        return _largest_of_chunks(builder, _length(builder, rows[0]), chunk)

    return types.float64(first, second, third), codegen

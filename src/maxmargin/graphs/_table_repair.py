"""Tables with given marginals, near given ones: rounding onto the transport polytope."""

from __future__ import annotations

from .._kernels.jit import leaf


@leaf
def next_entry(sizes, places):
    """The states of the next entry of a table with these numbers of states."""
    for axis in range(sizes.shape[0] - 1, -1, -1):
        places[axis] += 1
        if places[axis] < sizes[axis]:
            return
        places[axis] = 0


@leaf
def _axis_sums(sizes, table, places, out):
    """Marginals of a table on all its variables, concatenated; ends at the first entry."""
    n = 0
    for axis in range(sizes.shape[0]):
        places[axis] = 0
        n += sizes[axis]
    for j in range(n):
        out[j] = 0.0
    for e in range(table.shape[0]):
        at = 0
        for axis in range(sizes.shape[0]):
            out[at + places[axis]] += table[e]
            at += sizes[axis]
        next_entry(sizes, places)


@leaf
def fit_table(sizes, mass, wanted, sums, places, out):
    """A table with exactly the ``wanted`` marginals, near ``mass``.

    One variable after another, states with too much mass are scaled down; the missing mass is
    distributed in proportion to the product of the deficits of all variables. ``sizes`` are the
    numbers of states of the variables; ``out`` has the length of the table.
    """
    for e in range(out.shape[0]):
        out[e] = max(mass[e], 0.0)
    skip = 0
    for axis in range(sizes.shape[0]):
        _axis_sums(sizes, out, places, sums)
        for e in range(out.shape[0]):
            j = skip + places[axis]
            if sums[j] > wanted[j]:
                out[e] *= wanted[j] / sums[j]
            next_entry(sizes, places)
        skip += sizes[axis]
    _axis_sums(sizes, out, places, sums)
    lack = 0.0
    for j in range(skip):
        sums[j] = max(0.0, wanted[j] - sums[j])
        if j < sizes[0]:
            lack += sums[j]
    if lack <= 1e-300:
        return
    for e in range(out.shape[0]):
        share = lack
        at = 0
        for axis in range(sizes.shape[0]):
            share *= sums[at + places[axis]] / lack
            at += sizes[axis]
        out[e] += share
        next_entry(sizes, places)


@leaf
def fit_potts(mass, first, second):
    """The mass on equal states nearest to ``mass`` that the marginals allow."""
    least, most = 0.0, 0.0
    for a in range(first.shape[0]):
        least = max(least, first[a] + second[a] - 1.0)
        most += min(first[a], second[a])
    return min(max(mass, least), most)


@leaf
def fit_binary(mass, wanted, out):
    """The table of two binary variables with the wanted marginals, both in state 1 as near as
    possible to ``mass``."""
    a, b = wanted[1], wanted[3]
    both = min(max(mass[3], max(0.0, a + b - 1.0)), min(a, b))
    out[3] = both
    out[2] = a - both
    out[1] = b - both
    out[0] = max(0.0, 1.0 - a - b + both)


@leaf
def fit_pair(mass, first, second, lacks, out):
    """As :func:`fit_table` for a pair of variables; ``lacks`` is scratch, one per state."""
    k, q = first.shape[0], second.shape[0]
    for i in range(k):
        total = 0.0
        for j in range(q):
            out[i * q + j] = max(mass[i * q + j], 0.0)
            total += out[i * q + j]
        if total > first[i]:
            for j in range(q):
                out[i * q + j] *= first[i] / total
    lack = 0.0
    for j in range(q):
        total = 0.0
        for i in range(k):
            total += out[i * q + j]
        if total > second[j]:
            for i in range(k):
                out[i * q + j] *= second[j] / total
        else:
            lack += second[j] - total
    if lack <= 1e-300:
        return
    for i in range(k):
        lacks[i] = first[i]
        for j in range(q):
            lacks[i] -= out[i * q + j]
    for j in range(q):
        missing = second[j]
        for i in range(k):
            missing -= out[i * q + j]
        missing = max(0.0, missing) / lack
        for i in range(k):
            out[i * q + j] += missing * max(0.0, lacks[i])

"""Target processors of prebuilt kernels. Does not import numba, which must be configured before."""

from __future__ import annotations

import platform
from typing import NamedTuple


class Target(NamedTuple):
    """A target processor, in the terms of numba, and the features that its code requires."""

    cpu: str
    features: str = ""  # those of the named processor
    needs: tuple[str, ...] = ()


_X86 = Target(
    "x86-64-v3",
    needs=(
        "avx", "avx2", "bmi", "bmi2", "cmov", "cx16", "cx8", "f16c", "fma", "fxsr", "lzcnt", "mmx",
        "movbe", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave",
    ),
)  # fmt: skip
_ARM = Target("generic")
BASELINES = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def baseline(machine: str = "") -> Target | None:
    """Target of prebuilt code on a kind of machine; None if there is none."""
    return BASELINES.get((machine or platform.machine()).lower())


def is_supported(target: Target) -> bool:
    """Whether this processor can run code for a target."""
    from llvmlite import binding

    found = binding.get_host_cpu_features() if target.needs else {}
    return all(found.get(name) for name in target.needs)

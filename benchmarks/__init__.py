"""Comparison with other libraries on this machine: ``python -m benchmarks [NAME ...]``.

Every program gets one thread; that must be said before numpy is imported, so it is said here.
"""

import os

for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
):
    os.environ[_variable] = "1"

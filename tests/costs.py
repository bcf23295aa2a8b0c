"""What tests cost: seconds and compilations by file, in the file that MAXMARGIN_TEST_COSTS names.

``MAXMARGIN_TEST_COSTS=costs.jsonl make test``, then ``python tests/costs.py costs.jsonl``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from numba.core import event


class _Compilations(event.Listener):
    """Seconds of the processor by the function whose call led to a compilation."""

    def __init__(self):
        self.began, self.count, self.seconds = [], 0, Counter()

    def on_start(self, event):
        self.began.append(time.process_time())
        self.count += 1

    def on_end(self, event):
        began = self.began.pop()
        if not self.began:
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('maxmargin.')}.{function.__name__}"
            self.seconds[name] += time.process_time() - began


def _seconds():
    """Of the processor: of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Costs:
    """A plugin that writes a line of JSON about every test."""

    def __init__(self, path):
        self._path = path
        self._compilations = _Compilations()
        event.register("numba:compile", self._compilations)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._compilations.count, self._compilations.seconds = 0, Counter()
        wall, cpu = time.perf_counter(), _seconds()
        found = yield
        line = {
            "file": Path(item.fspath).name, "test": item.name,
            "seconds": time.perf_counter() - wall, "cpu": _seconds() - cpu,
            "compiled": self._compilations.count, "compiling": self._compilations.seconds,
        }  # fmt: skip
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return found


def table(lines):
    """Files and functions, the most expensive first."""
    files, functions = defaultdict(Counter), Counter()
    for line in lines:
        line["compile_cpu"] = sum(line["compiling"].values())
        for key in ("seconds", "cpu", "compiled", "compile_cpu"):
            files[line["file"]][key] += line[key]
        functions.update(line["compiling"])
    yield "   wall     cpu  compiling  functions  file"
    for name, sums in sorted(files.items(), key=lambda item: -item[1]["cpu"]):
        yield (f"{sums['seconds']:7.1f} {sums['cpu']:7.1f} {sums['compile_cpu']:10.1f} "
               f"{sums['compiled']:10.0f}  {name}")  # fmt: skip
    yield "\n compiling  function that Python called"
    for name, seconds in functions.most_common(40):
        yield f"{seconds:10.1f}  {name}"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write("\n".join(table(map(json.loads, file))) + "\n")

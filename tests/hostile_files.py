"""Changed model files and checkpoints, and processes in which they may do what they do."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import traceback
import zipfile

import numpy as np

# Memory that a process may take beyond what it has, and seconds for one case.
ROOM = 1 << 30
SECONDS = 60


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def changed_arrays(array):
    """An array with everything that can be wrong about it, by name."""
    yield "another type", np.zeros(array.shape, np.float32 if array.dtype.kind != "f" else np.int64)
    yield "one dimension more", array[None]
    if array.size:
        yield (
            "shorter",
            array.ravel()[:-1].reshape(-1, *array.shape[1:]) if array.ndim == 1 else (array[:-1]),
        )
        yield "longer", np.concatenate([array, array])
        yield "empty", array[:0]
    values = []
    if array.dtype.kind == "i":
        values = [-1, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min, 10**6]
    elif array.dtype.kind == "f":
        values = [np.nan, np.inf, -1e300]
    for value in values if array.size else ():
        for place in {0, array.size // 2, array.size - 1}:
            edited = array.copy()
            edited.flat[place] = value
            yield f"{value} at {place}", edited


def array_edits(members, skip=()):
    """Changed copies of the members of a file: one array is missing, cut, or changed."""
    for name, content in members.items():
        if not name.endswith(".npy") or name in skip:
            continue
        yield f"{name} missing", {k: v for k, v in members.items() if k != name}
        yield f"{name} cut", members | {name: content[: len(content) // 2]}
        for what, edited in changed_arrays(np.load(io.BytesIO(content))):
            yield f"{name} {what}", members | {name: npy(edited)}


def json_edits(members, start):
    """Changed copies of the members of a file: one node of state.json is something else."""
    tree = json.loads(members["state.json"])

    def edited(holder, key, value):
        before = holder[key]
        holder[key] = value
        text = json.dumps(tree)
        holder[key] = before
        return members | {"state.json": text}

    waiting = [("", start(tree))]
    while waiting:
        where, node = waiting.pop()
        items = enumerate(node) if isinstance(node, list) else node.items()
        for key, child in list(items):
            path = f"{where}.{key}"
            for value in (None, -1, 2**62, "x", [], {"tuple": []}, {"float": "inf"}):
                if value != child:
                    yield f"{path} = {value}", edited(node, key, value)
            if isinstance(child, (dict, list)) and len(child) <= 40:
                waiting.append((path, child))


def outcomes(cases, act):
    """What becomes of some cases, each a name and members, in processes with limits.

    ``act(members)`` returns a word. A case that raises anything but ModelFileError, ends the
    process, or takes too long or too much memory, is reported as such.
    """
    cases = list(cases)
    found, first = {}, 0
    while first < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _work(cases[first:], act, write)
        os.close(write)
        with os.fdopen(read) as lines:
            words = [json.loads(line) for line in lines]
        _, status = os.waitpid(child, 0)
        for (name, _), word in zip(cases[first:], words, strict=False):
            found[name] = word
        first += len(words)
        if first < len(cases):
            found[cases[first][0]] = f"killed the process (status {status})"
            first += 1
    return found


def _work(cases, act, write):
    from maxmargin import ModelFileError

    try:
        pages = int(open("/proc/self/statm").read().split()[0]) if os.path.exists("/proc") else 0
        if pages:
            limit = pages * os.sysconf("SC_PAGESIZE") + ROOM
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for _, members in cases:
            signal.alarm(SECONDS)
            try:
                word = act(members)
            except ModelFileError:
                word = "refused"
            except BaseException:
                word = traceback.format_exc()
            os.write(write, (json.dumps(word) + "\n").encode())
    finally:
        os._exit(0)

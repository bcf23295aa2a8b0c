"""``maxmargin kernels``: list, verify, build, clear."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from . import FAILED, OK
from ._options import json_option
from ._output import note, print_json, print_table


@click.group("kernels", short_help="Prebuilt compiled code.")
def command():
    """Compiled code that comes with the package, so that a first fit does not have to compile.

    \b
      maxmargin kernels list
      maxmargin kernels verify
      maxmargin kernels build --jobs 4     as in a Dockerfile
      maxmargin kernels clear

    A wheel may carry it; "build" makes it where there is none, into the folder of the package. The
    code is for a baseline (x86-64-v3, or any aarch64), not for one processor. It is used if it was
    built from these sources, with this Python, numba and llvmlite, and if the processor has what
    the baseline needs; otherwise functions are compiled when first called. MAXMARGIN_PREBUILT=0
    switches it off. What was compiled for this processor is kept elsewhere, below NUMBA_CACHE_DIR
    or the user's cache folder, and preferred.
    """


def _facts() -> dict[str, Any]:
    """What a store has and whether it can be used here."""
    from numba.core.registry import cpu_target

    from .._first_fits import FIRST_FITS
    from .._kernels.store import Damaged, Store

    store = Store()
    found: dict[str, Any] = {"folder": str(store.folder), "usable": False}
    try:
        record = store.record
        if record is None:
            return {**found, "problem": "no prebuilt kernels"}
        problem = store.unfit(cpu_target.target_context.codegen().magic_tuple())
    except Damaged as damage:
        return {**found, "problem": str(damage)}
    entries = record["entries"].values()
    keys = ("python", "numba", "llvmlite", "system", "cpu", "fits")
    return {
        **found,
        "usable": not problem,
        "problem": problem or None,
        **{key: record[key] for key in keys},
        "missing_fits": [name for name in FIRST_FITS if name not in record["fits"]],
        "n_kernels": len(entries),
        "bytes": sum(entry["size"] for entry in entries),
        "kernels": dict(Counter(_function(entry["name"]) for entry in entries)),
    }


def _function(name: str) -> str:
    """The function that an entry is a compiled version of."""
    return name.rpartition("-")[0]


@command.command("list")
@json_option
def list_(as_json):
    """What is there: the fits that it was built from, functions, versions."""
    facts = _facts()
    if as_json:
        print_json(facts)
        return
    if "fits" not in facts:
        click.echo(f"{facts['folder']}: {facts['problem']}")
        return
    print_table(("function", "versions"), sorted(facts["kernels"].items()))
    print_table(("first fit",), [(name,) for name in facts["fits"]])
    click.echo(
        f"{facts['n_kernels']} kernels, {facts['bytes'] / 1e6:.1f} MB, in {facts['folder']}: "
        f"{len(facts['fits'])} first fits, {len(facts['missing_fits'])} missing"
    )
    click.echo(
        f"for {facts['cpu']} ({facts['system']}), {facts['python']}, numba {facts['numba']}, "
        f"llvmlite {facts['llvmlite']}: " + (facts["problem"] or "used by this process")
    )


@command.command("verify")
@json_option
def verify(as_json):
    """Compare all code with its checksums; exit code 1 if it is damaged or not usable here."""
    from .._kernels.store import Damaged, Store

    facts = _facts()
    store = Store()
    damaged = []
    for digest, entry in (store.record["entries"] if "fits" in facts else {}).items():
        try:
            store.read(digest)
        except Damaged as damage:
            damaged.append({"digest": digest, "name": entry["name"], "reason": str(damage)})
    if damaged and facts["usable"]:
        facts.update(usable=False, problem=f"{len(damaged)} kernels are damaged")
    if as_json:
        print_json({**facts, "damaged": damaged})
    else:
        for entry in damaged:
            click.echo(entry["reason"])
        good = f"{facts.get('n_kernels', 0)} kernels verified; used by this process"
        click.echo(f"{facts['folder']}: {facts['problem'] or good}")
    return OK if facts["usable"] else FAILED


@command.command("build")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes; one per processor by default, at most 4."
)
@json_option
def build(names, jobs, as_json):
    """Compile what first fits need: all, or those that match a NAME such as 'sequence/*'.

    What is there already is not built again.
    """
    from .._build import BuildError, chosen, summary
    from .._build import build as build_kernels

    try:
        built = build_kernels(chosen(names), jobs, verbose=1)
    except BuildError as error:
        note(f"error: {error}")
        return FAILED
    if as_json:
        print_json(built._asdict())
    else:
        note(summary(built))
    return OK


@command.command("clear")
@json_option
def clear(as_json):
    """Remove it; the cache of the user is left alone."""
    from .._build import clear as clear_kernels
    from .._kernels.store import FOLDER

    freed = clear_kernels()
    if as_json:
        print_json({"folder": str(FOLDER), "bytes": freed})
    else:
        click.echo(f"{freed / 1e6:.1f} MB removed from {FOLDER}")

"""Run the tests in several short-lived processes, two at a time: ``python tests/run.py [options]``.

Nearly all the time of a first run is compilation, and the compiler becomes slower the more a
process has compiled already. So files are run in groups that share kernels, each group in a process
of its own; what one compiles the others find on disk. Options are handed to pytest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
N_PROCESSES = 2
# Groups that compile most come first. All other files are dealt out to the rest.
GROUPS = (
    "rankings matchings",
    "chain_max_min mirror_prox hidden_labels equivalences oracles",
    "hidden_graphs graph_labeler grid_labeler multilabel_edges soft_agreement node_kinds",
    "unusual_input kernels duality",
    "crf_chain sum_product kernels_sequences",
    "tree_parser arborescence subsets",
    "decoding graph_baselines bad_graphs",
    "multilabel_manners multilabel sklearn_manners crf",
    "cli_commands cli_resume cli_terminal cli_docs cli_bad_input",
    "latent latent_predictor spaces best_labellings unusual_sequences",
    "cache pipeline four_pairs optional",
    "readme demo experiments report plot",
)
N_REST = 3
NOTHING_COLLECTED = 5


def groups() -> list[list[str]]:
    """Test files, group by group; every file is in one."""
    named = [[f"test_{name}.py" for name in group.split()] for group in GROUPS]
    taken = {name for group in named for name in group}
    rest = sorted(path.name for path in FOLDER.glob("test_*.py") if path.name not in taken)
    missing = [name for name in taken if not (FOLDER / name).exists()]
    if missing:
        raise SystemExit(f"{__file__} names files that are not there: {', '.join(missing)}")
    return named + [rest[k::N_REST] for k in range(N_REST)]


def run(files: list[str], options: list[str]) -> tuple[int, str]:
    """Exit code and output of pytest on some files."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", *options]
    done = subprocess.run(
        [*command, *(str(FOLDER / name) for name in files)],
        cwd=FOLDER.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def counts(output: str) -> Counter[str]:
    """Numbers of tests by outcome, from the last line of pytest."""
    last = output.rstrip().rsplit("\n", 1)[-1]
    found: Counter[str] = Counter()
    for number, outcome in re.findall(r"(\d+) (passed|failed|skipped|xfailed|xpassed|error)", last):
        found[outcome] += int(number)
    return found


def main() -> int:
    began = time.monotonic()
    total: Counter[str] = Counter()
    failed = []
    with ThreadPoolExecutor(N_PROCESSES) as pool:
        waiting = {pool.submit(run, files, sys.argv[1:]): files for files in groups()}
        for future in as_completed(waiting):
            files = waiting[future]
            code, output = future.result()
            found = counts(output)
            total += found
            good = code in (0, NOTHING_COLLECTED) and not found["failed"] and not found["error"]
            names = " ".join(name.removeprefix("test_").removesuffix(".py") for name in files)
            said = ", ".join(f"{number} {outcome}" for outcome, number in found.items())
            sys.stdout.write(f"{time.monotonic() - began:5.0f} s  {names}: {said or 'no tests'}\n")
            if not good:
                failed.append(names)
                sys.stdout.write(output)
            sys.stdout.flush()
    said = ", ".join(f"{number} {outcome}" for outcome, number in total.items())
    sys.stdout.write(f"{said} in {time.monotonic() - began:.0f} s\n")
    if failed:
        sys.stdout.write(f"failed: {'; '.join(failed)}\n")
    return 1 if failed or not total["passed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

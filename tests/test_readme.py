"""The README and the page for newcomers are true: their code runs, and what they name exists."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def code_blocks(name: str) -> list[tuple[str, str]]:
    """Python blocks of a document, each with a name."""
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(f"{name}, block {number}", code) for number, code in enumerate(found, start=1)]


BLOCKS = code_blocks("README.md") + code_blocks("docs/coming-from.md")


def test_there_are_blocks():
    assert len(code_blocks("README.md")) == 9
    assert len(code_blocks("docs/coming-from.md")) == 4
    assert len(code_blocks("docs/graphs.md")) == 7
    for page in ("start", "trees", "latent", "reports"):
        assert len(code_blocks(f"docs/{page}.md")) > 1


SLOW = [pytest.param(page, marks=pytest.mark.slow) for page in ("trees", "latent", "reports")]


@pytest.mark.parametrize("page", ["graphs", "start", "extending", *SLOW])
def test_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "document"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, code in code_blocks(f"docs/{page}.md"):
            exec(compile(code, name, "exec"), names)


@pytest.mark.parametrize(("name", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_block_runs(name, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, name, "exec"), {"__name__": "document"})


def test_starts_with_the_two_commands():
    commands = re.findall(r"^    (make \w+)", README, flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_make_targets_exist():
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", README, flags=re.MULTILINE))
    assert {"demo", "test", "bench"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_benchmarks_can_be_filled_in(tmp_path):
    copy, results = tmp_path / "README.md", tmp_path / "latest.md"
    copy.write_text(README, encoding="utf-8")
    results.write_text("| measured |\n", encoding="utf-8")
    # In a process of its own: importing the benchmarks sets the number of threads.
    code = (
        "import sys; from pathlib import Path; from benchmarks.report import update_readme; "
        "update_readme(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(copy), str(results)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    before, rest = README.split("<!-- benchmarks: begin -->")
    after = rest.split("<!-- benchmarks: end -->")[1]
    filled = "<!-- benchmarks: begin -->\n| measured |\n<!-- benchmarks: end -->"
    assert copy.read_text(encoding="utf-8") == before + filled + after


EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_belongs_to_the_gallery(path):
    """The build of the documentation runs them all; here only what it would stumble over."""
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    title, line = re.match(r'"""\n(.+)\n(=+)\n', text).groups()
    assert len(title) == len(line)
    assert "plt.show()" in text

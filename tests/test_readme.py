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


NUMBER = re.compile(r"\d+\.\d+")


def code_blocks(name: str) -> list[tuple[str, str]]:
    """Python blocks of a document, each with a name."""
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(f"{name}, block {number}", code) for number, code in enumerate(found, start=1)]


def printed_blocks() -> list[tuple[str, str, str]]:
    """Python blocks of the README, each with the output that the README shows below it."""
    found = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL
    )
    return [(f"README.md, block {i}", *pair) for i, pair in enumerate(found, start=1)]


def same_output(shown: str, printed: str) -> bool:
    """Equal texts, where decimals may differ by one in the last digit shown.

    Sums are rounded differently by the instructions of different processors.
    """
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(a.partition(".")[2]) for a, b in pairs)


PRINTED = printed_blocks()
BLOCKS = code_blocks("docs/coming-from.md")


def test_there_are_blocks():
    assert len(code_blocks("README.md")) == len(PRINTED) == 12
    assert len(code_blocks("docs/coming-from.md")) == 4
    assert len(code_blocks("docs/graphs.md")) == 8
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


@pytest.mark.parametrize(("name", "code", "shown"), PRINTED, ids=[name for name, *_ in PRINTED])
def test_block_prints_what_is_shown(name, code, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, name, "exec"), {"__name__": "document"})
    printed = capsys.readouterr().out
    assert same_output(shown, printed), printed


def test_first_page_of_the_documentation_has_the_first_example():
    page = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    _, code, shown = PRINTED[0]
    assert f"```python\n{code}```\n\n```text\n{shown}```" in page


def test_other_output_is_noticed():
    assert same_output("accuracy 0.83 True\n", "accuracy 0.84 True\n")
    assert not same_output("accuracy 0.83\n", "accuracy 0.85\n")
    assert not same_output("accuracy 0.83 True\n", "accuracy 0.83 False\n")
    assert not same_output("accuracy 0.83\n", "accuracy 0.83 0.83\n")


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
    assert {"demo", "test", "docs"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_benchmarks_can_be_filled_in(tmp_path):
    page = (REPOSITORY / "docs/results/benchmarks.md").read_text(encoding="utf-8")
    copy, results = tmp_path / "benchmarks.md", tmp_path / "latest.md"
    copy.write_text(page, encoding="utf-8")
    results.write_text("| measured |\n", encoding="utf-8")
    # In a process of its own: importing the benchmarks sets the number of threads.
    code = (
        "import sys; from pathlib import Path; from benchmarks.report import update_page; "
        "update_page(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(copy), str(results)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    before, rest = page.split("<!-- benchmarks: begin -->")
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


def test_gallery_lists_every_example():
    """From simple to special, in the settings of the documentation."""
    settings = (REPOSITORY / "docs/conf.py").read_text(encoding="utf-8")
    listed = re.search(r"^EXAMPLES = \((.*?)\)", settings, flags=re.MULTILINE | re.DOTALL).group(1)
    assert sorted(re.findall(r'"(\w+)"', listed)) == [path.stem for path in EXAMPLES]

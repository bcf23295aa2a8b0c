"""Find words that the style of the project rules out: ``python tests/prose.py``.

Checked are Markdown and reStructuredText files as a whole, and the comments and strings of Python
files. Every rule names the plain term to write instead.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PLACES = ("*.md", "docs/**/*.md", "docs/*.rst", "examples/*.py", "examples/*.txt",
          "src/maxmargin/**/*.py", "src/maxmargin/**/*.tsv", "tests/**/*.py", "benchmarks/**/*.py",
          "experiments/**/*.py")  # fmt: skip
# They name the words that are ruled out.
EXCEPTIONS = ("tests/prose.py", "tests/test_prose.py")
# Units after which an article stands for "per": "features an arc".
_COUNTED = (
    "attributes|bytes|columns?|dicts?|entries|features?|iterations|labels?|lines?|lookups?|messages?|"
    "names?|numbers?|passes|ranks?|rows?|scores?|searches|steps|tokens?|values?|vectors?|weights?|words?"
)
_UNITS = (
    "arc|block|call|cell|example|feature|fold|graph|item|label|line|node|pair|pass|position|row|"
    "second|sentence|sequence|state|step|token|variable|word"
)


class Rule(NamedTuple):
    """A pattern, and what to write instead."""

    pattern: re.Pattern[str]
    instead: str


def _rule(pattern: str, instead: str) -> Rule:
    return Rule(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), instead)


RULES = (
    _rule(r"\bfront doors?\b", "estimator"),
    _rule(r"\brooms?\b", "folder, memory, capacity"),
    _rule(r"\bmanners\b", "interface, conventions"),
    _rule(r"\bas (the|an) (estimator|solver|model|user) likes\b", "the rule itself"),
    _rule(r"\bthirst\b", "fuel consumption"),
    _rule(r"\bbelieves?\b", "takes, assumes"),
    _rule(r"\b(rules of the house|house rules)\b", "conventions of the project"),
    _rule(r"\bdust of\b", "rounding error"),
    _rule(r"\bswing each other\b", "oscillate"),
    _rule(r"\bwho has an? \w+ and looks for\b", "what the page is about"),
    _rule(r"\bbounds? of\b(?! (Theorem|\d))", "bound on"),
    _rule(r"\bso many\b", "the number of"),
    # Not "which column a feature has".
    _rule(rf"\b({_COUNTED}) an? ({_UNITS})\b(?! (has|holds|is|twice))", "per, not the article"),
    _rule(r"\bwithin 0\.0+ ?%", "a percentage with the digits it needs"),
)


_CODE = re.compile(r"``[^`\n]*``|`[^`\n]*`")  # names of programs are no prose


class Finding(NamedTuple):
    """A place, the words there, and what to write instead."""

    path: str
    line: int
    words: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.words.split())!r}: write {self.instead}"


def findings(path: str, text: str) -> Iterator[Finding]:
    """What the rules find in a file."""
    for first, part in _prose(text) if path.endswith(".py") else [(1, text)]:
        part = _CODE.sub(lambda code: re.sub(r"\S", "_", code.group()), part)
        for rule in RULES:
            for found in rule.pattern.finditer(part):
                line = first + part.count("\n", 0, found.start())
                yield Finding(path, line, found.group(), rule.instead)


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Comments and strings of a program, with their first lines; names in quotes are no prose."""
    comments: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token)
        elif token.type == tokenize.STRING and " " in token.string:
            yield token.start[0], token.string
    # Lines of a comment belong together: words may be divided between them.
    at = 0
    while at < len(comments):
        end = at + 1
        while end < len(comments) and comments[end].start[0] == comments[end - 1].start[0] + 1:
            end += 1
        yield comments[at].start[0], "\n".join(c.string.lstrip("# ") for c in comments[at:end])
        at = end


def files() -> list[Path]:
    """Files that are checked."""
    found = {path for place in PLACES for path in REPOSITORY.glob(place)}
    built = ("docs/_build", "docs/auto_examples", "docs/generated")
    left_out = [REPOSITORY / folder for folder in (*built, *EXCEPTIONS)]
    return sorted(p for p in found if not any(p.is_relative_to(folder) for folder in left_out))


def main() -> int:
    """Print what was found; 1 if there is anything."""
    found = [
        finding
        for path in files()
        for finding in findings(
            path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8")
        )
    ]
    for finding in found:
        sys.stdout.write(f"{finding}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

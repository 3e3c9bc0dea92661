"""Draws texts of the program for a review of its English: findings, error messages, docstrings.

``python -m scripts.draw_texts [COMMIT]`` prints 100 texts of the checkout, each with its file and
line. The id of the commit (HEAD by default) is the seed, so that a draw can be repeated.
"""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("lockstep", "roles")
FINDINGS = "lockstep/checks/"
SHARES = {"finding": 34, "error": 33, "docstring": 33}
MESSAGES = {"Problem", "Unread", "Unreadable", "warn"}
"""Calls besides ``raise`` whose texts are error messages."""
OPTIONS = {"add_argument", "add_parser", "ArgumentParser"}
"""Calls of argparse: their texts are read in ``--help``."""
FEWEST_WORDS = 3
"""Shorter texts are mostly names."""


class Text(NamedTuple):
    """A text and its position."""

    kind: str
    file: str
    line: int
    text: str


def texts(file: str, source: str) -> Iterator[Text]:
    """Yield each text of a module once."""
    seen: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(source)):
        kind, parts = _kind(file, node)
        for part in parts:
            for found in _strings(part):
                place, text = (found.lineno, found.col_offset), _text(found)
                if place not in seen and len(text.split()) >= FEWEST_WORDS:
                    seen.add(place)
                    yield Text(kind, file, found.lineno, text)


def _kind(file: str, node: ast.AST) -> tuple[str, list[ast.expr]]:
    """Return the kind of the texts in a statement or call, and the expressions with them."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return "docstring", [node.value]
    if isinstance(node, ast.Raise) and node.exc is not None:
        return "error", [node.exc]
    if isinstance(node, ast.Call):
        # A rule's source is a reference, not a sentence.
        named = [keyword.value for keyword in node.keywords if keyword.arg != "source"]
        arguments = [*node.args, *named]
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in MESSAGES | OPTIONS:
            return "error", arguments
        if file.startswith(FINDINGS):
            return "finding", arguments
    return "", []


def _strings(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the strings in an expression; the parts of an f-string are one string."""
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)


def _text(string: ast.Constant | ast.JoinedStr) -> str:
    """Return a string; the values of an f-string are shown as ``{expression}``."""
    if isinstance(string, ast.Constant):
        return str(string.value)
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
        for part in string.values
        if isinstance(part, (ast.Constant, ast.FormattedValue))
    )


def draw(seed: str) -> list[Text]:
    """Return 100 texts of the checkout; the same seed draws the same texts."""
    every = [
        text
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
        for text in texts(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]
    chance = random.Random(seed)  # a draw, not a secret
    return [
        text
        for kind, number in SHARES.items()
        for text in chance.sample([one for one in every if one.kind == kind], number)
    ]


def main() -> None:
    """Print the texts drawn with the id of a commit as seed."""
    commit = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        sys.exit(f"{commit} is not a commit of this checkout: {found.stderr.strip()}")
    seed = found.stdout.strip()
    print(f"100 texts drawn with seed {seed}. Mark each that a native speaker would not write.")
    for number, one in enumerate(draw(seed), 1):
        print(f"\n{number}. {one.kind}  {one.file}:{one.line}")
        print(textwrap.indent(textwrap.dedent(one.text).strip(), "    "))


if __name__ == "__main__":
    main()

"""The worked examples of CONTRIBUTING.md, as files and changes of files.

A section of the page (``## ``) can hold an example. A block is a part of it if the line before it
ends with a path in backticks and a colon. It is a new file, or changes of a file where it is fenced
as ``diff``. A change is made at the first place that has the lines without a sign and those with
``-``; ``@@`` starts the next change.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"`([^`\n]+)`:\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Edit:
    """One file of an example."""

    path: str
    text: str
    changes: bool
    """Whether the text changes a file; else it is a new file."""

    def apply(self, root: Path) -> None:
        """Write the file, or change it.

        Raises:
            ValueError: a new file exists, or a change does not find its place.
        """
        path = root / self.path
        if not self.changes:
            if path.exists():
                raise ValueError(f"{self.path} exists; the page shows it as a new file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
            return
        text = path.read_text(encoding="utf-8")
        for change in re.split(r"^@@.*\n", self.text, flags=re.MULTILINE):
            old, new = _sides(change)
            if old not in text:
                raise ValueError(f"{self.path} has no place for this change:\n{change}")
            text = text.replace(old, new, 1)
        path.write_text(text, encoding="utf-8")


def _sides(change: str) -> tuple[str, str]:
    """Return the lines before a change and after it."""
    lines = [(line[:1], line[1:]) for line in change.splitlines(keepends=True)]
    lines = [(sign.replace("\n", " "), rest or "\n") for sign, rest in lines]
    if wrong := {sign for sign, _ in lines} - {" ", "+", "-"}:
        raise ValueError(f"a line of a change begins with {wrong.pop()!r}")
    old = "".join(rest for sign, rest in lines if sign != "+")
    new = "".join(rest for sign, rest in lines if sign != "-")
    return old, new


def examples(page: str) -> dict[str, tuple[Edit, ...]]:
    """Return heading -> the files of its example, in the order of the page."""
    _, *parts = SECTION.split(page)
    found = {
        heading: tuple(
            Edit(path, text, language == "diff") for path, language, text in BLOCK.findall(body)
        )
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }
    return {heading: edits for heading, edits in found.items() if edits}


def git(root: Path, *arguments: str) -> str:
    """Return what a git command prints in a folder."""
    command = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments)
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def copy_tree(target: Path) -> None:
    """Copy the files of the checkout to a folder, as a repository of one commit."""
    names = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, names.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    git(target, "init", "--quiet")
    commit(target)


def commit(root: Path) -> None:
    """Commit everything in a copy."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--no-verify", "--message", "a copy")


def touched(root: Path) -> list[str]:
    """Return the files of a copy that differ from its last commit."""
    lines = git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    return sorted(line[3:] for line in lines)

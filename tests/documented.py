"""The commands that README and docs show, and how each of them is tried.

A block of commands is fenced as ``console`` (lines that begin with "$ " or "# " are commands, the
others are output), ``sh`` or ``bash``. By default each command is looked up in ``COMMANDS``. A
comment ``<!-- not run: REASON -->`` on the line before a block keeps all of it from being run;
where the reason is that it needs the lab, the lab tests run what they know of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from typing_extensions import override

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = ("console", "sh", "bash", "shell")
NEEDS_LAB = "needs the lab"
FENCE = re.compile(r"^ *```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: *(.*?) *-->$")


class Where(Enum):
    """Where a command is tried."""

    HERE = "without machines, by the unit tests"
    LAB = "on the lab's cluster, by the lab tests"
    NOWHERE = "not at all, for a reason"


@dataclass(frozen=True)
class Way:
    """How the commands that match a pattern are tried."""

    pattern: str
    where: Where
    reason: str = ""
    """Why they are not run."""
    statuses: frozenset[int] = frozenset({0})
    """Exit statuses that are right."""


START = r"(?:\.venv/bin/)?"
LAB_INVENTORY = r".*\binventories/lab\.py\b"
COMPARES = "(check|diff|compare|repair)"
FOUND_OR_NOT = frozenset({0, 1})
"""A comparison ends with 1 where it found something; what it finds is other tests' matter."""

COMMANDS = (
    Way(
        r"make (lab|lab-kernel|lab-kubernetes)\b",
        Where.NOWHERE,
        "the lab tests run each of its steps",
    ),
    Way(r"make clean-lab\b", Where.NOWHERE, "it would remove the lab of the developer"),
    Way(r"make (test|lint|coverage)", Where.NOWHERE, "it runs the tests and checks themselves"),
    Way(r"make setup\b", Where.NOWHERE, "CI begins with it"),
    Way(r"make generate\b", Where.NOWHERE, "tests/test_generated.py compares what it writes"),
    Way(r"\. \.venv/bin/activate\b", Where.HERE),
    Way(rf"{START}lockstep (plan|rules|files(?!.* --diff))\b", Where.HERE),
    Way(rf"{START}lockstep demo\b", Where.HERE),
    Way(rf"{START}lockstep explain [a-z]+\.[a-z_.]+( +#|$)", Where.HERE),
    Way(rf"{START}pyinfra inventories/prod\.py debug-inventory\b", Where.HERE),
    Way(
        rf"{START}lockstep (check|diff|compare|repair)\b{LAB_INVENTORY}",
        Where.LAB,
        "",
        FOUND_OR_NOT,
    ),
    Way(rf"{START}(lockstep|pyinfra)\b{LAB_INVENTORY}", Where.LAB),
    Way(rf"{START}python -m lab (status|run|ssh|gpu)\b", Where.LAB),
    Way(
        rf"{START}(lockstep|pyinfra)\b.*\binventories/prod\.py\b",
        Where.NOWHERE,
        "the machines of inventories/prod.py do not exist",
    ),
    Way(rf"{START}python -m benchmarks\b", Where.NOWHERE, "it measures for many minutes"),
)
"""The first pattern that matches the beginning of a command decides."""


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    page: str
    line: int
    text: str
    not_run: str | None = None
    """The reason in the comment before its block; None where there is no comment."""

    @override
    def __str__(self) -> str:
        """Return its place and text."""
        return f"{self.page}:{self.line}: {self.text}"

    @property
    def way(self) -> Way | None:
        """How it is tried; None where nothing says so."""
        known = next((way for way in COMMANDS if re.match(way.pattern, self.text)), None)
        if self.not_run is None or (known and self.not_run.startswith(NEEDS_LAB)):
            return known
        return Way("", Where.NOWHERE, self.not_run) if self.not_run else None


def pages() -> list[Path]:
    """Return the pages whose commands are tried."""
    return [
        *(page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"),
        *sorted((ROOT / "docs").glob("*.md")),
    ]


def commands() -> list[Command]:
    """Return the commands of all pages."""
    return [
        command
        for page in pages()
        for command in read(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))
    ]


def read(text: str, page: str) -> Iterator[Command]:
    """Yield the commands of one page."""
    language: str | None = None
    comment: str | None = None
    block: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is None and fence:
            language, block = fence[1], []
        elif fence and not fence[1]:
            if language in LANGUAGES:
                yield from _commands(block, language, page, comment)
            language = comment = None
        elif language is not None:
            block.append((number, line.strip()))
        elif line.strip():
            match = NOT_RUN.match(line.strip())
            comment = match[1] if match else None


def _commands(
    block: list[tuple[int, str]], language: str | None, page: str, comment: str | None
) -> Iterator[Command]:
    if language != "console":
        script = "\n".join(line for _, line in block)
        if script.strip():
            yield Command(page, block[0][0], script, comment)
        return
    begun, text, open_ = 0, "", False
    for number, line in block:
        if open_:
            text += f" {line.removeprefix('> ')}"
        elif line.startswith(("$ ", "# ")):
            begun, text = number, line[2:].strip()
        else:
            continue
        # A backslash or a prompt of "> " on the next line continues the command.
        text, open_ = text.removesuffix("\\").rstrip(), text.endswith("\\")
        following = dict(block).get(number + 1, "")
        open_ = open_ or following.startswith("> ")
        if not open_:
            yield Command(page, begun, text, comment)

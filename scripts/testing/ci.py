"""What CI runs: everything of ``make test``, then one part of the slower suites in turn.

All of them together take longer than CI has. The number of commits decides which part it is, so
that any four commits in a row run all of them; LOCKSTEP_CI_SUITES overrides it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.testing.outcome import closing_line
from scripts.testing.processes import ROOT
from scripts.testing.run import Stage, run
from scripts.testing.suites import COVERED, KERNEL, LAB, SLOW, SLOW_PARTS

MAKE_TEST: Stage = (None, COVERED, LAB)
"""As `make test`, with the coverage of the unit tests: it doubles the CPU time that they take."""
VARIABLE = "LOCKSTEP_CI_SUITES"
LIMIT_S = 72 * 60
"""A suite that is still running then is stopped, and counts as an error: CI allows 75 minutes."""
TURNS = {**SLOW_PARTS, "kernel": KERNEL}
"""What takes turns: parts of some ten minutes, and half an hour; more on a busy machine."""
WHOLE = {"slow": tuple(SLOW_PARTS), "all": tuple(TURNS), "none": ()}
"""Choices of several parts, or of none."""
ALLOWED = (*TURNS, *WHOLE)
FIXED = "slow-deploys"
"""Runs where commits cannot be counted."""


class UnknownChoice(ValueError):
    """The variable has a value that is no choice."""


@dataclass(frozen=True)
class Choice:
    """The slower suites that run, and why these."""

    suites: tuple[str, ...]
    why: str

    @property
    def left_out(self) -> tuple[str, ...]:
        """The slower suites that do not run."""
        return tuple(name for name in TURNS if name not in self.suites)


def choose(wanted: str, commits: int | None) -> Choice:
    """Choose the slower suites.

    Args:
        wanted: value of LOCKSTEP_CI_SUITES; "" where it is not set.
        commits: how many commits lead to the one that is tested; None where that is not known.

    Raises:
        UnknownChoice: the variable names no choice.
    """
    if wanted:
        if wanted not in ALLOWED:
            raise UnknownChoice(
                f"{VARIABLE}={wanted}: no such choice\n  allowed  {', '.join(ALLOWED)}"
            )
        suites = WHOLE.get(wanted, (wanted,))
        return Choice(suites, f"{VARIABLE}={wanted}")
    if commits is None:
        return Choice((FIXED,), "the commits cannot be counted here (no or a shallow clone)")
    name = tuple(TURNS)[commits % len(TURNS)]
    return Choice((name,), f"the turn of commit number {commits}")


def commits(root: Path = ROOT) -> int | None:
    """Return the number of commits up to this one; None where git cannot count them."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        if git("rev-parse", "--is-shallow-repository") != "false":
            return None
        return int(git("rev-list", "--count", "HEAD"))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def _stages(names: tuple[str, ...]) -> tuple[Stage, ...]:
    """Return the stages of the chosen parts; the slow suite as a whole shares one lab."""
    if set(SLOW_PARTS) <= set(names):
        return ((SLOW,), *((TURNS[name],) for name in names if name not in SLOW_PARTS))
    return tuple((TURNS[name],) for name in names)


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Run what is chosen; say in the end what ran and what did not."""
    try:
        choice = choose(environment.get(VARIABLE, ""), commits())
    except UnknownChoice as wrong:
        print(f"ERROR {wrong}", file=sys.stderr)
        return 3
    chosen = f"make test, then {', '.join(choice.suites) or 'no slower suite'} ({choice.why})"
    print(f"CI runs {chosen}", flush=True)
    began = time.monotonic()
    stages = (MAKE_TEST, *_stages(choice.suites))
    # Somebody who asks for several parts has the time for it.
    deadline = None if len(choice.suites) > 1 else began + LIMIT_S
    try:
        outcome = run(stages, deadline)
    except KeyboardInterrupt:
        return 130
    print(f"RAN      {', '.join(('make test', *choice.suites))}")
    for name in choice.left_out:
        print(f"NOT RUN  {name}: {choice.why}; {VARIABLE}={name} or all runs it")
    print(closing_line(outcome, time.monotonic() - began), flush=True)
    return 0 if outcome.succeeded else 1


if __name__ == "__main__":
    raise SystemExit(main())

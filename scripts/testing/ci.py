"""What CI runs: ``make test``, ``make test-integration``, then one part of the slower suites.

CI has no time for all parts. The number of commits decides which part runs, so that as
many commits in a row as there are parts run all of them; LOCKSTEP_CI_SUITES overrides this choice.
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
from scripts.testing.run import WHOLE_RUNS, Stage, run
from scripts.testing.suites import (
    COVERED,
    KERNEL_PARTS,
    LAB,
    SLOW,
    SLOW_PARTS,
)

MAKE_TEST: Stage = (None, COVERED, LAB)
"""Like ``make test``, but with coverage of the unit tests, which doubles their CPU time."""
ALWAYS = ("make test", *(suite.name for suite in WHOLE_RUNS if suite))
VARIABLE = "LOCKSTEP_CI_SUITES"
LIMIT_S = 72 * 60
"""A suite that is still running then is stopped and counts as an error. CI allows 75 minutes."""
TURNS = {**SLOW_PARTS, **KERNEL_PARTS}
"""Parts that take turns: about ten minutes each, kernel half an hour; longer on a busy host."""
WHOLE = {"slow": tuple(SLOW_PARTS), "all": tuple(TURNS), "none": ()}
"""Choices that stand for several parts or for none."""
ALLOWED = (*TURNS, *WHOLE)
FIXED = "slow-deploys"
"""The part that runs if the commits cannot be counted."""


class UnknownChoice(ValueError):
    """LOCKSTEP_CI_SUITES has an unknown value."""


@dataclass(frozen=True)
class Choice:
    """The slower suites that run, and the reason for the choice."""

    suites: tuple[str, ...]
    why: str

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the slower suites that do not run."""
        return tuple(name for name in TURNS if name not in self.suites)


def choose(wanted: str, commits: int | None) -> Choice:
    """Choose the slower suites.

    Args:
        wanted: value of LOCKSTEP_CI_SUITES; "" if it is not set.
        commits: number of commits up to the tested one; None if it is not known.

    Raises:
        UnknownChoice: the value is unknown.
    """
    if wanted:
        if wanted not in ALLOWED:
            raise UnknownChoice(
                f"{VARIABLE}={wanted}: no such choice\n  allowed  {', '.join(ALLOWED)}"
            )
        suites = WHOLE.get(wanted, (wanted,))
        return Choice(suites, f"{VARIABLE}={wanted}")
    if commits is None:
        return Choice((FIXED,), "the commits cannot be counted here (no clone, or a shallow one)")
    name = tuple(TURNS)[commits % len(TURNS)]
    return Choice((name,), f"its turn at commit number {commits}")


def commits(root: Path = ROOT) -> int | None:
    """Return the number of commits up to this one; None if git cannot count them."""

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
    """Run the chosen suites; at the end, print what ran and what did not."""
    try:
        choice = choose(environment.get(VARIABLE, ""), commits())
    except UnknownChoice as wrong:
        print(f"ERROR {wrong}", file=sys.stderr)
        return 3
    chosen = f"{', '.join(ALWAYS)}, then {', '.join(choice.suites) or 'no slower suite'} "
    chosen += f"({choice.why})"
    print(f"CI runs {chosen}", flush=True)
    began = time.monotonic()
    stages = (MAKE_TEST, WHOLE_RUNS, *_stages(choice.suites))
    # Several parts are a choice of the caller, who accepts the time that they take.
    deadline = None if len(choice.suites) > 1 else began + LIMIT_S
    try:
        outcome = run(stages, deadline)
    except KeyboardInterrupt:
        return 130
    print(f"RAN      {', '.join((*ALWAYS, *choice.suites))}")
    for name in choice.left_out:
        print(f"NOT RUN  {name}: {choice.why}; {VARIABLE}={name} or all runs it")
    print(closing_line(outcome, time.monotonic() - began), flush=True)
    return 0 if outcome.succeeded else 1


if __name__ == "__main__":
    raise SystemExit(main())

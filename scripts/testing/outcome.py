"""Results of test runs: reads and adds up the closing lines of pytest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

CLOSING = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in \d+\.\d+s\b")
WORDS = {"passed": "passed", "failed": "failed", "skipped": "skipped", "error": "errors"}
WORDS["errors"] = "errors"


@dataclass(frozen=True)
class Outcome:
    """Numbers of tests by result; another step that fails, such as lint, counts as an error."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        """Return the sum of both."""
        return Outcome(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.errors + other.errors,
        )

    @property
    def succeeded(self) -> bool:
        """Whether nothing failed."""
        return not self.failed and not self.errors


def read(lines: Iterable[str], status: int) -> Outcome:
    """Return the outcome of a pytest run from what it printed and its exit status.

    A run that fails without a failed test (it was stopped, collected nothing, or coverage is below
    its floor) counts as one error.
    """
    outcome = Outcome()
    for line in lines:
        if match := CLOSING.match(line):
            counts = dict.fromkeys(WORDS.values(), 0)
            for number, word in re.findall(r"(\d+) ([a-z]+)", match[1]):
                if word in WORDS:
                    counts[WORDS[word]] = int(number)
            outcome = Outcome(**counts)
    if status != 0 and outcome.succeeded:
        outcome += Outcome(errors=1)
    return outcome


def closing_line(outcome: Outcome, seconds: float) -> str:
    """Return the last line of a run, in the format of pytest's last line."""
    errors = f", {outcome.errors} error{'s' * (outcome.errors > 1)}" if outcome.errors else ""
    hours, rest = divmod(int(seconds), 3600)
    minutes = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped{errors}"
    return f"===== {counts} in {seconds:.2f}s ({minutes}) ====="

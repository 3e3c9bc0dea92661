"""Settings below /sys and /proc of the running kernel."""

from __future__ import annotations

from lockstep.facts.reading import Question, Taken


def kernel_files(patterns: tuple[str, ...]) -> Question[dict[str, str]]:
    """Ask for the first line of every file that the patterns cover, by its path."""

    def answer(taken: Taken) -> dict[str, str]:
        return {
            path: line
            for pattern in patterns
            for path, line in taken.item("kernel.files", pattern).items()
            # A CPU that is off keeps its files and answers none of them: cpu.count names it.
            if isinstance(line, str) and line
        }

    return Question("kernel files", ("kernel.files",), answer, {"kernel_files": patterns})

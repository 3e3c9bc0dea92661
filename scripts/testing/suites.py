"""The suites of tests, by what they need and how long they take."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """A part of the tests that runs as one pytest process."""

    name: str
    marks: str
    """The expression for ``pytest -m``."""
    folder: str
    files: tuple[str, ...] = ()
    """Files of the folder; none: all."""
    kernel: str = ""
    """Kernels of the machines that it boots, for ``lab setup --kernel``; "" when it boots none."""
    parallel: bool = False
    covered: bool = False
    """Coverage of the library is measured, and must not fall below its floor in pyproject.toml."""

    def command(self) -> list[str]:
        """Return the pytest command."""
        words = [".venv/bin/pytest", "-rs", "-m", self.marks]
        if self.parallel:
            # A file stays in one process: its tests share what is costly to make.
            words += ["-n", str(len(os.sched_getaffinity(0))), "--dist", "loadfile"]
            # By default files with few tests come last, and some of those take the longest.
            words += ["--no-loadscope-reorder"]
        if self.covered:
            words += ["--cov", "--cov-report="]
        files = [f"{self.folder}/{name}.py" for name in self.files]
        return [*words, *(files or [self.folder])]


LINT = (("make", "--no-print-directory", "lint"),)

UNIT = Suite("unit", "not lab and not slow and not kernel", "tests", parallel=True)
COVERED = Suite("unit", UNIT.marks, UNIT.folder, parallel=True, covered=True)
LAB = Suite("lab", "lab and not slow and not kernel", "tests/lab", kernel="shared")
SLOW = Suite("slow", "slow", "tests/lab", kernel="shared")
SLOW_PARTS = {
    name: Suite(name, SLOW.marks, SLOW.folder, files=files, kernel=SLOW.kernel)
    for name, files in {
        "slow-deploys": ("test_cluster",),
        "slow-nodes": (
            *("test_containers", "test_job_containers"),
            *("test_node_check", "test_nvidia"),
        ),
        "slow-systems": (
            *("test_debian_12", "test_dkms", "test_incidents", "test_repair"),
            *("test_killed", "test_through_clush", "test_through_slurm"),
        ),
    }.items()
}
"""The slow suite in parts of some ten minutes each."""
KERNEL = Suite("kernel", "kernel", "tests/lab", kernel="own")

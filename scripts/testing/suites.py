"""The test suites, by what they need and how long they take."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

HANGS_AFTER_S = 330
"""Time after which the process of a test is killed that pytest-timeout (300 s) could not end.
pytest-timeout raises an exception in the main thread, which has no effect while that thread waits
in C code or in gevent's hub. pytest-xdist counts the test as failed and ends the suite: with
``--max-worker-restart 1``, pytest-xdist 3.8.0 can wait forever after it has replaced a process that
ran several files (pytest-xdist issues 1327 and 1378)."""


@dataclass(frozen=True)
class Suite:
    """A part of the tests that runs as one pytest process."""

    name: str
    marks: str
    """The expression for ``pytest -m``."""
    folder: str
    files: tuple[str, ...] = ()
    """Names of files in the folder; empty: all files."""
    kernel: str = ""
    """Kernel of the machines that it boots, for ``lab setup --kernel``; "" if it boots none."""
    processes: int = 0
    """Processes of pytest-xdist; 0: pytest runs the tests itself."""
    covered: bool = False
    """Whether coverage is measured; it must not fall below the minimum in pyproject.toml."""

    def command(self) -> list[str]:
        """Return the pytest command."""
        words = [".venv/bin/pytest", "-rs", "-m", self.marks]
        if self.processes:
            # A file stays in one process, because its tests share fixtures that are slow to create.
            words += ["-n", str(self.processes), "--dist", "loadfile"]
            # By default, files with few tests run last, and some of them take the longest.
            words += ["--no-loadscope-reorder"]
            words += ["-o", f"faulthandler_timeout={HANGS_AFTER_S}"]
            words += ["-o", "faulthandler_exit_on_timeout=true", "--max-worker-restart", "0"]
        if self.covered:
            words += ["--cov", "--cov-report="]
        files = [f"{self.folder}/{name}.py" for name in self.files]
        if self.is_mark:
            # The others would take each process 20 s to import, compared with a second for these.
            mark = re.compile(rf"\bmark\.{self.marks}\b")
            found = Path(self.folder).rglob("test_*.py")
            files = sorted(str(one) for one in found if mark.search(one.read_text("utf-8")))
        return [*words, *(files or [self.folder])]

    @property
    def is_mark(self) -> bool:
        """Whether it is all tests with one mark, of which few files have any."""
        return self.marks.isidentifier() and self.folder == "tests"


LINT = (("make", "--no-print-directory", "lint"),)

UNIT = Suite(
    "unit",
    "not integration and not nested and not lab and not slow and not kernel",
    "tests",
    processes=len(os.sched_getaffinity(0)) + 1,  # some of its tests wait
)
COVERED = replace(UNIT, covered=True)
INTEGRATION = Suite("integration", "integration", "tests", processes=1)
"""Its tests mostly wait, and some fail if the machine is too busy: they have one process."""
NESTED = Suite("nested", "nested", "tests", processes=2)
"""Its tests run much of the project within a test."""
LAB = Suite("lab", "lab and not slow and not kernel", "tests/lab", kernel="shared")
SLOW = Suite("slow", "slow", "tests/lab", kernel="shared")
SLOW_PARTS = {
    name: Suite(name, SLOW.marks, SLOW.folder, files=files, kernel=SLOW.kernel)
    for name, files in {
        "slow-deploys": ("test_cluster", "test_gpu_matrix"),
        "slow-nodes": (
            *("test_containers", "test_job_containers"),
            *("test_gpus", "test_node_check", "test_nvidia"),
        ),
        "slow-systems": (
            *("test_debian_12", "test_dkms", "test_dkms_signing", "test_dnf"),
            "test_firewall",
        ),
        "slow-repair": (
            *("test_adopt", "test_incidents", "test_killed", "test_repair"),
            *("test_through_clush", "test_through_slurm"),
        ),
        "slow-sites": (
            *("test_description", "test_half_broken", "test_new_role", "test_removal"),
            "test_site",
        ),
        "slow-canary": ("test_canary", "test_reboot", "test_workers_alone"),
        "slow-changes": ("test_accept", "test_all_changes"),
        "slow-silence": ("test_silence", "test_speed"),
        "slow-pods": ("test_kubernetes", "test_kubernetes_gpus"),
        "slow-pods-beside": ("test_kubernetes_beside_slurm",),
        "slow-pods-drifts": ("test_kubernetes_drifts", "test_kubernetes_objects"),
        "slow-pods-heads": ("test_kubernetes_heads",),
        "slow-pods-networks": ("test_kubernetes_ipv4", "test_kubernetes_site_network"),
        "slow-pods-killed": ("test_kubernetes_killed",),
        "slow-pods-upgrade": ("test_kubernetes_upgrade",),
    }.items()
}
"""The slow suite in parts of about ten minutes each."""
KERNEL = Suite("kernel", "kernel", "tests/lab", kernel="own")
KERNEL_PARTS = {
    name: replace(KERNEL, name=name, files=files)
    for name, files in {
        "kernel": ("test_kernel", "test_kernel_machines"),
        "kernel-pods": ("test_kernel_kubernetes",),
    }.items()
}

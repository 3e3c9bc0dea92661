"""Settings of the running kernel, and CPUs of services, with a folder in place of the kernel."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.plan.running import KernelFile
from lockstep.roles.operations import cpu_sets
from lockstep.roles.operations.kernel import running_kernel_files
from tests.roles.local import on_node, run


def test_what_differs_is_written_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    for policy, governor in (("policy0", "powersave"), ("policy1", "performance")):
        (tmp_path / policy).mkdir()
        (tmp_path / policy / "scaling_governor").write_text(f"{governor}\n")
    files = (KernelFile(f"{tmp_path}/policy*/scaling_governor", "performance", "word"),)
    first = run(running_kernel_files, files=files)
    assert (first.succeeded, first.commands) == (True, 1)
    assert (tmp_path / "policy0" / "scaling_governor").read_text() == "performance\n"
    assert run(running_kernel_files, files=files).commands == 0


def test_the_form_in_which_the_kernel_shows_it_counts(tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    (tmp_path / "cpumask").write_text("00000000,00000005\n")
    right = (
        KernelFile(f"{tmp_path}/enabled", "madvise", "choice"),
        KernelFile(f"{tmp_path}/cpumask", "5", "mask"),
    )
    assert run(running_kernel_files, files=right).commands == 0
    other = (KernelFile(f"{tmp_path}/enabled", "never", "choice"),)
    assert run(running_kernel_files, files=other).commands == 1


def test_a_setting_this_kernel_lacks_is_left_to_the_check(tmp_path: Path) -> None:
    files = (KernelFile(f"{tmp_path}/none/scaling_governor", "performance", "word"),)
    assert run(running_kernel_files, files=files).commands == 0


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A process in a service whose slice has a backslash in its name, as systemd's have."""
    group = tmp_path / "system.slice/system-a\\x2db.slice" / "daemon.service"
    group.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        (group / "cgroup.procs").write_text(f"{process.pid}\n")
        on_node(monkeypatch, '"/sys/fs/cgroup/unified"', f'"{tmp_path}"')
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_daemon_on_other_cpus_is_brought_back_and_stays(daemon: int) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(daemon, others)
    assert run(cpu_sets.confined, housekeeping=str(first), beyond=()).commands == 1
    assert os.sched_getaffinity(daemon) == {first}
    assert run(cpu_sets.confined, housekeeping=str(first), beyond=()).commands == 0


def test_slurmd_may_reach_every_cpu(
    daemon: int,
) -> None:
    beyond = ("daemon.service",)
    assert run(cpu_sets.confined, housekeeping="99", beyond=beyond).commands == 0

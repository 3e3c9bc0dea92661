"""Operations of the role kernel."""

from __future__ import annotations

from fnmatch import fnmatchcase

from lockstep.facts.settings import kernel_files
from lockstep.plan import NodePlan
from lockstep.plan.running import KernelFile
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("the running kernel has the planned settings")
def running_kernel_files(files: tuple[KernelFile, ...]) -> Commands:
    """Write each setting whose value in the running kernel is not the planned one.

    Args:
        files: the planned settings. If a file does not exist (a kernel without cpufreq), the deploy
            does not fail; the check reports the setting.
    """
    shown = ask(kernel_files(tuple(file.path for file in files))) if files else {}
    for file in files:
        for path in (path for path in shown if fnmatchcase(path, file.path)):
            if file.read(shown[path]) != file.value:
                yield f"echo {file.value} > {path}"


def afterwards(plan: NodePlan) -> None:
    """Apply the kernel settings now; systemd-tmpfiles applies them at each boot."""
    running_kernel_files(name="Running kernel", files=plan.hardware.kernel_files)

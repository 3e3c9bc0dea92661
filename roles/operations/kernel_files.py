"""The operation that brings the running kernel to the settings that tmpfiles.d holds for boot."""

from __future__ import annotations

from collections.abc import Generator
from fnmatch import fnmatchcase

from pyinfra import host

from lockstep.facts.kernel_files import kernel_files
from lockstep.facts.reading import ask
from lockstep.plan.running import KernelFile
from lockstep.roles.operations.operation import operation


@operation()
def running_kernel_files(files: tuple[KernelFile, ...]) -> Generator[str, None, None]:
    """Write each setting that the kernel does not have; one it lacks altogether is left alone.

    Args:
        files: settings of the plan. A file that is not there (no cpufreq in this kernel) is no
            failure of the deploy: the check names it.
    """
    shown = ask(host, kernel_files(tuple(file.path for file in files))) if files else {}
    right = True
    for file in files:
        for path in (path for path in shown if fnmatchcase(path, file.path)):
            if file.read(shown[path]) != file.value:
                right = False
                yield f"echo {file.value} > {path}"
    if right:
        host.noop("the kernel has these settings")

"""Operations of the role enroot."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host

from lockstep.facts.job_containers import FoldersForAll
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import ENROOT_TMPFILES
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation


@operation()
def folders_for_all(folders: tuple[str, ...]) -> Generator[str, None, None]:
    """Make the folders that tmpfiles.d makes at boot, where they are not as it makes them."""
    if host.get_fact(FoldersForAll, folders=folders) == set(folders):
        host.noop("the folders are there")
    else:
        yield f"systemd-tmpfiles --create {ENROOT_TMPFILES}"


def apply(plan: NodePlan) -> None:
    """Configure it."""
    put_files(plan, "enroot")
    folders_for_all(name="Folders", folders=tuple(plan.job_containers.folders.values()))

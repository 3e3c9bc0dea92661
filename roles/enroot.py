"""enroot: containers without root and without a daemon, with folders of each user alone.

Owns     one drop-in of enroot.conf, the folders that it names, the programs that it calls.
Restart  nothing: enroot reads them at each call.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.job_containers import FoldersForAll
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import ENROOT_TMPFILES
from roles._files import managed_files
from roles._role import role


@operation()
def folders_for_all(folders: tuple[str, ...]) -> Generator[str, None, None]:
    """Make the folders that tmpfiles.d makes at boot, where they are not as it makes them."""
    if host.get_fact(FoldersForAll, folders=folders) == set(folders):
        host.noop("the folders are there")
    else:
        yield f"systemd-tmpfiles --create {ENROOT_TMPFILES}"


@role("enroot")
def apply(plan: NodePlan) -> None:
    """Configure it."""
    if "enroot" not in plan.capabilities:
        return
    managed_files(name="Files", files=managed(plan, None, "enroot"))
    folders_for_all(name="Folders", folders=tuple(plan.job_containers.folders.values()))

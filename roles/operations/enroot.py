"""Operations of the role enroot."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.job_containers import FoldersForAll
from lockstep.plan.job_containers import ENROOT_TMPFILES


@operation()
def folders_for_all(folders: tuple[str, ...]) -> Generator[str, None, None]:
    """Make the folders that tmpfiles.d makes at boot, where they are not as it makes them."""
    if host.get_fact(FoldersForAll, folders=folders) == set(folders):
        host.noop("the folders are there")
    else:
        yield f"systemd-tmpfiles --create {ENROOT_TMPFILES}"

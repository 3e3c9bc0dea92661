"""Operations of the role enroot."""

from __future__ import annotations

from lockstep.facts.containers import folders_open_to_all
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import ENROOT_TMPFILES
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("the folders exist and are writable by all users")
def folders_for_all(folders: tuple[str, ...]) -> Commands:
    """Run systemd-tmpfiles if one of enroot's folders is missing or not writable by all users."""
    if ask(folders_open_to_all(folders)) != set(folders):
        yield f"systemd-tmpfiles --create {ENROOT_TMPFILES}"


def afterwards(plan: NodePlan) -> None:
    """Create enroot's folders now; systemd-tmpfiles creates them again at each boot."""
    folders_for_all(name="Folders", folders=tuple(plan.job_containers.folders.values()))

"""What roles do whose daemon has files of ours and nothing else: exporters, NVIDIA's daemons."""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service


def daemon(plan: NodePlan, role: str, unit: str, program: str, *, restart: bool = True) -> None:
    """Put a role's files in place and keep its unit running on them; nothing on other nodes.

    Args:
        plan: of the node.
        role: name of the capability, and owner of the files.
        unit: the unit's canonical name.
        program: path of what the unit runs; a new one is a restart.
        restart: False where a restart would end the programs of jobs: it is started when it is
            down, and what is new counts from its next start on.
    """
    if role not in plan.capabilities:
        return
    files = managed(plan, None, role)
    managed_files(name="Files", files=files)
    read = (*(file.path for file in files), program) if restart else ()
    service(name="Service", unit=unit, files=read)

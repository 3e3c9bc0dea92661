"""What NCCL, UCX and Open MPI are told of the fabric: which family, interfaces and devices.

Owns     the files listed for fabric in lockstep/files/fabric.py. docs/fabric.md has the sources.
Restart  nothing: a job reads them when it starts.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files


@role("Fabric")
def apply(plan: NodePlan) -> None:
    """Write the files; the libraries themselves need not be there."""
    managed_files(name="Files", files=managed(plan, None, "fabric"))

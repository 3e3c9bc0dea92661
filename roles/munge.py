"""One munge key on all nodes: made once on the deploying side, spread without being shown.

Owns     /etc/munge/munge.key and munge.service.
Secret   the key travels on standard input only; what is compared is its hash.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.secrets import secrets_of
from lockstep.roles.operations.service import service


@role("Munge")
def apply(plan: NodePlan) -> None:
    """Install the key and run munged on it."""
    if "munge" not in plan.capabilities:
        return
    secrets = secrets_of(plan)
    if secrets is None:
        return
    files = managed(plan, secrets, "munge")
    managed_files(name="Key", files=files)
    service(
        name="munged",
        unit="munge.service",
        files=(*(f.path for f in files), "/usr/sbin/munged"),
    )

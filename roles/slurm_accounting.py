"""Slurm's accounting: MariaDB and slurmdbd on one head, with a generated password.

Owns     MariaDB's drop-in, the database account of slurmdbd, slurmdbd.conf, both units.
Secret   the password stands in slurmdbd.conf (0600, slurm) and in MariaDB's own hash only.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.secrets import secrets_of
from lockstep.roles.operations.service import service
from lockstep.roles.operations.slurm_accounting import database
from lockstep.spec import Service

MARIADB_CNF = "/etc/mysql/mariadb.conf.d/90-lockstep.cnf"

SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"


@role("Slurm accounting")
def apply(plan: NodePlan) -> None:
    """Run the database, then slurmdbd on it, on the node that the plan names."""
    if not plan.runs(Service.SLURM_ACCOUNTING):
        return
    secrets = secrets_of(plan)
    if secrets is None:
        return
    files = managed(plan, secrets, "slurm_accounting")
    managed_files(name="Files", files=files)
    service(name="MariaDB", unit="mariadb.service", files=(MARIADB_CNF, "/usr/sbin/mariadbd"))
    database(name="Database account", secrets=secrets)
    service(name="slurmdbd", unit="slurmdbd.service", files=(SLURMDBD_CONF, "/usr/sbin/slurmdbd"))

"""Slurm's accounting: MariaDB and slurmdbd on one head, with a generated password.

Owns     MariaDB's drop-in, the database account of slurmdbd, slurmdbd.conf, both units.
Secret   the password stands in slurmdbd.conf (0600, slurm) and in MariaDB's own hash only.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand, operation

from lockstep.facts.slurm import DatabaseLogin
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.secrets import Secrets
from lockstep.spec import Service
from roles._files import managed_files
from roles._role import role
from roles._secrets import secrets_of
from roles._service import service

MARIADB_CNF = "/etc/mysql/mariadb.conf.d/90-lockstep.cnf"
SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"


@operation()
def database(secrets: Secrets) -> Generator[StringCommand, None, None]:
    """Create slurmdbd's database and account, or give the account its password again.

    Existing accounting data is never touched.
    """
    if host.get_fact(DatabaseLogin):
        host.noop("slurmdbd's account opens its database")
        return
    # The password is URL-safe base64: nothing in it needs quoting in SQL.
    statements = (
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n"
        "CREATE USER IF NOT EXISTS 'slurm'@'localhost';\n"
        f"ALTER USER 'slurm'@'localhost' IDENTIFIED BY '{secrets.database_password}';\n"
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';\n"
    )
    yield StringCommand("mariadb --batch >/dev/null", _stdin=statements)


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

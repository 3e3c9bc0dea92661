"""Operations of the role slurm_accounting."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.slurm import DatabaseLogin
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.secrets import secrets_of
from lockstep.secrets import Secrets


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


def apply(plan: NodePlan) -> None:
    """Run the database, then slurmdbd on it."""
    if not put_files(plan, "slurm_accounting"):
        return
    secrets = secrets_of(plan)
    assert secrets is not None  # they were there for the files
    keep_units(plan, "slurm_accounting", "mariadb.service")
    database(name="Database account", secrets=secrets)
    keep_units(plan, "slurm_accounting", "slurmdbd.service")

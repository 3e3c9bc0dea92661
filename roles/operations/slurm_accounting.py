"""Operations of the role slurm_accounting."""

from __future__ import annotations

from pyinfra.api import StringCommand

from lockstep.facts.slurm import database_login
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import keep_units, put_files, secrets_of
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.secrets import Secrets


@operation("slurmdbd's account can open its database")
def database(secrets: Secrets) -> Commands:
    """Create slurmdbd's database and account, or set the account's password again.

    Existing accounting data is never touched.
    """
    if ask(database_login()):
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
    """Configure and start MariaDB, then slurmdbd, which needs the database."""
    if not put_files(plan, "slurm_accounting"):
        return
    secrets = secrets_of(plan)
    assert secrets is not None  # put_files has already obtained them
    keep_units(plan, "slurm_accounting", "mariadb.service")
    database(name="Database account", secrets=secrets)
    keep_units(plan, "slurm_accounting", "slurmdbd.service")

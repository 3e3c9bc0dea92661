"""Slurm accounting: MariaDB and slurmdbd on one head, with a generated password.

Owns     MariaDB's drop-in, slurmdbd's database account, slurmdbd.conf, and both units.
Secret   on the node, only slurmdbd.conf (0600, slurm) contains the password; MariaDB has its hash.
"""

from __future__ import annotations

from lockstep.facts.slurm import database_login
from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.site_lines import of_slurm
from lockstep.spec import Service

MARIADB_CNF = "/etc/mysql/mariadb.conf.d/90-lockstep.cnf"
MARIADBD = "/usr/sbin/mariadbd"
SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"
SLURMDBD_PORT = 6819
"""slurmdbd.conf(5), DbdPort."""

ROLE = Declaration(
    name="slurm_accounting",
    title="Slurm accounting",
    when=lambda plan: plan.runs(Service.SLURM_ACCOUNTING),
    after=("munge", "pyxis"),
    packages={
        "debian": ("mariadb-server", "slurmdbd"),
        "rhel": ("mariadb-server", "slurm-slurmdbd"),
    },
    files=(
        File(
            path=MARIADB_CNF,
            template="slurm_accounting/mariadb.cnf.j2",
            validate=(
                f"{MARIADBD} --defaults-file={{new}} --user=mysql --help --verbose >/dev/null"
            ),
        ),
        File(
            path=SLURMDBD_CONF,
            template="slurm_accounting/slurmdbd.conf.j2",
            mode="600",
            owner="slurm:slurm",
            secret=True,
            keys=of_slurm,
        ),
    ),
    units=(
        Unit(
            name="mariadb.service",
            program=MARIADBD,
            reads=lambda plan: (MARIADB_CNF,),
            reads_own_files=False,
        ),
        Unit(
            name="slurmdbd.service",
            program="/usr/sbin/slurmdbd",
            reads=lambda plan: (SLURMDBD_CONF,),
            reads_own_files=False,
            port=lambda plan: SLURMDBD_PORT,
        ),
    ),
    operations="lockstep.roles.operations.slurm_accounting",
    asks=lambda plan: [database_login()],
    unchecked={
        "database": "slurmdbd fails to start without its account; unit.active reports that",
    },
)

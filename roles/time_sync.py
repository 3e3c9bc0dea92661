"""chrony on every node, and a gate before the roles that need a correct clock.

Gate     munge rejects credentials if clocks differ too much (munged(8): 300 s), so a node whose
         clock is not synchronized fails at the gate, before munge and Slurm. The gate comes as late
         as possible: chronyd's first samples take seconds, during which other roles are applied.
"""

from __future__ import annotations

from lockstep.facts.clock import clock_offset
from lockstep.plan.declaration import SHELL, Declaration, File, Stage, Unit, drop_in
from lockstep.plan.site_lines import of_chrony

NTP_PORT = 123
"""chrony.conf(5), port."""


ROLE = Declaration(
    name="time_sync",
    title="Time sync",
    after=("boot_loader",),
    packages={"": ("chrony",)},
    files=(
        File(
            path="/etc/default/chrony",
            template="time_sync/default.j2",
            validate=SHELL,
        ),
        File(
            path="/etc/chrony/chrony.conf",
            template="time_sync/chrony.conf.j2",
            own=True,
            validate="chronyd -p -f {new} >/dev/null",
            keys=of_chrony,
        ),
        File(
            path="/etc/systemd/system/chrony.service.d/50-lockstep.conf",
            template="time_sync/unit.conf.j2",
            validate=drop_in("chrony.service"),
            wanted=lambda plan: plan.hardware.hardware.clock == "host",
        ),
    ),
    units=(
        Unit(
            name="chrony.service",
            program="/usr/sbin/chronyd",
            port=lambda plan: NTP_PORT if plan.time.allow else None,
            protocol="udp",
        ),
    ),
    operations="lockstep.roles.operations.time_sync",
    stages=(Stage(function="gate", late=True, asks=lambda plan: [clock_offset()]),),
)

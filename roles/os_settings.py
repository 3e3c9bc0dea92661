"""Host name, hosts file, address preference, sysctl, limits, locale, time zone, upgrades.

Owns     the files listed for os_settings in lockstep/files.py, and what runs because of them.
Restart  systemd re-executes itself when its defaults changed; services keep running.
"""

from __future__ import annotations

from lockstep.files import managed, systemd_configuration
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.os_settings import running_settings
from lockstep.roles.operations.service import manager_configuration


@role("OS settings")
def apply(plan: NodePlan) -> None:
    """Write the files, then make them run."""
    files = managed(plan, None, "os_settings")
    managed_files(name="Files", files=files)
    running_settings(
        name="Running settings",
        host_name=plan.name,
        time_zone=plan.spec.os.time_zone,
        locale=plan.spec.os.locale,
        sysctl=plan.sysctl,
        masked=plan.masked_units,
    )
    manager_configuration(name="systemd", files=systemd_configuration(plan))

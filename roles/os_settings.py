"""Host name, hosts file, address preference, sysctl, limits, locale, time zone, automatic upgrades.

Restart  systemd re-executes itself when its defaults change; services keep running.
"""

from __future__ import annotations

from functools import partial

from lockstep.facts.services import MANAGER, not_applied, service_state
from lockstep.facts.settings import settings
from lockstep.plan import NodePlan
from lockstep.plan.declaration import (
    SHELL,
    Contribution,
    Declaration,
    File,
    Unit,
    drop_in,
    rhel,
)
from lockstep.plan.site_lines import of_hosts


def _has_locale_file(plan: NodePlan, path: str) -> bool:
    return plan.release.locale_file == path


def _upgrades(plan: NodePlan) -> bool:
    return plan.spec.os.automatic_upgrades


def _starts(plan: NodePlan, timer: str) -> bool:
    return _upgrades(plan) and timer in plan.release.upgrade_timers


READ_BY_DNF_AUTOMATIC = (
    # dnf-automatic itself would upgrade. It ignores a word that it does not know, so the result is
    # compared (dnf 4.14, automatic/main.py: AutomaticConfig).
    '/usr/bin/python3 -c "import sys; from dnf.automatic.main import AutomaticConfig as Config; '
    "read = Config(sys.argv[1]).commands; "
    "sys.exit(not (read.upgrade_type == 'security' and read.apply_updates))\" {new}"
)
"""Fails unless dnf-automatic reads a file that installs security upgrades, and nothing else."""

ROLE = Declaration(
    name="os_settings",
    title="OS settings",
    # glibc has C.UTF-8 built in; locale-gen generates any other locale.
    more_packages=lambda plan: (
        *(() if plan.spec.os.locale.startswith("C.") else plan.release.locales),
        *(plan.release.upgrade_packages if _upgrades(plan) else ()),
    ),
    files=(
        File(path="/etc/hostname", template="os_settings/hostname.j2", own=True),
        File(path="/etc/hosts", template="os_settings/hosts.j2", keys=of_hosts),
        File(path="/etc/gai.conf", template="os_settings/gai.conf.j2"),
        *(
            File(
                path=path,
                template="os_settings/locale.j2",
                validate=SHELL,
                wanted=partial(_has_locale_file, path=path),
            )
            for path in ("/etc/default/locale", "/etc/locale.conf")
        ),
        File(
            path="/etc/sysctl.d/99-zz-lockstep.conf",
            template="os_settings/sysctl.conf.j2",
            validate="sysctl --dry-run -p {new} >/dev/null",
        ),
        File(
            path="/etc/systemd/system/systemd-sysctl.service.d/50-lockstep.conf",
            template="os_settings/sysctl_unit.conf.j2",
            validate=drop_in("systemd-sysctl.service"),
        ),
        File(path="/etc/security/limits.d/90-lockstep.conf", template="os_settings/limits.conf.j2"),
        File(
            path="/etc/systemd/system.conf.d/90-lockstep.conf",
            template="os_settings/system.conf.j2",
        ),
        File(
            path="/etc/cloud/cloud.cfg.d/90-lockstep.cfg",
            template="os_settings/cloud.cfg.j2",
            wanted=lambda plan: plan.release.id == "ubuntu",
        ),
        File(
            path="/etc/dnf/automatic.conf",
            template="os_settings/dnf_automatic.conf.j2",
            validate=READ_BY_DNF_AUTOMATIC,
            wanted=lambda plan: rhel(plan) and _upgrades(plan),
        ),
    ),
    units=tuple(
        # The programs that the timers start read their configuration themselves.
        Unit(name=timer, reads_own_files=False, wanted=partial(_starts, timer=timer))
        for timer in ("apt-daily.timer", "apt-daily-upgrade.timer", "dnf-automatic.timer")
    ),
    contributes=Contribution(
        sysctl=lambda plan: plan.spec.os.sysctl,
        masked_units=lambda plan: (
            *plan.release.other_upgrade_timers,
            *(() if _upgrades(plan) else plan.release.upgrade_timers),
        ),
    ),
    operations="lockstep.roles.operations.os_settings",
    asks=lambda plan: (
        settings(plan.system.sysctl, plan.system.masked_units),
        service_state(MANAGER, (), plan.system.manager_paths),
        not_applied(),
    ),
)

"""Operations of the role os_settings."""

from __future__ import annotations

import shlex

from lockstep.facts.settings import settings
from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.roles.operations.service import limits_applied, manager_configuration


@operation()
def running_settings(
    host_name: str, time_zone: str, locale: str, sysctl: dict[str, str], masked: tuple[str, ...]
) -> Commands:
    """Change the running system's settings that differ from the plan."""
    state = ask(settings(sysctl, masked))
    steps = []
    if state.host_name != host_name:
        steps.append(f"hostname {shlex.quote(host_name)}")
    if state.time_zone != time_zone:
        zone = shlex.quote(f"/usr/share/zoneinfo/{time_zone}")
        # The link is created under another name first, so that /etc/localtime always exists.
        steps.append(
            f"test -f {zone} && ln -sfn {zone} /etc/localtime.lockstep-new "
            "&& mv -fT /etc/localtime.lockstep-new /etc/localtime"
        )
    if locale.lower().replace("-", "") not in state.locales:
        entry = shlex.quote(f"{locale} {locale.rpartition('.')[2]}")
        steps.append(
            f"{{ grep -qx {entry} /etc/locale.gen || echo {entry} >> /etc/locale.gen; }} "
            "&& locale-gen"
        )
    wrong = [
        shlex.quote(f"{key}={value}")
        for key, value in sysctl.items()
        if state.sysctl.get(key) != " ".join(value.split())
    ]
    if wrong:
        steps.append(f"sysctl -q -w {' '.join(wrong)}")
    unmasked = [unit for unit in masked if unit not in state.masked]
    if unmasked:
        # Units are stopped first, because a unit that is masked while active ends up as failed.
        listed = " ".join(unmasked)
        # A unit that is not installed cannot be stopped, but it can be masked for later.
        steps.append(
            f"for u in {listed}; do "
            'if systemctl is-active --quiet "$u"; then systemctl stop "$u" || exit 1; fi; done '
            f"&& systemctl mask {listed}"
        )
    if steps:
        yield " && ".join(steps)


def afterwards(plan: NodePlan) -> None:
    """Apply the planned settings to the running system; the files set them at boot."""
    running_settings(
        name="Running settings",
        host_name=plan.name,
        time_zone=plan.spec.os.time_zone,
        locale=plan.spec.os.locale,
        sysctl=plan.system.sysctl,
        masked=plan.system.masked_units,
    )
    manager_configuration(name="systemd", files=plan.system.manager_paths)
    limits_applied(name="Limits of running services")

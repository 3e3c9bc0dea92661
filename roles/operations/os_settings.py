"""Operations of the role os_settings."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host

from lockstep.facts.reading import ask
from lockstep.facts.settings import settings
from lockstep.files import systemd_configuration
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.service import manager_configuration


@operation()
def running_settings(
    host_name: str, time_zone: str, locale: str, sysctl: dict[str, str], masked: tuple[str, ...]
) -> Generator[str, None, None]:
    """Bring the running system to what the files say, where it is not there already."""
    state = ask(host, settings(sysctl, masked))
    if state.host_name != host_name:
        yield f"hostname {shlex.quote(host_name)}"
    if state.time_zone != time_zone:
        zone = shlex.quote(f"/usr/share/zoneinfo/{time_zone}")
        # Linked under another name first: there is no moment without a time zone.
        yield (
            f"test -f {zone} && ln -sfn {zone} /etc/localtime.lockstep-new "
            "&& mv -fT /etc/localtime.lockstep-new /etc/localtime"
        )
    if locale.lower().replace("-", "") not in state.locales:
        entry = shlex.quote(f"{locale} {locale.rpartition('.')[2]}")
        yield f"grep -qx {entry} /etc/locale.gen || echo {entry} >> /etc/locale.gen; locale-gen"
    wrong = [
        shlex.quote(f"{key}={value}")
        for key, value in sysctl.items()
        if state.sysctl.get(key) != " ".join(value.split())
    ]
    if wrong:
        yield f"sysctl -q -w {' '.join(wrong)}"
    unmasked = [unit for unit in masked if unit not in state.masked]
    if unmasked:
        # Stopped first: a unit masked while it is active is left in the failed state.
        listed = " ".join(unmasked)
        # A unit that is not installed cannot be stopped, but it can be masked for later.
        yield (
            f"for u in {listed}; do "
            'if systemctl is-active --quiet "$u"; then systemctl stop "$u" || exit 1; fi; done; '
            f"systemctl mask {listed}"
        )


def apply(plan: NodePlan) -> None:
    """Write the files, then bring the running system to them."""
    put_files(plan, "os_settings")
    running_settings(
        name="Running settings",
        host_name=plan.name,
        time_zone=plan.spec.os.time_zone,
        locale=plan.spec.os.locale,
        sysctl=plan.sysctl,
        masked=plan.masked_units,
    )
    manager_configuration(name="systemd", files=systemd_configuration(plan))

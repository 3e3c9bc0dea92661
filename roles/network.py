"""Network interfaces: addresses that outlast a boot, in the files of the program that keeps them.

docs/network.md lists the programs and the sources. Only networks whose ``manager`` is declared.
Restart  nothing. A rail is configured again, alone, if it lacks what the plan has; if it already
         has an address, only while no job step runs, and never if that would configure other
         interfaces. The management interface is never touched: its file is for the next boot.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from lockstep.facts.network import interface_states
from lockstep.facts.services import service_state
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.network import NETWORKD, UNITS, manager_of, not_to_reload, path_of
from lockstep.question import Questions

IFUPDOWN_READS = "ifquery --interfaces={new} --list >/dev/null"
NETPLAN_READS = (
    'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; mkdir -p "$d/etc"; cp -a /etc/netplan "$d/etc/"; '
    'n="$(basename {new} .lockstep-new)"; cp {new} "$d/etc/netplan/$n"; '
    'netplan generate --root-dir "$d"'
)
"""netplan merges all files, so the new one is checked together with the others."""
NETWORK_MANAGER_READS = (
    "nmcli --offline connection modify connection.autoconnect yes < {new} >/dev/null"
)


def _has(plan: NodePlan, manager: str, rails: bool) -> bool:
    return any((one.manager, one.is_rail) == (manager, rails) for one in plan.interfaces)


def _runs(plan: NodePlan, unit: str) -> bool:
    return any(UNITS[one.manager] == unit for one in plan.interfaces)


def _own_files(plan: NodePlan) -> tuple[File, ...]:
    """Return one file for each interface whose program wants that."""
    kept = {
        "networkd": partial(File, template="network/networkd.network.j2", own=True),
        "networkmanager": partial(
            File,
            template="network/profile.nmconnection.j2",
            own=True,
            mode="600",
            validate=NETWORK_MANAGER_READS,
        ),
    }
    return tuple(
        kept[one.manager](path=path_of(one), values={"interface": one.name})
        for one in plan.interfaces
        if one.manager in kept
    )


def _packages(plan: NodePlan) -> tuple[str, ...]:
    offered = plan.release.network_managers
    managers = dict.fromkeys(one.manager for one in plan.interfaces)
    return tuple(name for manager in managers for name in offered.get(manager, ()))


def _asks(plan: NodePlan) -> Questions:
    yield interface_states(plan.interfaces)
    for unit in dict.fromkeys(UNITS[one.manager] for one in plan.interfaces):
        yield service_state(unit)
    for path, unit in {path_of(one): UNITS[one.manager] for one in plan.interfaces}.items():
        yield service_state(unit, (), (path,))
    if _runs(plan, NETWORKD):
        yield service_state(NETWORKD, (), not_to_reload(plan.interfaces))


def _managed(plan: NodePlan) -> Iterator[bool]:
    networks = plan.spec.networks
    yield bool(manager_of(networks.get("management"), plan.release))
    yield bool(plan.node.fabric and manager_of(networks.get("fabric"), plan.release))


ROLE = Declaration(
    name="network",
    title="Network",
    jobs_use=True,
    when=lambda plan: any(_managed(plan)),
    more_packages=_packages,
    files=(
        *(
            File(
                path=f"/etc/network/interfaces.d/50-lockstep{suffix}",
                template="network/interfaces.j2",
                values={"rails": bool(suffix)},
                own=True,
                validate=IFUPDOWN_READS,
                wanted=partial(_has, manager="ifupdown", rails=bool(suffix)),
            )
            for suffix in ("", "-rails")
        ),
        *(
            File(
                path=f"/etc/netplan/90-lockstep{suffix}.yaml",
                template="network/netplan.yaml.j2",
                values={"rails": bool(suffix)},
                own=True,
                mode="600",
                validate=NETPLAN_READS,
                wanted=partial(_has, manager="netplan", rails=bool(suffix)),
            )
            for suffix in ("", "-rails")
        ),
        File(
            path="/etc/NetworkManager/conf.d/50-lockstep.conf",
            template="network/networkmanager.conf.j2",
            validate="NetworkManager --config={new} --print-config >/dev/null",
            wanted=lambda plan: any(
                one.is_rail and one.manager == "networkmanager" for one in plan.interfaces
            ),
        ),
    ),
    more_files=_own_files,
    units=tuple(
        # A restart would take down interfaces that Lockstep does not configure.
        Unit(name=unit, reads_own_files=False, restart="never", wanted=partial(_runs, unit=unit))
        for unit in dict.fromkeys(UNITS.values())
    ),
    operations="lockstep.roles.operations.network",
    asks=_asks,
)

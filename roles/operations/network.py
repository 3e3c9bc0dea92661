"""Operations of the role network."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.network import InterfaceState, InterfaceStates, interface_states
from lockstep.facts.services import loaded_stamp, service_state
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.network import UNITS, Interface, files_read_by, path_of
from lockstep.roles.operations.declared import keep_units
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation

SECONDS = 10
"""Time that an interface may take to get its address."""


@operation()
def files(plan: NodePlan) -> CommandsOrReason:
    """Write the files, unless that would take the management address away at the next boot.

    Args:
        plan: the plan of the node.
    """
    states = ask(interface_states(plan.interfaces))
    for one in plan.interfaces:
        why = "" if one.is_rail else unsafe(one, states.by_name[one.name])
        if why:
            yield StringCommand("cat >&2; exit 1", _stdin=f"{plan.name}: {why}")
            return ""
    yield from managed_files._inner(files=managed(plan, None, "network"))
    return "every file of this role is as planned"


def unsafe(one: Interface, state: InterfaceState) -> str:
    """Return why a management interface's file would not keep what runs; "" if it would."""
    others = [path for path in state.files if path != path_of(one)]
    if one.address not in state.addresses:
        return (
            f"{one.name} does not have the management address {one.address}, so nothing was "
            "written. Next: correct management_interface or the address in the inventory; "
            "ip address shows the interfaces"
        )
    if state.has_default_route and not one.gateway:
        return (
            f"the default route uses {one.name}, but the inventory has no router for the "
            "management network, so nothing was written. Next: set networks.management.gateway; "
            "ip route shows the router"
        )
    if others:
        return (
            f"{', '.join(others)} configures {one.name}, too, so nothing was written. Next: remove "
            f"{one.name} from there (the interface keeps its address until the next boot), and "
            "deploy again at once"
        )
    return ""


@operation()
def rails_applied(interfaces: tuple[Interface, ...]) -> CommandsOrReason:
    """Configure the rails that do not have what their files say; leave all other interfaces alone.

    A rail that has an address already may carry a job's traffic, so it waits until no job step
    runs.

    Args:
        interfaces: the interfaces that Lockstep configures on the node.
    """
    states, units = ask(interface_states(interfaces)), units_of(interfaces)
    read = {unit: files_read_by(interfaces, unit) for unit in units}
    stale = frozenset(u for u in units if ask(service_state(u, (), read[u])).reload_due)
    waiting: list[str] = []
    for unit in units:
        due = [one for one in due_rails(interfaces, states, stale) if UNITS[one.manager] == unit]
        in_use = [one.name for one in due if states.by_name[one.name].addresses]
        if states.job_steps and in_use:
            waiting += in_use
        elif due:
            steps = (*applied(due), *map(has_address, due), loaded_stamp(unit, read[unit]))
            yield " && ".join(steps)
    if waiting:
        why = (
            f"{', '.join(waiting)}: the new configuration waits, because job steps run on the "
            "node. Next: deploy again when it is idle"
        )
        host.log_styled(why, fg="yellow")
        return why
    return "every rail has what its file says"


def units_of(interfaces: Iterable[Interface]) -> tuple[str, ...]:
    """Return the units that configure some interfaces."""
    return tuple(dict.fromkeys(UNITS[one.manager] for one in interfaces))


def due_rails(
    interfaces: Iterable[Interface], states: InterfaceStates, stale: frozenset[str]
) -> tuple[Interface, ...]:
    """Return the rails that exist and must be configured again.

    Args:
        interfaces: the interfaces that Lockstep configures on the node.
        states: their states.
        stale: units that have not read the current files.
    """
    return tuple(
        one
        for one in interfaces
        if one.is_rail
        and (state := states.by_name[one.name]).exists
        and (
            UNITS[one.manager] in stale
            or one.address not in state.addresses
            or one.mtu not in (None, state.mtu)
        )
    )


def applied(rails: Iterable[Interface]) -> Iterator[str]:
    """Yield the commands that configure these interfaces again, and no others."""
    by_manager: dict[str, list[str]] = {}
    for one in rails:
        by_manager.setdefault(one.manager, []).append(one.name)
    for manager, names in by_manager.items():
        named = " ".join(map(shlex.quote, names))
        if manager == "ifupdown":
            yield f"ifup --force {named}"
        elif manager == "networkmanager":
            yield "nmcli general reload conf"
            for name in names:
                profile = path_of(next(one for one in rails if one.name == name))
                yield f"nmcli connection load {shlex.quote(profile)}"
                yield f"nmcli --wait {SECONDS} connection up id {shlex.quote(f'lockstep-{name}')}"
        else:
            if manager == "netplan":
                yield "netplan generate"
            # reload configures only interfaces whose file has changed (networkctl(1)).
            yield "networkctl reload"
            yield f"networkctl reconfigure {named}"


def has_address(one: Interface) -> str:
    """Return a command that waits for an address, and fails if the interface does not get it."""
    name, address = shlex.quote(one.name), shlex.quote(one.address)
    shown = f'[ -n "$(ip -oneline address show dev {name} to {address})" ]'
    said = shlex.quote(
        f"{one.name} did not get {one.address} within {SECONDS} s. Next: look at the log of "
        f"{UNITS[one.manager]}"
    )
    return (
        f"{{ n=0; until {shown}; do n=$((n+1)); "
        f"[ $n -le {SECONDS * 5} ] || {{ echo {said} >&2; exit 1; }}; sleep 0.2; done; }}"
    )


def apply(plan: NodePlan) -> None:
    """Write the files, keep the program running that reads them, and configure the rails."""
    files(name="Files", plan=plan)
    keep_units(plan, "network")
    rails_applied(name="Rails", interfaces=plan.interfaces)

"""Operations of the role network."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.network import InterfaceState, InterfaceStates, interface_states
from lockstep.facts.services import loaded_stamp, service_state
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.network import NETWORKD, UNITS, Interface, not_to_reload, path_of
from lockstep.roles.operations.declared import keep_units, services_of
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import Commands, CommandsOrReason, ask, operation
from lockstep.roles.operations.service import RUNNING

GATEWAYS = ("networks.management.gateway", "networks.management.second_family.gateway")
"""The field with the router of each family."""
SECONDS = 10
"""Time that an interface may take to get its address."""


@operation()
def files(plan: NodePlan) -> CommandsOrReason:
    """Write the files, unless that would take the management address away at the next boot.

    Args:
        plan: the plan of the node.
    """
    states = ask(interface_states(plan.interfaces))
    for one in (one for one in plan.interfaces if not one.is_rail):
        runs = ask(service_state(UNITS[one.manager])).active in RUNNING
        why = unsafe(one, states.by_name[one.name], runs)
        if why:
            yield StringCommand("cat >&2; exit 1", _stdin=f"{plan.name}: {why}")
            return ""
    yield from managed_files._inner(files=managed(plan, None, "network"))
    return "every file of this role is as planned"


def unsafe(one: Interface, state: InterfaceState, runs: bool) -> str:
    """Return why a management interface's file would not keep what runs; "" if it would.

    Args:
        one: the management interface.
        state: its state.
        runs: whether the unit runs that reads its file.
    """
    others = [path for path in state.files if path != path_of(one)]
    if state.exists and state.software:
        return (
            f"{one.name} is a {state.software} interface, so nothing was written: Lockstep "
            "configures physical interfaces only. Next: leave networks.management unmanaged"
        )
    lacking = [address for address in one.addresses if address not in state.addresses]
    if lacking:
        return (
            f"{one.name} does not have the management address {lacking[0]}, so nothing was "
            "written. Next: correct management_interface or the address in the inventory; "
            "ip address shows the interfaces"
        )
    if not runs:
        return (
            f"{UNITS[one.manager]} does not run, so another program configures {one.name}, and "
            f"nothing was written: a start would configure {one.name} under this connection. Next: "
            "set networks.management.manager to the program that configures it now, or leave it "
            "unmanaged; if the unit has failed, start it from the console"
        )
    for own, field in zip(one.assigned, GATEWAYS, strict=False):
        routers = state.routers.get(own.family)
        if routers is not None and not own.gateway:
            return (
                f"the default route uses {one.name}, but the inventory has no router for the "
                f"management network, so nothing was written. Next: set {field}; the route goes to "
                f"{_named(routers)}"
            )
        if routers is not None and routers != (own.gateway,):
            return (
                f"the default route of {one.name} goes to {_named(routers)}, but {field} is "
                f"{own.gateway}, so nothing was written. Next: correct the inventory, or the "
                f"route: ip route replace default via {own.gateway} dev {one.name}"
            )
    if others:
        return (
            f"{', '.join(others)} configures {one.name}, too, so nothing was written. Next: remove "
            f"{one.name} from there (the interface keeps its address until the next boot), and "
            "deploy again at once"
        )
    return ""


def _named(routers: tuple[str, ...]) -> str:
    return ", ".join(routers) or "no router"


@operation()
def enabled(names: tuple[str, ...]) -> Commands:
    """Let units start at the next boot, and never now: a start configures their interfaces.

    Args:
        names: names of units.
    """
    shown = {name: ask(service_state(name)).enabled for name in names}
    steps = [f"systemctl unmask {shlex.quote(n)}" for n in names if shown[n] == "masked"]
    steps += [f"systemctl enable {shlex.quote(n)}" for n in names if shown[n] != "enabled"]
    if steps:
        yield " && ".join(steps)


@operation()
def rails_applied(interfaces: tuple[Interface, ...]) -> CommandsOrReason:
    """Configure the rails that do not have what their files say; leave all other interfaces alone.

    A rail that has an address already may carry a job's traffic, so it waits until no job step
    runs. A rail waits for the next boot if its program cannot read its file without configuring
    other interfaces.

    Args:
        interfaces: the interfaces that Lockstep configures on the node.
    """
    states, rails = ask(interface_states(interfaces)), [one for one in interfaces if one.is_rail]
    stale = frozenset(
        one.name
        for one in rails
        if ask(service_state(UNITS[one.manager], (), (path_of(one),))).reload_due
    )
    units = dict.fromkeys(UNITS[one.manager] for one in rails)
    reloads = (
        NETWORKD in units
        and not ask(service_state(NETWORKD, (), not_to_reload(interfaces))).reload_due
    )
    running = frozenset(u for u in units if ask(service_state(u)).active in RUNNING)
    turns = in_turn(due_rails(rails, states, stale), states, stale, reloads, running)
    if turns.now:
        read = frozenset(one.name for one in turns.now) & stale
        steps = [*applied(turns.now, read), *map(has_address, turns.now)]
        waiting = {path_of(one) for one in (*turns.idle, *turns.boot)}
        for unit in units if read else ():
            own = {path_of(one) for one in rails if UNITS[one.manager] == unit} - waiting
            beside = not_to_reload(interfaces) if unit == NETWORKD else ()
            steps.append(loaded_stamp(unit, (*sorted(own), *beside)))
        yield " && ".join(steps)
    said = [
        f"{', '.join(one.name for one in waiting)}: the new configuration waits {why}"
        for waiting, why in (
            (turns.idle, "until no job step runs on the node. Next: deploy again when it is idle"),
            (
                turns.boot,
                "for the next boot: to apply it now would configure other interfaces, too. Next: "
                "reboot the node",
            ),
        )
        if waiting
    ]
    for why in said:
        host.log_styled(why, fg="yellow")
    return "; ".join(said) or "every rail has what its file says"


@dataclass(frozen=True)
class Turns:
    """Rails that must be configured again, by the time at which that is safe."""

    now: tuple[Interface, ...]
    idle: tuple[Interface, ...]
    """When no job step runs."""
    boot: tuple[Interface, ...]
    """At the next boot."""


def in_turn(
    due: tuple[Interface, ...],
    states: InterfaceStates,
    stale: frozenset[str],
    reloads: bool,
    running: frozenset[str],
) -> Turns:
    """Return when each rail can be configured without a change of any other interface.

    Args:
        due: the rails that must be configured again.
        states: the states of the interfaces.
        stale: names of the rails whose file their program has not read.
        reloads: whether ``networkctl reload`` reads no files but those of rails.
        running: the units that run.
    """

    def boots(one: Interface) -> bool:
        if one.manager == "ifupdown":
            return False  # ifup reads the files itself, and configures only what it is told
        # netplan writes the files of all interfaces again, so a reload would configure all.
        reading = one.name in stale and one.manager in ("netplan", "networkd")
        reads = one.manager == "networkd" and reloads
        return UNITS[one.manager] not in running or (reading and not reads)

    boot = tuple(filter(boots, due))
    rest = [one for one in due if one not in boot]
    busy = {one.name for one in rest if states.job_steps and states.by_name[one.name].addresses}
    if any(one.manager == "networkd" and one.name in busy & stale for one in rest):
        # The reload for another rail would read the file of this one, too.
        busy |= {one.name for one in rest if one.manager == "networkd" and one.name in stale}
    return Turns(
        now=tuple(one for one in rest if one.name not in busy),
        idle=tuple(one for one in rest if one.name in busy),
        boot=boot,
    )


def due_rails(
    interfaces: Iterable[Interface], states: InterfaceStates, stale: frozenset[str]
) -> tuple[Interface, ...]:
    """Return the rails that exist and must be configured again.

    Args:
        interfaces: the interfaces that Lockstep configures on the node.
        states: their states.
        stale: names of the rails whose file their program has not read.
    """
    return tuple(
        one
        for one in interfaces
        if one.is_rail
        and (state := states.by_name[one.name]).exists
        and (
            one.name in stale
            or not {*one.addresses} <= {*state.addresses}
            or one.mtu not in (None, state.mtu)
        )
    )


def applied(rails: Iterable[Interface], stale: frozenset[str]) -> Iterator[str]:
    """Yield the commands that configure these interfaces again, and no others.

    Args:
        rails: the interfaces.
        stale: names of those whose file their program has not read.
    """
    by_manager: dict[str, list[Interface]] = {}
    for one in rails:
        by_manager.setdefault(one.manager, []).append(one)
    for manager, own in by_manager.items():
        named = " ".join(shlex.quote(one.name) for one in own)
        if manager == "ifupdown":
            yield f"ifup --force {named}"
        elif manager == "networkmanager":
            yield "nmcli general reload conf"
            for one in own:
                yield f"nmcli connection load {shlex.quote(path_of(one))}"
                profile = shlex.quote(f"lockstep-{one.name}")
                yield f"nmcli --wait {SECONDS} connection up id {profile}"
        else:
            if any(one.name in stale for one in own):
                # reload configures only interfaces whose file has changed (networkctl(1)).
                yield "networkctl reload"
            yield f"networkctl reconfigure {named}"


def has_address(one: Interface) -> str:
    """Return a command that waits for the addresses, and fails if the interface lacks one."""
    return " && ".join(_has_address(one, address) for address in one.addresses)


def _has_address(one: Interface, address: str) -> str:
    name = shlex.quote(one.name)
    shown = f'[ -n "$(ip -oneline address show dev {name} to {shlex.quote(address)})" ]'
    said = shlex.quote(
        f"{one.name} did not get {address} within {SECONDS} s. Next: look at the log of "
        f"{UNITS[one.manager]}"
    )
    return (
        f"{{ n=0; until {shown}; do n=$((n+1)); "
        f"[ $n -le {SECONDS * 5} ] || {{ echo {said} >&2; exit 1; }}; sleep 0.2; done; }}"
    )


def apply(plan: NodePlan) -> None:
    """Write the files, keep the program running that reads them, and configure the rails."""
    files(name="Files", plan=plan)
    at_boot = {UNITS[one.manager] for one in plan.interfaces if not one.is_rail}
    names = [unit for unit, *_ in services_of(plan, "network")]
    if at_boot:
        enabled(name="Services at boot", names=tuple(sorted(at_boot)))
    if others := [name for name in names if name not in at_boot]:
        keep_units(plan, "network", *others)
    rails_applied(name="Rails", interfaces=plan.interfaces)

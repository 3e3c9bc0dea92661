"""Questions about the network interfaces that Lockstep configures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lockstep.plan.network import Interface, gateway_families
from lockstep.question import Question, Taken

NET = "/sys/class/net"


@dataclass(frozen=True)
class InterfaceState:
    """What an interface has, running and on disk."""

    exists: bool
    software: str
    """"" for an interface with a device; otherwise its type, such as ``bond`` or ``vlan``."""
    addresses: tuple[str, ...]
    """Global addresses, without the length of their prefixes."""
    mtu: int | None
    routers: Mapping[str, tuple[str, ...]]
    """Family of a planned address -> routers of the default route that uses the interface; empty:
    the route names none. A family without such a route is left out; a rail has no entry."""
    files: tuple[str, ...]
    """Files that configure the interface, of its own program and of others."""


@dataclass(frozen=True)
class InterfaceStates:
    """The interfaces that Lockstep configures, and whether jobs may be using them."""

    by_name: dict[str, InterfaceState]
    job_steps: int


def interface_states(interfaces: Iterable[Interface]) -> Question[InterfaceStates]:
    """Ask for the state of some interfaces, and for the number of job steps on the node."""
    every = tuple(interfaces)

    def state(taken: Taken, one: Interface) -> InterfaceState:
        kept = taken.item("net.persisted", f"{one.manager} {one.name}")
        routes = {
            own.family: taken.item("net.gateway", own.family)
            for own in (() if one.is_rail else one.assigned)
        }
        return InterfaceState(
            exists=bool(taken.item("kernel.files", _paths(one)[0])),
            software=_software(taken, one),
            # An interface without a device and without an address has no entry.
            addresses=tuple(taken["net.addresses"].get(one.name, ())),
            mtu=taken["net.mtu"].get(one.name),
            routers={
                family: tuple(found[one.name])
                for family, found in routes.items()
                if one.name in found
            },
            files=(*kept["files"], *kept["elsewhere"]),
        )

    def answer(taken: Taken) -> InterfaceStates:
        by_name = {one.name: state(taken, one) for one in every}
        return InterfaceStates(by_name, int(taken["slurm.steps"]))

    return Question(
        "network interfaces",
        (
            *("kernel.files", "net.addresses", "net.mtu", "net.gateway"),
            *("net.persisted", "slurm.steps"),
        ),
        answer,
        {
            "kernel_files": tuple(path for one in every for path in _paths(one)),
            "interfaces": tuple(f"{one.manager} {one.name}" for one in every),
            "gateways": gateway_families(every),
        },
    )


def _paths(interface: Interface) -> tuple[str, str]:
    """Return a file that exists while an interface does, and one that only physical ones have."""
    return f"{NET}/{interface.name}/uevent", f"{NET}/{interface.name}/device/uevent"


def _software(taken: Taken, interface: Interface) -> str:
    shown, device = _paths(interface)
    if taken.item("kernel.files", device):
        return ""
    # The first line is DEVTYPE=bond, bridge, vlan and so on, where the driver sets a type.
    line = str(taken.item("kernel.files", shown).get(shown, ""))
    key, _, kind = line.partition("=")
    return kind if key == "DEVTYPE" else "virtual"

"""What the rules about network interfaces share: which interfaces they judge."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause
from lockstep.checks.rules._rdma import of_the_fabric
from lockstep.probe.record import Unread
from lockstep.spec.names import expand

ADDRESSES = "net.addresses"
UNREAD = (Cause("net.address", only_unread=True), Cause("rdma.interface", only_unread=True))
"""All of them come from one command, about the interfaces that the RDMA devices name."""
FOLLOWS_STATE = (*UNREAD, Cause("net.state", same_device=True))
"""An interface that is down, or not to be found, says little of itself."""
MANAGEMENT = "management"


def planned(view: View) -> dict[str, str]:
    """Return the addresses that the spec gives the node: what for -> address."""
    rails = {f"rail{number}": str(one) for number, one in enumerate(view.plan.node.fabric)}
    return {MANAGEMENT: view.plan.address, **rails}


def holder(view: View, address: str) -> str | None:
    """Return the interface that has an address."""
    for name, held in view.items(ADDRESSES).items():
        if isinstance(held, list) and address in held:
            return name
    return None


def interfaces(view: View) -> dict[str, str]:
    """Return the interfaces of the node's networks: what for, or own name -> name.

    A machine has more of them: bridges of containers, storage, spare ports.
    """
    return view.once(_interfaces)


def _interfaces(view: View) -> dict[str, str]:
    nics = view.plan.hardware.hardware.nics
    # InfiniBand's own interfaces may be down by design: jobs speak verbs.
    ports = of_the_fabric(view, "rdma.netdev").values() if nics.rdma == "roce" else ()
    named = {
        *(expand(nics.interfaces) if nics.interfaces else ()),
        *filter(None, (name for port in ports for name in _text(port).split(","))),
    }
    found = {name: name for name in sorted(named)}
    for purpose, address in planned(view).items():
        name = holder(view, address)
        if name is not None and name not in found.values():
            found[purpose] = name
    return found


def _text(value: object) -> str:
    return "" if isinstance(value, Unread) else str(value)


def judged(reading: str) -> Callable[[View], Items]:
    """Return a look at the interfaces of the node's networks."""

    def look(view: View) -> Items:
        items = view.items(reading)
        if "" in items:
            return items
        missing = Unread(unread="no such interface")
        return {what: items.get(name, missing) for what, name in interfaces(view).items()}

    return look


def by_name(reading: str) -> Callable[[View], Items]:
    """Return a look by the interfaces' own names, as an earlier record has them."""

    def look(view: View) -> Items:
        names = interfaces(view)
        return {names.get(what, ""): value for what, value in judged(reading)(view).items()}

    return look


def which(view: View, what: str) -> str:
    """Return the interface that a finding means, where it is named by its purpose."""
    name = interfaces(view).get(what, what)
    return "" if name == what else f"interface {name}"

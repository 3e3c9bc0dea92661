"""The network interfaces that rules check, with their planned addresses and MTUs."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.checks.context import Items, View
from lockstep.checks.looks import made
from lockstep.checks.rule import SAME_DEVICE, UNREAD, Cause
from lockstep.checks.rules.rdma import of_the_fabric
from lockstep.plan.network import Interface
from lockstep.probe.record import Unread
from lockstep.spec.names import expand

ADDRESSES = "net.addresses"
NOT_READ = (Cause("net.address", of=UNREAD), Cause("rdma.interface", of=UNREAD))
"""If the addresses or the RDMA devices cannot be read, no interface can be checked."""
FOLLOWS_STATE = (*NOT_READ, Cause("net.state", at=SAME_DEVICE))
"""Few settings of an interface can be read while it is down or missing."""
MANAGEMENT = "management"


def planned(view: View) -> dict[str, str]:
    """Return the planned addresses of the node, keyed by purpose."""
    return dict(view.plan.addresses)


def purpose(what: str) -> str:
    """Return the purpose of an interface from the key of one of its addresses."""
    return what.partition(" ")[0]


def holder(view: View, address: str) -> str | None:
    """Return the name of the interface with ``address``, or None."""
    held = view.items(ADDRESSES).items()
    return next((name for name, own in held if isinstance(own, list) and address in own), None)


def interfaces(view: View) -> dict[str, str]:
    """Return the interfaces on the management network and the fabric, keyed by purpose or name.

    Container bridges, storage interfaces and spare ports are left out.
    """
    return view.once(_interfaces)


def _interfaces(view: View) -> dict[str, str]:
    nics = view.plan.hardware.hardware.nics
    # IPoIB interfaces may be down by design, because jobs use verbs.
    ports = of_the_fabric(view, "rdma.netdev").values() if nics.rdma == "roce" else ()
    named = {
        *(expand(nics.interfaces) if nics.interfaces else ()),
        *(name for port in ports if isinstance(port, str) for name in port.split(",") if name),
    }
    found = {name: name for name in sorted(named)}
    for purpose, address in planned(view).items():
        name = holder(view, address)
        if name is not None and name not in found.values():
            found[purpose] = name
    return found


def judged(reading: str) -> Callable[[View], Items]:
    """Return a function that selects the interfaces on the management network and the fabric."""
    missing = Unread(unread="no such interface")
    return made(
        reading,
        lambda view, items: {
            what: items.get(name, missing) for what, name in interfaces(view).items()
        },
    )


def by_name(reading: str) -> Callable[[View], Items]:
    """Like ``judged``, but with the interface names as keys, as in the records."""

    def look(view: View) -> Items:
        names = interfaces(view)
        return {names.get(what, ""): value for what, value in judged(reading)(view).items()}

    return look


def which(view: View, what: str) -> str:
    """Return the name of the interface if a finding names only its purpose."""
    name = interfaces(view).get(what, what)
    return "" if name == what else f"interface {name}"


NOWHERE = "on no interface"


def rails(view: View) -> dict[str, Interface]:
    """Return the rails that the role network configures, by interface."""
    return {one.name: one for one in view.plan.interfaces if one.is_rail}


def by_network(view: View, what: str) -> tuple[str, ...]:
    """Return the role that configures an interface, which may be named by its purpose.

    It leaves a running management interface alone.
    """
    every = {name for one in rails(view).values() for name in (one.name, one.purpose)}
    return ("network",) if purpose(what) in every else ()


def held(view: View) -> Items:
    """Return each planned address that is where it belongs; else, where it is."""
    names = {one.purpose: one.name for one in view.plan.interfaces}
    found: Items = {}
    for what, address in planned(view).items():
        name = holder(view, address)
        misplaced = name is not None and names.get(purpose(what), name) != name
        found[what] = NOWHERE if name is None else f"on {name}" if misplaced else address
    return found


def mtus(view: View) -> dict[str, int | None]:
    """Return the declared MTU of each interface, keyed as in ``interfaces``."""
    networks, nics = view.plan.spec.networks, view.plan.hardware.hardware.nics
    of_management = holder(view, view.plan.address)
    named = expand(nics.interfaces) if nics.interfaces else ()
    found = {}
    for what, name in interfaces(view).items():
        kind = "fabric" if name in named or what.startswith("rail") else ""
        network = networks.get(MANAGEMENT if name == of_management else kind)  # type: ignore[call-overload]
        if network is not None and network.mtu is not None:
            found[what] = network.mtu
    return found

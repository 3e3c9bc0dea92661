"""Rules about network interfaces, addresses and routes."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    ERROR,
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Severities,
    Text,
    each,
    same,
)
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE
from lockstep.checks.rules._rdma import of_the_fabric
from lockstep.probe.record import Unread
from lockstep.spec.names import expand

ADDRESSES = "net.addresses"
NOT_READ = (Cause("net.address", of=UNREAD), Cause("rdma.interface", of=UNREAD))
"""All of them come from one command, about the interfaces that the RDMA devices name."""
FOLLOWS_STATE = (*NOT_READ, Cause("net.state", at=SAME_DEVICE))
"""An interface that is down or missing has few readings."""
MANAGEMENT = "management"


def planned(view: View) -> dict[str, str]:
    """Return the planned addresses of the node: purpose -> address."""
    rails = {f"rail{number}": str(one) for number, one in enumerate(view.plan.node.fabric)}
    return {MANAGEMENT: view.plan.address, **rails}


def holder(view: View, address: str) -> str | None:
    """Return the interface that has an address."""
    for name, held in view.items(ADDRESSES).items():
        if isinstance(held, list) and address in held:
            return name
    return None


def interfaces(view: View) -> dict[str, str]:
    """Return the interfaces of the node's networks: purpose, or own name -> name.

    A machine has more of them: bridges of containers, storage, spare ports.
    """
    return view.once(_interfaces)


def _interfaces(view: View) -> dict[str, str]:
    nics = view.plan.hardware.hardware.nics
    # InfiniBand's own interfaces may be down by design: jobs use verbs.
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
    """Return the interface of a finding that names its purpose."""
    name = interfaces(view).get(what, what)
    return "" if name == what else f"interface {name}"


NOWHERE = "on no interface"


def _interface(view: View, what: str) -> tuple[Object]:
    """Return the interface that a finding is about."""
    return (Object(ObjectKind.INTERFACE, interfaces(view).get(what, what)),)


def _address_items(view: View) -> Items:
    read = view.read(ADDRESSES)
    if isinstance(read, Unread):
        return {"": read}
    return {
        what: NOWHERE if holder(view, address) is None else address
        for what, address in planned(view).items()
    }


def _address_unique_items(view: View) -> Items:
    items: Items = {}
    for what, found in judged(ADDRESSES)(view).items():
        if isinstance(found, list):
            items |= {f"{what} {address}": address for address in found}
        else:
            items[what] = found
    return items


def _alike(
    reading: str,
    what: str,
    *,
    why: str,
    blind: str,
    source: str,
    repair: str,
    severity: Severities = WARNING,
    causes: tuple[Cause, ...] = (),
) -> Rule:
    """Return a rule that compares a reading of the interfaces with the peers."""
    return Rule(
        id=reading,
        claim=f"Interfaces have the same {what} per network and hardware class.",
        why=why,
        blind=blind,
        source=source,
        reading=reading,
        look=Look(judged(reading)),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=severity,
        repair=by_hand(repair),
        objects=_interface,
        explained_by=(*FOLLOWS_STATE, *causes),
    )


RULES = (
    Rule(
        id="net.address",
        claim="The node has its planned addresses.",
        why="Slurm, NCCL and the other nodes reach it under these addresses only.",
        blind="Duplicate addresses: net.address_unique finds them within the cluster.",
        source="ip-address(8)",
        reading=ADDRESSES,
        look=Look(_address_items),
        expected=each(lambda view: dict(planned(view))),
        repair=by_hand(
            "on {node}: configure {expected} on its interface; ip address shows what is there"
        ),
    ),
    Rule(
        id="net.address_unique",
        claim="No two nodes have the same address.",
        why="Both answer to it, and some connections end on the wrong node.",
        blind="Machines outside of this cluster. Container bridges, which may be equal.",
        source="RFC 5227, RFC 4862 (duplicate addresses)",
        reading="net.addresses",
        look=Look(_address_unique_items),
        kind=Kind.UNIQUE,
        repair=by_hand("find out which of {node} should have it, and give the other one its own"),
        explained_by=NOT_READ,
    ),
    Rule(
        id="net.carrier",
        claim="Links do not go down and up again.",
        why="A flapping link ends connections and jobs at random times.",
        blind="Flaps before the first record of this boot.",
        source="kernel documentation, ABI/testing/sysfs-class-net (carrier_changes)",
        reading="net.carrier_changes",
        look=Look(by_name("net.carrier_changes")),
        kind=Kind.GROWTH,
        text=Text(lambda value: f"{value} changes"),
        repair=by_hand(
            "on {node}: journalctl -k -g link shows when; check cable, transceiver and switch "
            "port of {device}"
        ),
        explained_by=(*NOT_READ, Cause("rdma.link_downed")),
    ),
    _alike(
        "net.channels",
        "number of queues",
        why="With fewer queues fewer CPUs receive packets, and one of them becomes the limit.",
        blind="Which CPUs serve the queues: irq.affinity judges that.",
        source="ethtool(8), -l",
        repair="on {node}: set it as on its peers with ethtool -L, and find what changed it",
        causes=(
            Cause("cpu.count"),
            *OTHER_KERNEL,
        ),
    ),
    Rule(
        id="net.default_route",
        claim="Default routes use the same interface in a hardware class.",
        why=(
            "Without its default route, or with one over the fabric, a node does not reach "
            "name, package or licence servers, or takes the wrong way."
        ),
        blind="Routers, which differ from rack to rack. Further routes and rules.",
        source="ip-route(8); /proc/net/route, /proc/net/ipv6_route",
        reading="net.default_route",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: compare ip route show default and ip -6 route show default with a peer"
        ),
        explained_by=(Cause("net.state"), Cause("net.address")),
    ),
    _alike(
        "net.driver",
        "driver and firmware",
        why="A fault of one firmware version then shows on one node only.",
        blind="The driver's version: kernel.release and rdma.driver judge that.",
        source="ethtool(8), -i",
        repair="flash the card of {node} to the firmware of its peers ({expected}), then reset it",
        causes=(
            Cause("rdma.firmware"),
            *OTHER_KERNEL,
            *OTHER_MACHINE,
        ),
    ),
    Rule(
        id="net.errors",
        claim="Interfaces lose few frames to errors.",
        why="Each lost frame is sent again, after a time-out that the whole job waits for.",
        blind=(
            "Frames that are dropped without an error. Counters that only the vendor's tools show."
        ),
        source="kernel documentation, networking/statistics (rx_errors, tx_errors)",
        reading="net.errors",
        look=Look(by_name("net.errors")),
        kind=Kind.GROWTH,
        tolerance=10.0,
        text=Text(lambda value: f"{value} errors"),
        severity=WARNING,
        repair=by_hand("on {node}: clean or replace cable and transceiver of {device}"),
        explained_by=(*NOT_READ, Cause("net.carrier", at=SAME_DEVICE)),
    ),
    Rule(
        id="net.mac_unique",
        claim="No two nodes have the same MAC address.",
        why="Switches send the frames of both to the node that sent last.",
        blind="Interfaces of other networks.",
        source="IEEE 802, EUI-48",
        reading="net.mac",
        look=Look(judged("net.mac")),
        kind=Kind.UNIQUE,
        repair=by_hand("find out which of {node} should have it, and give the other one its own"),
        explained_by=NOT_READ,
    ),
    _alike(
        "net.mtu",
        "MTU",
        why="A smaller MTU splits or drops large packets to and from this node.",
        blind="The MTU of switches. Interfaces with other names than on the peers.",
        source="ip-link(8)",
        repair=(
            "on {node}: set the MTU of its interface to {expected} (ip link) and correct its "
            "configuration"
        ),
        severity=ERROR,
    ),
    _alike(
        "net.offloads",
        "offloads",
        why="Without checksums and segmentation in hardware one CPU core limits the link.",
        blind="Offloads beyond the six common ones.",
        source="ethtool(8), -k",
        repair="on {node}: set it as on its peers with ethtool -K, and find what changed it",
        causes=(*OTHER_KERNEL,),
    ),
    _alike(
        "net.pause",
        "pause settings",
        why=(
            "An interface that sends pause frames can stop a whole switch. One that ignores "
            "them loses frames."
        ),
        blind="Pause per priority (PFC): rdma.pfc judges that.",
        source="ethtool(8), -a",
        repair="on {node}: set it as on its peers with ethtool -A, and find what changed it",
        causes=(*OTHER_KERNEL,),
    ),
    _alike(
        "net.queue",
        "queueing discipline",
        why="Another discipline delays or shapes traffic that the peers send at once.",
        blind="Settings of the discipline. Classes and filters.",
        source="tc(8), ip-link(8) (txqueuelen)",
        repair="on {node}: tc qdisc show; find what set it (net.core.default_qdisc, a script)",
        causes=(
            Cause("sysctl.common", device="net.core.default_qdisc"),
            *OTHER_KERNEL,
        ),
    ),
    _alike(
        "net.rings",
        "ring sizes",
        why="A short ring loses frames in bursts.",
        blind="Interrupt moderation, which drivers adapt by themselves.",
        source="ethtool(8), -g",
        repair="on {node}: set it as on its peers with ethtool -G, and find what changed it",
        causes=(*OTHER_KERNEL,),
    ),
    _alike(
        "net.speed",
        "speed",
        why="A link at a tenth of its speed still works, and all nodes wait for it.",
        blind="A speed that is too low on all nodes.",
        source="kernel documentation, ABI/testing/sysfs-class-net (speed, duplex)",
        repair="on {node}: clean or replace cable and transceiver, and check the switch port",
        severity=ERROR,
        causes=(Cause("rdma.rate"),),
    ),
    Rule(
        id="net.state",
        claim="The interfaces of the node's networks are up.",
        why="A rail that is down takes its bandwidth from every job on the node.",
        blind="Interfaces that the description does not name and that have no planned address.",
        source="ip-link(8), operstate; interfaces without a link of their own report UNKNOWN",
        reading="net.state",
        look=Look(judged("net.state"), pick=lambda state: "UP" if state == "UNKNOWN" else state),
        expected=same("UP"),
        text=Text(detail=which),
        objects=_interface,
        repair=by_hand(
            "on {node}: set its interface up (ip link), then check cable, transceiver and "
            "switch port"
        ),
        explained_by=(
            *NOT_READ,
            Cause("rdma.port_state", at=SAME_DEVICE),
            Cause("rdma.port_state", of=Effect(found="DOWN")),
        ),
    ),
)

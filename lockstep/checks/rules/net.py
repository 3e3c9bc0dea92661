"""Rules: net."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
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


NOWHERE = "on no interface"


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


RULES = (
    Rule(
        id="net.address",
        claim="The node has its planned addresses.",
        why="Slurm, NCCL and the other nodes reach it under these addresses and no others.",
        blind=(
            "Whether somebody else has the address too: net.address_unique sees that within "
            "the cluster."
        ),
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
        claim="No address is on two nodes.",
        why="Both answer to it: connections end on the wrong node, now and then.",
        blind="Machines outside of this cluster; bridges of containers, which may be alike.",
        source="RFC 5227, RFC 4862 (duplicate addresses)",
        reading="net.addresses",
        look=Look(_address_unique_items),
        kind=Kind.UNIQUE,
        repair=by_hand("find out which of {node} should have it and give the other one its own"),
        explained_by=NOT_READ,
    ),
    Rule(
        id="net.carrier",
        claim="The links of the interfaces do not come and go.",
        why=(
            "A link that flaps ends connections, and jobs with them, at moments that nobody "
            "can repeat."
        ),
        blind="Flaps before the first record of this boot.",
        source="kernel documentation, ABI/testing/sysfs-class-net (carrier_changes)",
        reading="net.carrier_changes",
        look=Look(by_name("net.carrier_changes")),
        kind=Kind.GROWTH,
        text=Text(lambda value: f"{value} changes"),
        repair=by_hand(
            "in {node}: journalctl -k -g 'link' says when; cable, transceiver, switch port "
            "of {device}"
        ),
        explained_by=(*NOT_READ, Cause("rdma.link_downed")),
    ),
    Rule(
        id="net.channels",
        claim="The interfaces have the same number of queues.",
        why="With fewer queues fewer CPUs take packets, and one of them becomes the limit.",
        blind="Which CPUs serve them: irq.affinity sees that.",
        source="ethtool(8), -l",
        reading="net.channels",
        look=Look(judged("net.channels")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=WARNING,
        repair=by_hand("on {node}: ethtool -L the interface, and find what set it"),
        explained_by=(*FOLLOWS_STATE, Cause("cpu.count"), *OTHER_KERNEL),
    ),
    Rule(
        id="net.default_route",
        claim="Packets to everywhere else leave by the same interface.",
        why=(
            "A node that lost its default route, or has it on the fabric, reaches no server of "
            "names, packages or licences, or reaches them by the wrong way."
        ),
        blind="Routers, which differ from rack to rack; further routes and rules.",
        source="ip-route(8); /proc/net/route, /proc/net/ipv6_route",
        reading="net.default_route",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: ip route show default, ip -6 route show default, and what should set them"
        ),
        explained_by=(Cause("net.state"), Cause("net.address")),
    ),
    Rule(
        id="net.driver",
        claim="The interfaces have the same driver and firmware.",
        why="Firmware of network cards has faults of its own, and one node then has them alone.",
        blind="The driver's version: kernel.release and rdma.driver see that.",
        source="ethtool(8), -i",
        reading="net.driver",
        look=Look(judged("net.driver")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=WARNING,
        repair=by_hand(
            "have the firmware of the peers ({expected}) flashed in {node}, then reset the card"
        ),
        explained_by=(*FOLLOWS_STATE, Cause("rdma.firmware"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="net.errors",
        claim="The interfaces lose few frames to errors.",
        why="Each lost frame is sent again, after a time-out that the whole job waits for.",
        blind=(
            "Frames that are dropped without an error; counters that only the vendor's tools show."
        ),
        source="kernel documentation, networking/statistics (rx_errors, tx_errors)",
        reading="net.errors",
        look=Look(by_name("net.errors")),
        kind=Kind.GROWTH,
        tolerance=10.0,
        text=Text(lambda value: f"{value} errors"),
        severity=WARNING,
        repair=by_hand("in {node}: clean or replace cable and transceiver of {device}"),
        explained_by=(*NOT_READ, Cause("net.carrier", at=SAME_DEVICE)),
    ),
    Rule(
        id="net.mac_unique",
        claim="No hardware address is on two nodes.",
        why="Switches send the frames of both to the one that spoke last.",
        blind="Interfaces of other networks than the node's own.",
        source="IEEE 802, EUI-48",
        reading="net.mac",
        look=Look(judged("net.mac")),
        kind=Kind.UNIQUE,
        repair=by_hand("find out which of {node} should have it and give the other one its own"),
        explained_by=NOT_READ,
    ),
    Rule(
        id="net.mtu",
        claim="The interfaces have the same MTU.",
        why=(
            "One smaller MTU splits or drops the large packets of everybody who talks to this node."
        ),
        blind="The MTU of switches; interfaces under other names than their peers'.",
        source="ip-link(8)",
        reading="net.mtu",
        look=Look(judged("net.mtu")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        repair=by_hand(
            "on {node}: ip link set mtu {expected}, and where its configuration says so"
        ),
        explained_by=(*FOLLOWS_STATE,),
    ),
    Rule(
        id="net.offloads",
        claim="The interfaces take the same work from the CPU.",
        why="Without checksums and segmentation in hardware a core is the limit of the link.",
        blind="Offloads beyond the six that every driver knows.",
        source="ethtool(8), -k",
        reading="net.offloads",
        look=Look(judged("net.offloads")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=WARNING,
        repair=by_hand("on {node}: ethtool -K the interface, and find what set it"),
        explained_by=(*FOLLOWS_STATE, *OTHER_KERNEL),
    ),
    Rule(
        id="net.pause",
        claim="The interfaces treat pause frames alike.",
        why=(
            "An interface that sends them can stop a whole switch; one that ignores them loses "
            "frames."
        ),
        blind="Pause per priority (PFC): rdma.pfc sees that.",
        source="ethtool(8), -a",
        reading="net.pause",
        look=Look(judged("net.pause")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=WARNING,
        repair=by_hand("on {node}: ethtool -A the interface, and find what set it"),
        explained_by=(*FOLLOWS_STATE, *OTHER_KERNEL),
    ),
    Rule(
        id="net.queue",
        claim="The interfaces have the same queueing discipline.",
        why="Another discipline delays or shapes what the peers send at once.",
        blind="Settings of the discipline; classes and filters.",
        source="tc(8), ip-link(8) (txqueuelen)",
        reading="net.queue",
        look=Look(judged("net.queue")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=WARNING,
        repair=by_hand(
            "on {node}: tc qdisc show; find what set it (net.core.default_qdisc, a script)"
        ),
        explained_by=(
            *FOLLOWS_STATE,
            Cause("sysctl.common", device="net.core.default_qdisc"),
            *OTHER_KERNEL,
        ),
    ),
    Rule(
        id="net.rings",
        claim="The interfaces queue the same number of frames.",
        why="A short ring loses frames in bursts that its peers take.",
        blind="Interrupt moderation, which drivers adapt by themselves.",
        source="ethtool(8), -g",
        reading="net.rings",
        look=Look(judged("net.rings")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        severity=WARNING,
        repair=by_hand("on {node}: ethtool -G the interface, and find what set it"),
        explained_by=(*FOLLOWS_STATE, *OTHER_KERNEL),
    ),
    Rule(
        id="net.speed",
        claim="The interfaces run at the same speed.",
        why="A link that came up at a tenth of its speed works, slowly, and all wait for it.",
        blind="A speed that is too low on all nodes.",
        source="kernel documentation, ABI/testing/sysfs-class-net (speed, duplex)",
        reading="net.speed",
        look=Look(judged("net.speed")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(detail=which),
        repair=by_hand(
            "in {node}: clean or replace cable and transceiver, look at the switch port"
        ),
        explained_by=(*FOLLOWS_STATE, Cause("rdma.rate")),
    ),
    Rule(
        id="net.state",
        claim="The interfaces of the node's networks are up.",
        why="A rail that is down takes its bandwidth from every job on the node.",
        blind="Interfaces that neither the description names nor a planned address leads to.",
        source="ip-link(8), operstate; interfaces without a link of their own say UNKNOWN",
        reading="net.state",
        look=Look(judged("net.state"), pick=lambda state: "UP" if state == "UNKNOWN" else state),
        expected=same("UP"),
        text=Text(detail=which),
        repair=by_hand("on {node}: ip link set up it; then cable, transceiver and switch port"),
        explained_by=(
            *NOT_READ,
            Cause("rdma.port_state", at=SAME_DEVICE),
            Cause("rdma.port_state", of=Effect(found="DOWN")),
        ),
    ),
)

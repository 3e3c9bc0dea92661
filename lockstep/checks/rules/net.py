"""Rules about network interfaces, addresses and routes."""

from __future__ import annotations

from dataclasses import replace

from lockstep.checks.context import Items, View
from lockstep.checks.looks import made
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.peer_settings import OTHER_KERNEL, OTHER_MACHINE
from lockstep.checks.rule import (
    ERROR,
    SAME_DEVICE,
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Rule,
    Severities,
    Text,
    by_hand,
    by_role,
    each,
    same,
    some,
)
from lockstep.checks.rules._interfaces import (
    ADDRESSES,
    FOLLOWS_STATE,
    NOT_READ,
    by_name,
    by_network,
    held,
    interfaces,
    judged,
    mtus,
    planned,
    purpose,
    which,
)


def _interface(view: View, what: str) -> tuple[Object]:
    """Return the interface that a finding is about."""
    return (Object(ObjectKind.INTERFACE, interfaces(view).get(what, what)),)


def _of_address(view: View, what: str) -> tuple[Object]:
    """Return the interface that should have the address of a purpose, or else has it."""
    kept = {one.purpose: one.name for one in view.plan.interfaces}
    name = kept.get(purpose(what)) or interfaces(view).get(purpose(what), what)
    return (Object(ObjectKind.INTERFACE, name),)


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
    """Return a rule that compares a reading of the interfaces across peers."""
    return Rule(
        id=reading,
        claim=f"Each network interface has the same {what} on all nodes of a hardware class.",
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


SET_MTU = (
    "on {node}: set the MTU of the affected interface to {expected} (ip link), and correct its "
    "configuration"
)

RULES = (
    Rule(
        id="net.address",
        claim="The node has its planned addresses.",
        why="Slurm, NCCL and the other nodes reach the node only at these addresses.",
        blind="Duplicate addresses within the cluster, which net.address_unique finds.",
        source="ip-address(8)",
        reading=ADDRESSES,
        look=Look(made(ADDRESSES, lambda view, read: held(view))),
        expected=each(lambda view: dict(planned(view))),
        repair=by_role(
            "the role network, if it configures the rail",
            roles=by_network,
            no_role=(
                "on {node}: configure the address {expected}; ip address shows the current "
                "addresses"
            ),
        ),
        objects=_of_address,
    ),
    Rule(
        id="net.address_unique",
        claim="No two nodes have the same address.",
        why=(
            "If two nodes share an address, both answer, and some connections reach the wrong node."
        ),
        blind="Machines outside this cluster. Container bridges, which may share an address.",
        source="RFC 5227, RFC 4862 (duplicate addresses)",
        reading="net.addresses",
        look=Look(_address_unique_items),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "find out which of the nodes {node} should have the address, and change it on the "
            "others"
        ),
        explained_by=NOT_READ,
    ),
    Rule(
        id="net.carrier",
        claim="No network link has changed state since the last record.",
        why="A flapping link breaks connections and kills jobs at random times.",
        blind="Link changes before the first record of this boot.",
        source="kernel documentation, ABI/testing/sysfs-class-net (carrier_changes)",
        reading="net.carrier_changes",
        look=Look(by_name("net.carrier_changes")),
        kind=Kind.GROWTH,
        text=Text(lambda value: f"{value} changes"),
        repair=by_hand(
            "on {node}: journalctl -k -g link shows when the link changed; check the cable, the "
            "transceiver and the switch port of {device}"
        ),
        explained_by=(*NOT_READ, Cause("rdma.link_downed")),
    ),
    _alike(
        "net.channels",
        "number of queues",
        why=(
            "With fewer queues, fewer CPUs receive packets, and the busiest CPU limits the "
            "bandwidth."
        ),
        blind="The CPU affinity of the queues, which irq.affinity checks.",
        source="ethtool(8), -l",
        repair=(
            "on {node}: set the number of queues to match its peers (ethtool -L), and find out "
            "what changed it"
        ),
        causes=(
            Cause("cpu.count"),
            *OTHER_KERNEL,
        ),
    ),
    Rule(
        id="net.default_route",
        claim="Default routes use the same interface on all nodes of a hardware class.",
        why=(
            "If the default route is missing or uses the fabric, the node cannot reach name, "
            "package or license servers, or takes the wrong path to them."
        ),
        blind=(
            "The address of the router, which differs from rack to rack; net.gateway compares it "
            "where it is declared. Other routes and routing rules."
        ),
        source="ip-route(8); /proc/net/route, /proc/net/ipv6_route",
        reading="net.default_route",
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: compare the output of ip route show default and ip -6 route show default "
            "with that of a peer"
        ),
        explained_by=(Cause("net.state"), Cause("net.address"), Cause("net.gateway")),
    ),
    _alike(
        "net.driver",
        "driver and firmware",
        why="If drivers or firmware differ, a bug may affect some nodes and not others.",
        blind="The driver's version, which kernel.release and rdma.driver check.",
        source="ethtool(8), -i",
        repair=(
            "on {node}: install the firmware version that its peers run ({expected}) on the "
            "affected adapter, then reset the adapter"
        ),
        causes=(
            Cause("rdma.firmware"),
            *OTHER_KERNEL,
            *OTHER_MACHINE,
        ),
    ),
    Rule(
        id="net.errors",
        claim="Network interfaces have few frame errors.",
        why="A lost frame is often resent only after a timeout, and the whole job waits.",
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
        repair=by_hand("on {node}: clean or replace the cable and the transceiver of {device}"),
        explained_by=(*NOT_READ, Cause("net.carrier", at=SAME_DEVICE)),
    ),
    Rule(
        id="net.mac_unique",
        claim="No two nodes have the same MAC address.",
        why=(
            "If two nodes share a MAC address, a switch sends the frames for both to whichever "
            "node sent last."
        ),
        blind="Interfaces that are on neither the management network nor the fabric.",
        source="IEEE 802, EUI-48",
        reading="net.mac",
        look=Look(judged("net.mac")),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "find out which of the nodes {node} should have the MAC address, and change it on the "
            "others"
        ),
        explained_by=NOT_READ,
    ),
    replace(
        _alike(
            "net.mtu",
            "MTU",
            why=(
                "With a smaller MTU, large packets to and from this node are fragmented or dropped."
            ),
            blind="The MTU of switches. Interfaces that have a different name on the peers.",
            source="ip-link(8)",
            repair="",
            severity=ERROR,
        ),
        expected=some(mtus),
        repair=by_role(
            "the role network, if it configures the rail and its MTU is declared",
            roles=by_network,
            no_role=SET_MTU,
            peers=SET_MTU,
        ),
    ),
    _alike(
        "net.offloads",
        "offloads",
        why=(
            "Without checksum and segmentation offload, one CPU core limits the bandwidth of the "
            "link."
        ),
        blind="Offloads other than rx, tx, sg, tso, gso and gro.",
        source="ethtool(8), -k",
        repair=(
            "on {node}: set the offloads to match its peers (ethtool -K), and find out what "
            "changed them"
        ),
        causes=(*OTHER_KERNEL,),
    ),
    _alike(
        "net.pause",
        "pause frame settings",
        why=(
            "An interface that sends pause frames can stop a whole switch. An interface that "
            "ignores them loses frames."
        ),
        blind="Priority flow control (PFC), which rdma.pfc checks.",
        source="ethtool(8), -a",
        repair=(
            "on {node}: set the pause parameters to match its peers (ethtool -A), and find out "
            "what changed them"
        ),
        causes=(*OTHER_KERNEL,),
    ),
    _alike(
        "net.queue",
        "queueing discipline and transmit queue length",
        why="A different queueing discipline can delay packets that the peers send immediately.",
        blind="The parameters, classes and filters of a queueing discipline.",
        source="tc(8), ip-link(8) (txqueuelen)",
        repair=(
            "on {node}: run tc qdisc show, and find out what set the discipline "
            "(net.core.default_qdisc or a script)"
        ),
        causes=(
            Cause("sysctl.common", device="net.core.default_qdisc"),
            *OTHER_KERNEL,
        ),
    ),
    _alike(
        "net.rings",
        "ring sizes",
        why="A small ring buffer drops frames during bursts.",
        blind="Interrupt moderation, which drivers adjust on their own.",
        source="ethtool(8), -g",
        repair=(
            "on {node}: set the ring sizes to match its peers (ethtool -G), and find out what "
            "changed them"
        ),
        causes=(*OTHER_KERNEL,),
    ),
    _alike(
        "net.speed",
        "speed and duplex mode",
        why="A link at a tenth of its speed still works, but all nodes wait for it.",
        blind="A speed that is too low on all nodes.",
        source="kernel documentation, ABI/testing/sysfs-class-net (speed, duplex)",
        repair=(
            "on {node}: clean or replace the cable and the transceiver of the affected interface, "
            "and check the switch port"
        ),
        severity=ERROR,
        causes=(Cause("rdma.rate"),),
    ),
    Rule(
        id="net.state",
        claim="The interfaces on the management network and the fabric are up.",
        why="If a rail is down, every job on the node loses that rail's bandwidth.",
        blind="Interfaces that the description does not name and that have no planned address.",
        source="ip-link(8), operstate: UNKNOWN if the driver reports no link state",
        reading="net.state",
        look=Look(judged("net.state"), pick=lambda state: "UP" if state == "UNKNOWN" else state),
        expected=same("UP"),
        text=Text(detail=which),
        objects=_interface,
        repair=by_hand(
            "on {node}: bring the affected interface up (ip link), then check the cable, the "
            "transceiver and the switch port"
        ),
        explained_by=(
            *NOT_READ,
            Cause("rdma.port_state", at=SAME_DEVICE),
            Cause("rdma.port_state", of=Effect(found="DOWN")),
        ),
    ),
)

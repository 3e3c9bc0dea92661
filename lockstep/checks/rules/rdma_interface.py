"""The same network interface belongs to each RDMA device as on the peers.

Why      Rails are named by interfaces: two that are swapped send a rail's traffic into another one.
Blind    Cables that are swapped at the switch; devices that are not among the declared ones.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged

READING = "rdma.netdev"

RULE = Rule(
    id="rdma.interface",
    title="RDMA devices have the same network interfaces",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    applies=has_rdma,
    repair="on {node}: compare the names that udev gives (networkctl, /etc/systemd/network) with a "
    "peer's",
    explained_by=(*UNREAD_WITH_COUNT, *OTHER_MACHINE),
    source="rdma(8), rdma link show; systemd.link(5)",
)

"""The RDMA devices sit at the same NUMA nodes.

Why      An adapter at the far socket from its GPU crosses the link between the sockets for each
         byte.
Blind    Where the plan's CPUs are: cpu.numa sees that.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE
from lockstep.checks.rules._rdma import DEVICES, UNREAD_WITH_COUNT, has_rdma, judged

READING = "rdma.numa"
NOWHERE = -1


def _expected(view: View) -> dict[str, JsonValue]:
    """Return that a device sits somewhere, where there is more than one place."""
    wanted = judged(view, READING)
    several = view.plan.hardware.hardware.numa_nodes > 1
    for device, node in view.items(READING).items():
        if several and node == NOWHERE and device in wanted:
            wanted[device] = "0 or above"
    return wanted


RULE = Rule(
    id="rdma.numa",
    title="RDMA devices sit at the same NUMA nodes",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=_expected,
    peers=Peers.CLASS,
    show=lambda value: f"NUMA node {value}",
    applies=has_rdma,
    repair="in {node}: put {device} into the slot that its peers have it in; compare the BIOS",
    explained_by=(*UNREAD_WITH_COUNT, Cause("cpu.numa"), *OTHER_MACHINE),
    source="kernel documentation, ABI/testing/sysfs-bus-pci (numa_node)",
)

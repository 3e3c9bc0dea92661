"""The same number is the same slot on every node of a hardware class.

Why      Files of a topology, rank and adapter bindings name boards by number: on a node with
         another order they bind to the wrong adapter, and nothing says so.
Blind    An order that a program asks for itself (CUDA_DEVICE_ORDER).
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_all
from lockstep.report import Severity

RULE = Rule(
    id="gpu.order",
    title="boards have the same order on all nodes of a class",
    reading="gpu.pci_bus_id",
    kind=Kind.SLOTS,
    devices=DEVICES,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    applies=has_all,
    repair_peers="compare the firmware's PCI settings and slots of {node} with its peers'",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.count"), Cause("gpu.count_pci")),
    source="nvidia-smi --help-query-gpu: an index may change at each boot",
)

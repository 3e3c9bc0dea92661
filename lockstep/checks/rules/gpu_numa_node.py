"""The same slot belongs to the same NUMA node on all nodes of a hardware class.

Why      A firmware setting (NPS, SNC) moves boards to another node; binding goes to the far side.
Blind    A class where all are alike and wrong; boards without a node ("-1"), where all are.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._gpu import PCI_BOARDS, UNREAD_WITH_PCI, on_bus

RULE = Rule(
    id="gpu.numa_node",
    title="boards belong to the same NUMA node as on peers",
    reading="gpu.pci.numa_node",
    devices=PCI_BOARDS,
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    show=lambda node: f"NUMA node {node}",
    applies=on_bus,
    repair_peers="compare the firmware's NUMA settings (NPS, SNC) of {node} with its peers'",
    explained_by=(Cause("cpu.numa"), *UNREAD_WITH_PCI),
    source="/sys/bus/pci/devices/*/numa_node",
)

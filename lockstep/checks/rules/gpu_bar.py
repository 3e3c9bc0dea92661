"""The CPUs see the same share of each board's memory.

Why      A small window ("above 4G decoding" or resizable BAR off) slows transfers down, and some
         adapters cannot reach a board at all.
Blind    A class where all are alike and wrong.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import PCI_BOARDS, UNREAD_WITH_PCI, on_bus

RULE = Rule(
    id="gpu.bar",
    title="one size of the boards' memory window",
    reading="gpu.pci.bar_mib",
    devices=PCI_BOARDS,
    peers=Peers.CLASS,
    show=lambda mib: f"{mib} MiB",
    applies=on_bus,
    repair_peers='compare "above 4G decoding" and "resizable BAR" in the firmware of {node} with '
    "its peers'",
    explained_by=UNREAD_WITH_PCI,
    source="/sys/bus/pci/devices/*/resource; nvidia-smi -q, BAR1",
)

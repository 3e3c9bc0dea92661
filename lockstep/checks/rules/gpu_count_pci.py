"""The PCI bus has as many boards as the hardware class.

Why      A board that the bus lost needs its power or its seat; one that only the driver lost may
         need no more than a reset.
Blind    A board that is on the bus and does not answer.
"""

from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._gpu import LOST, PCI_BOARDS, on_bus
from lockstep.checks.rules.gpu_count import boards, number_of, planned

RULE = Rule(
    id="gpu.count_pci",
    title="the PCI bus has all GPUs of the hardware class",
    reading=PCI_BOARDS,
    look=number_of(PCI_BOARDS),
    expected=planned,
    show=boards,
    applies=on_bus,
    repair="drain {node} and power-cycle it; a board that stays away is reseated or replaced",
    explained_by=(
        Cause("gpu.count"),
        Cause("gpu.count_driver"),
        Cause("gpu.xid", with_grounds=LOST),
    ),
    source="/sys/bus/pci/devices, classes 0300 and 0302 of vendor 10de",
)

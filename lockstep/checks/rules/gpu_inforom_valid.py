"""The information store of every board is intact.

Why      A corrupt store has lost its record of errors: the board is to be replaced.
Blind    A store that is intact and wrong.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, supported

READING = "gpu.inforom.checksum"

RULE = Rule(
    id="gpu.inforom_valid",
    title="the boards' information store is intact",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    expected=lambda view: "valid",
    applies=asks(READING),
    repair="drain {node} and have {device} replaced; the vendor may know of new firmware first",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, inforom.checksum_validation",
)

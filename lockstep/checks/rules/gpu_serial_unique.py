"""No serial number is on two boards.

Why      A warranty claim goes by this number; two boards with one are a mistake in a record.
Blind    Boards without one.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, supported

RULE = Rule(
    id="gpu.serial_unique",
    title="every serial number is on one board",
    reading="gpu.serial",
    devices=DEVICES,
    kind=Kind.UNIQUE,
    pick=supported,
    applies=asks("gpu.serial"),
    repair="compare with the label of the boards in {node}; ask the vendor which number is right",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.uuid_unique")),
    source="nvidia-smi --help-query-gpu, serial",
)

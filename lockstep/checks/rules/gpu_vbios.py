"""All boards of a hardware class have the same firmware.

Why      Firmware decides power and clocks; a replaced board often brings another one.
Blind    A firmware that is equally old everywhere.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus
from lockstep.report import Severity

RULE = Rule(
    id="gpu.vbios",
    title="one board firmware per hardware class",
    reading="gpu.vbios",
    devices=DEVICES,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    applies=has_gpus,
    repair_peers="have the vendor's firmware {expected} flashed on {node}",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, vbios_version",
)

"""Programs address the host's memory from all boards of a class in the same way.

Why      With HMM or ATS a program may use any pointer on a board; elsewhere the same one ends.
Blind    A class where all are alike and wrong.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, supported
from lockstep.report import Severity

READING = "gpu.addressing"

RULE = Rule(
    id="gpu.addressing",
    title="one addressing mode per hardware class",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    peers=Peers.CLASS,
    show=lambda mode: f"addressing mode {mode}",
    severity=Severity.WARNING,
    applies=asks(READING),
    repair_peers="compare kernel and modules (driver.module_flavour) of {node} with its peers'",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("driver.module_flavour"),
        Cause("driver.module_version"),
        Cause("kernel.release"),
    ),
    source="nvidia-smi --help-query-gpu, addressing_mode",
)

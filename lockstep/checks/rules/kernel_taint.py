"""Kernels are tainted alike.

Why      A forced, staging or patched module in one kernel is a difference that no package shows.
Blind    Modules of other makers (bits 0, 12, 13), which every GPU node has, sooner or later.
"""

from pydantic import JsonValue

from lockstep.checks.compare import number
from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._peers import OTHER_KERNEL
from lockstep.report import Severity

KINDS = {
    1: "forced module",
    2: "CPU out of its specification",
    3: "module unloaded by force",
    8: "ACPI table overridden",
    10: "staging driver",
    11: "workaround for the firmware",
    15: "live patch",
}


def _kinds(value: JsonValue) -> JsonValue:
    return [name for bit, name in KINDS.items() if int(number(value)) >> bit & 1]


RULE = Rule(
    id="kernel.taint",
    title="the kernel is tainted like its peers'",
    reading="kernel.tainted",
    pick=_kinds,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    applies=own_kernel,
    repair="on {node}: journalctl -k -g taint says what did it",
    explained_by=OTHER_KERNEL,
    source="kernel documentation, admin-guide/tainted-kernels",
)

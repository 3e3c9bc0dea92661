"""The kernel met no fault that it does not recover from.

Why      After an oops or a machine check the kernel goes on with what is left; nothing works
         surely.
Blind    Warnings (bit 9), which drivers print without harm.
"""

from lockstep.checks.compare import number
from lockstep.checks.rule import Rule
from lockstep.checks.rules._boot import own_kernel

FAULTS = {4: "machine check", 5: "bad page", 7: "oops", 14: "soft lockup"}

RULE = Rule(
    id="kernel.faulted",
    title="the kernel met no fault since boot",
    reading="kernel.tainted",
    pick=lambda value: [name for bit, name in FAULTS.items() if int(number(value)) >> bit & 1],
    expected=lambda view: [],
    applies=own_kernel,
    repair="drain {node}, keep journalctl -k of this boot, then reboot it",
    source="kernel documentation, admin-guide/tainted-kernels",
)

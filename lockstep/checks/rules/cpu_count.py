"""Every node has the CPUs of its hardware class.

Why      Threads switched off in the firmware halve a node without an error anywhere.
Blind    Slower CPUs in the same number.
"""

from pydantic import JsonValue

from lockstep.checks.rule import Rule
from lockstep.spec.names import cpus


def _count(online: JsonValue) -> JsonValue:
    return len(cpus(str(online)))


RULE = Rule(
    id="cpu.count",
    title="the CPUs of the hardware class are online",
    reading="cpu.online",
    pick=_count,
    expected=lambda view: view.plan.hardware.hardware.cpus,
    show=lambda value: f"{value} CPUs",
    repair="check {node}: threads and cores in the firmware, /sys/devices/system/cpu/offline",
    source="kernel documentation, ABI/testing/sysfs-devices-system-cpu",
)

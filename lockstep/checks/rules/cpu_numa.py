"""Each NUMA node has the CPUs that the plan gives it.

Why      Housekeeping CPUs, huge pages and the cores of gres.conf follow the plan: where the
         firmware divides the sockets otherwise, a job is bound to the far side of its GPU.
Blind    Which memory and which boards sit at a node; nodes with memory and no CPU.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.spec.names import cpulist, cpus

NONE = ""


def _look(view: View) -> Items:
    seen = view.items("numa.cpus")
    if "" in seen:
        return seen
    planned = dict.fromkeys(_planned(view), NONE)
    return {**planned, **{f"node{number}": value for number, value in seen.items()}}


def _planned(view: View) -> dict[str, JsonValue]:
    return {f"node{number}": listed for number, listed in enumerate(view.plan.hardware.cpu.numa)}


def _expected(view: View) -> dict[str, JsonValue]:
    return {**dict.fromkeys((node for node in _look(view) if node), NONE), **_planned(view)}


RULE = Rule(
    id="cpu.numa",
    title="NUMA nodes have the planned CPUs",
    reading="numa.cpus",
    look=_look,
    expected_each=_expected,
    pick=lambda value: cpulist(cpus(str(value))),
    show=lambda value: f"CPUs {value}" if value else "no CPUs",
    # Without a kernel of its own a node has the NUMA nodes of the machine below.
    applies=own_kernel,
    repair="correct sockets, numa_nodes or cpu_numbering of the hardware class, or the firmware "
    "settings of {node} (nodes per socket, sub-NUMA clusters)",
    explained_by=(Cause("cpu.count"),),
    source="kernel documentation, ABI/stable/sysfs-devices-node",
)

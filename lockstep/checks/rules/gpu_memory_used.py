"""Nobody holds memory of a board while the scheduler gives it to no job.

Why      What a job left behind takes the memory and the clocks of the next one.
Blind    Nodes with a job, or without a scheduler; a job that starts while nodes are read; divided
         boards (MIG).
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Bound, Kind, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, UNREAD_WITH_MIG, has_whole_gpus
from lockstep.checks.rules._slurm import seen_by_slurm
from lockstep.checks.rules.gpu_clock_idle import UNUSED_MIB
from lockstep.report import Severity


def _idle(view: View) -> bool:
    """Say whether the controller knows of no job there."""
    entry = seen_by_slurm(view)
    return isinstance(entry, dict) and entry.get("state") == ["IDLE"]


RULE = Rule(
    id="gpu.memory_used",
    title="no memory of idle nodes' boards is in use",
    reading="gpu.memory.used_mib",
    kind=Kind.ABSOLUTE,
    devices=DEVICES,
    expected=lambda view: UNUSED_MIB,
    bound=Bound.AT_MOST,
    show=lambda mib: f"{mib} MiB in use",
    severity=Severity.WARNING,
    applies=lambda view: has_whole_gpus(view) and _idle(view),
    repair="on {node}: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; end what "
    "is left of a job",
    explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    source="nvidia-smi --help-query-gpu, memory.used; idle H200: 0 MiB",
)

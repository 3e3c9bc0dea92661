"""Every board has joined the NVLink fabric of its baseboard.

Why      Until the fabric manager has done its work CUDA does not start (error 802).
Blind    Links that are up and give errors; boards before Hopper, which do not tell.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._driver import FABRIC_MANAGER
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, both, in_this_driver
from lockstep.node.check.judge import Judgement
from lockstep.plan import nvidia

STATE, STATUS = "gpu.fabric.state", "gpu.fabric.status"
JOINED = "Completed, Success"
SILENT = ("volta", "turing", "ampere")


def _look(view: View) -> Items:
    return both(view, STATE, STATUS, lambda state, status: f"{state}, {status}")


def _applies(view: View) -> bool:
    gpu, model = view.plan.hardware.hardware.gpu, view.plan.hardware.gpu_model
    if gpu is None or model is None or not gpu.nvswitch or model.architecture in SILENT:
        return False
    return in_this_driver(view, STATE) and in_this_driver(view, STATUS)


RULE = Rule(
    id="gpu.fabric",
    title="the boards have joined their NVLink fabric",
    reading=STATE,
    look=_look,
    devices=DEVICES,
    expected=lambda view: JOINED,
    applies=_applies,
    local=Local.JOBS,
    on_node=lambda view: [Judgement((STATE, STATUS), devices=DEVICES, expected=JOINED)],
    repair="on {node}: journalctl -u nvidia-fabricmanager; when no job runs, restart it, then "
    "reset all boards together (nvidia-smi -r)",
    owner="nvidia_fabric_manager",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("unit.active", device=nvidia.FABRIC_MANAGER),
        Cause("package.version", with_grounds=FABRIC_MANAGER),
        Cause("driver.module_version"),
    ),
    source="NVIDIA fabric manager user guide, nvidia-smi fabric state",
)

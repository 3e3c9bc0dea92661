"""The loaded kernel module works with the declared parameters, else with those of its peers.

Why      One parameter (memory mapping, firmware, power) makes a node behave unlike the others.
Pending  A declared parameter acts after a reboot.
Blind    Parameters that the module does not show; one that all peers have wrong.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import DEPLOY, REBOOT, REBOOT_BY_SLURM, Cause, Kind, Peers, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._driver import DRIVER
from lockstep.checks.rules._gpu import has_gpus
from lockstep.plan.nvidia import MODPROBE
from lockstep.report import Severity


def _declared(view: View) -> dict[str, JsonValue]:
    return {} if view.plan.nvidia is None else dict(view.plan.nvidia.parameters)


RULE = Rule(
    id="driver.parameters",
    title="the driver's parameters are as declared and alike",
    reading="driver.parameters",
    kind=Kind.SLOTS,
    expected_some=_declared,
    peers=Peers.CLASS,
    pending=lambda view, name: name in _declared(view),
    severity=Severity.WARNING,
    applies=lambda view: has_gpus(view) and own_kernel(view),
    repair=f"{DEPLOY}, then {REBOOT}",
    repair_peers="compare /etc/modprobe.d and the kernel's command line of {node} with its peers', "
    f"then {REBOOT_BY_SLURM}",
    owner="nvidia_driver",
    explained_by=(
        Cause("file.content", device=MODPROBE),
        Cause("driver.module_version"),
        Cause("driver.module_flavour"),
        Cause("package.version", with_grounds=DRIVER),
        Cause("package.present", with_grounds=DRIVER),
    ),
    source="/proc/driver/nvidia/params, NVIDIA driver README",
)

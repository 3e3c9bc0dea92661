"""What to look at on each node: the names that its plan mentions, none of its values."""

from __future__ import annotations

from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import PYXIS_OPTION, PYXIS_PLUGIN
from lockstep.plan.nvidia import CHECK_IMAGE
from lockstep.probe.ship import Request


def request(plan: NodePlan, *, containers: bool = False) -> Request:
    """Return the request for one node.

    Args:
        plan: of the node.
        containers: have each engine start one.
    """
    hardware = plan.hardware
    engines = plan.check_engines if containers else ()
    return Request(
        files=paths(plan),
        units=(*plan.units, *plan.masked_units, *plan.forbidden_units),
        sysctls=tuple(plan.sysctl),
        kernel_files=tuple(file.path for file in (*hardware.cpu_files, *hardware.kernel_files)),
        listeners=tuple(f"{one.protocol}/{one.port}" for one in plan.listeners),
        containers=engines,
        check_image=CHECK_IMAGE if engines else "",
        container_devices=("/dev/infiniband",) if engines and "rdma" in plan.capabilities else (),
        spank_plugins=(PYXIS_PLUGIN,) if "pyxis" in plan.capabilities else (),
        srun_options=(PYXIS_OPTION,) if "pyxis" in plan.capabilities else (),
        housekeeping_cpus=hardware.cpu.housekeeping,
    )

"""The plan of a node for programs: names and numbers, as the tools that read them have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.plan.slurm import SlurmNodePlan
from lockstep.spec import Role

if TYPE_CHECKING:
    from lockstep.plan import NodePlan


def of_node(plan: NodePlan) -> dict[str, Any]:
    """Return the node's own part of the plan."""
    hardware = plan.hardware
    return {
        "name": plan.name,
        "role": plan.role.value,
        "runs": [service.value for service in plan.node.runs],
        "hardware": hardware.name,
        "management": plan.address,
        "fabric": [str(address) for address in plan.node.fabric],
        "cpus": {
            "all": hardware.cpu.all,
            "housekeeping": hardware.cpu.housekeeping,
            "workload": hardware.cpu.workload,
            "numa": list(hardware.cpu.numa),
        },
        "hugepages": {
            size: {str(node): pages for node, pages in split.items()}
            for size, split in hardware.hugepages.items()
        },
        "kernel_args": list(plan.kernel_args),
        "kernel_files": {
            file.path: file.value for file in (*hardware.cpu_files, *hardware.kernel_files)
        },
        "sysctl": plan.sysctl,
        "listeners": [f"{one.protocol}/{one.port}" for one in plan.listeners],
        "slurm": _slurm_json(hardware.slurm) if plan.role is Role.WORKER else None,
        "gpus": list(hardware.gpu_devices),
        "packages": {name: plan.versions.get(name) for name in plan.packages},
        "units": list(plan.units),
    }


def _slurm_json(node: SlurmNodePlan) -> dict[str, Any]:
    return {
        "CPUs": node.cpus,
        "CpuSpecList": node.cpu_spec_list,
        "RealMemory": node.real_memory_mib,
        "MemSpecLimit": node.mem_spec_limit_mib,
        "Gres": node.gres,
        "gres.conf": [f"AutoDetect={node.autodetect}"]
        if node.autodetect
        else [f"File={line.file} Cores={line.cores}" for line in node.gres_lines],
    }

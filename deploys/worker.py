"""Workers. The order of the lines is the order on the node."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles import (
    boot_loader,
    container_runtime,
    cpu_sets,
    cuda,
    dcgm,
    dcgm_exporter,
    enroot,
    fabric,
    gpu_settings,
    hugepages,
    kernel,
    munge,
    node_check,
    node_exporter,
    nvidia_driver,
    nvidia_fabric_manager,
    nvidia_imex,
    os_settings,
    packages,
    pyxis,
    rdma,
    slurm_worker,
    time_sync,
)
from lockstep.spec import Role

plan: NodePlan = host.data.plan

if plan.role is Role.WORKER:
    packages.apply(plan=plan)
    os_settings.apply(plan=plan)
    kernel.apply(plan=plan)
    cpu_sets.apply(plan=plan)
    hugepages.apply(plan=plan)
    boot_loader.apply(plan=plan)
    time_sync.apply(plan=plan)
    node_exporter.apply(plan=plan)
    nvidia_driver.apply(plan=plan)
    cuda.apply(plan=plan)
    nvidia_fabric_manager.apply(plan=plan)
    nvidia_imex.apply(plan=plan)
    dcgm.apply(plan=plan)
    dcgm_exporter.apply(plan=plan)
    gpu_settings.apply(plan=plan)
    container_runtime.apply(plan=plan)
    node_check.apply(plan=plan)
    enroot.apply(plan=plan)
    pyxis.apply(plan=plan)
    rdma.apply(plan=plan)
    fabric.apply(plan=plan)
    time_sync.gate(plan=plan)
    munge.apply(plan=plan)
    slurm_worker.apply(plan=plan)

"""Heads. The order of the lines is the order on the node."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles import (
    boot_loader,
    cpu_sets,
    enroot,
    hugepages,
    kernel,
    munge,
    node_exporter,
    os_settings,
    packages,
    prometheus,
    pyxis,
    slurm_accounting,
    slurm_controller,
    time_sync,
)
from lockstep.roles.steps import barrier
from lockstep.spec import Role

plan: NodePlan = host.data.plan

if plan.role is Role.HEAD:
    packages.apply(plan=plan)
    os_settings.apply(plan=plan)
    kernel.apply(plan=plan)
    cpu_sets.apply(plan=plan)
    hugepages.apply(plan=plan)
    boot_loader.apply(plan=plan)
    time_sync.apply(plan=plan)
    node_exporter.apply(plan=plan)
    enroot.apply(plan=plan)
    pyxis.apply(plan=plan)
    time_sync.gate(plan=plan)
    munge.apply(plan=plan)
    slurm_accounting.apply(plan=plan)
    barrier.reached(name="Accounting is up")  # it may be another head than the controller
    slurm_controller.apply(plan=plan)
    prometheus.apply(plan=plan)

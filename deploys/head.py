"""Heads. The order of the lines has no effect: roles declare what they come after."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.operations.apply import apply_roles, roles_of_site
from lockstep.roles.steps import barrier

plan: NodePlan = host.data.plan

ROLES = (
    "boot_loader",
    "cpu_sets",
    "enroot",
    "hugepages",
    "kernel",
    "munge",
    "node_exporter",
    "os_settings",
    "packages",
    "pyxis",
    "slurm_accounting",
    "time_sync",
)
ON_ACCOUNTING = ("prometheus", "slurm_controller")

if not plan.is_worker:
    apply_roles(plan, (*ROLES, *roles_of_site(plan)))
    barrier.reached(name="Accounting is up")  # it may be another head than the controller
    apply_roles(plan, ON_ACCOUNTING)

"""Deploy the heads. The order of ROLES has no effect: each role declares its predecessors."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.operations.apply import apply_roles, roles_of_site
from lockstep.roles.steps import barrier, canary, secrets

plan: NodePlan = host.data.plan

ROLES = (
    "boot_loader",
    "container_runtime",
    "cpu_sets",
    "enroot",
    "firewall",
    "hugepages",
    "kernel",
    "kubernetes_control_plane",
    "kubernetes_gpus",
    "kubernetes_metrics",
    "kubernetes_node",
    "kubernetes_objects",
    "kubernetes_releases",
    "kubernetes_snapshots",
    "kubernetes_virtual_address",
    "munge",
    "network",
    "node_exporter",
    "os_settings",
    "packages",
    "pyxis",
    "selinux",
    "slurm_accounting",
    "time_sync",
)
ON_ACCOUNTING = ("prometheus", "slurm_controller")

canary.begins(plan)
if not plan.is_worker:
    secrets.made(plan)
    apply_roles(plan, (*ROLES, *roles_of_site(plan)))
    barrier.reached(
        name="Accounting is up"
    )  # accounting and the controller may run on different heads
    apply_roles(plan, ON_ACCOUNTING)
canary.checked(name="Heads are done", plan=plan)

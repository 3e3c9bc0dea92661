"""Deploy the workers; new and repaired workers are compared before Slurm resumes them.

The order of ROLES has no effect: each role declares its predecessors.
"""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.operations.apply import apply_roles, roles_of_site
from lockstep.roles.steps import barrier, canary, secrets
from lockstep.roles.steps.comparison import compared, noted
from lockstep.roles.steps.uncordon import uncordoned

plan: NodePlan = host.data.plan

ROLES = (
    "boot_loader",
    "container_runtime",
    "cpu_sets",
    "cuda",
    "dcgm",
    "dcgm_exporter",
    "enroot",
    "fabric",
    "firewall",
    "gpu_settings",
    "hugepages",
    "kernel",
    "kubernetes_node",
    "kubernetes_worker",
    "module_signing",
    "munge",
    "network",
    "node_check",
    "node_exporter",
    "nvidia_driver",
    "nvidia_fabric_manager",
    "nvidia_imex",
    "os_settings",
    "packages",
    "pyxis",
    "rdma",
    "selinux",
    "slurm_worker",
    "time_sync",
)

canary.begins(plan)
if plan.is_worker:
    secrets.required(plan)
    noted(name="Workers that the health check has drained", plan=plan)
    apply_roles(plan, (*ROLES, *roles_of_site(plan)))
barrier.reached(name="Workers are registered")
if plan.is_worker:
    compared(name="Compared with the class", plan=plan)
    if plan.takes_pods:
        uncordoned(name="Takes pods again once it is healthy", plan=plan)
canary.checked(name="Workers are done", plan=plan)

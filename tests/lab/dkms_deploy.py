"""Deploys only NVIDIA's driver: the key, packages, modules, loading."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles.operations.apply import apply_roles

plan: NodePlan = host.data.plan

apply_roles(plan, ("module_signing", "nvidia_driver", "packages"))

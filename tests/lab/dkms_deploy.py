"""NVIDIA's driver alone: packages, modules, load."""

from pyinfra import host

from lockstep.plan import NodePlan
from lockstep.roles import nvidia_driver, packages

plan: NodePlan = host.data.plan

packages.apply(plan=plan)
nvidia_driver.apply(plan=plan)

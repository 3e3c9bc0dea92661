"""The typed description of a cluster: the desired state, and the only source of truth."""

from lockstep.spec.expand import Node, nodes
from lockstep.spec.hardware import HardwareClass
from lockstep.spec.load import load, located
from lockstep.spec.model import Cluster, NodeRole, Service
from lockstep.spec.problem import Problem, message
from lockstep.spec.schedulers import Slurm
from lockstep.spec.validate import every_package

__all__ = [
    "Cluster",
    "HardwareClass",
    "Node",
    "NodeRole",
    "Problem",
    "Service",
    "Slurm",
    "every_package",
    "load",
    "located",
    "message",
    "nodes",
]

"""The typed description of a cluster: the desired state, and the only source of truth."""

from lockstep.spec.expand import Node, nodes
from lockstep.spec.hardware import HardwareClass
from lockstep.spec.load import load, located
from lockstep.spec.model import Cluster, Role, Service, Slurm
from lockstep.spec.problem import Problem, message

__all__ = [
    "Cluster",
    "HardwareClass",
    "Node",
    "Problem",
    "Role",
    "Service",
    "Slurm",
    "load",
    "located",
    "message",
    "nodes",
]

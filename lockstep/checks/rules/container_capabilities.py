"""A container gets the capability files of the MIG instances, and of nothing else.

Why      Without its file a slice cannot be used; with those of mig/config a job could divide the
         boards anew.
Blind    Files that the node itself lacks; IMEX channels, which are asked for by another name.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import (
    BY_HAND,
    UNREAD_WITH_DEVICES,
    asked,
    difference,
    named,
    part,
    unlike_the_node,
)

FILES = "/dev/nvidia-caps/.*"


def _look(view: View) -> Items:
    own = view.read("driver.instance_files")
    seen = part(view, "devices")
    return {engine: unlike_the_node(named(files, FILES), own) for engine, files in seen.items()}


RULE = Rule(
    id="container.capabilities",
    title="containers get the capability files of the MIG instances",
    reading="containers",
    look=_look,
    expected=lambda view: [],
    show=difference,
    applies=asked,
    repair=BY_HAND,
    owner="container_runtime",
    explained_by=(Cause("gpu.mig"), UNREAD_WITH_DEVICES),
    source="NVIDIA Multi-Instance GPU user guide, device nodes and capabilities",
)

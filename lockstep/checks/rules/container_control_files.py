"""A container gets the driver's control files, with the numbers that they have on the node.

Why      CUDA opens nvidiactl and nvidia-uvm. The number of nvidia-uvm is another one after the
         module was loaded anew: a specification from before gives a file that nobody serves.
Blind    Control files that the node itself lacks.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._container import (
    OLD_SPECIFICATION,
    UNREAD_WITH_DEVICES,
    asked,
    difference,
    files_unlike_the_node,
)

FILES = "/dev/(nvidiactl|nvidia-uvm|nvidia-uvm-tools|nvidia-modeset)"

RULE = Rule(
    id="container.control_files",
    title="containers get the driver's control files",
    reading="containers",
    look=lambda view: files_unlike_the_node(view, FILES),
    expected=lambda view: [],
    show=difference,
    applies=asked,
    repair="on {node}: systemctl restart nvidia-cdi-refresh.service",
    owner="container_runtime",
    explained_by=(*OLD_SPECIFICATION, UNREAD_WITH_DEVICES),
    source="NVIDIA/nvidia-container-toolkit, device nodes common to all devices of a specification",
)

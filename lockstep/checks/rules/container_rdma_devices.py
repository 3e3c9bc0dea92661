"""A container that is given the RDMA devices has all that the node has, by number.

Why      NCCL in a container without them falls back to TCP, and says so in its log only.
Blind    Devices that the node itself lacks: rdma.count, rdma.access. Jobs that do not ask for them.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import (
    BY_HAND,
    UNREAD_WITH_DEVICES,
    asked,
    difference,
    files_unlike_the_node,
)
from lockstep.checks.rules._rdma import has_rdma

FILES = "/dev/infiniband/.*"


def _applies(view: View) -> bool:
    return asked(view) and has_rdma(view)


RULE = Rule(
    id="container.rdma_devices",
    title="containers see every RDMA device",
    reading="containers",
    look=lambda view: files_unlike_the_node(view, FILES),
    expected=lambda view: [],
    show=difference,
    applies=_applies,
    repair=BY_HAND,
    owner="container_runtime",
    explained_by=(Cause("rdma.count"), Cause("rdma.access"), UNREAD_WITH_DEVICES),
    source="NCCL user guide, troubleshooting; docker-run(1), --device of a folder",
)

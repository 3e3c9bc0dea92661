"""The drivers of the RDMA devices are set alike.

Why      Steering of flows, virtual functions and RoCE itself are settings of the driver: one
         adapter that was set otherwise behaves otherwise, under load only.
Blind    Settings that only the vendor's tool shows (mlxconfig), and those of kernels that do not
         offer them; nodes without the tool devlink.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, only_difference
from lockstep.checks.rules._rdma import FOLLOWS_COUNT, UNREAD_WITH_COUNT, has_rdma, of_the_fabric
from lockstep.report import Severity

READING = "rdma.settings"


def _look(view: View) -> Items:
    """Return the settings as words, so that those that differ can be named with their values."""
    return {
        device: [f"{name}={value}" for name, value in sorted(found.items())]
        if isinstance(found, dict)
        else found
        for device, found in of_the_fabric(view, READING).items()
    }


RULE = Rule(
    id="rdma.settings",
    title="drivers of RDMA devices are set alike",
    reading=READING,
    kind=Kind.SLOTS,
    look=_look,
    peers=Peers.CLASS,
    words=only_difference,
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="on {node}: devlink dev param set the PCI address of {device} as on its peers, at boot",
    explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_COUNT, *OTHER_KERNEL),
    source="devlink-dev(8); kernel documentation, networking/devlink/mlx5",
)

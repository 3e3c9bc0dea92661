"""The RoCE ports react to marked packets alike.

Why      A port without congestion control takes the bandwidth of the others, until the switch
         drops.
Blind    Parameters of the control itself; drivers that do not show it.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, judged
from lockstep.checks.rules._roce import FOLLOWS_PORT, has_roce

READING = "rdma.ecn"

RULE = Rule(
    id="rdma.ecn",
    title="RoCE ports control congestion alike",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    show=lambda value: f"enabled by priority: {value}",
    applies=has_roce,
    repair="on {node}: write /sys/class/net/*/ecn/roce_np and roce_rp enable as on its "
    "peers, at boot",
    explained_by=FOLLOWS_PORT,
    source="NVIDIA, DCQCN parameters for Linux: /sys/class/net/.../ecn",
)

"""The RoCE ports sort packets into priorities alike.

Why      Packets in the wrong priority are not protected from loss, on this node alone.
Blind    Trust in PCP or DSCP, which only the vendor's tool shows.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, judged
from lockstep.checks.rules._roce import FOLLOWS_PORT, has_roce

READING = "rdma.priorities"

RULE = Rule(
    id="rdma.priorities",
    title="RoCE ports sort packets alike",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    applies=has_roce,
    repair="on {node}: dcb app replace dev (or mlnx_qos --dscp2prio) as on its peers",
    explained_by=FOLLOWS_PORT,
    source="dcb-app(8)",
)

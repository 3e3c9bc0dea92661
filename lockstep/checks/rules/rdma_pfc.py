"""The RoCE ports pause the same priorities.

Why      Without the pause of its priority a port loses packets under load; with a wrong one it
         stops others.
Blind    Settings that only the vendor's tool shows; the switch at the other end.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, judged
from lockstep.checks.rules._roce import FOLLOWS_PORT, has_roce

READING = "rdma.pfc"

RULE = Rule(
    id="rdma.pfc",
    title="RoCE ports pause the same priorities",
    reading=READING,
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    peers=Peers.CLASS,
    applies=has_roce,
    repair="on {node}: dcb pfc set dev (or mlnx_qos --pfc) as on its peers, at boot",
    explained_by=FOLLOWS_PORT,
    source="dcb-pfc(8)",
)

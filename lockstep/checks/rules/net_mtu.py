"""The interfaces have the same MTU.

Why      One smaller MTU splits or drops the large packets of everybody who talks to this node.
Blind    The MTU of switches; interfaces under other names than their peers'.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._net import FOLLOWS_STATE, judged, which

RULE = Rule(
    id="net.mtu",
    title="one MTU per network and hardware class",
    reading="net.mtu",
    look=judged("net.mtu"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    detail=which,
    repair="on {node}: ip link set mtu {expected}, and where its configuration says so",
    explained_by=(*FOLLOWS_STATE,),
    source="ip-link(8)",
)

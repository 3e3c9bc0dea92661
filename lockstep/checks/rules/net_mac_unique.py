"""No hardware address is on two nodes.

Why      Switches send the frames of both to the one that spoke last.
Blind    Interfaces of other networks than the node's own.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._net import UNREAD, judged

RULE = Rule(
    id="net.mac_unique",
    title="every hardware address is used once",
    reading="net.mac",
    look=judged("net.mac"),
    kind=Kind.UNIQUE,
    repair="find out which of {node} should have it and give the other one its own",
    explained_by=UNREAD,
    source="IEEE 802, EUI-48",
)

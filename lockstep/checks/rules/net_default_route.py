"""Packets to everywhere else leave by the same interface.

Why      A node that lost its default route, or has it on the fabric, reaches no server of names,
         packages or licences, or reaches them by the wrong way.
Blind    Routers, which differ from rack to rack; further routes and rules.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule

RULE = Rule(
    id="net.default_route",
    title="default routes leave by the same interface",
    reading="net.default_route",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    repair="on {node}: ip route show default, ip -6 route show default, and what should set them",
    explained_by=(Cause("net.state"), Cause("net.address")),
    source="ip-route(8); /proc/net/route, /proc/net/ipv6_route",
)

"""No address is on two nodes.

Why      Both answer to it: connections end on the wrong node, now and then.
Blind    Machines outside of this cluster; bridges of containers, which may be alike.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._net import ADDRESSES, UNREAD, judged


def _look(view: View) -> Items:
    items: Items = {}
    for what, found in judged(ADDRESSES)(view).items():
        if isinstance(found, list):
            items |= {f"{what} {address}": address for address in found}
        else:
            items[what] = found
    return items


RULE = Rule(
    id="net.address_unique",
    title="every address is used once",
    reading="net.addresses",
    look=_look,
    kind=Kind.UNIQUE,
    repair="find out which of {node} should have it and give the other one its own",
    explained_by=UNREAD,
    source="RFC 5227, RFC 4862 (duplicate addresses)",
)

"""The node has its planned addresses.

Why      Slurm, NCCL and the other nodes reach it under these addresses and no others.
Blind    Whether somebody else has the address too: net.address_unique sees that within the
         cluster.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._net import ADDRESSES, holder, planned
from lockstep.probe.record import Unread

NOWHERE = "on no interface"


def _look(view: View) -> Items:
    read = view.read(ADDRESSES)
    if isinstance(read, Unread):
        return {"": read}
    return {
        what: NOWHERE if holder(view, address) is None else address
        for what, address in planned(view).items()
    }


RULE = Rule(
    id="net.address",
    title="planned addresses are configured",
    reading=ADDRESSES,
    look=_look,
    expected_each=lambda view: dict(planned(view)),
    repair="on {node}: configure {expected} on its interface; ip address shows what is there",
    source="ip-address(8)",
)

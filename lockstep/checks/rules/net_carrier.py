"""The links of the interfaces do not come and go.

Why      A link that flaps ends connections, and jobs with them, at moments that nobody can repeat.
Blind    Flaps before the first record of this boot.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._net import UNREAD, by_name

RULE = Rule(
    id="net.carrier",
    title="links stay up",
    reading="net.carrier_changes",
    look=by_name("net.carrier_changes"),
    kind=Kind.GROWTH,
    show=lambda value: f"{value} changes",
    repair="in {node}: journalctl -k -g 'link' says when; cable, transceiver, switch port of "
    "{device}",
    explained_by=(*UNREAD, Cause("rdma.link_downed")),
    source="kernel documentation, ABI/testing/sysfs-class-net (carrier_changes)",
)

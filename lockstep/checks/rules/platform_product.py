"""The machines of a hardware class are the same product.

Why      Another board has other slots, links and firmware: it belongs into a class of its own.
Blind    Revisions of a board, which most firmware does not tell.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import joined
from lockstep.report import Severity

RULE = Rule(
    id="platform.product",
    title="one product per hardware class",
    reading="platform",
    look=joined("platform", "sys_vendor", "product_name", "board_name"),
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="give {node} a hardware class of its own in the description, or replace it",
    source="kernel documentation, ABI/testing/sysfs-firmware-dmi-tables; SMBIOS 7.2, 7.3",
)

"""The interfaces lose few frames to errors.

Why      Each lost frame is sent again, after a time-out that the whole job waits for.
Blind    Frames that are dropped without an error; counters that only the vendor's tools show.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._net import UNREAD, by_name
from lockstep.report import Severity

RULE = Rule(
    id="net.errors",
    title="few network errors",
    reading="net.errors",
    look=by_name("net.errors"),
    kind=Kind.GROWTH,
    per_hour=10.0,
    show=lambda value: f"{value} errors",
    severity=Severity.WARNING,
    repair="in {node}: clean or replace cable and transceiver of {device}",
    explained_by=(*UNREAD, Cause("net.carrier", same_device=True)),
    source="kernel documentation, networking/statistics (rx_errors, tx_errors)",
)

"""What reads metrics is started alike on all nodes.

Why      An exporter that asks every second on one node makes this node slow, and the whole job
         with it.
Blind    Settings in a collector's own files; how often somebody asks an exporter. Where it listens
         is listener.family's.
"""

import re

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import worker
from lockstep.plan.nvidia import DCGM, DCGM_EXPORTER
from lockstep.report import Severity

SET_BY = {
    "dcgm-exporter": f"/etc/systemd/system/{DCGM_EXPORTER}.d/50-lockstep.conf",
    "prometheus-node-exporter": "/etc/default/prometheus-node-exporter",
}
RUN_BY = {
    "dcgm-exporter": DCGM_EXPORTER,
    "nv-hostengine": DCGM,
    "prometheus-node-exporter": "prometheus-node-exporter.service",
}
LISTENS = re.compile(r"(--web\.listen-address[= ]|-a |--address[= ])\S+(?=:\d)")
"""node_exporter and dcgm-exporter, their options."""


def _look(view: View) -> Items:
    return {name: _common(view, lines) for name, lines in view.items("collectors").items()}


def _common(view: View, lines: Value) -> Value:
    """Return how a collector was started, the node's own address and name taken out."""
    if not isinstance(lines, list):
        return lines
    said = [LISTENS.sub(r"\1ADDRESS", str(line)) for line in lines]
    # Not where it is a part of a longer one: fd00::1 of fd00::10.
    goes_on = r"[\w:]" if view.plan.address_family == "ipv6" else r"[\w.]"
    for own, what, more in (
        (view.plan.address, "ADDRESS", goes_on),
        (view.plan.name, "NAME", r"\w"),
    ):
        if any(own in line for line in said):
            pattern = re.compile(rf"(?<!{more}){re.escape(own)}(?!{more})")
            said = [pattern.sub(what, line) for line in said]
    return [*said]


RULE = Rule(
    id="collector.settings",
    title="collectors run with the same settings",
    reading="collectors",
    look=_look,
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    applies=worker,
    repair="on {node}: systemctl cat the unit of {device}, and ps -C {device} for what no unit "
    "started",
    explained_by=(
        Cause("collector.single", same_device=True),
        *(Cause("file.content", device=file, of_device=name) for name, file in SET_BY.items()),
        *(Cause("unit.active", device=unit, of_device=name) for name, unit in RUN_BY.items()),
    ),
    source="dcgm-exporter and node_exporter, their options",
)

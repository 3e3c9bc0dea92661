"""Rules about metrics collectors and the CPU time of services."""

from __future__ import annotations

import re

from lockstep.checks.cause import SAME_DEVICE, Cause, Effect
from lockstep.checks.compare import number
from lockstep.checks.context import Items, Value, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Bound,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    at_most,
    each,
)
from lockstep.checks.rules._peers import worker
from lockstep.plan.nvidia import DCGM, DCGM_EXPORTER

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


def _settings_items(view: View) -> Items:
    return {name: _common(view, lines) for name, lines in view.items("collectors").items()}


def _common(view: View, lines: Value) -> Value:
    """Return a collector's command lines without the node's own address and name."""
    if not isinstance(lines, list):
        return lines
    said = [LISTENS.sub(r"\1ADDRESS", str(line)) for line in lines]
    # Not inside of a longer address: fd00::1 of fd00::10.
    goes_on = r"[\w:]" if view.plan.address_family == "ipv6" else r"[\w.]"
    for own, what, more in (
        (view.plan.address, "ADDRESS", goes_on),
        (view.plan.name, "NAME", r"\w"),
    ):
        if any(own in line for line in said):
            pattern = re.compile(rf"(?<!{more}){re.escape(own)}(?!{more})")
            said = [pattern.sub(what, line) for line in said]
    return [*said]


MOST = {"nv-hostengine": 1, "dcgm-exporter": 1, "node_exporter": 1, "nvidia-smi": 0}


def _single_items(view: View) -> Items:
    return {
        name: len(lines) if isinstance(lines, list) else lines
        for name, lines in view.items("collectors").items()
    }


def _cpu_items(view: View) -> Items:
    services = view.items("services.cpu_share")
    return {unit: value for unit, value in services.items() if unit not in view.plan.job_parents}


RULES = (
    Rule(
        id="collector.settings",
        claim="Metrics collectors run with the same options on all nodes.",
        why=(
            "An exporter that collects every second on one node slows that node, and with it "
            "the whole job."
        ),
        blind=(
            "Settings in a collector's own files, and how often a server scrapes it. "
            "listener.family judges the address that it listens on."
        ),
        source="dcgm-exporter and node_exporter, their options",
        reading="collectors",
        look=Look(_settings_items),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare the unit of {device} (systemctl cat) with its peers; ps -C "
            "{device} shows processes without a unit"
        ),
        applies=worker,
        explained_by=(
            Cause("collector.single", at=SAME_DEVICE),
            *(
                Cause("file.content", device=file, of=Effect(device=name))
                for name, file in SET_BY.items()
            ),
            *(
                Cause("unit.active", device=unit, of=Effect(device=name))
                for name, unit in RUN_BY.items()
            ),
        ),
    ),
    Rule(
        id="collector.single",
        claim="Each collector runs once, and nvidia-smi does not run in a loop.",
        why=(
            "Two collectors query the GPUs twice, and only one of them can read the profiling "
            "counters."
        ),
        blind="Collectors under another program name, and metrics that a job reads for itself.",
        source="DCGM documentation, profiling: one client at a time",
        reading="collectors",
        look=Look(_single_items),
        kind=Kind.ABSOLUTE,
        expected=each(lambda view: dict(MOST), bound=Bound.AT_MOST),
        text=Text(lambda value: f"{value} running"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: list the processes (ps -C {device} -o pid,ppid,lstart,args) and "
            "end those without a unit"
        ),
    ),
    Rule(
        id="service.cpu",
        claim="No service uses more than a fifth of a CPU.",
        why="Services beside a job take time from it, and all ranks wait for one late core.",
        blind=(
            "Programs outside of services, services of jobs, and services younger than ten "
            "minutes. Recent load of a service after a long quiet time. Machines without "
            "cgroups v2."
        ),
        source="kernel documentation, admin-guide/cgroup-v2 (cpu.stat)",
        reading="services.cpu_share",
        look=Look(_cpu_items),
        kind=Kind.ABSOLUTE,
        expected=at_most(20),
        text=Text(lambda value: f"{number(value):g} % of a CPU"),
        severity=WARNING,
        repair=by_hand("on {node}: run systemd-cgtop, then find out what {device} does"),
        applies=worker,
    ),
)

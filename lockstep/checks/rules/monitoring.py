"""Rules about metrics collectors and the CPU time of services."""

from __future__ import annotations

import re

from lockstep.checks.compare import number
from lockstep.checks.context import Value, View
from lockstep.checks.looks import where
from lockstep.checks.peer_settings import worker
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Bound,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    at_most,
    by_hand,
    each,
)
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
"""The options of node_exporter and dcgm-exporter that set their listen address."""
WITH_PODS = re.compile(r" -k(?= |$)")
"""The option of dcgm-exporter that adds pods to metrics (--kubernetes, pkg/cmd/app.go)."""


def _common(view: View, lines: Value) -> Value:
    """Return a collector's command lines without what is the node's own or its scheduler's."""
    if not isinstance(lines, list):
        return lines
    said = [LISTENS.sub(r"\1ADDRESS", str(line)) for line in lines]
    if view.plan.takes_pods and view.plan.spec.slurm is not None:
        said = [WITH_PODS.sub("", line) for line in said]
    # The match must not be part of a longer address: fd00::1 is part of fd00::10.
    goes_on = r"[\w:]" if view.plan.address_family == "ipv6" else r"[\w.]"
    for own, what, more in (
        (view.plan.address, "ADDRESS", goes_on),
        (view.plan.name, "NAME", r"\w"),
    ):
        if any(own in line for line in said):
            pattern = re.compile(rf"(?<!{more}){re.escape(own)}(?!{more})")
            said = [pattern.sub(what, line) for line in said]
    return [*said]


RULES = (
    Rule(
        id="collector.settings",
        claim="Metrics collectors run with the same options on all workers of a hardware class.",
        why=(
            "An exporter that collects every second on one node slows that node, and with it "
            "the whole job."
        ),
        blind=(
            "Settings in a collector's own files, and how often a server scrapes it. The listen "
            "address, which listener.family checks. Where Slurm and Kubernetes share a cluster, "
            "whether dcgm-exporter adds pods to its metrics (-k)."
        ),
        source="options of dcgm-exporter and node_exporter",
        reading="collectors",
        look=Look(
            lambda view: {
                name: _common(view, lines) for name, lines in view.items("collectors").items()
            }
        ),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare the unit of {device} (systemctl cat) with the same unit on a peer; "
            "ps -C {device} also shows processes that no unit started"
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
        claim="No collector is running twice, and nvidia-smi is not running in a loop.",
        why=(
            "Two collectors query the GPUs twice as often as one, and only one of them can read "
            "the profiling metrics."
        ),
        blind="Collectors with other program names. Metrics that jobs read themselves.",
        source="DCGM documentation, profiling metrics: only one client at a time",
        reading="collectors",
        look=Look(pick=lambda lines: len(lines) if isinstance(lines, list) else lines),
        kind=Kind.ABSOLUTE,
        expected=each(
            lambda view: {
                "nv-hostengine": 1,
                "dcgm-exporter": 1,
                "node_exporter": 1,
                "nvidia-smi": 0,
            },
            bound=Bound.AT_MOST,
        ),
        text=Text(lambda value: f"{value} running"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: list the processes (ps -C {device} -o pid,ppid,lstart,args) and "
            "end those that no unit started"
        ),
    ),
    Rule(
        id="service.cpu",
        claim="No service uses more than a fifth of a CPU.",
        why="A busy service takes CPU time from a job, and all ranks wait for the slowest one.",
        blind=(
            "Programs outside services, services that start jobs, and services that started less "
            "than ten minutes ago. A short burst of load after a long idle period. Machines "
            "without cgroup v2."
        ),
        source="kernel documentation, admin-guide/cgroup-v2 (cpu.stat)",
        reading="services.cpu_share",
        look=Look(
            where("services.cpu_share", lambda view: view.plan.system.job_parents, among=False)
        ),
        kind=Kind.ABSOLUTE,
        expected=at_most(20),
        text=Text(lambda value: f"{number(value):g} % of a CPU"),
        severity=WARNING,
        repair=by_hand("on {node}: run systemd-cgtop, then find out what {device} is doing"),
        applies=worker,
    ),
)

"""Programs that read metrics from the node."""

from __future__ import annotations

import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import below, text_of

COLLECTORS = (
    *(
        "nv-hostengine",
        "dcgm-exporter",
        "node_exporter",
        "prometheus-node-exporter",
        "dcgmproftester",
    ),
    *("telegraf", "collectd", "gpud", "otelcol", "alloy", "netdata", "zabbix_agentd", "atop"),
    *("nvidia_gpu_exporter", "datadog-agent", "fluent-bit", "vector", "gmond", "sadc"),
)
POLLS = re.compile(r"^\S*nvidia-smi(?=\s).*(?:\bdmon\b|\bpmon\b|\s-l(?:ms)?(?:[=\s\d]|$)|--loop)")
"""nvidia-smi in a loop: a collector that somebody left behind."""

INTERPRETED = re.compile(r"^\S*/(?:python|perl|ruby|node|sh|bash)[\d.]*(?: -\S+)* (?=/)")
"""What a script's command line begins with: it is known by its own name."""


def read_collectors(request: Request, commands: Commands) -> Readings:
    """Programs that read metrics from this node: name -> how each of them was started."""
    found: dict[str, list[str]] = {name: [] for name in (*COLLECTORS, "nvidia-smi")}
    for number in below("/proc"):
        if not number.isdigit():
            continue
        try:
            line = " ".join(text_of(f"/proc/{number}/cmdline").split("\0")).strip()
        except Unread:
            continue  # ended meanwhile
        line = INTERPRETED.sub("", line)
        name = os.path.basename(line.split(" ", 1)[0])
        if name in COLLECTORS or POLLS.match(line):
            found[name].append(" ".join([*dcgm_variables(number), line]))
    return {"collectors": {name: sorted(lines) for name, lines in found.items()}}


def dcgm_variables(number: str) -> list[str]:
    """Return what dcgm-exporter takes from its environment, among it the interval."""
    try:
        words = text_of(f"/proc/{number}/environ").split("\0")
    except Unread:
        return []
    return sorted(word for word in words if word.startswith("DCGM_"))

"""Programs on the node that collect metrics."""

from __future__ import annotations

import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import command_lines, text_of

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
"""Command line of a repeating nvidia-smi query, which also counts as a collector."""

INTERPRETED = re.compile(r"^\S*/(?:python|perl|ruby|node|sh|bash)[\d.]*(?: -\S+)* (?=/)")
"""The interpreter at the beginning of a script's command line; the script's path follows."""


def read_collectors(request: Request, commands: Commands) -> Readings:
    """The metric collectors that are running: name -> command lines."""
    found: dict[str, list[str]] = {name: [] for name in (*COLLECTORS, "nvidia-smi")}
    for process, words in command_lines():
        line = INTERPRETED.sub("", words.replace("\0", " ").strip())
        name = os.path.basename(line.split(" ", 1)[0])
        if name in COLLECTORS or POLLS.match(line):
            found[name].append(" ".join([*dcgm_variables(process), line]))
    return {"collectors": {name: sorted(lines) for name, lines in found.items()}}


def dcgm_variables(process: str) -> list[str]:
    """Return a process's DCGM_* environment variables, such as dcgm-exporter's interval."""
    try:
        words = text_of(f"{process}/environ").split("\0")
    except Unread:
        return []
    return sorted(word for word in words if word.startswith("DCGM_"))

"""Writes the results for the textfile collector of the Prometheus node exporter."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable

from lockstep.node.check.judge import Judgement, Result

HELP = {
    "failed": "Devices on this node that fail the rule.",
    "unread": "Devices whose value could not be read. They count neither as failed nor as passed.",
    "time_seconds": "Unix time of the last node check, in seconds.",
    "duration_seconds": "Duration of the last node check, in seconds.",
    "cpu_seconds": "CPU time of the last node check and the commands that it ran, in seconds.",
}


def text(judgements: Iterable[Judgement], results: list[Result], duration_s: float) -> str:
    """Return the metrics of one run; a rule without failures has the value 0."""
    failed = Counter(one.rule for one in results if not one.unread)
    unread = Counter(one.rule for one in results if one.unread)
    rules = sorted({one.rule for one in judgements})
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
    samples = {
        "failed": [f'{{rule="{rule}"}} {failed[rule]}' for rule in rules],
        "unread": [f'{{rule="{rule}"}} {unread[rule]}' for rule in rules],
        "time_seconds": [f" {time.time():.3f}"],
        "duration_seconds": [f" {duration_s:.3f}"],
        "cpu_seconds": [f" {cpu_s:.3f}"],
    }
    lines = []
    for short, values in samples.items():
        name = f"lockstep_node_check_{short}"
        lines += [f"# HELP {name} {HELP[short]}", f"# TYPE {name} gauge"]
        lines += [name + value for value in values]
    return "\n".join(lines) + "\n"


def write(path: str, content: str) -> None:
    """Replace the file atomically, so that the exporter never reads an incomplete file."""
    new = f"{path}.lockstep-new"  # the exporter reads only *.prom
    with open(new, "w", encoding="utf-8") as file:
        file.write(content)
    os.chmod(new, 0o644)
    os.replace(new, path)

"""Results as text for Prometheus' node exporter (its textfile collector)."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable

from lockstep.node.check.judge import Judgement, Result

HELP = {
    "failed": "Devices that a rule finds wrong on this node.",
    "unread": "Devices of which a rule does not know: never the same as right.",
    "time_seconds": "When the node judged itself, in seconds since 1970.",
    "duration_seconds": "How long that took.",
    "cpu_seconds": "CPU time of it, with the commands that it ran.",
}


def text(judgements: Iterable[Judgement], results: list[Result], duration_s: float) -> str:
    """Return the metrics of one run: every rule, also where nothing is wrong."""
    failed = Counter(one.rule for one in results if not one.unread)
    unread = Counter(one.rule for one in results if one.unread)
    rules = sorted({one.rule for one in judgements})
    lines = []
    for name, counted in (("failed", failed), ("unread", unread)):
        lines += _described(name)
        lines += [f'{_name(name)}{{rule="{rule}"}} {counted[rule]}' for rule in rules]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    values = {
        "time_seconds": time.time(),
        "duration_seconds": duration_s,
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in used),
    }
    for name, value in values.items():
        lines += [*_described(name), f"{_name(name)} {value:.3f}"]
    return "\n".join(lines) + "\n"


def write(path: str, content: str) -> None:
    """Replace the file whole: the exporter never reads half of it."""
    new = f"{path}.lockstep-new"  # the exporter reads *.prom only
    with open(new, "w", encoding="utf-8") as file:
        file.write(content)
    os.chmod(new, 0o644)
    os.replace(new, path)


def _name(name: str) -> str:
    return f"lockstep_node_check_{name}"


def _described(name: str) -> list[str]:
    return [f"# HELP {_name(name)} {HELP[name]}", f"# TYPE {_name(name)} gauge"]

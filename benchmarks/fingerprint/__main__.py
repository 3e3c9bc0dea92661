"""Reads one node with and without the fingerprint in turn, and compares the cost with the limit.

    python -m benchmarks.fingerprint INVENTORY NODE [--files N] [--repeat N] [--no-kept] -- WORDS...

WORDS start a root shell on the node: ``ssh worker1 sudo``, or ``python -m lab run worker1 --``. The
node gets files below /etc until it has --files of them; they are removed at the end. With
--no-kept, the probe finds a node that Lockstep does not deploy, and keeps nothing. Exit status: 0
within the limit, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.command_line import node_of, whole
from benchmarks.fingerprint import on_node
from lockstep.fleet.request import own, request
from lockstep.plan import NodePlan
from lockstep.probe.parse import parse
from lockstep.probe.record import Unread
from lockstep.probe.ship import with_input

MOST_CPU_S = 0.25
"""CPU seconds that the fingerprint may add."""
WITH, WITHOUT = "with", "without"
COUNTED = {
    "the probe and its programs": ("probe",),
    "PID 1": ("PID 1",),
    "dbus": ("dbus.service", "dbus-broker.service"),
}
"""What the limit is for -> names in the answer of ``on_node``."""
SERVICES = "all other services"
SUM = "sum, without other services"


NOT_DEPLOYED = (
    "unshare --mount sh -c 'test ! -d {0} || mount -t tmpfs tmpfs {0}; exec sh -c \"$1\"' sh"
).format("/var/lib/lockstep")
"""Hides from a command, its argument, that Lockstep deploys the node (unshare(1))."""


@dataclass(frozen=True)
class Answer:
    """What was measured."""

    costs: dict[str, list[dict[str, float]]]
    """WITH or WITHOUT -> CPU seconds of each run, by process or service."""
    bytes: int
    """Length of the fingerprint in the record, in bytes."""


def measured(
    way: list[str], node: NodePlan, files: int, repeat: int, *, keeps: bool = True
) -> Answer:
    """Return the costs of reading a node, measured on the node.

    Args:
        way: the words that start a root shell on the node.
        node: the plan of the node.
        files: how many files /etc gets.
        repeat: how often the node is read in each way.
        keeps: whether the probe finds that Lockstep deploys the node, and keeps what it compiled.

    Raises:
        ValueError: the node could not be read, or its fingerprint lacks a domain.
    """
    asked = request(node, fingerprint=True)
    commands = {
        WITHOUT: request(node),
        WITH: replace(asked, own=own(node)),
    }
    question = {
        "files": files,
        "repeat": repeat,
        "commands": {
            name: (
                line if keeps else f"{NOT_DEPLOYED} {shlex.quote(line)}",
                "".join(f"{row}\n" for row in rows),
            )
            for name, (line, rows) in ((n, with_input(r)) for n, r in commands.items())
        },
    }
    program = Path(on_node.__file__).read_text(encoding="utf-8")
    # ssh(1) joins its arguments with spaces, and the node's shell splits them.
    last = shlex.quote(program) if way[:1] == ["ssh"] else program
    done = subprocess.run(
        [*way, "python3", "-IS", "-c", last],
        input=json.dumps(question) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = (done.stderr or done.stdout)[-300:]
        raise ValueError(f"exit status {done.returncode}: {said}") from None
    taken = parse(answer["outputs"][WITH]).readings["fingerprint"]
    if isinstance(taken, Unread):
        raise ValueError(f"the fingerprint was not read: {taken.unread}")
    found: Any = taken.value
    if found["unread"]:
        raise ValueError(f"domains of the fingerprint were not read: {found['unread']}")
    return Answer(answer["costs"], len(json.dumps(found, separators=(",", ":"))))


def rows(answer: Answer) -> dict[str, tuple[float, float, float]]:
    """Return median CPU seconds without and with the fingerprint, and of the difference."""
    every = {name for runs in answer.costs.values() for run in runs for name in run}
    listed = {name for names in COUNTED.values() for name in names}
    parts = {**COUNTED, SERVICES: tuple(every - listed), SUM: tuple(listed)}
    found = {}
    for part, names in parts.items():
        without, with_ = (
            [sum(run.get(name, 0.0) for name in names) for run in answer.costs[kind]]
            for kind in (WITHOUT, WITH)
        )
        added = [more - less for less, more in zip(without, with_, strict=True)]
        found[part] = (
            statistics.median(without),
            statistics.median(with_),
            statistics.median(added),
        )
    return found


def table(answer: Answer) -> str:
    """Return the costs as Markdown."""
    lines = [
        "| CPU seconds, median | without | with the fingerprint | added |",
        "|---|---|---|---|",
        *(
            f"| {part} | {without:.3f} | {with_:.3f} | {added:.3f} |"
            for part, (without, with_, added) in rows(answer).items()
        ),
        "",
        f"limit {MOST_CPU_S:g}; the fingerprint has {answer.bytes} bytes",
    ]
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.fingerprint")
    parser.add_argument("inventory")
    parser.add_argument("node")
    parser.add_argument("--files", type=whole(0), default=5000, help="files below /etc")
    parser.add_argument("--repeat", type=whole(1), default=10)
    parser.add_argument("--no-kept", action="store_true", help="as on a node of another tool")
    parser.add_argument("way", nargs="+", help="command that starts a root shell on the node")
    # argparse removes "--" from the command as well, in some versions of Python.
    end = words.index("--") + 1 if "--" in words else len(words)
    asked = parser.parse_args([*words[:end], *words[end : end + 1]])
    asked.way += words[end + 1 :]
    node = node_of(parser, asked)
    try:
        answer = measured(asked.way, node, asked.files, asked.repeat, keeps=not asked.no_kept)
    except ValueError as failure:
        sys.exit(f"{asked.node} could not be read with {shlex.join(asked.way)}: {failure}")
    sys.stdout.write(table(answer))
    return int(rows(answer)[SUM][2] > MOST_CPU_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

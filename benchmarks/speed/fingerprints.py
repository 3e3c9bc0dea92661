"""Measures what fingerprints add to a check of thousands of simulated nodes, and one changed byte.

    python -m benchmarks.speed.fingerprints [--nodes 2000] [--repeat 3] [--json FILE]

The nodes are those of ``benchmarks.speed.simulation``. Their fingerprints are real: the probe takes
one of this machine, and every node answers with it. Objects that contain an identity get hashes of
their own on each node, as files that name the node do. The cluster is checked with and without
fingerprints in turn. Then one byte of one file of one node is changed, with the size and the time
of the file as before, and the cluster is checked once more. Exit status: 0 if fingerprints cost at
most 1.2 times as much, and the byte is one finding after a further question to two nodes; 1
otherwise. Needs root.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from benchmarks.command_line import end_as_interrupted, new_file, whole
from benchmarks.speed import peers, simulation
from benchmarks.speed.errors import BenchmarkError
from benchmarks.speed.figures import figure
from benchmarks.speed.machine import machine
from benchmarks.speed.meter import Cost
from benchmarks.speed.peers import Peers
from lockstep.checks.fingerprint.places import DIGITS
from lockstep.fleet.request import own, request
from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.parse import parse
from lockstep.probe.record import FINGERPRINT, Taken
from lockstep.probe.ship import with_input

MOST = 1.2
"""A check with fingerprints may cost at most so many times a check without them."""
WITH, WITHOUT = "with fingerprints", "without"
OPTIONS = {WITHOUT: ("--no-fingerprint",), WITH: ()}
DOMAIN, FILE = "file", "simulated/equal.conf"
"""The domain and the file below /etc in which a byte is changed."""
NODE = Path(__file__).with_name("simulated_node.sh")


@dataclass(frozen=True)
class Byte:
    """What a check found after one byte had changed."""

    findings: tuple[str, ...]
    further: int
    """Nodes that got a further question."""
    executions: int
    """Commands on all nodes."""

    @property
    def is_right(self) -> bool:
        """Whether it is one finding, after a further question to two nodes."""
        named = [line for line in self.findings if f"/etc/{FILE}" in line]
        return len(self.findings) == len(named) == 1 and self.further == 2


def taken(folder: Path, node: NodePlan, domains: Sequence[str]) -> dict[str, Any]:
    """Take the fingerprint of this machine as a node; return it without what it has not read.

    It is asked like a further question about these domains, so that nothing else is read.

    Raises:
        BenchmarkError: it could not be taken.
    """
    buckets = tuple((domain, "#0") for domain in domains)
    _, lines = with_input(replace(request(node, asked=buckets), own=own(node)))
    words = [str(NODE), str(folder / "trees"), node.name, node.address]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"no fingerprint of this machine: {done.stderr.strip()[-300:]}")
    reading = parse(done.stdout).readings[FINGERPRINT]
    if not isinstance(reading, Taken) or not isinstance(reading.value, dict):
        raise BenchmarkError(f"no fingerprint of this machine: {reading}")
    # A machine without systemd lacks some domains. A real node has them.
    return {**reading.value, "unread": {}}


def as_on(name: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fingerprint of an equal node: only objects with an identity have other hashes."""
    value = copy.deepcopy(dict(template))
    for domain, objects in value["touched"].items():
        for called, hashes in objects.items():
            text = f"{name} {domain} {called}".encode()
            hashes[0] = blake2b(text, digest_size=8).hexdigest()
    return value


def write(folder: Path, plan: ClusterPlan, template: Mapping[str, Any]) -> int:
    """Write the records of all nodes with their fingerprints; return the length of one."""
    (folder / "fingerprints").mkdir(exist_ok=True)
    for name, node in plan.nodes.items():
        _write(folder, node, as_on(name, template))
    return len(json.dumps(template, separators=(",", ":")))


def _write(folder: Path, node: NodePlan, value: Mapping[str, Any]) -> None:
    text = (folder / "records" / node.address).read_text(encoding="utf-8")
    start, readings, rest = text.partition('"readings":{')
    more = json.dumps({FINGERPRINT: {"value": value}, f"{FINGERPRINT}.branches": {"value": {}}})
    file = folder / "fingerprints" / node.address
    file.write_text(f"{start}{readings}{more[1:-1]},{rest}", encoding="utf-8")


def change_a_byte(folder: Path, node: NodePlan, template: Mapping[str, Any]) -> None:
    """Change one byte of a file of a node, and its fingerprint; its size and its time stay.

    Raises:
        BenchmarkError: the fingerprint did not change, or other files changed meanwhile.
    """
    file = folder / "trees" / node.name / FILE
    was = file.stat()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    # Other domains may change on this machine meanwhile; no simulated node has that.
    changed, usual = taken(folder, node, [DOMAIN])["sums"][DOMAIN], template["sums"][DOMAIN]
    differ = [at for at in range(len(usual)) if changed[at] != usual[at]]
    if len({at // DIGITS for at in differ}) != 1:
        raise BenchmarkError("more or less than one hash differs after one byte has changed")
    value = as_on(node.name, template)
    _write(folder, node, {**value, "sums": {**value["sums"], DOMAIN: changed}})


def byte(folder: Path, nodes: int) -> Byte:
    """Check the cluster in which a byte has changed.

    Raises:
        BenchmarkError: some nodes were not read.
    """
    questions = folder / "questions"
    before = len(questions.read_text().splitlines())
    _, report = simulation.check(folder, nodes)
    kinds = [line.split()[0] for line in questions.read_text().splitlines()[before:]]
    found = tuple(line for line in report if " fingerprint." in line)
    return Byte(found, kinds.count("further"), len(kinds))


def measure(nodes: int, repeat: int, found: Peers) -> tuple[list[dict[str, Any]], Byte, int]:
    """Return the costs of all checks, what one changed byte gave, and the bytes of a fingerprint.

    Raises:
        BenchmarkError: a check did not read all nodes.
    """
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="benchmark-fingerprints-") as name:
        folder = Path(name)
        plan = simulation.write(folder, nodes)
        prefix = str(plan.spec.networks["management"].prefix)
        odd = list(plan.nodes.values())[nodes // 2]
        template = taken(folder, odd, [domain.name for domain in DOMAINS])
        length = write(folder, plan, template)
        with simulation.answered(folder, prefix, found):
            for number in range(repeat + 1):
                for case, options in OPTIONS.items():
                    cost, report = simulation.check(folder, nodes, *options)
                    runs.append({"case": case, "number": number, **asdict(cost)})
                    text = f"{case}: {cost.wall_s:.1f} s, {cost.cpu_s:.1f} CPU s, {report[-1]}"
                    print(text, file=sys.stderr, flush=True)
        change_a_byte(folder, odd, template)
        with simulation.answered(folder, prefix, found):
            seen = byte(folder, nodes)
    return runs, seen, length


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Cost]:
    """Return the median costs with and without fingerprints, without the runs that warm up."""
    return {
        case: Cost(
            0,
            **{
                what: statistics.median(
                    run[what] for run in runs if run["number"] and run["case"] == case
                )
                for what in ("wall_s", "cpu_s", "peak_mib")
            },
        )
        for case in OPTIONS
    }


def table(costs: Mapping[str, Cost]) -> str:
    """Return the costs and their ratios as Markdown."""
    rows = ["| | wall s | CPU s | MiB at most |", "|---|---:|---:|---:|"]
    for case, cost in costs.items():
        cells = map(figure, (cost.wall_s, cost.cpu_s, cost.peak_mib))
        rows.append(f"| {case} | {' | '.join(cells)} |")
    rows.append(f"| ratio | {' | '.join(f'{one:.2f}' for one in ratios(costs))} |")
    return "\n".join(rows)


def ratios(costs: Mapping[str, Cost]) -> tuple[float, float, float]:
    """Return how many times as much a check with fingerprints costs: wall, CPU and memory."""
    more, less = costs[WITH], costs[WITHOUT]
    return (
        more.wall_s / less.wall_s,
        more.cpu_s / less.cpu_s,
        more.peak_mib / less.peak_mib,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="benchmarks.speed.fingerprints")
    parser.add_argument("--nodes", type=whole(4), default=2000, help="nodes, including the head")
    parser.add_argument("--repeat", type=whole(1), default=3, help="runs after the warm-up")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all runs as JSON")
    asked = parser.parse_args(words)
    found = peers.ensure()
    if isinstance(found, str):
        sys.exit(f"asyncssh could not be installed: {found}")
    try:
        runs, seen, length = measure(asked.nodes, asked.repeat, found)
    except BenchmarkError as failure:
        sys.exit(str(failure))
    costs = medians(runs)
    about = {**machine(found), "command": shlex.join(["python", "-m", str(__spec__.name), *words])}
    print(f"`{about['command']}`\n\n{table(costs)}\n")
    print(f"{asked.nodes} nodes, a fingerprint has {length} bytes. After one byte has changed:")
    print("\n".join(seen.findings))
    print(f"{seen.executions} executions, {seen.further} of them further questions")
    if asked.json:
        content = {**about, "runs": runs, "bytes": length, "byte": asdict(seen)}
        asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return int(not seen.is_right or max(ratios(costs)[1:]) > MOST)


if __name__ == "__main__":
    end_as_interrupted()
    sys.exit(main())

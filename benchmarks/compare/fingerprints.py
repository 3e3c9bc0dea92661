"""Judges the fingerprints of many simulated nodes, all equal but a few, and prints the cost.

    python -m benchmarks.compare.fingerprints [--nodes 10000] [--odd 20]

The records are made in memory and not measured. All rules judge them, with fingerprints and then
without them; the first of both also renders the files. Each odd node has another content of one
file. Exit status: 0 if rules and fingerprints take less than a minute of CPU time and each odd node
has its finding, 1 otherwise.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.command_line import whole
from benchmarks.speed.fingerprints import as_on
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.fingerprint.findings import BRANCHES, READING
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.fleet.request import Asked
from lockstep.inventory import planned
from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.slow import SLOW
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record, Taken, only_records
from lockstep.reading import with_branches
from lockstep.roles import declared
from lockstep.spec import load
from tests.checks import recorded

MOST_CPU_S = 60.0
HOSTS = "hosts.entries"
"""The largest reading, the same on all nodes: it grows with their number."""
PLAIN, OWN = 200, 2
"""Objects of each domain: without an identity, and with one."""
FILE, USUAL, ODD = "/etc/3", "equal\n", "odd\n"


@dataclass(frozen=True)
class Cost:
    """Cost of judging all nodes."""

    case: str
    cpu_s: float
    wall_s: float
    findings: int


def shown(content: str, wanted: Asked = ()) -> Fingerprint:
    """Return the fingerprint of a node with this content of one file."""
    asked: dict[str, list[str]] = {}
    for wanted_domain, place in wanted:
        asked.setdefault(wanted_domain, []).append(place)
    taken = Fingerprint(Own({"name": ["simulated1"]}), b"k" * 32, asked)
    for domain in (*DOMAINS, *SLOW):

        def read(request: Request, commands: Commands, of: Domain = domain) -> Iterator[Entry]:
            for number in range(PLAIN if of.name != "running" else 0):
                name = f"/etc/{number}"
                fields: Fields = {"content": content if (of.name, name) == ("file", FILE) else "a"}
                yield Entry(name, fields)
            for number in range(OWN if of.name != "running" else 0):
                yield Entry(f"own{number}", {"content": "simulated1"})

        taken.read(domain._replace(read=read), {}, Commands())
    taken.slow = dict.fromkeys((domain.name for domain in SLOW), 0.0)
    return taken


def written(nodes: int, odd: frozenset[int]) -> Context:
    """Return a cluster; the nodes with the numbers in ``odd`` differ."""
    description = copy.deepcopy(recorded.DESCRIPTION)
    description["nodes"][1]["name"] = f"worker[1-{nodes - 1}]"
    cluster, problems = load(description, declared())
    assert cluster is not None, problems
    plan = planned(cluster)
    reading: Reading = {}
    usual, other = shown(USUAL).answer(), shown(ODD).answer()
    hosts: Taken | None = None
    for number, (name, node) in enumerate(plan.nodes.items()):
        raw = recorded.raw_record(node)
        hosts = hosts or Taken(value=raw["readings"][HOSTS]["value"])
        del raw["readings"][HOSTS]
        text = json.dumps(as_on(name, other if number in odd else usual))  # none shares an object
        more = {HOSTS: hosts, READING: Taken(value=json.loads(text)), BRANCHES: Taken(value={})}
        reading[name] = _with(recorded.parsed(raw), more)
    return replace(recorded.context(plan, {}), reading=reading, before=earlier(reading))


def earlier(reading: Reading) -> dict[str, Record]:
    """Return the records of an hour ago, which were the same."""
    return {
        name: record.model_copy(update={"taken_at": record.taken_at - 3600})
        for name, record in only_records(reading).items()
    }


def _with(record: Record, more: Mapping[str, Taken]) -> Record:
    return record.model_copy(update={"readings": {**record.readings, **more}})


def judged(context: Context, odd: frozenset[int], fingerprints: bool) -> Cost:
    """Judge all nodes."""
    numbers = {name: number for number, name in enumerate(context.plan.nodes)}

    def ask(plan: ClusterPlan, wanted: Mapping[str, Asked]) -> Reading:
        answers: Reading = {}
        for name, wants in wanted.items():
            fields: Any = shown(ODD if numbers[name] in odd else USUAL, wants).branches
            record = context.reading[name]
            assert isinstance(record, Record)
            answers[name] = _with(record, {BRANCHES: Taken(value=fields)})
        return answers

    rules = [one for one in all_rules() if fingerprints or not one.id.startswith(FAMILY)]
    cpu, wall = time.process_time(), time.monotonic()
    start = replace(context)  # nothing is known from the run before
    if fingerprints:
        start = replace(start, reading=with_branches(start.plan, start.reading, ask))
    found = check(rules, start).findings
    case = "with fingerprints" if fingerprints else "without"
    return Cost(case, time.process_time() - cpu, time.monotonic() - wall, len(found))


def main(words: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare.fingerprints")
    parser.add_argument("--nodes", type=whole(4), default=10000, help="nodes, including the head")
    parser.add_argument("--odd", type=whole(0), default=20, help="nodes that differ")
    asked = parser.parse_args(words)
    # Evenly spread workers; number 0 is the head.
    odd = frozenset(1 + n * (asked.nodes - 1) // asked.odd for n in range(asked.odd))
    gc.disable()
    context = written(asked.nodes, odd)
    gc.freeze()
    gc.enable()
    more, less = (judged(context, odd, fingerprints) for fingerprints in (True, False))
    rows = [
        f"| {cost.case} | {cost.cpu_s:.1f} | {cost.wall_s:.1f} | {cost.findings} |"
        for cost in (less, more)
    ]
    print(f"{asked.nodes} nodes, {asked.odd} of them odd\n")
    print("\n".join(["| | CPU s | wall s | findings |", "|---|---:|---:|---:|", *rows]))
    named = more.findings - less.findings
    return int(more.cpu_s > MOST_CPU_S or named != asked.odd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

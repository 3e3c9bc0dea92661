"""Measures `lockstep check` with thousands of simulated nodes: one ssh server on all addresses.

    python -m benchmarks.speed.simulation [--nodes 10,100,500,2000] [--repeat 3] [--json FILE]

Connections, keys and executions are real; one server listens on 2,000 addresses in a network
namespace and answers with records from tests/captures. Reading a node takes no time here, so this
measures only the control host. Needs root.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from benchmarks.command_line import end_as_interrupted, new_file, several, whole
from benchmarks.speed import meter, peers
from benchmarks.speed.bench import WITHIN_S
from benchmarks.speed.errors import BenchmarkError
from benchmarks.speed.figures import figure
from benchmarks.speed.machine import machine
from benchmarks.speed.meter import Cost
from benchmarks.speed.network import ip
from benchmarks.speed.paths import program
from benchmarks.speed.peers import Peers
from lockstep.plan import ClusterPlan
from lockstep.probe.lines import MARKER
from lockstep.probe.record import only_records
from tests.checks.recorded import clustered

NAMESPACE = "lockstep-simulation"
INVENTORY = '''\
"""Nodes simulated by one ssh server."""

import json
from pathlib import Path

from lockstep.inventory import plan_or_exit

_text = Path(__file__).with_name("description.json").read_text(encoding="utf-8")
_cluster = plan_or_exit(json.loads(_text), __file__)

head = _cluster.group("head")
worker = _cluster.group("worker")
'''


@dataclass(frozen=True)
class Size:
    """Median costs of a check of this number of nodes."""

    nodes: int
    wall_s: float
    cpu_s: float
    peak_mib: float

    def row(self, first: Size) -> str:
        """Return a line of the table; growth is relative to linear growth from the first size."""
        more = self.nodes / first.nodes
        each_mib = (self.peak_mib - first.peak_mib) / (self.nodes - first.nodes or 1)
        cells = [
            str(self.nodes),
            *map(figure, (self.wall_s, self.cpu_s, 1000 * self.cpu_s / self.nodes)),
            *map(figure, (self.wall_s / first.wall_s / more, self.cpu_s / first.cpu_s / more)),
            *(figure(self.peak_mib), figure(each_mib if self is not first else None)),
        ]
        return f"| {' | '.join(cells)} |"


SERVER = Path(__file__).with_name("answering.py")
FIRST_LINES = 6
HEADER = (
    "| nodes | wall s | CPU s | CPU ms/node | wall, against so many times the first "
    "| CPU, the same | MiB at most | MiB per further node |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)


def write(folder: Path, nodes: int) -> ClusterPlan:
    """Write the inventory of a cluster, its keys and the record of each node.

    Args:
        folder: a new folder.
        nodes: number of heads and workers.
    """

    def change(description: dict[str, Any]) -> None:
        description["nodes"][1]["name"] = f"worker[1-{nodes - 1}]"
        description["access"] = {
            "user": "ops",
            "key": str(folder / "key"),
            "known_hosts": str(folder / "known_hosts"),
        }
        description |= {"secrets_dir": str(folder), "records_dir": str(folder)}
        (folder / "description.json").write_text(json.dumps(description))

    (folder / "records").mkdir(parents=True)
    for key in ("key", "host_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(words, check=True)
    context = clustered(change)
    public = " ".join((folder / "host_key.pub").read_text().split()[:2])
    known = [f"{node.address} {public}" for node in context.plan.nodes.values()]
    (folder / "known_hosts").write_text("\n".join(known) + "\n")
    (folder / "authorized_keys").write_bytes((folder / "key.pub").read_bytes())
    (folder / "inventory.py").write_text(INVENTORY)
    for name, record in only_records(context.reading).items():
        address = context.plan.nodes[name].address
        (folder / "records" / address).write_text(f"{MARKER}\n{record.model_dump_json()}\n")
    return context.plan


@contextmanager
def answered(folder: Path, prefix: str, found: Peers) -> Iterator[None]:
    """Run a server that answers on all addresses of a prefix, in an isolated namespace.

    Raises:
        BenchmarkError: the server did not start.
    """
    subprocess.run(["ip", "netns", "delete", NAMESPACE], capture_output=True, check=False)
    ip("netns", "add", NAMESPACE)
    try:
        ip("-n", NAMESPACE, "link", "set", "lo", "up")
        # Make every address of the prefix local.
        ip("-n", NAMESPACE, "-6", "route", "add", "local", prefix, "dev", "lo")
        words = ["ip", "netns", "exec", NAMESPACE, found.program("python")]
        with subprocess.Popen(
            [*words, str(SERVER), str(folder)], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                if server.stdout.readline() != "ready\n":
                    raise BenchmarkError("the ssh server did not start")
                yield
            finally:
                server.terminate()
    finally:
        ip("netns", "delete", NAMESPACE)


def check(folder: Path, nodes: int, *options: str) -> tuple[Cost, list[str]]:
    """Check the cluster once; return the cost and the lines of the report.

    Raises:
        BenchmarkError: some nodes were not read.
    """
    command = [program("lockstep"), "check", str(folder / "inventory.py"), *options]
    prefix = ("ip", "netns", "exec", NAMESPACE)
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        try:
            cost = meter.cost(
                command,
                folder / "cost.json",
                prefix,
                within_s=WITHIN_S,
                stdout=output,
                stderr=errors,
            )
        except subprocess.TimeoutExpired as late:
            raise BenchmarkError(f"{nodes} nodes: not finished after {WITHIN_S:g} s") from late
        for file in (output, errors):
            file.seek(0)
        summary, progress = output.read(), errors.read()
    report = (summary or progress or "nothing").splitlines()
    if cost.status not in (0, 1) or f"read {nodes} of {nodes} nodes" not in progress:
        began = "\n".join(report[:FIRST_LINES])
        raise BenchmarkError(f"{nodes} nodes: exit {cost.status}: {report[-1]}\n{began}")
    return cost, report


def measure(nodes: int, repeat: int, found: Peers) -> tuple[Size, list[dict[str, Any]]]:
    """Check a cluster several times after a warm-up; return the medians and all runs.

    Raises:
        BenchmarkError: a check did not read all nodes.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-simulation-") as name:
        folder = Path(name)
        plan = write(folder, nodes)
        prefix = str(plan.spec.networks["management"].prefix)
        runs: list[dict[str, Any]] = []
        with answered(folder, prefix, found):
            for number in range(repeat + 1):
                cost, report = check(folder, nodes)
                summary = report[-1]
                runs.append({"nodes": nodes, "number": number, **asdict(cost), "summary": summary})
                print(f"{nodes} nodes: {cost.wall_s:.1f} s, {summary}", file=sys.stderr, flush=True)
    measured = [run for run in runs if run["number"]]
    medians = {
        what: statistics.median(run[what] for run in measured)
        for what in ("wall_s", "cpu_s", "peak_mib")
    }
    return Size(nodes, **medians), runs


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="benchmarks.speed.simulation")
    parser.add_argument(
        "--nodes",
        type=several(whole(2)),
        default=[10, 100, 500, 2000],
        help="numbers of nodes, including the head: 10,100,500,2000",
    )
    parser.add_argument("--repeat", type=whole(1), default=3, help="runs after the warm-up")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all runs as JSON")
    asked = parser.parse_args(words)
    found = peers.ensure()
    if isinstance(found, str):
        sys.exit(f"asyncssh could not be installed: {found}")
    sizes: list[Size] = []
    runs: list[dict[str, Any]] = []
    for nodes in asked.nodes:
        try:
            size, ran = measure(nodes, asked.repeat, found)
        except BenchmarkError as failure:
            sys.exit(str(failure))
        sizes.append(size)
        runs += ran
    about = {**machine(found), "command": shlex.join(["python", "-m", str(__spec__.name), *words])}
    print(f"`{about['command']}`\n\n{HEADER}" + "\n".join(size.row(sizes[0]) for size in sizes))
    if asked.json:
        content = {**about, "runs": runs, "medians": [asdict(size) for size in sizes]}
        asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    end_as_interrupted()
    sys.exit(main())

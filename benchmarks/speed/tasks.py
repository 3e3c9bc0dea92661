"""The measured tasks: a rerun without changes, a check, a repair of one node, a fresh deploy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.speed import assertions, names, playbook, processors, series, sessions
from benchmarks.speed.bench import Bench, DidNotWork, say
from benchmarks.speed.errors import BenchmarkError
from benchmarks.speed.network import Control, control
from benchmarks.speed.nodes import on
from benchmarks.speed.paths import INVENTORY, ROOT, program
from benchmarks.speed.peers import Peers
from lab import state
from lab.state import LabState
from lab.wishes import MOST_WORKERS
from lockstep import secrets
from lockstep.files import managed
from lockstep.inventory import load
from lockstep.plan import NodePlan
from lockstep.spec import NodeRole, Service

DEPLOY = "deploy"
BOOTED = "systemctl is-system-running --wait; true"
"""Wait until booting is finished, so that it is not measured; failed units are accepted."""
DRIFTS = "/etc/sysctl.d/99-zz-lockstep.conf"
"""A file that no running service reads, so its repair restarts nothing."""


class NoLabError(BenchmarkError):
    """A lab could not be created as requested."""

    def __init__(self, name: str, why: str) -> None:
        """Store the lab's name and the reason."""
        super().__init__(f"lab {name}: {why.strip()}")
        self.lab = name


@dataclass(frozen=True)
class Cluster:
    """A deployed lab, with the files for the other tools."""

    lab: LabState
    nodes: tuple[NodePlan, ...]
    workers: tuple[NodePlan, ...]
    peers: Peers | None
    playbook: str
    ssh_config: str
    tests: str | None
    """Folder of testinfra's tests; None with names, which differ from the machines' host names."""
    found_as_they_are: str = INVENTORY
    read: str = INVENTORY

    @classmethod
    def up(cls, name: str, workers: int, folder: Path, peers: Peers | None) -> Cluster:
        """Create or complete a lab, and deploy it.

        Raises:
            BenchmarkError: a step failed.
        """
        cluster = cls.booted(name, workers, folder, peers)
        say(f"deploying {workers} workers and their head")
        try:
            deployed(name, "deploys/cluster.py")
        except BenchmarkError as failure:
            say(f"retrying: {failure}")
        # With fifty nodes on two processors, some services start too late for the first deploy.
        deployed(name, "deploys/cluster.py")
        return cluster

    @classmethod
    def booted(
        cls, name: str, workers: int, folder: Path, peers: Peers | None, *, one_core: bool = False
    ) -> Cluster:
        """Create or complete a lab.

        Args:
            name: name of the lab.
            workers: number of workers.
            folder: folder for the files of the other tools.
            peers: None when they could not be installed.
            one_core: plan workers as machines with one core.

        Raises:
            BenchmarkError: a step failed.
        """
        done = lab(name, "up", "--workers", str(workers))
        if done.returncode != 0:
            raise NoLabError(name, done.stdout + done.stderr)
        if one_core:
            processors.plan_for_one(state.load(name))
        os.environ["LOCKSTEP_LAB"] = name
        plan = load(str(ROOT / INVENTORY))
        nodes = tuple(plan.nodes.values())
        only = tuple(node for node in nodes if node.role is NodeRole.WORKER)
        found = state.load(name)
        books, tests = folder / f"playbook-{name}-{workers}", folder / f"tests-{workers}"
        for made in (books, tests):
            made.mkdir(exist_ok=True)
        made_of = secrets.obtain(plan.spec.name, plan.spec.secrets_dir)
        playbook.write(books, only, made_of, found.ssh_config)
        assertions.write(tests, nodes)
        return cls(found, nodes, only, peers, str(books), found.ssh_config, str(tests))

    @property
    def worker_machines(self) -> int:
        """Number of machines behind the workers."""
        return sum(node.role == "worker" for node in self.lab.nodes)

    @contextmanager
    def named(self, count: int, folder: Path) -> Iterator[Cluster]:
        """Return a cluster in which these workers have this number of names.

        Raises:
            BenchmarkError: adding or removing an address on a worker failed.
        """
        place = Path(tempfile.mkdtemp(dir=folder))
        with names.named(self.lab, count, place) as called:
            shutil.copytree(self.playbook, place / "playbook")
            playbook.call(place / "playbook", called.machines, called.ssh_config)
            nodes = tuple(load(called.read).nodes.values())
            yield replace(
                self,
                nodes=nodes,
                workers=tuple(node for node in nodes if node.role is NodeRole.WORKER),
                playbook=str(place / "playbook"),
                ssh_config=called.ssh_config,
                tests=None,
                found_as_they_are=called.found_as_they_are,
                read=called.read,
            )


def lab(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the lab."""
    argv = [sys.executable, "-m", "lab", "--name", name, *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def remove(name: str) -> None:
    """Remove a lab.

    Raises:
        BenchmarkError: the removal failed.
    """
    done = lab(name, "down")
    if done.returncode != 0:
        raise BenchmarkError(f"lab {name} was not removed: {done.stdout}{done.stderr}")


def deployed(name: str, deploy: str, *options: str) -> None:
    """Run a deploy that is not measured.

    Raises:
        BenchmarkError: it failed.
    """
    done = subprocess.run(
        [program("pyinfra"), "-y", *options, INVENTORY, deploy],
        cwd=ROOT,
        env={**os.environ, "LOCKSTEP_LAB": name},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"{deploy}: exit status {done.returncode}: {done.stderr[-1000:]}")


@contextmanager
def unwatched(cluster: Cluster) -> Iterator[None]:
    """Stop Prometheus inside the context: scraping fifty nodes keeps two processors busy.

    A check reports it as one finding.

    Raises:
        BenchmarkError: stopping or starting Prometheus failed.
    """
    watching = [node.name for node in cluster.nodes if node.runs(Service.PROMETHEUS)]
    for name in watching:
        on(cluster.lab, name, "systemctl stop prometheus")
    try:
        yield
    finally:
        for name in watching:
            on(cluster.lab, name, "systemctl start prometheus")


def rerun(bench: Bench, cluster: Cluster, here: Control) -> None:
    """Measure a rerun on workers that are already deployed."""
    compared = series.rerun(cluster.peers, cluster.playbook, ["worker"], cluster.found_as_they_are)
    with unwatched(cluster):
        workers, machines = len(cluster.workers), cluster.worker_machines
        bench.measure("rerun", compared, cluster.lab, here, workers, machines=machines)


def check(bench: Bench, cluster: Cluster, here: Control) -> None:
    """Measure a check of all nodes, including the head."""
    compared = series.check(
        cluster.peers, cluster.tests, cluster.ssh_config, cluster.nodes, cluster.read
    )
    with unwatched(cluster):
        nodes, machines = len(cluster.nodes), len(cluster.lab.nodes)
        bench.measure("check", compared, cluster.lab, here, nodes, machines=machines)


def repair(bench: Bench, cluster: Cluster, here: Control) -> None:
    """Measure the repair of one worker with one changed file."""
    node = cluster.workers[0]
    wanted = next(file.sha256 for file in managed(node, None) if file.path == DRIFTS)

    def drift() -> None:
        on(cluster.lab, node.name, f"echo '# drift' >>{DRIFTS}")

    def repaired() -> None:
        if wanted not in on(cluster.lab, node.name, f"sha256sum {DRIFTS}"):
            raise DidNotWork(f"{DRIFTS} on {node.name} was not repaired")

    compared = series.repair(cluster.peers, cluster.playbook, node.name)
    workers = len(cluster.workers)
    bench.measure("repair", compared, cluster.lab, here, workers, drift, repaired)


ON_A_LAB = {"rerun": rerun, "check": check, "repair": repair}
UNDER_NAMES = {"rerun": rerun, "check": check}
"""Tasks that change nothing."""


def deploy(
    bench: Bench,
    name: str,
    workers: int,
    peers: Peers | None,
    round_trip_ms: float,
    *,
    processor_each: bool = False,
) -> None:
    """Measure the deploy of fresh workers; each series has its own workers.

    Args:
        bench: the runs.
        name: name of the labs.
        workers: number of workers at a time.
        peers: None when they could not be installed.
        round_trip_ms: added round trip time.
        processor_each: give each worker its own processor; other processes may use all.

    Raises:
        BenchmarkError: no series is left, a lab could not be created or removed, or there are
            more workers than processors.
    """
    known = [one.name for one in series.apply(peers, "", [])] + [series.BY_HAND]
    wanted = [one for one in known if one not in bench.without]
    if not wanted:
        raise BenchmarkError(f"deploy: all series are left out: {', '.join(known)}")
    at_once = max(1, MOST_WORKERS // workers)
    # With one processor each, this is a separate task without a documented limit.
    task = "deploy, a processor each" if processor_each else DEPLOY
    for number in range(bench.repeat + 1):
        begin = number % len(wanted)  # each round begins with another series
        turned = wanted[begin:] + wanted[:begin]
        left = [one for one in turned if (task, one, workers, round_trip_ms) not in bench.out]
        while left:
            now, left = left[:at_once], left[at_once:]
            try:
                count = workers * len(now)
                cluster = Cluster.booted(name, count, bench.folder, peers, one_core=processor_each)
                deployed(name, "deploys/head.py", "--limit", "head")
                with control(cluster.lab, round_trip_ms) as here:
                    _in_turn(bench, cluster, here, now, number, task, processor_each=processor_each)
            finally:
                remove(name)


def _in_turn(
    bench: Bench,
    cluster: Cluster,
    here: Control,
    wanted: Sequence[str],
    number: int,
    task: str,
    *,
    processor_each: bool,
) -> None:
    """Give each series its workers; all other workers are off."""
    sessions.note(cluster.lab, [node.name for node in cluster.lab.nodes])
    for node in cluster.workers:
        _power(cluster, "power-off", node.name)
    workers = len(cluster.workers) // len(wanted)
    for turn, name in enumerate(wanted):
        mine = cluster.workers[turn * workers : (turn + 1) * workers]
        ways = series.deploy(cluster.peers, cluster.playbook, cluster.lab.ssh_config, mine)
        one = next(way for way in ways if way.name == name)
        for node in mine:
            _power(cluster, "power-on", node.name)
            on(cluster.lab, node.name, BOOTED)
        now = state.load(cluster.lab.name)
        machines = [now.node(node.name) for node in mine]
        heads = [node for node in now.nodes if node.role == "head"]
        only = now.model_copy(update={"nodes": [*heads, *machines]})
        if processor_each:
            processors.give(machines)
        bench.once(task, one, only, here, workers, number)
        if processor_each and (left := processors.give(machines)):
            bench.problem(f"{name}: {left} threads moved to other processors")
        for node in mine:
            _power(cluster, "power-off", node.name)


def _power(cluster: Cluster, verb: str, node: str) -> None:
    done = lab(cluster.lab.name, verb, node)
    if done.returncode != 0:
        raise BenchmarkError(f"{verb} {node}: {done.stdout}{done.stderr}")

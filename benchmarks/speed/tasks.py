"""What is measured: a rerun with nothing to do, a check, the repair of one node, a fresh deploy."""

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
from benchmarks.speed.peers import Peers
from benchmarks.speed.places import INVENTORY, ROOT, program
from lab import state
from lab.lifecycle import MOST_WORKERS
from lab.state import LabState
from lockstep import secrets
from lockstep.files import managed
from lockstep.inventory import load
from lockstep.plan import NodePlan
from lockstep.spec import Role, Service

DEPLOY = "deploy"
BOOTED = "systemctl is-system-running --wait; true"
"""What a boot still has to do is nobody's time; units that failed (degraded) are not the point."""
DRIFTS = "/etc/sysctl.d/99-zz-lockstep.conf"
"""A file that no running service reads: its repair restarts nothing."""


class NoLabError(BenchmarkError):
    """A lab is not to be had as it was asked for."""

    def __init__(self, name: str, why: str) -> None:
        """Name it and say why."""
        super().__init__(f"lab {name}: {why.strip()}")
        self.lab = name


@dataclass(frozen=True)
class Cluster:
    """A lab that was deployed, and what the peers need to know of it."""

    lab: LabState
    nodes: tuple[NodePlan, ...]
    workers: tuple[NodePlan, ...]
    peers: Peers | None
    playbook: str
    ssh_config: str
    tests: str | None
    """Of testinfra; None under names, which are not what machines call themselves."""
    found_as_they_are: str = INVENTORY
    read: str = INVENTORY

    @classmethod
    def up(cls, name: str, workers: int, folder: Path, peers: Peers | None) -> Cluster:
        """Make a lab, or complete it, and deploy it.

        Raises:
            BenchmarkError: that failed.
        """
        cluster = cls.booted(name, workers, folder, peers)
        say(f"deploying {workers} workers and their head")
        try:
            deployed(name, "deploys/cluster.py")
        except BenchmarkError as failure:
            say(f"once more: {failure}")
        # Of fifty nodes on two processors some services are not up in time for the first one.
        deployed(name, "deploys/cluster.py")
        return cluster

    @classmethod
    def booted(
        cls, name: str, workers: int, folder: Path, peers: Peers | None, *, one_core: bool = False
    ) -> Cluster:
        """Make a lab, or complete it.

        Args:
            name: of the lab.
            workers: how many.
            folder: for what the peers need.
            peers: None when they could not be installed.
            one_core: plan workers as machines of one core.

        Raises:
            BenchmarkError: that failed.
        """
        done = lab(name, "up", "--workers", str(workers))
        if done.returncode != 0:
            raise NoLabError(name, done.stdout + done.stderr)
        if one_core:
            processors.plan_for_one(state.load(name))
        os.environ["LOCKSTEP_LAB"] = name
        plan = load(str(ROOT / INVENTORY))
        nodes = tuple(plan.nodes.values())
        only = tuple(node for node in nodes if node.role is Role.WORKER)
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
        """How many machines the workers are."""
        return sum(node.role == "worker" for node in self.lab.nodes)

    @contextmanager
    def named(self, count: int, folder: Path) -> Iterator[Cluster]:
        """Be a cluster of so many workers for a while: these, under many names.

        Raises:
            BenchmarkError: an address could not be given to a worker, or not be taken from it.
        """
        place = Path(tempfile.mkdtemp(dir=folder))
        with names.named(self.lab, count, place) as called:
            shutil.copytree(self.playbook, place / "playbook")
            playbook.call(place / "playbook", called.machines, called.ssh_config)
            nodes = tuple(load(called.read).nodes.values())
            yield replace(
                self,
                nodes=nodes,
                workers=tuple(node for node in nodes if node.role is Role.WORKER),
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
        BenchmarkError: it is still there.
    """
    done = lab(name, "down")
    if done.returncode != 0:
        raise BenchmarkError(f"lab {name} was not removed: {done.stdout}{done.stderr}")


def deployed(name: str, deploy: str, *options: str) -> None:
    """Deploy, not measured.

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
        raise BenchmarkError(f"{deploy} ended with {done.returncode}: {done.stderr[-1000:]}")


@contextmanager
def unwatched(cluster: Cluster) -> Iterator[None]:
    """Stop Prometheus for a while: the exporters of fifty nodes keep two processors busy.

    To a check it is one finding.

    Raises:
        BenchmarkError: it did not stop, or did not start again.
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
    """Bring workers to their plan that are there already."""
    compared = series.rerun(cluster.peers, cluster.playbook, ["worker"], cluster.found_as_they_are)
    with unwatched(cluster):
        workers, machines = len(cluster.workers), cluster.worker_machines
        bench.measure("rerun", compared, cluster.lab, here, workers, machines=machines)


def check(bench: Bench, cluster: Cluster, here: Control) -> None:
    """Compare all nodes with their plan; the head is one of them."""
    compared = series.check(
        cluster.peers, cluster.tests, cluster.ssh_config, cluster.nodes, cluster.read
    )
    with unwatched(cluster):
        nodes, machines = len(cluster.nodes), len(cluster.lab.nodes)
        bench.measure("check", compared, cluster.lab, here, nodes, machines=machines)


def repair(bench: Bench, cluster: Cluster, here: Control) -> None:
    """Bring back one worker of all, one file of which was changed."""
    node = cluster.workers[0]
    wanted = next(file.sha256 for file in managed(node, None) if file.path == DRIFTS)

    def drift() -> None:
        on(cluster.lab, node.name, f"echo '# drift' >>{DRIFTS}")

    def repaired() -> None:
        if wanted not in on(cluster.lab, node.name, f"sha256sum {DRIFTS}"):
            raise DidNotWork(f"{DRIFTS} on {node.name} is as it was before")

    compared = series.repair(cluster.peers, cluster.playbook, node.name)
    workers = len(cluster.workers)
    bench.measure("repair", compared, cluster.lab, here, workers, drift, repaired)


ON_A_LAB = {"rerun": rerun, "check": check, "repair": repair}
UNDER_NAMES = {"rerun": rerun, "check": check}
"""What changes nothing."""


def deploy(
    bench: Bench,
    name: str,
    workers: int,
    peers: Peers | None,
    round_trip_ms: float,
    *,
    processor_each: bool = False,
) -> None:
    """Deploy workers that nothing was done to; each series has its own.

    Args:
        bench: keeps the runs.
        name: of the labs.
        workers: how many at once.
        peers: None when they could not be installed.
        round_trip_ms: added.
        processor_each: give each worker a processor; the others may use all.

    Raises:
        BenchmarkError: no series is left, a lab was not to be had or not removed, or there are
            more workers than processors.
    """
    known = [one.name for one in series.apply(peers, "", [])] + [series.BY_HAND]
    wanted = [one for one in known if one not in bench.without]
    if not wanted:
        raise BenchmarkError(f"deploy: no series is left of {', '.join(known)}")
    at_once = max(1, MOST_WORKERS // workers)
    # With a processor each it is a task of its own: no promise is about it.
    task = "deploy, a processor each" if processor_each else DEPLOY
    for number in range(bench.repeat + 1):
        begin = number % len(wanted)  # in each round another one is the first
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
    """Give each series its workers; all others are switched off."""
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
            bench.problem(f"{name}: {left} threads left their processor")
        for node in mine:
            _power(cluster, "power-off", node.name)


def _power(cluster: Cluster, verb: str, node: str) -> None:
    done = lab(cluster.lab.name, verb, node)
    if done.returncode != 0:
        raise BenchmarkError(f"{verb} {node}: {done.stdout}{done.stderr}")

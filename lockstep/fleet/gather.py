"""All nodes read at once, by processes that each read a share of them (``shard``).

What a node said is parsed here, as it arrives. The controller's credential comes with its record
and goes on to all processes. One that fails costs the nodes that it had not read yet, each named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryFile
from typing import IO

from lockstep.fleet import clush, slurm_step
from lockstep.fleet.progress import Tell
from lockstep.fleet.request import request
from lockstep.fleet.share import Share, dumps
from lockstep.plan import ClusterPlan
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import node_of
from lockstep.probe.record import Reading, Record, Unreachable, only_records
from lockstep.report import fold
from lockstep.spec import Role, Service

AT_ONCE = 128
"""Connections of all processes together."""
SHARE = 256
"""Nodes for a further process, which costs half a CPU second and 65 MiB before the first one."""
CHUNK = 1 << 20


class GatherError(Exception):
    """The reading itself failed; the last words of a process are the message."""


@dataclass
class Shard:
    """One process with its share of the nodes."""

    left: set[str]
    """Nodes of which nothing has come yet."""
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    rest: bytes = b""
    """Of a line that has not ended yet."""
    failure: str = ""
    """Its last words, where it failed."""

    @property
    def output(self) -> IO[bytes]:
        """Where its lines come from."""
        assert self.process.stdout is not None
        return self.process.stdout

    def tell(self, line: str) -> None:
        """Tell it what to read."""
        assert self.process.stdin is not None
        if self.process.stdin.closed:  # it had ended before
            return
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:  # it has ended, and will be named
            self._close()

    def tell_last(self, line: str) -> None:
        """Tell it the controller's credential; "": none will come."""
        self.tell(line)
        self._close()

    def _close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # of what it never read
            self.process.stdin.close()

    def arrived(self, text: bytes) -> Iterator[tuple[str, Record | Unreachable]]:
        """Return the nodes in a part of its output; with the last part, which is empty, all left.

        Raises:
            GatherError: it is no output of ours.
        """
        *lines, self.rest = (self.rest + text).split(b"\n")
        for line in lines:
            try:
                name, got = node_of(line)
            except ProbeFormatError as error:
                raise GatherError(str(error)) from error
            self.left.discard(name)
            yield name, got
        if not text:
            self._end()
            why = self.failure.rpartition("\n")[2] or "its process said nothing of it"
            yield from ((name, Unreachable(f"not read: {why}")) for name in sorted(self.left))

    def _end(self) -> None:
        status = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        if status:
            self.failure = said.strip() or f"exit {status}"
        else:
            sys.stderr.write(said)  # nothing, unless something is wrong with ourselves


def _untold(done: int, failed: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True)
class ThroughSlurm:
    """Have a step of Slurm read the workers."""

    job: str = ""
    """Where it runs; "": on the idle nodes."""
    name = "Slurm"

    @property
    def option(self) -> str:
        """What the process is told that reads."""
        return f"{slurm_step.OPTION}{self.job}"


@dataclass(frozen=True)
class ThroughClush:
    """Have clush on the controller read the workers."""

    name = "clush"
    option = clush.OPTION


Through = ThroughSlurm | ThroughClush


def gather(
    plan: ClusterPlan,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    through: Through | None = None,
    tell: Tell = _untold,
) -> Reading:
    """Return the record of every node of a cluster, or why there is none.

    Args:
        plan: of the cluster.
        nodes: read these only.
        containers: have each container engine start one, and read what it sees.
        through: reads first, before what it did not reach is read directly.
        tell: is called after each node.

    Raises:
        GatherError: none was read, for a reason of our own.
    """
    wanted = [name for name in plan.nodes if nodes is None or name in nodes]
    controller = plan.running(Service.SLURM_CONTROLLER)
    # The controller is read for its credential, also where it is not one of the chosen nodes.
    first = [] if controller is None else [controller.name]
    gathering = _Gathering(plan, containers, first, frozenset(wanted), tell)
    left = wanted

    def to_read() -> list[str]:
        return [*first, *(name for name in left if name not in first)]

    if through is not None:
        assert controller is not None, "who has workers has a scheduler"
        gathering.run([to_read()], through.option)
        if left := [name for name in wanted if name not in gathering.found]:
            print(
                f"not reached through {through.name}, read directly: {fold(left)}", file=sys.stderr
            )
    if through is None or left:
        # The controller again, for a new credential: munge decodes none twice on a node.
        gathering.run(shares(to_read(), len(os.sched_getaffinity(0))))
    return {name: gathering.found[name] for name in wanted}


@dataclass
class _Gathering:
    """What was read so far, and how the rest is."""

    plan: ClusterPlan
    containers: bool
    first: Sequence[str]
    """The controller, where there is one."""
    wanted: frozenset[str]
    tell: Tell
    found: Reading = field(default_factory=dict)
    done: int = 0
    failed: int = 0

    def run(self, parts: Sequence[Sequence[str]], through: str = "") -> None:
        """Have a process read each part; of each node that is read directly a reason is found too.

        Raises:
            GatherError: nothing was read so far, for a reason of our own.
        """
        at_once = max(1, AT_ONCE // max(1, len(parts)))
        shares = [
            share_of(self.plan, part, at_once, containers=self.containers, through=through)
            for part in parts
        ]
        with _started(shares) as shards:
            for name, got in _arriving(shards):
                if name in self.first:
                    for shard in shards:
                        shard.tell_last(credential(got))
                if name in self.wanted and name not in self.found:
                    self.failed += isinstance(got, Unreachable)
                    self.done += 1
                    self.tell(self.done, self.failed)
                if isinstance(got, Record) or name not in self.found:
                    self.found[name] = got
        failures = [shard.failure for shard in shards if shard.failure]
        if failures and len(failures) == len(shards) and not only_records(self.found):
            raise GatherError(failures[0])
        for failure in failures:
            print(f"a process that reads nodes failed: {failure}", file=sys.stderr)


def share_of(
    plan: ClusterPlan,
    names: Sequence[str],
    at_once: int = 1,
    *,
    containers: bool = False,
    through: str = "",
) -> Share:
    """Return what a process is told that reads these nodes."""
    requests = {name: request(plan.nodes[name], containers=containers) for name in names}
    hosts = {name: plan.host(name) for name in names}
    workers = {name for name in names if plan.nodes[name].role is Role.WORKER}
    controller = plan.running(Service.SLURM_CONTROLLER)
    first = "" if controller is None else controller.name
    return Share(requests, hosts, first, workers, at_once, through)


def shares(names: Sequence[str], cores: int) -> list[Sequence[str]]:
    """Return which nodes each process reads; the first node is the first one's."""
    count = max(1, min(cores, len(names) // SHARE))
    return [names[number::count] for number in range(count)]


@contextmanager
def _started(shares: Sequence[Share]) -> Iterator[list[Shard]]:
    """Start the processes; end them where something fails."""
    with ExitStack() as opened:
        shards: list[Shard] = []
        try:
            for share in shares:
                errors = opened.enter_context(TemporaryFile())
                process = subprocess.Popen(
                    [sys.executable, "-m", "lockstep.fleet.shard", fold(sorted(share.requests))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
                # Through another program only what the controller says of itself is due.
                due = {share.controller} if share.through else set(share.requests)
                shards.append(Shard(due, opened.enter_context(process), errors))
            # All of them start meanwhile: a long line waits until its process reads.
            for shard, share in zip(shards, shares, strict=True):
                shard.tell(dumps(share))
            yield shards
        except BaseException:
            for shard in shards:
                shard.process.terminate()
            raise


def _arriving(shards: Sequence[Shard]) -> Iterator[tuple[str, Record | Unreachable]]:
    """Return each node as it comes, until all processes have ended."""
    with DefaultSelector() as selector:
        for shard in shards:
            selector.register(shard.output, EVENT_READ, shard)
        while selector.get_map():
            for key, _ in selector.select():
                text = os.read(key.fd, CHUNK)
                if not text:
                    selector.unregister(key.fileobj)
                yield from key.data.arrived(text)


def credential(got: Record | Unreachable) -> str:
    """Return what the controller's munge made for the others to decode; "" where it did not."""
    made = got.get("munge.credential") if isinstance(got, Record) else None
    return made if isinstance(made, str) else ""

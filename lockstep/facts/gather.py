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

from lockstep.facts.progress import Tell
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import ProbeFormatError, node_of
from lockstep.probe.record import Reading, Record, Unreachable, only_records
from lockstep.report import fold
from lockstep.spec import Service

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

    def give(self, credential: str) -> None:
        """Hand on the controller's credential; "": none will come."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and will be named
            self.process.stdin.write(f"{credential}\n".encode())
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


def gather(
    plan: ClusterPlan,
    inventory: str,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    through: ThroughSlurm | None = None,
    tell: Tell = _untold,
) -> Reading:
    """Return the record of every node of a cluster, or why there is none.

    Args:
        plan: of the cluster.
        inventory: its file.
        nodes: read these only.
        containers: have each container engine start one, and read what it sees.
        through: reads first, before what it did not reach is read directly.
        tell: is called after each node.

    Raises:
        GatherError: none was read, for a reason of our own.
    """
    wanted = [name for name in plan.nodes if nodes is None or name in nodes]
    controller = plan.running(Service.SLURM_CONTROLLER)
    # The controller is read for its credential, also where nobody asked for the controller.
    first = [] if controller is None else [controller.name]
    words = [inventory, *(["--containers"] if containers else [])]
    gathering = _Gathering(words, first, frozenset(wanted), tell)
    left = wanted
    if through is not None:
        gathering.run([wanted], [f"--through-slurm={through.job}"], due=first)
        if left := [name for name in wanted if name not in gathering.found]:
            print(f"not reached through Slurm, read directly: {fold(left)}", file=sys.stderr)
    if through is None or left:
        # The controller again, for a new credential: munge decodes none twice on a node.
        names = [*first, *(name for name in left if name not in first)]
        gathering.run(shares(names, len(os.sched_getaffinity(0))))
    return {name: gathering.found[name] for name in wanted}


@dataclass
class _Gathering:
    """What was read so far, and how the rest is."""

    words: Sequence[str]
    """Inventory and options of each process."""
    first: Sequence[str]
    """The controller, where there is one."""
    wanted: frozenset[str]
    tell: Tell
    found: Reading = field(default_factory=dict)
    done: int = 0
    failed: int = 0

    def run(
        self,
        parts: Sequence[Sequence[str]],
        options: Sequence[str] = (),
        due: Sequence[str] | None = None,
    ) -> None:
        """Have a process read each part; of what is due, by default all, a reason is found too.

        Raises:
            GatherError: nothing was read so far, for a reason of our own.
        """
        with _started(parts, [*self.words, *options]) as shards:
            for shard in shards:
                shard.left = shard.left if due is None else set(due)
            for name, got in _arriving(shards):
                if name in self.first:
                    for shard in shards:
                        shard.give(credential(got))
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


def shares(names: Sequence[str], cores: int) -> list[Sequence[str]]:
    """Return which nodes each process reads; the first node is the first one's."""
    count = max(1, min(cores, len(names) // SHARE))
    return [names[number::count] for number in range(count)]


@contextmanager
def _started(parts: Sequence[Sequence[str]], words: Sequence[str]) -> Iterator[list[Shard]]:
    """Start the processes; end them where something fails."""
    at_once = str(max(1, AT_ONCE // max(1, len(parts))))
    with ExitStack() as opened:
        shards: list[Shard] = []
        try:
            for part in parts:
                errors = opened.enter_context(TemporaryFile())
                process = subprocess.Popen(
                    [sys.executable, "-m", "lockstep.facts.shard", fold(part), at_once, *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
                shards.append(Shard(set(part), opened.enter_context(process), errors))
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

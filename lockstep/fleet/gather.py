"""Reads all nodes at once, with processes that each read a share of them (``shard``).

Each record is parsed as it arrives. The Slurm controller's record has a munge credential, which is
sent to all processes. If a process fails, the nodes that it has not read yet count as unreachable.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryFile
from typing import IO, Any

from lockstep.fleet.request import Asked, own, request
from lockstep.fleet.share import Share, dumps
from lockstep.fleet.through import CLUSH
from lockstep.plan import ClusterPlan
from lockstep.plan.running import GOVERNOR, THP
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import node_of
from lockstep.probe.record import Reading, Record, Unreachable, only_records
from lockstep.probe.ship import Request
from lockstep.report import fold
from lockstep.spec import Service

AT_ONCE = 128
"""Maximum number of simultaneous connections, across all processes."""
SHARE = 256
"""Number of nodes that justify another process. A process needs 0.5 s of CPU time and 65 MiB before
it reads its first node."""
CHUNK = 1 << 20
UNITS = (
    *("slurmctld.service", "slurmdbd.service", "slurmd.service", "prometheus.service"),
    *("nvidia-fabricmanager.service", "nvidia-imex.service"),
)
"""Units that show the purpose of a node without a description."""
SYSCTLS = ("kernel.numa_balancing",)
THP_FILES = (f"{THP}/enabled", f"{THP}/defrag")


class GatherError(Exception):
    """Raised if no node could be read because of an error on this machine."""


@dataclass
class Shard:
    """A process that reads its share of the nodes."""

    left: set[str]
    """The nodes without a result so far."""
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    rest: bytes = b""
    """The start of a line whose end has not arrived yet."""
    failure: str = ""
    """The standard error of a failed process, or its exit status; "" if it did not fail."""

    @property
    def output(self) -> IO[bytes]:
        """The standard output of the process."""
        assert self.process.stdout is not None
        return self.process.stdout

    def tell(self, line: str, *, last: bool = False) -> None:
        """Send the process a line. If it has ended, do nothing; ``arrived`` reports that."""
        lines = self.process.stdin
        assert lines is not None
        if lines.closed:
            return
        try:
            lines.write(f"{line}\n".encode())
            lines.flush()
        except BrokenPipeError:
            last = True
        if last:
            with suppress(BrokenPipeError):  # the process ended before it read everything
                lines.close()

    def arrived(self, text: bytes) -> Iterator[tuple[str, Record | Unreachable]]:
        """Yield the results in a piece of output.

        An empty piece marks the end: every node without a result then counts as unreachable.

        Raises:
            GatherError: the output does not have the expected format.
        """
        *lines, self.rest = (self.rest + text).split(b"\n")
        for line in lines:
            try:
                name, got = node_of(line)
            except ProbeFormatError as error:
                raise GatherError(str(error)) from error
            self.left.discard(name)
            yield name, got
        if text:
            return
        status = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")
        if status:
            self.failure = said.strip() or f"exit {status}"
        else:
            sys.stderr.write(said)
        why = (
            self.failure.rpartition("\n")[2]
            or "the reading process ended without a result for this node"
        )
        yield from ((name, Unreachable(f"not read: {why}")) for name in sorted(self.left))


def gather(
    plan: ClusterPlan,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    through: str = "",
    fingerprint: bool = False,
    slow: bool = False,
    asked: Mapping[str, Asked] | None = None,
    texts: bool = False,
    tell: Callable[[bool], None] = lambda failed: None,
) -> Reading:
    """Return, for each node of a cluster, its record or the reason why it has none.

    Args:
        plan: the plan of the cluster.
        nodes: the nodes to read; None: all.
        containers: whether to start a container per engine and read its devices and limits.
        through: program that reads the workers, as in ``Share``; nodes that it does not reach are
            read directly.
        fingerprint: whether to take fingerprints as well.
        slow: whether to take also the domains that nodes read once a day at most.
        asked: node -> what of its fingerprint to read, instead of a whole record.
        texts: whether to read the planned files with their content, instead of a whole record.
        tell: function to call after each node, with True if the node failed.

    Raises:
        GatherError: no node could be read, because of an error on this machine.
    """
    wanted = [name for name in plan.nodes if nodes is None or name in nodes]
    controller = plan.running(Service.SLURM_CONTROLLER)
    # The controller is read for its credential, even if it is not one of the chosen nodes.
    first = [] if controller is None or asked or texts else [controller.name]
    found: Reading = {}

    def read(parts: Sequence[Sequence[str]], through: str = "") -> None:
        """Read each group of nodes in a separate process."""
        at_once = max(1, AT_ONCE // len(parts))
        shares = [
            share_of(
                plan,
                part,
                at_once,
                containers=containers,
                through=through,
                fingerprint=fingerprint,
                slow=slow,
                asked=asked,
                texts=texts,
            )
            for part in parts
        ]
        with _started(shares) as shards:
            for name, got in _arriving(shards):
                if name in first:
                    for shard in shards:
                        shard.tell(credential(got), last=True)
                if name not in found and (nodes is None or name in nodes):
                    tell(isinstance(got, Unreachable))
                if isinstance(got, Record) or name not in found:
                    found[name] = got
        _raise_or_tell(shards, found)

    left = wanted
    if through:
        assert controller is not None, "a cluster with workers has a scheduler"
        read([list(dict.fromkeys([*first, *wanted]))], through)
        left = [name for name in wanted if name not in found]
        if left:
            program = "clush" if through == CLUSH else "Slurm"
            print(f"not reached through {program}, read directly: {fold(left)}", file=sys.stderr)
    if left or not through:
        # Read the controller again for a new credential: munge decodes each only once per node.
        names = list(dict.fromkeys([*first, *left]))
        read(_parts(names))  # the first reads the controller
    return {name: found[name] for name in wanted}


def _parts(names: list[str]) -> list[list[str]]:
    """Split nodes into one part for each process that reads them."""
    count = max(1, min(len(os.sched_getaffinity(0)), len(names) // SHARE))
    return [names[number::count] for number in range(count)]


def _raise_or_tell(shards: Sequence[Shard], found: Reading) -> None:
    """Print why processes failed.

    Raises:
        GatherError: all failed, and no node was read.
    """
    failures = [shard.failure for shard in shards if shard.failure]
    if len(failures) == len(shards) and not only_records(found):
        raise GatherError(failures[0])
    for failure in failures:
        print(f"a process that reads nodes failed: {failure}", file=sys.stderr)


def gather_hosts(
    logins: Mapping[str, dict[str, Any]], tell: Callable[[bool], None] = lambda failed: None
) -> Reading:
    """Return what a description needs of hosts that no description has, or why it is not read.

    Args:
        logins: host -> the data that pyinfra needs to connect to it.
        tell: function to call after each host, with True if it failed.

    Raises:
        GatherError: no host could be read, because of an error on this machine.
    """
    asked = Request(
        describe=True, units=UNITS, sysctls=SYSCTLS, kernel_files=(*THP_FILES, GOVERNOR)
    )
    parts = _parts(list(logins))
    shares = [
        Share(
            dict.fromkeys(part, asked),
            {name: logins[name] for name in part},
            {},
            at_once=max(1, AT_ONCE // len(parts)),
        )
        for part in parts
    ]
    found: Reading = {}
    with _started(shares) as shards:
        for name, got in _arriving(shards):
            tell(isinstance(got, Unreachable))
            found[name] = got
    _raise_or_tell(shards, found)
    return {name: found[name] for name in logins}


def share_of(
    plan: ClusterPlan,
    names: Sequence[str],
    at_once: int = 1,
    *,
    containers: bool = False,
    through: str = "",
    fingerprint: bool = False,
    slow: bool = False,
    asked: Mapping[str, Asked] | None = None,
    texts: bool = False,
) -> Share:
    """Return the instructions for a process that reads these nodes."""
    requests = {
        name: request(
            plan.nodes[name],
            containers=containers,
            fingerprint=fingerprint,
            slow=slow,
            asked=(asked or {}).get(name, ()),
            texts=texts,
        )
        for name in names
    }
    logins = {name: plan.login(name) for name in names}
    workers = {name for name in names if plan.nodes[name].takes_slurm_jobs}
    controller = plan.running(Service.SLURM_CONTROLLER)
    first = "" if controller is None or asked or texts else controller.name
    hashed = [name for name in names if requests[name].fingerprint]
    identities = {name: own(plan.nodes[name]) for name in hashed}
    return Share(requests, logins, identities, first, workers, at_once, through)


@contextmanager
def _started(shares: Sequence[Share]) -> Iterator[list[Shard]]:
    """Start the processes, and terminate them if an exception is raised."""
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
                # Another program may miss a worker; only the controller always has a result.
                due = {share.controller} if share.through else set(share.requests)
                shards.append(Shard(due, opened.enter_context(process), errors))
            # All are started before the first write, which blocks until its process reads.
            for shard, share in zip(shards, shares, strict=True):
                shard.tell(dumps(share))
            yield shards
        except BaseException:
            for shard in shards:
                shard.process.terminate()
            raise


def _arriving(shards: Sequence[Shard]) -> Iterator[tuple[str, Record | Unreachable]]:
    """Yield each node's result as it arrives, until all processes have ended."""
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
    """Return the munge credential in the controller's record; "" if there is none."""
    made = got.get("munge.credential") if isinstance(got, Record) else None
    return made if isinstance(made, str) else ""

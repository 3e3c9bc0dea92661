"""Reads nodes in parallel over pyinfra's ssh connections: one connection and command per node.

Standard input is a line with the nodes and their requests (``share``) and, later, a line with the
credential that all nodes except the controller decode, or an empty line if there is none.
Standard output is one line per node (``node_line``), printed when the node is done, with the record
as the probe printed it. If a node fails, its line has the reason; the others are still read.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from gevent import Greenlet, Timeout, joinall, spawn
from gevent.event import AsyncResult
from gevent.fileobject import FileObject
from gevent.lock import BoundedSemaphore
from paramiko import SSHException
from pyinfra.api.command import StringCommand
from pyinfra.api.config import Config
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from lockstep import faults
from lockstep.connection import close
from lockstep.fast.ssh import FailsAlone, SudoRefused
from lockstep.fleet.share import Share, loads
from lockstep.probe.lines import ProbeFormatError, Unreachable, node_line, printed
from lockstep.probe.parts import joined
from lockstep.probe.ship import for_many, with_input

CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
"""Seconds for the connection, and as many for the record. The probe itself stops after 25 s."""
CREDENTIAL_TIMEOUT_S = 30
"""Seconds that nodes wait for the credential if the controller hangs, counted from the start."""
COMPLAINTS = 5
Got = str | Unreachable
"""A record as the probe printed it, or the reason why there is none."""
Done = Callable[[str, Got], None]
"""Function to call with each node name and its result."""


class Nodes(Inventory):
    """An inventory whose hosts use Lockstep's ssh connector.

    pyinfra's own inventory imports all installed connectors. One of them, Lockstep's connector
    for deploys, imports the plan, and that would take half of this process's CPU time.
    """

    @override
    def make_hosts_and_groups(self, names: Any, groups: Any) -> None:
        self.host_data.update(names)
        self.hosts = {
            name: Host(name, inventory=self, groups=[], connector_cls=FailsAlone)
            for name, _ in names
        }


def read_all(share: Share, credential: Callable[[float], str | None], done: Done) -> None:
    """Read each node directly. gevent must already have patched the standard library.

    Args:
        share: the nodes.
        credential: waits for the controller's credential for at most the given number of seconds.
        done: function that is called with each result.
    """
    state = _state(share, share.requests)
    slots = BoundedSemaphore(share.at_once)
    until = time.monotonic() + CREDENTIAL_TIMEOUT_S

    def given(name: str) -> str | None:
        if share.controller in ("", name):
            return None
        return credential(max(0.0, until - time.monotonic()))

    def read(name: str) -> None:
        # The controller is read first, outside the slots: the others wait for its credential.
        with nullcontext() if name == share.controller else slots:
            try:
                got = _one(state, name, share, partial(given, name))
            finally:
                # A connection holds a file descriptor here and logins on the node and jump hosts.
                close(state.inventory.get_host(name))
            done(name, got)

    def failed(name: str, job: Greenlet[..., None]) -> None:
        # A bug in Lockstep; gevent prints its traceback. Others may wait for this node's result.
        done(name, Unreachable(f"not read: {type(job.exception).__name__}: {job.exception}"))

    jobs = {name: spawn(read, name) for name in share.requests}
    for name, job in jobs.items():
        job.link_exception(partial(failed, name))
    joinall(jobs.values())


def _state(share: Share, nodes: Collection[str]) -> State:
    inventory = Nodes(([(name, share.logins[name]) for name in nodes], {}))  # type: ignore[no-untyped-call]  # pyinfra's
    config = Config(CONNECT_TIMEOUT=CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]  # pyinfra's
    return State(inventory, config)


def read_through(share: Share, credential: Callable[[float], str | None], done: Done) -> None:
    """Read the controller directly, and the workers through another program that runs on it.

    Args:
        share: the nodes.
        credential: waits for the controller's credential for at most the given number of seconds.
        done: function that is called with each result.
    """
    # Imported here, because it imports pydantic, which costs 0.2 s.
    from lockstep.fleet import through

    head = share.controller
    state = _state(share, [head])
    done(head, _one(state, head, share, lambda: None))
    made = credential(CREDENTIAL_TIMEOUT_S)

    def said(text: str, timeout_s: float, stdin: Sequence[str] = ()) -> list[str]:
        answer = _answer(state, head, lambda: (text, [*stdin]), timeout_s)
        if isinstance(answer, Unreachable):
            print(f"{head}: {answer.reason}", file=sys.stderr)
            return []
        # 2,000 nodes may fail: the first few reasons are enough.
        for line in answer[1].stderr_lines[:COMPLAINTS]:
            print(line, file=sys.stderr)
        return answer[1].stdout_lines

    def asked(names: Collection[str]) -> list[str]:
        requests = {name: replace(share.requests[name], credential=made) for name in names}
        return for_many(requests, {name: share.own[name] for name in names if name in share.own})

    def arrived(names: Collection[str], lines: Iterable[str]) -> None:
        for name, record in joined(lines):
            if name in names and "\n" not in record:
                done(name, record)

    if share.through == through.CLUSH:
        if share.workers:
            words, limit_s = through.clush(share.workers), through.CLUSH_S + 2 * through.KILL_S
            lines = said(words, limit_s, asked(share.workers))
            arrived(share.workers, through.own_lines(lines))
        return
    job = share.through.removeprefix(through.SLURM)
    where = said(through.where(job), NODE_TIMEOUT_S)
    for place in through.places(where, job, share.workers):
        limit_s = through.STEP_S + 2 * through.KILL_S
        arrived(place.nodes, said(through.step(place), limit_s, asked(place.nodes)))


def _one(state: State, node: str, share: Share, credential: Callable[[], str | None]) -> Got:
    request = replace(share.requests[node], own=share.own.get(node, ()))
    answer = _answer(
        state,
        node,
        lambda: with_input(replace(request, credential=credential())),
        NODE_TIMEOUT_S,
    )
    if isinstance(answer, Unreachable):
        return answer
    ok, output = answer
    if not ok and (fault := faults.of_output(output.output_lines)):
        return Unreachable(fault)
    if not ok:
        said = (output.stderr_lines or output.stdout_lines or ["no message"])[-1]
        return Unreachable(f"reached by ssh, but the probe failed: {said.strip()[:200]}")
    try:
        return printed(output.stdout)
    except ProbeFormatError as error:
        return Unreachable(f"reached by ssh, but the output is not a record: {error}")


def _answer(
    state: State, node: str, text: Callable[[], tuple[str, list[str]]], timeout_s: float
) -> tuple[bool, CommandOutput] | Unreachable:
    """Run a command on a node; return its success and its output, or why there is no answer.

    Args:
        state: pyinfra's state.
        node: the name of the node.
        text: returns the command and the lines of its standard input.
        timeout_s: time limit of the command.
    """
    host: Host = state.inventory.get_host(node)
    limit = Timeout.start_new(NODE_TIMEOUT_S)
    try:
        host.connect(show_errors=False, raise_exceptions=True)
        limit.close()
        line, stdin = text()  # waits for the credential, outside this node's time limit
        limit = Timeout.start_new(timeout_s)
        # sudo is part of the command, because pyinfra's own sudo may ask for a password.
        prefix = "sudo -n -H " if host.data.get("_sudo") else ""
        return host.run_shell_command(
            StringCommand(prefix + line), _stdin=stdin, print_output=False, print_input=False
        )
    except Timeout as timeout:
        if timeout is not limit:
            return Unreachable(f"ssh: {timeout}")
        if not host.connected:
            return Unreachable(f"ssh: no connection within {limit.seconds} s")
        return Unreachable(f"no record within {limit.seconds} s{faults.NEXT}{faults.HANGS}")
    except ConnectError as error:
        return Unreachable(str(error))
    except SudoRefused as error:
        return Unreachable(str(error))
    except (PyinfraError, SSHException, OSError, EOFError) as error:
        return Unreachable(f"ssh: {type(error).__name__}: {error}")
    finally:
        limit.close()


def _to_standard_output() -> Done:
    """Return a function that prints a node's line. All other output now goes to standard error."""
    lines = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def tell(name: str, got: Got) -> None:
        # UTF-8 in every locale; a node may have printed anything.
        lines.write(f"{node_line(name, got)}\n".encode(errors="replace"))
        lines.flush()

    return tell


def main() -> None:
    """Read the nodes that the first line of standard input describes."""
    # The result contains every failure, so the libraries' logs stay off the terminal.
    logging.disable()
    tell = _to_standard_output()
    lines = FileObject(sys.stdin.fileno(), "r", closefd=False)
    share = loads(lines.readline())
    second: AsyncResult[str] = AsyncResult()
    spawn(lambda: second.set(lines.readline().strip()))
    read = read_through if share.through else read_all
    # None: there is no credential, or it did not arrive in time.
    read(share, lambda timeout_s: second.wait(timeout_s) or None, tell)

"""A share of the nodes read at once over pyinfra's own ssh connections: one execution each.

    python -m lockstep.fleet.shard NODES

A process of its own, because pyinfra needs gevent to patch the standard library before anything
else is imported. ``gather`` starts it; the node names show in the list of processes. Standard
input: a line with what to read (``share``), and later one with the credential that all but the
controller decode; empty where there is none. Standard output: a line for each node as it is done,
its record as the probe printed it (``node_line``). A node that fails fails alone and says why.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
"""For the connection, and again for the record; the probe itself gives up after 25 s."""
CREDENTIAL_TIMEOUT_S = 30
"""From the start: a controller that hangs costs the others this long and their round trip."""

if __name__ == "__main__":
    from lockstep import garbage
    from lockstep.fleet.lazy_imports import entry_points_once, import_little

    garbage.seldom()
    entry_points_once()

    from gevent import monkey

    monkey.patch_all()
    import_little()

import logging  # noqa: E402  # after the patch
from dataclasses import replace  # noqa: E402
from functools import partial  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from lockstep.connection import close  # noqa: E402
from lockstep.fleet.share import Share, loads  # noqa: E402
from lockstep.probe.lines import ProbeFormatError, Unreachable, node_line, printed  # noqa: E402
from lockstep.probe.parts import joined  # noqa: E402
from lockstep.probe.ship import Request, command  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gevent import Greenlet
    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from pyinfra.connectors.util import CommandOutput

COMPLAINTS = 5
Got = str | Unreachable
"""The line of a record as the probe printed it, or why there is none."""
Credential = Callable[[float], str | None]
"""Waits for the controller's at most so many seconds."""
Done = Callable[[str, Got], None]
"""Is called with each node and what came of it."""


def read_all(share: Share, credential: Credential, done: Done) -> None:
    """Read the nodes. Only in a process that gevent patched from the start."""
    from gevent import joinall, spawn
    from gevent.lock import BoundedSemaphore

    state = _state(share, share.requests)
    slots = BoundedSemaphore(share.at_once)
    until = time.monotonic() + CREDENTIAL_TIMEOUT_S

    def given() -> str | None:
        return credential(max(0.0, until - time.monotonic()))

    def once(name: str, asked: Request, credential: Callable[[], str | None]) -> Got:
        try:
            return _one(state, name, asked, credential)
        finally:
            # Each costs a file here, a login there and on every jump host on the way.
            close(state.inventory.get_host(name))

    def read(name: str, asked: Request) -> None:
        if name == share.controller:
            # First of all, and outside the slots: the others wait for its credential.
            done(name, once(name, asked, _nobody))
            return
        with slots:
            got = once(name, asked, given if share.controller else _nobody)
        done(name, got)

    def failed(name: str, job: Greenlet[..., None]) -> None:
        # An error of our own: named here, printed by gevent. At once: others may wait for it.
        reason = f"{type(job.exception).__name__}: {job.exception}"
        done(name, Unreachable(f"not read: {reason}"))

    jobs = []
    for name, asked in share.requests.items():
        job = spawn(read, name, asked)
        job.link_exception(partial(failed, name))
        jobs.append(job)
    joinall(jobs)


def _state(share: Share, nodes: Collection[str]) -> State:
    from pyinfra.api.config import Config
    from pyinfra.api.inventory import Inventory
    from pyinfra.api.state import State
    from pyinfra.connectors import util as pyinfra_util
    from pyinfra.connectors.sshuserclient import client

    from lockstep.fleet.jump_host import Hop

    _quiet()
    # pyinfra asks at the terminal when sudo wants a password, and whether a jump host is the right
    # one whose key it does not know; a check asks nobody.
    setattr(pyinfra_util, "getpass", _no_password)  # noqa: B010  # not a name that it exports
    setattr(client, "AskPolicy", client.StrictPolicy)  # noqa: B010  # a class in place of another
    setattr(client, "SSHClient", Hop)  # noqa: B010  # by this name it makes those to jump hosts
    hosts = [share.hosts[name] for name in nodes]
    inventory = Inventory((hosts, {}))  # type: ignore[no-untyped-call]  # pyinfra's
    config = Config(CONNECT_TIMEOUT=CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]
    return State(inventory, config)


def read_through(share: Share, credential: Credential, done: Done) -> None:
    """Read the controller, and the workers that another program reaches from there."""
    # Not for everybody: they bring models with them, which cost 0.2 s.
    from lockstep.fleet import clush, slurm_step

    head = share.controller
    state = _state(share, [head])
    done(head, _one(state, head, share.requests[head], _nobody))
    made = credential(CREDENTIAL_TIMEOUT_S)

    def said(text: str, timeout_s: float) -> list[str]:
        answer = _answer(state, head, lambda: text, timeout_s)
        if isinstance(answer, Unreachable):
            print(f"{head}: {answer.reason}", file=sys.stderr)
            return []
        # Of 2,000 nodes that fail, the first few tell why.
        for line in answer[1].stderr_lines[:COMPLAINTS]:
            print(line, file=sys.stderr)
        return answer[1].stdout_lines

    def requests(names: Iterable[str]) -> dict[str, Request]:
        return {name: replace(share.requests[name], credential=made) for name in names}

    def arrived(names: Collection[str], lines: Iterable[str]) -> None:
        for name, record in joined(lines):
            if name in names and "\n" not in record:
                done(name, record)

    if share.through == clush.OPTION:
        if share.workers:
            words = clush.run(requests(share.workers))
            arrived(share.workers, clush.own(said(words, clush.ALL_S + 2 * clush.KILL_S)))
        return
    job = share.through.removeprefix(slurm_step.OPTION)
    where = said(slurm_step.where(job), NODE_TIMEOUT_S)
    for place in slurm_step.places(where, job, share.workers):
        step = slurm_step.step(place, requests(place.nodes))
        arrived(place.nodes, said(step, slurm_step.STEP_S + 2 * slurm_step.KILL_S))


def _one(state: State, node: str, asked: Request, credential: Callable[[], str | None]) -> Got:
    answer = _answer(
        state, node, lambda: command(replace(asked, credential=credential())), NODE_TIMEOUT_S
    )
    if isinstance(answer, Unreachable):
        return answer
    ok, output = answer
    if not ok:
        said = (output.stderr_lines or output.stdout_lines or ["no message"])[-1]
        return Unreachable(f"reached by ssh, but the probe failed: {said.strip()[:200]}")
    try:
        return printed(output.stdout)
    except ProbeFormatError as error:
        return Unreachable(f"reached by ssh, but the answer is no record: {error}")


def _answer(
    state: State, node: str, text: Callable[[], str], timeout_s: float
) -> tuple[bool, CommandOutput] | Unreachable:
    """Return whether a command went well on a node, and what it said."""
    from gevent import Timeout
    from paramiko import SSHException
    from pyinfra.api.command import StringCommand
    from pyinfra.api.exceptions import ConnectError, PyinfraError

    from lockstep.fast.ssh import SudoRefused

    host: Host = state.inventory.get_host(node)
    limit = Timeout(NODE_TIMEOUT_S)
    limit.start()
    try:
        host.connect(show_errors=False, raise_exceptions=True)
        limit.close()
        asked = text()  # the wait for another node is not this node's time
        limit = Timeout(timeout_s)
        limit.start()
        # sudo is part of the command: pyinfra's own form asks for a password at the terminal.
        prefix = "sudo -n -H " if host.data.get("_sudo") else ""
        return host.run_shell_command(
            StringCommand(prefix + asked), print_output=False, print_input=False
        )
    except Timeout as timeout:
        if timeout is not limit:
            return Unreachable(f"ssh: {timeout}")
        return Unreachable(f"no record within {limit.seconds} s")
    except ConnectError as error:
        return Unreachable(f"ssh: {error}")
    except (SudoAsks, SudoRefused):
        return Unreachable("sudo asks for a password: the account needs NOPASSWD on this node")
    except (PyinfraError, SSHException, OSError, EOFError) as error:
        return Unreachable(f"ssh: {type(error).__name__}: {error}")
    finally:
        limit.close()


def _nobody() -> None:
    """Return no credential: the controller needs none, nor does a cluster without one."""


class SudoAsks(Exception):
    """sudo wants a password on a node."""


def _no_password(prompt: str) -> str:
    raise SudoAsks(prompt)


def _quiet() -> None:
    """Keep what the libraries log off the terminal: every failure is in the reading."""
    for name in ("pyinfra", "paramiko"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _credential(lines: Any) -> Credential:
    """Return what waits for the next of some lines."""
    from gevent import spawn
    from gevent.event import AsyncResult

    told: AsyncResult[str] = AsyncResult()
    spawn(lambda: told.set(lines.readline().strip()))

    def wait(timeout_s: float) -> str | None:
        return told.wait(timeout_s) or None  # None as well when it did not come in time

    return wait


def _to_standard_output() -> Done:
    """Return what prints a node; what anybody else prints goes where errors go."""
    lines = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def tell(name: str, got: Got) -> None:
        # As UTF-8, whatever the locale says; what a node printed may be anything.
        lines.write(f"{node_line(name, got)}\n".encode(errors="replace"))
        lines.flush()

    return tell


def main() -> None:
    """Read the nodes that the first line of standard input describes."""
    from gevent.fileobject import FileObject

    tell = _to_standard_output()
    lines = FileObject(sys.stdin.fileno(), "r", closefd=False)
    share = loads(lines.readline())
    read = read_through if share.through else read_all
    read(share, _credential(lines), tell)


if __name__ == "__main__":
    main()

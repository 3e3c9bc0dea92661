"""A share of the nodes read at once over pyinfra's own ssh connections: one execution each.

    python -m lockstep.facts.shard NODES AT_ONCE INVENTORY [--containers] [--through-slurm=JOB]

A process of its own, because pyinfra needs gevent to patch the standard library before anything
else is imported. ``gather`` starts it. Standard output: a line for each node as it is done, its
record as the probe printed it (``node_line``). Standard input: one line, the credential that all
but the controller decode; empty where there is none. A node that fails fails alone and says why.
"""

from __future__ import annotations

import sys
import time

CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
"""For the connection, and again for the record; the probe itself gives up after 25 s."""
CREDENTIAL_TIMEOUT_S = 30
"""From the start: a controller that hangs costs the others this long and their round trip."""

if __name__ == "__main__":
    from gevent import monkey

    monkey.patch_all()

import logging  # noqa: E402  # after the patch
from contextlib import redirect_stdout  # noqa: E402
from dataclasses import dataclass, replace  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from lockstep.facts import slurm_step  # noqa: E402
from lockstep.facts.request import request  # noqa: E402
from lockstep.inventory import load  # noqa: E402
from lockstep.plan import ClusterPlan, NodePlan  # noqa: E402
from lockstep.probe.parse import ProbeFormatError, node_line, printed  # noqa: E402
from lockstep.probe.parts import joined  # noqa: E402
from lockstep.probe.record import Unreachable  # noqa: E402
from lockstep.probe.ship import Request, command  # noqa: E402
from lockstep.spec import Role, Service  # noqa: E402
from lockstep.spec.names import expand  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyinfra.api.host import Host
    from pyinfra.api.state import State
    from pyinfra.connectors.util import CommandOutput

WITH = "--containers"
THROUGH = "--through-slurm="
COMPLAINTS = 5
LONGER_THAN_STEP_S = slurm_step.STEP_S + 2 * slurm_step.KILL_S
Got = str | Unreachable
"""The line of a record as the probe printed it, or why there is none."""


@dataclass(frozen=True)
class Share:
    """What this process reads."""

    plan: ClusterPlan
    nodes: Collection[str]
    credential: Callable[[float], str | None]
    """Waits for the controller's at most so many seconds."""
    done: Callable[[str, Got], None]
    """Is called with each node and what came of it."""
    containers: bool = False
    """Have each container engine start one."""

    def request(self, node: NodePlan) -> Request:
        """Return what to look at on a node."""
        return request(node, containers=self.containers)


def read_all(share: Share, at_once: int) -> None:
    """Read the nodes, so many at once. Only in a process that gevent patched from the start."""
    from gevent import joinall, spawn
    from gevent.lock import BoundedSemaphore

    state = _state(share.plan, share.nodes)
    controller = share.plan.running(Service.SLURM_CONTROLLER)
    slots = BoundedSemaphore(at_once)
    until = time.monotonic() + CREDENTIAL_TIMEOUT_S

    def given() -> str | None:
        return share.credential(max(0.0, until - time.monotonic()))

    def read(node: NodePlan) -> None:
        asked = share.request(node)
        if controller is not None and node.name == controller.name:
            # First of all, and outside the slots: the others wait for its credential.
            share.done(node.name, _one(state, node, asked, _nobody))
            return
        with slots:
            got = _one(state, node, asked, given if controller is not None else _nobody)
        share.done(node.name, got)

    jobs = {name: spawn(read, share.plan.nodes[name]) for name in share.nodes}
    joinall(jobs.values())
    for name, job in jobs.items():
        if job.exception is not None:  # an error of our own: named here, printed by gevent
            reason = f"{type(job.exception).__name__}: {job.exception}"
            share.done(name, Unreachable(f"not read: {reason}"))


def _state(plan: ClusterPlan, nodes: Collection[str]) -> State:
    from pyinfra.api.config import Config
    from pyinfra.api.inventory import Inventory
    from pyinfra.api.state import State
    from pyinfra.connectors import util as pyinfra_util

    _quiet()
    # pyinfra asks at the terminal when sudo wants a password; a check asks nobody.
    setattr(pyinfra_util, "getpass", _no_password)  # noqa: B010  # not a name that it exports
    groups: dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]] = {
        role.value: ([host for host in plan.group(role.value) if host[1]["plan"].name in nodes], {})
        for role in Role
    }
    everyone = [host for hosts, _ in groups.values() for host in hosts]
    inventory = Inventory((everyone, {}), **groups)  # type: ignore[no-untyped-call]  # pyinfra's
    config = Config(CONNECT_TIMEOUT=CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]
    return State(inventory, config)


def read_through(share: Share, job: str) -> None:
    """Read the controller, and the workers that it reaches by a step of Slurm.

    Args:
        share: of all nodes.
        job: where the step runs; "": on the idle nodes.
    """
    plan = share.plan
    controller = plan.running(Service.SLURM_CONTROLLER)
    assert controller is not None
    state = _state(plan, {controller.name})
    share.done(controller.name, _one(state, controller, share.request(controller), _nobody))
    workers = {name for name in share.nodes if plan.nodes[name].role is Role.WORKER}
    made = share.credential(CREDENTIAL_TIMEOUT_S)

    def asked(text: str, timeout_s: float) -> list[str]:
        answer = _answer(state, controller, lambda: text, timeout_s)
        if isinstance(answer, Unreachable):
            print(f"{controller.name}: {answer.reason}", file=sys.stderr)
            return []
        # Of 2,000 nodes that fail, the first few tell why.
        for line in answer[1].stderr_lines[:COMPLAINTS]:
            print(line, file=sys.stderr)
        return answer[1].stdout_lines

    for place in slurm_step.places(asked(slurm_step.where(job), NODE_TIMEOUT_S), job, workers):
        requests = {
            name: replace(share.request(plan.nodes[name]), credential=made) for name in place.nodes
        }
        for name, record in joined(asked(slurm_step.step(place, requests), LONGER_THAN_STEP_S)):
            if name in requests and "\n" not in record:
                share.done(name, record)


def _one(state: State, node: NodePlan, asked: Request, credential: Callable[[], str | None]) -> Got:
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
    state: State, node: NodePlan, text: Callable[[], str], timeout_s: float
) -> tuple[bool, CommandOutput] | Unreachable:
    """Return whether a command went well on a node, and what it said."""
    from gevent import Timeout
    from paramiko import SSHException
    from pyinfra.api.command import StringCommand
    from pyinfra.api.exceptions import ConnectError, PyinfraError

    host: Host = state.inventory.get_host(node.name)
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
    except SudoAsks:
        return Unreachable("sudo asks for a password: the account needs NOPASSWD on this node")
    except (PyinfraError, SSHException, OSError, EOFError) as error:
        return Unreachable(f"ssh: {type(error).__name__}: {error}")
    finally:
        limit.close()


def _nobody() -> None:
    """The controller waits for no credential, and nobody does where there is none."""


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


def _credential() -> Callable[[float], str | None]:
    """Return what waits for the line on standard input."""
    from gevent import spawn
    from gevent.event import AsyncResult
    from gevent.fileobject import FileObject

    told: AsyncResult[str] = AsyncResult()
    spawn(lambda: told.set(FileObject(sys.stdin.fileno(), "r", closefd=False).readline().strip()))

    def wait(timeout_s: float) -> str | None:
        return told.wait(timeout_s) or None  # None as well when it did not come in time

    return wait


def _print(name: str, got: Got) -> None:
    # As UTF-8, whatever the locale says; what a node printed may be anything.
    sys.stdout.buffer.write(f"{node_line(name, got)}\n".encode(errors="replace"))
    sys.stdout.buffer.flush()


def main(words: list[str]) -> None:
    """Read the nodes that the command line names."""
    nodes, at_once, inventory, *options = words
    with redirect_stdout(sys.stderr):  # an inventory may print
        plan = load(inventory)
    share = Share(plan, frozenset(expand(nodes)), _credential(), _print, WITH in options)
    job = next((one.removeprefix(THROUGH) for one in options if one.startswith(THROUGH)), None)
    if job is None:
        read_all(share, int(at_once))
    else:
        read_through(share, job)


if __name__ == "__main__":
    main(sys.argv[1:])

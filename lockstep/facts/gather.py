"""All nodes read at once over pyinfra's own ssh connections: one connection, one execution each.

Runs as a process of its own (``python -m lockstep.facts.gather INVENTORY``), because pyinfra
needs gevent to patch the standard library before anything else is imported; ``gather`` starts
that process, passes on how far it is and returns what it read. A node that fails fails alone, with
its reason.
"""

from __future__ import annotations

import subprocess
import sys
import time

CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
"""For the connection, and again for the record; the probe itself gives up after 25 s."""
CREDENTIAL_TIMEOUT_S = 30
"""From the start: a controller that hangs costs the others this long and their round trip."""
AT_ONCE = 128

if __name__ == "__main__":
    from gevent import monkey

    monkey.patch_all()

import logging  # noqa: E402  # after the patch
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from dataclasses import replace  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from lockstep.facts.progress import Tell, heard, said  # noqa: E402
from lockstep.facts.request import request  # noqa: E402
from lockstep.inventory import load  # noqa: E402
from lockstep.plan import ClusterPlan, NodePlan  # noqa: E402
from lockstep.probe.parse import ProbeFormatError, dumps, loads, parse  # noqa: E402
from lockstep.probe.record import Reading, Record, Unreachable  # noqa: E402
from lockstep.probe.ship import Request, command  # noqa: E402
from lockstep.report import fold  # noqa: E402
from lockstep.spec import Role, Service  # noqa: E402
from lockstep.spec.names import expand  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyinfra.api.host import Host
    from pyinfra.api.state import State


class GatherError(Exception):
    """The reading process itself failed; its last words are the message."""


WITH = "--containers"
ONLY = "--nodes="


def _untold(done: int, failed: int) -> None:
    """Nobody wants to know how far it is."""


def gather(
    inventory: str,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    tell: Tell = _untold,
) -> Reading:
    """Return the record of every node of an inventory, or why there is none.

    Args:
        inventory: its file.
        nodes: read these only.
        containers: have each container engine start one, and read what it sees.
        tell: is called after each node.

    Raises:
        GatherError: the process that reads ended with an error.
    """
    with (
        subprocess.Popen(
            [
                *(sys.executable, "-m", "lockstep.facts.gather", inventory),
                *([WITH] if containers else []),
                *([] if nodes is None else [ONLY + fold(nodes)]),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        ThreadPoolExecutor(1) as other,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        output = other.submit(process.stdout.read)
        errors = "".join(line for line in process.stderr if not heard(line, tell))
    if process.returncode != 0:
        raise GatherError(errors.strip() or f"exit {process.returncode}")
    sys.stderr.write(errors)  # nothing, unless something is wrong with ourselves
    try:
        return loads(output.result())
    except ProbeFormatError as error:
        raise GatherError(f"{error}\n{errors}") from error


def read_all(
    plan: ClusterPlan,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    tell: Tell = _untold,
) -> Reading:
    """Read the nodes now. Only in a process that gevent has patched from the start."""
    from gevent import joinall, spawn
    from gevent.event import AsyncResult
    from gevent.lock import BoundedSemaphore
    from pyinfra.api.config import Config
    from pyinfra.api.inventory import Inventory
    from pyinfra.api.state import State
    from pyinfra.connectors import util as pyinfra_util

    _quiet()
    # pyinfra asks at the terminal when sudo wants a password; a check asks nobody.
    setattr(pyinfra_util, "getpass", _no_password)  # noqa: B010  # not a name that it exports
    groups: dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]] = {
        role.value: (plan.group(role.value), {}) for role in Role
    }
    everyone = [host for hosts, _ in groups.values() for host in hosts]
    inventory = Inventory((everyone, {}), **groups)  # type: ignore[no-untyped-call]  # pyinfra's
    config = Config(CONNECT_TIMEOUT=CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]
    state = State(inventory, config)
    controller = plan.running(Service.SLURM_CONTROLLER)
    credential: AsyncResult[str | None] = AsyncResult()
    if controller is None:
        credential.set(None)
    wanted = plan.nodes if nodes is None else nodes
    slots = BoundedSemaphore(AT_ONCE)
    reading: Reading = {}
    until = time.monotonic() + CREDENTIAL_TIMEOUT_S

    def given() -> str | None:
        made: str | None = credential.wait(max(0.0, until - time.monotonic()))
        return made  # None as well when it did not come in time

    def read(node: NodePlan) -> None:
        issues = controller is not None and node.name == controller.name
        asked = request(node, containers=containers)
        try:
            if issues:  # first of all, and outside the slots: the others wait for its answer
                reading[node.name] = _one(state, node, asked, _nobody)
                return
            with slots:
                reading[node.name] = _one(state, node, asked, given)
        finally:
            if issues:
                credential.set(_credential(reading.get(node.name)))
            asked_for = [got for name, got in reading.items() if name in wanted]
            tell(len(asked_for), sum(isinstance(got, Unreachable) for got in asked_for))

    # The controller is read for its credential, also where nobody asked for the controller.
    also = {controller.name} if controller is not None else set()
    jobs = {
        name: spawn(read, node)
        for name, node in plan.nodes.items()
        if name in wanted or name in also
    }
    joinall(jobs.values())
    for name, job in jobs.items():
        if job.exception is not None:  # an error of our own: named here, printed by gevent
            reason = f"{type(job.exception).__name__}: {job.exception}"
            reading[name] = Unreachable(f"not read: {reason}")
    return {name: got for name, got in reading.items() if name in wanted}


def _one(
    state: State, node: NodePlan, asked: Request, credential: Callable[[], str | None]
) -> Record | Unreachable:
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
        given = credential()  # the wait for another node is not this node's time
        limit = Timeout(NODE_TIMEOUT_S)
        limit.start()
        text = command(replace(asked, credential=given))
        # sudo is part of the command: pyinfra's own form asks for a password at the terminal.
        prefix = "sudo -n -H " if host.data.get("_sudo") else ""
        ok, output = host.run_shell_command(
            StringCommand(prefix + text), print_output=False, print_input=False
        )
        if not ok:
            said = (output.stderr_lines or output.stdout_lines or ["no message"])[-1]
            return Unreachable(f"reached by ssh, but the probe failed: {said.strip()[:200]}")
        return parse(output.stdout)
    except Timeout as timeout:
        if timeout is not limit:
            return Unreachable(f"ssh: {timeout}")
        return Unreachable(f"no record within {NODE_TIMEOUT_S} s")
    except ProbeFormatError as error:
        return Unreachable(f"reached by ssh, but the answer is no record: {error}")
    except ConnectError as error:
        return Unreachable(f"ssh: {error}")
    except SudoAsks:
        return Unreachable("sudo asks for a password: the account needs NOPASSWD on this node")
    except (PyinfraError, SSHException, OSError, EOFError) as error:
        return Unreachable(f"ssh: {type(error).__name__}: {error}")
    finally:
        limit.close()


def _nobody() -> None:
    """The issuer of the credential waits for none."""


def _credential(got: Record | Unreachable | None) -> str | None:
    made = got.get("munge.credential") if isinstance(got, Record) else None
    return made if isinstance(made, str) else None


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


def _tell(done: int, failed: int) -> None:
    print(said(done, failed), file=sys.stderr, flush=True)


if __name__ == "__main__":
    options = sys.argv[2:]
    asked_for = next((expand(o.removeprefix(ONLY)) for o in options if o.startswith(ONLY)), None)
    plan = load(sys.argv[1])
    sys.stdout.write(dumps(read_all(plan, asked_for, containers=WITH in options, tell=_tell)))

"""Waits until a machine has booted and accepts ssh connections with a verified host key."""

import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from lab.commands import attempt
from lab.errors import LabError
from lab.provider import Provider
from lab.state import LabState, Node

ASK_WITHIN_S = 120.0


def wait_ready(
    state: LabState, node: Node, provider: Provider, stopped: Callable[[], bool]
) -> list[str]:
    """Wait until a node is ready; return the names of its failed units (normally none).

    Args:
        state: the lab.
        node: a node that was powered on.
        provider: the node's provider.
        stopped: returns True when the command was interrupted and waiting must end.

    Raises:
        LabError: the node was not ready in time; the text has the last state.
    """
    deadline = time.monotonic() + provider.ready_within_s
    systemd_says = "nothing yet"
    while systemd_says not in ("running", "degraded"):
        if time.monotonic() > deadline:
            _give_up(state, node, provider, f"systemctl is-system-running: {systemd_says!r}")
        _check_stopped(node, stopped)
        systemd_says = (
            _ask(provider, state, node, ["systemctl", "is-system-running"]).strip() or "nothing yet"
        )
        time.sleep(provider.poll_s)
    failed = ""
    if systemd_says == "degraded":
        listing = ["systemctl", "list-units", "--failed", "--plain", "--no-legend"]
        failed = _ask(provider, state, node, listing)
    answer = "ssh was not tried"
    while answer:
        if time.monotonic() > deadline:
            _give_up(state, node, provider, f"{answer}; failed units: {failed.split() or 'none'}")
        _check_stopped(node, stopped)
        answer = ssh_problem(state, node)
    return [line.split()[0] for line in failed.splitlines() if line.strip()]


def _ask(provider: Provider, state: LabState, node: Node, command: Sequence[str]) -> str:
    """Return the output of a command in the machine, for any exit status."""
    return attempt(provider.console(state.name, node, command), timeout=ASK_WITHIN_S).stdout


def ssh_problem(state: LabState, node: Node) -> str:
    """Return the error of an ssh connection to a node; empty when it works."""
    result = attempt(
        ["ssh", "-F", state.ssh_config, "-o", "BatchMode=yes", node.address, "true"], timeout=60
    )
    if result.returncode == 0:
        return ""
    return f"ssh failed with exit status {result.returncode}: {result.stderr.strip()}"


def _check_stopped(node: Node, stopped: Callable[[], bool]) -> None:
    if stopped():
        raise LabError(f"node {node.name!r}: interrupted while waiting")


def _give_up(state: LabState, node: Node, provider: Provider, why: str) -> NoReturn:
    raise LabError(
        f"node {node.name!r} was not ready within {provider.ready_within_s:.0f} s: {why}",
        f"lockstep lab --name {state.name} run {node.name} -- journalctl -b --no-pager",
    )

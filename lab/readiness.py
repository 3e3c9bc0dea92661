"""Waiting until a machine is really there: booted, and answering ssh with its host key checked."""

import time
from collections.abc import Callable, Sequence

from lab.commands import attempt
from lab.errors import LabError
from lab.provider import Provider
from lab.state import LabState, Node

READY_WITHIN_S = 300.0


def wait_ready(
    state: LabState, node: Node, provider: Provider, stopped: Callable[[], bool]
) -> list[str]:
    """Wait for a booted node; return the names of its failed units (normally none).

    Args:
        state: the lab.
        node: a node that was powered on.
        provider: who runs it.
        stopped: True ends the waiting (the command was interrupted).

    Raises:
        LabError: not ready within READY_WITHIN_S seconds; says how far it came.
    """
    deadline = time.monotonic() + READY_WITHIN_S
    systemd_says = "nothing yet"
    while systemd_says not in ("running", "degraded"):
        _check(state, node, deadline, stopped, f"systemctl is-system-running says {systemd_says!r}")
        systemd_says = (
            _ask(provider, state, node, ["systemctl", "is-system-running"]).strip() or "nothing yet"
        )
        time.sleep(0.1)
    failed = ""
    if systemd_says == "degraded":
        listing = ["systemctl", "list-units", "--failed", "--plain", "--no-legend"]
        failed = _ask(provider, state, node, listing)
    answer = "ssh was not tried"
    while answer:
        _check(state, node, deadline, stopped, answer)
        answer = ssh_problem(state, node)
    return [line.split()[0] for line in failed.splitlines() if line.strip()]


def _ask(provider: Provider, state: LabState, node: Node, command: Sequence[str]) -> str:
    """What a command in the machine prints, whatever its exit status."""
    return attempt(provider.console(state.name, node, command)).stdout


def ssh_problem(state: LabState, node: Node) -> str:
    """What is wrong with ssh to a node; empty when it works."""
    result = attempt(
        ["ssh", "-F", state.ssh_config, "-o", "BatchMode=yes", node.address, "true"], timeout=60
    )
    if result.returncode == 0:
        return ""
    return f"ssh ended with status {result.returncode}: {result.stderr.strip()}"


def _check(
    state: LabState, node: Node, deadline: float, stopped: Callable[[], bool], why: str
) -> None:
    if stopped():
        raise LabError(f"node {node.name!r}: waiting for it was interrupted")
    if time.monotonic() > deadline:
        raise LabError(
            f"node {node.name!r} was not ready within {READY_WITHIN_S:.0f} s: {why}",
            f"python -m lab --name {state.name} run {node.name} -- journalctl -b --no-pager",
        )

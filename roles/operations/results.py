"""What a run of pyinfra did on each node, as ``lockstep log`` keeps it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from pyinfra.api import Host, State
from pyinfra.api.state import BaseStateCallback
from typing_extensions import override

from lockstep.connection import is_lost
from lockstep.history.runs import Change, OnNode, Result
from lockstep.plan import NodePlan
from lockstep.roles.operations.noted import of_operation

GIT_WITHIN_S = 10.0


class Results(BaseStateCallback):
    """Notes which operation failed on each host."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self._failed: dict[Host, str] = {}

    @override
    def host_connect_error(self, state: State, host: Host, error: Exception) -> None:  # type: ignore[override]  # pyinfra calls it on an instance
        self._failed.setdefault(host, "no connection")

    @override
    def operation_host_error(  # type: ignore[override]  # as above
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        how = "stopped answering during" if is_lost(host) else "failed in"
        self._failed.setdefault(host, f"{how} {name_of(state, op_hash)}")

    def of_nodes(self, state: State) -> dict[str, OnNode]:
        """Return what the run did on each node that it was to deploy."""
        return {
            node.name: self._on_node(state, host)
            for host in state.inventory
            if state.is_host_in_limit(host)
            and isinstance(node := host.data.get("plan"), NodePlan)
            and (state.ops[host] or host in state.failed_hosts)
        }

    def _on_node(self, state: State, host: Host) -> OnNode:
        changes = tuple(_changes(state, host))
        if host in state.failed_hosts or host in self._failed:
            return OnNode(Result.FAILED, changes, self._failed.get(host, "could not be read"))
        if not all(one.operation_meta.is_complete() for one in state.ops[host].values()):
            return OnNode(Result.UNFINISHED, changes)
        return OnNode(Result.CHANGED if changes else Result.NONE, changes)


def name_of(state: State, operation: str) -> str:
    """Return the name of an operation, as pyinfra shows it."""
    return ", ".join(sorted(state.get_op_meta(operation).names))


def _changes(state: State, host: Host) -> Iterator[Change]:
    for operation in host.op_hash_order:
        one = state.ops[host].get(operation)
        if one is not None and one.operation_meta.executed:
            yield Change(name_of(state, operation), of_operation(state, host, operation))


def commit_of(inventory: str) -> str:
    """Return the commit of the git repository with the inventory, and "+" after changes to it.

    The answer is "" if the inventory is in no repository, or if git does not answer.
    """
    folder = str(Path(inventory).resolve().parent)
    answers = []
    for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "-uno")):
        try:
            done = subprocess.run(
                ["git", "-C", folder, *words],
                capture_output=True,
                text=True,
                check=False,
                timeout=GIT_WITHIN_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        if done.returncode:
            return ""
        answers.append(done.stdout.strip())
    commit, changed = answers
    return f"{commit}+" if changed else commit

"""Counts executions on a node: the ssh sessions in its journal.

A session is one command, one shell or one file transfer over a connection. Commands that a tool
sends through an open session (mitogen), and processes started on the node, are not counted.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from benchmarks.speed.nodes import on
from lab.state import LabState

AT_ONCE = 16
DROP_IN = "/etc/ssh/sshd_config.d/50-benchmark.conf"
NOTE = (
    # By default, sshd does not log sessions. A machine with many names gets many logins at a time;
    # sshd randomly rejects more than ten (sshd_config(5), MaxStartups).
    f"printf 'LogLevel VERBOSE\\nMaxStartups 1000\\n' >{DROP_IN} && systemctl reload ssh.service"
)
COUNT = (
    "journalctl --boot --output cat --identifier sshd-session --identifier sshd "
    "--grep '^Starting session' | wc -l"
)


def note(lab: LabState, nodes: Collection[str]) -> None:
    """Configure the nodes to log all sessions."""
    _on_each(lab, nodes, NOTE)


def counted(lab: LabState, nodes: Collection[str]) -> int:
    """Return the number of sessions since boot, including the session of this call."""
    return sum(map(int, _on_each(lab, nodes, COUNT)))


def _on_each(lab: LabState, nodes: Collection[str], command: str) -> list[str]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda node: on(lab, node, command), nodes))

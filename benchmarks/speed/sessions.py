"""How many executions a node has seen: the sessions that its sshd opened, by its own journal.

A session is one command, one shell or one transfer over a connection. What a tool pipes into a
session that it keeps open (mitogen) is not counted, nor what a command starts on the node.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from benchmarks.speed.nodes import on
from lab.state import LabState

AT_ONCE = 16
DROP_IN = "/etc/ssh/sshd_config.d/50-benchmark.conf"
NOTE = (
    # At its usual level sshd says nothing of sessions. A machine with many names has as many
    # logins at a time; more than ten (sshd_config(5), MaxStartups) it turns away by chance.
    f"printf 'LogLevel VERBOSE\\nMaxStartups 1000\\n' >{DROP_IN} && systemctl reload ssh.service"
)
COUNT = (
    "journalctl --boot --output cat --identifier sshd-session --identifier sshd "
    "--grep '^Starting session' | wc -l"
)


def note(lab: LabState, nodes: Collection[str]) -> None:
    """Have the nodes write down each session from now on."""
    _on_each(lab, nodes, NOTE)


def counted(lab: LabState, nodes: Collection[str]) -> int:
    """Return how many sessions the nodes had since they booted, this look included."""
    return sum(map(int, _on_each(lab, nodes, COUNT)))


def _on_each(lab: LabState, nodes: Collection[str], command: str) -> list[str]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda node: on(lab, node, command), nodes))

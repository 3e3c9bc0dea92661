"""Objects of the domain ``timer``."""

from __future__ import annotations

from lockstep.node.fingerprint.entry import Secret
from tests.node.fingerprint.daemon_node import ADMIN, Node, node

__all__ = ["node"]
AT = """#!/bin/sh
# atrun uid=0 gid=0
umask 22
OLDPWD=/root; export OLDPWD
cd /root || {
\t echo 'Execution directory inaccessible' >&2
\t exit 1
}
reboot
"""


def timer(node: Node, name: str = "night", state: str = "active waiting") -> None:
    node.unit(f"{name}.timer", "[Timer]\nOnCalendar=daily\nPersistent=yes\n", f"loaded {state}")
    node.unit(f"{name}.service", "[Service]\nExecStart=/bin/clean -a\n", "loaded inactive dead")


def test_a_timer_that_waits(node: Node) -> None:
    timer(node)
    timer(node, "off", "inactive dead")
    assert node.read("timer") == {
        "night.timer": {"OnCalendar": "daily", "Persistent": "yes", "command": "/bin/clean -a",
                        "unit": "night.service"},
    }  # fmt: skip


def test_another_time_and_another_unit(node: Node) -> None:
    timer(node)
    timer(node, "other", "")
    node.file(f"{ADMIN}/night.timer.d/1.conf", "[Timer]\nOnCalendar=\nOnCalendar=03:00\n")
    assert node.read("timer")["night.timer"]["OnCalendar"] == "03:00"
    node.file(f"{ADMIN}/night.timer.d/1.conf", "[Timer]\nUnit=other.service\n")
    assert node.read("timer")["night.timer"]["unit"] == "other.service"


def test_timers_of_systemd_run_are_called_by_their_command(node: Node) -> None:
    before = None
    for name in ("run-r0a1b", "run-p5-i6"):
        folder = "/run/systemd/transient"
        node.states = {f"{name}.timer": "loaded active waiting"}
        node.file(f"{folder}/{name}.timer", f"[Timer]\nOnActiveSec={len(name)}h\n")
        node.file(f"{folder}/{name}.service", '[Service]\nExecStart="/bin/sync" "-f"\n')
        seen = node.read("timer")
        assert list(seen) == ["systemd-run: /bin/sync"]
        assert seen["systemd-run: /bin/sync"]["command"] == "/bin/sync -f"
        assert before in (None, seen)
        before = seen


def test_jobs_of_at(node: Node) -> None:
    node.file("/var/spool/cron/atjobs/a0000101bd4a8e", AT)
    node.file("/var/spool/cron/atjobs/.SEQ", "1")
    before = node.read("timer")
    assert before == {"at job 1": {"user": "root", "commands": "reboot"}}
    assert isinstance(before["at job 1"]["commands"], Secret)
    # Another time, and another login.
    (node.root / "var/spool/cron/atjobs/a0000101bd4a8e").unlink()
    node.file("/var/spool/at/a0000201bd4b00", AT.replace("OLDPWD=/root", "OLDPWD=/tmp"))
    assert node.read("timer") == before

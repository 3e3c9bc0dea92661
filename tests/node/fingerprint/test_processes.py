"""Objects of the domains ``process`` and ``cgroup``."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.node.fingerprint.entry import Secret
from tests.node.fingerprint.daemon_node import LIMITS, STATUS, Node, node

__all__ = ["node"]


def test_each_service_has_its_main_process(node: Node) -> None:
    seen = node.read("process")
    assert sorted(seen) == ["munge.service", "slurm.service", "systemd"]
    munge = seen["munge.service"]
    assert munge["command"] == "/usr/sbin/munged -F"
    assert munge["executable"] == "/usr/sbin/munged"
    assert munge["control group"] == "/system.slice/munge.service"
    assert (munge["nice"], munge["policy"], munge["user"]) == ("0", "other", "root")
    assert munge["limit open files"] == "1024 524288"
    assert munge["environment LANG"] == "C"


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"nice": 5}, "nice", "5"),
        ({"policy": 3}, "policy", "batch"),
        ({"state": "T"}, "stopped", "yes"),
        ({"environment": "LANG=C\0GOGC=5\0"}, "environment GOGC", "5"),
    ],
)
def test_changes_of_a_process(node: Node, change: dict[str, Any], field: str, value: str) -> None:
    before = node.read("process")
    node.process(200, "/usr/sbin/munged", "-F", **change)
    after = node.read("process")
    assert {name for name in after if after[name] != before[name]} == {"munge.service"}
    differing = {f for f in after["munge.service"]
                 if after["munge.service"][f] != before["munge.service"].get(f)}  # fmt: skip
    assert differing == {field}
    assert after["munge.service"][field] == value


@pytest.mark.parametrize(
    ("file", "text", "field", "value"),
    [
        ("oom_score_adj", "500\n", "OOM score adjustment", "500"),
        ("coredump_filter", "0000007f\n", "core dump filter", "0000007f"),
        ("timerslack_ns", "1000000\n", "timer slack", "1000000"),
        ("limits", LIMITS.replace("524288", "4096  "), "limit open files", "1024 4096"),
        ("status", STATUS.format(uid=107), "user", "munge"),
        ("status", STATUS.format(uid=0).replace("0-3", "1"), "CPUs", "1"),
        ("status", STATUS.format(uid=0).replace("0022", "0077"), "umask", "0077"),
        ("status", STATUS.format(uid=0).replace("Pid:\t0", "Pid:\t9"), "traced", "yes"),
        (
            "status",
            STATUS.format(uid=0).replace("Privs:\t0", "Privs:\t1"),
            "no new privileges",
            "1",
        ),
        ("status", STATUS.format(uid=61200), "user", "dynamic"),
    ],
)
def test_changes_of_a_file(node: Node, file: str, text: str, field: str, value: str) -> None:
    before = node.read("process")["munge.service"]
    node.file(f"/proc/200/{file}", text)
    after = node.read("process")["munge.service"]
    assert {name for name in after if after[name] != before.get(name)} == {field}
    assert after[field] == value


def test_a_static_account_in_the_range_of_dynamic_ones(node: Node) -> None:
    node.file("/etc/passwd", "slurm:x:64030:64030::/:/bin/false\n")
    node.file("/proc/200/status", STATUS.format(uid=64030))
    assert node.read("process")["munge.service"]["user"] == "slurm"


def test_what_differs_from_start_to_start_is_dropped(node: Node) -> None:
    before = node.read("process")
    variables = ("INVOCATION_ID=7", "JOURNAL_STREAM=9:1", "LISTEN_PID=5", "SYSTEMD_EXEC_PID=200",
                 "NOTIFY_SOCKET=/x", "MEMORY_PRESSURE_WATCH=/y", "LANG=C")  # fmt: skip
    node.process(200, "/usr/sbin/munged", "-F", environment="\0".join(variables) + "\0")
    assert node.read("process") == before


def test_a_slurm_daemon_that_was_reconfigured(node: Node) -> None:
    before = node.read("process")
    own = "SLURMD_RECONF=1\0SLURMD_RECONF_LISTEN_FD=12\0SLURM_CONF=/run/slurm/conf/slurm.conf\0"
    node.process(200, "/usr/sbin/munged", "-F", environment=f"LANG=C\0{own}")
    assert node.read("process") == before
    node.process(200, "/usr/sbin/munged", "-F", environment="LANG=C\0SLURM_CONF=/tmp/slurm.conf\0")
    assert node.read("process") != before


def test_default_limits_that_follow_the_memory_are_dropped(node: Node) -> None:
    before = node.read("process")
    larger = LIMITS.replace("96365", "96401")
    for number in (1, 200, 300):
        node.file(f"/proc/{number}/limits", larger)
    assert node.read("process") == before
    node.file("/proc/200/limits", LIMITS.replace("96365", "512  "))
    assert node.read("process")["munge.service"]["limit processes"] == "512 512"


def test_values_that_look_like_secrets(node: Node) -> None:
    environment = "DB_PASSWORD=x\0URL=http://ann:pw@host/\0LANG=C\0"
    node.process(200, "/usr/sbin/munged", "--token", "abc", environment=environment)
    munge = node.read("process")["munge.service"]
    for field in ("environment DB_PASSWORD", "environment URL", "command"):
        assert isinstance(munge[field], Secret)
    assert not isinstance(munge["environment LANG"], Secret)


def test_a_daemon_that_slurm_has_started_anew(node: Node) -> None:
    node.process(300, "/usr/sbin/slurmd", "-F", environment="LANG=C\0")
    before = node.read("process")
    again = "SLURMD_RECONF=1\0SLURMD_RECONF_PARENT_FD=13\0SLURMD_BOOT_TIME=5\0SLURM_CONF=/x\0"
    node.process(300, "/usr/sbin/slurmd", "-F", environment=f"LANG=C\0{again}")
    assert node.read("process") == before
    node.process(300, "/usr/sbin/slurmd", "-F", environment="LANG=C\0SLURM_CONF=/x\0")
    assert node.read("process") != before


def test_a_title_over_the_environment_is_not_read_as_one(node: Node) -> None:
    node.process(200, "munged: /usr/sbin/munged [listener] 0 of 10-100 startups")
    munge = node.read("process")["munge.service"]
    assert munge["command"] == "munged: /usr/sbin/munged [listener]"
    assert not any(name.startswith("environment") for name in munge)


def test_a_program_that_was_replaced(node: Node) -> None:
    node.link("/proc/200/exe", "/usr/sbin/munged (deleted)")
    munge = node.read("process")["munge.service"]
    assert (munge["executable"], munge["replaced on disk"]) == ("/usr/sbin/munged", "yes")


def test_the_main_process_is_the_services_program_and_not_an_older_helper(node: Node) -> None:
    node.group("system.slice/munge.service", 190, 200, 210)
    node.process(190, "/usr/bin/helper", start=5)
    node.process(210, "/usr/sbin/munged", "-F", "child", parent=200, start=6)
    assert node.read("process")["munge.service"]["command"] == "/usr/sbin/munged -F"


def test_namespaces_of_its_own(node: Node) -> None:
    for number, inode in ((1, 1), (200, 2)):
        node.link(f"/proc/{number}/ns/mnt", f"mnt:[{inode}]")
        node.link(f"/proc/{number}/ns/net", "net:[1]")
    assert node.read("process")["munge.service"]["own namespaces"] == "mnt"


def test_io_priorities_come_from_ionice(node: Node) -> None:
    node.tool(
        "ionice", "for p; do case $p in 200) echo idle;; -p) ;; *) echo none: prio 0;; esac; done"
    )
    seen = node.read("process")
    assert seen["munge.service"]["I/O priority"] == "idle"
    assert "I/O priority" not in seen["slurm.service"]


@pytest.mark.parametrize("group", ["init.scope", "user.slice/user-0.slice/session-3.scope"])
def test_daemons_by_hand(node: Node, group: str) -> None:
    node.group(group, 1, 500, 501, 502, 503)
    node.process(500, "/opt/agent", "-v", environment="SSH_CLIENT=x\0LD_PRELOAD=/x\0")
    node.process(501, "/opt/agent", "-a")
    node.process(502, "/usr/bin/sleep", parent=500)
    node.process(503, "/usr/bin/tmux")
    seen = node.read("process")
    assert seen["by hand: /opt/agent"]["command"] == "/opt/agent -a"
    second = seen["by hand: /opt/agent #2"]
    assert second["environment LD_PRELOAD"] == "/x"
    assert "environment SSH_CLIENT" not in second
    assert len(seen) == 5


@pytest.mark.parametrize("name", ["slurmstepd", "slurmstepd-wlm"])
def test_a_job_without_control_groups_is_no_daemon(node: Node, name: str) -> None:
    """With ProctrackType=proctrack/linuxproc, the processes of jobs are in slurmd's group."""
    node.group("system.slice/slurmd.service", 300, 500, 501)
    node.process(300, "/usr/sbin/slurmd")
    node.process(500, f"/usr/sbin/{name}")
    node.process(501, "/usr/bin/sleep", parent=500)
    assert [one for one in node.read("process") if one.startswith("by hand")] == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("/usr/bin/python3.13", "-u", "/opt/a.py", "-v"), "/usr/bin/python3.13 /opt/a.py"),
        (("/usr/bin/bash", "./loop.sh"), "/usr/bin/bash ./loop.sh"),
        (("/usr/bin/bash", "-c", "while true; do date; done"), "/usr/bin/bash"),
        (("/usr/bin/bash",), ""),
    ],
)
def test_scripts_by_hand(node: Node, command: tuple[str, ...], name: str) -> None:
    node.group("init.scope", 1, 500)
    node.process(500, *command)
    names = {one for one in node.read("process") if one.startswith("by hand")}
    assert names == ({f"by hand: {name}"} if name else set())


@pytest.mark.parametrize(
    "group",
    ["system.slice/slurmstepd.scope/job_7/step_0/user", "system.slice/docker-0a.scope",
     "kubepods.slice/pod.scope", "system.slice/n1_slurmstepd.scope/job_7"],
)  # fmt: skip
def test_jobs_and_containers_are_no_configuration(node: Node, group: str) -> None:
    before = node.read("process")
    node.group(group, 500)
    node.process(500, "/opt/train")
    assert node.read("process") == before


def test_a_service_that_ends_by_itself_is_no_daemon(node: Node) -> None:
    before = node.read("process")
    node.unit("once.service", "[Service]\nType=oneshot\n", "loaded activating start")
    node.unit("asked.service", "[Service]\nBusName=org.x\n")
    for name, number in (("once", 600), ("asked", 601)):
        node.group(f"system.slice/{name}.service", number)
        node.process(number, f"/usr/bin/{name}")
    assert node.read("process") == before


def test_pid_1(node: Node) -> None:
    before = node.read("process")["systemd"]
    node.process(1, "/usr/lib/systemd/systemd", "--system", "--deserialize=32", parent=0)
    assert node.read("process")["systemd"] == before


@pytest.mark.parametrize(
    ("file", "text", "shown"),
    [
        ("cpu.max", "50000 100000\n", "50000 100000"),
        ("cpu.weight", "20\n", "20"),
        ("memory.high", "1073741824\n", "1073741824"),
        ("pids.max", "28909\n", "15 % of the kernel's limit"),
        ("cgroup.freeze", "1\n", "1"),
        ("cpuset.cpus", "0-1\n", "0-1"),
    ],
)
def test_limits_of_control_groups(node: Node, file: str, text: str, shown: str) -> None:
    assert node.read("cgroup") == {}
    node.file(f"/sys/fs/cgroup/system.slice/munge.service/{file}", text)
    assert node.read("cgroup") == {"system.slice/munge.service": {file: shown}}


def test_defaults_of_control_groups_are_no_objects(node: Node) -> None:
    for file, text in (("cpu.max", "max 100000"), ("cpu.weight", "100"), ("memory.max", "max"),
                       ("io.max", ""), ("memory.low", "0")):  # fmt: skip
        node.file(f"/sys/fs/cgroup/system.slice/{file}", text)
    assert node.read("cgroup") == {}


def test_control_groups_of_version_1(node: Node) -> None:
    node.file("/sys/fs/cgroup/systemd/system.slice/munge.service/cgroup.procs", "200\n")
    node.file("/sys/fs/cgroup/memory/system.slice/munge.service/memory.limit_in_bytes", "4096\n")
    node.file("/sys/fs/cgroup/cpu/system.slice/munge.service/cpu.shares", "1024\n")
    assert node.read("cgroup") == {"system.slice/munge.service": {"memory.limit_in_bytes": "4096"}}
    assert "munge.service" in node.read("process")


def test_daemons_that_a_session_left_in_the_control_group_of_sshd(node: Node) -> None:
    node.daemon("ssh", 800)
    node.group("system.slice/ssh.service", 800, 801, 802)
    node.process(800, "/usr/sbin/sshd", start=7)
    node.process(801, "/opt/agent", start=9)
    node.process(802, "/usr/sbin/sshd-session", parent=800, start=8)
    seen = node.read("process")
    assert "by hand: /opt/agent" in seen
    assert len(seen) == 5

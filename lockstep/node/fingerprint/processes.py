"""Daemons as they run: program, priorities, CPUs, limits, environment, rights."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from lockstep.node.fingerprint.daemons import (
    Daemon,
    account,
    command_line,
    daemons_of,
    executable,
    group_root,
    groups,
)
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.protected import shown, shown_line
from lockstep.node.fingerprint.units import tasks
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import bytes_of, line_of, rooted, text_of

POLICIES = {"0": "other", "1": "fifo", "2": "rr", "3": "batch", "5": "idle", "6": "deadline",
            "7": "ext"}  # fmt: skip
"""sched(7), in the order of linux/sched.h."""
OF_SYSTEMD = re.compile(
    r"INVOCATION_ID|JOURNAL_STREAM|LISTEN_\w+|NOTIFY_SOCKET|MAINPID|MANAGERPID|SYSTEMD_EXEC_PID"
    r"|WATCHDOG_\w+|MEMORY_PRESSURE_\w+|CREDENTIALS_DIRECTORY|FDSTORE|MONITOR_\w+|TRIGGER_\w+"
    r"|SERVICE_RESULT|EXIT_\w+|REMOTE_\w+|PIDFILE|MANAGERPIDFDID|CACHE_DIRECTORY"
)
"""Variables that differ from start to start (systemd.exec(5), "Environment Variables Set")."""
OF_RECONFIGURE = re.compile(r"(SLURMD|SLURMCTLD|SACKD)_RECONF\w*|SLURMD_BOOT_TIME")
"""Variables with which a daemon of Slurm starts itself anew at ``scontrol reconfigure``: open files
and the like (slurmd.c and controller.c, _reconfigure). They are gone after its next start."""
BY_SLURM = "SLURM_CONF"
"""Slurm's daemons set it for themselves, so that it appears when they start themselves anew."""
OF_LOGIN = re.compile(
    r"SSH_\w+|XDG_\w+|TERM\w*|COLORTERM|LS_COLORS|LESS\w*|PWD|OLDPWD|SHLVL|_|DBUS_SESSION\w*|MAIL"
    r"|WINDOWID|DISPLAY|TMUX\w*|STY|LC_\w+|SUDO_\w+|HIST\w+|PS1|VTE_VERSION|USER|LOGNAME|HOME"
)
"""Variables of the shell that started a daemon by hand."""
STATUS = {
    "Cpus_allowed_list": "CPUs", "Mems_allowed_list": "memory nodes", "Umask": "umask",
    "NoNewPrivs": "no new privileges", "Seccomp": "seccomp", "CapEff": "capabilities effective",
    "CapBnd": "capabilities bounding", "CapAmb": "capabilities ambient",
    "CapInh": "capabilities inheritable", "THP_enabled": "huge pages",
    "Speculation_Store_Bypass": "speculative store bypass",
}  # fmt: skip
"""Lines of /proc/PID/status (proc_pid_status(5)) -> fields."""
OF_MEMORY = ("processes", "pending signals")
"""Limits whose default the kernel computes from the size of the memory (getrlimit(2))."""
CONTROLS = (
    *("cpu.max", "cpu.weight", "cpu.weight.nice", "cpu.idle", "cpuset.cpus", "cpuset.mems"),
    *("cpuset.cpus.partition", "memory.min", "memory.low", "memory.high", "memory.max"),
    *("memory.swap.max", "memory.zswap.max", "memory.oom.group", "io.max", "io.weight"),
    *("io.bfq.weight", "pids.max", "cgroup.freeze", "rdma.max", "misc.max", "hugetlb.2MB.max"),
)
"""Files of a control group (Documentation/admin-guide/cgroup-v2.rst)."""
USUAL = {"cpu.max": "max 100000", "cpu.weight": "100", "cpu.weight.nice": "0", "cpu.idle": "0",
         "cpuset.cpus.partition": "member", "memory.min": "0", "memory.low": "0",
         "io.weight": "default 100", "io.bfq.weight": "default 100", "memory.oom.group": "0",
         "cgroup.freeze": "0"}  # fmt: skip
"""Defaults other than ``max`` and nothing."""
CONTROLS_1 = {
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.rt_runtime_us"),
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "memory": ("memory.limit_in_bytes", "memory.soft_limit_in_bytes",
               "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
}  # fmt: skip
"""Control groups of version 1: controller -> files."""
EXCEPTIONS_OF_PROCESSES = (
    Exempt("process", r"sshd?@[\d-].*\.service", WHOLE, "It is one connection of a person."),
    Exempt("process", r"netavark-dhcp-proxy\.service", WHOLE,
           "It ends after some time without work."),
    Exempt("process", "systemd", "command",
           "daemon-reexec starts PID 1 with other options than the kernel (systemd(1))."),
)  # fmt: skip


def read_processes(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield PID 1, the main process of each service, and the daemons that no service started."""
    daemons = daemons_of(commands)
    first = Daemon("systemd", "systemd", "/init.scope", "/proc/1", _stat("/proc/1"))
    priorities = _io_priorities(daemons, commands)
    for daemon in (first, *daemons):
        with suppress(Unread, OSError, IndexError):  # the process has ended in the meantime
            fields = fields_of(daemon)
            if daemon.process in priorities:
                fields["I/O priority"] = priorities[daemon.process]
            yield Entry(daemon.name, fields)


def _stat(process: str) -> list[str]:
    return text_of(f"{process}/stat").rpartition(")")[2].split()


def _io_priorities(daemons: list[Daemon], commands: Commands) -> dict[str, str]:
    """Return the I/O priorities; the kernel shows them in no file (ioprio_get(2))."""
    numbers = [one.process.rpartition("/")[2] for one in daemons]
    with suppress(Unread):
        _, out, _ = commands.outcome("ionice", "-p", *numbers)
        lines = out.splitlines()
        if len(lines) == len(numbers):  # else one has ended
            found = {one.process: lines[number] for number, one in enumerate(daemons)}
            return {process: line for process, line in found.items() if "none" not in line}
    return {}


def fields_of(daemon: Daemon) -> Fields:
    """Return the fields of a process."""
    process, stat = daemon.process, daemon.stat
    path, deleted = executable(process)
    line = command_line(process)
    fields = {
        "executable": path,
        "command": shown_line(line),
        "control group": re.sub(r"/session-\w+\.scope", "/session", daemon.group),
        "nice": stat[16],
        "policy": POLICIES.get(stat[38], stat[38]),
        "OOM score adjustment": line_of(f"{process}/oom_score_adj"),
    }
    if not daemon.unit:
        fields.pop("control group")
    if deleted:
        fields["replaced on disk"] = "yes"
    if stat[37] != "0":
        fields["real-time priority"] = stat[37]
    if stat[0] == "T":
        fields["stopped"] = "yes"
    fields.update(_status(process))
    usual = limits("/proc/1")
    computed = (*OF_MEMORY, "locked memory") if daemon.name == "systemd" else OF_MEMORY
    for name, value in limits(process).items():
        if name not in computed or value != usual.get(name):
            fields[f"limit {name}"] = value
    fields.update(_environment(daemon, line))
    fields.update(_surroundings(process))
    return fields


def _status(process: str) -> Fields:
    fields: Fields = {}
    for line in text_of(f"{process}/status").splitlines():
        name, _, value = line.partition(":")
        value = value.strip()
        if name in STATUS:
            fields[STATUS[name]] = value
        elif name == "TracerPid" and value != "0":
            fields["traced"] = "yes"
        elif name == "Uid":
            fields["user"] = account(value.split()[1])
        elif name == "Gid":
            fields["group"] = account(value.split()[1], "/etc/group")
        elif name == "Groups":
            fields["groups"] = " ".join(sorted(account(n, "/etc/group") for n in value.split()))
    return fields


def limits(process: str) -> dict[str, str]:
    """Return the soft and hard limits of a process (proc_pid_limits(5))."""
    found = {}
    for line in text_of(f"{process}/limits").splitlines()[1:]:
        words = line[26:].split()
        found[line[4:26].strip()] = f"{words[0]} {words[1]}"
    return found


def _environment(daemon: Daemon, line: str) -> Fields:
    # sshd(8), nginx(8) and others write their title over the environment.
    if re.match(r"[\w.-]+: ", line) or daemon.name == "systemd":
        return {}
    fields: Fields = {}
    environment = bytes_of(f"{daemon.process}/environ").decode("utf-8", "replace")
    reconfigured = "_RECONF=" in environment
    for text in environment.split("\0"):
        name, sign, value = text.partition("=")
        if not sign or OF_SYSTEMD.fullmatch(name):
            continue
        if OF_RECONFIGURE.fullmatch(name) or (reconfigured and name == BY_SLURM):
            continue
        if not daemon.unit and OF_LOGIN.fullmatch(name):
            continue
        fields[f"environment {name}"] = shown(name, value)
    return fields


def _surroundings(process: str) -> Fields:
    fields: Fields = {}
    own = []
    for name in ("mnt", "net", "ipc", "uts", "pid", "user", "cgroup", "time"):
        with suppress(OSError):
            if os.readlink(rooted(f"{process}/ns/{name}")) != os.readlink(
                rooted(f"/proc/1/ns/{name}")
            ):
                own.append(name)
    if own:
        fields["own namespaces"] = " ".join(own)
    with suppress(OSError):
        root = os.readlink(rooted(f"{process}/root"))
        if root != "/":
            fields["root folder"] = root
    with suppress(OSError):
        fields["folder"] = os.readlink(rooted(f"{process}/cwd"))
    with suppress(Unread):
        label = text_of(f"{process}/attr/current").strip("\0\n ")
        if label not in ("", "unconfined"):
            fields["security label"] = label
    with suppress(Unread):
        fields["core dump filter"] = line_of(f"{process}/coredump_filter")
    with suppress(Unread):
        # proc_pid_timerslack_ns(5); a policy of real time has 0.
        fields["timer slack"] = line_of(f"{process}/timerslack_ns")
    return fields


def read_groups(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield the control groups of slices and services that have a limit."""
    folder = group_root()
    unified = not folder.endswith("/systemd")
    for group in groups(folder):
        leaf = group.rpartition("/")[2]
        if not leaf.endswith((".slice", ".service")) or re.search(
            r"/user-\d+\.slice|/user@", group
        ):
            continue
        fields = _controls(folder + group) if unified else _controls_1(group)
        if fields:
            yield Entry(group[1:], fields)


def _controls(path: str) -> Fields:
    fields: Fields = {}
    with suppress(OSError):
        there = set(os.listdir(rooted(path)))
        for name in CONTROLS:
            if name in there:
                value = text_of(f"{path}/{name}").strip()
                if value not in ("max", "", USUAL.get(name, "max")):
                    fields[name] = tasks(value) if name == "pids.max" else value
    return fields


def _controls_1(group: str) -> Fields:
    fields: Fields = {}
    for controller, names in CONTROLS_1.items():
        path = f"/sys/fs/cgroup/{controller}{group}"
        for name in names:
            value = text_of(f"{path}/{name}", "").strip()
            if value not in ("", "max", "-1", "1024") and not value.startswith("9223372"):
                fields[name] = tasks(value) if name == "pids.max" else value
    return fields


PROCESSES = (Domain("process", read_processes, 4), Domain("cgroup", read_groups))

"""A node with daemons, for the tests of units and processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockstep.node.fingerprint.containers import ENGINES
from lockstep.node.fingerprint.entry import Fields
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.listeners import LISTENERS
from lockstep.node.fingerprint.login import LOGIN
from lockstep.node.fingerprint.processes import PROCESSES
from lockstep.node.fingerprint.running import RUNNING
from lockstep.node.fingerprint.scheduler import SCHEDULER
from lockstep.node.fingerprint.timers import TIMERS
from lockstep.node.fingerprint.units import UNITS as UNIT_DOMAINS
from lockstep.node.readers import commands, tree
from lockstep.node.readers.commands import Commands

DOMAINS = (
    *(*UNIT_DOMAINS, *PROCESSES, *RUNNING, *LISTENERS),
    *(*TIMERS, *SCHEDULER, *ENGINES, *LOGIN),
)
UNITS = "/usr/lib/systemd/system"
ADMIN = "/etc/systemd/system"
STATUS = """State:\tS (sleeping)
TracerPid:\t0
Uid:\t{uid}\t{uid}\t{uid}\t{uid}
Gid:\t0\t0\t0\t0
Groups:\t
Umask:\t0022
CapBnd:\t000001ffffffffff
NoNewPrivs:\t0
Seccomp:\t0
Cpus_allowed_list:\t0-3
Mems_allowed_list:\t0
"""
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max stack size            8388608              unlimited            bytes
Max core file size        0                    unlimited            bytes
Max processes             96365                96365                processes
Max open files            1024                 524288               files
"""
MANAGER = {
    "LogLevel": "info", "LogTarget": "journal", "ServiceWatchdogs": "yes", "Environment": "A=1",
    "DefaultTasksMax": "28909", "DefaultLimitNOFILE": "524288", "DefaultLimitNOFILESoft": "1024",
    "DefaultLimitCORE": "infinity", "DefaultLimitCORESoft": "0", "Virtualization": "",
    "DefaultLimitSTACK": "infinity", "DefaultLimitSTACKSoft": "8388608",
    "DefaultOOMScoreAdjust": "0",
}  # fmt: skip


class Node:
    """A tree that stands for /, and programs that stand for systemctl(1) and others."""

    def __init__(self, base: Path) -> None:
        self.root, self.bin = base / "root", base / "bin"
        self.bin.mkdir(parents=True)
        self.states: dict[str, str] = {}
        self.manager = dict(MANAGER)
        self.reload = "no"
        self.file("/proc/sys/kernel/threads-max", "192731\n")
        self.file("/proc/sys/kernel/pid_max", "4194304\n")
        self.file("/proc/sys/kernel/hostname", "n1\n")
        self.file("/proc/self/mounts", "/dev/vda / ext4 rw 0 0\n")
        self.file("/etc/hostname", "# by the deploy\nn1\n")
        self.file("/etc/passwd", "root:x:0:0::/root:/bin/bash\nmunge:x:107:0::/:/bin/false\n")
        self.file("/etc/group", "root:x:0:\n")
        self.file("/sys/devices/system/cpu/online", "0-3\n")
        self.group("init.scope")
        self.process(1, "/usr/lib/systemd/systemd", parent=0)

    def file(self, path: str, text: str = "") -> Path:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def link(self, path: str, target: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)

    def tool(self, name: str, script: str) -> None:
        target = self.bin / name
        target.write_text(f"#!/bin/sh\n{script}\n")
        target.chmod(0o755)

    def unit(self, name: str, text: str, state: str = "loaded active running") -> None:
        self.file(f"{UNITS}/{name}", text)
        if state:
            self.states[name] = state

    def enable(self, name: str, by: str = "multi-user.target") -> None:
        self.link(f"{ADMIN}/{by}.wants/{name}", f"{UNITS}/{name}")

    def group(self, path: str, *processes: int) -> None:
        self.file(f"/sys/fs/cgroup/{path}/cgroup.procs", "".join(f"{p}\n" for p in processes))
        (self.root / "sys/fs/cgroup/system.slice").mkdir(parents=True, exist_ok=True)

    def process(
        self, number: int, exe: str, *options: str, parent: int = 1, state: str = "S",
        nice: int = 0, environment: str = "LANG=C\0", policy: int = 0, start: int = 10**12,
    ) -> None:  # fmt: skip
        """Make a process that started in the far future, so that no file is younger."""
        home = f"/proc/{number}"
        fields = ["0"] * 50
        fields[0], fields[1], fields[16] = state, str(parent), str(nice)
        fields[19], fields[37], fields[38] = str(start), "0", str(policy)
        self.file(f"{home}/stat", f"{number} (a b) {' '.join(fields)}\n")
        self.file(f"{home}/cmdline", "\0".join((exe, *options)) + "\0")
        self.file(f"{home}/environ", environment)
        self.file(f"{home}/status", STATUS.format(uid=0))
        self.file(f"{home}/limits", LIMITS)
        self.file(f"{home}/oom_score_adj", "0\n")
        self.file(f"{home}/coredump_filter", "00000033\n")
        self.file(f"{home}/timerslack_ns", "50000\n")
        self.file(f"{home}/maps", "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so.6\n")
        self.link(f"{home}/exe", exe)
        self.link(f"{home}/cwd", "/")

    def daemon(self, name: str, number: int, text: str = "", **more: str | int) -> None:
        """Make an enabled service with its process."""
        exe = f"/usr/sbin/{name}d"
        unit = f"[Service]\nExecStart={exe} -F\n{text}[Install]\nWantedBy=multi-user.target\n"
        self.unit(f"{name}.service", unit)
        self.enable(f"{name}.service")
        self.group(f"system.slice/{name}.service", number)
        self.process(number, exe, "-F", **more)  # type: ignore[arg-type]

    def answer(self) -> None:
        """Make the program that answers as systemctl(1) would."""
        rows = "\n".join(f"{u} {s} Some words" for u, s in sorted(self.states.items()))
        shown = "\n".join(f"{name}={value}" for name, value in self.manager.items())
        self.tool(
            "systemctl",
            f'case "$*" in\nlist-units*) cat <<E\n{rows}\nE\n;;\n'
            f"*NeedDaemonReload*) shift 5; for u; do echo NeedDaemonReload={self.reload}; echo; "
            f"done;;\n*) cat <<E\n{shown}\nE\nesac",
        )

    def read(self, domain: str) -> dict[str, Fields]:
        """Return the objects of a domain that are compared."""
        self.answer()
        chosen = next(one for one in DOMAINS if one.name == domain)
        found: dict[str, Fields] = {}
        for entry in chosen.read({}, Commands()):
            fields = without_exceptions(domain, entry, by_domain(EXCEPTIONS))
            if fields is not None:
                assert entry.name not in found
                found[entry.name] = fields
        return found

    def touch(self, path: str, text: str = "") -> None:
        """Write a file whose time of change is later than any process."""
        os.utime(self.file(path, text))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    monkeypatch.setattr(tree, "ROOT", str(made.root))
    monkeypatch.setattr(commands, "PATH", f"{made.bin}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    made.unit("multi-user.target", "[Unit]\nDescription=x\n", "loaded active active")
    made.daemon("munge", 200)
    made.daemon("slurm", 300, "Nice=0\nLimitSTACK=8M:infinity\n")
    return made

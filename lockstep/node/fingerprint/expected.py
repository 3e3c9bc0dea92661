"""The attributes that a service's main process has according to its unit (systemd.exec(5))."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

from lockstep.node.fingerprint.daemons import Daemon, account
from lockstep.node.fingerprint.processes import OF_SYSTEMD, POLICIES, limits
from lockstep.node.fingerprint.protected import looks_secret
from lockstep.node.fingerprint.unitfiles import Files, Settings, last, truth, words
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import bytes_of, line_of, rooted, text_of

LIMITS = {
    "CPU": "cpu time", "FSIZE": "file size", "DATA": "data size", "STACK": "stack size",
    "CORE": "core file size", "RSS": "resident set", "NPROC": "processes",
    "NOFILE": "open files", "MEMLOCK": "locked memory", "AS": "address space",
    "LOCKS": "file locks", "SIGPENDING": "pending signals", "MSGQUEUE": "msgqueue size",
    "NICE": "nice priority", "RTPRIO": "realtime priority", "RTTIME": "realtime timeout",
}  # fmt: skip
"""Limit...= (systemd.exec(5)) -> line of /proc/PID/limits."""
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
Difference = tuple[Daemon, str, str, str]
"""Process, attribute, running and configured value."""


def differences(
    daemons: list[Daemon], files: Files, properties: Mapping[str, str], cpus: list[str]
) -> Iterator[Difference]:
    """Yield the attributes in which a process differs from its unit."""
    _online.cache_clear()
    _first_cpus.cache_clear()
    _exceeds_limits.cache_clear()
    _most_open_files.cache_clear()
    for daemon in daemons:
        settings = files.settings(daemon.unit)
        if not settings:
            continue
        # The process has ended in the meantime, or a setting has a value of a newer systemd.
        with suppress(Unread, IndexError, ValueError, KeyError):
            for attribute, running, configured in (
                *_priorities(daemon, settings, properties),
                *_status(daemon, settings, cpus),
                *_limits(daemon, settings, properties),
                *_environment(daemon, settings),
            ):
                if running != configured:
                    yield daemon, attribute, running, configured


def _priorities(
    daemon: Daemon, settings: Settings, properties: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    policy = last(settings, "Service.CPUSchedulingPolicy", "other")
    yield "policy", POLICIES.get(daemon.stat[38], daemon.stat[38]), policy
    if policy in ("other", "batch"):
        yield "nice", daemon.stat[16], str(int(last(settings, "Service.Nice", "0")))
    if "Service.CPUSchedulingPriority" in settings:
        yield "real-time priority", daemon.stat[37], last(settings, "Service.CPUSchedulingPriority")
    default = properties.get("DefaultOOMScoreAdjust", "0")
    yield ("OOM score adjustment", line_of(f"{daemon.process}/oom_score_adj"),
           last(settings, "Service.OOMScoreAdjust", default))  # fmt: skip
    if daemon.stat[0] in "Tt":
        yield "execution", "stopped", "running"


def numbers(texts: Iterable[str]) -> set[int]:
    """Return the numbers of lists such as ``0-3,8`` (cpuset(7))."""
    found: set[int] = set()
    for part in ",".join(texts).replace(" ", ",").split(","):
        first, dash, end = part.partition("-")
        if first:
            found.update(range(int(first), int(end if dash else first) + 1))
    return found


def ranges(members: set[int]) -> str:
    """Return numbers as ranges: ``0-3,8``."""
    parts: list[list[int]] = []
    for number in sorted(members):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


@lru_cache(maxsize=1)
def _online(root: str) -> set[int]:
    return numbers([line_of("/sys/devices/system/cpu/online", "")])


def _status(daemon: Daemon, settings: Settings, cpus: list[str]) -> Iterator[tuple[str, str, str]]:
    status = dict(
        line.split(":", 1)
        for line in text_of(f"{daemon.process}/status").splitlines()
        if ":" in line
    )
    said = words(settings, "Service.CPUAffinity") or cpus
    running = numbers([status["Cpus_allowed_list"].strip()])
    if said != ["numa"]:
        online = _online(rooted(""))
        first = numbers([_first_cpus(rooted(""))])
        # Without a setting, a service has the CPUs of PID 1, which the kernel's command line gives.
        wanted = numbers(said) if said else first
        allowed = _cpuset(daemon.group)
        wanted = (wanted & online if online else wanted) & (allowed or wanted)
        if wanted:
            yield "CPUs", ranges(running), ranges(wanted)
    if "Service.UMask" in settings:
        umask = last(settings, "Service.UMask")
        yield "umask", status["Umask"].strip(), f"{int(umask, 8):04o}"
    user = last(settings, "Service.User")
    if user and not truth(last(settings, "Service.DynamicUser")) and "%" not in user:
        name = account(user) if user.isdigit() else user
        yield "user", account(status["Uid"].split()[1]), name
    if truth(last(settings, "Service.NoNewPrivileges")):
        yield "no new privileges", status["NoNewPrivs"].strip(), "1"


@lru_cache(maxsize=1)
def _first_cpus(root: str) -> str:
    for line in text_of("/proc/1/status", "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.partition(":")[2].strip()
    return ""


def _cpuset(group: str) -> set[int]:
    """Return the CPUs that a control group allows; empty if it has no such controller."""
    return numbers([line_of(f"/sys/fs/cgroup{group}/cpuset.cpus.effective", "")])


def _amount(text: str) -> str:
    """Return a limit as /proc shows it."""
    if text == "infinity":
        return "unlimited"
    if text[-1:] in SIZES and text[:-1].isdigit():
        return str(int(text[:-1]) * SIZES[text[-1]])
    return text


def _limits(
    daemon: Daemon, settings: Settings, properties: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    seen, most = limits(daemon.process), limits("/proc/1")
    for name, line in LIMITS.items():
        if line not in seen:
            continue
        said = last(settings, f"Service.Limit{name}")
        hard = properties.get(f"DefaultLimit{name}", "")
        soft = properties.get(f"DefaultLimit{name}Soft", hard)
        if said:
            soft, _, hard = said.partition(":")
            hard = hard or soft
        soft, hard = _amount(soft), _amount(hard)
        running = seen[line].split()
        bounds: list[str] = []
        if not _exceeds_limits(rooted("")):
            # In a container, systemd sets the closest value that it can (setrlimit_closest).
            bounds.append(most.get(line, "- unlimited").split()[1])
        if name == "NOFILE":
            # The kernel allows nobody more: "infinity" becomes this.
            bounds.append(_most_open_files(rooted("")))
        for bound in bounds:
            soft, hard = (bound if _less(bound, text) else text for text in (soft, hard))
        same = running[1] == hard
        # Programs raise this soft limit, often to the hard one (Go does since 1.19).
        raised = name == "NOFILE" and (running[0] == running[1] or _less(soft, running[0]))
        same = same and (raised or running[0] == soft)
        plain = all(text.isdigit() or text == "unlimited" for text in (soft, hard))
        if hard and plain and not same:
            yield f"limit {line}", " ".join(running), f"{soft} {hard}"


CAP_SYS_RESOURCE = 24
"""Number of the capability to exceed hard limits (linux/capability.h)."""


@lru_cache(maxsize=1)
def _exceeds_limits(root: str) -> bool:
    """Return whether PID 1 can give a service a higher hard limit than its own (setrlimit(2))."""
    for line in text_of("/proc/1/status", "").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.partition(":")[2], 16) >> CAP_SYS_RESOURCE & 1)
    return True


@lru_cache(maxsize=1)
def _most_open_files(root: str) -> str:
    """Return how many files a process may have open at most (proc_sys_fs(5), nr_open)."""
    return line_of("/proc/sys/fs/nr_open", "unlimited")


def _less(one: str, other: str) -> bool:
    if one == "unlimited":
        return False
    return other == "unlimited" or (one.isdigit() and other.isdigit() and int(one) < int(other))


def _environment(daemon: Daemon, settings: Settings) -> Iterator[tuple[str, str, str]]:
    configured = dict(
        text.partition("=")[::2] for text in words(settings, "Service.Environment") if "=" in text
    )
    if not configured:
        return
    data = bytes_of(f"{daemon.process}/environ").decode("utf-8", "replace")
    running = dict(text.partition("=")[::2] for text in data.split("\0") if "=" in text)
    if "PATH" not in running and "LANG" not in running:
        return  # the process has written its title over the environment
    of_files = bool(settings.get("Service.EnvironmentFile"))
    for name, value in sorted(configured.items()):
        if OF_SYSTEMD.fullmatch(name) or "%" in value or (of_files and name in running):
            continue
        now = running.get(name, "absent")
        if looks_secret(name, value):
            if now != value:
                yield f"environment {name}", "another value", "a value that is not shown"
        else:
            yield f"environment {name}", now, value

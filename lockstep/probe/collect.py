"""Reads one node and prints one record. Standard library only, Python 3.9 or newer, read-only.

Runs on the node as root, shipped as text; nothing is installed there and nothing is written.
The request holds names only (paths, units, keys), never a value that is hoped for.
Unread   every reading that cannot be taken is ``{"unread": reason}``; none is left out.
Slow     each command has its own time-out and is ended with its children; readers run side by
         side, so that a hanging nvidia-smi costs its own readings and nothing else, and that once.
Aside    at idle priority, on the CPUs that the request names as not the jobs'.
"""

from __future__ import annotations

import array
import base64
import csv
import errno
import fcntl
import fnmatch
import glob
import grp
import hashlib
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

FORMAT = 1
MARKER = "LOCKSTEP-RECORD 1"
COMMAND_TIMEOUT_S = 10.0
READER_TIMEOUT_S = 25.0
"""After this long a reader that waits for a file system is given up; its readings are unread."""
LARGEST_FILE = 16 << 20

ROOT = ""
"""Prefix of every path that is read: a test puts a small tree here."""
PATH = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
)

Request = dict[str, Any]
Readings = dict[str, Any]

GPU_FIELDS = (
    # reading, nvidia-smi's name, type
    ("gpu.name", "name", str),
    ("gpu.uuid", "uuid", str),
    ("gpu.pci_bus_id", "pci.bus_id", str),
    ("gpu.vbios", "vbios_version", str),
    ("gpu.driver_version", "driver_version", str),
    ("gpu.power.enforced_w", "enforced.power.limit", float),
    ("gpu.power.default_w", "power.default_limit", float),
    ("gpu.persistence", "persistence_mode", str),
    ("gpu.ecc.current", "ecc.mode.current", str),
    ("gpu.ecc.pending", "ecc.mode.pending", str),
    ("gpu.mig.current", "mig.mode.current", str),
    ("gpu.compute_mode", "compute_mode", str),
    ("gpu.pcie.width_current", "pcie.link.width.current", int),
    ("gpu.pcie.width_max", "pcie.link.width.max", int),
    ("gpu.clocks.max_sm_mhz", "clocks.max.sm", int),
    ("gpu.memory.total_mib", "memory.total", int),
    ("gpu.power.requested_w", "power.limit", float),
    ("gpu.mig.pending", "mig.mode.pending", str),
    ("gpu.clocks.sm_mhz", "clocks.current.sm", int),
    ("gpu.pstate", "pstate", str),
    ("gpu.utilization", "utilization.gpu", int),
    ("gpu.memory.used_mib", "memory.used", int),
    ("gpu.recovery_action", "gpu_recovery_action", str),
    ("gpu.remapped.pending", "remapped_rows.pending", str),
    ("gpu.remapped.failure", "remapped_rows.failure", str),
    ("gpu.ecc.uncorrected_volatile", "ecc.errors.uncorrected.volatile.total", int),
    ("gpu.fabric.state", "fabric.state", str),
    ("gpu.fabric.status", "fabric.status", str),
)
REASONS, COUNTERS = "clocks_event_reasons.", "clocks_event_reasons_counters."
GPU_OPTIONAL_FIELDS = (
    # The same of what some models do not have: there "not supported" is a value, for peers to vote.
    ("gpu.serial", "serial", str),
    ("gpu.power.min_w", "power.min_limit", float),
    ("gpu.power.max_w", "power.max_limit", float),
    ("gpu.clocks.memory_mhz", "clocks.current.memory", int),
    ("gpu.clocks.max_memory_mhz", "clocks.max.memory", int),
    ("gpu.inforom.image", "inforom.img", str),
    ("gpu.inforom.ecc", "inforom.ecc", str),
    ("gpu.inforom.checksum", "inforom.checksum_validation", str),
    ("gpu.gsp.current", "gsp.mode.current", str),
    ("gpu.gsp.default", "gsp.mode.default", str),
    ("gpu.addressing", "addressing_mode", str),
    ("gpu.memory.protected_mib", "protected_memory.total", int),
    ("gpu.slowdown.active", REASONS + "active", lambda text: int(text, 16)),
    ("gpu.slowdown.power_cap_us", COUNTERS + "sw_power_cap", int),
    ("gpu.slowdown.power_brake_us", COUNTERS + "hw_power_brake_slowdown", int),
    ("gpu.slowdown.thermal_hw_us", COUNTERS + "hw_thermal_slowdown", int),
    ("gpu.slowdown.thermal_sw_us", COUNTERS + "sw_thermal_slowdown", int),
    ("gpu.temperature.margin_c", "temperature.gpu.tlimit", int),
    ("gpu.pcie.generation", "pcie.link.gen.current", int),
    ("gpu.pcie.generation_max", "pcie.link.gen.max", int),
    ("gpu.ecc.corrected_volatile", "ecc.errors.corrected.volatile.total", int),
    ("gpu.ecc.uncorrected_aggregate", "ecc.errors.uncorrected.aggregate.total", int),
    (
        "gpu.ecc.sram_threshold",
        "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
        str,
    ),
    ("gpu.remapped.uncorrectable", "remapped_rows.uncorrectable", int),
    ("gpu.remapped.banks_without_spare", "remapped_rows.histogram.none", int),
)
GPU_READINGS = tuple(name for name, _, _ in (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS))
NOT_SUPPORTED = "not supported"
LACKS = ("N/A", "[N/A]", "[Not Supported]", "[Requested functionality has been deprecated]")
"""What nvidia-smi prints for what a board does not have; other words in brackets are failures."""


class Unread(Exception):
    """A reading that could not be taken; the text is the reason."""


def installed(name: str) -> bool:
    """Say whether there is a command of this name."""
    return shutil.which(name, path=PATH) is not None


class Commands:
    """Runs commands, each with its own time-out, and remembers how each went."""

    def __init__(self, timeout_s: float | None = None) -> None:
        """Start with no command run; each may take this long."""
        self.timeout_s = timeout_s or COMMAND_TIMEOUT_S
        self.ran: list[dict[str, Any]] = []
        self.hung: dict[str, str] = {}

    def run(self, *argv: str, text: str = "", user: str = "", ok: tuple[int, ...] = (0,)) -> str:
        """Return what a command prints; ``Unread`` when it is missing, fails or hangs."""
        status, out, err = self.outcome(*argv, text=text, user=user)
        if status not in ok:
            said = (err.strip() or out.strip() or "no message").splitlines()[0]
            raise Unread(f"{argv[0]}: exit {status}: {said[:200]}")
        return out

    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        """Return exit status, standard output and standard error of a command."""
        program = shutil.which(argv[0], path=PATH)
        if program is None:
            raise Unread(f"{argv[0]}: not installed")
        if argv[0] in self.hung:  # it costs its time-out once, whatever else it would be asked
            raise Unread(self.hung[argv[0]])
        extra: dict[str, Any] = {}
        if user:
            account = pwd.getpwnam(user)
            extra = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        begin = time.monotonic()
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={"PATH": PATH, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
            **extra,
        )
        timed_out = False
        out = err = b""
        try:
            out, err = process.communicate(text.encode(), timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            end(process)
        self.ran.append(
            {
                "argv": list(argv),
                "status": process.returncode,
                "duration_s": round(time.monotonic() - begin, 3),
                "timed_out": timed_out,
            }
        )
        if timed_out:
            self.hung[argv[0]] = f"{argv[0]}: no answer within {self.timeout_s:g} s"
            raise Unread(self.hung[argv[0]])
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its children; the caller reports that it hung."""
    os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    # A process in uninterruptible sleep (a lost GPU) does not die: it is not waited for long.
    until = time.monotonic() + 0.5
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


def rooted(path: str) -> str:
    """Return a path below ``ROOT``."""
    return ROOT + path


def exists(path: str) -> bool:
    """Say whether there is anything at a path."""
    return os.path.exists(rooted(path))


def is_folder(path: str) -> bool:
    """Say whether a path is a folder."""
    return os.path.isdir(rooted(path))


def resolved(path: str) -> str:
    """Return a path with all links followed."""
    return os.path.realpath(rooted(path))[len(os.path.realpath(ROOT or "/").rstrip("/")) :]


def text_of(path: str) -> str:
    """Return the content of a text file; ``Unread`` when that cannot be had."""
    try:
        with open(rooted(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        raise Unread(f"{path}: no such file") from None
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


def each(names: list[str], reader: Callable[[str], Any]) -> dict[str, Any]:
    """Return name -> reading; a failed one is unread by itself."""
    return {name: one(reader, name) for name in names}


def one(reader: Callable[[str], Any], name: str) -> Any:
    """Return a reading; a failed one as an unread item of a map."""
    try:
        return reader(name)
    except Unread as reason:
        return {"unread": str(reason)}


def bytes_of(path: str, most: int = -1) -> bytes:
    """Return a file, at most so many bytes of it; ``Unread`` when that cannot be had."""
    try:
        with open(rooted(path), "rb") as file:
            return file.read(most)
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


def line_of(path: str) -> str:
    """Return the first line of a file; ``Unread`` when that cannot be had."""
    return text_of(path).split("\n", 1)[0].strip()


def number_of(path: str) -> int:
    """Return the number that a file holds."""
    return int(line_of(path))


def below(folder: str) -> list[str]:
    """Return the sorted names in a folder; none when it is absent."""
    try:
        return sorted(os.listdir(rooted(folder)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unread(f"{folder}: {error.strerror}") from None


ABSENT = "absent"
"""What a machine does not have: a value, so that it can differ from what its peers have."""


def said(path: str) -> str:
    """Return the first line of a file; "absent" where there is none."""
    return line_of(path) if exists(path) else ABSENT


def found_by(pattern: str) -> list[str]:
    """Return the sorted paths that a pattern covers."""
    return [path[len(ROOT) :] for path in sorted(glob.glob(rooted(pattern)))]


def counted(values: list[str]) -> str:
    """Return values as text: the one that all have, or each with its number; "absent" for none."""
    kinds = sorted(set(values))
    if len(kinds) > 1:
        return ", ".join(f"{kind} x{values.count(kind)}" for kind in kinds)
    return kinds[0] if kinds else ABSENT


def assignments(text: str) -> dict[str, str]:
    """Return NAME=value lines of a shell-like file, quotes removed."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_]+)=(.*)$", line)
        if match:
            found[match.group(1)] = match.group(2).strip().strip("\"'")
    return found


# --- operating system ---------------------------------------------------------------------------


def read_release(request: Request, commands: Commands) -> Readings:
    """/etc/os-release."""
    values = assignments(text_of("/etc/os-release"))
    return {
        name: values.get(key, Unread(f"/etc/os-release: no {key}"))
        for name, key in (("os.id", "ID"), ("os.version_id", "VERSION_ID"))
    }


def read_running(request: Request, commands: Commands) -> Readings:
    """What the kernel says of itself, and how it was started."""
    running = os.uname()
    return {
        "os.hostname": running.nodename,
        "os.boot_id": text_of("/proc/sys/kernel/random/boot_id").strip(),
        "kernel.release": running.release,
        "kernel.cmdline": text_of("/proc/cmdline").split(),
    }


def read_time_zone(request: Request, commands: Commands) -> Readings:
    """The zone that /etc/localtime points to."""
    try:
        target = os.readlink(rooted("/etc/localtime"))
    except FileNotFoundError:
        raise Unread("/etc/localtime: no such file") from None
    except OSError:
        raise Unread("/etc/localtime: not a link, so its zone has no name") from None
    if "zoneinfo/" not in target:
        raise Unread(f"/etc/localtime: points to {target}, not to a zone")
    return {"os.time_zone": target.split("zoneinfo/", 1)[1]}


def read_locale(request: Request, commands: Commands) -> Readings:
    """LANG of locale.conf(5) or Debian's older file; "" when it is not set anywhere."""
    if exists("/etc/locale.conf"):
        return {"os.locale": assignments(text_of("/etc/locale.conf")).get("LANG", "")}
    if not exists("/etc/default/locale"):
        return {"os.locale": ""}
    return {"os.locale": assignments(text_of("/etc/default/locale")).get("LANG", "")}


def read_cmdline_persisted(request: Request, commands: Commands) -> Readings:
    """Kernel arguments that the next boot will have.

    From GRUB's menu; from the default one of the Boot Loader Specification's entries (RHEL);
    else from what Debian's menu is made from.
    """
    menu = "/boot/grub/grub.cfg"
    if exists(menu):
        first = re.search(r"^\s*linux(?:16|efi)?\s+\S+[ \t]*(.*)$", text_of(menu), re.MULTILINE)
        if first:
            return {"kernel.cmdline_persisted": grub_words(first.group(1))}
    entries = found_by(ENTRIES + "/*.conf")
    if entries:
        return {"kernel.cmdline_persisted": default_entry(entries)}
    paths = found_by("/etc/default/grub.d/*.cfg")
    if exists("/etc/default/grub"):
        paths.insert(0, "/etc/default/grub")
    if not paths:
        raise Unread("/etc/default/grub: no such file")
    arguments: dict[str, list[str]] = {}
    for path in paths:
        text = text_of(path)
        for key, value in re.findall(r"^\s*(GRUB_CMDLINE_LINUX\w*)=(.*)$", text, re.MULTILINE):
            value = value.strip()
            if value[:1] in ("'", '"') and value[-1:] == value[:1]:
                value = value[1:-1]
            words = grub_words(value)
            own = [word for word in words if word not in ("$" + key, f"${{{key}}}")]
            kept = arguments.get(key, []) if len(own) < len(words) else []
            arguments[key] = kept + own
    return {"kernel.cmdline_persisted": [word for words in arguments.values() for word in words]}


ENTRIES = "/boot/loader/entries"
GRUBENV = "/boot/grub2/grubenv"


def grub_words(text: str) -> list[str]:
    """Return the words of a line of GRUB's script language, quotes removed as GRUB does it."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def version_key(name: str) -> list[Any]:
    """Return a key that sorts names of entries as rpm compares versions: numbers are numbers."""
    # "~" sorts before the end of the name, numbers after words.
    parts = re.findall(r"\d+|[A-Za-z]+|~", name)
    return [
        (-1, 0, "") if part == "~" else (2, int(part), "") if part.isdigit() else (1, 0, part)
        for part in parts
    ] + [(0, 0, "")]


def default_entry(paths: list[str]) -> list[str]:
    """Return the kernel arguments of the entry that GRUB boots; ``Unread`` when that is unclear."""
    known = {os.path.basename(path)[: -len(".conf")]: text_of(path) for path in paths}
    names = sorted(known, key=version_key, reverse=True)  # GRUB's order, and grubby's index
    env = text_of(GRUBENV) if exists(GRUBENV) else ""
    variables = dict(re.findall(r"^([A-Za-z_]\w*)=(.*)$", env, re.MULTILINE))
    wanted = variables.get("next_entry") or variables.get("saved_entry") or ""
    chosen = [
        name
        for index, name in enumerate(names)
        if wanted in (name, str(index))
        or re.search(r"^title\s+" + re.escape(wanted) + r"\s*$", known[name], re.MULTILINE)
    ]
    if not wanted:
        kernels = [name for name in names if "-0-rescue" not in name] or names
        if len({name.split("-", 1)[0] for name in kernels}) > 1:
            raise Unread(f"{ENTRIES}: entries of several machine ids, and no saved_entry")
        chosen = kernels[:1]
    if len(chosen) != 1:
        raise Unread(f"{GRUBENV}: {wanted!r} names {len(chosen)} entries of {ENTRIES}")
    options = " ".join(re.findall(r"^options[ \t]+(.*)$", known[chosen[0]], re.MULTILINE))
    if re.search(r"\$\{?kernelopts\b", options) and "kernelopts" not in variables:
        raise Unread(f"{GRUBENV}: no kernelopts, which {chosen[0]}.conf refers to")
    # A variable that is not set is nothing, as in GRUB: $tuned_params where TuneD set none.
    expanded = re.sub(r"\$\{?(\w+)\}?", lambda name: variables.get(name.group(1), ""), options)
    return grub_words(expanded)


def read_files(request: Request, commands: Commands) -> Readings:
    """Hash, mode and owner of each file asked for."""
    return {"files": each(request["files"], read_file)}


KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder"}


def read_file(path: str) -> Any:
    """One file: hash, mode and owner; or that it is absent, or no file at all."""
    try:
        about = os.lstat(rooted(path))
        if not stat.S_ISREG(about.st_mode):
            return {"other": KINDS.get(stat.S_IFMT(about.st_mode), "a special file")}
        if about.st_size > LARGEST_FILE:
            raise Unread(f"{path}: larger than {LARGEST_FILE >> 20} MiB")
        with open(rooted(path), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return {"absent": True}
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None
    return {
        "sha256": digest,
        "mode": f"{stat.S_IMODE(about.st_mode):o}",
        "user": account(about.st_uid),
        "group": group(about.st_gid),
    }


def account(number: int) -> str:
    """Return the name of a user, its number when it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def group(number: int) -> str:
    """Return the name of a group, its number when it has none."""
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def read_hosts(request: Request, commands: Commands) -> Readings:
    """/etc/hosts: name -> addresses."""
    entries: dict[str, set[str]] = {}
    for line in text_of("/etc/hosts").splitlines():
        words = line.split("#", 1)[0].split()
        for name in words[1:]:
            entries.setdefault(name, set()).add(words[0])
    return {"hosts.entries": {name: sorted(found) for name, found in entries.items()}}


# --- sysctl -------------------------------------------------------------------------------------

SYSCTL_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")


def sysctl_path(key: str) -> str:
    """Return the path below /proc/sys of a key in either notation (sysctl.d(5))."""
    first = re.search(r"[./]", key)
    if first and first.group() == ".":
        return key.translate(str.maketrans("./", "/."))
    return key


def matches(path: str, pattern: str) -> bool:
    """Say whether a pattern covers a path; "*" does not reach over a slash."""
    names, patterns = path.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(
        fnmatch.fnmatchcase(names[index], patterns[index]) for index in range(len(names))
    )


def read_sysctl_running(request: Request, commands: Commands) -> Readings:
    """Values in force, from /proc/sys."""

    def read(key: str) -> str:
        return " ".join(text_of("/proc/sys/" + sysctl_path(key)).split())

    return {"sysctl.running": each(request["sysctls"], read)}


def read_sysctl_persisted(request: Request, commands: Commands) -> Readings:
    """What systemd-sysctl would set at boot, and the file that decides."""
    files: dict[str, str] = {}
    for folder in SYSCTL_FOLDERS:  # the first folder that has a name hides it in the others
        for path in found_by(folder + "/*.conf"):
            files.setdefault(os.path.basename(path), path)
    exact: dict[str, dict[str, str]] = {}
    patterns: dict[str, dict[str, str]] = {}
    excluded: set[str] = set()
    for name in sorted(files):
        for line in text_of(files[name]).splitlines():
            line = line.strip()
            if not line or line[0] in "#;":
                continue
            key, assigned, value = line.partition("=")
            key = sysctl_path(key.strip().lstrip("-").strip())
            if not assigned:
                excluded.add(key)
                continue
            kind = patterns if re.search(r"[*?\[]", key) else exact
            kind.pop(key, None)  # so that the last one in wins among the patterns too
            kind[key] = {"value": " ".join(value.split()), "file": files[name]}

    def read(asked: str) -> Any:
        path = sysctl_path(asked)
        if path in exact:
            return exact[path]
        for pattern in reversed(list(patterns)):
            if path not in excluded and matches(path, pattern):
                return patterns[pattern]
        return {"absent": True}

    return {"sysctl.persisted": {key: read(key) for key in request["sysctls"]}}


# --- settings of the running kernel -------------------------------------------------------------


def read_kernel_files(request: Request, commands: Commands) -> Readings:
    """First line of every file that a pattern covers: pattern -> path -> line."""

    def read(pattern: str) -> Any:
        return each(found_by(pattern), line_of)

    return {"kernel.files": {pattern: read(pattern) for pattern in request["kernel_files"]}}


def read_isolation(request: Request, commands: Commands) -> Readings:
    """CPUs that the kernel took out of load balancing, and those without a tick; "" for none."""
    folder = "/sys/devices/system/cpu"
    isolated = line_of(folder + "/isolated")
    # A kernel that was built without full dynticks has no such file, and no such CPU.
    no_tick = line_of(folder + "/nohz_full") if "nohz_full" in below(folder) else ""
    return {"cpu.isolated": isolated, "cpu.nohz_full": "" if no_tick == "(null)" else no_tick}


def read_max_cstate(request: Request, commands: Commands) -> Readings:
    """Deepest idle state that the driver of idle states may use."""
    path = "/sys/module/{}/parameters/max_cstate"
    for module in ("intel_idle", "processor"):
        if exists(path.format(module)):
            return {"kernel.max_cstate": number_of(path.format(module))}
    raise Unread("/sys/module: neither intel_idle nor processor has a parameter max_cstate")


def read_interrupts(request: Request, commands: Commands) -> Readings:
    """CPUs that each interrupt may run on, by the name of what raises it."""
    numbers = sorted(int(name) for name in below("/proc/irq") if name.isdigit())
    if not numbers:
        raise Unread("/proc/irq: no interrupt")
    affinity: dict[str, Any] = {}
    times: dict[str, int] = {}
    for number in numbers:
        name = ""
        try:
            name = line_of(f"/sys/kernel/irq/{number}/actions")
            allowed: Any = line_of(f"/proc/irq/{number}/smp_affinity_list")
        except Unread as reason:
            if not name:
                continue  # freed while it was read
            allowed = {"unread": str(reason)}
        # Nobody listens to an interrupt without a name. Equal names are told apart by their order.
        if name:
            times[name] = times.get(name, 0) + 1
            affinity[f"{name}#{times[name]}" if times[name] > 1 else name] = allowed
    if not affinity:
        raise Unread("/sys/kernel/irq: no interrupt with a name")
    return {"irq.affinity": affinity}


# --- units and packages -------------------------------------------------------------------------


def read_units(request: Request, commands: Commands) -> Readings:
    """State of every unit asked for, from one systemctl."""
    units = request["units"]
    if not units:
        return {"units": {}, "limits.memlock": {}, "limits.open_files": {}}
    wanted = "LoadState,ActiveState,SubState,UnitFileState,ActiveEnterTimestampMonotonic,MainPID"
    out = commands.run("systemctl", "show", "--no-pager", "--property=" + wanted, "--", *units)
    blocks = [assignments(block) for block in out.strip().split("\n\n")]
    if len(blocks) != len(units):
        raise Unread(f"systemctl: {len(blocks)} answers for {len(units)} units")
    booted = time.time() - time.monotonic()
    found = {}
    processes = {}
    for index, unit in enumerate(units):
        block = blocks[index]
        since = int(block.get("ActiveEnterTimestampMonotonic") or 0)
        found[unit] = {
            "active": block["ActiveState"],
            "sub": block["SubState"],
            "load": block["LoadState"],
            "enabled": block["UnitFileState"],
            "started_at": round(booted + since / 1e6) if since else None,
        }
        processes[unit] = block.get("MainPID") or "0"

    def limit(unit: str, name: str) -> Any:
        if processes[unit] == "0":
            raise Unread(f"{unit}: no main process")
        path = f"/proc/{processes[unit]}/limits"
        match = re.search(rf"^Max {name}\s+(\S+)\s+(\S+)", text_of(path), re.MULTILINE)
        if not match:
            raise Unread(f"{path}: no {name}")
        return {"soft": match.group(1), "hard": match.group(2)}

    services = [unit for unit in units if unit.endswith(".service")]
    return {
        "units": found,
        "limits.memlock": each(services, lambda unit: limit(unit, "locked memory")),
        "limits.open_files": each(services, lambda unit: limit(unit, "open files")),
    }


def read_packages(request: Request, commands: Commands) -> Readings:
    """Every installed package, the broken ones and those on hold, from one dpkg-query."""
    out = commands.run(
        "dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version} ${db:Status-Abbrev}\\n"
    )
    versions: dict[str, str] = {}
    broken = []
    held = []
    for line in out.splitlines():
        words = line.split()
        # A removed package has no version; what is left of it is of no interest.
        if len(words) < 4 or words[3][1] in "nc":
            continue
        name, architecture, version, state = words[:4]
        if name in versions:
            name = f"{name}:{architecture}"
        versions[name] = version
        if state[1] != "i" or state[2:3] == "R":
            broken.append(name)
        if state[0] == "h":
            held.append(name)
    return {"packages": versions, "packages.broken": sorted(broken), "packages.held": sorted(held)}


# --- processors and memory ----------------------------------------------------------------------


def read_cpus(request: Request, commands: Commands) -> Readings:
    """CPUs in use and where they sit."""
    nodes = {}
    for path in found_by("/sys/devices/system/node/node[0-9]*/cpulist"):
        number = os.path.basename(os.path.dirname(path))[len("node") :]
        nodes[number] = text_of(path).strip()
    return {
        "cpu.online": text_of("/sys/devices/system/cpu/online").strip(),
        "numa.cpus": nodes or Unread("/sys/devices/system/node: no NUMA node"),
    }


def read_memory(request: Request, commands: Commands) -> Readings:
    """MemTotal."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", text_of("/proc/meminfo"), re.MULTILINE)
    if not match:
        raise Unread("/proc/meminfo: no MemTotal")
    return {"memory_mib": int(match.group(1)) // 1024}


def read_hugepages(request: Request, commands: Commands) -> Readings:
    """Persistent huge pages, all and free: size -> NUMA node -> pages."""
    every: dict[str, dict[str, int]] = {}
    free: dict[str, dict[str, Any]] = {}
    pattern = "/sys/devices/system/node/node[0-9]*/hugepages/hugepages-*kB"
    for path in found_by(pattern):
        match = re.search(r"/node(\d+)/hugepages/hugepages-(\d+)kB$", path)
        if match:
            mib = int(match.group(2)) >> 10
            size = f"{mib >> 10}G" if mib >= 1024 else f"{mib}M"
            node = match.group(1)
            every.setdefault(size, {})[node] = number_of(path + "/nr_hugepages")
            free.setdefault(size, {})[node] = one(number_of, path + "/free_hugepages")
    if not every:
        raise Unread("/sys/devices/system/node: no huge pages of any size")
    return {"hugepages": every, "hugepages.free": free}


def read_hugepages_mounts(request: Request, commands: Commands) -> Readings:
    """Where huge pages are mounted: mount point -> page size, and the rights on its root."""

    def read(point: str) -> Any:
        try:
            about = os.stat(rooted(point))
        except OSError as error:
            raise Unread(f"{point}: {error.strerror}") from None
        # The kernel writes 1 GiB as 1024M.
        size = re.sub(r"^1024M$", "1G", sizes[point])
        return {"pagesize": size, "mode": f"{stat.S_IMODE(about.st_mode):o}", "gid": about.st_gid}

    sizes = {}
    for line in text_of("/proc/self/mounts").splitlines():
        words = line.split(" ")
        if len(words) > 3 and words[2] == "hugetlbfs":
            options = dict(word.partition("=")[::2] for word in words[3].split(","))
            sizes[words[1]] = options.get("pagesize", "")
    return {"hugepages.mounts": each(sorted(sizes), read)}


def read_cpuset(request: Request, commands: Commands) -> Readings:
    """CPUs that the service manager and logins may use."""

    def allowed(where: str) -> Any:
        if "cpuset" not in text_of("/sys/fs/cgroup/cgroup.controllers").split():
            return Unread("no cpuset controller")
        if not is_folder(f"/sys/fs/cgroup/{where}"):
            return None  # nothing runs there
        path = f"/sys/fs/cgroup/{where}/cpuset.cpus.effective"
        if not exists(path):  # the slice has no set of its own: all CPUs
            path = "/sys/devices/system/cpu/online"
        return text_of(path).strip()

    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", text_of("/proc/1/status"), re.MULTILINE)
    return {
        "cpuset.manager": match.group(1) if match else Unread("/proc/1/status: no CPU list"),
        "cpuset.user_slice": allowed("user.slice"),
    }


CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""Where systemd keeps its units: cgroup v2, v2 beside v1, v1 alone."""


def read_services(request: Request, commands: Commands) -> Readings:
    """CPUs that the processes of each service may use, all of them together."""
    slices = [folder + "/system.slice" for folder in CGROUPS]
    top = next((folder for folder in slices if is_folder(folder)), None)
    if top is None:
        raise Unread("/sys/fs/cgroup: no system.slice")
    found: dict[str, set[int]] = {}
    for folder, _, files in os.walk(rooted(top)):
        # What is inside a service (a container with an init of its own) belongs to it.
        parts = folder[len(rooted(top)) :].split("/")
        if any(part.endswith(".scope") for part in parts):
            continue  # not a service: a container, whose services are its own
        unit = next((part for part in parts if part.endswith(".service")), None)
        if unit is None or "cgroup.procs" not in files:
            continue
        try:
            processes = text_of(f"{top}{'/'.join(parts)}/cgroup.procs").split()
        except Unread:
            continue  # a threaded group, whose processes its parent lists, or one that ended
        for process in processes:
            try:
                status = text_of(f"/proc/{process}/status")
            except Unread:
                continue  # ended meanwhile
            match = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
            if match:
                found.setdefault(unit, set()).update(cpus(match.group(1)))
    if not found:
        raise Unread(f"{top}: no service with a process")
    return {"cpuset.services": {unit: cpulist(found[unit]) for unit in sorted(found)}}


def cpus(text: str) -> set[int]:
    """Return the CPU numbers of a list such as ``0-3,56``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def cpulist(numbers: set[int]) -> str:
    """Return CPU numbers as the kernel lists them: ``0-3,56``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


# --- network ------------------------------------------------------------------------------------

WAITING = {"tcp": "0A", "udp": "07"}
"""State of a socket that waits for anybody (include/net/tcp_states.h); UDP has no other."""


def read_listeners(request: Request, commands: Commands) -> Readings:
    """Addresses that are listened on, for each port asked for: ``tcp/22`` -> addresses."""
    wanted = request["listeners"]
    found: dict[tuple[str, int], set[str]] = {}
    for protocol, state in WAITING.items():
        for table in (protocol, protocol + "6"):
            path = f"/proc/net/{table}"
            if table.endswith("6") and not exists(path):
                continue  # a kernel without IPv6
            for line in text_of(path).splitlines()[1:]:
                words = line.split()
                if len(words) > 3 and words[3] == state:
                    address, _, port = words[1].partition(":")
                    found.setdefault((protocol, int(port, 16)), set()).add(address_of(address))

    def read(name: str) -> list[str]:
        protocol, _, port = name.partition("/")
        return sorted(found.get((protocol, int(port)), ()))

    return {"listeners": {name: read(name) for name in wanted}}


def address_of(text: str) -> str:
    """Return an address as people write it; /proc/net has 32-bit words in the CPU's own order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    family = socket.AF_INET6 if len(words) == 4 else socket.AF_INET
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


RDMA = "/sys/class/infiniband"
RDMA_READINGS = (
    *(
        "rdma.count",
        "rdma.names",
        "rdma.firmware",
        "rdma.board",
        "rdma.type",
        "rdma.guid",
        "rdma.state",
    ),
    *("rdma.phys_state", "rdma.rate", "rdma.link_layer", "rdma.netdev", "rdma.device_files"),
)


def read_rdma(request: Request, commands: Commands) -> Readings:
    """Every RDMA device and its ports; a kernel that has the folder of no device has none."""
    if not is_folder("/sys/class"):
        raise Unread("/sys/class: no such file")
    readings: Readings = {name: {} for name in RDMA_READINGS}
    devices = below(RDMA)
    readings["rdma.count"], readings["rdma.names"] = len(devices), devices
    for device in devices:
        top = f"{RDMA}/{device}"
        readings["rdma.guid"][device] = one(line_of, f"{top}/node_guid")
        readings["rdma.firmware"][device] = one(line_of, f"{top}/fw_ver")
        # The driver's own: one that only stands for hardware (rxe) has neither.
        own = below(top)
        for name, file in (("rdma.board", "board_id"), ("rdma.type", "hca_type")):
            readings[name][device] = one(line_of, f"{top}/{file}") if file in own else ""
        for number in below(f"{top}/ports"):
            # The first port has the name of its device.
            port = device if number == "1" else f"{device}/{number}"
            for field in ("state", "phys_state", "rate", "link_layer"):
                path = f"{top}/ports/{number}/{field}"
                readings["rdma." + field][port] = one(behind_number, path)
            readings["rdma.netdev"][port] = netdev(top, number)
    readings["rdma.device_files"] = each(
        [f"/dev/infiniband/{file}" for file in below("/dev/infiniband")], mode_of
    )
    return readings


def behind_number(path: str) -> str:
    """Return what a file says without the kernel's number for it: ``4: ACTIVE``."""
    return line_of(path).split(": ", 1)[-1]


def netdev(device: str, port: str) -> str:
    """Return the network interface of a port; "" when it has none."""
    try:
        return line_of(f"{device}/ports/{port}/gid_attrs/ndevs/0")
    except Unread:  # InfiniBand proper: the kernel has it beside the device
        return ",".join(below(f"{device}/device/net"))


def mode_of(path: str) -> str:
    """Return the mode of a file in octal."""
    try:
        return f"{stat.S_IMODE(os.stat(rooted(path)).st_mode):o}"
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


PORT_COUNTERS = (
    # reading, folder, the files whose sum it is
    (
        "rdma.errors",
        "counters",
        (
            *("symbol_error", "link_error_recovery", "local_link_integrity_errors"),
            *("port_rcv_errors", "port_rcv_remote_physical_errors"),
            "excessive_buffer_overrun_errors",
        ),
    ),
    ("rdma.link_downed", "counters", ("link_downed",)),
    ("rdma.discards", "counters", ("port_xmit_discards",)),
    ("rdma.ack_timeouts", "hw_counters", ("local_ack_timeout_err",)),
    ("rdma.sequence_errors", "hw_counters", ("packet_seq_err", "implied_nak_seq_err")),
)
PORT_READINGS = ("rdma.pkeys", "rdma.sm_lid", *(name for name, _, _ in PORT_COUNTERS))


def read_rdma_ports(request: Request, commands: Commands) -> Readings:
    """Counters of each RDMA port that has them, its partitions and its subnet manager."""
    readings: Readings = {name: {} for name in PORT_READINGS}
    for path in found_by(RDMA + "/*/ports/*"):
        device, number = path.split("/")[4], path.split("/")[6]
        port = device if number == "1" else f"{device}/{number}"
        for name, folder, wanted in PORT_COUNTERS:
            files = [f"{path}/{folder}/{file}" for file in wanted]
            there = [file for file in files if exists(file)]
            if there:
                readings[name][port] = one(sum_of, " ".join(there))
        readings["rdma.pkeys"][port] = one(partitions, f"{path}/pkeys")
        readings["rdma.sm_lid"][port] = one(said, f"{path}/sm_lid")
    return readings


def sum_of(paths: str) -> int:
    """Return the sum of the numbers that files hold."""
    return sum(number_of(path) for path in paths.split(" "))


def partitions(folder: str) -> str:
    """Return the partition keys in use."""
    keys = {line_of(f"{folder}/{entry}") for entry in below(folder)}
    return " ".join(sorted(keys - {"0x0000"}))


PCI_READINGS = ("rdma.pcie", "rdma.pcie_most", "rdma.pci_control", "rdma.numa", "rdma.nearest_gpus")


def read_rdma_pci(request: Request, commands: Commands) -> Readings:
    """How each RDMA device sits in the machine; "" for one that only stands for hardware."""
    readings: Readings = {name: {} for name in PCI_READINGS}
    boards = gpu_folders()
    for device in below(RDMA):
        top = f"{RDMA}/{device}/device"
        real = exists(f"{top}/config")
        folder = resolved(top)
        for name, reader in (
            ("rdma.pcie", link),
            ("rdma.pcie_most", most_of_link),
            ("rdma.pci_control", device_control),
            ("rdma.numa", lambda folder: number_of(folder + "/numa_node")),
            ("rdma.nearest_gpus", lambda folder: nearest(folder, boards)),
        ):
            readings[name][device] = one(reader, folder) if real else ""
    return readings


def lanes(folder: str, which: str) -> tuple[float, int]:
    """Return speed in GT/s and number of lanes of a PCIe link, ``current`` or ``max``."""
    speed, width = (line_of(f"{folder}/{which}_link_{part}") for part in ("speed", "width"))
    try:
        return float(speed.split(" ")[0]), int(width)
    except ValueError:
        raise Unread(f"{folder}: {which} link is {speed}, {width}") from None


def link(folder: str) -> str:
    """Return a PCIe link as it is."""
    speed, width = lanes(folder, "current")
    return f"{speed:g} GT/s x{width}"


def most_of_link(folder: str) -> str:
    """Return what both ends of a PCIe link can do."""
    ends = [lanes(folder, "max")]
    if exists(f"{os.path.dirname(folder)}/max_link_speed"):
        ends.append(lanes(os.path.dirname(folder), "max"))
    return f"{min(speed for speed, _ in ends):g} GT/s x{min(width for _, width in ends)}"


CAPABILITIES, EXPRESS, DEVICE_CONTROL = 0x34, 0x10, 8
"""Places in the configuration space (linux/pci_regs.h)."""


def device_control(folder: str) -> str:
    """Return how a PCIe device may read and order: bits of its Device Control register."""
    space = bytes_of(f"{folder}/config", 256)
    if len(space) < 256:
        raise Unread(f"{folder}/config: {len(space)} bytes, the rest is for root only")
    place = space[CAPABILITIES]
    while place and space[place] != EXPRESS:
        place = space[place + 1]
    if not place:
        return ""
    bits = struct.unpack_from("<H", space, place + DEVICE_CONTROL)[0]
    read, payload = 128 << (bits >> 12 & 7), 128 << (bits >> 5 & 7)
    return f"MaxReadReq {read}, MaxPayload {payload}, RlxdOrd{'+' if bits & 0x10 else '-'}"


def gpu_folders() -> list[str]:
    """Return where each NVIDIA board sits below /sys/devices, in the order of its address."""
    return [
        resolved(path)
        for path in found_by("/sys/bus/pci/devices/*")
        if line_of(path + "/vendor") == "0x10de" and line_of(path + "/class")[:6] == "0x0302"
    ]


def nearest(folder: str, boards: list[str]) -> str:
    """Return the boards that share the most bridges with a device; "none" below one root port."""
    own = folder.split("/")
    shared = {}
    for index, board in enumerate(boards):
        both = os.path.commonpath([folder, board]).split("/")
        # Up to the host bridge ("", sys, devices, pci...) everything is shared by many.
        if 4 < len(both) < len(own):
            shared[f"gpu{index}"] = len(both)
    closest = max(shared.values(), default=0)
    return ", ".join(name for name, number in shared.items() if number == closest) or "none"


ROCE_READINGS = (
    "rdma.pfc",
    "rdma.priorities",
    "rdma.ecn",
    "rdma.traffic_class",
    "rdma.acceleration",
)
ACCELERATIONS = (
    *("adaptive_routing_forced_en", "roce_adp_retrans_en", "roce_tx_window_en"),
    *("roce_slow_restart_en", "selective_repeat_forced_en"),
)


def read_roce(request: Request, commands: Commands) -> Readings:
    """How the ports that speak RoCE treat congestion; the firmware's view where its tool is."""
    readings: Readings = {name: {} for name in ROCE_READINGS}
    tool = next((name for name in ("mlxreg", "mstreg") if installed(name)), "")

    def shown(port: str, what: str) -> str:
        if not installed("dcb"):
            return ABSENT
        status, out, err = commands.outcome("dcb", what, "show", "dev", port)
        if status != 0 and "not supported" not in err:
            raise Unread(f"dcb: exit {status}: {err.strip()[:200]}")
        lines = [line.strip() for line in out.splitlines()]
        wanted = [line for line in lines if line.startswith(("prio-pfc", "dscp-prio", "default-"))]
        return "; ".join(wanted) if status == 0 else "not supported"

    def points(port: str) -> str:
        folder = f"/sys/class/net/{port}/ecn/roce_"
        return " ".join(
            f"{side} {''.join(line_of(path) for path in found_by(f'{folder}{side}/enable/*'))}"
            for side in ("np", "rp")
        )

    def register(device: str) -> Any:
        # Named like the PCI function; a virtual device has no register.
        function = os.path.basename(os.path.realpath(rooted(f"{RDMA}/{device}/device")))
        out = commands.run(tool, "-d", function, "--reg_name", "ROCE_ACCL", "--get")
        fields = dict(re.findall(r"^(\w+)\s*\|\s*(0x[0-9a-f]+)", out, re.M))
        return {name: int(fields[name], 16) for name in ACCELERATIONS if name in fields}

    for device in below(RDMA):
        top = f"{RDMA}/{device}"
        port = netdev(top, "1")
        if said(f"{top}/ports/1/link_layer") != "Ethernet" or not port:
            continue
        readings["rdma.pfc"][device] = one(lambda name: shown(name, "pfc"), port)
        readings["rdma.priorities"][device] = one(lambda name: shown(name, "app"), port)
        readings["rdma.ecn"][device] = one(points, port)
        classes = (f"{top}/tc/1/traffic_class", f"{CMA}/{device}/ports/1/default_roce_tos")
        readings["rdma.traffic_class"][device] = ", ".join(said(path) for path in classes)
        mellanox = exists(f"{top}/device/config") and device.startswith("mlx5")
        readings["rdma.acceleration"][device] = one(register, device) if tool and mellanox else {}
    return readings


CMA = "/sys/kernel/config/rdma_cm"


def read_rdma_settings(request: Request, commands: Commands) -> Readings:
    """Settings that the drivers of RDMA devices offer (devlink-dev(8)); none without its tool."""
    functions = {
        device: os.path.basename(os.path.realpath(rooted(f"{RDMA}/{device}/device")))
        for device in below(RDMA)
        if exists(f"{RDMA}/{device}/device/config")
    }
    shown: dict[str, Any] = {}
    if functions and installed("devlink"):
        status, out, err = commands.outcome("devlink", "-j", "dev", "param", "show")
        if status != 0 and "Failed to connect to devlink" not in err:
            raise Unread(f"devlink: exit {status}: {err.strip()[:200]}")
        shown = json.loads(out)["param"] if status == 0 else {}
    return {
        "rdma.settings": {
            device: {
                f"{row['name']} ({way['cmode']})": way["value"]
                for row in shown.get(f"pci/{function}", [])
                for way in row["values"]
            }
            for device, function in functions.items()
        }
    }


NET = "/sys/class/net"
NET_READINGS = (
    *("net.addresses", "net.mac", "net.state", "net.mtu", "net.queue", "net.speed", "net.driver"),
    *(
        "net.rings",
        "net.channels",
        "net.pause",
        "net.offloads",
        "net.errors",
        "net.carrier_changes",
    ),
)


def read_interfaces(request: Request, commands: Commands) -> Readings:
    """Network interfaces that stand for hardware or have an address that others can reach."""
    readings: Readings = {name: {} for name in NET_READINGS}
    for shown in json.loads(commands.run("ip", "-j", "address")):
        name = shown["ifname"]
        reached = [row["local"] for row in shown["addr_info"] if row.get("scope") == "global"]
        device = exists(f"{NET}/{name}/device")
        if name == "lo" or not (device or reached):
            continue
        readings["net.addresses"][name] = sorted(reached)
        readings["net.mac"][name] = shown.get("address", "")
        readings["net.state"][name] = shown["operstate"]
        readings["net.mtu"][name] = shown["mtu"]
        readings["net.queue"][name] = f"{shown['qdisc']}, {shown.get('txqlen', 0)} packets"
        for reading, reader in (
            ("net.speed", speed),
            ("net.driver", driver),
            ("net.rings", rings),
            ("net.channels", channels),
            ("net.pause", pause),
            ("net.offloads", offloads),
            ("net.errors", net_errors),
            ("net.carrier_changes", lambda name: number_of(f"{NET}/{name}/carrier_changes")),
        ):
            readings[reading][name] = one(reader, name)
    return readings


def read_default_routes(request: Request, commands: Commands) -> Readings:
    """Interfaces that packets to everywhere else leave by, for each family."""
    ways: dict[str, set[str]] = {"ipv4": set(), "ipv6": set()}
    for line in text_of("/proc/net/route").splitlines()[1:]:
        name, target, mask = (line.split("\t")[column] for column in (0, 1, 7))
        if int(target, 16) == int(mask, 16) == 0:
            ways["ipv4"].add(name)
    # A kernel without IPv6 has no such file; "lo" stands for what cannot be reached.
    table = "/proc/net/ipv6_route"
    for line in text_of(table).splitlines() if exists(table) else ():
        words = line.split()
        if int(words[0], 16) == int(words[1], 16) == 0 and words[-1] != "lo":
            ways["ipv6"].add(words[-1])
    return {"net.default_route": {family: sorted(names) for family, names in ways.items()}}


def speed(interface: str) -> str:
    """Return speed and duplex; "unknown" where the link is down or only stands for hardware."""
    try:
        rate = number_of(f"{NET}/{interface}/speed")
        return f"{rate} Mb/s {line_of(f'{NET}/{interface}/duplex')}" if rate > 0 else "unknown"
    except Unread:
        return "unknown"


def net_errors(interface: str) -> int:
    """Return frames that were lost to errors, in both directions."""
    top = f"{NET}/{interface}/statistics"
    return number_of(f"{top}/rx_errors") + number_of(f"{top}/tx_errors")


SIOCETHTOOL = 0x8946
GET_DRIVER, GET_RINGS, GET_PAUSE, GET_CHANNELS = 0x03, 0x10, 0x12, 0x3C
OFFLOADS = {"rx": 0x14, "tx": 0x16, "sg": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}
"""Commands of the driver interface behind ethtool(8) (linux/ethtool.h); all of them only read."""


def ethtool(interface: str, command: int, size: int) -> bytes:
    """Return the answer of a driver without its first word; nothing where it has none."""
    answer = array.array("B", struct.pack("=I", command) + bytes(size - 4))
    request = struct.pack("16sP16x", interface.encode(), answer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked, SIOCETHTOOL, request)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                return b""
            raise Unread(f"{interface}: ethtool: {error.strerror}") from None
    return answer.tobytes()[4:]


def words_of(interface: str, command: int, number: int) -> tuple[int, ...]:
    """Return the answer of a driver as numbers; none where it has no answer."""
    answer = ethtool(interface, command, 4 + 4 * number)
    return struct.unpack(f"={number}I", answer) if answer else ()


def driver(interface: str) -> str:
    """Return driver and firmware of an interface."""
    answer = ethtool(interface, GET_DRIVER, 196)
    texts = (answer[start : start + 32].split(b"\0")[0].decode() for start in (0, 64))
    return " ".join(filter(None, texts)) or NOT_SUPPORTED


def rings(interface: str) -> str:
    """Return how many frames wait in each direction."""
    words = words_of(interface, GET_RINGS, 8)
    return f"rx {words[4]}, tx {words[7]}" if words else NOT_SUPPORTED


def channels(interface: str) -> str:
    """Return the number of queues."""
    words = words_of(interface, GET_CHANNELS, 8)
    return f"rx {words[4]}, tx {words[5]}, combined {words[7]}" if words else NOT_SUPPORTED


def pause(interface: str) -> str:
    """Return whether pause frames are sent and obeyed."""
    words = words_of(interface, GET_PAUSE, 3)
    return f"rx {words[1]}, tx {words[2]}" if words else NOT_SUPPORTED


def offloads(interface: str) -> str:
    """Return what the interface does in place of the CPU."""
    asked = {name: words_of(interface, command, 1) for name, command in OFFLOADS.items()}
    return " ".join(f"{name}{'+' if any(words) else '-'}" for name, words in asked.items())


# --- machine: platform, processors, memory ------------------------------------------------------

DMI = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")


def read_platform(request: Request, commands: Commands) -> Readings:
    """What the firmware says of the machine and of itself."""
    return {"platform": each(list(DMI), lambda name: said(f"/sys/class/dmi/id/{name}"))}


CPU = "/sys/devices/system/cpu"


def read_processors(request: Request, commands: Commands) -> Readings:
    """Model, microcode, threads and what the kernel does against each weakness of the CPUs."""
    text = text_of("/proc/cpuinfo")
    weak = below(CPU + "/vulnerabilities")
    return {
        "cpu.model": counted(re.findall(r"^(?:model name|CPU part)\s*: (.*)$", text, re.M)),
        "cpu.microcode": counted(re.findall(r"^microcode\s*: (\S+)$", text, re.M)),
        "cpu.smt": said(CPU + "/smt/control"),
        "cpu.mitigations": each(weak, lambda name: line_of(f"{CPU}/vulnerabilities/{name}")),
    }


def read_frequency(request: Request, commands: Commands) -> Readings:
    """How the clocks of the CPUs are driven: one text for all of them."""
    policy = CPU + "/cpufreq/policy*/"

    def limit(which: str) -> str:
        paths = found_by(f"{policy}scaling_{which}_freq")
        own = [path.replace("/scaling_", "/cpuinfo_") for path in paths]
        pairs = [(line_of(path), line_of(own[index])) for index, path in enumerate(paths)]
        return counted(["of the CPU" if now == most else f"{now} kHz" for now, most in pairs])

    def lines(pattern: str) -> str:
        return counted([line_of(path) for path in found_by(pattern)])

    return {
        "cpu.frequency": {
            "driver": one(lines, policy + "scaling_driver"),
            "governor": one(lines, policy + "scaling_governor"),
            "energy_preference": one(lines, policy + "energy_performance_preference"),
            "lowest": one(limit, "min"),
            "highest": one(limit, "max"),
            "no_turbo": one(lines, CPU + "/intel_pstate/no_turbo"),
            "boost": one(lines, CPU + "/cpufreq/boost"),
        }
    }


def read_idle_states(request: Request, commands: Commands) -> Readings:
    """Idle states of the CPUs by name: enabled, disabled, or on how many of them."""
    words = {"0": "enabled", "1": "disabled"}

    def state(folder: str) -> str:
        flags = [line_of(path) for path in found_by(f"{CPU}/cpu[0-9]*/cpuidle/{folder}/disable")]
        return counted([words.get(flag, flag) for flag in flags])

    names = {folder: line_of(f"{CPU}/cpu0/cpuidle/{folder}/name") for folder in below(CPU0_IDLE)}
    return {"cpu.idle_states": {name: one(state, folder) for folder, name in names.items()}}


CPU0_IDLE = CPU + "/cpu0/cpuidle"


def read_power_limits(request: Request, commands: Commands) -> Readings:
    """Watts that each package of CPUs may draw, by the kind of limit."""
    limits: dict[str, Any] = {}
    for path in found_by("/sys/class/powercap/intel-rapl:*/constraint_*_power_limit_uw"):
        kind = path.replace("_power_limit_uw", "_name")
        zone = line_of(os.path.dirname(path) + "/name")
        limits[f"{zone} {line_of(kind)}"] = number_of(path) / 1e6
    return {"cpu.power_limits": limits}


DMI_TABLE = "/sys/firmware/dmi/tables/DMI"
MEMORY_DEVICE = 17


def read_memory_modules(request: Request, commands: Commands) -> Readings:
    """Slot -> size and speed of its module, from the firmware's own table (SMBIOS 7.18)."""
    if not exists(DMI_TABLE):
        return {"memory.modules": {}}
    table = bytes_of(DMI_TABLE)
    modules: dict[str, str] = {}
    start = 0
    while start + 4 <= len(table):
        kind, length = table[start], table[start + 1]
        end = table.find(b"\0\0", start + length)
        if end < 0 or length < 4:
            break
        if kind == MEMORY_DEVICE and length >= 0x17:
            slot, module = memory_module(table[start : start + length], table[start + length : end])
            modules[f"{slot} #{len(modules)}" if slot in modules else slot] = module
        start = end + 2
    return {"memory.modules": modules}


def memory_module(fields: bytes, texts: bytes) -> tuple[str, str]:
    """Return slot and module of one entry; its texts follow it, counted from 1."""
    size, locator, bank = struct.unpack_from("<H2xBB", fields, 0x0C)
    speed = struct.unpack_from("<H", fields, 0x15)[0]
    if len(fields) >= 0x22:
        speed = struct.unpack_from("<H", fields, 0x20)[0] or speed  # what it is set to
    if size == 0x7FFF and len(fields) >= 0x20:
        size = struct.unpack_from("<I", fields, 0x1C)[0] & 0x7FFFFFFF
    elif size & 0x8000:
        size = (size & 0x7FFF) // 1024  # in KiB
    said_by = [""] + [text.decode("latin-1").strip() for text in texts.split(b"\0")]
    names = [said_by[number] for number in (bank, locator) if 0 < number < len(said_by)]
    return " ".join(filter(None, names)), f"{size} MiB, {speed} MT/s" if size else "empty"


def read_memory_errors(request: Request, commands: Commands) -> Readings:
    """Errors of the memory that each controller counted since boot; none where nobody counts."""
    top = "/sys/devices/system/edac/mc"
    controllers = [name for name in below(top) if re.fullmatch(r"mc\d+", name)]
    return {
        "memory.uncorrected": each(controllers, lambda mc: number_of(f"{top}/{mc}/ue_count")),
        "memory.corrected": each(controllers, lambda mc: number_of(f"{top}/{mc}/ce_count")),
    }


def read_swap(request: Request, commands: Commands) -> Readings:
    """Swap areas by kind and size."""
    rows = [line.split() for line in text_of("/proc/swaps").splitlines()[1:]]
    return {"memory.swap": sorted(f"{row[1]} {int(row[2]) >> 10} MiB" for row in rows)}


def read_distances(request: Request, commands: Commands) -> Readings:
    """How far each NUMA node is from the others."""
    top = "/sys/devices/system/node"
    nodes = [name for name in below(top) if re.fullmatch(r"node\d+", name)]
    return {"numa.distance": each(nodes, lambda node: line_of(f"{top}/{node}/distance"))}


# --- kernel beyond its arguments ----------------------------------------------------------------

STATE = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/sys/kernel/mm/ksm/run",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/module/pcie_aspm/parameters/policy",
    "/sys/kernel/security/lsm",
    "/sys/kernel/security/lockdown",
)
COMMON_SYSCTLS = (
    *("kernel.numa_balancing", "kernel.sched_rt_runtime_us", "kernel.sched_autogroup_enabled"),
    *("kernel.nmi_watchdog", "kernel.watchdog_thresh", "kernel.timer_migration", "kernel.panic"),
    *("kernel.perf_event_paranoid", "kernel.randomize_va_space", "kernel.io_uring_disabled"),
    *("kernel.unprivileged_bpf_disabled", "kernel.hung_task_timeout_secs", "kernel.sysrq"),
    *("vm.swappiness", "vm.zone_reclaim_mode", "vm.overcommit_memory", "vm.overcommit_ratio"),
    *("vm.dirty_ratio", "vm.dirty_background_ratio", "vm.max_map_count", "vm.panic_on_oom"),
    *("vm.compaction_proactiveness", "vm.vfs_cache_pressure", "vm.stat_interval"),
    *("vm.nr_overcommit_hugepages", "vm.hugetlb_shm_group", "fs.nr_open", "fs.aio-max-nr"),
    *("net.core.rmem_max", "net.core.wmem_max", "net.core.rmem_default", "net.core.wmem_default"),
    *("net.core.netdev_max_backlog", "net.core.netdev_budget", "net.core.netdev_budget_usecs"),
    *("net.core.somaxconn", "net.core.default_qdisc", "net.core.busy_poll", "net.core.busy_read"),
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control"),
    *("net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack"),
    *("net.ipv4.tcp_ecn", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.ip_forward"),
    *("net.ipv4.ip_local_port_range", "net.ipv4.tcp_tw_reuse"),
    *("net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.arp_ignore"),
    *("net.ipv4.conf.all.arp_announce", "net.ipv4.conf.all.arp_filter"),
    *("net.ipv6.conf.all.forwarding", "net.ipv6.conf.all.disable_ipv6"),
)
"""Keys that weigh on jobs and whose value does not depend on the machine's memory."""
KNOWN_MODULES = (
    "nouveau",
    *("mlx5_core", "mlx5_ib", "mlx4_core", "bnxt_en", "bnxt_re", "ice", "irdma", "ena", "efa"),
    *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm", "knem", "xpmem"),
    *("lustre", "nvme", "ipmi_si", "edac_core", "skx_edac", "i10nm_edac", "amd64_edac"),
)
FAULTS = {
    # What the kernel's log says -> how a rule names it.
    r"blocked for more than \d+ seconds": "task hung",
    r"watchdog: BUG: soft lockup|hard LOCKUP": "CPU locked up",
    r"rcu.*(?:self-detected stall|detected stalls)": "RCU stall",
    r"\[Hardware Error\]: (?:Uncorrected|.*[Ff]atal)": "machine check",
    r"(?:EXT4-fs|XFS) .*(?:error|Corruption)|Remounting filesystem read-only": "file system error",
    r"I/O error, dev (?!sr|fd|loop)|nvme\S*: (?:controller is down|I/O .* timeout)": "disk error",
    r"NETDEV WATCHDOG": "network queue hung",
    r"AER: .*(?:Uncorrect|Fatal|Non-Fatal)": "PCIe error",
}


KERNEL_READINGS = (*("kernel.state", "sysctl.common", "kernel.modules", "kernel.newest"),)


def read_kernel_state(request: Request, commands: Commands) -> Readings:
    """Settings of the kernel that peers share, declared or not."""
    keys = list(COMMON_SYSCTLS)
    return {
        "kernel.state": each(list(STATE), said),
        "sysctl.common": each(keys, lambda key: common(f"/proc/sys/{sysctl_path(key)}")),
        "kernel.modules": each(list(KNOWN_MODULES), module_version),
        "kernel.newest": newest_kernel(os.uname().release),
    }


def read_tainted(request: Request, commands: Commands) -> Readings:
    """Bits of what happened to the kernel, and was loaded into it, since boot."""
    return {"kernel.tainted": number_of("/proc/sys/kernel/tainted")}


def newest_kernel(running: str) -> str:
    """Return the newest installed kernel of the running one's flavour."""
    names = [path[len("/boot/vmlinuz-") :] for path in found_by("/boot/vmlinuz-*")]
    alike = [name for name in names if flavour(name) == flavour(running)]
    return max([running, *alike], key=version_key)


def flavour(release: str) -> str:
    """Return what is no number of a release: ``+deb-cloud-amd`` of 6.12.48+deb13-cloud-amd64."""
    return re.sub(r"[\d.]+", "", release)


def common(path: str) -> str:
    """Return a value of /proc/sys in one spelling."""
    return " ".join(said(path).split())


def module_version(name: str) -> str:
    """Return the version of a loaded kernel module, or that it is loaded or absent."""
    folder = f"/sys/module/{name}"
    if not is_folder(folder):
        return ABSENT
    names = [file for file in ("version", "srcversion") if exists(f"{folder}/{file}")]
    return line_of(f"{folder}/{names[0]}") if names else "loaded"


def read_kernel_log(request: Request, commands: Commands) -> Readings:
    """How often the kernel's own buffer tells of each kind of fault."""
    found: dict[str, int] = {}
    for message in kernel_messages("/dev/kmsg"):
        for pattern, name in FAULTS.items():
            if re.search(pattern, message):
                found[name] = found.get(name, 0) + 1
    return {"kernel.log": dict(sorted(found.items()))}


WARNINGS = 4
"""Kernel messages of this level and below tell of something wrong (syslog(3))."""


def kernel_messages(path: str) -> list[str]:
    """Return the warnings and errors in the kernel's buffer; ``Unread`` if it is closed to us."""
    messages: list[str] = []
    try:
        # Without waiting: at the end of the buffer a read would wait for the next message.
        with open(rooted(path), "rb", buffering=0, opener=without_waiting) as file:
            for _ in range(MOST_MESSAGES):
                message = next_message(file)
                if not message:
                    break
                level = message.split(b",", 1)[0]
                if level.isdigit() and int(level) & 7 <= WARNINGS:
                    messages.append(message.decode("utf-8", "replace"))
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None
    return messages


def next_message(file: Any) -> bytes:
    """Return one message; an empty line for one that was overwritten before it was read."""
    try:
        return bytes(file.read(8192) or b"")
    except BrokenPipeError:
        return b"\n"


MOST_MESSAGES = 20000


def without_waiting(path: str, flags: int) -> int:
    """Open a file so that a read never waits."""
    return os.open(path, flags | os.O_NONBLOCK)


# --- identity and names -------------------------------------------------------------------------


def read_identity(request: Request, commands: Commands) -> Readings:
    """What only this node may have: machine id and ssh host keys, these as hashes."""
    keys = found_by("/etc/ssh/ssh_host_*_key.pub")

    def key(path: str) -> str:
        return hashlib.sha256(line_of(path).split()[1].encode()).hexdigest()

    return {
        "os.machine_id": said("/etc/machine-id"),
        "os.host_keys": {os.path.basename(path)[9:-8]: one(key, path) for path in keys},
    }


RESOLVED = "/run/systemd/resolve/resolv.conf"
"""The servers behind systemd-resolved, whose own address is all that resolv.conf has."""


def read_resolver(request: Request, commands: Commands) -> Readings:
    """Where names are looked up, and in which order."""
    text = text_of("/etc/resolv.conf") if exists("/etc/resolv.conf") else ""
    if "nameserver 127.0.0.53" in text and exists(RESOLVED):
        text = text_of(RESOLVED)
    rows = [line.split() for line in text.splitlines() if line[:1].isalpha()]
    found = {
        key: " ".join(word for row in rows if row[0] == key for word in row[1:])
        for key in ("nameserver", "search", "options")
    }
    path = "/etc/nsswitch.conf"
    switch = text_of(path) if exists(path) else ""
    order = re.search(r"^hosts:\s*(.*)$", switch, re.M)
    return {"os.resolver": {**found, "hosts": " ".join(order.group(1).split()) if order else ""}}


# --- services, timers and what watches them -----------------------------------------------------


def read_failed_units(request: Request, commands: Commands) -> Readings:
    """Units that failed, whoever started them."""
    out = commands.run(
        *("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"),
    )
    return {"units.failed": sorted(line.split()[0] for line in out.splitlines() if line.split())}


def read_enabled_units(request: Request, commands: Commands) -> Readings:
    """Units that somebody enabled on this node, and the jobs of cron by their hashes."""
    links = found_by("/etc/systemd/system/*.wants/*") + found_by("/etc/systemd/system/*.requires/*")
    tables = [
        path
        for pattern in ("/etc/cron.*/*", "/var/spool/cron/crontabs/*", "/var/spool/cron/*")
        for path in found_by(pattern)
        if os.path.isfile(rooted(path))
    ]

    def table(path: str) -> str:
        # Packages draw minute and hour by lot, so that not all machines start at once.
        common = re.sub(r"^[ \t]*\d+[ \t]+\d+[ \t]", "", text_of(path), flags=re.M)
        return hashlib.sha256(common.encode()).hexdigest()

    return {
        "units.enabled": sorted({os.path.basename(path) for path in links}),
        "cron.jobs": each(tables, table),
    }


COLLECTORS = (
    *(
        "nv-hostengine",
        "dcgm-exporter",
        "node_exporter",
        "prometheus-node-exporter",
        "dcgmproftester",
    ),
    *("telegraf", "collectd", "gpud", "otelcol", "alloy", "netdata", "zabbix_agentd", "atop"),
    *("nvidia_gpu_exporter", "datadog-agent", "fluent-bit", "vector", "gmond", "sadc"),
)
POLLS = re.compile(r"^\S*nvidia-smi\s.*(?:\bdmon\b|\bpmon\b|\s-l\S*|--loop)")
"""nvidia-smi in a loop: a collector that somebody left behind."""


def read_collectors(request: Request, commands: Commands) -> Readings:
    """Programs that read metrics from this node: name -> how each of them was started."""
    found: dict[str, list[str]] = {name: [] for name in (*COLLECTORS, "nvidia-smi")}
    for number in below("/proc"):
        if not number.isdigit():
            continue
        try:
            line = " ".join(text_of(f"/proc/{number}/cmdline").split("\0")).strip()
        except Unread:
            continue  # ended meanwhile
        name = os.path.basename(line.split(" ", 1)[0])
        if name in COLLECTORS or POLLS.match(line):
            found[name].append(" ".join([*dcgm_variables(number), line]))
    return {"collectors": {name: sorted(lines) for name, lines in found.items()}}


def dcgm_variables(number: str) -> list[str]:
    """Return what dcgm-exporter takes from its environment, among it the interval."""
    try:
        words = text_of(f"/proc/{number}/environ").split("\0")
    except Unread:
        return []
    return sorted(word for word in words if word.startswith("DCGM_"))


LONG_ENOUGH_S = 600.0
"""A service needs more at its start: before this age its share says nothing."""


def read_service_shares(request: Request, commands: Commands) -> Readings:
    """Percent of one CPU that each service used on average; none without control groups v2."""
    shares: dict[str, float] = {}
    uptime = float(line_of("/proc/uptime").split()[0])
    for path in found_by("/sys/fs/cgroup/system.slice/*.service/cpu.stat"):
        try:
            usage = re.search(r"^usage_usec (\d+)", text_of(path), re.M)
            begun = [started(pid) for pid in text_of(path[:-8] + "cgroup.procs").split()]
        except Unread:
            continue  # ended meanwhile
        age = uptime - min(begun, default=uptime)
        if usage and age > LONG_ENOUGH_S:
            shares[path.split("/")[-2]] = round(int(usage.group(1)) / age / 1e4, 2)
    return {"services.cpu_share": shares}


def started(pid: str) -> float:
    """Return when a process began, in seconds since boot (proc_pid_stat(5), starttime)."""
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


# --- mounts and disks ---------------------------------------------------------------------------

SHARED = re.compile(
    r"nfs4?|lustre|beegfs|gpfs|ceph|cifs|wekafs|virtiofs|fuse\.(ceph|glusterfs|sshfs)"
)
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "f2fs")
NOT_DISKS = ("/run/", "/var/lib/containerd/", "/var/lib/docker/", "/var/lib/kubelet/")
"""Where engines mount what belongs to containers."""
OWN_OPTIONS = ("clientaddr", "mountaddr", "mountport", "addr", "port")
"""Options that the kernel fills in, other ones on each node."""


MOUNT_READINGS = (
    *("mounts.shared", "mounts.local", "mounts.fstab", "storage.space", "storage.inodes"),
)


def read_mounts(request: Request, commands: Commands) -> Readings:
    """Shared file systems with their options, local ones with what is left, and fstab(5)."""
    shared: dict[str, str] = {}
    local: dict[str, str] = {}
    points = set()
    for line in text_of("/proc/self/mounts").splitlines():
        source, point, kind, options = line.split(" ")[:4]
        points.add(point)
        words = [word for word in options.split(",") if word.split("=")[0] not in OWN_OPTIONS]
        if SHARED.fullmatch(kind):
            shared[point] = f"{kind} {source} {','.join(sorted(words))}"
        elif kind in LOCAL and not point.startswith(NOT_DISKS):
            local[point] = words[0]
    table = text_of("/etc/fstab") if exists("/etc/fstab") else ""
    rows = [line.split() for line in table.splitlines() if line[:1] not in ("", "#")]
    listed = [
        row[1]
        for row in rows
        if len(row) > 3
        and row[1].startswith("/")
        and not {"noauto", "x-systemd.automount"} & set(row[3].split(","))
    ]
    return {
        "mounts.shared": shared,
        "mounts.local": local,
        "mounts.fstab": {point: "mounted" if point in points else ABSENT for point in listed},
        "storage.space": each(sorted(local), lambda point: used(point, "blocks", "bavail")),
        "storage.inodes": each(sorted(local), lambda point: used(point, "files", "favail")),
    }


def used(point: str, every: str, left: str) -> float:
    """Return which share of a local file system is taken, in percent."""
    try:
        about = os.statvfs(rooted(point))
    except OSError as error:
        raise Unread(f"{point}: {error.strerror}") from None
    total = getattr(about, "f_" + every)
    return round(100 - 100 * getattr(about, "f_" + left) / total, 1) if total else 0.0


def read_disks(request: Request, commands: Commands) -> Readings:
    """NVMe disks: model and firmware."""
    top = "/sys/class/nvme"

    def disk(name: str) -> str:
        return f"{line_of(f'{top}/{name}/model')}, {line_of(f'{top}/{name}/firmware_rev')}"

    return {"storage.nvme": each(below(top), disk)}


# --- time, munge, slurm -------------------------------------------------------------------------


OWN_CLOCK = "7F7F0101"
LOST_AFTER_S = 7200.0
"""Servers are asked every 1024 s at the latest (chrony.conf(5), maxpoll): seven were missed."""
LOST_INTERVALS = 10


def read_time(request: Request, commands: Commands) -> Readings:
    """chronyd's own view (chronyc(1), tracking; -c prints it as comma-separated values)."""
    rows = list(csv.reader(commands.run("chronyc", "-n", "-c", "tracking").splitlines()))
    if not rows or len(rows[0]) != 14:
        columns = len(rows[0]) if rows else 0
        raise Unread(f"chronyc: tracking has {columns} columns, not 14")
    row = rows[0]
    # The leap status outlives the servers by days. Column 4 is when a measurement of them was
    # last used, column 13 the seconds between the last two. chronyd's own clock (7F7F0101, the
    # "local" directive) measures nothing.
    age = time.time() - float(row[3])
    lost = row[0] != OWN_CLOCK and age > max(LOST_AFTER_S, LOST_INTERVALS * float(row[12]))
    return {
        "time.synchronised": row[13] != "Not synchronised" and not lost,
        "time.offset_s": float(row[4]),
    }


def read_munge_key(request: Request, commands: Commands) -> Readings:
    """Hash of the key; "absent" when there is none. The key itself never leaves the node."""
    found = read_file("/etc/munge/munge.key")
    return {"munge.key_sha256": found.get("sha256", found.get("other", "absent"))}


def read_munge_credential(request: Request, commands: Commands) -> Readings:
    """A credential of the user nobody: worth nothing to whoever sees it in a record."""
    if os.geteuid() != 0:
        raise Unread("munge: not run as root, so no credential of another user")
    return {"munge.credential": commands.run("munge", "-s", "lockstep", user="nobody").strip()}


def read_munge_decoded(request: Request, commands: Commands) -> Readings:
    """How decoding the credential of another node ends: "Success", or munge's own words."""
    credential = request.get("credential")
    if not credential:
        raise Unread("no credential of another node was given")
    status, out, err = commands.outcome(
        "unmunge", "--keys=STATUS", "--output=/dev/null", text=credential
    )
    match = re.search(r"^STATUS:\s*(.*?)\s*(?:\(\d+\))?$", out, re.MULTILINE)
    if match:
        return {"munge.decoded": match.group(1)}
    said = (err.strip() or out.strip() or f"exit {status}").splitlines()[0]
    return {"munge.decoded": said.replace("unmunge: Error: ", "")}


SLURM_CONF = (
    # Where slurmd keeps what the controller gave it ("configless"), then the file of the node.
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/var/spool/slurm/d/conf-cache/slurm.conf",
    "/var/lib/slurm/slurmd/conf-cache/slurm.conf",
    "/etc/slurm/slurm.conf",
)


def read_slurm_conf(request: Request, commands: Commands) -> Readings:
    """Hash of the configuration that slurmd works with."""
    for path in SLURM_CONF:
        if exists(path):
            return {"slurm.conf_sha256": read_file(path)["sha256"]}
    raise Unread("no slurm.conf in use: slurmd has not fetched one")


def read_spank_plugins(request: Request, commands: Commands) -> Readings:
    """The series of Slurm that each plugin asked for was built for: "24.11"."""

    def read(path: str) -> str:
        # slurm/spank.h: SPANK_PLUGIN sets it, as major << 16 | minor << 8 | micro.
        number = exported_number(path, b"plugin_version")
        return f"{number >> 16 & 255}.{number >> 8 & 255:02}"

    return {"slurm.spank_plugins": each(request["spank_plugins"], read)}


DYNSYM = 11
"""Type of the section that lists what a shared object exports (elf(5))."""


def exported_number(path: str, name: bytes) -> int:
    """Return the 32-bit number that a shared object exports by a name; elf(5), 64 bits."""
    try:
        with open(rooted(path), "rb") as file:
            content = file.read(LARGEST_FILE)
    except FileNotFoundError:
        raise Unread(f"{path}: no such file") from None
    if content[:6] != b"\x7fELF\x02\x01":
        raise Unread(f"{path}: no shared object of 64 bits")
    try:
        (headers,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<HH", content, 58)
        # Of each section: type, address, offset, length, the section of its names.
        sections = [
            struct.unpack_from("<4xI8xQQQI", content, headers + at * size) for at in range(count)
        ]
        for kind, _, begin, length, names in sections:
            for entry in range(begin, begin + length, 24) if kind == DYNSYM else ():
                text, section, value = struct.unpack_from("<I2xHQ", content, entry)
                start = sections[names][2] + text
                if content[start : content.index(b"\0", start)] == name and section:
                    _, address, offset, _, _ = sections[section]
                    (number,) = struct.unpack_from("<I", content, value - address + offset)
                    return int(number)
    except (struct.error, IndexError, ValueError):
        raise Unread(f"{path}: not a whole shared object") from None
    raise Unread(f"{path}: exports no {name.decode()}")


def read_srun_options(request: Request, commands: Commands) -> Readings:
    """Whether srun knows each option asked for: its help lists those of the plugins it loaded."""
    if not request["srun_options"]:
        return {"slurm.srun_options": {}}
    said = commands.run("srun", "--help")
    return {
        "slurm.srun_options": {
            option: re.search(rf"(^|\s){option}\b", said) is not None
            for option in request["srun_options"]
        }
    }


def read_slurm_nodes(request: Request, commands: Commands) -> Readings:
    """The controller's view of every node."""
    if not installed("slurmctld"):
        raise Unread("slurmctld: not installed")
    out = commands.run("scontrol", "-o", "show", "node")
    nodes = {}
    for line in out.splitlines():
        line, _, reason = line.partition(" Reason=")
        found = dict(re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", line))
        if "NodeName" not in found:
            continue
        state = found["State"].replace("*", "+NOT_RESPONDING")
        # "[root@2026-01-01T00:00:00]" ends the reason; other keys may follow it.
        reason = re.split(r"\s+\[[^\[\]]*@[^\[\]]*\]", reason)[0].strip()
        nodes[found["NodeName"]] = {
            "state": sorted({word for word in state.split("+") if word}),
            "cpus": int(found["CPUTot"]),
            "real_memory": int(found["RealMemory"]),
            "gres": re.sub(r"\([^)]*\)", "", found.get("Gres", "")),
            "cpu_spec_list": found.get("CPUSpecList", found.get("CpuSpecList", "")),
            "reason": reason,
            "version": found.get("Version", ""),
        }
    if not nodes:
        raise Unread("scontrol: no node in its answer")
    return {"slurm.nodes": nodes}


# --- GPUs ---------------------------------------------------------------------------------------


LOST = re.compile(
    r"\bGPU ?\d*:? ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d): *(.+)", re.IGNORECASE
)
"""What nvidia-smi prints in place of a row: ``... GPU0: 0000:24:00.0: GPU is lost.``"""


def read_gpus(request: Request, commands: Commands) -> Readings:
    """Every board, from one nvidia-smi."""
    known, status, out, err, answered_in_s = gpu_rows(commands)
    every = (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS)
    readings: Readings = {
        name: {} if field in known else Unread(f"nvidia-smi: {field} is not known to this driver")
        for name, field, _ in every
    }
    fields = [row for row in every if row[1] in known]
    lost: dict[str, str] = {}
    count = 0
    for line in out.splitlines():
        message = LOST.search(line)
        row = [word.strip() for word in next(csv.reader([line], skipinitialspace=True), [])]
        if message:
            lost[message.group(1).lower()] = message.group(2).strip()
        elif len(row) == len(fields) + 1 and row[0].startswith("["):
            lost[f"row {count + len(lost) + 1}"] = row[0]
        elif len(row) == len(fields) + 1 and row[0].isdigit():
            count += 1
            for column, (name, field, kind) in enumerate(fields, 1):
                readings[name]["gpu" + row[0]] = gpu_value(name, row[column], field, kind)
        elif row and status == 0:
            raise Unread(f"nvidia-smi: not a row of values: {', '.join(row)[:120]}")
    if status != 0 and not (count and lost):
        said = (err.strip() or out.strip() or "no message").splitlines()[0]
        raise Unread(f"nvidia-smi: exit {status}: {said[:200]}")
    readings["gpu.count"] = count
    readings["gpu.lost"] = lost
    readings["gpu.answered_in_s"] = answered_in_s
    return readings


def gpu_rows(commands: Commands) -> tuple[list[str], int, str, str, float]:
    """Return the fields that were asked for, how nvidia-smi answered, and in how many seconds.

    One field that a driver does not know spoils the whole answer: the driver is asked which it has.
    """
    fields = [field for _, field, _ in (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS)]
    begin = time.monotonic()
    status, out, err = commands.outcome(*gpu_query(fields))
    if status != 0 and "is not a valid field to query" in out + err:
        listed = commands.run("nvidia-smi", "--help-query-gpu")
        offered = {
            name
            for line in listed.splitlines()
            if line.startswith('"')
            for name in re.findall(r'"([\w.]+)"', line)
        }
        fields = [field for field in fields if field in offered]
        begin = time.monotonic()
        status, out, err = commands.outcome(*gpu_query(fields))
    return fields, status, out, err, round(time.monotonic() - begin, 3)


def gpu_query(fields: list[str]) -> tuple[str, str, str]:
    """Return the command that asks for these fields of every board."""
    query = ",".join(["index", *fields])
    return ("nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits")


OPTIONAL = frozenset(name for name, _, _ in GPU_OPTIONAL_FIELDS)


def gpu_value(name: str, text: str, field: str, kind: Callable[[str], Any]) -> Any:
    """Return one value; what the driver does not know is unread, never a value."""
    if name in OPTIONAL and text in LACKS:
        return NOT_SUPPORTED
    if text in ("", "N/A", "ERR!") or text.startswith("["):
        return {"unread": f"nvidia-smi: {field} is {text or 'empty'}"}
    try:
        return kind(text)
    except ValueError:
        return {"unread": f"nvidia-smi: {field} is {text[:60]!r}"}


BOARD = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[^)\s]+)\)")
MIG_DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")


def read_mig_devices(request: Request, commands: Commands) -> Readings:
    """What each board is divided into; an undivided one into nothing.

    A GPU instance without a compute instance is no device: no job can use it.
    """
    status, out, err = commands.outcome("nvidia-smi", "-L")
    boards = mig_devices(out)
    if status != 0 and not (boards and LOST.search(out)):
        said = (err.strip() or out.strip() or "no message").splitlines()[0]
        raise Unread(f"nvidia-smi: exit {status}: {said[:200]}")
    return {"gpu.mig.devices": {"gpu" + index: found for index, _, found in boards}}


def mig_devices(listed: str) -> list[tuple[str, str, list[str]]]:
    """Return index, UUID and the sorted profiles of each board that ``nvidia-smi -L`` lists."""
    boards: list[tuple[str, str, list[str]]] = []
    for line in listed.splitlines():
        board, device = BOARD.match(line), MIG_DEVICE.match(line)
        if board:
            boards.append((board.group(1), board.group(2), []))
        elif device and boards:
            boards[-1][2].append(device.group(1))
            boards[-1][2].sort()
        elif line.strip() and not LOST.search(line):
            raise Unread(f"nvidia-smi: -L, not a board nor a MIG device: {line.strip()[:120]}")
    return boards


NVLINK_ERRORS = ("replay", "recovery", "crc")


def read_nvlinks(request: Request, commands: Commands) -> Readings:
    """Speed of every NVLink of every board; a board that lists none has none up."""
    links: dict[str, dict[str, str]] = {}
    for board, line in by_board(commands.run("nvidia-smi", "nvlink", "-s"), links):
        match = re.match(r"Link (\d+): (.+)", line)
        if match:
            links[board][match.group(1)] = match.group(2)
    return {"gpu.nvlink.links": links}


def read_nvlink_errors(request: Request, commands: Commands) -> Readings:
    """Errors of the NVLinks of every board, all links together."""
    boards: dict[str, dict[str, int]] = {}
    for board, line in by_board(commands.run("nvidia-smi", "nvlink", "-e"), boards):
        match = re.match(r"Link \d+: (\w+)(?: \w+)? Errors: (\d+)$", line)
        kind = match.group(1).lower() if match else ""
        if match and kind in NVLINK_ERRORS:
            boards[board][kind] = boards[board].get(kind, 0) + int(match.group(2))
    return {
        f"gpu.nvlink.{kind}": {b: found.get(kind, NOT_SUPPORTED) for b, found in boards.items()}
        for kind in NVLINK_ERRORS
    }


def by_board(text: str, boards: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield board and line of an answer with a heading for each board, which is added to them."""
    board = ""
    for line in text.splitlines():
        heading = re.match(r"GPU (\d+): ", line)
        if heading:
            board = "gpu" + heading.group(1)
            boards[board] = {}
        elif board:
            yield board, line.strip()


def read_topology(request: Request, commands: Commands) -> Readings:
    """How boards and adapters reach each other: ``gpu0 mlx5_0`` -> ``PIX``, each pair once."""
    out = re.sub(r"\x1b\[[0-9;]*m", "", commands.run("nvidia-smi", "topo", "-m"))
    names = dict(re.findall(r"^\s+(NIC\d+): (\S+)\s*$", out, re.MULTILINE))
    lines = [[word.strip() for word in line.split("\t")] for line in out.splitlines()]
    heads = next((line[1:] for line in lines if line[:2] == ["", "GPU0"]), None)
    if heads is None:
        raise Unread("nvidia-smi: topo -m has no matrix")
    pairs: dict[str, str] = {}
    for row in lines:
        start = heads.index(row[0]) + 1 if row[0] in heads else len(heads)
        for column in range(start, len(heads)):
            if re.fullmatch(r"(GPU|NIC)\d+", heads[column]):
                ends = (names.get(end, end.lower()) for end in (row[0], heads[column]))
                pairs[" ".join(ends)] = row[column + 1]
    return {"gpu.topology": pairs}


PCI = "/sys/bus/pci/devices"
NVIDIA, DISPLAY = "0x10de", ("0x0300", "0x0302")
"""Vendor of the boards; classes VGA compatible and 3D controller."""
GPU_PCI_READINGS = (
    *("gpu.pci.boards", "gpu.pci.bar_mib", "gpu.pci.numa_node", "gpu.pci.iommu"),
    *("gpu.pci.width", "gpu.pci.width_max", "gpu.pci.speed", "gpu.pci.speed_max"),
    *("gpu.pci.redirects", "gpu.pci.correctable", "gpu.pci.nonfatal", "gpu.pci.fatal"),
)


def read_pci(request: Request, commands: Commands) -> Readings:
    """The boards as the kernel's PCI bus has them, with every bridge above them; by address."""
    if not is_folder(PCI):
        raise Unread(f"{PCI}: no such file")
    boards = {
        address: line_of(f"{PCI}/{address}/device")
        for address in below(PCI)
        if line_of(f"{PCI}/{address}/vendor") == NVIDIA
        and line_of(f"{PCI}/{address}/class").startswith(DISPLAY)
    }
    tops: dict[str, str] = {}
    ports: set[str] = set()
    above: set[str] = set()
    for board in boards:
        path = re.findall(r"/([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/|$)", real(board))
        above.update(path[:-1])
        # From the board upwards every second step is a link, the others are inside a switch.
        tops.update((path[step], path[step - 1]) for step in range(len(path) - 3, 0, -2))
        ports.update(path[2:-1:2])
    return {
        "gpu.pci.boards": boards,
        "gpu.pci.bar_mib": each(list(boards), largest_bar),
        "gpu.pci.numa_node": each(list(boards), numa_node),
        "gpu.pci.iommu": each(list(boards), iommu),
        "gpu.pci.width": on_both("current_link_width", tops),
        "gpu.pci.width_max": on_both("max_link_width", tops),
        "gpu.pci.speed": on_both("current_link_speed", tops),
        "gpu.pci.speed_max": on_both("max_link_speed", tops),
        "gpu.pci.redirects": each(sorted(ports), redirected),
        **{f"gpu.pci.{kind}": pci_errors(kind, {*boards, *above}) for kind in PCI_ERRORS},
    }


def real(address: str) -> str:
    """Return the folder of a device, which has all bridges above it in its path."""
    return resolved(f"{PCI}/{address}")


def on_both(file: str, tops: dict[str, str]) -> dict[str, Any]:
    """Return the lesser figure of both ends of each link: lower end -> lanes, or GT/s."""

    def lesser(end: str) -> float:
        return min(figure(f"{PCI}/{device}/{file}") for device in (end, tops[end]))

    return each(sorted(tops), lesser)


def figure(path: str) -> float:
    """Return the number that a file begins with."""
    text = line_of(path)
    try:
        return float(text.split(" ")[0])
    except ValueError:
        raise Unread(f"{path}: {text[:60]!r}") from None


def numa_node(board: str) -> int:
    """Return the NUMA node of a board; -1 where the firmware names none."""
    return number_of(f"{PCI}/{board}/numa_node")


def largest_bar(board: str) -> int:
    """Return the size of the largest region that the CPUs see of a board, in MiB."""
    regions = [line.split() for line in text_of(f"{PCI}/{board}/resource").splitlines()]
    return max(int(end, 16) - int(start, 16) + 1 for start, end, _ in regions) >> 20


def iommu(board: str) -> str:
    """Return how the IOMMU translates for a board; "none" without one."""
    group = f"{PCI}/{board}/iommu_group"
    return line_of(group + "/type") if exists(group) else "none"


EXTENDED, ACS, REDIRECTS = 0x100, 0x0D, 0x04 | 0x08 | 0x10
"""PCI Express Base Specification: where extended capabilities start, Access Control Services, and
its bits that send requests, completions and what comes from below upstream."""


def redirected(bridge: str) -> bool:
    """Say whether a bridge sends traffic between its devices up to the root."""
    path = f"{PCI}/{bridge}/config"
    config = bytes_of(path, 4096)
    if len(config) <= EXTENDED:
        raise Unread(f"{path}: {len(config)} bytes, so no extended capabilities: not read as root")
    at = EXTENDED
    for _ in range(64):  # a ring of capabilities ends nowhere
        header = struct.unpack_from("<I", config, at)[0]
        if header & 0xFFFF == ACS:
            return bool(struct.unpack_from("<H", config, at + 6)[0] & REDIRECTS)
        at = header >> 20
        if not EXTENDED <= at <= len(config) - 8:
            break
    return False


PCI_ERRORS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}


def pci_errors(kind: str, devices: set[str]) -> dict[str, Any]:
    """Return errors since the boot by device; only where the kernel counts them, not firmware."""

    def total(device: str) -> int:
        path = f"{PCI}/{device}/aer_dev_{kind}"
        match = re.search(rf"^TOTAL_ERR_{PCI_ERRORS[kind]} (\d+)$", text_of(path), re.MULTILINE)
        if not match:
            raise Unread(f"{path}: no total")
        return int(match.group(1))

    counted = f"aer_dev_{kind}"
    there = [one for one in sorted(devices) if exists(f"{PCI}/{one}/{counted}")]
    return each(there, total)


DRIVER = "/proc/driver/nvidia/version"
LOADED = "/sys/module/nvidia/version"
PARAMETERS = "/proc/driver/nvidia/params"
MODULES = ("nvidia", "nvidia-current", "nvidia-current-open")
"""Names of the kernel module on disk: NVIDIA's packages; Debian's, in the order in which they win
(nvidia-alternative)."""
FLAVOURS = {"NVIDIA": "proprietary", "Dual MIT/GPL": "open"}
"""Licence of the kernel module -> which of the two it is."""
LIBRARY = "libnvidia-ml.so.1"
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",
)


def read_module(request: Request, commands: Commands) -> Readings:
    """The loaded kernel module of the driver: version, and whether it is the open one."""
    if exists(DRIVER):
        text = text_of(DRIVER)
        match = re.search(r"^NVRM version:.*Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text, re.M)
        if not match:
            raise Unread(f"{DRIVER}: no version: {text[:60]!r}")
        flavour = "open" if "Open Kernel Module" in match.group() else "proprietary"
        return {"driver.module": {"version": match.group(1), "flavour": flavour}}
    if not exists(LOADED):
        raise Unread(f"{LOADED}: no such file: the kernel module is not loaded")
    unknown = {"unread": f"{DRIVER}: no such file"}
    return {"driver.module": {"version": line_of(LOADED), "flavour": unknown}}


def read_driver_parameters(request: Request, commands: Commands) -> Readings:
    """Parameters that the loaded kernel module works with."""
    lines = [line.partition(":") for line in text_of(PARAMETERS).splitlines()]
    return {"driver.parameters": {name: value.strip().strip('"') for name, _, value in lines}}


HELPERS = ("gdrdrv", "nvidia_fs", "nvidia_peermem")
"""Modules that let adapters and storage reach the memory of boards."""


def read_driver_helpers(request: Request, commands: Commands) -> Readings:
    """Those of these modules that are loaded."""
    return {"driver.helpers": [name for name in HELPERS if name in below("/sys/module")]}


def read_module_on_disk(request: Request, commands: Commands) -> Readings:
    """The kernel module that the running kernel would load; "absent" when it has none."""
    return {"driver.module_on_disk": module_file(commands)}


def read_module_next(request: Request, commands: Commands) -> Readings:
    """The kernel module that the kernel of the boot loader's first entry would load."""
    menu = "/boot/grub/grub.cfg"
    first = re.search(r"^\s*linux(?:16|efi)?\s+\S*/vmlinuz-(\S+)", text_of(menu), re.MULTILINE)
    if not first:
        raise Unread(f"{menu}: no entry with a kernel")
    module = module_file(commands, "-k", first.group(1))
    return {"driver.module_next": {"kernel": first.group(1), **module}}


def module_file(commands: Commands, *kernel: str) -> dict[str, Any]:
    """Return version and flavour of the module on disk; "absent" when there is none."""
    for name in MODULES:
        status, out, err = commands.outcome("modinfo", *kernel, "-F", "version", name)
        if status == 0:
            licence = commands.run("modinfo", *kernel, "-F", "license", name).strip()
            unknown = {"unread": f"modinfo: license is {licence[:60]!r}"}
            return {"version": out.strip(), "flavour": FLAVOURS.get(licence, unknown)}
        if "not found" not in err:
            said = (err.strip() or "no message").splitlines()[0]
            raise Unread(f"modinfo: exit {status}: {said[:200]}")
    return {"version": "absent", "flavour": "absent"}


def read_driver_library(request: Request, commands: Commands) -> Readings:
    """Version of the driver's library, from the name of the file that its link leads to."""
    paths = [f"{folder}/{LIBRARY}" for folder in LIBRARY_FOLDERS]
    try:
        listed = commands.run("ldconfig", "-p")
        # The machine's own before those of 32-bit programs.
        lines = [line for line in listed.splitlines() if line.split()[:1] == [LIBRARY]]
        lines.sort(key=lambda line: "64" not in line.partition("=>")[0])
        paths = [line.partition("=>")[2].strip() for line in lines] + paths
    except Unread:  # without its list, the usual folders are looked at alone
        pass
    there = [path for path in paths if exists(path)]
    if not there:
        raise Unread(f"{LIBRARY}: neither in the list of ldconfig nor in {LIBRARY_FOLDERS[0]}")
    file = os.path.basename(os.path.realpath(rooted(there[0])))
    match = re.fullmatch(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)", file)
    if not match:
        raise Unread(f"{there[0]}: leads to {file}, which has no version in its name")
    return {"driver.library": match.group(1)}


BOARDS = "/proc/driver/nvidia/gpus"
BOARD_MAJOR = 195
"""Of every /dev/nvidia0, /dev/nvidia1, ...: NVIDIA's, in Linux' Documentation/admin-guide."""


def read_board_numbers(request: Request, commands: Commands) -> Readings:
    """Which board is behind a device number: its UUID, as the kernel module says."""

    def uuid_of(text: str) -> str:
        match = re.search(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)$", text, re.M)
        if not match:  # question marks, while no program has opened the board
            raise Unread(f"{BOARDS}: the module does not know the board's UUID yet")
        return match.group(1)

    boards = {}
    for folder in below(BOARDS):
        text = text_of(f"{BOARDS}/{folder}/information")
        minor = re.search(r"^Device Minor:\s*(\d+)$", text, re.M)
        if not minor:
            raise Unread(f"{BOARDS}/{folder}/information: no device minor")
        boards[f"{BOARD_MAJOR}:{minor.group(1)}"] = one(uuid_of, text)
    return {"driver.boards": boards}


INSTANCES = "/proc/driver/nvidia/capabilities/gpu*/mig/gi*"


def read_instance_files(request: Request, commands: Commands) -> Readings:
    """The capability files of MIG's instances: who may open them may compute on the slice."""
    files = []
    for pattern in (f"{INSTANCES}/access", f"{INSTANCES}/ci*/access"):
        for path in found_by(pattern):
            minor = re.search(r"^DeviceFileMinor:\s*(\d+)$", text_of(path), re.M)
            if not minor:
                raise Unread(f"{path}: no minor of a device file")
            files.append(f"/dev/nvidia-caps/nvidia-cap{minor.group(1)}")
    return {"driver.instance_files": sorted(files)}


MOST_XIDS = 50
"""Of one board: a storm of them says no more than its last ones."""


def read_xids(request: Request, commands: Commands) -> Readings:
    """Errors of this boot, oldest first: Xid numbers by the board's PCI address, SXid by switch."""
    status, out, err = commands.outcome(
        *("journalctl", "-k", "-b", "-o", "short-unix", "--no-pager", "-n", "2000"),
        *("-g", "NVRM: Xid|SXid"),
    )
    # It exits with 1 where nothing matches, and where it cannot look.
    if status not in (0, 1) or (status == 1 and err.strip()):
        said = (err.strip() or out.strip() or "no message").splitlines()[0]
        raise Unread(f"journalctl: exit {status}: {said[:200]}")
    xids: list[tuple[float, str, Any]] = []
    sxids: list[tuple[float, str, Any]] = []
    for line in out.splitlines():
        match = re.match(
            r"(\d+\.\d+) .*\bS?Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+)(?:, *(\w[\w-]*))?",
            line,
        )
        if match:
            at, address, number = float(match.group(1)), match.group(2).lower(), match.group(3)
            if "SXid" in line:
                sxids.append((at, address, f"{number} {match.group(4) or ''}".strip()))
            else:
                xids.append((at, address, int(number)))
    return {"driver.xid": by_address(xids), "driver.sxid": by_address(sxids)}


def by_address(events: list[tuple[float, str, Any]]) -> dict[str, list[Any]]:
    """Return address -> its last events, oldest first."""
    found: dict[str, list[Any]] = {}
    for _, address, event in sorted(events, key=lambda event: event[0]):
        found.setdefault(address, []).append(event)
    return {address: found[address][-MOST_XIDS:] for address in sorted(found)}


# --- containers ---------------------------------------------------------------------------------

CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
CDI_KIND = "nvidia.com/gpu"


def read_cdi(request: Request, commands: Commands) -> Readings:
    """Which boards and which driver the CDI specification gives to containers, name by name.

    Both of nvidia-ctk's formats; YAML by its lines, which is all that the standard library can.
    """
    devices: dict[str, list[str]] = {}
    libraries: set[str] = set()
    found = False
    for folder in CDI_FOLDERS:
        for name in below(folder):
            text = text_of(f"{folder}/{name}")
            if CDI_KIND not in text:
                continue
            found = True
            libraries |= set(re.findall(r"libnvidia-ml\.so\.(\d+\.[0-9.]+\d)", text))
            for device, paths in cdi_devices(text, name).items():
                devices.setdefault(device, []).extend(paths)
    if not found:
        raise Unread(f"no specification of {CDI_KIND} in {' or '.join(CDI_FOLDERS)}")
    return {
        "cdi.devices": {device: sorted(paths) for device, paths in devices.items()},
        "cdi.libraries": sorted(libraries),
    }


def cdi_devices(text: str, name: str) -> dict[str, list[str]]:
    """Return device name -> its device nodes."""
    if name.endswith(".json"):
        return {
            str(device["name"]): [
                node["path"] for node in device.get("containerEdits", {}).get("deviceNodes", [])
            ]
            for device in json.loads(text).get("devices", [])
        }
    devices: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if re.match(r"[a-zA-Z]", line):  # a key of the whole file: what follows is every device's
            current = ""
        device = re.match(r"\s*-?\s*name:\s*[\"']?([^\"'\s]+)", line)
        node = re.match(r"\s*-?\s*path:\s*[\"']?(/dev/[^\"'\s]+)", line)
        if device:
            current = device.group(1)
            devices[current] = []
        elif node and current:
            devices[current].append(node.group(1))
    return devices


DEVICE_FILES = (
    "/dev/nvidia*",
    "/dev/nvidia-caps/*",
    "/dev/nvidia-caps-imex-channels/*",
    "/dev/infiniband/*",
)
IN_CONTAINER = (
    f"for d in {' '.join(DEVICE_FILES)}; do "
    'if [ -c "$d" ]; then echo "device $d $(busybox stat -c %t:%T "$d")"; fi; done; '
    "busybox find /usr /lib -name 'libnvidia-ml.so.*' 2>/dev/null | while read -r l; do "
    'echo "library ${l##*.so.}"; done; '
    'echo "memlock $(ulimit -l)"; '
    'busybox df -kP /dev/shm | { read -r _; read -r _ k _; echo "shm_kib $k"; }; '
    'while read -r k v; do if [ "$k" = Cpus_allowed_list: ]; then echo "cpus $v"; fi; '
    "done </proc/self/status"
)


def read_device_files(request: Request, commands: Commands) -> Readings:
    """The device files that a container may be given, each with its number."""
    found = {}
    for path in (path for pattern in DEVICE_FILES for path in found_by(pattern)):
        about = os.stat(rooted(path))
        if stat.S_ISCHR(about.st_mode):
            number = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
            found[path] = number
    return {"device.files": found}


def read_containers(request: Request, commands: Commands) -> Readings:
    """What a container with all boards sees, engine by engine.

    The one reader that starts something: it is asked for by name, and leaves nothing behind.
    """
    image, folders = request["check_image"], request["container_devices"]
    step_forward()

    def started(engine: str) -> Any:
        if engine == "containerd":
            return seen(in_pod(commands, image, folders))
        devices = [f"--device={name}" for name in (f"{CDI_KIND}=all", *folders)]
        looked = ("/bin/busybox", "sh", "-c", IN_CONTAINER)
        command = (engine, "run", "--rm", "--network", "none", *devices, image, *looked)
        return seen(commands.run(*command))

    return {"containers": each(request["containers"], started)}


def seen(out: str) -> dict[str, Any]:
    """Return what IN_CONTAINER printed; stat's numbers are hexadecimal."""
    words = [line.split(" ", 1) for line in out.splitlines() if " " in line]
    last = dict(words)
    devices = [v.split(" ") for k, v in words if k == "device"]
    return {
        "devices": {
            path: ":".join(str(int(part, 16)) for part in number.split(":"))
            for path, number in devices
        },
        "libraries": sorted({v for k, v in words if k == "library" and "." in v}),
        **{name: last.get(name, "") for name in ("memlock", "shm_kib", "cpus")},
    }


CONTAINERD = "unix:///run/containerd/containerd.sock"


def in_pod(commands: Commands, image: str, folders: list[str]) -> str:
    """Return what IN_CONTAINER prints in a pod: the way from Kubernetes to containerd is the CRI.

    Not by ctr: until containerd 2.0 it takes no CDI names. The pod has the node's network, so that
    no network plugin is asked for.
    """
    sandbox = {
        "metadata": {"name": f"lockstep-{os.getpid()}", "uid": "check", "namespace": "lockstep"},
        "linux": {"security_context": {"namespace_options": {"network": 2}}},
    }
    container = {
        "metadata": {"name": "check"},
        "image": {"image": image},
        "command": ["/bin/busybox", "sleep", "60"],
        "devices": [{"host_path": f, "container_path": f, "permissions": "rw"} for f in folders],
        "CDI_devices": [{"name": f"{CDI_KIND}=all"}],
    }

    def crictl(*words: str) -> str:
        return commands.run("crictl", "--runtime-endpoint", CONTAINERD, *words).strip()

    files = [in_memory(sandbox), in_memory(container)]
    paths = [f"/proc/{os.getpid()}/fd/{file}" for file in files]
    try:
        pod = crictl("runp", paths[0])
        try:
            made = crictl("create", pod, paths[1], paths[0])
            crictl("start", made)
            return crictl("exec", "-s", made, "/bin/busybox", "sh", "-c", IN_CONTAINER)
        finally:
            crictl("rmp", "-f", pod)
    finally:
        for file in files:
            os.close(file)


def in_memory(content: Any) -> int:
    """Return an open file of JSON that is on no disk: crictl takes nothing but files."""
    file = os.memfd_create("lockstep")
    os.write(file, json.dumps(content).encode())
    return file


# --- all of it ----------------------------------------------------------------------------------

Row = tuple[Callable[[Request, Commands], Readings], tuple[str, ...]]
OF_NVIDIA_SMI: tuple[Row, ...] = (
    (read_gpus, ("gpu.count", "gpu.lost", "gpu.answered_in_s", *GPU_READINGS)),
    (read_mig_devices, ("gpu.mig.devices",)),
    (read_nvlinks, ("gpu.nvlink.links",)),
    (read_nvlink_errors, tuple(f"gpu.nvlink.{kind}" for kind in NVLINK_ERRORS)),
    (read_topology, ("gpu.topology",)),
)
"""One after the other, what tells most first: when it hangs, the others are not even asked."""
READERS: tuple[Row, ...] = (
    *OF_NVIDIA_SMI,
    (read_pci, GPU_PCI_READINGS),
    (read_driver_parameters, ("driver.parameters",)),
    (read_driver_helpers, ("driver.helpers",)),
    (read_module, ("driver.module",)),
    (read_module_on_disk, ("driver.module_on_disk",)),
    (read_module_next, ("driver.module_next",)),
    (read_driver_library, ("driver.library",)),
    (read_board_numbers, ("driver.boards",)),
    (read_instance_files, ("driver.instance_files",)),
    (read_xids, ("driver.xid", "driver.sxid")),
    (read_packages, ("packages", "packages.broken", "packages.held")),
    (read_slurm_nodes, ("slurm.nodes",)),
    (read_units, ("units", "limits.memlock", "limits.open_files")),
    (read_time, ("time.synchronised", "time.offset_s")),
    (read_munge_credential, ("munge.credential",)),
    (read_munge_decoded, ("munge.decoded",)),
    (read_munge_key, ("munge.key_sha256",)),
    (read_slurm_conf, ("slurm.conf_sha256",)),
    (read_spank_plugins, ("slurm.spank_plugins",)),
    (read_srun_options, ("slurm.srun_options",)),
    (read_release, ("os.id", "os.version_id")),
    (read_running, ("os.hostname", "os.boot_id", "kernel.release", "kernel.cmdline")),
    (read_time_zone, ("os.time_zone",)),
    (read_locale, ("os.locale",)),
    (read_cmdline_persisted, ("kernel.cmdline_persisted",)),
    (read_files, ("files",)),
    (read_hosts, ("hosts.entries",)),
    (read_sysctl_running, ("sysctl.running",)),
    (read_sysctl_persisted, ("sysctl.persisted",)),
    (read_cpus, ("cpu.online", "numa.cpus")),
    (read_memory, ("memory_mib",)),
    (read_hugepages, ("hugepages", "hugepages.free")),
    (read_hugepages_mounts, ("hugepages.mounts",)),
    (read_cpuset, ("cpuset.manager", "cpuset.user_slice")),
    (read_services, ("cpuset.services",)),
    (read_kernel_files, ("kernel.files",)),
    (read_isolation, ("cpu.isolated", "cpu.nohz_full")),
    (read_max_cstate, ("kernel.max_cstate",)),
    (read_interrupts, ("irq.affinity",)),
    (read_listeners, ("listeners",)),
    (read_rdma, RDMA_READINGS),
    (read_rdma_ports, PORT_READINGS),
    (read_rdma_pci, PCI_READINGS),
    (read_roce, ROCE_READINGS),
    (read_rdma_settings, ("rdma.settings",)),
    (read_interfaces, NET_READINGS),
    (read_default_routes, ("net.default_route",)),
    (read_platform, ("platform",)),
    (read_processors, ("cpu.model", "cpu.microcode", "cpu.smt", "cpu.mitigations")),
    (read_frequency, ("cpu.frequency",)),
    (read_idle_states, ("cpu.idle_states",)),
    (read_power_limits, ("cpu.power_limits",)),
    (read_memory_modules, ("memory.modules",)),
    (read_memory_errors, ("memory.uncorrected", "memory.corrected")),
    (read_swap, ("memory.swap",)),
    (read_distances, ("numa.distance",)),
    (read_kernel_state, KERNEL_READINGS),
    (read_tainted, ("kernel.tainted",)),
    (read_kernel_log, ("kernel.log",)),
    (read_identity, ("os.machine_id", "os.host_keys")),
    (read_resolver, ("os.resolver",)),
    (read_failed_units, ("units.failed",)),
    (read_enabled_units, ("units.enabled", "cron.jobs")),
    (read_collectors, ("collectors",)),
    (read_service_shares, ("services.cpu_share",)),
    (read_mounts, MOUNT_READINGS),
    (read_disks, ("storage.nvme",)),
    (read_cdi, ("cdi.devices", "cdi.libraries")),
    (read_device_files, ("device.files",)),
    (read_containers, ("containers",)),
)


NAMES = (
    *("files", "units", "sysctls", "kernel_files", "listeners"),
    *("containers", "check_image", "container_devices"),
    *("spank_plugins", "srun_options"),
)
"""What a request may name; what it does not is not looked at."""


def collect(
    request: Request,
    only: frozenset[str] = frozenset(),
    command_timeout_s: float | None = None,
    reader_timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return the record of this node.

    Args:
        request: what to look at, by name.
        only: readings that are needed; empty: all. Others are taken where one reader has both.
        command_timeout_s: for each command; None: the usual.
        reader_timeout_s: for each reader, with all of its commands; None: the usual.
    """
    limit_s = reader_timeout_s or READER_TIMEOUT_S
    taken_at, begin = time.time(), time.monotonic()
    request = {**{name: [] for name in NAMES}, **request}
    commands = Commands(command_timeout_s)
    readings: Readings = {}
    readers = [row for row in READERS if not only or only & set(row[1])]

    def read(reader: Callable[[Request, Commands], Readings], names: tuple[str, ...]) -> None:
        try:
            found = reader(request, commands)
        except Unread as reason:
            found = dict.fromkeys(names, reason)
        except (OSError, ValueError, LookupError) as error:
            found = dict.fromkeys(names, Unread(f"{type(error).__name__}: {error}"))
        for name, value in found.items():
            unread = isinstance(value, Unread)
            readings[name] = {"unread": str(value)} if unread else {"value": value}

    def read_in_turn(rows: list[Row]) -> None:
        for row in rows:
            read(*row)

    # Daemon threads: one that is stuck in the kernel must not keep the program from ending.
    together = [[row for row in readers if row in OF_NVIDIA_SMI]]
    together += [[row] for row in readers if row not in OF_NVIDIA_SMI]
    threads = [threading.Thread(target=read_in_turn, args=(t,), daemon=True) for t in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begin + limit_s - time.monotonic()))
    done = dict(readings)
    for _, names in readers:
        for name in names:
            done.setdefault(name, {"unread": f"no answer within {limit_s:g} s"})
    return {
        "format": FORMAT,
        "taken_at": round(taken_at, 3),
        "duration_s": round(time.monotonic() - begin, 3),
        "readings": dict(sorted(done.items())),
        "commands": sorted(commands.ran, key=lambda ran: list(ran["argv"])),
    }


FREE = os.sched_getaffinity(0)
"""The CPUs that this program was given, for what must not inherit its own."""


def stand_aside(housekeeping: set[int]) -> None:
    """Run where jobs do not, and only when nobody else would: jobs are not to notice us.

    Whatever is started inherits it; so does the I/O priority of a task that runs idle (ionice(1)).
    """
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if housekeeping & FREE:
            os.sched_setaffinity(0, housekeeping & FREE)
    except OSError:  # a machine that forbids it: read all the same
        pass


def step_forward() -> None:
    """Undo that for this thread: what it starts is looked at as a job's would be."""
    try:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, FREE)
    except OSError:  # it could not stand aside either
        pass


def main() -> None:
    """Read the request from the argument, print the record."""
    request = json.loads(base64.b64decode(sys.argv[1]))
    stand_aside(cpus(request.get("housekeeping_cpus", "")))
    # The marker comes first, so that the output is never empty and a greeting cannot hide it.
    print(MARKER, flush=True)
    print(json.dumps(collect(request), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()

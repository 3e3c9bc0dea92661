"""Slurm: configuration, plugins, the controller's view of the nodes, and munge."""

from __future__ import annotations

import os
import re
import struct
import time
from functools import lru_cache
from typing import Any

from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.files import read_file
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import (
    LARGEST_FILE,
    bytes_of,
    command_lines,
    exists,
    in_memory,
    text_of,
)

SLURM_CONF = (
    # The file that slurmd fetched from the controller ("configless"), then the node's own.
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/var/spool/slurm/d/conf-cache/slurm.conf",
    "/var/lib/slurm/slurmd/conf-cache/slurm.conf",
    "/etc/slurm/slurm.conf",
)


def read_slurm_conf(request: Request, commands: Commands) -> Readings:
    """Hash of the slurm.conf that slurmd uses."""
    for path in SLURM_CONF:
        if exists(path):
            return {"slurm.conf_sha256": read_file(path)["sha256"]}
    raise Unread("slurm.conf is not in /etc/slurm, and slurmd has not fetched it yet")


def read_spank_plugins(request: Request, commands: Commands) -> Readings:
    """The Slurm release, such as "24.11", that each requested plugin was built for."""

    def read(path: str) -> str:
        # slurm/spank.h: SPANK_PLUGIN sets this to major << 16 | minor << 8 | micro.
        number = exported_number(path, b"plugin_version")
        return f"{number >> 16 & 255}.{number >> 8 & 255:02}"

    return {"slurm.spank_plugins": each(request["spank_plugins"], read)}


DYNSYM = 11
"""SHT_DYNSYM, the type of the section with the dynamic symbols (elf(5))."""


def exported_number(path: str, name: bytes) -> int:
    """Return the 32-bit number that a 64-bit shared object exports as ``name`` (elf(5))."""
    content = bytes_of(path, LARGEST_FILE)
    if content[:6] != b"\x7fELF\x02\x01":
        raise Unread(f"{path} is not a 64-bit shared object")
    try:
        (headers,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<HH", content, 58)
        # From each section header: type, address, offset, size, index of the string table.
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
        raise Unread(f"{path} is a truncated shared object") from None
    raise Unread(f"{path} does not export {name.decode()}")


def read_srun_options(request: Request, commands: Commands) -> Readings:
    """Whether each requested option is in srun's help, which includes options of loaded plugins."""
    options = request["srun_options"]
    said = commands.run("srun", "--help") if options else ""
    found = {option: re.search(rf"(^|\s){option}\b", said) is not None for option in options}
    return {"slurm.srun_options": found}


def read_plugin_loads(request: Request, commands: Commands) -> Readings:
    """Whether Slurm can load each requested plugin, so that srun's help lists the plugin's option.

    Slurm has no other way to test a plugin. srun gets a temporary slurm.conf, so that it loads no
    other plugin and needs no controller.
    """

    def loads(asked: str) -> bool:
        plugin, option = asked.split(" ")
        if not installed("srun"):
            return False
        conf = "ClusterName=test\nSlurmctldHost=localhost\nPlugStackConfig="
        with in_memory(f"required {plugin}\n") as plugins, in_memory(conf + plugins) as slurm_conf:
            said = commands.outcome("env", f"SLURM_CONF={slurm_conf}", "srun", "--help")
        return option in "".join(said[1:])

    return {"slurm.plugin_loads": each(request["plugin_options"], loads)}


def _gres(listed: str) -> str:
    """Return types and counts; slurmd lists the types of MIG devices in its own order."""
    return ",".join(sorted(re.sub(r"\([^)]*\)", "", listed).split(",")))


def read_slurm_nodes(request: Request, commands: Commands) -> Readings:
    """The controller's view of every node."""
    if not installed("slurmctld"):
        raise Unread("slurmctld: not installed")
    nodes = {
        found["NodeName"]: {
            "state": found["state"],
            "cpus": int(found["CPUTot"]),
            "real_memory": int(found["RealMemory"]),
            "gres": _gres(found.get("Gres", "")),
            "cpu_spec_list": found.get("CPUSpecList", found.get("CpuSpecList", "")),
            "reason": found["reason"],
            "version": found.get("Version", ""),
            # After a restart, slurmctld shows every node as UNKNOWN until its slurmd registers, but
            # keeps this time; a node that has never registered has none (scontrol(1)).
            "was_busy": moment(found.get("LastBusyTime", "")) is not None,
        }
        for found in filter(None, map(shown, nodes_shown(commands).splitlines()))
    }
    if not nodes:
        raise Unread("scontrol show node printed no nodes")
    return {"slurm.nodes": nodes}


@lru_cache(maxsize=1)
def nodes_shown(commands: Commands) -> str:
    """Return what ``scontrol -o show node`` says of all nodes; slurmctld is asked once."""
    return commands.run("scontrol", "-o", "show", "node")


def node_shown(name: str, commands: Commands) -> dict[str, Any]:
    """Return the controller's view of a node; raise ``Unread`` if scontrol cannot show it."""
    found = shown(commands.run("scontrol", "-o", "show", "node", name))
    if not found:
        raise Unread(f"scontrol show node {name} printed no node")
    return found


def shown(line: str) -> dict[str, Any]:
    """Return the node in a line of ``scontrol -o show node``; empty if the line shows no node.

    Besides Slurm's keys, the result has ``state``, a list of the base state and the flags, and
    ``reason``, Slurm's reason without its author and time.
    """
    line, _, reason = line.partition(" Reason=")
    found: dict[str, Any] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", line):
        found.setdefault(key, value)  # a comment, which comes last, may have such words
    if "NodeName" not in found:
        return {}
    if "State" not in found:
        raise Unread(f"scontrol show node printed no State for {found['NodeName']}")
    state = found["State"].replace("*", "+NOT_RESPONDING")  # older versions write "*"
    found["state"] = sorted({word for word in state.split("+") if word})
    # "[root@2026-01-01T00:00:00]" ends the reason; other keys may follow it.
    found["reason"] = re.split(r"\s+\[[^\[\]]*@[^\[\]]*\]", reason)[0].strip()
    return found


CONTROLLER_S = 20.0
"""Timeout of commands that query the controller, which is slow to answer when it is busy."""
HEALTH_CHECK = "/usr/local/libexec/lockstep/node-check"
"""Slurm's HealthCheckProgram, installed by the role node_check."""
HEALTH_CHECK_S = 20.0
OURS = "lockstep:"
"""Prefix of the node check's drain reasons. Nodes drained for other reasons are left alone."""


def read_slurm_node(request: Request, commands: Commands) -> Readings:
    """The controller's view of the requested nodes."""
    commands = Commands(CONTROLLER_S)

    def read(name: str) -> dict[str, Any]:
        found = node_shown(name, commands)
        started = found.get("SlurmdStartTime", "")
        return {
            "state": found["state"],
            "reason": found["reason"],
            "slurmd_started": started,
            "registered_at": moment(started),
        }

    return {"slurm.node": each(request["slurm_nodes"], read)}


def moment(text: str) -> float | None:
    """Return the Unix time for a local time in Slurm's format; None for any other text."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def read_slurm_jobs(request: Request, commands: Commands) -> Readings:
    """The jobs that are running or still completing on each requested node."""
    commands = Commands(CONTROLLER_S)
    return {
        "slurm.jobs": each(
            request["slurm_nodes"],
            lambda name: commands.run("squeue", "-a", "-h", "-w", name, "-o", "%i").split(),
        )
    }


def read_health(request: Request, commands: Commands) -> Readings:
    """Whether this node passes the full node check (``node-check status``)."""
    status, out, _ = Commands(HEALTH_CHECK_S).outcome(HEALTH_CHECK, "status")
    return {"slurm.health": status == 0 and out.strip() == "ok"}


def read_clusters(request: Request, commands: Commands) -> Readings:
    """The clusters that are registered in slurmdbd."""
    listed = commands.run("sacctmgr", "-nP", "list", "cluster", "format=cluster")
    return {"slurm.clusters": sorted(line for line in listed.splitlines() if line)}


SLURMDBD_CONF = "/etc/slurm/slurmdbd.conf"


def read_database_login(request: Request, commands: Commands) -> Readings:
    """Whether slurmdbd's account and password are valid for its database.

    The password from slurmdbd.conf is passed to mariadb on standard input. If the login is
    refused, the reading is False, not unread.
    """
    passwords = re.findall(r"^StoragePass=(.*)$", text_of(SLURMDBD_CONF, ""), re.MULTILINE)
    if not passwords or not installed("mariadb"):
        return {"slurm.database_login": False}
    status, out, _ = commands.outcome(
        *("mariadb", "--defaults-extra-file=/dev/stdin", "-N", "-e", "select 1", "slurm_acct_db"),
        text=f"[client]\nuser=slurm\npassword={passwords[-1]}\n",
    )
    return {"slurm.database_login": status == 0 and out.strip() == "1"}


def read_steps(request: Request, commands: Commands) -> Readings:
    """Number of job steps on this node; a step's process has a name like ``slurmstepd: [3.0]``.

    "slurmstepd infinity" is not a step; it only keeps a cgroup alive.
    """
    return {"slurm.steps": sum(line.startswith("slurmstepd: [") for _, line in command_lines())}


def read_munge_key(request: Request, commands: Commands) -> Readings:
    """Hash of the munge key; "absent" if there is none. The key itself never leaves the node."""
    found = read_file("/etc/munge/munge.key")
    return {"munge.key_sha256": found.get("sha256", found.get("other", "absent"))}


def read_munge_credential(request: Request, commands: Commands) -> Readings:
    """A munge credential for the user nobody; it grants no rights to anyone who sees the record."""
    if os.geteuid() != 0:
        raise Unread("munge: root is required to create a credential for another user")
    return {"munge.credential": commands.run("munge", "-s", "lockstep", user="nobody").strip()}


def read_munge_decoded(request: Request, commands: Commands) -> Readings:
    """Result of decoding another node's credential: "Success", or munge's error message."""
    credential = request.get("credential")
    if not credential:
        raise Unread("the request contains no credential from another node")
    status, out, err = commands.outcome(
        "unmunge", "--keys=STATUS", "--output=/dev/null", text=credential
    )
    match = re.search(r"^STATUS:\s*(.*?)\s*(?:\(\d+\))?$", out, re.MULTILINE)
    if match:
        return {"munge.decoded": match.group(1)}
    said = (err.strip() or out.strip() or f"exit {status}").splitlines()[0]
    return {"munge.decoded": said.replace("unmunge: Error: ", "")}

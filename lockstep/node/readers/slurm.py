"""Slurm: configuration, plugins, and the controller's view of the nodes."""

from __future__ import annotations

import re
import struct

from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.files import read_file
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import LARGEST_FILE, exists, rooted

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

"""What a description of this node needs and no check reads: topology, networks, Slurm, time."""

from __future__ import annotations

import ipaddress
import json
import os
import pwd
from typing import Any

from lockstep.node.fingerprint.slurm_conf import Keys, SlurmConf, read_slurm_conf
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.slurm import SLURM_CONF
from lockstep.node.readers.take import Row
from lockstep.node.readers.tree import exists, found_by, line_of, text_of

CPU = "/sys/devices/system/cpu"
PCI = "/sys/bus/pci/devices"
NVIDIA, BRIDGE = "0x10de", "0x0680"
"""PCI vendor of NVIDIA, and the class of its NVSwitches (a bridge of another kind)."""
CONTAINER = "/run/systemd/container"
"""File with the name of the container manager; only containers have it (systemd.io,
CONTAINER_INTERFACE)."""
MOST_PARENTS = 16
OF_A_NODE = ("memspeclimit", "cpuspeclist", "nodehostname")
OF_A_PARTITION = ("nodes", "default", "maxtime")
SETTINGS = (
    *("clustername", "accountingstoragehost", "healthcheckinterval", "healthcheckprogram"),
    "prolog",
    "epilog",
)
"""Keys of slurm.conf that a description has fields for. No other value leaves the node."""


def read_processors(request: Request, commands: Commands) -> Readings:
    """Sockets, cores and threads of the CPUs that are online, and how Linux numbers them."""
    sockets, cores = set(), set()
    for number in sorted(cpus(line_of(f"{CPU}/online"))):
        folder = f"{CPU}/cpu{number}/topology"
        sockets.add(line_of(f"{folder}/physical_package_id"))
        cores.add(tuple(sorted(cpus(line_of(f"{folder}/thread_siblings_list")))))
    if len(cores) % len(sockets) or len({len(threads) for threads in cores}) != 1:
        raise Unread(f"{CPU}: the sockets or the cores differ from each other, or some are offline")
    first = min(cores)
    return {
        "describe.processors": {
            "architecture": os.uname().machine,
            "sockets": len(sockets),
            "cores_per_socket": len(cores) // len(sockets),
            "threads_per_core": len(first),
            "adjacent": len(first) > 1 and first[1] == first[0] + 1,
        }
    }


def read_addresses(request: Request, commands: Commands) -> Readings:
    """Addresses of global scope with the length of their prefix, for each interface.

    Temporary addresses (RFC 8981) change, so they describe nothing.
    """
    found: dict[str, list[str]] = {}
    for row in json.loads(commands.run("ip", "-j", "address")):
        lasting = [
            f"{one['local']}/{one['prefixlen']}"
            for one in row["addr_info"]
            if one.get("scope") == "global" and not one.get("temporary")
        ]
        if lasting and row["ifname"] != "lo":
            found[row["ifname"]] = sorted(lasting)
    return {"describe.addresses": found}


def read_reached_at(request: Request, commands: Commands) -> Readings:
    """The address of this node that the ssh connection of this program uses.

    sudo removes SSH_CONNECTION (ssh(1)), so it is taken from a parent that still has it.
    """
    process = "self"
    for _ in range(MOST_PARENTS):
        for word in text_of(f"/proc/{process}/environ").split("\0"):
            name, _, value = word.partition("=")
            if name == "SSH_CONNECTION" and len(value.split()) == 4:
                address = ipaddress.ip_address(value.split()[2].partition("%")[0])
                mapped = getattr(address, "ipv4_mapped", None)
                return {"describe.reached_at": str(mapped or address)}
        process = text_of(f"/proc/{process}/stat").rpartition(")")[2].split()[1]
        if process == "0":
            break
    raise Unread("no parent of this program has SSH_CONNECTION in its environment")


def read_login(request: Request, commands: Commands) -> Readings:
    """The account that logged in, before sudo (sudo(8), SUDO_USER)."""
    return {"describe.login": os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name}


CHRONY = (
    *("/etc/chrony/chrony.conf", "/etc/chrony/conf.d/*.conf", "/etc/chrony/sources.d/*.sources"),
    *("/etc/chrony.conf", "/etc/chrony.d/*.conf"),
)
"""Configuration of chronyd in Debian's packages, and in those of the RHEL family and SUSE."""


def read_time_servers(request: Request, commands: Commands) -> Readings:
    """The NTP servers as they are configured, for chronyd or systemd-timesyncd."""
    files = [path for pattern in CHRONY for path in found_by(pattern)]
    if files:
        rows = [line.split() for path in files for line in text_of(path).splitlines()]
        # chrony.conf(5): directives in any case; a pool is a name with several servers.
        servers = [row[1] for row in rows if len(row) > 1 and row[0].lower() in ("server", "pool")]
        return {"describe.time_servers": list(dict.fromkeys(servers))}
    names = ("SystemNTPServers", "LinkNTPServers", "FallbackNTPServers")
    shown = commands.run(
        "timedatectl", "show-timesync", *(f"--property={name}" for name in names)
    ).splitlines()
    values = dict(line.partition("=")[::2] for line in shown)
    used = next((values[name] for name in names if values.get(name)), "")
    return {"describe.time_servers": used.split()}


def read_slurm(request: Request, commands: Commands) -> Readings:
    """What slurm.conf says of the cluster, its nodes and its partitions; {} without slurm.conf."""
    path = next(filter(exists, SLURM_CONF), "")
    return {"describe.slurm": _slurm(read_slurm_conf(path)) if path else {}}


def _slurm(conf: SlurmConf) -> dict[str, Any]:
    older = conf.lists.get("controlmachine", [])
    hosts = [one.partition("(")[0] for one in conf.lists.get("slurmctldhost", older)]
    return {
        "settings": _only(conf.settings, SETTINGS),
        "controllers": hosts,
        "nodes": [{"names": names, **_only(keys, OF_A_NODE)} for names, keys in conf.node_lines],
        "partitions": {
            name: {**_only(keys, OF_A_PARTITION), "nodes": _members(conf, keys)}
            for name, keys in conf.partitions.items()
        },
    }


def _members(conf: SlurmConf, keys: Keys) -> str:
    """Return the nodes of a partition as a hostlist, with the sets of nodes written out."""
    words = keys.get("nodes", "")
    if words.upper() == "ALL":
        return ",".join(names for names, _ in conf.node_lines)
    for name, one in conf.sets.items():
        if one.get("nodes"):
            words = ",".join(one["nodes"] if word == name else word for word in _split(words))
    return words


def _split(names: str) -> list[str]:
    """Return the parts of a hostlist; a comma in brackets does not end one."""
    found, depth = [""], 0
    for letter in names:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def _only(keys: Keys, wanted: tuple[str, ...]) -> Keys:
    return {name: keys[name] for name in wanted if name in keys}


def read_machine(request: Request, commands: Commands) -> Readings:
    """Whether this is a container, and how many NVSwitches PCI has."""
    switches = [
        path
        for path in found_by(f"{PCI}/*")
        if line_of(f"{path}/vendor", "") == NVIDIA
        and line_of(f"{path}/class", "").startswith(BRIDGE)
    ]
    return {"describe.machine": {"container": line_of(CONTAINER, ""), "nvswitches": len(switches)}}


READERS: tuple[Row, ...] = (
    (read_processors, ("describe.processors",)),
    (read_addresses, ("describe.addresses",)),
    (read_reached_at, ("describe.reached_at",)),
    (read_login, ("describe.login",)),
    (read_time_servers, ("describe.time_servers",)),
    (read_slurm, ("describe.slurm",)),
    (read_machine, ("describe.machine",)),
)
OF_A_CHECK = frozenset(
    {
        *("os.id", "os.version_id", "os.hostname", "os.time_zone", "os.locale", "hosts.entries"),
        *("kernel.cmdline", "kernel.page_size", "kernel.files", "kernel.max_cstate"),
        *("numa.cpus", "memory_mib", "hugepages", "cpu.nohz_full", "sysctl.running"),
        *("gpu.name", "gpu.compute_mode", "gpu.ecc.pending", "gpu.persistence"),
        *("gpu.power.default_w", "gpu.power.requested_w", "gpu.mig.pending", "gpu.mig.devices"),
        *("gpu.fabric.state", "gpu.pci.numa_node", "driver.module"),
        *("rdma.names", "rdma.netdev", "rdma.link_layer", "net.mtu", "packages", "units"),
    }
)
"""Readings of a check that a description needs as well."""

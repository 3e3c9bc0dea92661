"""What a lab replaces in a description: every path, the lab's value, and the reason.

Everything else of a description reaches the lab's nodes unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.fingerprint_exceptions import EXCEPTIONS
from lab.state import Hardware, LabState, Node
from lockstep.report import fold
from lockstep.spec import names

Keys = tuple[str | int, ...]
LEFT_OUT = object()
"""Stands for a field that the lab's description does not have."""
NAMESPACED = re.compile(r"net\.(ipv4|ipv6)\..+|net\.core\.somaxconn")
"""Sysctls that each network namespace has (Linux, net/core/sysctl_net_core.c: netns_core_table)."""


@dataclass(frozen=True)
class Here:
    """One field of a description, and the lab."""

    lab: LabState
    description: Mapping[str, Any]
    keys: Keys
    """The path of the field."""
    found: Any
    """Its value; LEFT_OUT if the description does not have it."""

    @property
    def hardware(self) -> Hardware:
        """Processors and memory of the lab's nodes of a hardware class."""
        return self.lab.hardware[role_of(self.description, str(self.keys[1]))]

    @property
    def nodes(self) -> list[Node]:
        """The lab's nodes of a node group, in order."""
        return nodes_of(self.lab, self.description["nodes"][self.keys[1]])


@dataclass(frozen=True)
class Replacement:
    """One row of the table."""

    path: Keys
    """Keys from the top of the description; "*" stands for every key or index."""
    value: Callable[[Here], object]
    """The lab's value, or LEFT_OUT."""
    reason: str
    adds: bool = False
    """Whether a description gets the field that does not have it."""


def role_of(description: Mapping[str, Any], hardware: str) -> Any:
    """Return the role of the nodes of a hardware class; "worker" if no node has it."""
    roles = (one["role"] for one in description["nodes"] if one["hardware"] == hardware)
    return next(roles, "worker")


def nodes_of(lab: LabState, group: Mapping[str, Any]) -> list[Node]:
    """Return the lab's nodes of a node group of a description, in order."""
    wanted = set(names.expand(group["name"]))
    return [node for node in lab.nodes if node.name in wanted]


def left_out(here: Here) -> object:
    """Leave the field out."""
    return LEFT_OUT


def _of_the_lab(field: str) -> Callable[[Here], object]:
    return lambda here: getattr(here.lab, field)


def _folder(name: str) -> Callable[[Here], object]:
    return lambda here: str(Path(here.lab.ssh_key).parent / name)


def _of_the_host(field: str) -> Callable[[Here], object]:
    return lambda here: getattr(here.hardware, field)


def _housekeeping(here: Here) -> object:
    """All threads of the first core, if jobs have a second one."""
    given = here.hardware
    cores = given.sockets * given.cores_per_socket
    threads = range(given.threads_per_core)
    return ",".join(str(cores * thread) for thread in threads) if cores > 1 else LEFT_OUT


def _numa_of_gpus(here: Here) -> object:
    same = len(here.found) == here.hardware.numa_nodes
    return here.found if same else LEFT_OUT


def _system_memory(here: Here) -> object:
    """The same share of the smaller memory."""
    classes = [one["hardware"] for one in here.description["nodes"] if one["role"] == "worker"]
    given = min(int(here.description["hardware"][name]["memory_mib"]) for name in classes)
    return here.found * here.lab.hardware["worker"].memory_mib // given


def _sysctl(here: Here) -> object:
    return here.found if NAMESPACED.fullmatch(str(here.keys[-1])) else LEFT_OUT


def _workers_of_partition(here: Here) -> object:
    there = {node.name for node in here.lab.nodes}
    return fold(name for name in names.expand(here.found) if name in there)


def _served(field: str) -> Callable[[Here], object]:
    def value(here: Here) -> object:
        repository = here.description["software"]["repositories"][here.keys[2]]["name"]
        served = here.lab.repositories[repository]
        return served.uri if field == "uri" else Path(served.key).read_text(encoding="ascii")

    return value


def _exceptions(here: Here) -> object:
    own = [] if here.found is LEFT_OUT else list(here.found)
    return [*own, *(row._asdict() for row in EXCEPTIONS)]


def _checks(here: Here) -> object:
    return {} if here.found is LEFT_OUT else here.found


def _locked(here: Here) -> object:
    """The archive's version of the same upstream version: it has only the newest revision."""
    archive = json.loads(Path(here.lab.archive_versions).read_text(encoding="utf-8"))
    there = str(archive.get(here.keys[-1], ""))
    same = there.rpartition("-")[0] == str(here.found).rpartition("-")[0]
    return there if there and same else here.found


_ONE_KERNEL = "containers share the host's kernel: its settings are the host's"
_NO_DEVICE = "the lab's interfaces are virtual: they have no device behind them"
_NO_MODULE = "containers load no kernel modules; the driver is simulated"
_ADDRESSES = "addresses of the lab"
_HOST = "processors and memory are the host's"
_REPOSITORY = "a simulated repository takes the place of each"

_CLASS: Keys = ("hardware", "*")
_NICS: Keys = (*_CLASS, "nics")
_STACK: Keys = ("software", "nvidia")
_REPOSITORIES: Keys = ("software", "repositories", "*")

REPLACEMENTS: tuple[Replacement, ...] = (
    Replacement(("secrets_dir",), _folder("secrets"), "goes when the lab is removed", adds=True),
    Replacement(("records_dir",), _folder("records"), "goes when the lab is removed", adds=True),
    Replacement(
        ("access",),
        lambda here: {
            "user": here.lab.ssh_user,
            "key": here.lab.ssh_key,
            "known_hosts": here.lab.known_hosts,
        },
        "account, key and host keys of the lab's machines",
        adds=True,
    ),
    Replacement(("networks", "management", "prefix"), _of_the_lab("prefix"), _ADDRESSES),
    Replacement(
        ("networks", "management", "manager"),
        left_out,
        "Lockstep keeps a management address on physical interfaces only",
    ),
    Replacement(("networks", "management", "gateway"), left_out, "the lab has no router"),
    Replacement(("networks", "management", "name_servers"), left_out, "the lab has no name server"),
    Replacement(("networks", "fabric", "prefix"), _of_the_lab("fabric_prefix"), _ADDRESSES),
    Replacement(("networks", "fabric", "gateway"), left_out, "the lab has no router"),
    *(
        Replacement(path, left_out, "the lab's networks have one family")
        for network in ("management", "fabric")
        for path in (("networks", network, "second_family"), ("nodes", "*", f"{network}_second"))
    ),
    *(
        Replacement((*_CLASS, field), _of_the_host(field), _HOST, adds=True)
        for field in ("sockets", "cores_per_socket", "threads_per_core", "numa_nodes", "memory_mib")
    ),
    Replacement((*_CLASS, "cpu_numbering"), left_out, _HOST),
    Replacement(
        (*_CLASS, "housekeeping_cpus"), _housekeeping, "the first core of the host's processors"
    ),
    Replacement((*_CLASS, "gpu", "numa"), _numa_of_gpus, "the host has other NUMA nodes"),
    Replacement(
        (*_CLASS, "gpu", "in_sysfs"),
        lambda here: False,
        "simulated GPUs are not in /sys",
        adds=True,
    ),
    *(
        Replacement((*_NICS, field), left_out, _NO_DEVICE)
        for field in ("speed_gbit", "rdma", "rdma_devices", "gpudirect", "ipoib_mode")
    ),
    *(
        Replacement(
            (*_CLASS, "firmware", field), left_out, "the host's BMC and NICs are not the nodes'"
        )
        for field in ("rdma", "bmc")
    ),
    *(
        Replacement((*_CLASS, field), left_out, _ONE_KERNEL)
        for field in ("hugepages", "kernel", "kernel_args")
    ),
    Replacement((*_CLASS, "boot_loader"), lambda here: "none", _ONE_KERNEL, adds=True),
    Replacement(
        (*_CLASS, "clock"), lambda here: "host", "the host sets the clock of a container", adds=True
    ),
    Replacement(
        (*_CLASS, "cgroup"),
        lambda here: "devices" if here.lab.os == "debian_13" else "none",
        "a container's cgroup has no controllers if the host mounts cgroup v1",
        adds=True,
    ),
    Replacement(
        ("nodes", "*", "name"),
        lambda here: fold(node.name for node in here.nodes),
        "all heads, and as many workers as the lab has",
    ),
    Replacement(("nodes", "*", "management"), lambda here: here.nodes[0].address, _ADDRESSES),
    Replacement(("nodes", "*", "fabric"), lambda here: here.nodes[0].fabric_address, _ADDRESSES),
    Replacement(("os", "address_family"), lambda here: "ipv6", "the lab has only IPv6"),
    Replacement(("os", "sysctl", "*"), _sysctl, _ONE_KERNEL),
    Replacement(("time", "servers"), left_out, "the lab reaches no time server"),
    Replacement(
        ("scheduler", "system_memory_mib"), _system_memory, "the same share of the host's memory"
    ),
    Replacement(
        ("scheduler", "partitions", "*", "nodes"),
        _workers_of_partition,
        "as many workers as the lab has",
    ),
    Replacement(("checks",), _checks, "the lab adds exceptions", adds=True),
    Replacement(
        ("checks", "exceptions"),
        _exceptions,
        "differences between containers of one host (lab/fingerprint_exceptions.py)",
        adds=True,
    ),
    Replacement(
        ("software", "versions", "*"),
        _locked,
        "an archive has one revision of a package: the same upstream version of Debian's today",
    ),
    Replacement((*_REPOSITORIES, "uri"), _served("uri"), _REPOSITORY),
    Replacement((*_REPOSITORIES, "key"), _served("key"), _REPOSITORY),
    Replacement((*_REPOSITORIES, "suite"), lambda here: "/", _REPOSITORY),
    Replacement((*_REPOSITORIES, "components"), left_out, _REPOSITORY),
    *(
        Replacement((*_STACK, field), left_out, _NO_MODULE)
        for field in ("modules", "module_options", "gdrcopy", "nvidia_fs", "cufile")
    ),
    Replacement(("software", "rdma"), left_out, "the lab's nodes have no RDMA devices"),
    Replacement(("software", "module_signing"), left_out, _NO_MODULE),
)
"""In the order in which they are applied."""


def replaced(
    description: Mapping[str, Any], lab: LabState, rows: Iterable[Replacement] = REPLACEMENTS
) -> dict[str, Any]:
    """Return a description as the lab takes it; the given one stays as it is.

    Args:
        description: a valid description.
        lab: the lab, with its nodes and repositories.
        rows: what to replace.
    """
    result: dict[str, Any] = _copied(description)
    for row in rows:
        for keys in list(_places(result, row.path, row.adds)):
            holder = _at(result, keys[:-1])
            known = isinstance(holder, list) or keys[-1] in holder
            here = Here(lab, description, keys, holder[keys[-1]] if known else LEFT_OUT)
            value = row.value(here)
            if value is not LEFT_OUT:
                holder[keys[-1]] = value
            elif known:
                del holder[keys[-1]]
    return result


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(one) for one in value]
    return value


def _at(value: Any, keys: Keys) -> Any:
    for key in keys:
        value = value[key]
    return value


def _places(value: Any, path: Keys, adds: bool, before: Keys = ()) -> Iterator[Keys]:
    """Yield the paths that a row has in a description."""
    key, rest = path[0], path[1:]
    found: list[str | int]
    if key == "*":
        size = len(value) if isinstance(value, list) else 0
        found = list(value) if isinstance(value, dict) else list(range(size))
    else:
        there = isinstance(value, dict) and (key in value or (adds and not rest))
        found = [key] if there else []
    for one in found:
        if rest:
            yield from _places(value[one], rest, adds, (*before, one))
        else:
            yield (*before, one)

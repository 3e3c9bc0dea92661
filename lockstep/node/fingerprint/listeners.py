"""Sockets on which a node listens, and the units that opened them (ss(8))."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.node.fingerprint.daemons import WORK, account
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import text_of

KINDS = {"tcp": "tcp", "udp": "udp", "u_str": "unix", "u_seq": "unix",
         "v_str": "vsock", "p_raw": "packet", "p_dgr": "packet", "???": "raw", "mptcp": "mptcp",
         "sctp": "sctp", "raw": "raw", "icmp6": "raw"}  # fmt: skip
EPHEMERAL = re.compile(
    r"containerd\.service|slurmstepd\.scope|crio\.service|kubelet\.service|kernel"
)
"""Who listens on a port that the kernel chose: containerd's streams, NFS locks, Slurm's steps."""
REMOTE_CALLS = re.compile(r"(rpc-statd|rpc-statd-notify|nfs-mountd|rpcbind|ypbind)\.service")
"""Services that take any free port, also a privileged one, and register it (rpcbind(8))."""
FIXED = frozenset({"111", "2049", "20048"})
"""Ports of these services that are always the same."""
LOGIN = "login of "
PERSONAL = re.compile(
    r"@?/(tmp|run/user|var/tmp|home|root|dev/shm)/.*|@[0-9a-f]{5}"
    r"|.*/containerd/s/[0-9a-f]{32,}|.*/docker/libnetwork/[0-9a-f]+\.sock"
    r"|.*\d+\.\d+|.*/\d{4,}(\.\w+)?|.*[0-9a-f]{12,}.*|.*\.\d{3,}"
)
"""Paths of sockets of logins, containers and jobs; their names have random parts."""
EXCEPTIONS_OF_LISTENERS = (
    Exempt("listener", r"udp .*:(68|546)", WHOLE, "It is a DHCP client, while it asks."),
    Exempt("listener", r"unix /run/systemd/(userdb/io\.systemd\.Machine|machined/.*)", WHOLE,
           "systemd-machined starts when somebody asks."),
)  # fmt: skip


def read_listeners(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield the listening sockets, without those of jobs, containers and people."""
    out = commands.run("ss", "-H", "-l", "-n", "-t", "-u", "-w", "-x", "-e", "--cgroup")
    low, high = map(int, text_of("/proc/sys/net/ipv4/ip_local_port_range", "1 0").split())
    found: dict[str, Fields] = {}
    for line in out.splitlines():
        words = line.split()
        if len(words) < 6:
            continue
        if words[0] == "u_dgr":  # whether ss lists it depends on its clients
            continue
        kind = KINDS.get(words[0], words[0])
        if kind == "unix":
            path = re.sub("^/var/run/", "/run/", words[4])
            if path != "*" and not PERSONAL.fullmatch(path):
                found[f"unix {path}"] = {"type": words[0][2:]}
            continue
        owner = _owner(line)
        if owner is None:
            continue
        address, _, port = words[4].rpartition(":")
        if port.isdigit() and low <= int(port) <= high:
            if kind == "udp":  # a client that waits for its answer
                continue
            if owner.startswith(LOGIN):  # srun(1) and others that talk to a person
                continue
            if EPHEMERAL.fullmatch(owner):
                port = f"chosen by the kernel for {owner}"
        if REMOTE_CALLS.fullmatch(owner) and port not in FIXED:
            port = f"chosen by {owner}"
        if owner.startswith(LOGIN) and address in ("127.0.0.1", "[::1]"):
            continue  # ssh(1) forwards X11 and ports there
        fields = {"unit": owner}
        user = re.search(r" uid:(\d+)", line)
        fields["user"] = account(user.group(1)) if user else "root"
        name = f"{kind} {address}:{port}"
        if name in found:
            fields["unit"] = " ".join(sorted({owner, *found[name]["unit"].split()}))
        found[name] = fields
    for name, fields in found.items():
        yield Entry(name, fields)


def _owner(line: str) -> str | None:
    """Return the unit of a socket; None for one of a job, a container or a person.

    Sockets know their control group since Linux 5.8; before, all belong to "unknown".
    """
    if " ino:0 " in line or " ino:" not in line:
        return "kernel"
    group = re.search(r" cgroup:(\S+)", line)
    if group is None:
        return "unknown"
    parts = [part for part in group.group(1).split("/") if part]
    slurm = any(part.endswith("slurmstepd.scope") for part in parts)
    if slurm and any(part.startswith("job_") for part in parts):
        return None
    if not slurm and any(WORK.fullmatch(part) for part in parts):
        return None
    user = next((part for part in parts if re.fullmatch(r"user-\d+\.slice", part)), "")
    if user:
        number = int(user[len("user-") : -len(".slice")])
        return None if number >= 1000 else f"{LOGIN}{account(str(number))}"
    units = [part for part in parts if part.endswith((".service", ".scope", ".socket"))]
    # Slurm puts the node's name before this one.
    return "slurmstepd.scope" if slurm else units[0] if units else "/" + "/".join(parts)


LISTENERS = (Domain("listener", read_listeners),)

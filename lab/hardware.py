"""Processors and memory of the nodes: the host's, or those of a QEMU machine."""

from pathlib import Path

from lab.commands import run
from lab.disk_image import ROLES
from lab.state import Hardware, LabState, NodeRole

GIVEN_MIB: dict[NodeRole, int] = {"head": 2048, "worker": 4096}
"""Memory of a QEMU machine, divided equally between its NUMA nodes."""
SOCKETS = 2
CORES_PER_SOCKET = 2
THREADS_PER_CORE = 1
NUMA_NODES = 2


def of(lab: LabState) -> dict[NodeRole, Hardware]:
    """Return the hardware of a lab's nodes."""
    kernels = {role: lab.kernel_of(role) for role in ROLES}
    made = {"own": own_hardware, "shared": shared_hardware}
    found = {kernel: made[kernel]() for kernel in {*kernels.values()}}
    return {role: found[kernel][role] for role, kernel in kernels.items()}


def shared_hardware() -> dict[NodeRole, Hardware]:
    """Return the hardware of nodes that share the host's kernel: the whole host."""
    host = _read_host()
    return {"head": host, "worker": host}


def own_hardware() -> dict[NodeRole, Hardware]:
    """Return the hardware of QEMU nodes."""
    return {
        role: Hardware(
            sockets=SOCKETS,
            cores_per_socket=CORES_PER_SOCKET,
            threads_per_core=THREADS_PER_CORE,
            numa_nodes=NUMA_NODES,
            memory_mib=_left_by_kernel(given),
        )
        for role, given in GIVEN_MIB.items()
    }


def _left_by_kernel(given_mib: int) -> int:
    """Return a lower bound of MemTotal.

    The kernel reserves memory for its code and data, the firmware and 64 bytes per 4096-byte page:
    72 of 2048 MiB and 169 of 4096 MiB with Debian 13's kernel.
    """
    return given_mib - given_mib // 64 - 160


def _read_host() -> Hardware:
    """Count sockets, cores, threads and NUMA nodes from lscpu, memory from /proc/meminfo.

    Raises:
        LabError: lscpu failed.
    """
    listed = run(["lscpu", "--parse=CPU,CORE,SOCKET,NODE"], what="reading the host's processors")
    rows = [line.split(",") for line in listed.splitlines() if not line.startswith("#")]
    sockets = {socket for _, _, socket, _ in rows}
    cores = {(socket, core) for _, core, socket, _ in rows}
    memory = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    return Hardware(
        sockets=len(sockets),
        cores_per_socket=len(cores) // len(sockets),
        threads_per_core=len(rows) // len(cores),
        # Without NUMA support the column is empty: count one node.
        numa_nodes=len({numa for _, _, _, numa in rows}),
        memory_mib=int(memory.split()[1]) // 1024,
    )

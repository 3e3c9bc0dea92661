"""The host's processors and memory, which all nodes share."""

from pathlib import Path

from lab.commands import run
from lab.state import Hardware


def read_hardware() -> Hardware:
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
        # A kernel without NUMA leaves the column empty: one node.
        numa_nodes=len({numa for _, _, _, numa in rows}),
        memory_mib=int(memory.split()[1]) // 1024,
    )

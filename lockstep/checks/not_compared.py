"""What is deliberately not compared, each with its reason. Names of readings, as records have them.

``files.*.sha256`` names a place inside a reading; a list's entry is a place as well.
"""

from __future__ import annotations

from lockstep.checks.catalogue import all_rules
from lockstep.checks.rule import Kind
from lockstep.checks.rules.boot import OWN

NOT_JUDGED = {
    "hugepages.free": "falls while jobs run: for the record only",
    "rdma.type": "names the adapter's model to a person; rdma.board tells more",
}
"""No rule judges them."""

NOT_ALONE = {
    "device.files": "numbers are the node's own; containers are held against them",
    "driver.module_next.kernel": "says which kernel the module on disk is of",
    "gpu.lost": "tells why gpu.count is short",
    "gpu.power.requested_w": "tells why gpu.power_limit differs",
    "gpu.pstate": "tells whether a low clock is an idle one",
    "gpu.slowdown.power_cap_us": "grows on every GPU that works at its limit",
    "gpu.utilization": "tells whether a GPU is at work",
    "limits.memlock.*": "jobs are children of slurmd; it alone is judged",
    "munge.credential": "other nodes decode it; munge.round_trip judges that",
    "os.boot_id": "says whether an earlier record is of the same boot",
    "rdma.phys_state": "tells why a port is not active",
    "sysctl.persisted.*": "our own file is file.content's; another file that wins is judged",
    "units.*.started_at": "says when a unit was last started",
    "units.*.sub": "tells how a unit that is not active ended",
}
"""They are read for another reading's sake: by themselves they are neither right nor wrong."""

CHANGES_BY_ITSELF = {
    "os.boot_id": "every boot has another",
    "munge.credential": "made anew for each reading",
    "time.offset_s": "wanders; time.offset judges it",
    "units.*.started_at": "says when a unit was last started",
    "driver.xid": "a log; gpu.xid judges it",
    "driver.sxid": "a log; gpu.sxid judges it",
    "gpu.answered_in_s": "never the same twice; gpu.answer_time judges it",
    "gpu.clocks.memory_mhz": "follows the load; gpu.clock_memory judges it",
    "gpu.pcie.generation": "follows the load; gpu.pcie_generation_busy judges it",
    "gpu.slowdown.active": "follows the load; gpu.slowdown judges it",
    "gpu.slowdown.power_cap_us": "grows on every GPU that works at its limit",
    "gpu.temperature.margin_c": "follows the load; gpu.temperature judges it",
    "gpu.clocks.sm_mhz": "follows the load; gpu.clock_idle judges it",
    "gpu.memory.used_mib": "follows the load",
    "gpu.pstate": "follows the load",
    "gpu.utilization": "follows the load",
    "hugepages.free": "falls while jobs run",
    "services.cpu_share": "follows the load; service.cpu judges it",
    "storage.inodes": "files come and go; storage.inodes judges it",
    "storage.space": "files come and go; storage.space judges it",
    "slurm.nodes.*.state": "follows the jobs; slurm.state judges it",
    "slurm.nodes.*.reason": "comes with the state",
}
"""The same node, read twice, may give two values with nothing changed by anybody."""

DIFFERS_BETWEEN_NODES = {
    "os.hostname": "the node's own name",
    "os.host_keys": "the node's own",
    "os.machine_id": "the node's own",
    "net.addresses": "the node's own",
    "net.mac": "the interface's own",
    "collectors": "listen on the node's own address; collector.settings judges them",
    "gpu.uuid": "the GPU's own",
    "gpu.serial": "the GPU's own",
    "driver.boards": "names the GPUs by their UUIDs",
    "rdma.guid": "the adapter's own",
    "memory_mib": "firmware keeps some MiB more or less; memory.at_least judges it",
    "munge.credential": "the controller's own",
    "munge.decoded": "the controller decodes none of its own",
    "slurm.nodes": "read on the controller only",
    **{f"kernel.cmdline.{word}=*": "names the node's own disk or address" for word in OWN},
}
"""Two equal nodes have different ones; on one node a change is news."""


def counters() -> dict[str, str]:
    """Return the readings that only grow: rules of kind growth hold them against earlier ones."""
    return {rule.reading: "a counter" for rule in all_rules() if rule.kind is Kind.GROWTH}


def at_two_times() -> dict[str, str]:
    """Return what is not compared between two records of one node, with the reasons."""
    return CHANGES_BY_ITSELF | counters()


def between_nodes() -> dict[str, str]:
    """Return what is not compared between two nodes, with the reasons."""
    return at_two_times() | DIFFERS_BETWEEN_NODES

"""Readings that are not compared on purpose, each with its reason.

Names are those of records. ``files.*.sha256`` is a place inside a reading; so is a list's entry.
"""

from __future__ import annotations

from lockstep.checks.catalogue import all_rules
from lockstep.checks.rule import Kind
from lockstep.checks.rules.boot import OWN

NOT_JUDGED = {
    "time.own_clock": "the reference follows itself; time.synchronised judges the others",
    "hugepages.free": "falls while jobs run: for the record only",
    "cpuset.groups": "the lists behind cpuset.services, which is judged",
    "hugepages.tried": "roles ask for it: a kernel is asked once for huge pages",
    "os.groups": "roles ask for it; a check names no group",
    "files.changed": "roles ask for it: which files a unit has read",
    "packages.interrupted": "dpkg may be at work; packages.broken judges what it left",
    "os.locales": "roles make the planned one; os.locale judges the choice",
    "systemd.started": "roles ask for it: which files systemd has read",
    "units.started": "roles ask for it: which files a unit has read",
    "rdma.type": "the adapter's model, for people; rdma.board is more exact",
}
"""No rule judges them."""

NOT_ALONE = {
    "device.files": "numbers are the node's own; containers are compared with them",
    "driver.module_next.kernel": "the kernel of the module on disk",
    "gpu.lost": "explains why gpu.count is too low",
    "gpu.power.requested_w": "explains why gpu.power_limit differs",
    "gpu.pstate": "shows whether a low clock is an idle clock",
    "gpu.slowdown.power_cap_us": "grows on every GPU at its power limit",
    "gpu.utilization": "shows whether a GPU is busy",
    "limits.memlock.*": "jobs are children of slurmd; it alone is judged",
    "manifest.packages.*": "planned packages are in it; package.present judges those",
    "munge.credential": "other nodes decode it; munge.round_trip judges that",
    "os.boot_id": "shows whether an earlier record is of the same boot",
    "rdma.phys_state": "explains why a port is not active",
    "sysctl.persisted.*": "file.content judges Lockstep's file; another file that wins is judged",
    "units.*.started_at": "when a unit was last started",
    "units.*.sub": "explains why a unit is not active",
}
"""They help to judge other readings: by themselves they are neither right nor wrong."""

CHANGES_BY_ITSELF = {
    "cpuset.groups": "services come and go",
    "files.changed": "roles ask for it, checks do not",
    "packages.interrupted": "dpkg may be at work",
    "systemd.started": "every boot has another",
    "units.started": "says when a unit was last started",
    "os.boot_id": "new for each boot",
    "munge.credential": "new for each reading",
    "time.offset_s": "changes all the time; time.offset judges it",
    "units.*.started_at": "when a unit was last started",
    "driver.xid": "a log; gpu.xid judges it",
    "driver.sxid": "a log; gpu.sxid judges it",
    "gpu.answered_in_s": "varies; gpu.answer_time judges it",
    "gpu.clocks.memory_mhz": "follows the load; gpu.clock_memory judges it",
    "gpu.pcie.generation": "follows the load; gpu.pcie_generation_busy judges it",
    "gpu.slowdown.active": "follows the load; gpu.slowdown judges it",
    "gpu.slowdown.power_cap_us": "grows on every GPU at its power limit",
    "gpu.temperature.margin_c": "follows the load; gpu.temperature judges it",
    "gpu.clocks.sm_mhz": "follows the load; gpu.clock_idle judges it",
    "gpu.memory.used_mib": "follows the load",
    "gpu.pstate": "follows the load",
    "gpu.utilization": "follows the load",
    "time.own_clock": "the reference follows itself; time.synchronised judges the others",
    "hugepages.free": "falls while jobs run",
    "services.cpu_share": "follows the load; service.cpu judges it",
    "storage.inodes": "files come and go; storage.inodes judges it",
    "storage.space": "files come and go; storage.space judges it",
    "slurm.nodes.*.state": "follows the jobs; slurm.state judges it",
    "slurm.nodes.*.reason": "comes with the state",
}
"""Two readings of one node can differ although nothing was changed."""

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
    "memory_mib": "firmware reserves a varying number of MiB; memory.at_least judges it",
    "munge.credential": "the controller's own",
    "munge.decoded": "the controller does not decode its own",
    "slurm.nodes": "read on the controller only",
    **{f"kernel.cmdline.{word}=*": "names the node's own disk or address" for word in OWN},
}
"""Equal nodes have different values; on one node a change is a difference."""


def counters() -> dict[str, str]:
    """Return the readings that only grow: growth rules compare them with earlier ones."""
    return {rule.reading: "a counter" for rule in all_rules() if rule.kind is Kind.GROWTH}


def at_two_times() -> dict[str, str]:
    """Return what is not compared between two records of one node, with the reasons."""
    return CHANGES_BY_ITSELF | counters()


def between_nodes() -> dict[str, str]:
    """Return what is not compared between two nodes, with the reasons."""
    return at_two_times() | DIFFERS_BETWEEN_NODES

"""Readings that are deliberately not compared, each with the reason.

The names are the same as in records. A name may continue with a dot and a place inside the
reading: a key of a map (``files.*.sha256``) or an entry of a list (``kernel.cmdline.root=*``).
"""

from __future__ import annotations

from lockstep.checks.catalogue import all_rules
from lockstep.checks.rule import Kind
from lockstep.checks.rules.boot import OWN
from lockstep.node.readers.collect import OF_ROLES

NOT_JUDGED = {
    **dict.fromkeys(OF_ROLES, "only roles request this reading"),
    "time.own_clock": "time.synchronised skips the time server, which may follow its own clock",
    "hugepages.free": "falls while jobs run; it is only recorded",
    "cpuset.groups": "cpuset.services, which a rule checks, is derived from these CPU lists",
    "driver.kernels": "roles build modules for all kernels; rules check the running and next ones",
    "driver.loaded": "roles request it; rules check driver.module, driver.helpers and nouveau",
    "kernel.initramfs": "roles request it to see whether the initramfs has the driver's options",
    "kernel.next": "roles request it; driver.module_next and kernel.newest check it",
    "kernel.cmdline_entries": "grubby changes all entries; a rule checks the default entry",
    "hugepages.tried": "roles request it so that they ask a kernel for huge pages only once",
    "os.groups": "roles request it; no check needs groups",
    "files.changed": "roles request it to learn which files a unit has read",
    "packages.interrupted": "dpkg may be running; packages.broken checks the result",
    "slurm.jobs": "the rollout requests it; no check needs the jobs",
    "slurm.node": "the rollout requests it; rules check slurm.nodes",
    "os.init_started": "the rollout requests it to see whether a container has rebooted",
    "os.reboot_required": "packages request a reboot; other rules check what a reboot changes",
    "os.rebooted_in_vain": "reboot reasons that remained after a reboot; the rollout requests them",
    "os.locales": "roles generate the planned locale; os.locale checks which locale is set",
    "systemd.started": "roles request it to learn which files systemd has read",
    "units.started": "roles request it to learn which files a unit has read",
    "rdma.type": "the adapter's model name, for display; rdma.board is more precise",
}
"""Readings that no rule checks."""

NOT_ALONE = {
    "device.files": "the node's own device numbers, with which its containers are compared",
    "dkms.signatures.*.hash": "the kernel's configuration decides it (CONFIG_MODULE_SIG_HASH)",
    "driver.module_next.kernel": "the kernel for which the module on disk was built",
    "gpu.fabric.clique": "gpu.nvlink_domain compares it in NVLink domains",
    "gpu.fabric.cluster": "gpu.nvlink_domain compares it in NVLink domains",
    "gpu.power.min_w": "differs between VBIOS versions, and limits nothing that anybody sets",
    "gpu.power.requested_w": "explains why gpu.power_limit differs",
    "gpu.pci.slot_width": "shows how many lanes a GPU can have, which gpu.pcie_width checks",
    "gpu.pstate": "shows whether a low clock is an idle clock",
    "gpu.slowdown.power_cap_us": "grows on every GPU at its power limit",
    "gpu.utilization": "shows whether a GPU is busy",
    "limits.memlock.*": "jobs inherit the limit of slurmd, so a rule checks only slurmd",
    "manifest.packages.*": "the planned packages, which package.present checks",
    "munge.credential": "other nodes decode it, which munge.round_trip checks",
    "net.persisted.*.elsewhere": "files of other programs, before a deploy writes the first file",
    "net.persisted.*.files": "the files whose addresses net.persisted checks",
    "os.boot_id": "shows whether an earlier record is from the same boot",
    "rdma.phys_state": "explains why a port is not active",
    "sysctl.persisted.*": "file.content checks Lockstep's file; a rule checks other files",
    "units.*.started_at": "the time when a unit was last started",
    "units.*.sub": "explains why a unit is not active",
}
"""Readings that help to judge other readings; on their own, they are neither right nor wrong."""

CHANGES_BY_ITSELF = {
    "cpuset.groups": "services come and go",
    "files.changed": "only roles request it",
    "kernel.initramfs": "only roles request it",
    "packages.interrupted": "dpkg may be running",
    "systemd.started": "new for each boot",
    "units.started": "shows when a unit was last started",
    "os.boot_id": "new for each boot",
    "os.init_started": "new for each boot",
    "munge.credential": "new for each reading",
    "time.offset_s": "changes all the time; time.offset checks it",
    "units.*.started_at": "the time when a unit was last started",
    "driver.xid": "a log; gpu.xid checks it",
    "driver.sxid": "a log; gpu.sxid checks it",
    "gpu.answered_in_s": "varies; gpu.answer_time checks it",
    "gpu.clocks.memory_mhz": "follows the load; gpu.clock_memory checks it",
    "gpu.pcie.generation": "follows the load; gpu.pcie_generation_busy checks it",
    "gpu.slowdown.active": "follows the load; gpu.slowdown checks it",
    "gpu.slowdown.power_cap_us": "grows on every GPU at its power limit",
    "gpu.temperature.margin_c": "follows the load; gpu.temperature checks it",
    "gpu.clocks.sm_mhz": "follows the load; gpu.clock_idle checks it",
    "gpu.memory.used_mib": "follows the load",
    "gpu.pstate": "follows the load",
    "gpu.utilization": "follows the load",
    "time.own_clock": "time.synchronised skips the time server, which may follow its own clock",
    "hugepages.free": "falls while jobs run",
    "services.cpu_share": "follows the load; service.cpu checks it",
    "storage.inodes": "files come and go; storage.inodes checks it",
    "storage.space": "files come and go; storage.space checks it",
    "slurm.jobs": "only roles request it",
    "slurm.node": "only roles request it",
    "kubernetes.certificates": "time goes by; kubernetes.certificates checks it",
    "kubernetes.nodes": "follows the pods and the states of the nodes; kubernetes.node checks it",
    "slurm.nodes.*.state": "follows the jobs; slurm.state checks it",
    "slurm.nodes.*.reason": "changes with the state",
}
"""Readings that can change even if nobody changes the node."""

DIFFERS_BETWEEN_NODES = {
    "os.hostname": "the node's own name",
    "os.host_keys": "the node's own",
    "os.machine_id": "the node's own",
    "net.addresses": "the node's own",
    "net.mac": "the interface's own",
    "net.persisted": "the node's own addresses",
    "collectors": "they listen on the node's own address; collector.settings checks them",
    "gpu.uuid": "the GPU's own",
    "gpu.serial": "the GPU's own",
    "cdi.devices.GPU-*": "names the GPUs by their UUIDs; cdi.devices checks them",
    "driver.boards": "names the GPUs by their UUIDs",
    "rdma.guid": "the adapter's own",
    "memory_mib": "firmware reserves a varying number of MiB; memory.at_least checks it",
    "munge.credential": "only the controller has this reading",
    "munge.decoded": "the controller does not decode its own credential",
    "slurm.nodes": "only the controller has this reading",
    "kubernetes.nodes": "only the control plane has this reading",
    "kubernetes.kubelet_config": "only the control plane has this reading",
    "kubernetes.control_plane": "only the control plane has this reading",
    "kubernetes.manifests": "only the control plane has this reading",
    "kubernetes.objects": "only the control plane has this reading",
    "kubernetes.unavailable": "only the control plane has this reading",
    "kubernetes.releases": "only the control plane has this reading",
    "kubernetes.static_pods": "only the control plane has static pods",
    "kubernetes.routes": "each node has routes to the others",
    "kubernetes.certificates": "each node has certificates of its own",
    **{f"kernel.cmdline.{word}=*": "names the node's own disk or address" for word in OWN},
}
"""Readings that differ between equal nodes but should stay the same on any one node."""


def counters() -> dict[str, str]:
    """Return the readings that are left to growth rules, each with the reason."""
    return {rule.reading: "a counter" for rule in all_rules() if rule.kind is Kind.GROWTH}


def at_two_times() -> dict[str, str]:
    """Return the readings that may differ between two records of one node, each with the reason."""
    return CHANGES_BY_ITSELF | counters()


def between_nodes() -> dict[str, str]:
    """Return the readings that may differ between two nodes, each with the reason."""
    return at_two_times() | DIFFERS_BETWEEN_NODES

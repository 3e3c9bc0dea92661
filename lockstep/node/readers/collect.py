"""All of it: every reader with the readings it takes, side by side, and the record they make."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from lockstep.node.readers import (
    boot,
    cdi,
    cgroups,
    clock,
    collectors,
    containers,
    cpu,
    driver,
    files,
    firmware,
    gpu,
    gpu_links,
    gpu_pci,
    kernel,
    kernel_log,
    manifest,
    memory,
    mig,
    munge,
    network,
    packages,
    rdma,
    rdma_pci,
    roce,
    slurm,
    storage,
    sysctl,
    system,
    units,
    xid,
)
from lockstep.node.readers.aside import stand_aside
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import Request
from lockstep.node.readers.take import Row, take

MARKER = "LOCKSTEP-RECORD 1"

OF_NVIDIA_SMI: tuple[Row, ...] = (
    (gpu.read_gpus, ("gpu.count", "gpu.lost", "gpu.answered_in_s", *gpu.GPU_READINGS)),
    (mig.read_mig_devices, ("gpu.mig.devices",)),
    (gpu_links.read_nvlinks, ("gpu.nvlink.links",)),
    (gpu_links.read_nvlink_errors, tuple(f"gpu.nvlink.{kind}" for kind in gpu_links.NVLINK_ERRORS)),
    (gpu_links.read_topology, ("gpu.topology",)),
)
"""One after the other, what tells most first: when it hangs, the others are not even asked."""

READERS: tuple[Row, ...] = (
    *OF_NVIDIA_SMI,
    (gpu_pci.read_pci, gpu_pci.GPU_PCI_READINGS),
    (driver.read_driver_parameters, ("driver.parameters",)),
    (driver.read_driver_helpers, ("driver.helpers",)),
    (driver.read_module, ("driver.module",)),
    (driver.read_module_on_disk, ("driver.module_on_disk",)),
    (driver.read_module_next, ("driver.module_next",)),
    (driver.read_driver_library, ("driver.library",)),
    (driver.read_board_numbers, ("driver.boards",)),
    (mig.read_instance_files, ("driver.instance_files",)),
    (xid.read_xids, ("driver.xid", "driver.sxid")),
    (
        packages.read_packages,
        ("packages", "packages.broken", "packages.held", "packages.interrupted"),
    ),
    (slurm.read_slurm_nodes, ("slurm.nodes",)),
    (units.read_units, ("units", "units.started", "limits.memlock", "limits.open_files")),
    (units.read_manager, ("systemd.started",)),
    (clock.read_time, ("time.synchronised", "time.offset_s", "time.own_clock")),
    (munge.read_munge_credential, ("munge.credential",)),
    (munge.read_munge_decoded, ("munge.decoded",)),
    (munge.read_munge_key, ("munge.key_sha256",)),
    (slurm.read_slurm_conf, ("slurm.conf_sha256",)),
    (slurm.read_spank_plugins, ("slurm.spank_plugins",)),
    (slurm.read_srun_options, ("slurm.srun_options",)),
    (system.read_release, ("os.id", "os.version_id")),
    (system.read_running, ("os.hostname", "os.boot_id", "kernel.release", "kernel.cmdline")),
    (system.read_time_zone, ("os.time_zone",)),
    (system.read_locale, ("os.locale",)),
    (system.read_locales, ("os.locales",)),
    (boot.read_cmdline_persisted, ("kernel.cmdline_persisted",)),
    (files.read_files, ("files",)),
    (files.read_changed_files, ("files.changed",)),
    (system.read_groups, ("os.groups",)),
    (manifest.read_manifest, ("manifest",)),
    (system.read_hosts, ("hosts.entries",)),
    (sysctl.read_sysctl_running, ("sysctl.running",)),
    (sysctl.read_sysctl_persisted, ("sysctl.persisted",)),
    (cpu.read_cpus, ("cpu.online", "numa.cpus")),
    (memory.read_memory, ("memory_mib",)),
    (memory.read_hugepages, ("hugepages", "hugepages.free")),
    (memory.read_hugepages_tried, ("hugepages.tried",)),
    (memory.read_hugepages_mounts, ("hugepages.mounts",)),
    (cgroups.read_cpuset, ("cpuset.manager", "cpuset.user_slice")),
    (cgroups.read_services, ("cpuset.services", "cpuset.groups")),
    (kernel.read_kernel_files, ("kernel.files",)),
    (cpu.read_isolation, ("cpu.isolated", "cpu.nohz_full")),
    (cpu.read_max_cstate, ("kernel.max_cstate",)),
    (cpu.read_interrupts, ("irq.affinity",)),
    (network.read_listeners, ("listeners",)),
    (rdma.read_rdma, rdma.RDMA_READINGS),
    (rdma.read_rdma_ports, rdma.PORT_READINGS),
    (rdma_pci.read_rdma_pci, rdma_pci.PCI_READINGS),
    (roce.read_roce, roce.ROCE_READINGS),
    (rdma.read_rdma_settings, ("rdma.settings",)),
    (network.read_interfaces, network.NET_READINGS),
    (network.read_default_routes, ("net.default_route",)),
    (firmware.read_platform, ("platform",)),
    (cpu.read_processors, ("cpu.model", "cpu.microcode", "cpu.smt", "cpu.mitigations")),
    (cpu.read_frequency, ("cpu.frequency",)),
    (cpu.read_idle_states, ("cpu.idle_states",)),
    (cpu.read_power_limits, ("cpu.power_limits",)),
    (firmware.read_memory_modules, ("memory.modules",)),
    (memory.read_memory_errors, ("memory.uncorrected", "memory.corrected")),
    (memory.read_swap, ("memory.swap",)),
    (cpu.read_distances, ("numa.distance",)),
    (kernel.read_kernel_state, kernel.KERNEL_READINGS),
    (kernel.read_tainted, ("kernel.tainted",)),
    (kernel_log.read_kernel_log, ("kernel.log",)),
    (system.read_identity, ("os.machine_id", "os.host_keys")),
    (system.read_resolver, ("os.resolver",)),
    (units.read_failed_units, ("units.failed",)),
    (units.read_enabled_units, ("units.enabled", "cron.jobs")),
    (collectors.read_collectors, ("collectors",)),
    (cgroups.read_service_shares, ("services.cpu_share",)),
    (storage.read_mounts, storage.MOUNT_READINGS),
    (storage.read_disks, ("storage.nvme",)),
    (cdi.read_cdi, ("cdi.devices", "cdi.libraries")),
    (containers.read_device_files, ("device.files",)),
    (containers.read_containers, ("containers",)),
)


def collect(
    request: Request,
    only: frozenset[str] = frozenset(),
    command_timeout_s: float | None = None,
    reader_timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return the record of this node.

    Args:
        request: what to look at, by name.
        only: readings that are needed; empty: all. Others are taken where one reader has both.
        command_timeout_s: for each command; None: the usual.
        reader_timeout_s: for each reader, with all of its commands; None: the usual.
    """
    return take(in_turn(only), request, command_timeout_s, reader_timeout_s)


def in_turn(only: frozenset[str]) -> list[list[Row]]:
    """Return the readers of some readings, or of all; those of one list run one after the other."""
    readers = [row for row in READERS if not only or only & set(row[1])]
    together = [[row for row in readers if row in OF_NVIDIA_SMI]]
    return together + [[row] for row in readers if row not in OF_NVIDIA_SMI]


def main() -> None:
    """Read the request from the argument, print the record."""
    request = json.loads(base64.b64decode(sys.argv[1]))
    stand_aside(cpus(request.get("housekeeping_cpus", "")))
    # The marker comes first, so that the output is never empty and a greeting cannot hide it.
    print(MARKER, flush=True)
    print(json.dumps(collect(request), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()

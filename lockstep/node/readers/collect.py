"""The table of all readers, and the probe's main program."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from lockstep.node.readers import (
    boot,
    cgroups,
    clock,
    collectors,
    containers,
    cpu,
    driver,
    files,
    firewall,
    gpu,
    gpu_fields,
    gpu_nvlink,
    kernel,
    kernel_log,
    kubernetes,
    kubernetes_manifests,
    kubernetes_objects,
    kubernetes_releases,
    manifest,
    memory,
    network,
    network_files,
    packages,
    pci,
    rdma,
    selinux,
    signing,
    slurm,
    storage,
    system,
    units,
)
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import NOT_ASKED, Readings, Request
from lockstep.node.readers.scheduling import run_in_background
from lockstep.node.readers.take import Row, take

MARKER = "LOCKSTEP-RECORD 1"

OF_NVIDIA_SMI: tuple[Row, ...] = (
    (
        gpu.read_gpus,
        (
            *("gpu.count", "gpu.lost", "gpu.silent", "gpu.answered_in_s", "kubernetes.gpus"),
            *gpu_fields.GPU_READINGS,
        ),
    ),
    (gpu.read_mig_devices, ("gpu.mig.devices",)),
    (gpu.read_processes, ("gpu.processes",)),
    (gpu_nvlink.read_nvlinks, ("gpu.nvlink.links",)),
    (
        gpu_nvlink.read_nvlink_errors,
        tuple(f"gpu.nvlink.{kind}" for kind in gpu_nvlink.NVLINK_ERRORS),
    ),
    (gpu_nvlink.read_topology, ("gpu.topology",)),
)
"""The readers that run nvidia-smi. They run one after the other, the most important first. If
nvidia-smi hangs, the remaining readers fail at once."""

OF_ROLES = frozenset(
    {
        *("cdi.current", "cdi.refused", "containers.images", "docker.live_restore"),
        "gpu.processes",
        *("files.naming", "files.texts", "manifest.held", "manifest.whole", "packages.shipped"),
        *("slurm.clusters", "slurm.database_login", "slurm.jobs", "slurm.node"),
        *("slurm.health", "slurm.plugin_loads", "slurm.steps"),
    }
)
"""Readings that only roles need. A check does not take them, because no rule uses them."""

READERS: tuple[Row, ...] = (
    *OF_NVIDIA_SMI,
    (pci.read_gpu_pci, pci.GPU_PCI_READINGS),
    (driver.read_driver_parameters, ("driver.parameters",)),
    (driver.read_loaded_modules, ("driver.helpers", "driver.loaded")),
    (driver.read_module, ("driver.module",)),
    (
        driver.read_kernels,
        ("kernel.next", "driver.kernels", "driver.module_on_disk", "driver.module_next"),
    ),
    (signing.read_secure_boot, ("secure_boot",)),
    (signing.read_certificates, ("secure_boot.certificates",)),
    (signing.read_signatures, ("dkms.signatures",)),
    (driver.read_driver_library, ("driver.library",)),
    (driver.read_board_numbers, ("driver.boards",)),
    (gpu.read_instance_files, ("driver.instance_files",)),
    (kernel_log.read_xids, ("driver.xid", "driver.sxid")),
    (
        packages.read_packages,
        ("packages", "packages.broken", "packages.held", "packages.interrupted"),
    ),
    (slurm.read_slurm_nodes, ("slurm.nodes",)),
    (kubernetes.read_nodes, ("kubernetes.nodes", "kubernetes.kubelet_config")),
    (kubernetes.read_control_plane, ("kubernetes.control_plane",)),
    (kubernetes.read_routes, ("kubernetes.routes",)),
    (kubernetes.read_certificates, ("kubernetes.certificates",)),
    (kubernetes.read_static_pods, ("kubernetes.static_pods",)),
    (kubernetes.read_proxy_mode, ("kubernetes.kube_proxy",)),
    (units.read_units, ("units", "units.started", "limits.memlock", "limits.open_files")),
    (units.read_manager, ("systemd.started",)),
    (clock.read_time, ("time.synchronised", "time.offset_s", "time.own_clock")),
    (slurm.read_munge_credential, ("munge.credential",)),
    (slurm.read_munge_decoded, ("munge.decoded",)),
    (slurm.read_munge_key, ("munge.key_sha256",)),
    (slurm.read_slurm_conf, ("slurm.conf_sha256",)),
    (slurm.read_slurm_node, ("slurm.node",)),
    (slurm.read_slurm_jobs, ("slurm.jobs",)),
    (slurm.read_health, ("slurm.health",)),
    (slurm.read_clusters, ("slurm.clusters",)),
    (slurm.read_database_login, ("slurm.database_login",)),
    (slurm.read_steps, ("slurm.steps",)),
    (slurm.read_plugin_loads, ("slurm.plugin_loads",)),
    (slurm.read_spank_plugins, ("slurm.spank_plugins",)),
    (slurm.read_srun_options, ("slurm.srun_options",)),
    (system.read_release, ("os.id", "os.version_id")),
    (
        system.read_running,
        ("os.hostname", "os.boot_id", "kernel.release", "kernel.page_size", "kernel.cmdline"),
    ),
    (system.read_boot, ("os.init_started", "os.reboot_required", "os.rebooted_in_vain")),
    (system.read_time_zone, ("os.time_zone",)),
    (system.read_locale, ("os.locale",)),
    (system.read_locales, ("os.locales",)),
    (boot.read_cmdline_persisted, ("kernel.cmdline_persisted",)),
    (boot.read_cmdline_entries, ("kernel.cmdline_entries",)),
    (boot.read_initramfs, ("kernel.initramfs",)),
    (files.read_files, ("files",)),
    (files.read_changed_files, ("files.changed",)),
    (files.read_naming, ("files.naming",)),
    (files.read_texts, ("files.texts",)),
    (files.read_groups, ("os.groups",)),
    (manifest.read_manifest, ("manifest",)),
    (manifest.read_held, ("manifest.held",)),
    (manifest.read_whole, ("manifest.whole",)),
    (packages.read_shipped, ("packages.shipped",)),
    (system.read_hosts, ("hosts.entries",)),
    (kernel.read_sysctl_running, ("sysctl.running",)),
    (kernel.read_sysctl_persisted, ("sysctl.persisted",)),
    (cpu.read_cpus, ("cpu.online", "numa.cpus")),
    (memory.read_memory, ("memory_mib",)),
    (memory.read_hugepages, ("hugepages", "hugepages.free")),
    (memory.read_hugepages_tried, ("hugepages.tried",)),
    (memory.read_hugepages_mounts, ("hugepages.mounts",)),
    (cgroups.read_manager_cpus, ("cpuset.manager",)),
    (cgroups.read_login_cpus, ("cpuset.user_slice",)),
    (cgroups.read_services, ("cpuset.services", "cpuset.groups")),
    (kernel.read_kernel_files, ("kernel.files",)),
    (cpu.read_isolation, ("cpu.isolated", "cpu.nohz_full")),
    (cpu.read_max_cstate, ("kernel.max_cstate",)),
    (cpu.read_interrupts, ("irq.affinity",)),
    (network.read_listeners, ("listeners",)),
    (rdma.read_rdma, rdma.RDMA_READINGS),
    (rdma.read_rdma_ports, rdma.PORT_READINGS),
    (pci.read_rdma_pci, pci.RDMA_PCI_READINGS),
    (rdma.read_roce, rdma.ROCE_READINGS),
    (rdma.read_rdma_settings, ("rdma.settings",)),
    (rdma.read_driver_on_disk, ("rdma.driver_on_disk",)),
    (network.read_interfaces, network.NET_READINGS),
    (network.read_default_routes, ("net.default_route",)),
    (network.read_gateways, ("net.gateway",)),
    (network_files.read_persisted, ("net.persisted",)),
    (firewall.read_firewall, ("firewall.rules",)),
    (selinux.read_mode, ("selinux.mode",)),
    (selinux.read_modules, ("selinux.modules",)),
    (selinux.read_booleans, ("selinux.booleans",)),
    (selinux.read_labels, ("selinux.labels",)),
    (system.read_platform, ("platform",)),
    (system.read_bmc, ("platform.bmc_firmware",)),
    (cpu.read_processors, ("cpu.model", "cpu.microcode", "cpu.smt", "cpu.mitigations")),
    (cpu.read_frequency, ("cpu.frequency",)),
    (cpu.read_idle_states, ("cpu.idle_states",)),
    (cpu.read_power_limits, ("cpu.power_limits",)),
    (memory.read_memory_modules, ("memory.modules",)),
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
    (containers.read_cdi, ("cdi.devices", "cdi.libraries")),
    (containers.read_cdi_current, ("cdi.current", "cdi.refused")),
    (containers.read_device_files, ("device.files",)),
    (containers.read_containers, ("containers",)),
    (containers.read_images, ("containers.images",)),
    (kubernetes_objects.read_objects, ("kubernetes.objects", "kubernetes.unavailable")),
    (kubernetes_releases.read_releases, ("kubernetes.releases",)),
    (kubernetes_manifests.read_manifests, ("kubernetes.manifests",)),
    (containers.read_live_restore, ("docker.live_restore",)),
)


def read_nothing(request: Request, commands: Commands) -> Readings:
    """The readings that only roles need; a check records them as "not asked"."""
    return dict.fromkeys(OF_ROLES, NOT_ASKED)


FOR_A_CHECK = [row for row in READERS if not OF_ROLES & set(row[1])]
FOR_A_CHECK.append((read_nothing, tuple(sorted(OF_ROLES))))


def collect(
    request: Request,
    only: frozenset[str] = frozenset(),
    command_timeout_s: float | None = None,
    reader_timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return the record of this node.

    Args:
        request: the names of the objects to read.
        only: the readings to take; empty: all readings of a check. The record may include others.
        command_timeout_s: the timeout of each command; None: the default.
        reader_timeout_s: the time limit for all readers together; None: the default.
    """
    return take(in_turn(only), request, command_timeout_s, reader_timeout_s)


def in_turn(only: frozenset[str]) -> list[list[Row]]:
    """Return lists of readers, as ``take`` expects; if ``only`` is empty, those of a check."""
    readers = [row for row in READERS if only & set(row[1])] if only else FOR_A_CHECK
    together = [[row for row in readers if row in OF_NVIDIA_SMI]]
    return together + [[row] for row in readers if row not in OF_NVIDIA_SMI]


FILES = frozenset({"files", "files.texts"})
"""What is read if texts are wanted, and nothing else."""


def main() -> None:
    """Read the request from the argument; print the record."""
    request = json.loads(base64.b64decode(sys.argv[1]))
    run_in_background(cpus(request.get("housekeeping_cpus", "")))
    # The marker separates the record from a greeting that the login shell prints.
    print(MARKER, flush=True)
    only = FILES if request.get("texts") else frozenset[str]()
    print(json.dumps(collect(request, only), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()

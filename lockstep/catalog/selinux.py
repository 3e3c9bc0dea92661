"""SELinux of the RHEL family 9: what its policy lacks for containers with GPUs and RDMA.

Looked up on 2026-11-24 in fedora-selinux/selinux-policy, branch c9s at 73a2d29 (the policy of
RHEL 9), and in containers/container-selinux at v2.232.1. Both were compiled and linked with
checkmodule, semodule_package and semodule 3.4, and asked with sesearch and matchpathcon
(docs/systems.md). No node of the family ran any of it.

The policy knows neither munge nor Slurm: a program that systemd starts from /usr/sbin has the type
bin_t and gets the domain unconfined_service_t, in which the policy denies nothing. Rules for these
daemons, or labels of their own for their folders, would only add denials.
"""

from __future__ import annotations

RDMA_MODULE = "lockstep_container_rdma"
"""Lets containers open RDMA devices (infiniband_device_t). The policy has only the boolean
container_use_devices for that, which opens every device to every container, disks among them."""
RDMA_SOURCE = f"/etc/lockstep/selinux/{RDMA_MODULE}.cil"
"""semodule names a module after the file of its source."""
GPU_BOOLEAN = "container_use_xserver_devices"
"""Lets containers open /dev/nvidia*, which have the type xserver_misc_device_t (devices.fc);
container_selinux(8) names the boolean for GPUs. container-selinux has it from 2.232.0 on."""
CONFINING_ENGINES = frozenset({"podman"})
"""Engines whose containers get the domain container_t by default. dockerd confines only with
``--selinux-enabled``, and containerd only with ``enable_selinux``; both are off unless they are
set, and Lockstep sets neither."""
POLICY = "targeted"
"""SELINUXTYPE of /etc/selinux/config; labels and modules are for this policy."""
GDRCOPY_MODULE = "lockstep_container_gdrcopy"
"""Gives /dev/gdrdrv, for which the policy has no label, the type of the GPUs' device files, so that
GPU_BOOLEAN opens it to containers as well."""
GDRCOPY_SOURCE = f"/etc/lockstep/selinux/{GDRCOPY_MODULE}.cil"
GDRCOPY_LABELS = {"/dev/gdrdrv": "xserver_misc_device_t"}
"""Path -> type, as the module has it. A file that mknod makes, as gdrcopy's scripts do, gets the
type of /dev until restorecon sets it; for one that the kernel makes, udev looks the type up."""
MODULES = (GDRCOPY_MODULE, RDMA_MODULE)
BIN = "bin_t"

MUNGE = {
    "/etc/munge": "etc_t",
    "/etc/munge/munge.key": "etc_t",
    "/var/lib/munge": "var_lib_t",
    "/var/log/munge": "var_log_t",
}
"""Path -> type, as the policy's file_contexts has it."""
SLURM = {
    "/etc/slurm": "etc_t",
    "/var/lib/slurm": "var_lib_t",
    "/var/lib/slurm/slurmctld": "var_lib_t",
    "/var/lib/slurm/slurmd": "var_lib_t",
    "/var/log/slurm": "var_log_t",
}
DAEMONS = ("munge", "slurm_accounting", "slurm_controller", "slurm_worker")
"""Roles whose programs must be bin_t: from other files, systemd does not start them as
unconfined_service_t, or not at all."""

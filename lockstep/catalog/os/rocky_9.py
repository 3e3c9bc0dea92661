"""Rocky Linux 9, and what RHEL 9 shares with it.

So far what needs no package manager (docs/systems.md). NOT VERIFIED: package names and Slurm's
series are from public guides, no archive was read for them; nothing uses them yet.
"""

from lockstep.catalog.os import Release

RELEASE = Release(
    id="rocky",
    version_id="9",
    codename="Blue Onyx",
    packages={
        "time_sync": ("chrony",),
        # NVIDIA's documentation of the inbox driver of RHEL 9.5, and Red Hat's of InfiniBand.
        "rdma": ("libibverbs-utils", "perftest", "rdma-core"),
        "munge": ("munge",),
        "node_exporter": ("node-exporter",),
        "prometheus": ("prometheus",),
        "slurm_accounting": ("mariadb-server", "slurm-slurmdbd"),
        "slurm_controller": ("slurm", "slurm-slurmctld"),
        "slurm_worker": ("slurm", "slurm-slurmd"),
    },
    locales=(),
    locale_file="/etc/locale.conf",
    chrony_leap_seconds="leapsectz right/UTC",
    slurm=(22, 5),
    family="rhel",
    boot_loader="grubby",
    kernel_headers="kernel-devel-{release}",
    upgrade_timers=("dnf-automatic-install.timer", "dnf-automatic.timer"),
    capabilities=("os_settings", "kernel", "cpu_sets", "hugepages", "boot_loader"),
)

"""Rocky Linux 9, and data that it shares with RHEL 9.

Only roles without packages are supported (docs/systems.md). NOT VERIFIED: package names and Slurm's
series come from public guides, not from an archive; nothing uses them yet.
"""

from lockstep.catalog.os import Release

RELEASE = Release(
    id="rocky",
    version_id="9",
    locales=(),
    locale_file="/etc/locale.conf",
    chrony_leap_seconds="leapsectz right/UTC",
    slurm=(22, 5),
    family="rhel",
    boot_loader="grubby",
    kernel_headers="kernel-devel-{release}",
    upgrade_timers=("dnf-automatic-install.timer", "dnf-automatic.timer"),
    supported_roles=("os_settings", "kernel", "cpu_sets", "hugepages", "boot_loader"),
)

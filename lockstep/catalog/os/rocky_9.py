"""Rocky Linux 9, and what RHEL 9 shares with it.

So far what needs no package manager (docs/systems.md). NOT VERIFIED: package names and Slurm's
series are from public guides, no archive was read for them; nothing uses them yet.
"""

from lockstep.catalog.os import Release

RELEASE = Release(
    id="rocky",
    version_id="9",
    codename="Blue Onyx",
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

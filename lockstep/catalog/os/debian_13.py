"""Debian 13 (trixie)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES, NETWORK_MANAGERS

RELEASE = Release(
    id="debian",
    version_id="13",
    # Since this release, Docker's command-line client is a separate package.
    engines={**ENGINES, "docker": (*ENGINES["docker"], "docker-cli")},
    locales=LOCALES,
    # At each boot, tmpfiles.d/debian.conf replaces /etc/default/locale with a link to this file.
    locale_file="/etc/locale.conf",
    chrony_leap_seconds="leapseclist /usr/share/zoneinfo/leap-seconds.list",
    network_managers=NETWORK_MANAGERS,
    slurm=(24, 11),
    # In contrib; built for 24.11.5, the version of slurmd.
    slurm_nvml=("slurm-wlm-nvml-plugin",),
)

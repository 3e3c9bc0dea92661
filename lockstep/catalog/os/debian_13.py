"""Debian 13 (trixie)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES

RELEASE = Release(
    id="debian",
    version_id="13",
    codename="trixie",
    # The command of Docker is a package of its own from this release on.
    engines={**ENGINES, "docker": (*ENGINES["docker"], "docker-cli")},
    locales=LOCALES,
    # At each boot tmpfiles.d/debian.conf replaces /etc/default/locale by a link to this.
    locale_file="/etc/locale.conf",
    chrony_leap_seconds="leapseclist /usr/share/zoneinfo/leap-seconds.list",
    slurm=(24, 11),
    # In contrib; built for 24.11.5, as slurmd is.
    slurm_mig=("slurm-wlm-nvml-plugin",),
)

"""Debian 13 (trixie)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import LOCALES, PACKAGES

RELEASE = Release(
    id="debian",
    version_id="13",
    codename="trixie",
    packages=PACKAGES,
    locales=LOCALES,
    # At each boot tmpfiles.d/debian.conf replaces /etc/default/locale by a link to this.
    locale_file="/etc/locale.conf",
    chrony_leap_seconds="leapseclist /usr/share/zoneinfo/leap-seconds.list",
    slurm=(24, 11),
)

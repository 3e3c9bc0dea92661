"""Debian 12 (bookworm)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES, PACKAGES

RELEASE = Release(
    id="debian",
    version_id="12",
    codename="bookworm",
    packages=PACKAGES,
    engines=ENGINES,
    locales=LOCALES,
    locale_file="/etc/default/locale",
    chrony_leap_seconds="leapsectz right/UTC",
    slurm=(22, 5),
)

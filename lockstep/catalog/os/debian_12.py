"""Debian 12 (bookworm)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES, PACKAGES

RELEASE = Release(
    id="debian",
    version_id="12",
    codename="bookworm",
    packages=PACKAGES,
    engines=ENGINES,
    # It has containerd 1.6 and Docker 20.10: CDI came with 1.7 and 25.0, to Podman with 4.1.
    without_cdi=("containerd", "docker"),
    locales=LOCALES,
    locale_file="/etc/default/locale",
    chrony_leap_seconds="leapsectz right/UTC",
    slurm=(22, 5),
)

"""Debian 12 (bookworm)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES

RELEASE = Release(
    id="debian",
    version_id="12",
    codename="bookworm",
    engines=ENGINES,
    # It has containerd 1.6 and Docker 20.10: CDI came with 1.7 and 25.0, to Podman with 4.1.
    without_cdi=("containerd", "docker"),
    locales=LOCALES,
    locale_file="/etc/default/locale",
    chrony_leap_seconds="leapsectz right/UTC",
    slurm=(22, 5),
    # No slurm_mig: the plugin of the archive wants slurm-wlm-basic-plugins of 22.05.8-4+deb12u2, of
    # which there is deb12u3; and 22.05 types MIG devices by their rounded memory (3g.39gb).
)

"""Debian 12 (bookworm)."""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES, NETWORK_MANAGERS

RELEASE = Release(
    id="debian",
    version_id="12",
    engines=ENGINES,
    # The archive has containerd 1.6 and Docker 20.10; CDI needs 1.7 and 25.0 (Podman: 4.1).
    without_cdi=("containerd", "docker"),
    locales=LOCALES,
    locale_file="/etc/default/locale",
    chrony_leap_seconds="leapsectz right/UTC",
    network_managers=NETWORK_MANAGERS,
    boots_without_required_link=False,
    slurm=(22, 5),
    # No slurm_nvml: the archive's plugin depends on slurm-wlm-basic-plugins 22.05.8-4+deb12u2, but
    # the archive has deb12u3. Slurm 22.05 also names MIG types by their rounded memory (3g.39gb).
)

"""Ubuntu 24.04 LTS (noble).

Names and versions: its archive (noble, noble-updates, noble-security), read on 2026-11-24.
"""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES, NETWORK_MANAGERS

RELEASE = Release(
    id="ubuntu",
    version_id="24.04",
    # The archive has containerd 2.2.1, Docker 29.1.3 and Podman 4.9.3: all support CDI.
    engines=ENGINES,
    locales=LOCALES,
    # At boot, tmpfiles.d/debian.conf (systemd 255.4-1ubuntu8) links /etc/default/locale here.
    locale_file="/etc/locale.conf",
    # chrony 4.5 has no leapseclist (added in 4.6); its dependency tzdata-legacy has the zone.
    chrony_leap_seconds="leapsectz right/UTC",
    # The usual one: Ubuntu Server documentation, "Configuring networks" (Netplan).
    network_managers={"netplan": NETWORK_MANAGERS["netplan"], **NETWORK_MANAGERS},
    slurm=(23, 11),
    # No slurm_nvml: slurm-wlm-basic-plugins 23.11.4-1.2ubuntu5 has gpu_generic.so and gpu_nrt.so,
    # and no package of the archive has gpu_nvml.so.
    not_verified=("no machine with Ubuntu was deployed or booted with Lockstep",),
)

"""Ubuntu 22.04 LTS (jammy).

Names and versions: its archive (jammy, jammy-updates, jammy-security), read on 2026-11-24.
"""

from lockstep.catalog.os import Release
from lockstep.catalog.os._debian import ENGINES, LOCALES, NETWORK_MANAGERS

RELEASE = Release(
    id="ubuntu",
    version_id="22.04",
    engines=ENGINES,
    # The archive has Podman 3.4.4 (CDI needs 4.1), containerd 2.2.1 and Docker 29.1.3.
    without_cdi=("podman",),
    locales=LOCALES,
    network_managers={"netplan": NETWORK_MANAGERS["netplan"], **NETWORK_MANAGERS},
    boots_without_required_link=False,
    # tmpfiles.d/debian.conf of systemd 249.11-0ubuntu3 makes no link to /etc/locale.conf.
    locale_file="/etc/default/locale",
    # chrony 4.2 has no leapseclist (added in 4.6); its dependency tzdata has the zone.
    chrony_leap_seconds="leapsectz right/UTC",
    # dkms 2.8.7-2ubuntu2.2, function sign_build: the paths are fixed. kmodsign(1) signs, only if
    # shim-signed is installed, which installers do where Secure Boot is on.
    dkms_reads_settings=False,
    names={
        "/etc/dkms/lockstep-modules.key": "/var/lib/shim-signed/mok/MOK.priv",
        "/etc/dkms/lockstep-modules.der": "/var/lib/shim-signed/mok/MOK.der",
    },
    # No slurm_nvml: slurm-wlm-basic-plugins 21.08.5-2ubuntu1 has gpu_generic.so only.
    slurm=(21, 8),
    not_verified=(
        "no machine with Ubuntu was deployed or booted with Lockstep",
        "whether Slurm 21.08 accepts every line of Lockstep's slurm.conf",
    ),
)

"""Data that the releases of the RHEL family 9 share, each value with its source.

Looked up on 2026-11-24. Nobody has booted such a machine with Lockstep (docs/systems.md).
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.catalog.os import Release

NAMES = {
    # `rpm -ql chrony` of CentOS, and the unit of the package: EnvironmentFile and ExecStart.
    "/etc/chrony/chrony.conf": "/etc/chrony.conf",
    "/etc/default/chrony": "/etc/sysconfig/chronyd",
    "chrony.service": "chronyd.service",
    # openssh-server: sshd.service.
    "ssh.service": "sshd.service",
    # `systemctl status mariadb` on RHEL 9: ExecStart. my.cnf of the package includes the folder.
    "/usr/sbin/mariadbd": "/usr/libexec/mariadbd",
    "/etc/mysql/mariadb.conf.d/90-lockstep.cnf": "/etc/my.cnf.d/90-lockstep.cnf",
    # SchedMD/slurm, etc/slurmd.service.in; slurm.spec has the plugins in %{_libdir}/slurm.
    "/etc/default/slurmd": "/etc/sysconfig/slurmd",
    "/usr/lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so": "/usr/lib64/slurm/gpu_nvml.so",
    # NVIDIA/pyxis, pyxis.spec: %{_libdir}/slurm.
    "/usr/lib/x86_64-linux-gnu/slurm/spank_pyxis.so": "/usr/lib64/slurm/spank_pyxis.so",
    # lest/prometheus-rpm, templates/unit.tpl and default.tpl.
    "/etc/default/prometheus-node-exporter": "/etc/default/node_exporter",
    "/usr/bin/prometheus-node-exporter": "/usr/bin/node_exporter",
    "prometheus-node-exporter.service": "node_exporter.service",
    # Docker's packages; Debian's has /usr/sbin/dockerd.
    "/usr/sbin/dockerd": "/usr/bin/dockerd",
}
"""Debian's name -> the name in the RHEL family 9."""

RHEL_9 = Release(
    id="rhel",
    version_id="9",
    family="rhel",
    selinux=True,
    names=NAMES,
    # glibc.spec: every locale in one package; C.UTF-8 is built in.
    locales=("glibc-all-langpacks",),
    locale_file="/etc/locale.conf",
    # RHEL 9 has the zone in tzdata, as its own chrony.conf expects.
    chrony_leap_seconds="leapsectz right/UTC",
    # EPEL 9 has 22.05.9. A site with SchedMD's own packages locks "slurm" in software.versions, and
    # the series of that lock counts instead.
    slurm=(22, 5),
    engines={
        # Docker's repository for RHEL, which the description must declare.
        "containerd": ("busybox", "containerd.io"),
        "docker": ("busybox", "containerd.io", "docker-ce", "docker-ce-cli"),
        # AppStream; newuidmap(1) is in shadow-utils, which every machine has.
        "podman": ("busybox", "crun", "podman"),
    },
    boot_loader="grubby",
    # dracut(8).
    rebuild_initramfs="dracut --regenerate-all --force",
    kernel_headers="kernel-devel-{release}",
    # dnf.spec, package automatic and its scriptlets; dnf-automatic(8): the second timer installs
    # whatever /etc/dnf/automatic.conf says.
    upgrade_packages=("dnf-automatic",),
    upgrade_timers=("dnf-automatic.timer",),
    other_upgrade_timers=("dnf-automatic-install.timer",),
    # NetworkManager keeps its profiles as keyfiles (RHEL 9.0 release notes, Networking). Only EPEL
    # has the package systemd-networkd.
    network_managers={"networkmanager": ()},
    not_verified=(
        "busybox, munge, apptainer and slurm in EPEL 9: names from public guides, not from the "
        "archive",
        "node_exporter and prometheus2: names of lest/prometheus-rpm, whose packages a declared "
        "repository must have",
        "no machine of the RHEL family was deployed or booted with Lockstep",
    ),
)
"""RHEL 9. Rocky Linux 9 and AlmaLinux 9 are rebuilt from the same sources, with the same names."""


def rebuilt(name: str) -> Release:
    """Return the data of a distribution that is rebuilt from RHEL 9.

    Args:
        name: its ``ID`` of os-release(5).
    """
    return replace(RHEL_9, id=name)

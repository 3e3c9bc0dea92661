"""Checks the host's requirements for a lab, and installs missing packages with apt-get."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import places
from lab.commands import TOOL_PATH, run
from lab.errors import LabError, WrongUseError
from lab.state import Kernel

# Package -> a program in TOOL_PATH or an absolute path that shows that it is installed.
NEEDED = {
    "systemd-container": "systemd-nspawn",
    "mmdebstrap": "mmdebstrap",
    "iproute2": "ip",
    "openssh-client": "ssh",
    "apt-cacher-ng": "apt-cacher-ng",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "util-linux": "nsenter",
    "gpg": "gpg",
    "gpg-agent": "gpg-agent",
    "gpgconf": "gpgconf",
    "gcc": "gcc",
    "libc6-dev": "/usr/include/stdio.h",
}
# The same for QEMU machines.
NEEDED_FOR_OWN = {
    "qemu-system-x86": "qemu-system-x86_64",
    "e2fsprogs": "mke2fs",
    "mount": "losetup",
}
# The same for labs with Kubernetes.
NEEDED_FOR_KUBERNETES = {"docker-registry": "docker-registry"}
# Tests on the host itself: whole runs over ssh, packages of RPM, files of network
# interfaces, and rules of packet filters.
NEEDED_FOR_TESTS = {
    "checkpolicy": "checkmodule",
    "createrepo-c": "createrepo_c",
    "dnf": "dnf",
    "dnf-plugins-core": "dnf",  # it has no program of its own: versionlock
    "firewalld": "firewall-offline-cmd",
    "ifupdown": "ifup",
    "netplan.io": "netplan",
    "network-manager": "nmcli",
    "nftables": "nft",
    "openssh-server": "sshd",
    "policycoreutils": "semodule",
    "rpm": "rpmbuild",
    "semodule-utils": "semodule_package",
    "setools": "sesearch",
}
# Packages that would change the network of a host which already has such files: its tests skip.
NOT_BESIDE = {
    "ifupdown": "/etc/network/interfaces",
    "network-manager": "/etc/netplan/*.yaml",
}
# Package -> its units that would start at the next boot.
UNITS = {
    "apt-cacher-ng": ("apt-cacher-ng.service",),
    "docker-registry": ("docker-registry.service",),
    "firewalld": ("firewalld.service",),
    "nftables": ("nftables.service",),
    "openssh-server": ("ssh.service", "ssh.socket"),
    "ifupdown": ("networking.service",),
    "network-manager": (
        *("NetworkManager.service", "NetworkManager-dispatcher.service"),
        "NetworkManager-wait-online.service",
    ),
}
POLICY = Path("/usr/sbin/policy-rc.d")
INSTALL_TIMEOUT_S = 900
DEVICES_FOR_OWN = {"/dev/net/tun": "the networks", "/dev/loop-control": "the disks"}


def systemd_is_pid_1() -> bool:
    """Return whether the host was booted with systemd (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def require_root() -> None:
    """Raise an error if the user is not root: mounts, namespaces and nodes need root.

    Raises:
        WrongUseError: the user is not root.
    """
    if os.geteuid() != 0:
        raise WrongUseError(
            f"this lab command runs as uid {os.geteuid()}; expected root (uid 0)",
            "run the same command with sudo",
        )


def missing_packages(kernel: Kernel, *, tests: bool = False, kubernetes: bool = False) -> list[str]:
    """Return the packages that the host needs for this kind of machines but does not have.

    Args:
        kernel: the kind of machines.
        tests: whether the test suites run on this host.
        kubernetes: whether a lab has Kubernetes.
    """
    needed = {**NEEDED, **NEEDED_FOR_OWN} if kernel == "own" else NEEDED
    if kubernetes:
        needed = {**needed, **NEEDED_FOR_KUBERNETES}
    if tests:
        needed = {**needed, **NEEDED_FOR_TESTS}
        for package, pattern in NOT_BESIDE.items():
            if any(Path("/").glob(pattern.lstrip("/"))):
                needed.pop(package, None)
    return [
        package
        for package, evidence in needed.items()
        if not (
            Path(evidence).exists()
            if evidence.startswith("/")
            else shutil.which(evidence, path=TOOL_PATH)
        )
    ]


def prepare_host(
    kernel: Kernel = "shared", *, tests: bool = False, kubernetes: bool = False
) -> list[str]:
    """Install missing packages; return their names.

    Args:
        kernel: the kind of machines.
        tests: whether the test suites run on this host.
        kubernetes: whether a lab has Kubernetes.

    Raises:
        LabError: the host has no apt-get, or the installation failed.
    """
    require_root()
    missing = missing_packages(kernel, tests=tests, kubernetes=kubernetes)
    if missing:
        _install(missing)
        still = missing_packages(kernel, tests=tests, kubernetes=kubernetes)
        if still:
            raise LabError(f"missing even after the installation: {', '.join(still)}")
    return missing


def _install(packages: list[str]) -> None:
    if shutil.which("apt-get", path=TOOL_PATH) is None:
        raise LabError(
            f"this host lacks the packages {', '.join(packages)} and has no apt-get to install "
            "them; the lab needs Debian or Ubuntu"
        )
    print(f"installing on this host: {' '.join(packages)}", flush=True)
    noninteractive = {"DEBIAN_FRONTEND": "noninteractive"}
    run(
        ["apt-get", "update"],
        what="reading the package lists",
        timeout=INSTALL_TIMEOUT_S,
        environment=noninteractive,
    )
    with _services_stay_down():
        run(
            ["apt-get", "install", "--yes", "--no-install-recommends", *packages],
            what="installing the lab's packages",
            timeout=INSTALL_TIMEOUT_S,
            environment=noninteractive,
        )
    units = [unit for package in packages for unit in UNITS.get(package, ())]
    if units and systemd_is_pid_1():
        # The lab and the tests run their own instances.
        run(["systemctl", "mask", *units], what="masking the services of the packages")


LAB_POLICY = "#!/bin/sh\n# written for one apt-get call by the Lockstep lab\nexit 101\n"


@contextmanager
def _services_stay_down() -> Iterator[None]:
    """Prevent package scripts from starting services, unless the host has its own policy."""
    # The lab's policy may be left from a killed call: use and remove it; it is not the host's.
    if POLICY.exists() and POLICY.read_text() != LAB_POLICY:
        yield
        return
    POLICY.write_text(LAB_POLICY)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def check_host(kernel: Kernel) -> None:
    """Check requirements that no package provides: IPv6, cgroup2, a suitable file system.

    Raises:
        LabError: a requirement is missing; the text has a workaround.
    """
    for interface in ("all", "lo"):
        disabled = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
        if not disabled.exists() or disabled.read_text().strip() != "0":
            raise LabError(
                f"{disabled}: IPv6 is disabled on this host, but the lab's nodes use IPv6 only",
                f"sysctl -w net.ipv6.conf.{interface}.disable_ipv6=0",
            )
    _check_overlay()
    if kernel == "own":
        for device, what in DEVICES_FOR_OWN.items():
            if not Path(device).exists():
                raise LabError(
                    f"{device} does not exist: {what} of QEMU machines need it",
                    "use a host that has it, or run: lockstep lab up --kernel shared",
                )


def _check_overlay() -> None:
    """Mount a small overlay on the file system of the nodes."""
    # Its own for each command: two labs may be booted at the same time.
    trial = places.state_folder() / f".trial-{os.getpid()}"
    if trial.exists():  # left by a killed command
        shutil.rmtree(trial)
    folders = {part: trial / part for part in ("lower", "upper", "work", "root")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    try:
        run(
            [
                *("mount", "-t", "overlay", "lockstep-lab-trial"),
                *(
                    "-o",
                    f"lowerdir={folders['lower']},upperdir={folders['upper']}"
                    f",workdir={folders['work']}",
                ),
                str(folders["root"]),
            ],
            what="trial overlay mount",
        )
    except LabError as refused:
        raise LabError(
            f"{places.state_folder()}: its file system does not support the nodes' overlays "
            f"({refused.problem})",
            f"{places.BASE_VARIABLE}=/folder/on/ext4/or/xfs lockstep lab up",
        ) from refused
    else:
        run(["umount", str(folders["root"])], what="unmounting the trial overlay")
    finally:
        if not os.path.ismount(folders["root"]):
            shutil.rmtree(trial)

"""What the host needs before a lab can be made, and installing it where apt-get can."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import places
from lab.commands import TOOL_PATH, run
from lab.errors import LabError, WrongUseError
from lab.state import Kernel

# Package -> what shows that it is there: a program in TOOL_PATH or an absolute path.
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
}
# The same, for machines with kernels of their own.
NEEDED_FOR_OWN = {
    "qemu-system-x86": "qemu-system-x86_64",
    "e2fsprogs": "mke2fs",
    "mount": "losetup",
}
POLICY = Path("/usr/sbin/policy-rc.d")
INSTALL_TIMEOUT_S = 900
DEVICES_FOR_OWN = {"/dev/net/tun": "the networks", "/dev/loop-control": "the disks"}


def systemd_is_pid_1() -> bool:
    """Whether the host itself was booted with systemd (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def require_root() -> None:
    """Stop early when not root: mounts, namespaces and nodes need it.

    Raises:
        WrongUseError: the caller is another user.
    """
    if os.geteuid() != 0:
        raise WrongUseError(
            f"this lab command runs as uid {os.geteuid()}; expected root (uid 0)",
            "the same command under sudo",
        )


def missing_packages(kernel: Kernel) -> list[str]:
    """Packages whose programs the host lacks for machines of that kind."""
    needed = {**NEEDED, **NEEDED_FOR_OWN} if kernel == "own" else NEEDED
    return [
        package
        for package, evidence in needed.items()
        if not (
            Path(evidence).exists()
            if evidence.startswith("/")
            else shutil.which(evidence, path=TOOL_PATH)
        )
    ]


def prepare_host(kernel: Kernel = "shared") -> list[str]:
    """Install what is missing; return the names of the packages that were installed.

    Raises:
        LabError: no apt-get here, or the installation failed.
    """
    require_root()
    missing = missing_packages(kernel)
    if missing:
        _install(missing)
        still = missing_packages(kernel)
        if still:
            raise LabError(f"still missing after their installation: {', '.join(still)}")
    return missing


def _install(packages: list[str]) -> None:
    if shutil.which("apt-get", path=TOOL_PATH) is None:
        raise LabError(
            f"this host lacks the programs of {', '.join(packages)}, and has no apt-get to install "
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
            what="installing what the lab needs",
            timeout=INSTALL_TIMEOUT_S,
            environment=noninteractive,
        )
    if "apt-cacher-ng" in packages and systemd_is_pid_1():
        # The lab runs its own instance; the package's would start at the next boot.
        run(["systemctl", "mask", "apt-cacher-ng.service"], what="masking the packaged proxy")


OUR_POLICY = "#!/bin/sh\n# written for one apt-get call by the Lockstep lab\nexit 101\n"


@contextmanager
def _services_stay_down() -> Iterator[None]:
    """Keep package scripts from starting services, unless the host has its own policy."""
    # Ours is there when an earlier call was killed: it is used and removed, not taken for theirs.
    if POLICY.exists() and POLICY.read_text() != OUR_POLICY:
        yield
        return
    POLICY.write_text(OUR_POLICY)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def check_host(kernel: Kernel) -> None:
    """Check what no package can give: IPv6, a unified control group, a usable file system.

    Raises:
        LabError: naming what is missing and the way round.
    """
    for interface in ("all", "lo"):
        disabled = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
        if not disabled.exists() or disabled.read_text().strip() != "0":
            raise LabError(
                f"{disabled}: IPv6 is off on this host; the lab's nodes speak IPv6 only",
                f"sysctl -w net.ipv6.conf.{interface}.disable_ipv6=0",
            )
    _check_overlay()
    if kernel == "own":
        for device, what in DEVICES_FOR_OWN.items():
            if not Path(device).exists():
                raise LabError(
                    f"{device} is not there: {what} of machines with kernels of their own need it",
                    "a host that has it; or python -m lab up --kernel shared",
                )


def _check_overlay() -> None:
    """Mount a small overlay where nodes will live."""
    trial = places.state_folder() / ".trial"
    if trial.exists():  # a killed command left it
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
            f"{places.state_folder()}: its file system cannot hold the nodes' overlays "
            f"({refused.problem})",
            f"{places.BASE_VARIABLE}=/folder/on/ext4/or/xfs python -m lab up",
        ) from refused
    else:
        run(["umount", str(folders["root"])], what="unmounting the trial overlay")
    finally:
        if not os.path.ismount(folders["root"]):
            shutil.rmtree(trial)

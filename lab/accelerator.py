"""Chooses between KVM and emulated processors (TCG) for QEMU.

The existence of /dev/kvm proves little: in many virtual machines it exists, but a guest's kernel
crashes or hangs. So the image's own kernel is booted once, and the result is saved.
"""

import os
import re
import select
import subprocess
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lab.commands import tool_environment
from lab.disk_image import DiskImage
from lab.errors import WrongUseError
from lab.processes import boot_id
from lab.state import Accelerator

VARIABLE = "LOCKSTEP_LAB_ACCELERATOR"
ATOM = "family=6,model=28,stepping=10"
ARGUMENTS: dict[Accelerator, tuple[str, ...]] = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": (
        # Without a limit, the translation cache of a machine grows to a gigabyte.
        *("-accel", "tcg,thread=multi,tb-size=256"),
        # Debian needs x86-64-v2, the lab 1 GiB huge pages; TCG supports both. The model number is
        # that of an Atom without speculation: on other CPUs, Linux isolates page tables or avoids
        # branches, and boots take up to three times as long; on AMD's, it does not trust the TSC.
        *(
            "-cpu",
            f"qemu64,vendor=GenuineIntel,{ATOM},+ssse3,+sse4.1,+sse4.2,+popcnt,+pdpe1gb,-svm",
        ),
    ),
}
PROBE_WITHIN_S = 45.0
# The initramfs prints this and waits for a key: the kernel and programs have run.
REACHED = re.compile(rb"Spawning shell within the initramfs")
FAILED = re.compile(rb"KVM internal error|Kernel panic|failed to initialize|Could not access KVM")


class _Found(BaseModel):
    """Result of a trial boot; valid until the host reboots."""

    model_config = ConfigDict(extra="forbid")

    boot_id: str
    accelerator: Accelerator
    why: str


def choose(disks: DiskImage) -> Accelerator:
    """Choose the accelerator for machines that boot the kernel of these disks; print it.

    Raises:
        WrongUseError: the environment variable that overrides the choice is invalid.
    """
    wanted = os.environ.get(VARIABLE)
    for known in ARGUMENTS:
        if wanted == known:
            print(f"processors: {known} (set by {VARIABLE})", flush=True)
            return known
    if wanted:
        raise WrongUseError(
            f"environment variable {VARIABLE}: {wanted!r} is invalid; expected kvm or tcg"
        )
    found = _remembered(disks.accelerator)
    if found is None:
        problem = _kvm_problem(disks)
        found = _Found(
            boot_id=boot_id(),
            accelerator="tcg" if problem else "kvm",
            why=f"emulated: {problem}" if problem else "the image's kernel boots with it",
        )
        disks.accelerator.write_text(found.model_dump_json() + "\n")
    print(f"processors: {found.accelerator} ({found.why})", flush=True)
    return found.accelerator


def _remembered(path: Path) -> _Found | None:
    if not path.exists():
        return None
    try:
        found = _Found.model_validate_json(path.read_text())
    except ValidationError:  # written by another version, or incomplete
        return None
    return found if found.boot_id == boot_id() else None


def _kvm_problem(disks: DiskImage) -> str:
    """Return why KVM cannot be used; empty when the kernel boots with it."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "this host has no /dev/kvm"
    argv = [
        # The trial boot ends with this program, however that ends.
        *("setpriv", "--pdeathsig=KILL", "qemu-system-x86_64"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"),
        *("-machine", "q35", *ARGUMENTS["kvm"], "-smp", "4", "-m", "512", "-no-reboot"),
        *("-kernel", str(disks.kernel), "-initrd", str(disks.initrd)),
        *("-append", "console=ttyS0 panic=-1 break=premount", "-serial", "stdio"),
    ]
    output = b""
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=tool_environment(),
        start_new_session=True,
    ) as trial:
        if trial.stdout is None:
            raise AssertionError("Popen did not return the requested pipe")
        deadline = time.monotonic() + PROBE_WITHIN_S
        try:
            while time.monotonic() < deadline:
                ready, _, _ = select.select([trial.stdout], [], [], 0.5)
                if not ready:
                    continue
                part = os.read(trial.stdout.fileno(), 1 << 16)
                output += part
                if REACHED.search(output):
                    return ""
                failed = FAILED.search(output)
                if failed:
                    return f"with /dev/kvm the image's kernel fails: {failed[0].decode()!r}"
                if not part:
                    last = output.decode(errors="replace").strip().splitlines()[-1:]
                    return f"with /dev/kvm QEMU fails: {' '.join(last)}"
        finally:
            trial.kill()
    return f"with /dev/kvm the image's kernel does not start within {PROBE_WITHIN_S:.0f} s"

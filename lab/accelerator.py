"""Whether QEMU can use the host's processors (KVM) or has to emulate them (TCG).

/dev/kvm being there says little: inside many virtual machines it is, and a guest's kernel dies in
it or hangs. So the image's own kernel is booted once, and what came out is kept.
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
        # Unlimited, the translated code of one machine grows to a gigabyte.
        *("-accel", "tcg,thread=multi,tb-size=256"),
        # What Debian needs (x86-64-v2) and huge pages of 1 GiB, all of which TCG has. By its model
        # number an Atom that never speculated: for others Linux isolates page tables or avoids
        # branches, and boots take up to three times as long; for AMD's, it does not trust the TSC.
        *(
            "-cpu",
            f"qemu64,vendor=GenuineIntel,{ATOM},+ssse3,+sse4.1,+sse4.2,+popcnt,+pdpe1gb,-svm",
        ),
    ),
}
PROBE_WITHIN_S = 45.0
# Written by the initramfs, which then waits for a key: a kernel and programs have run.
REACHED = re.compile(rb"Spawning shell within the initramfs")
FAILED = re.compile(rb"KVM internal error|Kernel panic|failed to initialize|Could not access KVM")


class _Found(BaseModel):
    """What a probe found; it holds until the host boots again."""

    model_config = ConfigDict(extra="forbid")

    boot_id: str
    accelerator: Accelerator
    why: str


def choose(disks: DiskImage) -> Accelerator:
    """What runs machines with these disks' kernel on this host; says so in one line.

    Raises:
        WrongUseError: the variable that overrides the choice holds something else.
    """
    wanted = os.environ.get(VARIABLE)
    for known in ARGUMENTS:
        if wanted == known:
            print(f"processors: {known}, as {VARIABLE} says", flush=True)
            return known
    if wanted:
        raise WrongUseError(
            f"environment variable {VARIABLE}: {wanted!r} is not usable; expected kvm or tcg"
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
    except ValidationError:  # of another version, or cut off
        return None
    return found if found.boot_id == boot_id() else None


def _kvm_problem(disks: DiskImage) -> str:
    """Why KVM is of no use; empty when the kernel boots with it."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "this host has no /dev/kvm"
    argv = [
        # However this program ends, the trial ends with it.
        *("setpriv", "--pdeathsig=KILL", "qemu-system-x86_64"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"),
        *("-machine", "q35", *ARGUMENTS["kvm"], "-smp", "4", "-m", "512", "-no-reboot"),
        *("-kernel", str(disks.kernel), "-initrd", str(disks.initrd)),
        *("-append", "console=ttyS0 panic=-1 break=premount", "-serial", "stdio"),
    ]
    said = b""
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=tool_environment(),
        start_new_session=True,
    ) as trial:
        if trial.stdout is None:
            raise AssertionError("Popen was asked for a pipe")
        deadline = time.monotonic() + PROBE_WITHIN_S
        try:
            while time.monotonic() < deadline:
                ready, _, _ = select.select([trial.stdout], [], [], 0.5)
                if not ready:
                    continue
                part = os.read(trial.stdout.fileno(), 1 << 16)
                said += part
                if REACHED.search(said):
                    return ""
                failed = FAILED.search(said)
                if failed:
                    return f"with /dev/kvm the image's kernel ends in {failed[0].decode()!r}"
                if not part:
                    last = said.decode(errors="replace").strip().splitlines()[-1:]
                    return f"with /dev/kvm QEMU ends: {' '.join(last)}"
        finally:
            trial.kill()
    return f"with /dev/kvm the image's kernel does not start within {PROBE_WITHIN_S:.0f} s"

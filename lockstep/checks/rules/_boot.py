"""Shared by rules about the kernel's command line."""

from __future__ import annotations

from lockstep.checks.cause import Cause, Effect
from lockstep.checks.context import View
from lockstep.checks.repair import DEPLOY, REBOOT, Pending, Repair, by_role

DROP_IN = "/etc/default/grub.d/50-lockstep.cfg"
RUNNING, NEXT = "kernel.cmdline", "kernel.cmdline_persisted"

STARTED_OTHERWISE = "started with other arguments"
STARTED_SO = (
    Cause("kernel.args", of=Effect(tag=STARTED_OTHERWISE)),
    Cause("kernel.args_foreign", of=Effect(tag=STARTED_OTHERWISE)),
)
"""The command line is the finding; the state of the kernel follows from it."""


def own_kernel(view: View) -> bool:
    """Apply to machines with a kernel of their own."""
    return view.plan.hardware.hardware.boot_loader != "none"


def planned_cpus(view: View, isolation: str) -> str:
    """Return the planned CPUs of a kind of isolation; "" for none."""
    hardware = view.plan.hardware
    return hardware.cpu.workload if isolation in hardware.hardware.kernel.isolation else ""


def key(word: object) -> str:
    """Return the name of a kernel argument."""
    return str(word).partition("=")[0]


def given(view: View, reading: str) -> tuple[str, ...]:
    """Return a command line; an unread one is empty."""
    line = view.read(reading)
    return tuple(str(word) for word in line) if isinstance(line, list) else ()


def started_otherwise(view: View, *keys: str) -> frozenset[str]:
    """Return a tag where the kernel was not started with the planned arguments."""
    return frozenset() if _planned(view, RUNNING, keys) else frozenset({STARTED_OTHERWISE})


def waits(view: View, *keys: str) -> bool:
    """Say whether the planned arguments are set for the next boot and not in force."""
    return _planned(view, NEXT, keys) and not _planned(view, RUNNING, keys)


def waiting_argument(*keys: str, peers: str | None = None) -> Repair:
    """Return the repair of what a kernel argument sets."""
    return by_role(
        "boot_loader",
        f"{DEPLOY}, then {REBOOT}",
        peers=peers,
        pending=Pending(
            lambda view, device: waits(view, *keys),
            "The argument is in the boot loader's configuration and waits for a reboot.",
        ),
    )


def _planned(view: View, reading: str, keys: tuple[str, ...]) -> bool:
    wanted = {word for word in view.plan.kernel_args if key(word) in keys}
    known = isinstance(view.read(reading), list)
    return known and {word for word in given(view, reading) if key(word) in keys} == wanted

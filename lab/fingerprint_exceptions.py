"""Exceptions that exist only in the lab: its machines are containers that share a kernel."""

from __future__ import annotations

from lockstep.node.fingerprint.exempt import WHOLE, Exempt

LAB_UNITS = (
    Exempt("running",
           r"(containerd|docker|dbus|systemd-journald)\.service: OOM score adjustment", WHOLE,
           "A container may not lower it (CAP_SYS_RESOURCE)."),
)  # fmt: skip
LAB_KERNEL = (
    Exempt("mount", r"/", "source", "The lab's overlay has the name of the machine."),
    Exempt("mount", r"/proc/kmsg", WHOLE, "systemd-nspawn mounts a file with a random name."),
    Exempt("mount", r"/run/host/incoming(?: #2)?", "folder", "It has the name of the machine."),
    Exempt(
        "mount",
        r"/proc/(?:sys/.*|cmdline|cpuinfo|swaps|irq/.*)|/sys/(?!fs/cgroup$).*",
        WHOLE,
        "systemd-nspawn protects values with mounts, and seeded changes bind /run/seed over them.",
    ),
    Exempt("running", r"mount /tmp", WHOLE, "systemd-nspawn mounts it with options of its own."),
)

EXCEPTIONS = (*LAB_UNITS, *LAB_KERNEL)
"""All of them."""

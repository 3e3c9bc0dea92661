"""Exceptions that exist only in the lab: its machines are containers that share a kernel."""

from __future__ import annotations

from lockstep.node.fingerprint.exempt import Exempt

LAB_UNITS = (
    Exempt("running",
           r"(containerd|docker|dbus|systemd-journald)\.service: OOM score adjustment", "*",
           "A container may not lower it (CAP_SYS_RESOURCE)."),
)  # fmt: skip

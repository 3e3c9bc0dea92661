"""Validates the firmware of a hardware class against the devices that the class has."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.spec.hardware import HardwareClass
from lockstep.spec.problem import Relation


def firmware_relations(hardware: HardwareClass) -> Iterable[Relation]:
    """Return the relations that forbid versions of devices that no node of the class has."""
    firmware = hardware.firmware
    return (
        (
            firmware.vbios is not None and hardware.nvidia_gpu is None,
            ("firmware", "vbios"),
            str(firmware.vbios),
            "leave it out: the class has no NVIDIA GPUs",
        ),
        (
            firmware.rdma is not None and hardware.nics.rdma == "none",
            ("firmware", "rdma"),
            str(firmware.rdma),
            "leave it out: the class has no RDMA devices (nics.rdma)",
        ),
    )

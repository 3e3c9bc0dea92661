"""Readings of recorded healthy GPUs that the capture lacks."""

from __future__ import annotations

from typing import Any

from lockstep.plan import NodePlan

AT_WORK = "worker8"
"""The node with a job; on the others nothing runs."""
WORKING = {
    "gpu.utilization": 100,
    "gpu.memory.used_mib": 32362,
    "gpu.clocks.sm_mhz": 1980,
    "gpu.slowdown.active": 0,
    "gpu.temperature.margin_c": 35,
}
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")


def names(node: NodePlan) -> list[str]:
    """Return the GPUs of a node."""
    return [f"gpu{index}" for index in range(node.gpu.count if node.gpu else 0)]


def healthy(node: NodePlan) -> dict[str, Any]:
    """Return what GPUs in good health say of themselves, each below a PCIe switch of its own."""
    gpu = node.gpu
    assert gpu is not None
    values = {
        "gpu.power.min_w": 200.0,
        "gpu.power.max_w": 700.0,
        "gpu.clocks.memory_mhz": 3201,
        "gpu.clocks.max_memory_mhz": 3201,
        "gpu.inforom.image": "G520.0280.02.02",
        "gpu.inforom.ecc": "7.16",
        "gpu.inforom.checksum": "valid",
        "gpu.gsp.current": "Enabled",
        "gpu.gsp.default": "Enabled",
        "gpu.addressing": "None",
        "gpu.accounting": "Disabled",
        "gpu.clocks.application_sm_mhz": 1980,
        "gpu.clocks.application_memory_mhz": 3201,
        "gpu.clocks.default_sm_mhz": 1980,
        "gpu.clocks.default_memory_mhz": 3201,
        "gpu.memory.protected_mib": 0,
        "gpu.silent": "",
        "gpu.slowdown.active": 1,
        "gpu.slowdown.power_cap_us": 0,
        "gpu.slowdown.power_brake_us": 0,
        "gpu.slowdown.thermal_hw_us": 0,
        "gpu.slowdown.thermal_sw_us": 0,
        "gpu.temperature.margin_c": 59,
        "gpu.pcie.generation": 5,
        "gpu.pcie.generation_max": 5,
        "gpu.ecc.corrected_volatile": 0,
        "gpu.ecc.uncorrected_aggregate": 0,
        "gpu.ecc.sram_threshold": "No",
        "gpu.remapped.uncorrectable": 0,
        "gpu.remapped.banks_without_spare": 0,
        "gpu.nvlink.links": {str(link): "26.562 GB/s" for link in range(18)},
        "gpu.nvlink.replay": 0,
        "gpu.nvlink.recovery": 0,
        "gpu.nvlink.crc": 0,
        # Other models have these, so that their rules can be tested on the same nodes.
        "gpu.fabric.health": "Healthy",
        "gpu.retired.pending": "No",
        "gpu.nvlink.packet": 0,
        "gpu.nvlink.symbol": 0,
    }
    gpus = names(node)
    slots = [f"0000:{bus}:00.0" for bus in BUSES[: gpu.count]]
    # Of each switch: the port towards the root, and the one towards the GPU.
    uplinks, ports = (
        [f"0000:{int(bus, 16) - below:02x}:00.0" for bus in BUSES[: gpu.count]] for below in (2, 1)
    )
    path = dict.fromkeys([*slots, *ports, *uplinks], 0)
    return {
        **{reading: dict.fromkeys(gpus, value) for reading, value in values.items()},
        "gpu.answered_in_s": 0.3,
        "gpu.topology": {
            **{f"{a} {b}": "NV18" for a in gpus for b in gpus if a < b},
            **{f"{a} mlx5_{i}": "PIX" if i == 0 else "SYS" for a in gpus for i in range(2)},
        },
        "gpu.pci.boards": dict.fromkeys(slots, "0x2335"),
        "gpu.pci.bar_mib": dict.fromkeys(slots, 262144),
        "gpu.pci.numa_node": {slot: int(i >= 4) for i, slot in enumerate(slots)},
        "gpu.pci.iommu": dict.fromkeys(slots, "identity"),
        "gpu.pci.width": dict.fromkeys(uplinks, 16.0),
        "gpu.pci.width_max": dict.fromkeys(uplinks, 16.0),
        "gpu.pci.speed": dict.fromkeys(uplinks, 32.0),
        "gpu.pci.speed_max": dict.fromkeys(uplinks, 32.0),
        "gpu.pci.slot_width": dict.fromkeys(slots, 16.0),
        "gpu.pci.redirects": dict.fromkeys(ports, False),
        **{f"gpu.pci.{kind}": dict(path) for kind in ("correctable", "nonfatal", "fatal")},
        "driver.parameters": {"EnableMSI": "1", "EnableGpuFirmware": "18", "RegistryDwords": ""},
        "driver.helpers": ["gdrdrv"],
        "driver.sxid": {},
    }

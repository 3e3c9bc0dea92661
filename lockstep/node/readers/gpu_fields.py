"""The values of a GPU that nvidia-smi prints, by their names in ``nvidia-smi --help-query-gpu``."""

from __future__ import annotations

GPU_FIELDS = (
    # reading, nvidia-smi's name, type
    ("gpu.name", "name", str),
    ("gpu.uuid", "uuid", str),
    ("gpu.pci_bus_id", "pci.bus_id", str),
    ("gpu.vbios", "vbios_version", str),
    ("gpu.driver_version", "driver_version", str),
    ("gpu.power.enforced_w", "enforced.power.limit", float),
    ("gpu.power.default_w", "power.default_limit", float),
    ("gpu.persistence", "persistence_mode", str),
    ("gpu.mig.current", "mig.mode.current", str),
    ("gpu.compute_mode", "compute_mode", str),
    ("gpu.pcie.width_current", "pcie.link.width.current", int),
    ("gpu.pcie.width_max", "pcie.link.width.max", int),
    ("gpu.clocks.max_sm_mhz", "clocks.max.sm", int),
    ("gpu.memory.total_mib", "memory.total", int),
    ("gpu.power.requested_w", "power.limit", float),
    ("gpu.mig.pending", "mig.mode.pending", str),
    ("gpu.clocks.sm_mhz", "clocks.current.sm", int),
    ("gpu.pstate", "pstate", str),
    ("gpu.utilization", "utilization.gpu", int),
    ("gpu.memory.used_mib", "memory.used", int),
    ("gpu.recovery_action", "gpu_recovery_action", str),
    ("gpu.ecc.uncorrected_volatile", "ecc.errors.uncorrected.volatile.total", int),
    ("gpu.fabric.state", "fabric.state", str),
    ("gpu.fabric.status", "fabric.status", str),
)
REASONS, COUNTERS = "clocks_event_reasons.", "clocks_event_reasons_counters."
GPU_OPTIONAL_FIELDS = (
    # The same for fields that many models lack.
    ("gpu.serial", "serial", str),
    ("gpu.ecc.current", "ecc.mode.current", str),
    ("gpu.ecc.pending", "ecc.mode.pending", str),
    ("gpu.remapped.pending", "remapped_rows.pending", str),
    ("gpu.remapped.failure", "remapped_rows.failure", str),
    ("gpu.power.min_w", "power.min_limit", float),
    ("gpu.power.max_w", "power.max_limit", float),
    ("gpu.clocks.memory_mhz", "clocks.current.memory", int),
    ("gpu.clocks.max_memory_mhz", "clocks.max.memory", int),
    ("gpu.inforom.image", "inforom.img", str),
    ("gpu.inforom.ecc", "inforom.ecc", str),
    ("gpu.inforom.checksum", "inforom.checksum_validation", str),
    ("gpu.gsp.current", "gsp.mode.current", str),
    ("gpu.gsp.default", "gsp.mode.default", str),
    ("gpu.addressing", "addressing_mode", str),
    ("gpu.accounting", "accounting.mode", str),
    ("gpu.clocks.application_sm_mhz", "clocks.applications.graphics", int),
    ("gpu.clocks.application_memory_mhz", "clocks.applications.memory", int),
    ("gpu.clocks.default_sm_mhz", "clocks.default_applications.graphics", int),
    ("gpu.clocks.default_memory_mhz", "clocks.default_applications.memory", int),
    ("gpu.memory.protected_mib", "protected_memory.total", int),
    ("gpu.slowdown.active", REASONS + "active", lambda text: int(text, 16)),
    ("gpu.slowdown.power_cap_us", COUNTERS + "sw_power_cap", int),
    ("gpu.slowdown.power_brake_us", COUNTERS + "hw_power_brake_slowdown", int),
    ("gpu.slowdown.thermal_hw_us", COUNTERS + "hw_thermal_slowdown", int),
    ("gpu.slowdown.thermal_sw_us", COUNTERS + "sw_thermal_slowdown", int),
    ("gpu.temperature.margin_c", "temperature.gpu.tlimit", int),
    ("gpu.pcie.generation", "pcie.link.gen.current", int),
    ("gpu.pcie.generation_max", "pcie.link.gen.max", int),
    ("gpu.ecc.corrected_volatile", "ecc.errors.corrected.volatile.total", int),
    ("gpu.ecc.uncorrected_aggregate", "ecc.errors.uncorrected.aggregate.total", int),
    (
        "gpu.ecc.sram_threshold",
        "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
        str,
    ),
    ("gpu.remapped.uncorrectable", "remapped_rows.uncorrectable", int),
    ("gpu.remapped.banks_without_spare", "remapped_rows.histogram.none", int),
    ("gpu.fabric.cluster", "fabric.clusterUuid", str),
    ("gpu.fabric.clique", "fabric.cliqueId", str),
    ("gpu.fabric.health", "fabric.health.summary", str),
    ("gpu.retired.pending", "retired_pages.pending", str),
)
EVERY = (*GPU_FIELDS, *GPU_OPTIONAL_FIELDS)
GPU_READINGS = tuple(name for name, _, _ in EVERY)
ALWAYS = ("gpu.name", "gpu.uuid", "gpu.pci_bus_id", "gpu.driver_version")
"""Readings that every GPU has. Others are missing on some GPU: a virtual GPU has no power limit, no
PCIe link and no VBIOS, a GPU that shares the CPU's memory has no size of its own."""
SENSORS = ("power.draw", "temperature.gpu")
"""Fields that are asked to see whether the GPU still answers; their values are not kept."""
ANSWERED = (
    *SENSORS,
    *("pstate", "enforced.power.limit", "clocks.current.sm", "utilization.gpu", "memory.used"),
)
"""Fields for which an error of the driver means that the GPU does not answer it."""
RESET_STATUS = ("reset_status.reset_required", "reset_status.drain_and_reset_recommended")
"""What the branches from 535 on offer that do not have gpu_recovery_action yet (before 570)."""

FIRST_BRANCH = 580
"""All older branches lack some of these fields: the programs 418 to 555 say so, and recorded
answers of 565 and 570 have no summary of the fabric's health."""
OLDER = {REASONS + "active": "clocks_throttle_reasons.active"}
"""Field -> its name in the branches before 535."""
REMAPPED = ("remapped_rows.pending", "remapped_rows.failure", "remapped_rows.uncorrectable")
"""What ``--query-remapped-rows`` offers; ``--query-gpu`` of 450 to 555 has none of them."""

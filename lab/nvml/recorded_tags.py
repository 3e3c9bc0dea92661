"""Elements of ``nvidia-smi -q -x`` and the keys of the state file that hold their values.

A line: path below ``gpu`` | key | kind. No key: the state has no place for the value. The paths are
those of the DTDs in nvidia-smi 418 to 555 (the program's own text) and, for newer ones, of recorded
answers of 570 to 595. Of several elements with one key, the first counts.

Kinds: ``text``; ``count`` (a whole number); ``hex`` (``1B`` becomes ``0x1B``); ``lanes`` (``16x``);
``banks``; ``percent`` (``100.00%``); or the unit that follows the number.
"""

from __future__ import annotations

REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
"""Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReasons)."""

_TABLE = """\
product_name|name|text
product_brand|product_brand|text
product_architecture|product_architecture|text
display_mode|display_mode|text
display_attached|display_attached|text
display_active|display_active|text
persistence_mode|persistence_mode|text
addressing_mode|addressing_mode|text
mig_mode/current_mig|mig.mode.current|text
mig_mode/pending_mig|mig.mode.pending|text
accounting_mode|accounting.mode|text
accounting_mode_buffer_size|accounting.buffer_size|count
driver_model/current_dm|driver_model.current|text
driver_model/pending_dm|driver_model.pending|text
serial|serial|text
uuid|uuid|text
pdi|gpu_pdi|text
minor_number|minor_number|count
vbios_version|vbios_version|text
multigpu_board||text
board_id|board_id|text
board_part_number|board_part_number|text
gpu_part_number|gpu_part_number|text
gpu_fru_part_number||text
gpu_module_id|platform.module_id|count
platformInfo/chassis_serial_number|platform.chassis_serial_number|text
platformInfo/slot_number|platform.slot_number|count
platformInfo/tray_index|platform.tray_index|count
platformInfo/host_id|platform.host_id|count
platformInfo/peer_type|platform.peer_type|text
platformInfo/module_id|platform.module_id|count
platformInfo/gpu_fabric_guid|platform.gpu_fabric_guid|text
inforom_version/img_version|inforom.img|text
inforom_version/oem_object|inforom.oem|text
inforom_version/ecc_object|inforom.ecc|text
inforom_version/pwr_object|inforom.pwr|text
inforom_bbx_flush/latest_timestamp||text
inforom_bbx_flush/latest_duration||us
gpu_operation_mode/current_gom|gom.current|text
gpu_operation_mode/pending_gom|gom.pending|text
c2c_mode|c2c.mode|text
gpu_virtualization_mode/virtualization_mode|virtualization_mode|text
gpu_virtualization_mode/host_vgpu_mode||text
gpu_virtualization_mode/vgpu_heterogeneous_mode||text
vgpu_device_capability/fractional_multiVgpu||text
vgpu_device_capability/heterogeneous_timeSlice_profile||text
vgpu_device_capability/heterogeneous_timeSlice_sizes||text
grid_licensed_product/licensed_product_name||text
grid_licensed_product/license_status||text
vgpu_software_licensed_product/licensed_product_name||text
vgpu_software_licensed_product/license_status||text
gpu_reset_status/reset_required|reset_status.reset_required|text
gpu_reset_status/drain_and_reset_recommended|reset_status.drain_and_reset_recommended|text
gpu_recovery_action|gpu_recovery_action|text
gsp_firmware_version|gsp.firmware|text
ibmnpu/relaxed_ordering_mode||text
pci/pci_bus|pci.bus|hex
pci/pci_device|pci.device|hex
pci/pci_domain|pci.domain|hex
pci/pci_base_class|pci.baseClass|hex
pci/pci_sub_class|pci.subClass|hex
pci/pci_device_id|pci.device_id|hex
pci/pci_bus_id|pci.bus_id|text
pci/pci_sub_system_id|pci.sub_device_id|hex
pci/pci_gpu_link_info/pcie_gen/max_link_gen|pcie.link.gen.max|count
pci/pci_gpu_link_info/pcie_gen/current_link_gen|pcie.link.gen.current|count
pci/pci_gpu_link_info/pcie_gen/device_current_link_gen|pcie.link.gen.gpucurrent|count
pci/pci_gpu_link_info/pcie_gen/max_device_link_gen|pcie.link.gen.gpumax|count
pci/pci_gpu_link_info/pcie_gen/max_host_link_gen|pcie.link.gen.hostmax|count
pci/pci_gpu_link_info/link_widths/max_link_width|pcie.link.width.max|lanes
pci/pci_gpu_link_info/link_widths/current_link_width|pcie.link.width.current|lanes
pci/pci_bridge_chip/bridge_chip_type||text
pci/pci_bridge_chip/bridge_chip_fw||text
pci/replay_counter|pcie.replays|count
pci/replay_rollover_counter|pcie.replay_rollovers|count
pci/tx_util|pcie.tx_util|KB/s
pci/rx_util|pcie.rx_util|KB/s
pci/atomic_caps_inbound||text
pci/atomic_caps_outbound||text
fan_speed|fan.speed|%
performance_state|pstate|text
sparse_operation_mode|sparse_operation_mode|text
fb_memory_usage/total|memory.total|MiB
fb_memory_usage/reserved|memory.reserved|MiB
fb_memory_usage/used|memory.used|MiB
fb_memory_usage/free|memory.free|MiB
bar1_memory_usage/total|bar1.total|MiB
bar1_memory_usage/used|bar1.used|MiB
bar1_memory_usage/free|bar1.free|MiB
cc_protected_memory_usage/total|protected_memory.total|MiB
cc_protected_memory_usage/used|protected_memory.used|MiB
cc_protected_memory_usage/free|protected_memory.free|MiB
compute_mode|compute_mode|text
utilization/gpu_util|utilization.gpu|%
utilization/memory_util|utilization.memory|%
utilization/encoder_util|utilization.encoder|%
utilization/decoder_util|utilization.decoder|%
utilization/jpeg_util|utilization.jpeg|%
utilization/ofa_util|utilization.ofa|%
encoder_stats/session_count|encoder.stats.sessionCount|count
encoder_stats/average_fps|encoder.stats.averageFps|count
encoder_stats/average_latency|encoder.stats.averageLatency|count
fbc_stats/session_count||count
fbc_stats/average_fps||count
fbc_stats/average_latency||count
dram_encryption_mode/current_dram_encryption|dramEncryption.mode.current|text
dram_encryption_mode/pending_dram_encryption|dramEncryption.mode.pending|text
ecc_mode/current_ecc|ecc.mode.current|text
ecc_mode/pending_ecc|ecc.mode.pending|text
ecc_errors/aggregate/sram_threshold_exceeded\
|ecc.errors.uncorrected.aggregate.sram.thresholdExceeded|text
ecc_errors/aggregate_uncorrectable_sram_sources/sram_l2\
|ecc.errors.uncorrected.aggregate.sram.l2|count
ecc_errors/aggregate_uncorrectable_sram_sources/sram_sm\
|ecc.errors.uncorrected.aggregate.sram.sm|count
ecc_errors/aggregate_uncorrectable_sram_sources/sram_microcontroller\
|ecc.errors.uncorrected.aggregate.sram.mcu|count
ecc_errors/aggregate_uncorrectable_sram_sources/sram_pcie\
|ecc.errors.uncorrected.aggregate.sram.pcie|count
ecc_errors/aggregate_uncorrectable_sram_sources/sram_other\
|ecc.errors.uncorrected.aggregate.sram.other|count
ecc_errors/channel_repair_pending|ecc.channel_repair_pending|text
ecc_errors/tpc_repair_pending|ecc.tpc_repair_pending|text
ecc_errors/unrepairable_memory|ecc.unrepairable_memory|text
retired_pages/multiple_single_bit_retirement/retired_count\
|retired_pages.single_bit_ecc.count|count
retired_pages/double_bit_retirement/retired_count|retired_pages.double_bit.count|count
retired_pages/pending_blacklist|retired_pages.pending|text
retired_pages/pending_retirement|retired_pages.pending|text
remapped_rows||text
remapped_rows/remapped_row_corr|remapped_rows.correctable|count
remapped_rows/remapped_row_corr_inactive|remapped_rows.correctable_inactive|count
remapped_rows/remapped_row_unc|remapped_rows.uncorrectable|count
remapped_rows/remapped_row_unc_inactive|remapped_rows.uncorrectable_inactive|count
remapped_rows/remapped_row_pending|remapped_rows.pending|text
remapped_rows/remapped_row_failure|remapped_rows.failure|text
temperature/gpu_temp|temperature.gpu|C
temperature/gpu_temp_tlimit|temperature.gpu.tlimit|C
temperature/gpu_temp_max_threshold|temperature.shutdown|C
temperature/gpu_temp_slow_threshold|temperature.slowdown|C
temperature/gpu_temp_max_gpu_threshold|temperature.max_operating|C
temperature/gpu_temp_max_mem_threshold|temperature.memory_max_operating|C
temperature/gpu_temp_max_tlimit_threshold|temperature.shutdown_tlimit|C
temperature/gpu_temp_slow_tlimit_threshold|temperature.slowdown_tlimit|C
temperature/gpu_temp_max_gpu_tlimit_threshold|temperature.max_operating_tlimit|C
temperature/gpu_temp_max_mem_tlimit_threshold|temperature.memory_max_operating_tlimit|C
temperature/gpu_target_temperature||C
temperature/memory_temp|temperature.memory|C
supported_gpu_target_temp/gpu_target_temp_min||C
supported_gpu_target_temp/gpu_target_temp_max||C
power_readings/power_state|pstate|text
power_readings/power_management|power.management|text
power_readings/power_draw|power.draw|W
power_readings/power_limit|power.limit|W
power_readings/default_power_limit|power.default_limit|W
power_readings/enforced_power_limit|enforced.power.limit|W
power_readings/min_power_limit|power.min_limit|W
power_readings/max_power_limit|power.max_limit|W
gpu_power_readings/power_state|pstate|text
gpu_power_readings/power_draw|power.draw|W
gpu_power_readings/average_power_draw|power.draw.average|W
gpu_power_readings/instant_power_draw|power.draw.instant|W
gpu_power_readings/current_power_limit|enforced.power.limit|W
gpu_power_readings/requested_power_limit|power.limit|W
gpu_power_readings/default_power_limit|power.default_limit|W
gpu_power_readings/min_power_limit|power.min_limit|W
gpu_power_readings/max_power_limit|power.max_limit|W
gpu_memory_power_readings/power_draw|memory_power.draw.average|W
gpu_memory_power_readings/average_power_draw|memory_power.draw.average|W
gpu_memory_power_readings/instant_power_draw||W
module_power_readings/power_state|pstate|text
module_power_readings/power_draw|module.power.draw.average|W
module_power_readings/average_power_draw|module.power.draw.average|W
module_power_readings/instant_power_draw|module.power.draw.instant|W
module_power_readings/current_power_limit|module.enforced.power.limit|W
module_power_readings/requested_power_limit|module.power.limit|W
module_power_readings/default_power_limit|module.power.default_limit|W
module_power_readings/min_power_limit|module.power.min_limit|W
module_power_readings/max_power_limit|module.power.max_limit|W
power_smoothing||text
power_profiles/power_profile_requested_profiles||text
power_profiles/power_profile_enforced_profiles||text
edpp_multiplier|edpp_multiplier|percent
clocks/graphics_clock|clocks.current.graphics|MHz
clocks/sm_clock|clocks.current.sm|MHz
clocks/mem_clock|clocks.current.memory|MHz
clocks/video_clock|clocks.current.video|MHz
applications_clocks/graphics_clock|clocks.applications.graphics|MHz
applications_clocks/mem_clock|clocks.applications.memory|MHz
default_applications_clocks/graphics_clock|clocks.default_applications.graphics|MHz
default_applications_clocks/mem_clock|clocks.default_applications.memory|MHz
deferred_clocks/mem_clock||MHz
max_clocks/graphics_clock|clocks.max.graphics|MHz
max_clocks/sm_clock|clocks.max.sm|MHz
max_clocks/mem_clock|clocks.max.memory|MHz
max_clocks/video_clock|clocks.max.video|MHz
max_customer_boost_clocks/graphics_clock|clocks.max_customer_boost.graphics|MHz
clock_policy/auto_boost||text
clock_policy/auto_boost_default||text
voltage/graphics_volt||mV
fabric/state|fabric.state|text
fabric/status|fabric.status|text
fabric/cliqueId|fabric.cliqueId|count
fabric/clusterUuid|fabric.clusterUuid|text
fabric/health/summary|fabric.health.summary|text
fabric/health/bandwidth|fabric.health.bandwidth|text
fabric/health/route_recovery_in_progress|fabric.health.route_recovery_in_progress|text
fabric/health/route_unhealthy|fabric.health.route_unhealthy|text
fabric/health/access_timeout_recovery|fabric.health.access_timeout_recovery|text
fabric/health/incorrect_configuration|fabric.health.incorrect_configuration|text
fabric/health/partition_assigned||text
capabilities/egm||text
"""

LISTS = ("mig_devices", "processes", "accounted_processes", "supported_clocks")
"""Elements with entries that repeat; the rest is one value per path."""
PAGES = ("retired_pages/multiple_single_bit_retirement", "retired_pages/double_bit_retirement")
COUNTERS = {
    "sw_power_cap": "sw_power_cap",
    "sync_boost": "sync_boost",
    "sw_therm_slowdown": "sw_thermal_slowdown",
    "hw_therm_slowdown": "hw_thermal_slowdown",
    "hw_power_brake": "hw_power_brake_slowdown",
}
BITS = {"single_bit": "corrected", "double_bit": "uncorrected"}
CACHES = ("device_memory", "register_file", "l1_cache", "l2_cache", "texture_memory", "cbu")
SRAM = {
    "sram_correctable": "corrected.{}.sram",
    "dram_correctable": "corrected.{}.dram",
    "sram_uncorrectable": "uncorrected.{}.sram",
    "sram_uncorrectable_parity": "uncorrected.{}.sram.parity",
    "sram_uncorrectable_secded": "uncorrected.{}.sram.secded",
    "dram_uncorrectable": "uncorrected.{}.dram",
}


def _paths() -> dict[str, tuple[str, str]]:
    paths: dict[str, tuple[str, str]] = {}
    for line in _TABLE.splitlines():
        path, key, kind = line.split("|")
        paths[path] = (key, kind)
    for spelling in ("throttle", "event"):
        group = f"clocks_{spelling}_reasons/clocks_{spelling}_reason_"
        for reason in REASONS:
            paths[group + reason] = (f"clocks_event_reasons.{reason}", "text")
        paths[f"{group}unknown"] = ("", "text")
    for tag, name in COUNTERS.items():
        path = f"clocks_event_reasons_counters/clocks_event_reasons_counters_{tag}"
        paths[path] = (f"clocks_event_reasons_counters.{name}", "us")
    for scope in ("volatile", "aggregate"):
        for tag, key in SRAM.items():
            paths[f"ecc_errors/{scope}/{tag}"] = (f"ecc.errors.{key.format(scope)}", "count")
        for bit, kind in BITS.items():
            for cache in (*CACHES, "total"):
                key = f"ecc.errors.{kind}.{scope}.{cache}"
                paths[f"ecc_errors/{scope}/{bit}/{cache}"] = (key, "count")
            paths[f"ecc_errors/{scope}/{bit}/texture_shm"] = ("", "count")
    for level in ("max", "high", "partial", "low", "none"):
        path = f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{level}"
        paths[path] = (f"remapped_rows.histogram.{level}", "banks")
    return paths


PATHS = _paths()
"""Path of an element below ``gpu`` -> key of the state ("" if there is none) and kind."""

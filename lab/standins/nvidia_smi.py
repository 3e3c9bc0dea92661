#!/usr/bin/python3 -IS
"""A simulated ``nvidia-smi`` for lab nodes: eight H200 GPUs (HGX, SXM, NVSwitch) in a state file.

One file, standard library only, Python 3.9 or newer. It is a node's ``/usr/bin/nvidia-smi``, or a
module that this program imports to save the compilation.

Its answers come from a state file (``$LOCKSTEP_STANDIN_STATE``, else
``/var/lib/lockstep-standin/gpus.json``), which the lab changes with these commands::

    nvidia_smi.py --standin-new-state [--count 8] --seed NAME > gpus.json
    nvidia_smi.py --standin-set FILE GPU|all|node NAME=VALUE...
    nvidia_smi.py --standin-remove FILE GPU        (off the bus; the others are renumbered)
    nvidia_smi.py --standin-restore FILE GPU
    nvidia_smi.py --standin-reset FILE             (restore the initial state)
    nvidia_smi.py --standin-show FILE              (show changes since the initial state)
    nvidia_smi.py --standin-boot FILE              (simulate the effects of a reboot)

GPU is the slot, which never changes, not the index that ``nvidia-smi -L`` prints. NAME is a field
of ``--query-gpu``, one of the additional names in EXTRAS below (``minor_number``, ``cpu_affinity``,
``nvlink.3.speed``...), or ``lost`` (``yes``: fallen off the bus). Only the named field changes:
``enforced.power.limit=350`` does not change ``power.limit``, like a BMC's power cap on a real GPU.
A bare number gets the unit of the field. For ``node`` see NODE_DEFAULTS.
These commands exit 0; 2 for wrong usage; 3 for a name, GPU or value that does not exist.

Formats and values are those of a recorded H200 (driver 590.48.01). Error messages and exit codes
come from the real program, 550.163.01, or from published output; docstrings and comments mark
assumptions. ``$LOCKSTEP_STANDIN_EUID`` replaces the effective user id,
``$LOCKSTEP_STANDIN_ROOT`` the root folder (for tests).

On a node, the versions of driver and library come from /proc/driver/nvidia/version and the target
of libnvidia-ml.so.1. If they differ, every call fails like the real program. Values that are set
for ``node`` take precedence.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

DEFAULT_STATE = "/var/lib/lockstep-standin/gpus.json"
LOADED = "proc/driver/nvidia/version"
LIBRARY = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
NOT_AVAILABLE = "[N/A]"
DEPRECATED = "[Requested functionality has been deprecated]"

# Exit codes from the manual page ("RETURN VALUE"); 18 was observed, but is not documented.
EXIT_INVALID = 2
EXIT_PERMISSION = 4
EXIT_NOT_FOUND = 6
EXIT_NO_DRIVER = 9
EXIT_NO_LIBRARY = 12
EXIT_GPU_LOST = 15
EXIT_MISMATCH = 18
EXIT_OTHER = 255

EXIT_USAGE = 2
EXIT_UNKNOWN_NAME = 3

# name | alias | unit | value of a healthy idle GPU. "~" is [N/A], "!" is the text for deprecated
# fields, "?" differs between GPUs or is computed. load_catalogue() adds the names
# clocks_throttle_reasons.*.
CATALOGUE = """\
timestamp|||?
driver_version|||?
vgpu_driver_capability.heterogenous_multivGPU|||~
count|||?
name|gpu_name||NVIDIA H200
serial|gpu_serial||?
uuid|gpu_uuid||?
pci.bus_id|gpu_bus_id||?
pci.domain|||0x0000
pci.bus|||?
pci.device|||0x00
pci.baseClass|||0x3
pci.subClass|||0x2
pci.device_id|||0x233510DE
pci.sub_device_id|||0x18BE10DE
vgpu_device_capability.fractional_multiVgpu|||~
vgpu_device_capability.heterogeneous_timeSlice_profile|||~
vgpu_device_capability.heterogeneous_timeSlice_sizes|||~
vgpu_device_capability.homogeneous_placements|||~
vgpu_device_capability.mig_timeSlicing|||~
vgpu_device_capability.mig_timeSlicing_mode|||~
pcie.link.gen.current|||5
pcie.link.gen.gpucurrent|||5
pcie.link.gen.max|||5
pcie.link.gen.gpumax|||5
pcie.link.gen.hostmax|||~
pcie.link.width.current|||16
pcie.link.width.max|||16
index|||?
display_mode|||!
display_attached|||Yes
display_active|||Disabled
persistence_mode|||Enabled
addressing_mode|||None
accounting.mode|||Disabled
accounting.buffer_size|||4000
driver_model.current|||~
driver_model.pending|||~
vbios_version|||96.00.A5.00.03
inforom.img|inforom.image||G520.0280.02.02
inforom.oem|||2.1
inforom.ecc|||7.16
inforom.pwr|inforom.power||~
inforom.checksum_validation|||valid
gpu_recovery_action|||None
gom.current|gpu_operation_mode.current||~
gom.pending|gpu_operation_mode.pending||~
fan.speed||%|~
pstate|||P0
clocks_event_reasons.supported|||0x00000000000001FF
clocks_event_reasons.active|||0x0000000000000001
clocks_event_reasons.gpu_idle|||Active
clocks_event_reasons.applications_clocks_setting|||Not Active
clocks_event_reasons.sw_power_cap|||Not Active
clocks_event_reasons.hw_slowdown|||Not Active
clocks_event_reasons.hw_thermal_slowdown|||Not Active
clocks_event_reasons.hw_power_brake_slowdown|||Not Active
clocks_event_reasons.sw_thermal_slowdown|||Not Active
clocks_event_reasons.sync_boost|||Not Active
clocks_event_reasons_counters.sw_power_cap||us|0
clocks_event_reasons_counters.sync_boost||us|0
clocks_event_reasons_counters.sw_thermal_slowdown||us|0
clocks_event_reasons_counters.hw_thermal_slowdown||us|0
clocks_event_reasons_counters.hw_power_brake_slowdown||us|0
memory.total||MiB|143771
memory.reserved||MiB|614
memory.used||MiB|0
memory.free||MiB|143158
compute_mode|||Default
compute_cap|||9.0
utilization.gpu||%|0
utilization.memory||%|0
utilization.encoder||%|0
utilization.decoder||%|0
utilization.jpeg||%|0
utilization.ofa||%|0
encoder.stats.sessionCount|||0
encoder.stats.averageFps|||0
encoder.stats.averageLatency|||0
dramEncryption.mode.current|||~
dramEncryption.mode.pending|||~
ecc.mode.current|||Enabled
ecc.mode.pending|||Enabled
ecc.errors.corrected.volatile.device_memory|||0
ecc.errors.corrected.volatile.dram|||0
ecc.errors.corrected.volatile.register_file|||~
ecc.errors.corrected.volatile.l1_cache|||~
ecc.errors.corrected.volatile.l2_cache|||~
ecc.errors.corrected.volatile.texture_memory|||~
ecc.errors.corrected.volatile.cbu|||~
ecc.errors.corrected.volatile.sram|||0
ecc.errors.corrected.volatile.total|||0
ecc.errors.corrected.aggregate.device_memory|||0
ecc.errors.corrected.aggregate.dram|||0
ecc.errors.corrected.aggregate.register_file|||~
ecc.errors.corrected.aggregate.l1_cache|||~
ecc.errors.corrected.aggregate.l2_cache|||~
ecc.errors.corrected.aggregate.texture_memory|||~
ecc.errors.corrected.aggregate.cbu|||~
ecc.errors.corrected.aggregate.sram|||0
ecc.errors.corrected.aggregate.total|||0
ecc.errors.uncorrected.volatile.device_memory|||0
ecc.errors.uncorrected.volatile.dram|||0
ecc.errors.uncorrected.volatile.register_file|||~
ecc.errors.uncorrected.volatile.l1_cache|||~
ecc.errors.uncorrected.volatile.l2_cache|||~
ecc.errors.uncorrected.volatile.texture_memory|||~
ecc.errors.uncorrected.volatile.cbu|||~
ecc.errors.uncorrected.volatile.sram|||0
ecc.errors.uncorrected.volatile.total|||0
ecc.errors.uncorrected.aggregate.device_memory|||0
ecc.errors.uncorrected.aggregate.dram|||0
ecc.errors.uncorrected.aggregate.register_file|||~
ecc.errors.uncorrected.aggregate.l1_cache|||~
ecc.errors.uncorrected.aggregate.l2_cache|||~
ecc.errors.uncorrected.aggregate.texture_memory|||~
ecc.errors.uncorrected.aggregate.cbu|||~
ecc.errors.uncorrected.aggregate.sram|||0
ecc.errors.uncorrected.aggregate.total|||0
ecc.errors.uncorrected.volatile.sram.parity|||0
ecc.errors.uncorrected.volatile.sram.secded|||0
ecc.errors.uncorrected.aggregate.sram.parity|||0
ecc.errors.uncorrected.aggregate.sram.secded|||0
ecc.errors.uncorrected.aggregate.sram.thresholdExceeded|||No
ecc.errors.uncorrected.aggregate.sram.l2|||0
ecc.errors.uncorrected.aggregate.sram.sm|||0
ecc.errors.uncorrected.aggregate.sram.mcu|||0
ecc.errors.uncorrected.aggregate.sram.pcie|||0
ecc.errors.uncorrected.aggregate.sram.other|||0
retired_pages.single_bit_ecc.count|retired_pages.sbe||~
retired_pages.double_bit.count|retired_pages.dbe||~
retired_pages.pending|||~
remapped_rows.correctable|remapped_rows.sbe||0
remapped_rows.uncorrectable|remapped_rows.dbe||0
remapped_rows.pending|||No
remapped_rows.failure|||No
remapped_rows.histogram.max|||3072
remapped_rows.histogram.high|||0
remapped_rows.histogram.partial|||0
remapped_rows.histogram.low|||0
remapped_rows.histogram.none|||0
temperature.gpu|||?
temperature.gpu.tlimit|||?
temperature.memory|||?
power.management|||!
power.draw||W|?
power.draw.average|gpu.power.draw.average|W|?
power.draw.instant|gpu.power.draw.instant|W|?
power.limit|gpu.power.requested_limit|W|700.00
enforced.power.limit|gpu.power.current_limit|W|700.00
power.default_limit|gpu.power.default_limit|W|700.00
power.min_limit|gpu.power.min_limit|W|200.00
power.max_limit|gpu.power.max_limit|W|700.00
module.power.draw.average||W|~
module.power.draw.instant||W|~
module.power.limit|module.power.requested_limit|W|~
module.enforced.power.limit|module.power.current_limit|W|~
module.power.default_limit||W|~
module.power.min_limit||W|~
module.power.max_limit||W|~
power_smoothing.delayed_power_smoothing_supported|||~
power_smoothing.primary_power_floor||W|~
power_smoothing.secondary_power_floor||W|~
power_smoothing.min_primary_floor_activation_offset||W|~
power_smoothing.min_primary_floor_activation_point||W|~
power_smoothing.window_multiplier||ms|~
power_smoothing.curr_profile.secondary_power_floor||W|~
power_smoothing.curr_profile.primary_floor_act_window_multiplier|||~
power_smoothing.curr_profile.primary_floor_tar_window_multiplier|||~
power_smoothing.curr_profile.primary_floor_act_offset||W|~
power_smoothing.admin_override.secondary_power_floor||W|~
power_smoothing.admin_override.primary_floor_act_window_multiplier|||~
power_smoothing.admin_override.primary_floor_tar_window_multiplier|||~
power_smoothing.admin_override.primary_floor_act_offset||W|~
edpp_multiplier||%|100.00
clocks.current.graphics|clocks.gr|MHz|345
clocks.current.sm|clocks.sm|MHz|345
clocks.current.memory|clocks.mem|MHz|3201
clocks.current.video|clocks.video|MHz|765
clocks.applications.graphics|clocks.applications.gr|MHz|!
clocks.applications.memory|clocks.applications.mem|MHz|!
clocks.default_applications.graphics|clocks.default_applications.gr|MHz|!
clocks.default_applications.memory|clocks.default_applications.mem|MHz|!
clocks.max.graphics|clocks.max.gr|MHz|1980
clocks.max.sm||MHz|1980
clocks.max.memory|clocks.max.mem|MHz|3201
mig.mode.current|||Disabled
mig.mode.pending|||Disabled
gsp.mode.current|||Enabled
gsp.mode.default|||Enabled
c2c.mode|||Disabled
protected_memory.total||MiB|0
protected_memory.used||MiB|0
protected_memory.free||MiB|0
fabric.state|||Completed
fabric.status|||Success
fabric.cliqueId|||0
fabric.clusterUuid|||00000000-0000-0000-0000-000000000000
fabric.health.summary|||N/A
fabric.health.bandwidth|||N/A
fabric.health.route_recovery_in_progress|||N/A
fabric.health.route_unhealthy|||N/A
fabric.health.access_timeout_recovery|||N/A
fabric.health.incorrect_configuration|||N/A
platform.chassis_serial_number|||
platform.slot_number|||0
platform.tray_index|||0
platform.host_id|||1
platform.peer_type|||Direct Connected
platform.module_id|||?
platform.gpu_fabric_guid|||0x0000000000000000
hostname|||~
"""

# Values that only -q, topo and nvlink show; they can be set like fields. name | value
EXTRAS = """\
product_brand|NVIDIA
product_architecture|Hopper
gpu_pdi|?
minor_number|?
board_id|?
board_part_number|695-2G520-0280-001
gpu_part_number|2335-895-A1
virtualization_mode|None
pcie.replays|0
pcie.tx_util|371 KB/s
pcie.rx_util|337 KB/s
bar1.total|262144 MiB
bar1.used|1 MiB
bar1.free|262143 MiB
temperature.shutdown_tlimit|-8
temperature.slowdown_tlimit|-2
temperature.max_operating_tlimit|0
temperature.memory_max_operating_tlimit|0
memory_power.draw.average|46.56 W
clocks.max.video|1545 MHz
clocks.max_customer_boost.graphics|1980 MHz
clocks.locked|none
mig.instances|none
ecc.channel_repair_pending|No
ecc.tpc_repair_pending|No
ecc.unrepairable_memory|No
cpu_affinity|?
numa_affinity|?
"""
NVLINKS = 18
NVLINK_SPEED = "26.562 GB/s"
NVLINK_INACTIVE = "<inactive>"
NVLINK_ERRORS = (("replay", "Replay"), ("recovery", "Recovery"), ("crc", "CRC"))

# Settings of "node": name, value of a healthy node.
# driver: one of DRIVER_STATES. hang_s: delay of every call in seconds. library_version: NVML's
# version if it is not driver_version ("" = the same). on_lost: "stop": a query of all GPUs prints
# only the message of the first lost GPU (550.163.01); "continue": it prints the message in place of
# that GPU's row (616.92). nvswitches: their number, which the simulated fabric manager reads.
# loaded_version: version of the kernel module if /proc does not show it (containers).
NODE_DEFAULTS = {
    "driver": "ok",
    "hang_s": "0",
    "driver_version": "590.48.01",
    "library_version": "",
    "cuda_version": "13.1",
    "on_lost": "stop",
    "nvswitches": "4",
    "loaded_version": "",
}
# Driver branch -> CUDA version that nvidia-smi prints.
CUDA_OF = {"535": "12.2", "550": "12.4", "570": "12.8", "575": "12.9", "580": "13.0", "590": "13.1"}
DRIVER_STATES = ("ok", "not_loaded", "mismatch", "no_library", "no_devices")
NODE_CHOICES = {"driver": DRIVER_STATES, "on_lost": ("stop", "continue")}
COMPUTED = ("timestamp", "count", "index", "driver_version")

# PCI buses of a DGX H200; the order of the modules is assumed to be that of an H100.
BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
MODULES = (7, 5, 8, 6, 3, 1, 4, 2)
CPU_AFFINITY = ("0-47,96-143", "48-95,144-191")

# The tree of -q and -q -x. Leading spaces show the depth; label | tag | source. No source: a group.
# "-" as label: XML only; as tag: text only. "+" before a label: one level deeper in the text. A
# source is a field, "@" and an extra, "=" and a fixed text, or "$" and a computed value; ">" and a
# format may follow, see convert(). Labels and order come from the recorded -q; its tags were not
# recorded and come from an H100 with 580.105.08 and, for newer ones, an L40S with 595.91.07.
TREE = """\
Product Name|product_name|name
Product Brand|product_brand|@product_brand
Product Architecture|product_architecture|@product_architecture
Display Mode|display_mode|display_mode
Display Attached|display_attached|display_attached
Display Active|display_active|display_active
Persistence Mode|persistence_mode|persistence_mode
Addressing Mode|addressing_mode|addressing_mode
MIG Mode|mig_mode
 Current|current_mig|mig.mode.current
 Pending|pending_mig|mig.mode.pending
-|mig_devices|=None>block
Accounting Mode|accounting_mode|accounting.mode
Accounting Mode Buffer Size|accounting_mode_buffer_size|accounting.buffer_size
Driver Model|driver_model
 Current|current_dm|driver_model.current
 Pending|pending_dm|driver_model.pending
Serial Number|serial|serial
GPU UUID|uuid|uuid
GPU PDI|pdi|@gpu_pdi
Minor Number|minor_number|@minor_number
VBIOS Version|vbios_version|vbios_version
MultiGPU Board|multigpu_board|=No
Board ID|board_id|@board_id
Board Part Number|board_part_number|@board_part_number
GPU Part Number|gpu_part_number|@gpu_part_number
FRU Part Number|gpu_fru_part_number|=N/A
Platform Info|platformInfo
 Chassis Serial Number|chassis_serial_number|=N/A
 Slot Number|slot_number|=N/A
 Tray Index|tray_index|=N/A
 Host ID|host_id|=N/A
 Peer Type|peer_type|=N/A
 Module Id|module_id|platform.module_id
 GPU Fabric GUID|gpu_fabric_guid|=N/A
Inforom Version|inforom_version
 Image Version|img_version|inforom.img
 OEM Object|oem_object|inforom.oem
 ECC Object|ecc_object|inforom.ecc
 Power Management Object|pwr_object|inforom.pwr
Inforom BBX Object Flush|inforom_bbx_flush
 Latest Timestamp|latest_timestamp|=N/A
 Latest Duration|latest_duration|=N/A
GPU Operation Mode|gpu_operation_mode
 Current|current_gom|gom.current
 Pending|pending_gom|gom.pending
GPU C2C Mode|c2c_mode|c2c.mode
GPU Virtualization Mode|gpu_virtualization_mode
 Virtualization Mode|virtualization_mode|@virtualization_mode
 Host VGPU Mode|host_vgpu_mode|=N/A
 vGPU Heterogeneous Mode|vgpu_heterogeneous_mode|=N/A
GPU Recovery Action|gpu_recovery_action|gpu_recovery_action
GSP Firmware Version|gsp_firmware_version|$gsp
IBMNPU|ibmnpu
 Relaxed Ordering Mode|relaxed_ordering_mode|=N/A
PCI|pci
 Bus|pci_bus|pci.bus>hex
 Device|pci_device|pci.device>hex
 Domain|pci_domain|pci.domain>hex
 Base Classcode|pci_base_class|pci.baseClass>hex
 Sub Classcode|pci_sub_class|pci.subClass>hex
 Device Id|pci_device_id|pci.device_id>hex
 Bus Id|pci_bus_id|pci.bus_id
 Sub System Id|pci_sub_system_id|pci.sub_device_id>hex
 GPU Link Info|pci_gpu_link_info
  PCIe Generation|pcie_gen
   Max|max_link_gen|pcie.link.gen.max
   Current|current_link_gen|pcie.link.gen.current
   Device Current|device_current_link_gen|pcie.link.gen.gpucurrent
   Device Max|max_device_link_gen|pcie.link.gen.gpumax
   Host Max|max_host_link_gen|pcie.link.gen.hostmax
  Link Width|link_widths
   Max|max_link_width|pcie.link.width.max>x
   Current|current_link_width|pcie.link.width.current>x
 Bridge Chip|pci_bridge_chip
  Type|bridge_chip_type|=N/A
  Firmware|bridge_chip_fw|=N/A
 Replays Since Reset|replay_counter|@pcie.replays
 Replay Number Rollovers|replay_rollover_counter|=0
 Tx Throughput|tx_util|@pcie.tx_util
 Rx Throughput|rx_util|@pcie.rx_util
 Atomic Caps Outbound|atomic_caps_outbound|=N/A
 Atomic Caps Inbound|atomic_caps_inbound|=N/A
Fan Speed|fan_speed|fan.speed
Performance State|performance_state|pstate
Clocks Event Reasons|clocks_event_reasons
 Idle|clocks_event_reason_gpu_idle|clocks_event_reasons.gpu_idle
 Applications Clocks Setting|clocks_event_reason_applications_clocks_setting\
|clocks_event_reasons.applications_clocks_setting
 SW Power Cap|clocks_event_reason_sw_power_cap|clocks_event_reasons.sw_power_cap
 HW Slowdown|clocks_event_reason_hw_slowdown|clocks_event_reasons.hw_slowdown
 +HW Thermal Slowdown|clocks_event_reason_hw_thermal_slowdown\
|clocks_event_reasons.hw_thermal_slowdown
 +HW Power Brake Slowdown|clocks_event_reason_hw_power_brake_slowdown\
|clocks_event_reasons.hw_power_brake_slowdown
 Sync Boost|clocks_event_reason_sync_boost|clocks_event_reasons.sync_boost
 SW Thermal Slowdown|clocks_event_reason_sw_thermal_slowdown\
|clocks_event_reasons.sw_thermal_slowdown
 Display Clock Setting|clocks_event_reason_display_clocks_setting|=Not Active
Clocks Event Reasons Counters|clocks_event_reasons_counters
 SW Power Capping|clocks_event_reasons_counters_sw_power_cap\
|clocks_event_reasons_counters.sw_power_cap
 Sync Boost|clocks_event_reasons_counters_sync_boost|clocks_event_reasons_counters.sync_boost
 SW Thermal Slowdown|clocks_event_reasons_counters_sw_therm_slowdown\
|clocks_event_reasons_counters.sw_thermal_slowdown
 HW Thermal Slowdown|clocks_event_reasons_counters_hw_therm_slowdown\
|clocks_event_reasons_counters.hw_thermal_slowdown
 HW Power Braking|clocks_event_reasons_counters_hw_power_brake\
|clocks_event_reasons_counters.hw_power_brake_slowdown
Sparse Operation Mode|sparse_operation_mode|=Disabled
FB Memory Usage|fb_memory_usage
 Total|total|memory.total
 Reserved|reserved|memory.reserved
 Used|used|memory.used
 Free|free|memory.free
BAR1 Memory Usage|bar1_memory_usage
 Total|total|@bar1.total
 Used|used|@bar1.used
 Free|free|@bar1.free
Conf Compute Protected Memory Usage|cc_protected_memory_usage
 Total|total|protected_memory.total
 Used|used|protected_memory.used
 Free|free|protected_memory.free
Compute Mode|compute_mode|compute_mode
Utilization|utilization
 GPU|gpu_util|utilization.gpu
 Memory|memory_util|utilization.memory
 Encoder|encoder_util|utilization.encoder
 Decoder|decoder_util|utilization.decoder
 JPEG|jpeg_util|utilization.jpeg
 OFA|ofa_util|utilization.ofa
Encoder Stats|encoder_stats
 Active Sessions|session_count|encoder.stats.sessionCount
 Average FPS|average_fps|encoder.stats.averageFps
 Average Latency|average_latency|encoder.stats.averageLatency
FBC Stats|fbc_stats
 Active Sessions|session_count|=0
 Average FPS|average_fps|=0
 Average Latency|average_latency|=0
DRAM Encryption Mode|dram_encryption_mode
 Current|current_dram_encryption|dramEncryption.mode.current
 Pending|pending_dram_encryption|dramEncryption.mode.pending
ECC Mode|ecc_mode
 Current|current_ecc|ecc.mode.current
 Pending|pending_ecc|ecc.mode.pending
ECC Errors|ecc_errors
 Volatile|volatile
  SRAM Correctable|sram_correctable|ecc.errors.corrected.volatile.sram
  SRAM Uncorrectable Parity|sram_uncorrectable_parity|ecc.errors.uncorrected.volatile.sram.parity
  SRAM Uncorrectable SEC-DED|sram_uncorrectable_secded|ecc.errors.uncorrected.volatile.sram.secded
  DRAM Correctable|dram_correctable|ecc.errors.corrected.volatile.dram
  DRAM Uncorrectable|dram_uncorrectable|ecc.errors.uncorrected.volatile.dram
 Aggregate|aggregate
  SRAM Correctable|sram_correctable|ecc.errors.corrected.aggregate.sram
  SRAM Uncorrectable Parity|sram_uncorrectable_parity|ecc.errors.uncorrected.aggregate.sram.parity
  SRAM Uncorrectable SEC-DED|sram_uncorrectable_secded|ecc.errors.uncorrected.aggregate.sram.secded
  DRAM Correctable|dram_correctable|ecc.errors.corrected.aggregate.dram
  DRAM Uncorrectable|dram_uncorrectable|ecc.errors.uncorrected.aggregate.dram
  SRAM Threshold Exceeded|sram_threshold_exceeded\
|ecc.errors.uncorrected.aggregate.sram.thresholdExceeded
 Aggregate Uncorrectable SRAM Sources|aggregate_uncorrectable_sram_sources
  SRAM L2|sram_l2|ecc.errors.uncorrected.aggregate.sram.l2
  SRAM SM|sram_sm|ecc.errors.uncorrected.aggregate.sram.sm
  SRAM Microcontroller|sram_microcontroller|ecc.errors.uncorrected.aggregate.sram.mcu
  SRAM PCIE|sram_pcie|ecc.errors.uncorrected.aggregate.sram.pcie
  SRAM Other|sram_other|ecc.errors.uncorrected.aggregate.sram.other
 Channel Repair Pending|channel_repair_pending|@ecc.channel_repair_pending
 TPC Repair Pending|tpc_repair_pending|@ecc.tpc_repair_pending
 Unrepairable Memory|unrepairable_memory|@ecc.unrepairable_memory
Retired Pages|retired_pages
 Single Bit ECC|-|retired_pages.single_bit_ecc.count
 Double Bit ECC|-|retired_pages.double_bit.count
 Pending Page Blacklist|-|retired_pages.pending
 -|multiple_single_bit_retirement
  -|retired_count|retired_pages.single_bit_ecc.count
  -|retired_pagelist|=N/A
 -|double_bit_retirement
  -|retired_count|retired_pages.double_bit.count
  -|retired_pagelist|=N/A
 -|pending_blacklist|retired_pages.pending
 -|pending_retirement|retired_pages.pending
Remapped Rows|remapped_rows
 Correctable Error|remapped_row_corr|remapped_rows.correctable
 Uncorrectable Error|remapped_row_unc|remapped_rows.uncorrectable
 Pending|remapped_row_pending|remapped_rows.pending
 Remapping Failure Occurred|remapped_row_failure|remapped_rows.failure
 Bank Remap Availability Histogram|row_remapper_histogram
  Max|row_remapper_histogram_max|remapped_rows.histogram.max>banks
  High|row_remapper_histogram_high|remapped_rows.histogram.high>banks
  Partial|row_remapper_histogram_partial|remapped_rows.histogram.partial>banks
  Low|row_remapper_histogram_low|remapped_rows.histogram.low>banks
  None|row_remapper_histogram_none|remapped_rows.histogram.none>banks
Temperature|temperature
 GPU Current Temp|gpu_temp|temperature.gpu>C
 GPU T.Limit Temp|gpu_temp_tlimit|temperature.gpu.tlimit>C
 GPU Shutdown T.Limit Temp|gpu_temp_max_tlimit_threshold|@temperature.shutdown_tlimit>C
 GPU Slowdown T.Limit Temp|gpu_temp_slow_tlimit_threshold|@temperature.slowdown_tlimit>C
 GPU Max Operating T.Limit Temp|gpu_temp_max_gpu_tlimit_threshold\
|@temperature.max_operating_tlimit>C
 GPU Target Temperature|gpu_target_temperature|=N/A
 Memory Current Temp|memory_temp|temperature.memory>C
 Memory Max Operating T.Limit Temp|gpu_temp_max_mem_tlimit_threshold\
|@temperature.memory_max_operating_tlimit>C
-|supported_gpu_target_temp
 -|gpu_target_temp_min|=N/A
 -|gpu_target_temp_max|=N/A
GPU Power Readings|gpu_power_readings
 -|power_state|pstate
 Average Power Draw|average_power_draw|power.draw.average
 Instantaneous Power Draw|instant_power_draw|power.draw.instant
 Current Power Limit|current_power_limit|enforced.power.limit
 Requested Power Limit|requested_power_limit|power.limit
 Default Power Limit|default_power_limit|power.default_limit
 Min Power Limit|min_power_limit|power.min_limit
 Max Power Limit|max_power_limit|power.max_limit
GPU Memory Power Readings |gpu_memory_power_readings
 Average Power Draw|average_power_draw|@memory_power.draw.average
 Instantaneous Power Draw|instant_power_draw|=N/A
Module Power Readings|module_power_readings
 -|power_state|pstate
 Average Power Draw|average_power_draw|module.power.draw.average
 Instantaneous Power Draw|instant_power_draw|module.power.draw.instant
 Current Power Limit|current_power_limit|module.enforced.power.limit
 Requested Power Limit|requested_power_limit|module.power.limit
 Default Power Limit|default_power_limit|module.power.default_limit
 Min Power Limit|min_power_limit|module.power.min_limit
 Max Power Limit|max_power_limit|module.power.max_limit
Power Smoothing|power_smoothing|=N/A
Workload Power Profiles|power_profiles
 Requested Profiles|power_profile_requested_profiles|=N/A
 Enforced Profiles|power_profile_enforced_profiles|=N/A
EDPp Multiplier|edpp_multiplier|edpp_multiplier>pct
Clocks|clocks
 Graphics|graphics_clock|clocks.current.graphics
 SM|sm_clock|clocks.current.sm
 Memory|mem_clock|clocks.current.memory
 Video|video_clock|clocks.current.video
Applications Clocks|applications_clocks
 Graphics|graphics_clock|clocks.applications.graphics
 Memory|mem_clock|clocks.applications.memory
Default Applications Clocks|default_applications_clocks
 Graphics|graphics_clock|clocks.default_applications.graphics
 Memory|mem_clock|clocks.default_applications.memory
Deferred Clocks|deferred_clocks
 Memory|mem_clock|=N/A
Max Clocks|max_clocks
 Graphics|graphics_clock|clocks.max.graphics
 SM|sm_clock|clocks.max.sm
 Memory|mem_clock|clocks.max.memory
 Video|video_clock|@clocks.max.video
Max Customer Boost Clocks|max_customer_boost_clocks
 Graphics|graphics_clock|@clocks.max_customer_boost.graphics
Clock Policy|clock_policy
 Auto Boost|auto_boost|=N/A
 Auto Boost Default|auto_boost_default|=N/A
Fabric|fabric
 State|state|fabric.state
 Status|status|fabric.status
 CliqueId|cliqueId|fabric.cliqueId
 ClusterUUID|clusterUuid|fabric.clusterUuid
 Health|health
  Summary|summary|fabric.health.summary
  Bandwidth|bandwidth|fabric.health.bandwidth
  Route Recovery in progress|route_recovery_in_progress|fabric.health.route_recovery_in_progress
  Route Unhealthy|route_unhealthy|fabric.health.route_unhealthy
  Access Timeout Recovery|access_timeout_recovery|fabric.health.access_timeout_recovery
  Incorrect Configuration|incorrect_configuration|fabric.health.incorrect_configuration
-|supported_clocks|$supported_clocks
Processes|processes|$processes
-|accounted_processes|=>empty
Capabilities|capabilities
 EGM|egm|=disabled
"""

# The top-level lines of TREE that -d SECTION shows, without the samples that the real program adds
# for POWER, UTILIZATION and CLOCK.
SECTIONS = {
    "MEMORY": "FB Memory Usage|BAR1 Memory Usage|Conf Compute Protected Memory Usage",
    "UTILIZATION": "Utilization",
    "ECC": "ECC Mode|ECC Errors",
    "TEMPERATURE": "Temperature",
    "POWER": "GPU Power Readings|GPU Memory Power Readings |Module Power Readings",
    "CLOCK": "Clocks|Applications Clocks|Default Applications Clocks|Deferred Clocks|Max Clocks"
    "|Max Customer Boost Clocks|Clock Policy",
    "COMPUTE": "Compute Mode",
    "PIDS": "Processes",
    "PERFORMANCE": "Performance State|Clocks Event Reasons|Clocks Event Reasons Counters"
    "|Sparse Operation Mode",
    "SUPPORTED_CLOCKS": "Supported Clocks",
    "PAGE_RETIREMENT": "Retired Pages",
    "ACCOUNTING": "Accounting Mode|Accounting Mode Buffer Size",
    "ENCODER_STATS": "Encoder Stats",
    "FBC_STATS": "FBC Stats",
    "ROW_REMAPPER": "Remapped Rows",
    "GSP_FIRMWARE_VERSION": "GSP Firmware Version",
    "POWER_SMOOTHING": "Power Smoothing",
    "POWER_PROFILES": "Workload Power Profiles",
}

# Other queries: name | alias | unit | field of --query-gpu, or "$" and a computed value.
GPU_COLUMNS = """\
timestamp|||timestamp
gpu_name|||name
gpu_bus_id|||pci.bus_id
gpu_serial|||serial
gpu_uuid|||uuid
"""
LIST_COLUMNS = {
    "--query-compute-apps": """\
pid|||$pid
process_name|name||$name
used_gpu_memory|used_memory|MiB|$memory
""",
    "--query-accounted-apps": """\
vgpu_instance|||$none
pid|||$none
gpu_utilization|gpu_util|%|$none
mem_utilization|mem_util|%|$none
max_memory_usage||MiB|$none
time||ms|$none
""",
    "--query-retired-pages": """\
retired_pages.address|||$none
retired_pages.timestamp|||$none
retired_pages.cause|||$cause
""",
    "--query-remapped-rows": """\
remapped_rows.correctable|||remapped_rows.correctable
remapped_rows.uncorrectable|||remapped_rows.uncorrectable
remapped_rows.pending|||remapped_rows.pending
remapped_rows.failure|||remapped_rows.failure
""",
}
RETIREMENT_CAUSES = ("Single Bit ECC", "Double Bit ECC")

# Options. True: the option takes a value.
OPTIONS = {
    "-h": False, "--help": False, "--version": False, "-L": False, "--list-gpus": False,
    "-i": True, "--id": True, "-f": True, "--filename": True, "-q": False, "--query": False,
    "-x": False, "--xml-format": False, "-d": True, "--display": True, "-l": True, "--loop": True,
    "-lms": True, "--loop-ms": True,
    "--query-gpu": True, "--format": True, "--query-compute-apps": True,
    "--query-accounted-apps": True, "--query-retired-pages": True, "--query-remapped-rows": True,
    "--help-query-gpu": False, "--help-query-compute-apps": False,
    "--help-query-accounted-apps": False, "--help-query-retired-pages": False,
    "--help-query-remapped-rows": False,
    "-pm": True, "--persistence-mode": True, "-pl": True, "--power-limit": True,
    "-e": True, "--ecc-config": True, "-lgc": True, "--lock-gpu-clocks": True,
    "-rgc": False, "--reset-gpu-clocks": False,
    "-c": True, "--compute-mode": True, "-mig": True, "--multi-instance-gpu": True,
}  # fmt: skip
LONG = {
    "-h": "--help", "-L": "--list-gpus", "-i": "--id", "-f": "--filename", "-q": "--query",
    "-x": "--xml-format", "-d": "--display", "-l": "--loop", "-lms": "--loop-ms",
    "-pm": "--persistence-mode", "-pl": "--power-limit", "-e": "--ecc-config",
    "-lgc": "--lock-gpu-clocks", "-rgc": "--reset-gpu-clocks",
    "-c": "--compute-mode", "-mig": "--multi-instance-gpu",
}  # fmt: skip
QUERIES = ("--query-gpu", *LIST_COLUMNS)
MODIFIERS = (
    "--persistence-mode",
    "--power-limit",
    "--ecc-config",
    "--lock-gpu-clocks",
    "--reset-gpu-clocks",
    "--compute-mode",
    "--multi-instance-gpu",
)
COMPUTE_MODES = {
    "0": "DEFAULT", "DEFAULT": "DEFAULT", "2": "PROHIBITED", "PROHIBITED": "PROHIBITED",
    "3": "EXCLUSIVE_PROCESS", "EXCLUSIVE_PROCESS": "EXCLUSIVE_PROCESS",
}  # fmt: skip
# GPU instance profiles of this GPU: number, name, compute slices, memory slices.
MIG_PROFILES = (
    ("19", "1g.18gb", 1, 1), ("20", "1g.18gb+me", 1, 1), ("15", "1g.35gb", 1, 2),
    ("14", "2g.35gb", 2, 2), ("9", "3g.71gb", 3, 4), ("5", "4g.71gb", 4, 4),
    ("0", "7g.141gb", 7, 8),
)  # fmt: skip
MIG_SLICES = (7, 8)
# Real options and commands that the simulation rejects by name, so that a test cannot mistake a
# missing feature for an answer.
NOT_SIMULATED_WORDS = (
    "-B --list-excluded-gpus -col --columns -u --unit --dtd --query-supported-clocks "
    "--help-query-supported-clocks -p --reset-ecc-errors --gom -r --gpu-reset "
    "-vm --virt-mode -m --mode -lmc --lock-memory-clocks -rmc --reset-memory-clocks -lmcd -rmcd "
    "-ac --applications-clocks -rac -sc --scope -cc --cuda-clocks -am --accounting-mode -caa "
    "-gtt --gpu-target-temp -den --dram-encryption -eow "
    "--error-on-warning dmon daemon replay pmon drain c2c clocks encodersessions fbcsessions vgpu "
    "compute-policy boost-slider power-hint base-clocks conf-compute gpm pci power-smoothing "
    "power-profiles rusd prm soc"
)
NOT_SIMULATED = frozenset(NOT_SIMULATED_WORDS.split())


class Answer(Exception):
    """Ends the call with a text for standard output and an exit code."""

    def __init__(self, code: int, text: str = "") -> None:
        """Store the exit code and the text, which includes its line ends."""
        super().__init__(text)
        self.code = code
        self.text = text


class StandinError(Exception):
    """An error of the simulation itself, reported on standard error."""

    def __init__(self, message: str, code: int = EXIT_OTHER) -> None:
        """Store the message and the exit code."""
        super().__init__(message)
        self.code = code


class Field:
    """One property of --query-gpu: its name, the unit in its heading, its default value."""

    __slots__ = ("default", "name", "unit")

    def __init__(self, name: str, unit: str, default: str) -> None:
        """Store the values."""
        self.name = name
        self.unit = unit
        self.default = default

    @property
    def heading(self) -> str:
        """Return the column heading with the unit (``nounits`` removes units from values only)."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


def load_catalogue() -> tuple[list[Field], dict[str, Field]]:
    """Return the fields in the order of --help-query-gpu, and by name and alias."""
    fields: list[Field] = []
    by_name: dict[str, Field] = {}
    for line in CATALOGUE.splitlines():
        name, alias, unit, value = line.split("|")
        value = {"~": NOT_AVAILABLE, "!": DEPRECATED}.get(value, value)
        if unit and not value.startswith(("[", "?")):
            value = f"{value} {unit}"
        if name.startswith("clocks_event_reasons."):
            alias = name.replace("event", "throttle", 1)
        field = Field(name, unit, value)
        fields.append(field)
        by_name[name] = field
        if alias:
            by_name[alias] = field
    return fields, by_name


class Gpu:
    """One slot of the node, with the values of its GPU."""

    __slots__ = ("extra", "fields", "lost", "present", "processes", "slot")

    def __init__(self, slot: int, fields: dict[str, str], extra: dict[str, str]) -> None:
        """Create a present, healthy and idle GPU."""
        self.slot = slot
        self.present = True
        self.lost = False
        self.fields = fields
        self.extra = extra
        self.processes: list[dict[str, str]] = []

    def get(self, name: str) -> str:
        """Return the value of a field in the format of the real program."""
        return self.fields.get(name, NOT_AVAILABLE)

    def put(self, values: dict[str, str]) -> None:
        """Set fields and extras."""
        for name, value in values.items():
            (self.extra if name in self.extra else self.fields)[name] = value

    @property
    def bus_id(self) -> str:
        """Return the PCI bus id, with the eight-digit domain."""
        return self.get("pci.bus_id")

    @property
    def title(self) -> str:
        """Return name and UUID as printed by -L and nvlink."""
        return f"{self.get('name')} (UUID: {self.get('uuid')})"

    def active_links(self) -> int:
        """Return the number of active NVLinks."""
        return sum(self.link(n, "speed") != NVLINK_INACTIVE for n in range(NVLINKS))

    def link(self, number: int, what: str) -> str:
        """Return a link's speed or one of its error counters."""
        return self.extra.get(f"nvlink.{number}.{what}", NVLINK_SPEED if what == "speed" else "0")


class State:
    """The content of the state file."""

    def __init__(self, node: dict[str, str], gpus: list[Gpu]) -> None:
        """Store the slots and the node's settings, with NODE_DEFAULTS for missing ones."""
        self.node = {**NODE_DEFAULTS, **node}
        self.gpus = gpus

    @classmethod
    def from_json(cls, text: str) -> State:
        """Parse a state; raise ValueError with the reason if it is invalid."""
        data: Any = json.loads(text)
        if not isinstance(data, dict) or data.get("format") != 1:
            raise ValueError('not a state of format 1 (create one with "--standin-new-state")')
        gpus: list[Gpu] = []
        try:
            for slot, item in enumerate(data["gpus"]):
                gpu = Gpu(slot, dict(item["fields"]), {**extra_defaults(), **item["extra"]})
                gpu.present = bool(item["present"])
                gpu.lost = bool(item.get("lost", False))
                gpu.processes = list(item.get("processes", ()))
                gpus.append(gpu)
            return cls(dict(data["node"]), gpus)
        except (KeyError, TypeError) as error:
            raise ValueError(f"incomplete: {error!r}") from error

    def to_json(self) -> str:
        """Return the text of the state file."""
        gpus = [
            {
                "present": gpu.present,
                "lost": gpu.lost,
                "fields": gpu.fields,
                "extra": gpu.extra,
                "processes": gpu.processes,
            }
            for gpu in self.gpus
        ]
        return json.dumps({"format": 1, "node": self.node, "gpus": gpus}, indent=1) + "\n"

    def devices(self) -> list[tuple[int, Gpu]]:
        """Return the GPUs on the bus with their indices, numbered as after a reboot."""
        if self.node["driver"] == "no_devices":
            return []
        return list(enumerate(gpu for gpu in self.gpus if gpu.present))

    @property
    def driver_version(self) -> str:
        """Return the version of the kernel module."""
        return self.node["driver_version"]

    @property
    def library_version(self) -> str:
        """Return the version of NVML and of nvidia-smi."""
        return self.node["library_version"] or self.driver_version

    @property
    def nvml_version(self) -> str:
        """Return NVML's version as printed, without the third part."""
        return ".".join(self.library_version.split(".")[:2])


def new_state(count: int, seed: str) -> State:
    """Return a healthy node; the seed determines identities and measured values."""
    import hashlib

    fields, _ = load_catalogue()
    gpus: list[Gpu] = []
    for slot in range(count):
        digest = hashlib.sha256(f"{seed}:{slot}".encode()).hexdigest()
        noise = [int(digest[n : n + 2], 16) for n in range(48, 64, 2)]
        bus = f"{BUSES[slot]:02X}"
        celsius = 26 + noise[0] % 5
        watts = 76 + noise[1] / 64
        uuid = digest[:32]
        own = {
            "serial": f"165{int(digest[32:48], 16) % 10**10:010d}",
            "uuid": f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}",
            "pci.bus_id": f"00000000:{bus}:00.0",
            "pci.bus": f"0x{bus}",
            "platform.module_id": str(MODULES[slot]),
            "temperature.gpu": str(celsius),
            "temperature.gpu.tlimit": str(87 - celsius),
            "temperature.memory": str(celsius + 3 + noise[2] % 3),
            "power.draw": f"{watts:.2f} W",
            "power.draw.average": f"{watts:.2f} W",
            "power.draw.instant": f"{watts + noise[3] / 256:.2f} W",
        }
        numa = 0 if slot < 4 else 1
        extra = {
            "gpu_pdi": "0x" + hashlib.sha256(f"pdi:{seed}:{slot}".encode()).hexdigest()[:16],
            "minor_number": str(slot),
            "board_id": f"0x{BUSES[slot] << 8:x}",
            "cpu_affinity": CPU_AFFINITY[numa],
            "numa_affinity": str(numa),
        }
        gpus.append(
            Gpu(
                slot,
                {f.name: own.get(f.name, f.default) for f in fields if f.name not in COMPUTED},
                {**extra_defaults(), **extra},
            )
        )
    return State({"seed": seed}, gpus)


def extra_defaults() -> dict[str, str]:
    """Return the defaults of values that are not in --query-gpu, including the links."""
    values = dict(line.split("|") for line in EXTRAS.splitlines())
    for number in range(NVLINKS):
        values[f"nvlink.{number}.speed"] = NVLINK_SPEED
        for counter, _ in NVLINK_ERRORS:
            values[f"nvlink.{number}.{counter}"] = "0"
    return values


# --- the state file ---------------------------------------------------------------------------


def read_state(path: str) -> State:
    """Read the state file for a maintenance command."""
    try:
        with open(path, encoding="utf-8") as file:
            return State.from_json(file.read())
    except OSError as error:
        raise StandinError(f"cannot read {path}: {error.strerror}", EXIT_USAGE) from error
    except ValueError as error:
        raise StandinError(f"{path}: {error}", EXIT_USAGE) from error


def change_state(path: str, change: Callable[[State], None]) -> None:
    """Change the state file atomically under a lock; keep its mode and owner."""
    import fcntl

    path = os.path.realpath(path)
    while True:
        try:
            file = open(path, encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise StandinError(f"cannot read {path}: {error.strerror}", EXIT_USAGE) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            old = os.fstat(file.fileno())
            try:
                if not os.path.samestat(old, os.stat(path)):
                    continue
            except FileNotFoundError:
                continue
            before = file.read()
            try:
                state = State.from_json(before)
            except ValueError as error:
                raise StandinError(f"{path}: {error}", EXIT_USAGE) from error
            change(state)
            after = state.to_json()
            if after != before:
                replace_file(path, after, old)
            return


def replace_file(path: str, text: str, old: os.stat_result) -> None:
    """Write a temporary file in the same folder and rename it."""
    temporary = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            own = os.fstat(descriptor)
            if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
            os.fsync(descriptor)
        os.rename(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise StandinError(f"cannot write {path}: {error.strerror}", EXIT_USAGE) from error


# --- maintenance ------------------------------------------------------------------------------


def unknown(kind: str, name: str, known: list[str]) -> StandinError:
    """Return the error for an unknown name, with similar names."""
    import difflib

    near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    near = near or [k for k in known if name in k][:4]
    hint = f"; similar: {', '.join(near)}" if near else ""
    return StandinError(f'unknown {kind} "{name}"{hint}', EXIT_UNKNOWN_NAME)


def find_slots(state: State, name: str) -> list[Gpu]:
    """Return the slots that a maintenance command names."""
    if name == "all":
        return state.gpus
    known = [str(gpu.slot) for gpu in state.gpus]
    if name not in known:
        raise StandinError(
            f'unknown GPU "{name}"; expected {known[0]} to {known[-1]}, or "all"'
            if known
            else f'unknown GPU "{name}"; this state has no GPUs',
            EXIT_UNKNOWN_NAME,
        )
    return [state.gpus[int(name)]]


def with_unit(field: Field, value: str) -> str:
    """Return the value in the format of the real program; add the unit to a bare number."""
    if "," in value or "\n" in value:
        raise StandinError(
            f'"{value}" for {field.name}: commas are not allowed in CSV', EXIT_UNKNOWN_NAME
        )
    if not field.unit or value.startswith("["):
        return value
    number = value[: -len(field.unit)].rstrip() if value.endswith(field.unit) else value
    try:
        amount = float(number)
    except ValueError:
        raise StandinError(
            f'"{value}" for {field.name}: expected a number ({field.unit}) or a word in brackets'
            " such as [N/A]",
            EXIT_UNKNOWN_NAME,
        ) from None
    decimals = 2 if field.unit == "W" or field.name == "edpp_multiplier" else 0
    return f"{amount:.{decimals}f} {field.unit}"


def set_gpu(gpu: Gpu, name: str, value: str, by_name: dict[str, Field]) -> None:
    """Set one value of one GPU."""
    if name == "lost":
        if value not in ("yes", "no"):
            raise StandinError(f'lost must be "yes" or "no", not "{value}"', EXIT_UNKNOWN_NAME)
        gpu.lost = value == "yes"
    elif name in COMPUTED:
        hint = "; set it for the node" if name in NODE_DEFAULTS else ""
        raise StandinError(f"{name} is computed and cannot be set{hint}", EXIT_UNKNOWN_NAME)
    elif name in by_name:
        gpu.fields[by_name[name].name] = with_unit(by_name[name], value)
    elif name in gpu.extra:
        gpu.extra[name] = value
    else:
        raise unknown("field", name, ["lost", *by_name, *gpu.extra])


def set_node(state: State, name: str, value: str) -> None:
    """Set one value of the node."""
    if name not in NODE_DEFAULTS:
        raise unknown("setting of the node", name, list(NODE_DEFAULTS))
    choices = NODE_CHOICES.get(name)
    if choices and value not in choices:
        raise StandinError(
            f'{name} must be one of {", ".join(choices)}, not "{value}"', EXIT_UNKNOWN_NAME
        )
    if name == "hang_s":
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise StandinError(f'hang_s must be a number, not "{value}"', EXIT_UNKNOWN_NAME)
    state.node[name] = value


def set_values(path: str, target: str, settings: list[str]) -> None:
    """Run --standin-set."""
    pairs: list[tuple[str, str]] = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise StandinError(f'"{setting}": expected NAME=VALUE', EXIT_USAGE)
        pairs.append((name, value))

    def change(state: State) -> None:
        if target == "node":
            for name, value in pairs:
                set_node(state, name, value)
            return
        _, by_name = load_catalogue()
        for gpu in find_slots(state, target):
            for name, value in pairs:
                set_gpu(gpu, name, value, by_name)

    change_state(path, change)


def set_present(path: str, target: str, present: bool) -> None:
    """Run --standin-remove or --standin-restore."""

    def change(state: State) -> None:
        for gpu in find_slots(state, target):
            gpu.present = present

    change_state(path, change)


def reset(path: str) -> None:
    """Run --standin-reset."""

    def change(state: State) -> None:
        fresh = new_state(len(state.gpus), state.node.get("seed", ""))
        # The loaded version is not a setting.
        fresh.node["loaded_version"] = state.node["loaded_version"]
        state.node, state.gpus = fresh.node, fresh.gpus

    change_state(path, change)


def boot(path: str) -> None:
    """Run --standin-boot: reset the driver's settings; apply pending ECC and MIG modes.

    An enforced limit below the requested one comes from the BMC and is kept.
    """
    _, by_name = load_catalogue()

    def change(state: State) -> None:
        for gpu in state.gpus:
            values = {
                "persistence_mode": "Disabled",
                "power.limit": gpu.get("power.default_limit"),
                "compute_mode": by_name["compute_mode"].default,
                "ecc.mode.current": gpu.get("ecc.mode.pending"),
                "mig.mode.current": gpu.get("mig.mode.pending"),
                "mig.instances": "none",
                **unlocked(gpu),
            }
            if gpu.get("enforced.power.limit") == gpu.get("power.limit"):
                values["enforced.power.limit"] = values["power.limit"]
            gpu.put(values)
            gpu.processes = []

    change_state(path, change)


def unlocked(gpu: Gpu) -> dict[str, str]:
    """Return the changes when a GPU's clocks are unlocked."""
    if gpu.extra["clocks.locked"] == "none":
        return {}
    idle = load_catalogue()[1]["clocks.current.sm"].default
    return {
        "clocks.locked": "none",
        "clocks.current.graphics": idle,
        "clocks.current.sm": idle,
    }


def show(state: State) -> str:
    """Run --standin-show: one line per slot, followed by its changed values."""
    fresh = new_state(len(state.gpus), state.node.get("seed", ""))
    driver = state.driver_version
    if driver == NODE_DEFAULTS["driver_version"]:
        driver = state.node["loaded_version"] or driver
    lines = [f"node seed={state.node.get('seed', '')} driver_version={driver}"]
    fresh.node["loaded_version"] = state.node["loaded_version"]
    for name, value in state.node.items():
        if value != fresh.node.get(name):
            lines.append(f"  {name}={value} (was {fresh.node.get(name)})")
    index = 0
    for gpu, was in [(gpu, fresh.gpus[gpu.slot]) for gpu in state.gpus]:
        place = f"index {index}" if gpu.present else "removed"
        index += gpu.present
        lost = ", lost" if gpu.lost else ""
        lines.append(f"gpu {gpu.slot} ({place}{lost}) {gpu.bus_id} {gpu.title}")
        now_all, was_all = {**gpu.fields, **gpu.extra}, {**was.fields, **was.extra}
        for name, value in now_all.items():
            if value != was_all.get(name):
                lines.append(f"  {name}={value} (was {was_all.get(name)})")
    return "\n".join(lines) + "\n"


def take_options(arguments: list[str], allowed: tuple[str, ...]) -> dict[str, str]:
    """Return the options of a maintenance command: ``--name value`` or ``--name=value``."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in allowed or not (equals or rest):
            raise StandinError(f'"{name}": unknown option', EXIT_USAGE)
        options[name] = value if equals else rest.pop(0)
    return options


def maintain(verb: str, arguments: list[str]) -> str:
    """Run one --standin command; return the text for standard output."""
    if verb == "--standin-new-state":
        options = take_options(arguments, ("--count", "--seed"))
        count = options.get("--count", str(len(BUSES)))
        if "--seed" not in options:
            raise StandinError("--seed NAME is required, for the node's identities", EXIT_USAGE)
        if not count.isdigit() or not 1 <= int(count) <= len(BUSES):
            raise StandinError(f'--count must be 1 to {len(BUSES)}, not "{count}"', EXIT_USAGE)
        return new_state(int(count), options["--seed"]).to_json()
    if verb == "--standin-set" and len(arguments) >= 3:
        set_values(arguments[0], arguments[1], arguments[2:])
    elif verb in ("--standin-remove", "--standin-restore") and len(arguments) == 2:
        set_present(arguments[0], arguments[1], verb == "--standin-restore")
    elif verb == "--standin-reset" and len(arguments) == 1:
        reset(arguments[0])
    elif verb == "--standin-boot" and len(arguments) == 1:
        boot(arguments[0])
    elif verb == "--standin-show" and len(arguments) == 1:
        return show(read_state(arguments[0]))
    else:
        usage = (__doc__ or "").partition("::\n\n")[2].partition("\n\n")[0]
        raise StandinError(f"wrong usage; expected one of\n{usage}", EXIT_USAGE)
    return ""


# --- options of the real program --------------------------------------------------------------


def bare(value: str) -> str:
    """Return a value as printed by -q, without the brackets of CSV output."""
    return value[1:-1] if value.startswith("[") else value


def convert(value: str, how: str, xml: bool) -> str:
    """Format a value of TREE as named after ">"."""
    value = bare(value)
    if how == "hex":
        return value[2:] if xml and value.startswith("0x") else value
    if how == "pct":
        return value.replace(" %", "%")
    suffix = {"x": "x", "C": " C", "banks": " bank(s)"}.get(how, "")
    return value + suffix if suffix and value.lstrip("-").isdigit() else value


def timestamp() -> str:
    """Return the current time in the format of CSV output."""
    now = time.time()
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1000):03d}"


def lost_message(index: int, gpu: Gpu, word: str = "GPU") -> str:
    """Return the message about a lost GPU (it ends with two blank lines).

    Assumption: it contains the bus id, as in newer output; 550.163.01 without PCI omitted it.
    """
    return (
        f"Unable to determine the device handle for {word}{index}: {gpu.bus_id[4:]}: GPU is lost."
        "  Reboot the system to recover this GPU\n\n\n"
    )


class Smi:
    """One call of nvidia-smi over one state."""

    def __init__(self, state: State, path: str) -> None:
        """Store the state and the path of its file, which settings rewrite."""
        self.state = state
        self.path = path
        self.devices = state.devices()

    # Selection of GPUs.

    def select(self, wanted: str | None) -> list[tuple[int, Gpu]]:
        """Return the GPUs of -i, sorted by index; without -i all GPUs."""
        if wanted is None:
            chosen = self.devices
        else:
            keys = wanted.split(",")
            chosen = [d for d in self.devices if any(self.matches(d, key) for key in keys)]
            if any(not any(self.matches(d, key) for d in self.devices) for key in keys):
                chosen = []
        if not chosen:
            raise Answer(EXIT_NOT_FOUND, "No devices were found\n")
        return chosen

    @staticmethod
    def matches(device: tuple[int, Gpu], key: str) -> bool:
        """Return whether -i KEY matches this GPU: index, UUID, serial number or PCI bus id."""
        index, gpu = device
        if key.isdigit() and len(key) < 9:
            return int(key) == index
        bus = gpu.bus_id.upper()
        return key in (gpu.get("uuid"), gpu.get("serial")) or key.upper() in (bus, bus[4:], bus[9:])

    def answering(self, wanted: str | None) -> list[tuple[int, Gpu]]:
        """Like select(), but fail if one of the GPUs is lost."""
        chosen = self.select(wanted)
        for index, gpu in chosen:
            if gpu.lost:
                raise Answer(EXIT_GPU_LOST, lost_message(index, gpu))
        return chosen

    # Short listings.

    def version(self) -> str:
        """Answer --version."""
        return (
            f"NVIDIA-SMI version  : {self.state.library_version}\n"
            f"NVML version        : {self.state.nvml_version}\n"
            f"DRIVER version      : {self.state.driver_version}\n"
            f"CUDA Version        : {self.state.node['cuda_version']}\n"
        )

    def listing(self) -> str:
        """Answer -L; a lost GPU has a message in its place; no GPUs are not an error."""
        if not self.devices:
            return "No devices found.\n"
        lines: list[str] = []
        for index, gpu in self.devices:
            if gpu.lost:
                lines.append(lost_message(index, gpu, "gpu "))
            else:
                lines.append(f"GPU {index}: {gpu.title}\n")
                lines += mig_devices(gpu)
        if any(gpu.lost for _, gpu in self.devices):
            raise Answer(EXIT_GPU_LOST, "".join(lines))
        return "".join(lines)

    def summary(self, wanted: str | None) -> str:
        """Return the table of a call without arguments. Assumption: "Cap" is the enforced limit."""
        chosen = self.answering(wanted)
        edge = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+\n"
        smi, driver = self.state.library_version, self.state.driver_version
        text = time.ctime() + " " * 7 + "\n+" + "-" * 89 + "+\n"
        text += (
            f"| NVIDIA-SMI {smi:<22} Driver Version: {driver:<14} "
            f"CUDA Version: {self.state.node['cuda_version']:<8} |\n"
        )
        text += edge
        text += (
            "| GPU  Name                 Persistence-M | Bus-Id          Disp.A "
            "| Volatile Uncorr. ECC |\n"
            "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage "
            "| GPU-Util  Compute M. |\n"
            "|                                         |                        "
            "|               MIG M. |\n"
        )
        text += "|" + edge[1:-2].replace("-", "=") + "|\n"
        for index, gpu in chosen:
            text += self.summary_rows(index, gpu) + edge
        text += "\n+" + "-" * 89 + "+\n"
        text += f"| {'Processes:':<88}|\n"
        text += (
            "|  GPU   GI   CI              PID   Type   Process name                        "
            "GPU Memory |\n"
            "|        ID   ID                                                               "
            "Usage      |\n"
        )
        text += "|" + "=" * 89 + "|\n"
        rows = "".join(
            f"|  {index:>3}   N/A  N/A {process['pid']:>15} {process['type']:>6}   "
            f"{process['name']:<34}{process['memory'].replace(' ', ''):>12} |\n"
            for index, gpu in chosen
            for process in gpu.processes
        )
        text += rows or f"|  {'No running processes found':<87}|\n"
        return text + "+" + "-" * 89 + "+\n"

    @staticmethod
    def summary_rows(index: int, gpu: Gpu) -> str:
        """Return the three lines of one GPU."""
        on = {"Enabled": "On", "Disabled": "Off"}
        show = {name: bare(value) for name, value in gpu.fields.items()}
        draw, cap = (
            show[name].split(".")[0] + "W" if show[name].endswith(" W") else show[name]
            for name in ("power.draw", "enforced.power.limit")
        )
        used, total = (show[name].replace(" ", "") for name in ("memory.used", "memory.total"))
        persistence = on.get(show["persistence_mode"], show["persistence_mode"])
        display = on.get(show["display_active"], show["display_active"])
        errors = show["ecc.errors.uncorrected.volatile.total"]
        if show["ecc.mode.current"] != "Enabled":
            errors = "Off"
        heat = show["temperature.gpu"] + "C"
        return (
            f"| {index:>3}  {show['name']:<25}{persistence:>8}  "
            f"|   {gpu.bus_id} {display:<3} | {errors:>20} |\n"
            f"| {show['fan.speed'].replace(' ', ''):<4} {heat:>4}    {show['pstate']:<3}"
            f"{draw:>15} / {cap:>5} |{used:>11} / {total:>9} "
            f"|{show['utilization.gpu'].replace(' ', ''):>8} {show['compute_mode']:>12} |\n"
            f"|{'':41}|{'':24}| {show['mig.mode.current']:>20} |\n"
        )

    # Queries as CSV.

    def value(self, index: int, gpu: Gpu, name: str) -> str:
        """Return the value of a field, stored or computed."""
        if name not in COMPUTED:
            return gpu.get(name)
        if name == "timestamp":
            return timestamp()
        if name == "count":
            return str(len(self.devices))
        return str(index) if name == "index" else self.state.driver_version

    def query(self, option: str, names: str, layout: str | None, wanted: str | None) -> str:
        """Answer --query-gpu and the other queries."""
        if layout is None:
            raise Answer(
                EXIT_INVALID,
                "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n",
            )
        modifiers = layout.split(",")
        if any(word not in ("csv", "noheader", "nounits") for word in modifiers):
            raise Answer(EXIT_INVALID, "Format modifier is not recognized.\n")
        if "csv" not in modifiers:
            raise Answer(EXIT_INVALID, "Format modifier --format=csv is mandatory.\n")
        columns = self.columns(option)
        fields: list[tuple[Field, str]] = []
        for name in names.split(",") if names else ():
            if name not in columns:
                raise Answer(EXIT_INVALID, f'Field "{name}" is not a valid field to query.\n\n')
            fields.append(columns[name])
        lines: list[str] = []
        if "noheader" not in modifiers:
            lines.append(", ".join(field.heading for field, _ in fields) + "\n")
        code = 0
        keep_on = option == "--query-gpu" and self.state.node["on_lost"] == "continue"
        for index, gpu in self.select(wanted) if keep_on else self.answering(wanted):
            if gpu.lost:
                code = EXIT_GPU_LOST
                lines.append(lost_message(index, gpu).rstrip("\n") + "\n")
                continue
            for item in self.items(option, gpu):
                row: list[str] = []
                for field, source in fields:
                    value = (
                        item.get(source[1:], NOT_AVAILABLE)
                        if source.startswith("$")
                        else self.value(index, gpu, source)
                    )
                    if "nounits" in modifiers and field.unit and value.endswith(" " + field.unit):
                        value = value[: -len(field.unit) - 1]
                    row.append(value)
                lines.append(", ".join(row) + "\n")
        if code:
            raise Answer(code, "".join(lines))
        return "".join(lines)

    @staticmethod
    def columns(option: str) -> dict[str, tuple[Field, str]]:
        """Return the columns of a query by name and alias, each with its field and source."""
        if option == "--query-gpu":
            return {name: (field, field.name) for name, field in load_catalogue()[1].items()}
        result: dict[str, tuple[Field, str]] = {}
        for line in (GPU_COLUMNS + LIST_COLUMNS[option]).splitlines():
            name, alias, unit, source = line.split("|")
            result[name] = (Field(name, unit, ""), source.strip())
            if alias:
                result[alias] = result[name]
        return result

    @staticmethod
    def items(option: str, gpu: Gpu) -> list[dict[str, str]]:
        """Return the items of a GPU for which a query prints one line each."""
        if option == "--query-compute-apps":
            return gpu.processes
        if option == "--query-retired-pages":
            return [{"cause": cause} for cause in RETIREMENT_CAUSES]
        return [] if option == "--query-accounted-apps" else [{}]

    @staticmethod
    def help_query(option: str) -> str:
        """Return the properties of a query (without the real program's descriptions)."""
        text = f'List of valid properties to query for the switch "{option}":\n\n'
        names: dict[str, list[str]] = {}
        for name, (field, _) in Smi.columns(option).items():
            names.setdefault(field.name, []).append(f'"{name}"')
        return text + "".join(" or ".join(known) + "\n\n" for known in names.values())

    # -q and -q -x.

    def nodes(self, gpu: Gpu, xml: bool) -> Iterator[tuple[int, str, str, str | None, str]]:
        """Yield the lines of TREE for a GPU: depth, label, tag, value or None, format."""
        for line in TREE.splitlines():
            depth = len(line) - len(line.lstrip(" "))
            label, tag, source = [*line[depth:].split("|"), ""][:3]
            source, _, how = source.partition(">")
            value: str | None = None
            if source.startswith("="):
                value = source[1:]
            elif source.startswith("@"):
                value = convert(gpu.extra.get(source[1:], "N/A"), how, xml)
            elif source.startswith("$"):
                value = self.state.driver_version if source == "$gsp" else source
                if source == "$gsp" and gpu.get("gsp.mode.current") != "Enabled":
                    value = "N/A"
            elif source:
                value = convert(gpu.get(source), how, xml)
            yield depth, label, tag, value, how

    def log(self, wanted: str | None, sections: str | None) -> str:
        """Answer -q [-d SECTIONS]. Assumption: "Attached GPUs" counts all GPUs even with -i."""
        only: list[str] | None = None
        if sections is not None:
            names = sections.split(",")
            if any(name not in SECTIONS for name in names):
                raise Answer(EXIT_INVALID, "Failed to parse --display/-d flags\n")
            only = "|".join(SECTIONS[name] for name in names).split("|")
        chosen = self.answering(wanted)
        pairs = (
            ("Timestamp", time.ctime()),
            ("Driver Version", self.state.driver_version),
            ("CUDA Version", self.state.node["cuda_version"]),
        )
        text = "\n==============NVSMI LOG==============\n\n"
        text += "".join(f"{label:<55}: {value}\n" for label, value in pairs)
        text += f"\n{'Attached GPUs':<55}: {len(self.devices)}\n"
        return text + "".join(self.log_gpu(gpu, only) for _, gpu in chosen)

    def log_gpu(self, gpu: Gpu, only: list[str] | None) -> str:
        """Return one GPU's part of -q."""
        lines = [f"GPU {gpu.bus_id}"]
        shown = True
        for depth, label, _, value, _ in self.nodes(gpu, xml=False):
            if depth == 0:
                shown = only is None or label in only
            if not shown or label == "-":
                continue
            deeper = label.startswith("+")
            head = "    " * (1 + depth + deeper) + label[deeper:]
            if value is None:
                lines.append(head)
            elif value != "$processes":
                lines.append(f"{head:<55}: {value}")
            elif not gpu.processes:
                lines.append(f"{head:<55}: None")
            else:
                lines.append(head)
                for process in gpu.processes:
                    lines += [
                        f"{'        GPU instance ID':<42}: N/A",
                        f"{'        Compute instance ID':<42}: N/A",
                        f"{'        Process ID':<42}: {process['pid']}",
                        f"{'            Type':<42}: {process['type']}",
                        f"{'            Name':<42}: {process['name']}",
                        f"{'            Used GPU Memory':<42}: {process['memory']}",
                    ]
        if only is not None and "Supported Clocks" in only:
            lines.append("    Supported Clocks")
            lines.append(f"{'        Memory':<55}: {gpu.get('clocks.max.memory')}")
            lines += [f"{'            Graphics':<55}: {clock}" for clock in supported_clocks(gpu)]
        return "\n".join(lines) + "\n\n"

    def xml(self, wanted: str | None) -> str:
        """Answer -q -x."""
        chosen = self.answering(wanted)
        text = (
            '<?xml version="1.0" ?>\n'
            '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
            "<nvidia_smi_log>\n"
            f"\t<timestamp>{time.ctime()}</timestamp>\n"
            f"\t<driver_version>{escape(self.state.driver_version)}</driver_version>\n"
            f"\t<cuda_version>{escape(self.state.node['cuda_version'])}</cuda_version>\n"
            f"\t<attached_gpus>{len(self.devices)}</attached_gpus>\n"
        )
        return text + "".join(self.xml_gpu(gpu) for _, gpu in chosen) + "</nvidia_smi_log>\n"

    def xml_gpu(self, gpu: Gpu) -> str:
        """Return one GPU's part of -q -x."""
        lines = [f'\t<gpu id="{escape(gpu.bus_id)}">']
        open_tags: list[str] = []

        def close_to(depth: int) -> None:
            while len(open_tags) > depth:
                tag = open_tags.pop()
                lines.append("\t" * (2 + len(open_tags)) + f"</{tag}>")

        for depth, _, tag, value, how in self.nodes(gpu, xml=True):
            if tag == "-":
                continue
            close_to(depth)
            tabs = "\t" * (2 + depth)
            if value is None:
                lines.append(f"{tabs}<{tag}>")
                open_tags.append(tag)
            elif value == "$processes":
                lines += [f"{tabs}<{tag}>", *xml_processes(gpu, tabs + "\t"), f"{tabs}</{tag}>"]
            elif value == "$supported_clocks":
                lines += [
                    f"{tabs}<{tag}>",
                    f"{tabs}\t<supported_mem_clock>",
                    f"{tabs}\t\t<value>{escape(gpu.get('clocks.max.memory'))}</value>",
                    *(
                        f"{tabs}\t\t<supported_graphics_clock>{clock}</supported_graphics_clock>"
                        for clock in supported_clocks(gpu)
                    ),
                    f"{tabs}\t</supported_mem_clock>",
                    f"{tabs}</{tag}>",
                ]
            elif how == "block":
                lines += [f"{tabs}<{tag}>", f"{tabs}\t{escape(value)}", f"{tabs}</{tag}>"]
            elif how == "empty":
                lines += [f"{tabs}<{tag}>", f"{tabs}</{tag}>"]
            else:
                lines.append(f"{tabs}<{tag}>{escape(value)}</{tag}>")
        close_to(0)
        return "\n".join(lines) + "\n\t</gpu>\n\n"

    # Subcommands.

    def topo(self, arguments: list[str]) -> str:
        """Answer ``topo -m``: a pair has as many NVLinks as are active on both GPUs."""
        if not arguments or arguments[0] in ("-h", "--help"):
            return "\n    topo (simulated): only -m | --matrix is supported.\n\n"
        if arguments[0] not in ("-m", "--matrix"):
            raise Answer(EXIT_INVALID, f'Option "{arguments[0]}" is not recognized.\n')
        if not self.devices or any(gpu.lost for _, gpu in self.devices):
            raise Answer(EXIT_OTHER, "Failed to run topology matrix\n\n")
        heads = "\t".join(f"GPU{index}" for index, _ in self.devices)
        text = f"\t\x1b[4m{heads}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        for index, gpu in self.devices:
            cells = "".join(
                " X \t" if other is gpu else path_between(gpu, other) + "\t"
                for _, other in self.devices
            )
            cpus, numa = gpu.extra["cpu_affinity"], gpu.extra["numa_affinity"]
            text += f"GPU{index}\t{cells}{cpus}\t{numa}\t\tN/A\n"
        return text + (
            "\nLegend:\n\n"
            "  X    = Self\n"
            "  SYS  = Across the link between NUMA nodes\n"
            "  NODE = Across host bridges of one NUMA node\n"
            "  PHB  = Across one host bridge\n"
            "  PXB  = Across several PCIe bridges\n"
            "  PIX  = Across at most one PCIe bridge\n"
            "  NV#  = Across # NVLinks\n"
        )

    def nvlink(self, arguments: list[str]) -> str:
        """Answer ``nvlink -s`` and ``nvlink -e``, with -i and -l.

        Assumption: -e separates links by a blank line (published output varies), without dead ones.
        """
        what, wanted, only = "", None, None
        rest = list(arguments)
        while rest:
            option = rest.pop(0)
            if option in ("-h", "--help"):
                what = ""
                break
            if option in ("-s", "--status"):
                what = "status"
            elif option in ("-e", "--errorcounters"):
                what = "errors"
            elif option in ("-i", "--id", "-l", "--link") and rest:
                if option in ("-i", "--id"):
                    wanted = rest.pop(0)
                else:
                    only = rest.pop(0)
            else:
                raise Answer(EXIT_INVALID, f'Option "{option}" is not recognized.\n')
        if not what:
            return "\n    nvlink (simulated): only -s, -e, -i and -l are supported.\n\n"
        text = ""
        for index, gpu in self.answering(wanted):
            text += f"GPU {index}: {gpu.title}\n"
            for number in range(NVLINKS):
                if only is not None and str(number) != only:
                    continue
                if what == "status":
                    text += f"\t Link {number}: {gpu.link(number, 'speed')}\n"
                elif gpu.link(number, "speed") != NVLINK_INACTIVE:
                    for counter, label in NVLINK_ERRORS:
                        text += f"\t Link {number}: {label} Errors: {gpu.link(number, counter)}\n"
                    text += "\n"
        return text

    def mig(self, arguments: list[str]) -> str:
        """Answer ``mig -lgi``, ``-cgi PROFILES [-C]``, ``-dci`` and ``-dgi``, with -i and -gi.

        Assumptions: the text of error messages, and exit code 6 when nothing is found.
        """
        verb, wanted, profiles, compute, only = "", None, "", False, ""
        rest = list(arguments)
        while rest:
            option = rest.pop(0)
            if option in ("-i", "--id", "-cgi", "--create-gpu-instance") and rest:
                if option in ("-i", "--id"):
                    wanted = rest.pop(0)
                else:
                    verb, profiles = "create", rest.pop(0)
            elif option in ("-gi", "--gpu-instance-id") and rest:
                only = rest.pop(0)
            elif option in ("-C", "--default-compute-instance"):
                compute = True
            elif option in ("-lgi", "--list-gpu-instances"):
                verb = "list"
            elif option in ("-dgi", "--destroy-gpu-instance"):
                verb = "destroy"
            elif option in ("-dci", "--destroy-compute-instance"):
                verb = "destroy_compute"
            else:
                raise Answer(EXIT_INVALID, f'Option "{option}" is not recognized.\n')
        if not verb:
            return (
                "\n    mig (simulated): only -lgi, -cgi, -C, -dci, -dgi, -gi, -i are supported.\n\n"
            )
        chosen = [d for d in self.answering(wanted) if d[1].get("mig.mode.current") == "Enabled"]
        if not chosen:
            raise Answer(EXIT_NOT_FOUND, "No MIG-enabled devices found.\n")
        if verb == "list":
            return mig_list(chosen)
        if os.environ.get("LOCKSTEP_STANDIN_EUID", str(os.geteuid())) != "0":
            raise Answer(EXIT_PERMISSION, "Insufficient Permissions\n")
        text: list[str] = []
        changes: dict[int, dict[str, str]] = {}
        refused = 0
        for index, gpu in chosen:
            instances = mig_instances(gpu)
            try:
                if verb == "create":
                    text += mig_create(index, instances, profiles, compute)
                else:
                    text += mig_destroy(index, instances, verb, only)
            except Answer as answer:
                text.append(answer.text)
                refused = answer.code
                break
            listed = ",".join(":".join(instance) for instance in instances)
            changes[gpu.slot] = {"mig.instances": listed or "none"}
        if changes:
            self.save(changes)
        if refused:
            raise Answer(refused, "".join(text))
        return "".join(text)

    # Settings.

    def modify(self, option: str, spelled: str, value: str, wanted: str | None) -> str:
        """Apply one setting to the GPUs of -i and save the state.

        Assumption: -e 0 and -e 1 exit with 0, and "already" refers to the pending mode.
        """
        may = os.environ.get("LOCKSTEP_STANDIN_EUID", str(os.geteuid())) == "0"
        text: list[str] = []
        changes: dict[int, dict[str, str]] = {}
        result = Answer(0, "")
        chosen = self.answering(wanted)
        act = setting(option, spelled, value, may)
        try:
            for _, gpu in chosen:
                line, changed = act(gpu)
                text.append(line)
                if changed:
                    changes[gpu.slot] = changed
        except Answer as answer:
            text.append(answer.text + "Terminating early due to previous errors.\n")
            result = answer
        if changes:
            self.save(changes)
        if result.code:
            raise Answer(result.code, "".join(text))
        text.append("All done.\n")
        if option == "--ecc-config" and changes:
            text.append("Reboot required.\n")
        return "".join(text)

    def save(self, changes: dict[int, dict[str, str]]) -> None:
        """Write the changes of a setting, by slot, to the current state file."""

        def change(state: State) -> None:
            for slot, values in changes.items():
                state.gpus[slot].put(values)

        change_state(self.path, change)


def mig_instances(gpu: Gpu) -> list[list[str]]:
    """Return the GPU instances: number, profile, first slice, whether it has a compute instance."""
    listed = gpu.extra["mig.instances"]
    return [] if listed == "none" else [item.split(":") for item in listed.split(",")]


def mig_profile(word: str) -> tuple[str, str, int, int]:
    """Return the profile with a number or a name."""
    for profile in MIG_PROFILES:
        if word in profile[:2]:
            return profile
    raise Answer(EXIT_INVALID, f"Unable to parse GPU instance profile: {word}\n")


def mig_create(
    index: int, instances: list[list[str]], profiles: str, compute: bool
) -> Iterator[str]:
    """Add an instance for each profile; yield the output."""
    for word in profiles.split(","):
        number, name, processors, memory = mig_profile(word)
        taken = [mig_profile(instance[1]) for instance in instances]
        if (
            sum(other[2] for other in taken) + processors > MIG_SLICES[0]
            or sum(other[3] for other in taken) + memory > MIG_SLICES[1]
        ):
            raise Answer(
                EXIT_OTHER,
                f"Unable to create a GPU instance on GPU {index:>2} using profile {number}: "
                "Insufficient Resources\nFailed to create GPU instances: Insufficient Resources\n",
            )
        used = {int(instance[0]) for instance in instances}
        own = next(n for n in range(1, 16) if n not in used)
        start = mig_start(instances, memory)
        instances.append([str(own), number, str(start), "1" if compute else "0"])
        yield (
            f"Successfully created GPU instance ID {own:>2} on GPU {index:>2} using profile "
            f"MIG {name} (ID {number:>2})\n"
        )
        if compute:
            yield (
                f"Successfully created compute instance ID  0 on GPU {index:>2} GPU instance ID "
                f"{own:>2} using profile MIG {name} (ID {processors - 1:>2})\n"
            )


def mig_start(instances: list[list[str]], memory: int) -> int:
    """Return the first memory slice that is followed by enough free slices."""
    taken = {
        int(start) + n for _, number, start, _ in instances for n in range(mig_profile(number)[3])
    }
    free = (
        start for start in range(MIG_SLICES[1]) if taken.isdisjoint(range(start, start + memory))
    )
    return next(free, 0)


def mig_devices(gpu: Gpu) -> list[str]:
    """Return the MIG lines of -L for a GPU. Assumption: they are in order of creation."""
    made = [
        mig_profile(number)[1] for _, number, _, compute in mig_instances(gpu) if compute == "1"
    ]
    shown = made if gpu.get("mig.mode.current") == "Enabled" else []
    return [
        f"  MIG {name:<12}Device {n:>2}: (UUID: MIG-{gpu.get('uuid')[4:-2]}{n:02})\n"
        for n, name in enumerate(shown)
    ]


def mig_destroy(index: int, instances: list[list[str]], verb: str, only: str) -> Iterator[str]:
    """Remove all instances or one; yield the output."""
    chosen = [instance for instance in instances if only in ("", instance[0])]
    if not chosen:
        raise Answer(EXIT_NOT_FOUND, "No GPU instances found: Not Found\n")
    for instance in chosen:
        if verb == "destroy_compute":
            instance[3] = "0"
            yield (
                f"Successfully destroyed compute instance ID  0 from GPU {index:>2} "
                f"GPU instance ID {instance[0]:>2}\n"
            )
        elif instance[3] == "1":
            raise Answer(
                EXIT_OTHER,
                f"Unable to destroy GPU instance ID {instance[0]:>2} from GPU {index:>2}: "
                "In use by another client\n",
            )
        else:
            instances.remove(instance)
            yield (f"Successfully destroyed GPU instance ID {instance[0]:>2} from GPU {index:>2}\n")


def mig_list(chosen: list[tuple[int, Gpu]]) -> str:
    """Return the table of ``mig -lgi``."""
    rows = ""
    for index, gpu in chosen:
        for own, number, start, _ in mig_instances(gpu):
            _, name, _, memory = mig_profile(number)
            rows += (
                f"| {index:>3}  MIG {name:<15} {number:>4} {own:>8}          "
                f"{start + ':' + str(memory):<7} |\n"
            )
    if not rows:
        raise Answer(EXIT_NOT_FOUND, "No GPU instances found: Not Found\n")
    edge = "+" + "-" * 57 + "+\n"
    return (
        edge
        + f"| {'GPU instances:':<56}|\n"
        + f"| {'GPU   Name               Profile  Instance   Placement':<56}|\n"
        + f"| {'                           ID       ID       Start:Size':<56}|\n"
        + "|"
        + "=" * 57
        + "|\n"
        + rows
        + edge
    )


def supported_clocks(gpu: Gpu) -> list[str]:
    """Return the supported graphics clocks: steps of 15 MHz down to 345."""
    top = gpu.get("clocks.max.graphics").split(" ")[0]
    return [f"{mhz} MHz" for mhz in range(int(top) if top.isdigit() else 345, 344, -15)]


def escape(value: str) -> str:
    """Escape text for XML."""
    value = bare(value)
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def xml_processes(gpu: Gpu, tabs: str) -> list[str]:
    """Return the processes of one GPU for -q -x."""
    lines: list[str] = []
    for process in gpu.processes:
        lines.append(f"{tabs}<process_info>")
        for tag, value in (
            ("gpu_instance_id", "N/A"),
            ("compute_instance_id", "N/A"),
            ("pid", process["pid"]),
            ("type", process["type"]),
            ("process_name", process["name"]),
            ("used_memory", process["memory"]),
        ):
            lines.append(f"{tabs}\t<{tag}>{escape(value)}</{tag}>")
        lines.append(f"{tabs}</process_info>")
    return lines


def path_between(one: Gpu, other: Gpu) -> str:
    """Return the path type of ``topo -m`` for a pair of GPUs."""
    links = min(one.active_links(), other.active_links())
    if links:
        return f"NV{links}"
    return "NODE" if one.extra["numa_affinity"] == other.extra["numa_affinity"] else "SYS"


def persistence_warning(gpu: Gpu) -> str:
    """Return the warning that a setting is lost when the last client of the driver exits."""
    if gpu.get("persistence_mode") == "Enabled":
        return ""
    return (
        f"\nWarning: persistence mode is disabled on device {gpu.bus_id}. See the Known Issues "
        "section of the nvidia-smi(1) man page for more information. Run with [--help | -h] switch "
        "to get more information on how to enable persistence mode.\n"
    )


def number_of(text: str) -> float:
    """Return the number at the start of a value such as "700.00 W"."""
    try:
        return float(text.split(" ")[0])
    except ValueError:
        return -1.0


def setting(
    option: str, spelled: str, value: str, may: bool
) -> Callable[[Gpu], tuple[str, dict[str, str]]]:
    """Check a setting's value; return a function from a GPU to the output and the changes."""
    wrong = Answer(
        EXIT_INVALID,
        f"ERROR: Option {value} is invalid for {spelled}. Please run 'nvidia-smi -h' for help.\n\n",
    )
    words = {"0": "Disabled", "DISABLED": "Disabled", "1": "Enabled", "ENABLED": "Enabled"}
    mode = words.get(value, "")
    kinds = {
        "--persistence-mode": "persistence mode",
        "--ecc-config": "ECC configuration code",
        "--multi-instance-gpu": "MIG mode",
        "--compute-mode": "compute mode",
    }
    known = value.upper() in COMPUTE_MODES if option == "--compute-mode" else bool(mode)
    if option in kinds and not known:
        if not value.isdigit():
            raise wrong
        kind = kinds[option]
        raise Answer(
            EXIT_INVALID,
            f"Invalid {kind}: {value}\nTerminating early due to previous errors.\n",
        )

    def persistence(gpu: Gpu) -> tuple[str, dict[str, str]]:
        if gpu.get("persistence_mode") == mode:
            return f"Persistence mode is already {mode} for GPU {gpu.bus_id}.\n", {}
        if not may:
            raise Answer(
                EXIT_PERMISSION,
                f"Unable to set persistence mode for GPU {gpu.bus_id}: Insufficient Permissions\n",
            )
        return f"{mode} persistence mode for GPU {gpu.bus_id}.\n", {"persistence_mode": mode}

    def ecc(gpu: Gpu) -> tuple[str, dict[str, str]]:
        if gpu.get("ecc.mode.pending") == mode:
            return f"ECC support is already {mode} for GPU {gpu.bus_id}.\n", {}
        if not may:
            raise Answer(
                EXIT_PERMISSION,
                f"Unable to set ECC config for GPU {gpu.bus_id}: Insufficient Permissions\n",
            )
        return f"{mode} ECC support for GPU {gpu.bus_id}.\n", {"ecc.mode.pending": mode}

    def locked(gpu: Gpu) -> tuple[str, dict[str, str]]:
        if not may:
            raise Answer(
                EXIT_PERMISSION,
                "The current user does not have permission to change clocks for GPU "
                f"{gpu.bus_id}.\n",
            )
        if not clocks:
            return "", unlocked(gpu)
        # An idle GPU runs at its lowest clock, unless the lock's lower bound is higher.
        idle = load_catalogue()[1]["clocks.current.sm"].default
        lowest = f"{max(int(clocks[0]), int(number_of(idle)))} MHz"
        change = {
            "clocks.locked": ",".join(clocks),
            "clocks.current.graphics": lowest,
            "clocks.current.sm": lowest,
        }
        text = (
            f'GPU clocks set to "(gpuClkMin {clocks[0]}, gpuClkMax {clocks[1]})" '
            f"for GPU {gpu.bus_id}\n"
        )
        return text + persistence_warning(gpu), change

    def compute(gpu: Gpu) -> tuple[str, dict[str, str]]:
        word = COMPUTE_MODES[value.upper()]
        if gpu.get("compute_mode").upper() == word:
            return f"Compute mode is already set to {word} for GPU {gpu.bus_id}.\n", {}
        if not may:
            raise Answer(
                EXIT_PERMISSION,
                f"Unable to set the compute mode for GPU {gpu.bus_id}: Insufficient Permissions\n",
            )
        text = f"Set compute mode to {word} for GPU {gpu.bus_id}.\n"
        return text, {"compute_mode": "_".join(part.capitalize() for part in word.split("_"))}

    def mig_mode(gpu: Gpu) -> tuple[str, dict[str, str]]:
        if not may:
            raise Answer(
                EXIT_PERMISSION,
                f"Unable to set MIG mode for GPU {gpu.bus_id}: Insufficient Permissions\n",
            )
        change = {"mig.mode.pending": mode}
        in_use = gpu.processes or mig_instances(gpu)
        if in_use and gpu.get("mig.mode.current") != mode:
            return (
                f"Warning: MIG mode is in pending {mode.lower()[:-1]} state for GPU {gpu.bus_id}:"
                "In use by another client\n"
            ), change
        # Since Hopper, it needs no reset of the GPU.
        return f"{mode} MIG Mode for GPU {gpu.bus_id}\n", {**change, "mig.mode.current": mode}

    def power(gpu: Gpu) -> tuple[str, dict[str, str]]:
        low, high = number_of(gpu.get("power.min_limit")), number_of(gpu.get("power.max_limit"))
        if not low <= watts <= high:
            raise Answer(
                EXIT_INVALID,
                f"Provided power limit {watts:.2f} W is not a valid power limit which should be "
                f"between {low:.2f} W and {high:.2f} W for GPU {gpu.bus_id}\n",
            )
        if not may:
            raise Answer(
                EXIT_PERMISSION,
                f"Failed to set power management limit for GPU {gpu.bus_id}: "
                "Insufficient Permissions\n",
            )
        was = gpu.get("power.limit")
        limit = f"{watts:.2f} W"
        text = f"Power limit for GPU {gpu.bus_id} was set to {watts:.2f} W from {was}.\n"
        change = {"power.limit": limit, "enforced.power.limit": limit}
        return text + persistence_warning(gpu), change

    if option == "--persistence-mode":
        return persistence
    if option == "--ecc-config":
        return ecc
    if option == "--compute-mode":
        return compute
    if option == "--multi-instance-gpu":
        return mig_mode
    if option == "--power-limit":
        try:
            watts = float(value)
        except ValueError:
            raise wrong from None
        if watts < 0:
            raise Answer(EXIT_OTHER, "Input combination for device modification is not valid.\n\n")
        return power
    clocks = value.split(",") if option == "--lock-gpu-clocks" else []
    if clocks:
        if len(clocks) > 2 or not all(clock.isdigit() for clock in clocks):
            raise Answer(
                EXIT_INVALID,
                f'Specified clocks "{value}" are not valid. Please format input as '
                "'gpuClkMin,gpuClkMax' or 'gpuClkVal' e.g. '--lock-gpu-clocks=1500,1500', "
                "'--lock-gpu-clocks=1500', or '--lock-gpu-clocks=tdp,unlimited'\n"
                "Terminating early due to previous errors.\n",
            )
        clocks = [clocks[0], clocks[-1]]
    return locked


def not_valid_here(spelled: str) -> Answer:
    """Return the error for an option that the command does not support."""
    return Answer(
        EXIT_INVALID,
        f"ERROR: Option {spelled} is not valid for this command. "
        "Please run 'nvidia-smi -h' for help.\n\n",
    )


def parse(arguments: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options by long name: their values, and their spellings."""
    values: dict[str, str] = {}
    spelled: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.partition("=")
        if name in NOT_SIMULATED:
            raise StandinError(f'"{name}" exists, but is not simulated')
        takes = OPTIONS.get(name)
        if takes is None or (equals and not takes):
            raise Answer(
                EXIT_OTHER,
                f"ERROR: Option {argument} is not recognized. Please run 'nvidia-smi -h'.\n\n",
            )
        if takes and not equals:
            if not rest:
                raise Answer(
                    EXIT_OTHER,
                    f"ERROR: Option {argument} is missing its value. "
                    "Please run 'nvidia-smi -h' for help.\n\n",
                )
            value = rest.pop(0)
        long = LONG.get(name, name)
        values[long], spelled[long] = value, argument
    return values, spelled


def run(smi: Smi, arguments: list[str]) -> str:
    """Answer one call."""
    if arguments and arguments[0] == "topo":
        return smi.topo(arguments[1:])
    if arguments and arguments[0] == "nvlink":
        return smi.nvlink(arguments[1:])
    if arguments and arguments[0] == "mig":
        return smi.mig(arguments[1:])
    values, spelled = parse(arguments)
    wanted = values.get("--id")

    def only(*allowed: str) -> None:
        for name in values:
            if name not in allowed:
                raise not_valid_here(spelled[name])

    every = ("--id", "--filename", "--loop", "--loop-ms")
    helps = [name for name in values if name.startswith("--help-query-")]
    if "--help" in values:
        only("--help")
        return "nvidia-smi, simulated by Lockstep's lab. Options:\n  " + "\n  ".join(OPTIONS) + "\n"
    if "--version" in values:
        only("--version")
        return smi.version()
    if helps:
        only(helps[0])
        return smi.help_query(helps[0].replace("--help-", "--"))
    if "--list-gpus" in values:
        only("--list-gpus", "--filename")
        return smi.listing()
    modifiers = [name for name in MODIFIERS if name in values]
    if len(modifiers) > 1:
        raise Answer(
            EXIT_INVALID,
            "Invalid combination of input arguments. "
            "Only one device modification may be done at a time.\n\n",
        )
    if modifiers:
        only(modifiers[0], "--id")
        option = modifiers[0]
        return smi.modify(option, spelled[option], values[option], wanted)
    queries = [name for name in QUERIES if name in values]
    if queries:
        only(queries[0], "--format", *every)
        return smi.query(queries[0], values[queries[0]], values.get("--format"), wanted)
    if "--format" in values:
        raise Answer(
            EXIT_OTHER,
            f"ERROR: Option {spelled['--format']} is not recognized. "
            "Please run 'nvidia-smi -h'.\n\n",
        )
    if "--query" in values:
        if "--xml-format" not in values:
            return smi.log(wanted, values.get("--display"))
        if "--display" in values:
            raise Answer(
                EXIT_INVALID,
                "Invalid combination of input arguments: --display/-d flags can not be combined "
                "with -x/--xml-format flags.\n",
            )
        return smi.xml(wanted)
    for name, letters in (("--xml-format", "-x"), ("--display", "-d")):
        if name in values:
            query = "an XML" if letters == "-x" else "a filtered"
            raise Answer(
                EXIT_INVALID,
                f"Invalid combination of input arguments. Specify -q/--query and {letters}/{name} "
                f"to run {query} query.  Please run 'nvidia-smi -h' for help.\n\n",
            )
    return smi.summary(wanted)


def load_node(path: str) -> State:
    """Load the node's state; without the file there is no driver."""
    try:
        with open(path, encoding="utf-8") as file:
            state = State.from_json(file.read())
        hang = float(state.node["hang_s"])
    except FileNotFoundError:
        sys.stderr.write(f"nvidia-smi (simulated): no state file {path}\n")
        return State({"driver": "not_loaded"}, [])
    except (OSError, ValueError) as error:
        raise StandinError(f"{path}: {error}") from error
    root = os.environ.get("LOCKSTEP_STANDIN_ROOT", "/" if path == DEFAULT_STATE else "")
    if root:
        take_versions(state, root)
    time.sleep(hang)
    return state


def take_versions(state: State, root: str) -> None:
    """Set the versions of driver and library from this machine if the state has none."""
    node = state.node
    if node["driver_version"] != NODE_DEFAULTS["driver_version"]:
        return
    loaded = node["loaded_version"]
    try:
        with open(os.path.join(root, LOADED), encoding="utf-8") as file:
            words = file.readline().split()
        loaded = next(word for word in words if word[0].isdigit() and "." in word)
    except (OSError, StopIteration):  # a container, or a machine before its first boot
        devices = os.path.join(root, "dev")
        if loaded and os.path.exists(os.path.join(devices, "nvidiactl")):
            for gpu in state.gpus:
                gpu.present &= os.path.exists(os.path.join(devices, f"nvidia{gpu.slot}"))
    if not loaded:
        return
    node["driver_version"] = loaded
    if node["cuda_version"] == NODE_DEFAULTS["cuda_version"]:
        node["cuda_version"] = CUDA_OF.get(loaded.split(".")[0], node["cuda_version"])
    library = os.path.realpath(os.path.join(root, LIBRARY))
    version = library.partition(".so.")[2]
    if node["library_version"] or "." not in version or not os.path.exists(library):
        return
    node["library_version"] = version
    if version != loaded and node["driver"] == "ok":
        node["driver"] = "mismatch"


def check_driver(state: State) -> None:
    """End the call if NVML cannot start; the real program also checks this first."""
    driver = state.node["driver"]
    if driver == "not_loaded":
        raise Answer(
            EXIT_NO_DRIVER,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.\n\n",
        )
    if driver == "mismatch":
        raise Answer(
            EXIT_MISMATCH,
            "Failed to initialize NVML: Driver/library version mismatch\n"
            f"NVML library version: {state.nvml_version}\n",
        )
    if driver == "no_library":
        raise Answer(
            EXIT_NO_LIBRARY,
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure "
            "that the NVIDIA Display Driver is properly installed and present in your system.\n"
            "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n",
        )


def loop_interval(arguments: list[str]) -> float | None:
    """Return the interval of -l or -lms in seconds, if given."""
    values: dict[str, str] = {}
    try:
        values, _ = parse(arguments)
        if "--loop-ms" in values:
            return float(values["--loop-ms"]) / 1000
        return float(values["--loop"]) if "--loop" in values else None
    except (Answer, StandinError, ValueError):
        return None


def once(path: str, arguments: list[str]) -> int:
    """Read the state, answer once, and return the exit code."""
    target = ""
    try:
        state = load_node(path)
        check_driver(state)
        if arguments and arguments[0] not in ("topo", "nvlink", "mig"):
            target = parse(arguments)[0].get("--filename", "")
        text, code = run(Smi(state, path), arguments), 0
    except Answer as answer:
        text, code = answer.text, answer.code
    if target:
        with open(target, "a", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
    return code


def main(arguments: list[str]) -> int:
    """Run the program; return its exit code."""
    try:
        if arguments and arguments[0].startswith("--standin-"):
            sys.stdout.write(maintain(arguments[0], arguments[1:]))
            return 0
        path = os.environ.get("LOCKSTEP_STANDIN_STATE") or DEFAULT_STATE
        interval = loop_interval(arguments)
        code = once(path, arguments)
        while interval is not None and code == 0:
            time.sleep(interval)
            code = once(path, arguments)
        return code
    except StandinError as error:
        sys.stderr.write(f"nvidia-smi (simulated): {error}\n")
        return error.code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

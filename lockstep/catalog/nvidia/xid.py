"""What the error numbers of NVIDIA's driver (Xid) mean: name, action, and how much one costs.

Numbers, names and actions: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), as
leptonai/gpud generated it on 2025-10-29. The severity is ours: it follows from the action, and a
comment says why where it does not. ``monitoring.xid`` of a description overrides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal


class Action(Enum):
    """What the catalogue tells an operator to do."""

    IGNORE = "nothing"
    RESTART_APP = "restart the application"
    RESET_GPU = "reset the GPU"
    RESTART_MACHINE = "restart the machine"
    CHECK_MECHANICALS = "check seat and power cables"
    NVLINK = "check the NVLink, reset all GPUs of the baseboard together"
    UPDATE = "update driver and firmware"
    FOLLOW = "look at the Xid before it"
    CONTACT_SUPPORT = "ask the vendor"
    """Most of these are marked as unused."""
    UNDEFINED = "look it up: the catalogue says nothing"


Severity = Literal["critical", "error", "warning", "none"]
"""critical: no job may start there; error: the board is wrong; none: a matter of the program that
ran, or read elsewhere."""


@dataclass(frozen=True)
class Xid:
    """One number."""

    name: str
    """Of the driver's source, without ROBUST_CHANNEL."""
    action: Action
    severity: Severity


IGNORE, RESTART_APP, RESET_GPU = Action.IGNORE, Action.RESTART_APP, Action.RESET_GPU
RESTART_MACHINE, CHECK_MECHANICALS = Action.RESTART_MACHINE, Action.CHECK_MECHANICALS
NVLINK, UPDATE, FOLLOW = Action.NVLINK, Action.UPDATE, Action.FOLLOW
CONTACT_SUPPORT, UNDEFINED = Action.CONTACT_SUPPORT, Action.UNDEFINED
CRITICAL: Severity = "critical"
ERROR: Severity = "error"
WARNING: Severity = "warning"
NONE: Severity = "none"

XIDS: Mapping[int, Xid] = {
    1: Xid("FIFO_ERROR_FIFO_METHOD", CONTACT_SUPPORT, WARNING),
    2: Xid("FIFO_ERROR_SW_METHOD", CONTACT_SUPPORT, WARNING),
    3: Xid("FIFO_ERROR_UNK_METHOD", CONTACT_SUPPORT, WARNING),
    4: Xid("FIFO_ERROR_CHANNEL_BUSY", CONTACT_SUPPORT, WARNING),
    5: Xid("FIFO_ERROR_RUNOUT_OVERFLOW", CONTACT_SUPPORT, WARNING),
    6: Xid("FIFO_ERROR_PARSE_ERR", CONTACT_SUPPORT, WARNING),
    7: Xid("FIFO_ERROR_PTE_ERR", CONTACT_SUPPORT, WARNING),
    8: Xid("FIFO_ERROR_IDLE_TIMEOUT", RESTART_APP, NONE),
    9: Xid("GR_ERROR_INSTANCE", CONTACT_SUPPORT, WARNING),
    10: Xid("GR_ERROR_SINGLE_STEP", CONTACT_SUPPORT, WARNING),
    11: Xid("GR_ERROR_MISSING_HW", RESTART_APP, NONE),
    12: Xid("GR_ERROR_SW_METHOD", CONTACT_SUPPORT, WARNING),
    13: Xid("GR_EXCEPTION", RESTART_APP, NONE),
    14: Xid("FAKE_ERROR", IGNORE, NONE),
    15: Xid("SCANLINE_TIMEOUT", CONTACT_SUPPORT, WARNING),
    16: Xid("VBLANK_CALLBACK_TIMEOUT", CONTACT_SUPPORT, WARNING),
    17: Xid("PARAMETER_ERROR", CONTACT_SUPPORT, WARNING),
    18: Xid("BUS_MASTER_TIMEOUT_ERROR", CONTACT_SUPPORT, WARNING),
    19: Xid("DISP_MISSED_NOTIFIER", CONTACT_SUPPORT, WARNING),
    20: Xid("MPEG_ERROR_SW_METHOD", CONTACT_SUPPORT, WARNING),
    21: Xid("ME_ERROR_SW_METHOD", CONTACT_SUPPORT, WARNING),
    22: Xid("VP_ERROR_SW_METHOD", CONTACT_SUPPORT, WARNING),
    23: Xid("RC_LOGGING_ENABLED", CONTACT_SUPPORT, WARNING),
    24: Xid("GR_SEMAPHORE_TIMEOUT", CONTACT_SUPPORT, WARNING),
    25: Xid("GR_ILLEGAL_NOTIFY", RESTART_APP, NONE),
    26: Xid("FIFO_ERROR_FBISTATE_TIMEOUT", CONTACT_SUPPORT, WARNING),
    27: Xid("VP_ERROR", CONTACT_SUPPORT, WARNING),
    28: Xid("VP2_ERROR", CONTACT_SUPPORT, WARNING),
    29: Xid("BSP_ERROR", CONTACT_SUPPORT, WARNING),
    30: Xid("BAD_ADDR_ACCESS", CONTACT_SUPPORT, WARNING),
    31: Xid("FIFO_ERROR_MMU_ERR_FLT", RESTART_APP, NONE),
    32: Xid("PBDMA_ERROR", RESTART_APP, NONE),
    33: Xid("SEC_ERROR", CONTACT_SUPPORT, WARNING),
    34: Xid("MSVLD_ERROR", CONTACT_SUPPORT, WARNING),
    35: Xid("MSPDEC_ERROR", CONTACT_SUPPORT, WARNING),
    36: Xid("MSPPP_ERROR", CONTACT_SUPPORT, WARNING),
    37: Xid("FECS_ERR_UNIMP_FIRMWARE_METHOD", IGNORE, NONE),
    38: Xid("FECS_ERR_WATCHDOG_TIMEOUT", IGNORE, NONE),
    39: Xid("CE0_ERROR", RESTART_APP, NONE),
    40: Xid("CE1_ERROR", RESTART_APP, NONE),
    41: Xid("CE2_ERROR", RESTART_APP, NONE),
    42: Xid("VIC_ERROR", CONTACT_SUPPORT, WARNING),
    43: Xid("RESETCHANNEL_VERIF_ERROR", IGNORE, NONE),
    44: Xid("GR_FAULT_DURING_CTXSW", IGNORE, NONE),
    45: Xid("PREEMPTIVE_REMOVAL", FOLLOW, NONE),
    46: Xid("GPU_TIMEOUT_ERROR", RESET_GPU, ERROR),
    47: Xid("NVENC0_ERROR", CONTACT_SUPPORT, WARNING),
    # Two flipped bits at once: what the job computes is wrong.
    48: Xid("GPU_ECC_DBE", RESET_GPU, CRITICAL),
    49: Xid("SILENT_RUNNING_CONSTANT_LEVEL_SET_BY_REGISTRY", CONTACT_SUPPORT, WARNING),
    50: Xid("SILENT_RUNNING_LEVEL_TRANSITION_DUE_TO_RC_ERROR", CONTACT_SUPPORT, WARNING),
    51: Xid("SILENT_RUNNING_STRESS_TEST_FAILURE", CONTACT_SUPPORT, WARNING),
    52: Xid("SILENT_RUNNING_LEVEL_TRANS_DUE_TO_TEMP_RISE", CONTACT_SUPPORT, WARNING),
    53: Xid("SILENT_RUNNING_TEMP_REDUCED_CLOCKING", CONTACT_SUPPORT, WARNING),
    54: Xid("SILENT_RUNNING_PWR_REDUCED_CLOCKING", CHECK_MECHANICALS, CRITICAL),
    55: Xid("SILENT_RUNNING_TEMPERATURE_READ_ERROR", CONTACT_SUPPORT, WARNING),
    56: Xid("DISPLAY_CHANNEL_EXCEPTION", CONTACT_SUPPORT, WARNING),
    57: Xid("FB_LINK_TRAINING_FAILURE_ERROR", CONTACT_SUPPORT, WARNING),
    58: Xid("FB_MEMORY_ERROR", CONTACT_SUPPORT, WARNING),
    59: Xid("PMU_ERROR", CONTACT_SUPPORT, WARNING),
    60: Xid("SEC2_ERROR", RESTART_APP, NONE),
    61: Xid("PMU_BREAKPOINT", CONTACT_SUPPORT, WARNING),
    62: Xid("PMU_HALT_ERROR", RESET_GPU, ERROR),
    # gpu.row_remap reads whether the row still waits, and is quiet after the reset.
    63: Xid("INFOROM_DRAM_RETIREMENT_EVENT", IGNORE, NONE),
    # No spare row is left: the board is replaced (gpu.row_remap).
    64: Xid("INFOROM_DRAM_RETIREMENT_FAILURE", RESET_GPU, CRITICAL),
    65: Xid("NVENC1_ERROR", CONTACT_SUPPORT, WARNING),
    66: Xid("FECS_ERR_REG_ACCESS_VIOLATION", IGNORE, NONE),
    67: Xid("FECS_ERR_VERIF_VIOLATION", IGNORE, NONE),
    # Azure's health checks drain on it; catalogue and Kubernetes: the application's.
    68: Xid("NVDEC0_ERROR", RESTART_APP, NONE),
    # Azure's health checks drain on it; the catalogue: the application's.
    69: Xid("GR_CLASS_ERROR", RESTART_APP, NONE),
    70: Xid("CE3_ERROR", RESTART_APP, NONE),
    71: Xid("CE4_ERROR", RESTART_APP, NONE),
    72: Xid("CE5_ERROR", RESTART_APP, NONE),
    73: Xid("NVENC2_ERROR", CONTACT_SUPPORT, WARNING),
    74: Xid("NVLINK_ERROR", NVLINK, ERROR),
    75: Xid("CE6_ERROR", RESTART_APP, NONE),
    76: Xid("CE7_ERROR", RESTART_APP, NONE),
    77: Xid("CE8_ERROR", RESTART_APP, NONE),
    78: Xid("VGPU_START_ERROR", UPDATE, WARNING),
    79: Xid("GPU_HAS_FALLEN_OFF_THE_BUS", RESTART_MACHINE, CRITICAL),
    80: Xid("PBDMA_PUSHBUFFER_CRC_MISMATCH", RESTART_APP, NONE),
    81: Xid("VGA_SUBSYSTEM_ERROR", CONTACT_SUPPORT, WARNING),
    82: Xid("NVJPG0_ERROR", RESTART_APP, NONE),
    83: Xid("NVDEC1_ERROR", RESTART_APP, NONE),
    84: Xid("NVDEC2_ERROR", RESTART_APP, NONE),
    85: Xid("CE9_ERROR", RESTART_APP, NONE),
    86: Xid("OFA0_ERROR", RESTART_APP, NONE),
    87: Xid("NVTELEMETRY_DRIVER_REPORT", CONTACT_SUPPORT, WARNING),
    88: Xid("NVDEC3_ERROR", RESTART_APP, NONE),
    89: Xid("NVDEC4_ERROR", RESTART_APP, NONE),
    90: Xid("LTC_ERROR", CONTACT_SUPPORT, WARNING),
    91: Xid("RESERVED_XID", CONTACT_SUPPORT, WARNING),
    # Ignored in the catalogue; many corrected errors come before one that is not.
    92: Xid("EXCESSIVE_SBE_INTERRUPTS", IGNORE, WARNING),
    93: Xid("INFOROM_ERASE_LIMIT_EXCEEDED", IGNORE, NONE),
    # The catalogue restarts the application; its row is remapped at the next reset.
    94: Xid("CONTAINED_ERROR", RESTART_APP, WARNING),
    # Errors that reached other processes of the board.
    95: Xid("UNCONTAINED_ERROR", RESET_GPU, CRITICAL),
    96: Xid("NVDEC5_ERROR", RESTART_APP, NONE),
    97: Xid("NVDEC6_ERROR", RESTART_APP, NONE),
    98: Xid("NVDEC7_ERROR", RESTART_APP, NONE),
    99: Xid("NVJPG1_ERROR", RESTART_APP, NONE),
    100: Xid("NVJPG2_ERROR", RESTART_APP, NONE),
    101: Xid("NVJPG3_ERROR", RESTART_APP, NONE),
    102: Xid("NVJPG4_ERROR", RESTART_APP, NONE),
    103: Xid("NVJPG5_ERROR", RESTART_APP, NONE),
    104: Xid("NVJPG6_ERROR", RESTART_APP, NONE),
    105: Xid("NVJPG7_ERROR", RESTART_APP, NONE),
    106: Xid("SMBPBI_TEST_MESSAGE", IGNORE, NONE),
    107: Xid("SMBPBI_TEST_MESSAGE_SILENT", IGNORE, NONE),
    108: Xid("NVLINK_REMOTE_TRANSLATION_ERROR", IGNORE, NONE),
    # Kubernetes' device plugin ignores it; the catalogue resets the board.
    109: Xid("CTXSW_TIMEOUT_ERROR", RESET_GPU, ERROR),
    110: Xid("SEC_FAULT_ERROR", RESET_GPU, ERROR),
    111: Xid("BUNDLE_ERROR_EVENT", CONTACT_SUPPORT, WARNING),
    112: Xid("DISP_SUPERVISOR_ERROR", CONTACT_SUPPORT, WARNING),
    113: Xid("DP_LT_FAILURE", CONTACT_SUPPORT, WARNING),
    114: Xid("HEAD_RG_UNDERFLOW", CONTACT_SUPPORT, WARNING),
    115: Xid("CORE_CHANNEL_REGS", CONTACT_SUPPORT, WARNING),
    116: Xid("WINDOW_CHANNEL_REGS", CONTACT_SUPPORT, WARNING),
    117: Xid("CURSOR_CHANNEL_REGS", CONTACT_SUPPORT, WARNING),
    118: Xid("HEAD_REGS", CONTACT_SUPPORT, WARNING),
    # The catalogue resets the board; in practice (gpud) only a reboot brings its GSP back.
    119: Xid("GSP_RPC_TIMEOUT", RESTART_MACHINE, ERROR),
    120: Xid("GSP_ERROR", RESET_GPU, ERROR),
    121: Xid("C2C_ERROR", IGNORE, NONE),
    122: Xid("SPI_PMU_RPC_READ_FAIL", CONTACT_SUPPORT, WARNING),
    123: Xid("SPI_PMU_RPC_WRITE_FAIL", CONTACT_SUPPORT, WARNING),
    124: Xid("SPI_PMU_RPC_ERASE_FAIL", CONTACT_SUPPORT, WARNING),
    125: Xid("INFOROM_FS_ERROR", CONTACT_SUPPORT, WARNING),
    126: Xid("CE10_ERROR", RESTART_APP, NONE),
    127: Xid("CE11_ERROR", RESTART_APP, NONE),
    128: Xid("CE12_ERROR", RESTART_APP, NONE),
    129: Xid("CE13_ERROR", RESTART_APP, NONE),
    130: Xid("CE14_ERROR", RESTART_APP, NONE),
    131: Xid("CE15_ERROR", RESTART_APP, NONE),
    132: Xid("CE16_ERROR", RESTART_APP, NONE),
    133: Xid("CE17_ERROR", RESTART_APP, NONE),
    134: Xid("CE18_ERROR", RESTART_APP, NONE),
    135: Xid("CE19_ERROR", RESTART_APP, NONE),
    136: Xid("ALI_TRAINING_FAIL", RESET_GPU, ERROR),
    137: Xid("NVLINK_PRIV_ERR", IGNORE, NONE),
    138: Xid("DLA_ERROR", CONTACT_SUPPORT, WARNING),
    139: Xid("OFA1_ERROR", RESTART_APP, NONE),
    # Flipped bits that nothing contained.
    140: Xid("UNRECOVERABLE_ECC_ERROR_ESCAPE", RESET_GPU, CRITICAL),
    141: Xid("FAST_PATH_ERROR", IGNORE, NONE),
    142: Xid("NVENC3_ERROR", CONTACT_SUPPORT, WARNING),
    # A board that did not come up at all.
    143: Xid("GPU_INIT_ERROR", RESET_GPU, CRITICAL),
    144: Xid("NVLINK_SAW_ERROR", NVLINK, ERROR),
    145: Xid("NVLINK_RLW_ERROR", NVLINK, ERROR),
    146: Xid("NVLINK_TLW_ERROR", NVLINK, ERROR),
    147: Xid("NVLINK_TREX_ERROR", NVLINK, ERROR),
    148: Xid("NVLINK_NVLPW_CTRL_ERROR", NVLINK, ERROR),
    149: Xid("NVLINK_NETIR_ERROR", NVLINK, ERROR),
    150: Xid("NVLINK_MSE_ERROR", NVLINK, ERROR),
    151: Xid("KEY_ROTATION_ERROR", RESTART_MACHINE, CRITICAL),
    152: Xid("DLA_SMMU_ERROR", IGNORE, NONE),
    153: Xid("DLA_TIMEOUT", IGNORE, NONE),
    154: Xid("GPU_RECOVERY_ACTION_CHANGED", FOLLOW, NONE),
    155: Xid("NVLINK_SW_DEFINED_ERROR", RESET_GPU, ERROR),
    156: Xid("RESOURCE_RETIREMENT_EVENT", RESET_GPU, ERROR),
    # Ignored in the catalogue; a bad part of the board stays in use.
    157: Xid("RESOURCE_RETIREMENT_FAILURE", IGNORE, ERROR),
    158: Xid("GPU_FATAL_TIMEOUT", RESET_GPU, ERROR),
    # The catalogue: see whether the program uses unified memory.
    159: Xid("CHI_NON_DATA_ERROR", RESTART_APP, WARNING),
    # Ignored in the catalogue; what retired does not come back.
    160: Xid("CHANNEL_RETIREMENT_EVENT", IGNORE, WARNING),
    # As 160.
    161: Xid("CHANNEL_RETIREMENT_FAILURE", IGNORE, WARNING),
    # Power smoothing is in use again.
    162: Xid("PSHC_REENGAGED", UNDEFINED, NONE),
    # Power smoothing alone: clocks and results stay as they are.
    163: Xid("PSHC_DISENGAGED", UNDEFINED, NONE),
    164: Xid("PSHC_LOW_LIFETIME", UNDEFINED, WARNING),
    165: Xid("PSHC_ZERO_LIFETIME", UNDEFINED, WARNING),
    166: Xid("NVLINK_SECURE_CRYPTO_ERR", UNDEFINED, WARNING),
    # Blank in the catalogue; the board does not answer over PCIe.
    167: Xid("PCIE_FATAL_TIMEOUT", UNDEFINED, CRITICAL),
    # Blank in the catalogue; gpu.memory sees what is left.
    168: Xid("REDUCED_GPU_MEMORY_CAPACITY", UNDEFINED, ERROR),
    169: Xid("SEC2_HALT_ERROR", UNDEFINED, WARNING),
    170: Xid("NVLINK_SECURE_OTHER", UNDEFINED, WARNING),
    # Blank in the catalogue; says where the error of 48 was.
    171: Xid("UNCORRECTABLE_DRAM_ERROR", UNDEFINED, NONE),
    # Blank in the catalogue; says where the error of 48 was.
    172: Xid("UNCORRECTABLE_SRAM_ERROR", UNDEFINED, NONE),
}

UNLISTED = Xid("not in the catalogue", UNDEFINED, WARNING)

OFF_THE_BUS = 79
"""The board no longer answers: it is missing from every list."""
NVLINKS = frozenset(number for number, xid in XIDS.items() if xid.action is Action.NVLINK)
MEMORY = frozenset({48, 63, 64, 92, 94, 95, 140, 171, 172})
"""Errors of the board's memory: its counters and remapped rows tell the same."""

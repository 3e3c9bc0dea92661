"""NVIDIA L4, L40, L40S and RTX 6000 Ada. None of them has MIG or NVLink."""

from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.gpus._sources import FAMILY, LISTED, LOGS, NO_MIG, smi

MODELS = {
    "l4": GpuModel(
        product_name="NVIDIA L4",
        architecture="ada",
        memory_mib=23034,
        default_power_limit_w=72.0,
        power_limits_w=(40.0, 72.0),
        max_sm_clock_mhz=2040,
        mig_profiles=(),
        sources={
            smi("550.90.07"): "product_name architecture memory_mib default_power_limit_w "
            "power_limits_w max_sm_clock_mhz mig_profiles",
        },
    ),
    "l40": GpuModel(
        product_name="NVIDIA L40",
        architecture="ada",
        memory_mib=46068,
        default_power_limit_w=300.0,
        mig_profiles=(),
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib default_power_limit_w",
            NO_MIG: "mig_profiles",
        },
    ),
    "l40s": GpuModel(
        product_name="NVIDIA L40S",
        architecture="ada",
        memory_mib=46068,
        default_power_limit_w=350.0,
        power_limits_w=(100.0, 350.0),
        max_sm_clock_mhz=2520,
        mig_profiles=(),
        first_listed=535,
        sources={
            "utkuozdemir/nvidia_gpu_exporter, a capture with driver 595.80": "product_name "
            "architecture memory_mib default_power_limit_w power_limits_w max_sm_clock_mhz "
            "mig_profiles",
            LISTED: "first_listed",
        },
    ),
    "rtx_6000_ada": GpuModel(
        product_name="NVIDIA RTX 6000 Ada Generation",
        architecture="ada",
        memory_mib=49140,
        default_power_limit_w=300.0,
        power_limits_w=(100.0, 300.0),
        max_sm_clock_mhz=3105,
        mig_profiles=(),
        ecc=False,
        sources={
            smi("550"): "product_name architecture memory_mib default_power_limit_w "
            "power_limits_w max_sm_clock_mhz mig_profiles ecc",
        },
    ),
}

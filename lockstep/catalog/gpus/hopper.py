"""NVIDIA H100, H200, H800 and GH200."""

from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.gpus._sources import (
    FAMILY,
    LISTED,
    LOGS,
    MIG_GUIDE,
    MIG_PARTED,
    smi,
)

MIG_80GB = ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
MIG_94GB = ("1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb")
MIG_96GB = ("1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb")
MIG_141GB = ("1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")
MIG_144GB = ("1g.18gb", "1g.18gb+me", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb")

MODULE = "as the GH200 480GB, which is the same module with other memory"
GRACE = "NVIDIA GPU operator, platform support: GH200 needs the open kernel modules"

MODELS = {
    "h100": GpuModel(
        product_name="NVIDIA H100 80GB HBM3",
        architecture="hopper",
        memory_mib=81559,
        default_power_limit_w=700.0,
        power_limits_w=(200.0, 700.0),
        max_sm_clock_mhz=1980,
        nvlinks="18 x 26.562 GB/s",
        mig_profiles=MIG_80GB,
        sources={
            "utkuozdemir/nvidia_gpu_exporter, a capture with driver 590.48.01; "
            "NVIDIA/k8s-test-infra, qx-h100.xml": "product_name architecture memory_mib "
            "default_power_limit_w power_limits_w max_sm_clock_mhz nvlinks",
            MIG_GUIDE: "mig_profiles",
        },
    ),
    "h100_nvl": GpuModel(
        product_name="NVIDIA H100 NVL",
        architecture="hopper",
        memory_mib=95830,
        # The default depends on the VBIOS: 310 W was recorded, up to 400 W are possible.
        power_limits_w=(200.0, 400.0),
        max_sm_clock_mhz=1785,
        mig_profiles=MIG_94GB,
        first_listed=535,
        sources={
            smi("550.54.14"): "product_name architecture memory_mib power_limits_w "
            "max_sm_clock_mhz",
            LISTED: "first_listed",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "h100_pcie": GpuModel(
        product_name="NVIDIA H100 PCIe",
        architecture="hopper",
        memory_mib=81559,
        # Public logs show GPUs with 310 W and with 350 W.
        mig_profiles=MIG_80GB,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "h200": GpuModel(
        product_name="NVIDIA H200",
        architecture="hopper",
        memory_mib=143771,
        default_power_limit_w=700.0,
        power_limits_w=(200.0, 700.0),
        max_sm_clock_mhz=1980,
        nvlinks="18 x 26.562 GB/s",
        mig_profiles=MIG_141GB,
        first_listed=550,
        sources={
            "a real GPU, driver 590.48.01 (tests/captures/h200)": "product_name architecture "
            "memory_mib default_power_limit_w power_limits_w max_sm_clock_mhz nvlinks",
            MIG_GUIDE: "mig_profiles",
            LISTED: "first_listed",
        },
    ),
    "h200_nvl": GpuModel(
        product_name="NVIDIA H200 NVL",
        architecture="hopper",
        memory_mib=143771,
        default_power_limit_w=600.0,
        mig_profiles=MIG_141GB,
        first_listed=565,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name first_listed",
            LOGS: "memory_mib default_power_limit_w",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "h800": GpuModel(
        product_name="NVIDIA H800",
        architecture="hopper",
        memory_mib=81559,
        default_power_limit_w=700.0,
        mig_profiles=MIG_80GB,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib default_power_limit_w",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "h800_pcie": GpuModel(
        product_name="NVIDIA H800 PCIe",
        architecture="hopper",
        mig_profiles=MIG_80GB,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            MIG_PARTED: "mig_profiles",
        },
    ),
    # 96 GB of HBM3; the name has the memory of the CPU.
    "gh200": GpuModel(
        product_name="NVIDIA GH200 480GB",
        architecture="hopper",
        memory_mib=97871,
        default_power_limit_w=900.0,
        power_limits_w=(100.0, 900.0),
        max_sm_clock_mhz=1980,
        mig_profiles=MIG_96GB,
        shares_power=True,
        only_open=True,
        first_listed=535,
        sources={
            # Recorded: 700 W in force, 900 W set, in a module with 1000 W.
            smi("550.127.05"): "product_name architecture memory_mib default_power_limit_w "
            "power_limits_w max_sm_clock_mhz shares_power",
            LISTED: "first_listed",
            MIG_PARTED: "mig_profiles",
            GRACE: "only_open",
        },
    ),
    "gh200_144gb": GpuModel(
        product_name="NVIDIA GH200 144G HBM3e",
        architecture="hopper",
        memory_mib=146831,
        mig_profiles=MIG_144GB,
        shares_power=True,
        only_open=True,
        first_listed=565,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name first_listed",
            MODULE: "shares_power",
            "nvidia-smi --query-gpu of two real GPUs, driver 580.173.02, in a public "
            "repository": "memory_mib",
            MIG_PARTED: "mig_profiles",
            GRACE: "only_open",
        },
    ),
}

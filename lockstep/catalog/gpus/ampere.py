"""NVIDIA A100, A800, A30, A40, A10 and A10G. Some machines have an A100 SXM with 500 W."""

from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.gpus._sources import (
    FAMILY,
    LISTED,
    LOGS,
    MIG_GUIDE,
    MIG_PARTED,
    smi,
)

# 1g.10gb of the 40 GB GPUs from driver 525 on.
MIG_40GB = ("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
MIG_80GB = ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")

MODELS = {
    "a10": GpuModel(
        product_name="NVIDIA A10",
        architecture="ampere",
        memory_mib=23028,
        default_power_limit_w=150.0,
        power_limits_w=(100.0, 150.0),
        max_sm_clock_mhz=1695,
        mig_profiles=(),
        sources={
            smi("550.90.12, and of a second one, 550.127.05"): "product_name architecture "
            "memory_mib default_power_limit_w power_limits_w max_sm_clock_mhz mig_profiles",
        },
    ),
    "a10g": GpuModel(
        product_name="NVIDIA A10G",
        architecture="ampere",
        memory_mib=23028,
        default_power_limit_w=300.0,
        power_limits_w=(100.0, 300.0),
        max_sm_clock_mhz=1710,
        mig_profiles=(),
        sources={
            smi("535.247.01"): "product_name architecture memory_mib default_power_limit_w "
            "power_limits_w max_sm_clock_mhz mig_profiles",
        },
    ),
    "a30": GpuModel(
        product_name="NVIDIA A30",
        architecture="ampere",
        memory_mib=24576,
        default_power_limit_w=165.0,
        mig_profiles=("1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"),
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib default_power_limit_w",
            MIG_GUIDE: "mig_profiles",
        },
    ),
    "a40": GpuModel(
        product_name="NVIDIA A40",
        architecture="ampere",
        memory_mib=46068,
        default_power_limit_w=300.0,
        power_limits_w=(100.0, 300.0),
        max_sm_clock_mhz=1740,
        mig_profiles=(),
        sources={
            smi("550.127.05"): "product_name architecture memory_mib default_power_limit_w "
            "power_limits_w max_sm_clock_mhz mig_profiles",
        },
    ),
    "a100": GpuModel(
        product_name="NVIDIA A100-SXM4-80GB",
        architecture="ampere",
        memory_mib=81920,
        default_power_limit_w=400.0,
        power_limits_w=(100.0, 400.0),
        max_sm_clock_mhz=1410,
        nvlinks="12 x 25 GB/s",
        mig_profiles=MIG_80GB,
        sources={
            FAMILY: "architecture",
            "NVIDIA/DCGM, issue 152, driver 535.104.05": "product_name default_power_limit_w "
            "power_limits_w max_sm_clock_mhz nvlinks",
            "influxdata/telegraf, a capture with driver 535.54.03": "memory_mib",
            MIG_GUIDE: "mig_profiles",
        },
    ),
    "a100_40gb": GpuModel(
        product_name="NVIDIA A100-SXM4-40GB",
        architecture="ampere",
        memory_mib=40960,
        default_power_limit_w=400.0,
        power_limits_w=(100.0, 400.0),
        max_sm_clock_mhz=1410,
        nvlinks="12 x 25 GB/s",
        mig_profiles=MIG_40GB,
        sources={
            "NVIDIA/k8s-test-infra, qx-a100.xml, driver 570.148.08": "product_name architecture "
            "memory_mib default_power_limit_w power_limits_w max_sm_clock_mhz",
            "nvidia-smi nvlink -s of the 80 GB version of the GPU": "nvlinks",
            MIG_GUIDE: "mig_profiles",
        },
    ),
    "a100_pcie": GpuModel(
        product_name="NVIDIA A100 80GB PCIe",
        architecture="ampere",
        memory_mib=81920,
        default_power_limit_w=300.0,
        mig_profiles=MIG_80GB,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib default_power_limit_w",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "a100_pcie_40gb": GpuModel(
        product_name="NVIDIA A100-PCIE-40GB",
        architecture="ampere",
        memory_mib=40960,
        default_power_limit_w=250.0,
        mig_profiles=MIG_40GB,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib default_power_limit_w",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "a800": GpuModel(
        product_name="NVIDIA A800-SXM4-80GB",
        architecture="ampere",
        memory_mib=81920,
        default_power_limit_w=400.0,
        mig_profiles=MIG_80GB,
        first_listed=515,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name first_listed",
            LOGS: "memory_mib default_power_limit_w",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "a800_40gb": GpuModel(
        product_name="NVIDIA A800-SXM4-40GB",
        architecture="ampere",
        first_listed=535,
        sources={FAMILY: "architecture", LISTED: "product_name first_listed"},
    ),
    "a800_pcie": GpuModel(
        product_name="NVIDIA A800 80GB PCIe",
        architecture="ampere",
        memory_mib=81920,
        default_power_limit_w=300.0,
        mig_profiles=MIG_80GB,
        first_listed=515,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name first_listed",
            LOGS: "memory_mib default_power_limit_w",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "a800_pcie_40gb": GpuModel(
        product_name="NVIDIA A800 40GB Active",
        architecture="ampere",
        mig_profiles=MIG_40GB,
        first_listed=535,
        sources={
            FAMILY: "architecture",
            LISTED: "product_name first_listed",
            MIG_PARTED: "mig_profiles",
        },
    ),
}

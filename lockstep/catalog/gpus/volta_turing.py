"""NVIDIA V100 and T4. The driver still calls them Tesla."""

from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.gpus._sources import FAMILY, LOGS, NO_MIG

MODELS = {
    "t4": GpuModel(
        product_name="Tesla T4",
        architecture="turing",
        memory_mib=15360,
        default_power_limit_w=70.0,
        power_limits_w=(60.0, 70.0),
        max_sm_clock_mhz=1590,
        mig_profiles=(),
        sources={
            "NVIDIA/k8s-test-infra, qx-t4.xml, driver 595.91.07; the same with 515.105.01 in "
            "influxdata/telegraf": "product_name architecture memory_mib default_power_limit_w "
            "power_limits_w max_sm_clock_mhz mig_profiles",
        },
    ),
    "v100": GpuModel(
        product_name="Tesla V100-SXM2-32GB",
        architecture="volta",
        memory_mib=32768,
        default_power_limit_w=300.0,
        power_limits_w=(150.0, 300.0),
        max_sm_clock_mhz=1530,
        mig_profiles=(),
        sources={
            FAMILY: "architecture",
            "NVIDIA/nvidia-docker, issue 1076": "product_name default_power_limit_w "
            "power_limits_w max_sm_clock_mhz",
            # Drivers before 510 report less.
            "a public log of nvidia-smi from 2025": "memory_mib",
            NO_MIG: "mig_profiles",
        },
    ),
    "v100_16gb": GpuModel(
        product_name="Tesla V100-SXM2-16GB",
        architecture="volta",
        memory_mib=16384,
        default_power_limit_w=300.0,
        mig_profiles=(),
        sources={
            FAMILY: "architecture",
            LOGS: "product_name memory_mib default_power_limit_w",
            NO_MIG: "mig_profiles",
        },
    ),
    "v100_pcie": GpuModel(
        product_name="Tesla V100-PCIE-32GB",
        architecture="volta",
        memory_mib=32768,
        default_power_limit_w=250.0,
        mig_profiles=(),
        sources={
            FAMILY: "architecture",
            LOGS: "product_name memory_mib default_power_limit_w",
            NO_MIG: "mig_profiles",
        },
    ),
}

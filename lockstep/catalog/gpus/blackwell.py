"""NVIDIA B200, B300, GB200, GB300 and RTX PRO 6000.

GB200 and GB300 are one of the two GPUs of a module; both have the module's serial number.
"""

from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.gpus._sources import LISTED, LOGS, MIG_GUIDE, MIG_PARTED

B300_LINKS = "nvidia-smi nvlink -s of a real B300"
MEASURED = (
    "product_name architecture memory_mib default_power_limit_w power_limits_w max_sm_clock_mhz"
)
WORKSTATION = "NVIDIA/open-gpu-kernel-modules, README.md: the name has the architecture"

ECC_VARIES = "influxdata/telegraf, pro-6000-maxq-blackwell-v13.xml: ECC is off; logs have both"

MODELS = {
    "b200": GpuModel(
        product_name="NVIDIA B200",
        architecture="blackwell",
        memory_mib=183359,
        default_power_limit_w=1000.0,
        power_limits_w=(200.0, 1000.0),
        max_sm_clock_mhz=1965,
        nvlinks="18 x 53.125 GB/s",
        mig_profiles=(
            "1g.23gb",
            "1g.23gb+me",
            "1g.45gb",
            "2g.45gb",
            "3g.90gb",
            "4g.90gb",
            "7g.180gb",
        ),
        first_driver="570.133.20",
        sources={
            "NVIDIA/k8s-test-infra, qx-b200.xml, driver 580.105.08": MEASURED,
            B300_LINKS + ", which has the same links": "nvlinks",
            MIG_GUIDE: "mig_profiles",
            "NVIDIA GPU operator, platform support: HGX B200 needs 570.133.20": "first_driver",
        },
    ),
    "b300": GpuModel(
        product_name="NVIDIA B300 SXM6 AC",
        architecture="blackwell",
        memory_mib=275040,
        default_power_limit_w=1100.0,
        nvlinks="18 x 53.125 GB/s",
        mig_profiles=(
            "1g.34gb",
            "1g.34gb+me",
            "1g.67gb",
            "2g.67gb",
            "3g.135gb",
            "4g.135gb",
            "7g.269gb",
        ),
        first_listed=580,
        sources={
            "NVIDIA, NIM release notes of 2026-05: B300 is a Blackwell Ultra GPU": "architecture",
            LISTED: "product_name first_listed",
            LOGS: "memory_mib default_power_limit_w",
            B300_LINKS: "nvlinks",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "gb200": GpuModel(
        product_name="NVIDIA GB200",
        architecture="blackwell",
        memory_mib=189471,
        default_power_limit_w=1200.0,
        power_limits_w=(200.0, 1200.0),
        max_sm_clock_mhz=2062,
        nvlinks="18 x 53.125 GB/s",
        mig_profiles=(
            "1g.23gb",
            "1g.23gb+me",
            "1g.47gb",
            "2g.47gb",
            "3g.93gb",
            "4g.93gb",
            "7g.186gb",
        ),
        sources={
            "NVIDIA/k8s-test-infra, qx-gb200.xml, driver 580.173.02": MEASURED,
            B300_LINKS + ", which has the same links": "nvlinks",
            MIG_PARTED: "mig_profiles",
        },
    ),
    "gb300": GpuModel(
        product_name="NVIDIA GB300",
        architecture="blackwell",
        memory_mib=284208,
        default_power_limit_w=1400.0,
        power_limits_w=(200.0, 1400.0),
        max_sm_clock_mhz=2070,
        nvlinks="18 x 53.125 GB/s",
        # The names of branch 590; 610 has other names.
        mig_profiles=(
            "1g.35gb",
            "1g.35gb+me",
            "1g.70gb",
            "2g.70gb",
            "3g.139gb",
            "4g.139gb",
            "7g.278gb",
        ),
        first_listed=580,
        sources={
            "NVIDIA/k8s-test-infra, qx-gb300.xml, driver 580.173.02": MEASURED,
            B300_LINKS + ", which has the same links": "nvlinks",
            "NVIDIA/dgx-spark-playbooks, MIG on GB300": "mig_profiles",
            LISTED: "first_listed",
        },
    ),
    "rtx_pro_6000": GpuModel(
        product_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        architecture="blackwell",
        memory_mib=97887,
        ecc=None,
        default_power_limit_w=600.0,
        mig_profiles=(
            "1g.24gb",
            "1g.24gb+me",
            "1g.24gb+gfx",
            "1g.24gb+me.all",
            "1g.24gb-me",
            "2g.48gb",
            "2g.48gb+gfx",
            "2g.48gb+me.all",
            "2g.48gb-me",
            "4g.96gb",
            "4g.96gb+gfx",
        ),
        first_driver="575.57.08",
        sources={
            ECC_VARIES: "ecc",
            WORKSTATION: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib",
            "two public logs of power.limit and power.default_limit; NVIDIA's data "
            "sheet": "default_power_limit_w",
            MIG_GUIDE + "; nvidia-smi mig -lgip of a real GPU": "mig_profiles",
            "Container-Optimized OS, gpu_driver_versions: needs 575.57.08; the first release that "
            "NVIDIA/open-gpu-kernel-modules lists it in": "first_driver",
        },
    ),
    "rtx_pro_6000_workstation": GpuModel(
        product_name="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        architecture="blackwell",
        memory_mib=97887,
        ecc=None,
        default_power_limit_w=600.0,
        sources={
            ECC_VARIES: "ecc",
            WORKSTATION: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib default_power_limit_w",
        },
    ),
    "rtx_pro_6000_max_q": GpuModel(
        product_name="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        architecture="blackwell",
        memory_mib=97887,
        ecc=None,
        sources={
            ECC_VARIES: "ecc",
            WORKSTATION: "architecture",
            LISTED: "product_name",
            LOGS: "memory_mib",
        },
    ),
}

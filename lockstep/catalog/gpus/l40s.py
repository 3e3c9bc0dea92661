"""NVIDIA L40S, 48 GB.

Values read from a real GPU, driver 595.80 (a capture in
github.com/utkuozdemir/nvidia_gpu_exporter). The GPU reports ``[N/A]`` for MIG.
"""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="NVIDIA L40S",
    memory_mib=46068,
    default_power_limit_w=350.0,
    power_limits_w=(100.0, 350.0),
    max_sm_clock_mhz=2520,
    architecture="ada",
)

"""NVIDIA V100 SXM2, 32 GB. The driver still calls it Tesla.

Power and clocks: `nvidia-smi -q` of a real GPU (github.com/NVIDIA/nvidia-docker, issue 1076).
Memory: a public log of nvidia-smi from 2025; old drivers report less.
"""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="Tesla V100-SXM2-32GB",
    memory_mib=32768,
    default_power_limit_w=300.0,
    power_limits_w=(150.0, 300.0),
    max_sm_clock_mhz=1530,
    architecture="volta",
)

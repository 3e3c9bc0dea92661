"""NVIDIA H200 SXM, 141 GB. Figures read from a real board, driver 590.48.01."""

from lockstep.catalog.gpus import GpuModel

MODEL = GpuModel(
    product_name="NVIDIA H200",
    memory_mib=143771,
    default_power_limit_w=700.0,
)
